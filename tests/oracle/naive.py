# SPDX-License-Identifier: Apache-2.0
"""The slow, obvious twin of the tree grower: histogram, candidates, best split, growth.

With one task (or the plain score) its trees are those of XGBoost's ``hist`` method, 3.0 to 3.4, bit
for bit, so every rounding below is meant. Three rules hold throughout:

* sums of gradients and hessians are float64 and are added one after the other, in row order or in
  bin order (``np.cumsum`` and ``np.bincount`` do that, ``np.sum`` does not);
* gains are float32: float64 terms are rounded once, from there on float32 meets float32 only;
* "better" is strict, so the first of equal candidates wins.

A table of sums is indexed [whose, bin or candidate, gradient or hessian]: ``whose`` 0 is the pooled
sum, ``whose`` 1 + t that of task t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import xgboost as xgb
from numpy.typing import ArrayLike, NDArray
from oracle import naive_task_splits
from oracle.naive_task_splits import TaskColumn

from mtboost.xgboost.library import arithmetic, version

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

f32 = np.float32
SMALLEST_GAIN = f32(1e-6)  # a gain must exceed it, whatever gamma says
NO_THRESHOLD = np.finfo(np.float32).smallest_subnormal  # what a categorical node stores instead


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """XGBoost's names, meanings and defaults. 0 leaves, 0 depth: no limit."""

    learning_rate: float = 0.3
    max_depth: int = 6
    max_leaves: int = 0
    grow_policy: Literal["depthwise", "lossguide"] = "depthwise"
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    gamma: float = 0.0
    min_child_weight: float = 1.0
    max_delta_step: float = 0.0
    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 64
    monotone_constraints: tuple[int, ...] = ()
    interaction_constraints: tuple[tuple[int, ...], ...] | None = None
    arithmetic: str = arithmetic()  # of the installed XGBoost

    @property
    def is_v34(self) -> bool:
        return self.arithmetic == "xgboost-3.4"

    @property
    def is_monotone(self) -> bool:
        """Constraints that are all 0 constrain nothing, yet XGBoost 3.2 then takes another gain."""
        return any(self.monotone_constraints) or (
            version() < (3, 4) and len(self.monotone_constraints) > 0
        )

    def direction(self, feature: int) -> int:
        """1, -1 or 0: monotone constraint of a feature; the features not listed have none."""
        listed = self.monotone_constraints
        return listed[feature] if feature < len(listed) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One tree in XGBoost's numbering: nodes as they came to be, siblings adjacent, -1 no child."""

    left: Ints
    right: Ints
    feature: Ints
    threshold: Floats  # split_condition: x < threshold goes left; in a leaf its value
    default_left: Bools
    gain: Floats  # loss_change: s of the split; 0 in a leaf
    score: Floats  # S of the split; 0 in a leaf
    hessian: Floats  # sum_hessian
    base_weight: Floats  # of a leaf its value, else (and of a tree without split) unscaled
    value: Floats  # leaf value; 0 in an inner node
    categories: dict[int, list[int]]  # categorical node → the categories that go right
    leaf_of_row: Ints


# Bins -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cuts:
    """Bins of one feature: bin b holds the values in [edges[b - 1], edges[b])."""

    edges: Floats  # of a categorical feature: its categories 0, 1, 2, …
    minimum: np.float32  # below every value: the threshold that sends all present values right
    is_categorical: bool

    @property
    def n_bins(self) -> int:
        return len(self.edges)


def read_cuts(data: xgb.QuantileDMatrix) -> list[Cuts]:
    """Cuts that XGBoost made, one entry per feature."""
    begins, values = data.get_quantile_cut()
    types = data.feature_types or ["float"] * data.num_col()
    cuts = []
    for feature, kind in enumerate(types):
        stored = values[int(begins[feature]) : int(begins[feature + 1])]
        # A numerical feature stores its minimum before its edges, a categorical one has none.
        if kind == "c":
            cuts.append(Cuts(stored, f32(0), is_categorical=True))
        else:
            cuts.append(Cuts(stored[1:], stored[0], is_categorical=False))
    return cuts


