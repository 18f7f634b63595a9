# SPDX-License-Identifier: Apache-2.0
"""The slow, obvious twin of cpp/core/forest: MT-ExtraTrees in the order of simm2014, sections 2, 3.

Given the same random draws it grows the same trees. Labels are dense here: numbers as they are,
classes and labels as columns of zeros and ones. What a cut gains is the fall of Σ w ‖y − mean‖²,
each sum made from scratch, as an exact fraction. Two rules make ties come out alike:

* gains are compared as float32, and "better" is strict: the first of equal cuts wins;
* cuts see numbers about their mean, several outputs as float32 then (``Data.seen``), and so does
  the twin. Where w, w y and w y² are small multiples of a power of two its fractions are exact.
  The core rounds, far below float32: two cuts that gain equally, or not, are seen alike. Except
  next to 0, where float32 shows any rounding. The core is exact there too if labels are numbers
  and so is their mean; else a node whose best cuts gain nothing makes its tree ``is_doubtful``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

f32 = np.float32
TASKS = -1  # instead of a feature: the node splits tasks
UNKNOWN = -1  # a task that no node has seen
ROWS, CUTS_OF_NODE = 1, 5  # what a stream of random numbers is for


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """As in _core.ForestParams."""

    splitter: str = "random"
    max_features: int = 2**32 - 1
    max_depth: int = 2**32 - 1
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    n_bootstrap: int = 0
    task_split_prob: float = 0.0
    alpha: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A table, its labels as dense columns, tasks and weights of its rows."""

    X: Floats
    Y: Doubles  # (row, output)
    are_labels: bool = False  # mostly 0: the core is given the others only, and keeps the mean
    tasks: Ints | None = None
    weights: Doubles | None = None

    @property
    def all_weights(self) -> Doubles:
        return np.ones(len(self.X)) if self.weights is None else self.weights

    @property
    def mean(self) -> Doubles:
        return self.all_weights @ self.Y / self.all_weights.sum()

    @property
    def seen(self) -> Doubles:
        """The labels as cuts see them: about their mean, in a power of two as the unit."""
        if self.are_labels:
            return self.Y
        centred = self.Y - self.mean
        most = np.abs(centred).max()
        scaled = centred / 2.0 ** math.floor(math.log2(most)) if most > 0 else centred
        return scaled.astype(f32).astype(np.float64) if self.Y.shape[1] > 1 else scaled

    @property
    def is_exact(self) -> bool:
        """Whether the core's gains next to 0 are exact: labels that are numbers lose their mean."""
        return not self.are_labels and bool((self.mean * 1024 % 1 == 0).all())


@dataclass(slots=True, kw_only=True)
class Node:
    weight: float
    loss: float  # Σ w ‖y − mean‖²
    mean: Doubles
    left: int = -1  # the right child is its neighbour; -1: a leaf
    feature: int = 0
    threshold: np.float32 = field(default_factory=f32)
    default_left: bool = False  # where missing values go, and tasks that are not listed
    listed_tasks: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Tree:
    nodes: list[Node]
    is_in_bag: Bools
    is_doubtful: bool


# Random numbers -----------------------------------------------------------------------------------


