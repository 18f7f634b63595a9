# SPDX-License-Identifier: Apache-2.0
"""Slow twin of symmetric trees of XGBoost's kind: one cut for all nodes of a level.

A cut of a numerical feature is the number of bins that go left, and where missing values go; its
gain is the sum over the nodes that admit it. Of a category each node takes its own best cut.
Noise ranks cuts by the root of all gains so far and a random number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from oracle import naive
from oracle.naive_forest import RandomStream, mix
from oracle.naive_task_splits import TaskColumn

NOISE_OF_LEVEL = 7

Key = tuple[bool, int]  # missing values go left, bins on the left


@dataclass
class Noise:
    """What ranks the cuts of a tree's levels."""

    deviation: float
    tree: int
    n_features: int
    level: int = 0
    gained: float = 0.0

    def rank(self, gain: float, feature: int, position: int) -> float:
        if self.deviation == 0.0:
            return gain
        stream = RandomStream(NOISE_OF_LEVEL, 0, self.tree, self.level * self.n_features + feature)
        bits = mix((stream.state + (position + 1) * 0x9E3779B97F4A7C15) % 2**64)
        uniform = [(bits >> shift) % 2**16 / (2**16 - 1) - 0.5 for shift in (0, 16, 32, 48)]
        return math.sqrt(self.gained + gain) + self.deviation * math.sqrt(3) * sum(uniform)


def ordered_splits(
    data: naive.Training, node: naive.Node, feature: int, params: naive.Params
) -> Iterator[tuple[Key, naive.Split]]:
    """The cuts that a node admits. Without missing values it is the same cut whichever way."""
    assert node.histogram is not None
    table = node.histogram[feature][:1]
    sums = node.sums[np.newaxis]
    has_missing = not np.array_equal(naive.total(table)[0], node.sums)
    for found in naive.numerical_candidates(table, sums):
        with np.errstate(all="ignore"):
            gain = naive.pooled_gain(found.left[0], node, params)
            gain = (gain + naive.pooled_gain(found.right[0], node, params)) - node.gain
        for i in np.flatnonzero(naive.are_admissible(found, gain, feature, node, params)):
            for missing_left in (False, True):
                if has_missing and missing_left != found.missing_left[i]:
                    continue
                split = naive.Split(
                    feature,
                    found.goes_left[i],
                    missing_left,
                    found.left[0, i],
                    found.right[0, i],
                    gain[i],
                    gain[i],
                )
                yield (missing_left, int(found.goes_left[i].sum())), split


def splits_of_level(
    data: naive.Training, nodes: list[naive.Node], params: naive.Params, noise: Noise
) -> list[naive.Split | None]:
    """The cut with the largest rank; its score for all nodes is the sum of gains.

    Of equal ones the first, as in XGBoost.
    """
    highest, gain_of_best = -math.inf, 0.0
    best: list[naive.Split | None] = [None] * len(nodes)
    for feature, cut in enumerate(data.cuts):
        ways: dict[Key, list[naive.Split | None]] = {}
        for number, node in enumerate(nodes):
            if cut.is_categorical:
                own = naive.find_best_split(data, node, {feature}, params, naive.plain)
                found = [] if own is None else [((False, 0), own)]
            else:
                found = list(ordered_splits(data, node, feature, params))
            for key, split in found:
                ways.setdefault(key, [None] * len(nodes))[number] = split
        # First from low to high with missing values right, then from high to low with them left.
        for key in sorted(ways, key=lambda key: (key[0], -key[1] if key[0] else key[1])):
            splits = ways[key]
            gain = sum(float(split.score) for split in splits if split is not None)
            if gain > 0 and (rank := noise.rank(gain, feature, key[1])) > highest:
                highest, gain_of_best, best = rank, gain, splits
    noise.level += 1
    noise.gained += gain_of_best
    return [split and replace(split, score=np.float32(gain_of_best)) for split in best]


def grow_tree(
    bins: NDArray[np.int64],
    cuts: list[naive.Cuts],
    gradient: NDArray[np.float32],
    hessian: NDArray[np.float32],
    params: naive.Params,
    task_column: TaskColumn | None = None,
    random_strength: float = 0.0,
    tree: int = 0,
) -> naive.Tree:
    """Grow one tree, level by level; leaves that a level does not cut may be cut by the next."""
    total = math.fsum(hessian)
    variance = math.fsum(gradient.astype(np.float64) ** 2) / total if total > 0 else 0.0
    noise = Noise(random_strength * math.sqrt(variance), tree, len(cuts))
    pairs = np.stack([gradient, hessian], axis=1).astype(np.float64)
    no_task = np.full(len(bins), -1)
    data = naive.Training(bins, cuts, pairs, no_task, 0, task_column)
    nodes = level = [naive.make_root(data, params)]
    children_of: dict[int, tuple[naive.Node, naive.Node]] = {}
    for _ in range(params.max_depth):
        splits = splits_of_level(data, level, params, noise)
        n_cuts = sum(split is not None for split in splits)
        if params.max_leaves and 1 + len(children_of) + n_cuts > params.max_leaves:
            break
        cut, whole = [], []
        for node, split in zip(level, splits, strict=True):
            node.split = split
            if split is None:
                whole.append(node)
            elif split.left[1] != 0 and split.right[1] != 0:
                left, right = naive.split_node(data, node, len(nodes), params)
                naive.child_histograms(data, node, left, right)
                children_of[node.id] = left, right
                nodes = [*nodes, left, right]
                cut += [left, right]
        level = cut + whole
    return naive.make_tree(data, nodes, children_of, params)