def bin_matrix(X: ArrayLike, cuts: list[Cuts]) -> Ints:
    """Bin of every value, shape (n_rows, n_features); missing is -1."""
    X = np.asarray(X, dtype=np.float32)
    bins = np.empty(X.shape, dtype=np.int64)
    for feature, cut in enumerate(cuts):
        x = X[:, feature]
        if cut.is_categorical:
            found = np.searchsorted(cut.edges, x)
        else:  # the number of edges <= x; a value beyond the last edge belongs to the last bin
            found = np.minimum(np.searchsorted(cut.edges, x, side="right"), cut.n_bins - 1)
        bins[:, feature] = np.where(np.isnan(x), -1, found)
    return bins


# Weights and gains ----------------------------------------------------------------------------


def soft_threshold(G: Doubles, params: Params) -> Doubles:
    """Gradient after reg_alpha has pulled it towards 0, in float64."""
    alpha = float(f32(params.reg_alpha))
    return np.where(alpha < G, G - alpha, np.where(-alpha > G, G + alpha, 0.0))


def newton_weight(sums: Doubles, params: Params) -> Floats:
    """-G / (H + λ) cut to max_delta_step, in float64 and rounded at the end."""
    G, H = sums[..., 0], sums[..., 1]
    with np.errstate(all="ignore"):
        weight = -soft_threshold(G, params) / (H + float(f32(params.reg_lambda)))
    if params.max_delta_step:
        limit = float(f32(params.max_delta_step))
        weight = np.clip(weight, -limit, limit)
    # No curvature at all, or too light for a child: weight 0.
    too_light = H <= 0
    if not params.is_v34:
        too_light |= float(f32(params.min_child_weight)) > H
    return np.where(too_light, 0.0, weight).astype(np.float32)


def plain_gain(sums: Doubles, params: Params) -> Floats:
    """G² / (H + λ): both terms in float64, rounded, then divided in float32. 0 if H <= 0.

    XGBoost 3.4 computes it from the weight.
    """
    if params.is_v34:
        free = replace(params, max_delta_step=0.0)
        return gain_at_weight(sums, newton_weight(sums, free), params)
    G, H = sums[..., 0], sums[..., 1]
    with np.errstate(all="ignore"):
        numerator = np.square(soft_threshold(G, params)).astype(np.float32)
        denominator = (H + float(f32(params.reg_lambda))).astype(np.float32)
        return np.where(H <= 0, f32(0), numerator / denominator)


def gain_at_weight(sums: Doubles, weight: Floats, params: Params) -> Floats:
    """-(2 G w + (H + λ) w²), 0 if H <= 0; G and H are rounded first, reg_alpha is left out.

    XGBoost 3.4 rounds only w² and the end, and adds 2 α |w|.
    """
    if params.is_v34:
        G, H = sums[..., 0], sums[..., 1]
        square, size = (weight * weight).astype(np.float64), np.abs(weight).astype(np.float64)
        hessian, alpha = H + float(f32(params.reg_lambda)), float(f32(params.reg_alpha))
        gain = -(2 * G * weight.astype(np.float64) + hessian * square + 2 * alpha * size)
        return np.where(H <= 0, f32(0), gain.astype(np.float32))
    G, H = sums[..., 0].astype(np.float32), sums[..., 1].astype(np.float32)
    with np.errstate(all="ignore"):
        gain = -(f32(2) * G * weight + (H + f32(params.reg_lambda)) * (weight * weight))
    return np.where(sums[..., 1] <= 0, f32(0), gain)


# Scores of a candidate (zhang2019, sec. 3.2) --------------------------------------------------

# (s, s^t of the tasks present in the node) → S; the grower rounds S to float32.
Score = Callable[[float, Doubles], float]


def plain(s: float, task_gains: Doubles) -> float:
    """S = s."""
    return s


