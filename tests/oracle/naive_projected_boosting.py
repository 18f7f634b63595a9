# SPDX-License-Identifier: Apache-2.0
"""The slow, obvious twin of cpp/core/boosting, in the order of joly2016, chapter 6.

Losses of many outputs are written as their definitions, one label after another. Labels have one
column per output; a NaN is a label that is unknown, and takes part in nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

f32 = np.float32


# Losses -------------------------------------------------------------------------------------------


def huber(u: Doubles, delta: float) -> Doubles:
    return np.where(np.abs(u) <= delta, u**2 / 2, delta * (np.abs(u) - delta / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One of the core's, over labels of shape (n_rows, n_outputs)."""

    name: str
    delta: float = 1.0

    def values(self, Y: Doubles, F: Doubles) -> Doubles:
        """Loss of each label, NaN where it is unknown; of softmax: of each row, in one column."""
        match self.name:
            case "squared":
                return (Y - F) ** 2 / 2
            case "absolute":
                return np.abs(Y - F)
            case "huber":
                return huber(Y - F, self.delta)
            case "logistic":
                return np.logaddexp(0, F) - Y * F
            case _:
                return np.logaddexp.reduce(F, axis=1, keepdims=True) - (Y * F).sum(1, keepdims=True)

    def mean(self, Y: Doubles, F: Doubles, W: Doubles) -> float:
        """Weighted mean over the known labels; of softmax: over the rows."""
        values = self.values(Y, F)
        known = np.isfinite(values)
        W = W[:, : values.shape[1]][known]
        return float((W * values[known]).sum() / W.sum()) if W.sum() > 0 else 0.0

    def residuals(self, Y: Doubles, F: Doubles) -> Doubles:
        """Minus the derivative in each margin; 0 where the label is unknown."""
        u = Y - F
        match self.name:
            case "squared":
                R = u
            case "absolute":
                R = np.sign(u)
            case "huber":
                R = np.clip(u, -self.delta, self.delta)
            case "logistic":
                R = Y - 1 / (1 + np.exp(-F))
            case _:
                R = Y - softmax(F)
        return np.nan_to_num(R, nan=0.0)

    def hessians(self, Y: Doubles, F: Doubles) -> Doubles:
        """Second derivative, or the bound that stands for it; 0 where the label is unknown."""
        match self.name:
            case "logistic":
                P = 1 / (1 + np.exp(-F))
                H = P * (1 - P)
            case "softmax":
                H = 2 * softmax(F) * (1 - softmax(F))
            case _:
                H = np.ones_like(F)
        return np.where(np.isnan(Y), 0.0, H)

    def initial(self, Y: Doubles, W: Doubles) -> Doubles:
        """The constant of each output with the smallest loss."""
        constants = np.zeros(Y.shape[1])
        for output, (y, w) in enumerate(zip(Y.T, W.T, strict=True)):
            known = ~np.isnan(y) & (w > 0)
            y, w = y[known], w[known]
            if len(y) == 0:
                continue
            bound = 1 / (2 * len(y))
            p = np.clip(w @ y / w.sum(), bound, 1 - bound)
            match self.name:
                case "squared":
                    constants[output] = w @ y / w.sum()
                case "absolute":
                    constants[output] = weighted_median(y, w)
                case "huber":
                    constants[output] = huber_step(y, np.ones_like(y), w, self.delta)
                case "logistic":
                    constants[output] = np.log(p / (1 - p))
                case _:
                    constants[output] = np.log(p)
        return constants


def softmax(F: Doubles) -> Doubles:
    P = np.exp(F - F.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


# Along a line: Σ w loss(u - t g) ------------------------------------------------------------------


def weighted_median(values: Doubles, weights: Doubles) -> float:
    """Where half the weight lies below; the middle of what fits, as for numpy.median."""
    order = np.argsort(values, kind="stable")
    values, sums = values[order], np.cumsum(weights[order])
    upper = int(np.argmax(2 * sums > sums[-1]))
    lower = int(np.argmax(2 * sums >= sums[-1]))
    return float((values[lower] + values[upper]) / 2)


def huber_step(u: Doubles, g: Doubles, w: Doubles, delta: float) -> float:
    """By bisection of the derivative; where it is 0 at the median it ends there."""
    u, g, w = u[g != 0], g[g != 0], w[g != 0]
    if len(u) == 0:
        return 0.0
    low, high = float((u / g).min()), float((u / g).max())

    def slope(t: float) -> float:
        return float((w * g * np.clip(u - t * g, -delta, delta)).sum())

    t = weighted_median(u / g, w * np.abs(g))
    if abs(slope(t)) <= 1e-13 * delta * (w * np.abs(g)).sum():
        return t
    return bisect(slope, low, high)


def bisect(falling: Callable[[float], float], low: float, high: float) -> float:
    """Root of a function that falls."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2
