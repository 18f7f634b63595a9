# SPDX-License-Identifier: Apache-2.0
"""The price of a task split, for the slow twins of both libraries' growers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TaskColumn:
    """Column of the bins that holds each row's task, and c."""

    column: int
    penalty: float


def dispersion(pairs: Doubles) -> float:
    """σ² = Σ g² / Σ h over the rows of a tree; pairs (g, h) of shape (n_rows, 2)."""
    squares, hessian = math.fsum(pairs[:, 0] ** 2), math.fsum(pairs[:, 1])
    return squares / hessian if hessian > 0 else 0.0


def gain_by_chance(n_tasks: int) -> float:
    """What the best division of tasks that are all alike gains, about, in units of σ²."""
    return 1.0 + max(n_tasks - 2, 0) * 2.0 / math.pi


def score(s: float, n_tasks: int, sigma2: float, penalty: float) -> np.float32:
    """S = s − c σ² (1 + (T − 2) 2/π)."""
    return np.float32(s - penalty * sigma2 * gain_by_chance(n_tasks))


def best_gain(G: Doubles, H: Doubles) -> Doubles:
    """Largest s of all divisions of tasks in two that G / H orders, in many nodes at once.

    G and H have shape (n_nodes, n_tasks). No other division gains more: with both sides' means
    given, each task adds most on the side whose mean is nearer.
    """
    order = np.argsort(G / H, axis=1)
    left_G = np.cumsum(np.take_along_axis(G, order, axis=1), axis=1)
    left_H = np.cumsum(np.take_along_axis(H, order, axis=1), axis=1)
    whole_G, whole_H = left_G[:, -1:], left_H[:, -1:]
    left_G, left_H = left_G[:, :-1], left_H[:, :-1]
    right = (whole_G - left_G) ** 2 / (whole_H - left_H)
    return (left_G**2 / left_H + right - whole_G**2 / whole_H).max(axis=1)