def entropy(s: float, task_gains: Doubles) -> float:
    """S = s · (−Σ P_t ln P_t), P_t = share of task t in the positive s^t (eq. 5)."""
    positive = task_gains[task_gains > 0]
    if len(positive) < 2:
        return 0.0  # exactly, so that s alone decides between cuts that help one task
    shares = positive / math.fsum(positive)
    return s * -math.fsum(shares * np.log(shares))


def variance(beta: float) -> Score:
    """S = s − β Σ(s^t − s̄)² / (T − 1), T tasks present (eq. 6)."""

    def score(s: float, task_gains: Doubles) -> float:
        n_tasks = len(task_gains)
        if n_tasks < 2:
            return s
        mean = math.fsum(task_gains) / n_tasks
        return s - beta * (math.fsum((task_gains - mean) ** 2) / (n_tasks - 1))

    return score


# Histogram ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Training:
    """What every node of a tree reads."""

    bins: Ints
    cuts: list[Cuts]
    pairs: Doubles  # (n_rows, 2): gradients and hessians, float32 values
    task: Ints
    n_tasks: int
    task_column: TaskColumn | None = None

    def divides_tasks(self, feature: int) -> bool:
        """Whether cuts of a feature are task splits that have a price."""
        own = self.task_column
        return own is not None and own.column == feature and own.penalty > 0

    def groups(self, rows: Ints) -> list[Ints]:
        """All rows, then the rows of each task: what the first axis of a table stands for."""
        return [rows, *(rows[self.task[rows] == task] for task in range(self.n_tasks))]


def total(sums: Doubles) -> Doubles:
    """Sum over the last but one axis, one term after the other."""
    zero = np.zeros_like(sums, shape=(*sums.shape[:-2], 1, 2))
    return np.cumsum(np.concatenate([zero, sums], axis=-2), axis=-2)[..., -1, :]


def build_histogram(data: Training, rows: Ints) -> list[Doubles]:
    """Table of sums per bin, one a feature; missing values are in no bin."""
    histogram = []
    groups = data.groups(rows)
    for feature, cut in enumerate(data.cuts):
        table = np.zeros((len(groups), cut.n_bins, 2))
        for whose, group in enumerate(groups):
            present = group[data.bins[group, feature] >= 0]
            bins = data.bins[present, feature]
            for part in (0, 1):
                weights = data.pairs[present, part]
                table[whose, :, part] = np.bincount(bins, weights, minlength=cut.n_bins)
        histogram.append(table)
    return histogram


# Candidates of one feature, in XGBoost's order ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ways to cut one feature in two, first come first served."""

    goes_left: Bools  # (n_candidates, n_bins)
    missing_left: Bools  # (n_candidates,)
    left: Doubles  # table of sums
    right: Doubles


def numerical_candidates(histogram: Doubles, node: Doubles) -> Iterator[Candidates]:
    """Every bin edge, low to high with missing right, then high to low with missing left."""
    n_bins = histogram.shape[1]
    left = np.cumsum(histogram, axis=1)
    yield Candidates(
        goes_left=np.tri(n_bins, dtype=bool),
        missing_left=np.zeros(n_bins, dtype=bool),
        left=left,
        right=node[:, np.newaxis] - left,
    )
    # The way back is needed only where the bins do not add up to the node. A last bit lost in
    # rounding counts as missing values, so the comparison must be exact.
    if not np.array_equal(left[0, -1], node[0]):
        right = np.cumsum(histogram[:, ::-1], axis=1)
        yield Candidates(
            goes_left=np.tri(n_bins, k=-1, dtype=bool)[::-1],
            missing_left=np.ones(n_bins, dtype=bool),
            left=node[:, np.newaxis] - right,
            right=right,
        )