def mix(z: int) -> int:
    """SplitMix64's step, of integers modulo 2^64."""
    mask = 2**64 - 1
    z = (z + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


class RandomStream:
    def __init__(self, purpose: int, seed: int, tree: int, index: int = 0) -> None:
        self.state = 0
        for part in (purpose, seed, tree, index):
            self.state = mix(self.state ^ part)

    def uniform(self) -> float:
        """In [0, 1), of 53 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        return (mix(self.state) >> 11) / 2**53

    def below(self, n: int) -> int:
        return int(self.uniform() * n)


def bootstrap_counts(params: Params, weights: Doubles, tree: int) -> Ints:
    """How often each row is drawn, of those of weight above 0; without bootstrap once."""
    n_rows = len(weights)
    if params.n_bootstrap == 0:
        return np.ones(n_rows, np.int64)
    rows = np.flatnonzero(weights > 0)
    random = RandomStream(ROWS, params.seed, tree)
    draws = [rows[random.below(len(rows))] for _ in range(params.n_bootstrap)]
    return np.bincount(draws, minlength=n_rows)


# What a cut gains ---------------------------------------------------------------------------------


def loss(Y: Doubles, weights: Doubles) -> Fraction:
    """Σ w ‖y − mean‖² = Σ w ‖y‖² − ‖Σ w y‖² / Σ w: eq. 3 times n; Gini's index (eq. 2) likewise."""
    sums = weights @ Y
    return Fraction(float(weights @ (Y * Y).sum(axis=1))) - Fraction(float(sums @ sums)) / Fraction(
        float(weights.sum())
    )


# Section 2, step 1: one random cut of a feature, or all of them -----------------------------------


def cuts(x: Floats, splitter: str, random: RandomStream) -> Iterator[tuple[np.float32, bool]]:
    """Threshold c (x < c goes left) and whether missing values go left, of every cut tried."""
    present = np.unique(x[~np.isnan(x)])
    has_missing = bool(np.isnan(x).any())
    if splitter == "best":
        for missing_left in [False, True] if has_missing else [False]:
            if missing_left:
                yield present[0], True  # alone
            for below, above in itertools.pairwise(present):
                middle = f32((float(below) + float(above)) / 2)
                yield (middle if middle > below else above), missing_left
            if has_missing and not missing_left:
                yield f32(math.inf), False  # missing values alone on the right
        return
    missing_left = has_missing and random.uniform() < 0.5
    least, most = float(present[0]), float(present[-1])
    if least < most:
        threshold = f32(most - random.uniform() * (most - least))
        yield (threshold if threshold > least else present[-1]), missing_left
    else:
        yield (present[0] if missing_left else f32(math.inf)), missing_left


def is_constant(x: Floats) -> bool:
    """Whether no cut divides these values; missing ones are a value like others."""
    return bool((x == x[0]).all() or np.isnan(x).all())


# Section 3: tasks as one more feature -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskFeature:
    phi: dict[int, np.float32]  # of the tasks in the node
    prior: float  # γ

    @classmethod
    def of(cls, y: Doubles, weights: Doubles, tasks: Ints, alpha: float) -> TaskFeature:
        """Eqs. 4 to 7; |I_t| counts weights."""
        prior = float(weights @ y) / float(weights.sum())
        phi = {}
        for task in np.unique(tasks).tolist():
            own = tasks == task
            label_sum = float(weights[own] @ y[own])
            phi[task] = f32((label_sum + alpha * prior) / (float(weights[own].sum()) + alpha))
        return cls(phi, prior)

    def of_rows(self, tasks: Ints) -> Floats:
        return np.array([self.phi[task] for task in tasks.tolist()], np.float32)


# The tree -----------------------------------------------------------------------------------------


class TreeGrower:
    def __init__(self, data: Data, params: Params, number: int) -> None:
        self.data, self.params, self.number = data, params, number
        counts = bootstrap_counts(params, data.all_weights, number)
        self.is_in_bag = counts > 0
        self.weights = data.all_weights * counts
        self.seen = data.seen
        self.nodes: list[Node] = []
        self.features = list(range(data.X.shape[1]))  # those constant in the node come first
        self.is_doubtful = False

    def grow(self) -> Tree:
        rows = np.flatnonzero(self.weights > 0)
        self.nodes.append(self.make_node(rows))
        self.divide(0, rows, 0, 0)
        return Tree(self.nodes, self.is_in_bag, self.is_doubtful)

    def make_node(self, rows: Ints) -> Node:
        Y, weights = self.data.Y[rows], self.weights[rows]
        return Node(
            weight=float(weights.sum()),
            loss=float(loss(Y, weights)),
            mean=np.average(Y, axis=0, weights=weights),
        )

    def divide(self, at: int, rows: Ints, depth: int, n_constant: int) -> None:
        """Grow the subtree of a node, the left side first."""
        p = self.params
        Y = self.data.Y[rows]
        if len(rows) < p.min_samples_split or depth >= p.max_depth or (Y[1:] == Y[:-1]).all():
            return
        node = self.nodes[at]
        random = RandomStream(CUTS_OF_NODE, p.seed, self.number, at)
        goes_left, n_constant = self.find_cut(node, rows, n_constant, random)
        if goes_left is None:
            return
        node.left = len(self.nodes)
        sides = rows[goes_left], rows[~goes_left]
        self.nodes += [self.make_node(side) for side in sides]
        for child, side in enumerate(sides):
            self.divide(node.left + child, side, depth + 1, n_constant)

    def find_cut(
        self, node: Node, rows: Ints, n_constant: int, random: RandomStream
    ) -> tuple[Bools | None, int]:
        """Which rows go left, None if no cut is possible; the number of constant features.

        Steps 2 and 3 of section 2: the best of the cuts of K features in random order that are not
        constant, and of the tasks with probability λ. It is written into the node.
        """
        p, data = self.params, self.data
        own_loss = loss(self.seen[rows], self.weights[rows])
        best: Bools | None = None
        best_gain, n_tried, n_considered = Fraction(-1), 0, 0

        def consider(feature: int, x: Floats) -> bool:
            nonlocal best, best_gain, n_tried
            for threshold, missing_left in cuts(x, p.splitter, random):
                left = np.where(np.isnan(x), missing_left, x < threshold)
                if min(left.sum(), (~left).sum()) < max(p.min_samples_leaf, 1):
                    continue
                n_tried += 1
                gain = own_loss - sum(
                    loss(self.seen[rows[side]], self.weights[rows[side]]) for side in (left, ~left)
                )
                if f32(gain) > f32(best_gain):
                    best, best_gain = left, gain
                    node.feature, node.threshold = feature, threshold
                    # Where nothing is missing, what is missing later goes with most rows.
                    is_majority = bool(2 * left.sum() > len(rows))
                    node.default_left = missing_left if np.isnan(x).any() else is_majority
            return best is not None

        tries_tasks = data.tasks is not None and p.task_split_prob > 0
        tries_tasks = tries_tasks and random.uniform() < p.task_split_prob
        features = self.features
        n_drawn = n_constant
        while n_drawn < len(features) and n_considered < p.max_features:
            other = n_drawn + random.below(len(features) - n_drawn)
            features[n_drawn], features[other] = features[other], features[n_drawn]
            feature = features[n_drawn]
            n_drawn += 1
            x = data.X[rows, feature]
            if is_constant(x):
                last = n_drawn - 1
                features[last], features[n_constant] = features[n_constant], features[last]
                n_constant += 1
                continue
            n_considered += 1
            if consider(feature, x) and len(rows) == 2:
                break  # two rows are divided in one way only
        else:
            if tries_tasks:
                self.consider_tasks(node, rows, random, consider)
        gains_nothing = float(best_gain) <= 1e-12 * float(own_loss)
        self.is_doubtful |= n_tried > 1 and gains_nothing and not data.is_exact
        return best, n_constant

    def consider_tasks(self, node: Node, rows: Ints, random: RandomStream, consider) -> None:
        """The task split: with several outputs φ uses one, of labels one that is present.

        Those are in the order in which the node's rows bring them.
        """
        choices = range(self.data.Y.shape[1])
        if self.data.are_labels:
            labels = np.nonzero(self.data.Y[rows])[1].tolist()
            choices = list(dict.fromkeys(labels))
        choice = choices[random.below(len(choices))]
        tasks = self.data.tasks[rows]
        feature = TaskFeature.of(
            self.seen[rows, choice], self.weights[rows], tasks, self.params.alpha
        )
        x = feature.of_rows(tasks)
        if is_constant(x):
            return
        consider(TASKS, x)
        if node.feature == TASKS:
            threshold = float(node.threshold)
            node.default_left = feature.prior < threshold
            node.listed_tasks = [
                task
                for task, phi in feature.phi.items()
                if (float(phi) < threshold) != node.default_left
            ]


def grow_tree(data: Data, params: Params, number: int) -> Tree:
    return TreeGrower(data, params, number).grow()


# What trees say -----------------------------------------------------------------------------------


def leaf_of(tree: Tree, x: Floats, task: int = UNKNOWN) -> int:
    """Number of the node that a row ends in."""
    at = 0
    while (node := tree.nodes[at]).left >= 0:
        if node.feature == TASKS:
            goes_left = (task in node.listed_tasks) != node.default_left
        elif np.isnan(x[node.feature]):
            goes_left = node.default_left
        else:
            goes_left = x[node.feature] < node.threshold
        at = node.left + (0 if goes_left else 1)
    return at


def outputs(tree: Tree, X: Floats, tasks: Ints | None) -> Doubles:
    """Of each row its leaf's mean label, (row, output)."""
    if tasks is None:
        tasks = np.full(len(X), UNKNOWN)
    leaves = [leaf_of(tree, x, task) for x, task in zip(X, tasks.tolist(), strict=True)]
    return np.array([tree.nodes[leaf].mean for leaf in leaves])


def predict(trees: list[Tree], X: Floats, tasks: Ints | None) -> Doubles:
    return np.mean([outputs(tree, X, tasks) for tree in trees], axis=0)


def predict_out_of_bag(trees: list[Tree], X: Floats, tasks: Ints | None) -> Doubles:
    """Of each row the mean over the trees that it was not drawn for; NaN: there are none."""
    sums: Doubles = np.zeros(())
    for tree in trees:
        sums = sums + np.where(tree.is_in_bag[:, None], 0.0, outputs(tree, X, tasks))
    n_trees = np.sum([~tree.is_in_bag for tree in trees], axis=0)[:, None]
    return np.where(n_trees > 0, sums / np.maximum(n_trees, 1), np.nan)


def importances(trees: list[Tree], n_features: int) -> Doubles:
    """Fall of the loss by feature, task splits last; adding to 1 in each tree and in the mean."""
    mean = np.zeros(n_features + 1)
    for tree in trees:
        own = np.zeros(n_features + 1)
        for node in tree.nodes:
            if node.left >= 0:
                children = tree.nodes[node.left].loss + tree.nodes[node.left + 1].loss
                own[node.feature] += node.loss - children  # TASKS is the last, too
        mean += own / max(own.sum(), np.finfo(float).tiny)
    return mean / max(mean.sum(), np.finfo(float).tiny)
