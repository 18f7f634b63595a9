# SPDX-License-Identifier: Apache-2.0
"""Slow twin of cpp/core/forest/compression: a dense matrix of indicators, and a plain loop."""

from dataclasses import dataclass

import numpy as np

# Of equally correlated nodes the first counts. Sums of up to some hundred numbers near 1 are off by
# 1e-13 at most, and other nodes' correlations differ by far more.
ROUNDING = 1e-10


def visits(trees, X):
    """Whether each row visits each node of all trees, in the order of their arrays."""
    found = []
    for tree in trees:
        own = np.zeros((len(X), len(tree["left"])))
        for row, values in enumerate(X):
            node = 0
            own[row, node] = 1.0
            while tree["left"][node] >= 0:
                value = values[tree["feature"][node]]
                if np.isnan(value):
                    goes_left = tree["default_left"][node]
                else:
                    goes_left = value < tree["threshold"][node]
                node = tree["left"][node] + (0 if goes_left else 1)
                own[row, node] = 1.0
        found.append(own)
    return np.hstack(found)


@dataclass
class Path:
    nodes: list
    coefficients: list  # before the first step and after each: (node, output)
    intercepts: list
    losses: list
    valid_losses: list


def walk(indicators, y, valid_indicators, valid_y, epsilon, max_steps):
    """Incremental forward stagewise regression on centred indicators."""
    means = indicators.mean(axis=0)
    centred = indicators - means
    mean_label = y.mean(axis=0)
    coefficients = np.zeros((indicators.shape[1], y.shape[1]))

    def residuals(rows, labels):
        return labels - mean_label - (rows - means) @ coefficients

    path = Path([], [], [], [], [])
    while True:
        residual = residuals(indicators, y)
        path.coefficients.append(coefficients.copy())
        path.intercepts.append(mean_label - means @ coefficients)
        path.losses.append((residual**2).sum(axis=1).mean())
        path.valid_losses.append((residuals(valid_indicators, valid_y) ** 2).sum(axis=1).mean())
        correlations = centred.T @ residual
        lengths = np.linalg.norm(correlations, axis=1)
        untried = lengths > ROUNDING
        step = None
        while untried.any() and step is None:
            most = lengths[untried].max()
            node = int(np.flatnonzero(untried & (lengths >= most - ROUNDING))[0])
            untried[node] = False
            tried = epsilon * correlations[node] / lengths[node]
            left = residual - np.outer(centred[:, node], tried)
            if (left**2).sum() < (residual**2).sum() - ROUNDING * epsilon**2:
                step = tried
        if len(path.nodes) == max_steps or step is None:
            return path
        coefficients[node] += step
        path.nodes.append(node)


def n_kept_nodes(trees, coefficients):
    """Nodes that are left when all goes that lies below the last node with a coefficient."""
    n_kept, first = 0, 0
    for tree in trees:
        left = tree["left"]
        has_own = np.any(coefficients[first : first + len(left)] != 0.0, axis=1)
        first += len(left)

        def is_needed(node, left=left, has_own=has_own):
            below = left[node] >= 0 and any(is_needed(left[node] + side) for side in (0, 1))
            return bool(has_own[node] or below)

        def count(node, left=left, is_needed=is_needed):
            if left[node] < 0 or not any(is_needed(left[node] + side) for side in (0, 1)):
                return 1
            return 1 + sum(count(left[node] + side) for side in (0, 1))

        n_kept += count(0) if is_needed(0) else 0
    return n_kept