def one_hot_candidates(histogram: Doubles, node: Doubles) -> Iterator[Candidates]:
    """One category right, category by category: missing left, then missing right with it."""
    n_bins = histogram.shape[1]
    missing = node - total(histogram)
    right = np.stack([histogram, histogram + missing[:, np.newaxis]], axis=2)
    right = right.reshape(len(histogram), 2 * n_bins, 2)
    yield Candidates(
        goes_left=np.repeat(~np.eye(n_bins, dtype=bool), 2, axis=0),
        missing_left=np.tile([True, False], n_bins),
        left=node[:, np.newaxis] - right,
        right=right,
    )


def partition_candidates(histogram: Doubles, node: Doubles, params: Params) -> Iterator[Candidates]:
    """Categories sorted by their own weight: the lowest right, then the highest left."""
    n_bins = histogram.shape[1]
    order = np.argsort(newton_weight(histogram[0], params), kind="stable")
    # Neither side listed by a scan holds more than max_cat_threshold - 1 categories.
    n_candidates = min(params.max_cat_threshold, n_bins) - 1
    rank = np.argsort(order)
    moved = np.arange(1, n_candidates + 1)[:, np.newaxis]

    right = np.cumsum(histogram[:, order], axis=1)[:, :n_candidates]
    yield Candidates(
        goes_left=rank >= moved,
        missing_left=np.ones(n_candidates, dtype=bool),
        left=node[:, np.newaxis] - right,
        right=right,
    )
    left = np.cumsum(histogram[:, order[::-1]], axis=1)[:, :n_candidates]
    yield Candidates(
        goes_left=rank >= n_bins - moved,
        missing_left=np.zeros(n_candidates, dtype=bool),
        left=left,
        right=node[:, np.newaxis] - left,
    )


def candidates(
    histogram: Doubles, node: Doubles, cut: Cuts, params: Params
) -> Iterator[Candidates]:
    """Candidates of one feature: histogram is its table, node the table of the node's sums."""
    if not cut.is_categorical:
        return numerical_candidates(histogram, node)
    if cut.n_bins < params.max_cat_to_onehot:  # bins, thus also categories that no row has
        return one_hot_candidates(histogram, node)
    return partition_candidates(histogram, node, params)


# Best split of one node -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Split:
    feature: int
    goes_left: Bools  # per bin of the feature
    missing_left: bool
    left: Doubles  # pooled (G, H)
    right: Doubles
    gain: np.float32  # s
    score: np.float32  # S

    @property
    def key(self) -> tuple[np.float32, np.float32]:
        """What makes a split better than another: (S, s), lexicographically."""
        return self.score, self.gain


@dataclass(slots=True)
class Node:
    id: int
    depth: int
    rows: Ints  # ascending
    sums: Doubles  # pooled (G, H)
    weight: np.float32  # pooled, learning rate not included
    gain: np.float32  # pooled
    lower: np.float32  # monotone bounds of the weights of the children
    upper: np.float32
    path: frozenset[int]  # features of the splits above
    histogram: list[Doubles] | None = None
    split: Split | None = None


def bounded_weight(sums: Doubles, node: Node, params: Params) -> Floats:
    """Weight of a part of the node; monotone constraints keep it within the node's bounds."""
    weight = newton_weight(sums, params)
    return np.clip(weight, node.lower, node.upper) if params.is_monotone else weight


def pooled_gain(sums: Doubles, node: Node, params: Params) -> Floats:
    """Gain of a part of the node at the weight it may have."""
    if params.is_v34 or params.is_monotone or params.max_delta_step:
        return gain_at_weight(sums, bounded_weight(sums, node, params), params)
    return plain_gain(sums, params)


def permitted_features(node: Node, n_features: int, params: Params) -> set[int]:
    """All at the root; below: the path's own and those of every group that holds the path."""
    groups = params.interaction_constraints
    if groups is None or not node.path:
        return set(range(n_features))
    return set(node.path).union(*(group for group in groups if node.path <= set(group)))


