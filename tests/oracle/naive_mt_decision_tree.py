# SPDX-License-Identifier: Apache-2.0
"""Multi-task decision trees, slowly and straight from faddoul2012 (algorithm 1, section 2.3).

What the paper leaves open is as in cpp/core/forest/mt_tree_builder.hpp: of equal cuts the lowest
feature, missing values on the right, the lowest threshold; with "max" the one with more "joint".
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np


@dataclass
class NaiveNode:
    """`decisions`: of each task decided here, its label and the shares of its labels."""

    decisions: dict = field(default_factory=dict)
    cut: tuple | None = None  # feature, threshold, whether missing values go left
    left: "NaiveNode | None" = None
    right: "NaiveNode | None" = None

    def decide(self, x, task):
        """Label of a row of a task, and the shares of its labels."""
        if task in self.decisions:
            return self.decisions[task]
        feature, threshold, missing_left = self.cut
        goes_left = missing_left if np.isnan(x[feature]) else x[feature] < threshold
        return (self.left if goes_left else self.right).decide(x, task)


def entropy(labels, weights):
    """H(Y) in bits; labels are whole numbers."""
    sums = np.bincount(labels, weights)
    p = sums[sums > 0] / weights.sum()
    return -(p * np.log2(p)).sum()


def information_gain(labels, weights, is_left):
    """IG(Y; a) = H(Y) - H(Y | a) of eq. 1."""
    rest = 0.0
    for side in (is_left, ~is_left):
        if side.any():
            p = weights[side].sum() / weights.sum()
            rest += p * entropy(labels[side], weights[side])
    return entropy(labels, weights) - rest


def gains_of_tasks(y, task, weights, is_left):
    """p_j and IG_j of each task."""
    p, gains = [], []
    for name in np.unique(task):
        own = task == name
        p.append(weights[own].sum() / weights.sum())
        gains.append(information_gain(y[own], weights[own], is_left[own]))
    return np.array(p), np.array(gains)


def gain(criterion, y, task, weights, is_left):
    """What a cut is judged by; the second number decides between equal ones."""
    p, gains = gains_of_tasks(y, task, weights, is_left)
    joint = p @ gains
    if criterion == "concat":
        pairs = np.unique(np.stack([task, y]), axis=1, return_inverse=True)[1]
        return information_gain(pairs, weights, is_left), 0.0
    return {"joint": (joint, 0.0), "sum": (gains.sum(), 0.0), "max": (gains.max(), joint)}[
        criterion
    ]


def majority(y, weights):
    """The label of most weight, the lowest of equal ones, and the shares of all."""
    labels = np.unique(y)
    shares = np.array([weights[y == label].sum() for label in labels]) / weights.sum()
    return labels[shares.argmax()], dict(zip(labels.tolist(), shares.tolist(), strict=True))


def grow(
    X,
    y,
    task,
    weights,
    *,
    criterion,
    purity=1.0,
    max_depth=np.inf,
    min_samples_split=2,
    min_samples_leaf=1,
):
    """Algorithm 1, one call a node; X, y, task, weights are those of the node's items."""
    here = NaiveNode()
    stays = np.ones(len(y), dtype=bool)
    for name in np.unique(task):
        own = task == name
        label, shares = majority(y[own], weights[own])
        if len(shares) == 1 or (purity < 1 and max(shares.values()) >= purity):
            here.decisions[name] = (label, shares)
            stays &= ~own
    X, y, task, weights = X[stays], y[stays], task[stays], weights[stays]
    found = None
    if len(y) >= min_samples_split and max_depth > 0:
        found = best_cut(criterion, X, y, task, weights, min_samples_leaf)
    parents = {name: majority(y[task == name], weights[task == name]) for name in np.unique(task)}
    if found is None:
        here.decisions |= parents
        return here
    here.cut, is_left = found
    if not np.isnan(X[:, here.cut[0]]).any():
        here.cut = (*here.cut[:2], bool(2 * is_left.sum() > len(y)))
    limits = {
        "criterion": criterion,
        "purity": purity,
        "max_depth": max_depth - 1,
        "min_samples_split": min_samples_split,
        "min_samples_leaf": min_samples_leaf,
    }
    children = []
    for side in (is_left, ~is_left):
        child = grow(X[side], y[side], task[side], weights[side], **limits)
        child.decisions |= {
            name: decision for name, decision in parents.items() if name not in task[side]
        }
        children.append(child)
    here.left, here.right = children
    return here


def best_cut(criterion, X, y, task, weights, min_samples_leaf):
    """The cut with the largest gain, and which items it sends left."""
    best, best_gain = None, (-1.0, 0.0)
    for feature in range(X.shape[1]):
        x = X[:, feature]
        missing = np.isnan(x)
        values = np.unique(x[~missing])
        for missing_left in [False, True] if missing.any() else [False]:
            for threshold in thresholds(values, missing.any()):
                is_left = (x < threshold) | (missing & missing_left)
                if min(is_left.sum(), (~is_left).sum()) < max(1, min_samples_leaf):
                    continue
                pair = gain(criterion, y, task, weights, is_left)
                # Rounded, so that cuts that divide the items alike are equal.
                rounded = tuple(np.float32(0.0 if part < 1e-12 else part) for part in pair)
                if rounded > best_gain:
                    best, best_gain = ((feature, threshold, missing_left), is_left), rounded
    return best


def thresholds(values, has_missing):
    """Midpoints; where some are missing, also the cuts that part these from the others."""
    if len(values) == 0:
        return []
    middles = ((values[:-1].astype(float) + values[1:]) / 2).astype(np.float32)
    middles = np.where(middles > values[:-1], middles, values[1:])
    return [values[0], *middles, np.float32(np.inf)] if has_missing else list(middles)


def error_of(tree, X, y, task, weights):
    """Weighted share of the items that a tree decides wrongly, and which it decides rightly."""
    is_right = np.array([tree.decide(*row)[0] for row in zip(X, task, strict=True)]) == y
    return weights[~is_right].sum(), is_right


def boost(X, y, task, weights, n_rounds, **limits):
    """Algorithm 2: trees and their ln(1/β)."""
    trees, votes = [], []
    D = weights / weights.sum()
    for _ in range(n_rounds):
        tree = grow(X, y, task, D, **limits)
        error, is_right = error_of(tree, X, y, task, D)
        if error > 0.5 - 1e-10:  # but for rounding
            return (trees, votes) if trees else ([tree], [1.0])
        beta = max(error, 1e-10) / (1 - max(error, 1e-10))
        trees.append(tree)
        votes.append(np.log(1 / beta))
        if error == 0:
            break
        D = np.where(is_right, D * beta, D)
        D = D / D.sum()
    return trees, votes


def vote(trees, votes, x, task):
    """H_j(x): the label with the largest sum of votes."""
    sums = Counter()
    for tree, weight in zip(trees, votes, strict=True):
        sums[tree.decide(x, task)[0]] += weight
    return max(sorted(sums), key=sums.__getitem__)
