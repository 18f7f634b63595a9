# SPDX-License-Identifier: Apache-2.0
"""Descriptors of tasks, row by row: the slow twin of mtboost/trees/task_descriptors.py."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / math.fsum(weights)


def describe(
    X: Doubles, labels: Sequence[Doubles], task: NDArray[np.int64], weight: Doubles, most: int
) -> list[list[float]]:
    """Shrunk values of the tasks, one list a descriptor; all tasks have rows of some weight."""
    tasks = sorted(set(task.tolist()))
    rows = {t: np.flatnonzero(task == t) for t in tasks}
    size = {t: math.fsum(weight[rows[t]]) for t in tasks}

    def centred(values: Doubles) -> Doubles:
        rest = np.array(values, float)
        for t in tasks:
            rest[rows[t]] -= mean(values[rows[t]].tolist(), weight[rows[t]].tolist())
        return rest

    def shrunk(values: Doubles) -> tuple[float, list[float]] | None:
        """Excess of Cochran's Q, and values by DerSimonian and Laird; None where it is chance."""
        means = [mean(values[rows[t]].tolist(), weight[rows[t]].tolist()) for t in tasks]
        squares = math.fsum(w * r**2 for w, r in zip(weight, centred(values), strict=True))
        variance = squares / max(1.0, math.fsum(weight) - len(tasks))
        w = [size[t] / variance if variance else 1e100 for t in tasks]
        free = len(tasks) - 1
        q = math.fsum(a * (m - mean(means, w)) ** 2 for a, m in zip(w, means, strict=True))
        if free == 0 or (q - free) / math.sqrt(2 * free) <= 2.0:
            return None
        scale = math.fsum(w) - math.fsum(a**2 for a in w) / math.fsum(w)
        spread = max(0.0, (q - free) / scale)
        own = [1 / (1 / a + spread) for a in w]
        centre = mean(means, own)
        values_of_tasks = [
            centre + spread * a * (m - centre) for a, m in zip(own, means, strict=True)
        ]
        return (q - free) / math.sqrt(2 * free), values_of_tasks

    found = [[size[t] for t in tasks]]
    found += [each[1] for each in map(shrunk, labels) if each]
    kinds: list[list[tuple[float, list[float]]]] = [[], []]
    for x in X.T:
        present = np.isfinite(x)
        if not present.any():
            continue
        z = np.where(present, x - x[present].mean(), 0.0)
        if z.std() == 0:
            continue
        z = z / z.std()
        kinds[0] += [each for y in labels if (each := shrunk(centred(z) * centred(y)))]
        kinds[1] += [each for each in [shrunk(z)] if each]
    for kind in kinds:
        found += [values for _, values in sorted(kind, key=lambda each: -each[0])[:most]]
    return found