def are_admissible(
    found: Candidates, gain: Floats, feature: int, node: Node, params: Params
) -> Bools:
    """Gain above both floors, both sides heavy enough, weights in the demanded order."""
    left, right = found.left[0], found.right[0]
    lightest = float(f32(params.min_child_weight))
    # A gain that is not finite (gradients beyond float32's range, squared) is passed over.
    admissible = np.isfinite(gain) & (gain > SMALLEST_GAIN) & (gain >= f32(params.gamma))
    admissible &= (left[:, 1] >= lightest) & (right[:, 1] >= lightest)
    if params.is_v34:
        admissible &= (left[:, 1] > 0) & (right[:, 1] > 0)
    if direction := params.direction(feature):
        left_weight = bounded_weight(left, node, params)
        right_weight = bounded_weight(right, node, params)
        rises, falls = left_weight <= right_weight, left_weight >= right_weight
        admissible &= rises if direction > 0 else falls
    return admissible


def find_best_split(
    data: Training, node: Node, features: Collection[int], params: Params, score: Score
) -> Split | None:
    """The admissible candidate with the largest (S, s); the first one among equals."""
    rows_of_task = data.groups(node.rows)[1:]
    present = [task for task, rows in enumerate(rows_of_task) if len(rows)]
    # The pooled sums of a node come from the split above, those of its tasks from its rows.
    sums = np.stack([node.sums, *(total(data.pairs[rows]) for rows in rows_of_task)])
    task_gain_before = plain_gain(sums[1:, np.newaxis], params)
    best: Split | None = None
    assert node.histogram is not None
    for feature in sorted(features):
        limits = params
        if divides_tasks := data.divides_tasks(feature):
            n_tasks = int(tasks_present(data, node).sum())
            limits = replace(params, max_cat_to_onehot=0, max_cat_threshold=n_tasks_known(data))
        for found in candidates(node.histogram[feature], sums, data.cuts[feature], limits):
            with np.errstate(all="ignore"):
                gain = pooled_gain(found.left[0], node, params)
                gain = (gain + pooled_gain(found.right[0], node, params)) - node.gain
                # Neither bounds nor max_delta_step enter the gains of the tasks.
                task_gain = plain_gain(found.left[1:], params) + plain_gain(found.right[1:], params)
                task_gain = task_gain - task_gain_before
            for i in np.flatnonzero(are_admissible(found, gain, feature, node, params)):
                s = gain[i]
                if divides_tasks:
                    S = score_of_task_split(data, float(s), n_tasks)
                    if S <= 0:
                        continue
                else:
                    S = f32(score(float(s), task_gain[present, i].astype(np.float64)))
                if best is None or (S, s) > best.key:
                    best = Split(
                        feature,
                        found.goes_left[i],
                        bool(found.missing_left[i]),
                        found.left[0, i],
                        found.right[0, i],
                        s,
                        S,
                    )
    if best is not None and data.divides_tasks(best.feature):
        best = send_others_to_heavier_side(best, tasks_present(data, node))
    return best


# Task splits ----------------------------------------------------------------------------------


def tasks_present(data: Training, node: Node) -> Bools:
    """Bins of the task column whose rows say anything in the node."""
    assert data.task_column is not None
    column, pairs = data.bins[node.rows, data.task_column.column], data.pairs[node.rows]
    n_bins = data.cuts[data.task_column.column].n_bins
    sums = [np.bincount(column, pairs[:, part], minlength=n_bins) for part in (0, 1)]
    return (sums[0] != 0) | (sums[1] != 0)


def n_tasks_known(data: Training) -> int:
    assert data.task_column is not None
    return data.cuts[data.task_column.column].n_bins


def score_of_task_split(data: Training, s: float, n_tasks: int) -> np.float32:
    assert data.task_column is not None
    sigma2 = naive_task_splits.dispersion(data.pairs)
    return naive_task_splits.score(s, n_tasks, sigma2, data.task_column.penalty)


def send_others_to_heavier_side(split: Split, is_present: Bools) -> Split:
    """Tasks that have no rows here, and unknown ones, follow the side with more hessian."""
    goes_left = bool(split.left[1] >= split.right[1])
    return replace(
        split, goes_left=np.where(is_present, split.goes_left, goes_left), missing_left=goes_left
    )


# Growth ---------------------------------------------------------------------------------------


def split_node(data: Training, node: Node, next_id: int, params: Params) -> tuple[Node, Node]:
    """Children of a node whose split is known; they share out its rows in row order."""
    split = node.split
    assert split is not None
    bins = data.bins[node.rows, split.feature]
    goes_left = np.where(bins < 0, split.missing_left, split.goes_left[bins])
    children = []
    for id, sums, rows in (
        (next_id, split.left, node.rows[goes_left]),
        (next_id + 1, split.right, node.rows[~goes_left]),
    ):
        child = Node(
            id=id,
            depth=node.depth + 1,
            rows=rows,
            sums=sums,
            # Under the bounds of the parent; the child's own bounds would change neither.
            weight=f32(bounded_weight(sums, node, params)),
            gain=f32(pooled_gain(sums, node, params)),
            lower=node.lower,
            upper=node.upper,
            path=node.path | {split.feature},
        )
        children.append(child)
    left, right = children
    middle = (left.weight + right.weight) / f32(2)
    if params.direction(split.feature) > 0:
        left.upper = right.lower = middle
    elif params.direction(split.feature) < 0:
        left.lower = right.upper = middle
    return left, right


def child_histograms(data: Training, parent: Node, left: Node, right: Node) -> None:
    """Sum the rows of the child with less hessian (left if equal); the other is the difference."""
    lighter, heavier = (right, left) if right.sums[1] < left.sums[1] else (left, right)
    lighter.histogram = build_histogram(data, lighter.rows)
    heavier.histogram = build_histogram(data, heavier.rows)
    assert parent.histogram is not None
    # Only the pooled sums are a difference; those of the tasks are summed from rows everywhere.
    for mine, above, sibling in zip(
        heavier.histogram, parent.histogram, lighter.histogram, strict=True
    ):
        mine[0] = above[0] - sibling[0]


def grow_tree(
    bins: Ints,
    cuts: list[Cuts],
    gradient: Floats,
    hessian: Floats,
    params: Params,
    *,
    task: ArrayLike | None = None,
    score: Score = plain,
    allowed_features: Callable[[int], Collection[int]] | None = None,
    task_column: TaskColumn | None = None,
) -> Tree:
    """Grow one tree.

    Parameters
    ----------
    bins : ndarray of int64, shape (n_rows, n_features)
        As `bin_matrix` gives them.
    cuts : list of Cuts
        One a feature.
    gradient, hessian : ndarray of float32, shape (n_rows,)
        Derivatives of the loss in the margin.
    params : Params
        Stopping rules and penalties.
    task : array-like of int, shape (n_rows,), optional
        0 to n_tasks - 1; if left out no task is distinguished and scores see no task gains.
    score : callable
        `plain`, `entropy`, ``variance(beta)`` or another `Score`.
    allowed_features : callable, optional
        Node number → features that node may use, besides what interaction constraints demand.
    task_column : TaskColumn, optional
        Only with the score `plain`.
    """
    pairs = np.stack([gradient, hessian], axis=1).astype(np.float64)
    task = np.full(len(bins), -1) if task is None else np.asarray(task)
    data = Training(bins, cuts, pairs, task, int(task.max()) + 1, task_column)

    def open_node(node: Node) -> None:
        """Look for the node's split, and queue the node if there is one."""
        features = permitted_features(node, len(cuts), params)
        if allowed_features is not None:
            features &= set(allowed_features(node.id))
        node.split = find_best_split(data, node, features, params, score)
        if node.split is not None:
            open_nodes.append(node)

    def rank(node: Node) -> tuple[float, ...]:
        """Depth-wise growth follows the numbers, loss-guided growth takes the best leaf first."""
        if params.grow_policy == "depthwise":
            return (node.id,)
        assert node.split is not None
        return -float(node.split.score), -float(node.split.gain), node.id

    root = make_root(data, params)
    nodes, open_nodes = [root], list[Node]()
    children_of: dict[int, tuple[Node, Node]] = {}
    open_node(root)
    n_leaves = 1
    while open_nodes and n_leaves != params.max_leaves:
        node = min(open_nodes, key=rank)
        open_nodes.remove(node)
        assert node.split is not None
        if node.split.left[1] == 0 or node.split.right[1] == 0:
            # A side without hessian, possible with min_child_weight 0: the node stays a leaf, and
            # loss-guided growth is over.
            if params.grow_policy == "lossguide":
                break
            continue
        left, right = children_of[node.id] = split_node(data, node, len(nodes), params)
        nodes += [left, right]
        n_leaves += 1
        if left.depth != params.max_depth:
            child_histograms(data, node, left, right)
            open_node(left)
            open_node(right)
    return make_tree(data, nodes, children_of, params)


def make_root(data: Training, params: Params) -> Node:
    """All rows, unbounded."""
    rows = np.arange(len(data.bins))
    histogram = build_histogram(data, rows)
    # Without any missing value XGBoost adds up the bins of feature 0, else the rows.
    is_dense = bool((data.bins >= 0).all())
    sums = total(histogram[0][0] if is_dense else data.pairs)
    largest = np.finfo(np.float32).max
    root = Node(0, 0, rows, sums, f32(0), f32(0), -largest, largest, frozenset(), histogram)
    root.weight = f32(bounded_weight(sums, root, params))
    root.gain = f32(pooled_gain(sums, root, params))
    return root


def make_tree(
    data: Training, nodes: list[Node], children_of: dict[int, tuple[Node, Node]], params: Params
) -> Tree:
    """Write the nodes down as flat arrays, in their own order."""
    n_nodes = len(nodes)
    tree = Tree(
        left=np.full(n_nodes, -1),
        right=np.full(n_nodes, -1),
        feature=np.zeros(n_nodes, dtype=np.int64),
        threshold=np.zeros(n_nodes, dtype=np.float32),
        default_left=np.zeros(n_nodes, dtype=bool),
        gain=np.zeros(n_nodes, dtype=np.float32),
        score=np.zeros(n_nodes, dtype=np.float32),
        hessian=np.zeros(n_nodes, dtype=np.float32),
        base_weight=np.zeros(n_nodes, dtype=np.float32),
        value=np.zeros(n_nodes, dtype=np.float32),
        categories={},
        leaf_of_row=np.zeros(len(data.bins), dtype=np.int64),
    )
    for node in nodes:
        tree.hessian[node.id] = node.sums[1]
        if node.id not in children_of:
            tree.value[node.id] = node.weight * f32(params.learning_rate)
            tree.threshold[node.id] = tree.value[node.id]
            tree.base_weight[node.id] = tree.value[node.id] if node.id else node.weight
            tree.leaf_of_row[node.rows] = node.id
            continue
        split = node.split
        assert split is not None
        left, right = children_of[node.id]
        tree.left[node.id], tree.right[node.id] = left.id, right.id
        tree.feature[node.id] = split.feature
        tree.default_left[node.id] = split.missing_left
        tree.gain[node.id], tree.score[node.id] = split.gain, split.score
        # Once more, from both sides added up: a last bit may have got lost in the difference.
        tree.hessian[node.id] = split.left[1] + split.right[1]
        tree.base_weight[node.id] = bounded_weight(split.left + split.right, node, params)
        cut, n_left = data.cuts[split.feature], int(split.goes_left.sum())
        if cut.is_categorical:
            tree.threshold[node.id] = NO_THRESHOLD
            tree.categories[node.id] = cut.edges[~split.goes_left].astype(int).tolist()
        else:
            tree.threshold[node.id] = cut.edges[n_left - 1] if n_left else cut.minimum
    return tree
