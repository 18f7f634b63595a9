# SPDX-License-Identifier: Apache-2.0
"""The slow, obvious twin of a tree grown on LightGBM's bins.

With one task, or without a score over tasks, its trees are those of stock LightGBM 4.5 to 4.7 on
the CPU, bit for bit. The same rules in words: docs/lightgbm_arithmetic.md. These hold throughout:

* everything is float64 but the gradients and hessians, which are float32, and the gain that a tree
  stores; sums are added one after the other, in row order or in bin order;
* a node knows how many rows it has, yet a bin does not: the rows of a bin are *estimated* from its
  hessian, and those estimates decide about ``min_data_in_leaf``;
* hessians of a cut carry an ε of 1e-15 each, so that no division fails. Many last bits hang on it;
* "better" is strict, so the first of equal candidates wins.

A table of sums is indexed [bin or candidate, gradient or hessian].
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from oracle import naive_task_splits
from oracle.naive_task_splits import TaskColumn

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

f32 = np.float32
EPSILON = float(np.float32(1e-15))
LARGEST = float(np.finfo(np.float64).max)
NEXT_TO_ZERO = float(np.float32(1e-35))  # a stored value up to this size becomes 0
SPARSE_FEATURE = 0.7  # share of the most frequent bin from which LightGBM stores a feature sparsely
SPARSE_ROW = 0.25  # the same for many features stored row by row
# Before 4.6 a node kept the value and hessian it had as a leaf, and of the root none at all.
IS_BEFORE_4_6 = tuple(int(part) for part in lgb.__version__.split(".")[:2]) < (4, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """LightGBM's names, meanings and defaults."""

    learning_rate: float = 0.1
    num_leaves: int = 31
    max_depth: int = -1  # 0 and less: no limit
    min_data_in_leaf: int = 20
    min_sum_hessian_in_leaf: float = 1e-3
    min_gain_to_split: float = 0.0
    lambda_l1: float = 0.0
    lambda_l2: float = 0.0
    max_delta_step: float = 0.0  # 0: no limit
    path_smooth: float = 0.0
    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 32
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    min_data_per_group: int = 100
    monotone_constraints: tuple[int, ...] = ()  # method "basic"
    monotone_penalty: float = 0.0
    interaction_constraints: tuple[tuple[int, ...], ...] = ()
    feature_contri: tuple[float, ...] = ()
    extra_trees: bool = False
    extra_seed: int = 6
    feature_fraction: float = 1.0
    feature_fraction_bynode: float = 1.0
    feature_fraction_seed: int = 2
    # What the sums depend on, in their last bits:
    num_threads: int = 1
    force_row_wise: bool = False
    deterministic: bool = False

    @property
    def fewest_rows(self) -> int:
        """min_data_in_leaf, raised where LightGBM raises it."""
        if self.path_smooth > EPSILON:
            return max(self.min_data_in_leaf, 2)
        if self.min_data_in_leaf <= 0 and self.min_sum_hessian_in_leaf <= EPSILON:
            return 1
        return self.min_data_in_leaf

    @property
    def is_smoothed(self) -> bool:
        return self.path_smooth > EPSILON

    def direction(self, column: int) -> int:
        """1, -1 or 0: monotone constraint of a column."""
        return self.monotone_constraints[column] if self.monotone_constraints else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One tree in LightGBM's numbering: node i made leaf i + 1; a child -1 - l is leaf l."""

    left: Ints
    right: Ints
    column: Ints
    threshold: Doubles  # x <= threshold goes left; 0 in a categorical node
    categories: dict[int, list[int]]  # categorical node → the categories that go left, ascending
    default_left: Bools
    missing: list[str]
    gain: Floats  # split_gain
    score: Doubles  # S of the split; without a score over tasks the gain
    value: Doubles  # internal_value: what the node was worth as a leaf, learning rate included
    hessian: Doubles  # internal_weight
    count: Ints  # internal_count
    leaf_value: Doubles  # learning rate included
    leaf_hessian: Doubles  # leaf_weight
    leaf_count: Ints
    leaf_of_row: Ints  # -1: the row was left out


# Bins -----------------------------------------------------------------------------------------

Missing = Literal["None", "Zero", "NaN"]
MISSING: tuple[Missing, ...] = ("None", "Zero", "NaN")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Bins of one column. Columns without two bins are no features."""

    column: int
    upper: Doubles  # numerical: bin b holds (upper[b - 1], upper[b]]; of a bin of NaN it is NaN
    categories: Ints  # categorical: the category of each bin; bin 0 holds NaN and all rare ones
    missing: Missing  # "NaN": the last bin; "Zero": the bin of 0
    zero: int  # bin of the value 0
    frequent: int  # LightGBM's most frequent bin, which its histograms do not add up
    frequent_share: float

    @property
    def is_categorical(self) -> bool:
        return len(self.categories) > 0

    @property
    def n_bins(self) -> int:
        return len(self.categories) if self.is_categorical else len(self.upper)

    @property
    def n_stored(self) -> int:
        """Entries of its histogram: bin 0 has none when it is the frequent one."""
        return self.n_bins - (self.frequent == 0)


@dataclass(frozen=True, slots=True)
class Group:
    """Features that LightGBM stores together."""

    features: list[int]
    is_multi: bool  # each in a separate column; otherwise (a bundle) all in one column

    def offsets(self, features: Sequence[Feature]) -> list[int]:
        """First entry of each feature in the column of a bundle; entry 0 is "all frequent"."""
        return [
            1 + sum(features[other].n_stored for other in self.features[:i])
            for i in range(len(self.features) + 1)
        ]


@dataclass(frozen=True, slots=True)
class Data:
    """A LightGBM data set: features in LightGBM's order, not in that of the columns."""

    features: list[Feature]
    groups: list[Group]
    bins: Ints  # (n_rows, n_features)

    @property
    def n_rows(self) -> int:
        return len(self.bins)


class Reader:
    """Bytes of a file, read from front to back; most entries are padded to a multiple of 8."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def take(self, kind: str, n: int = 1, padded: bool = True) -> NDArray:  # type: ignore[type-arg]
        entries = np.frombuffer(self._raw, kind, n, self._at)
        self.skip(entries.nbytes, padded)
        return entries

    def number(self, kind: str = "<i4") -> int:
        return int(self.take(kind)[0])

    def skip(self, n_bytes: int, padded: bool = True) -> None:
        self._at += (n_bytes + 7) // 8 * 8 if padded else n_bytes


def read_data(data: lgb.Dataset) -> Data:
    """What LightGBM trains on: features, groups and the bins of all rows.

    The file of `lightgbm.Dataset.save_binary` has them even where the raw data has been freed.
    """
    data.construct()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.bin"
        data.save_binary(path)
        reader = Reader(path.read_bytes())
    reader.skip(len("______LightGBM_Binary_File_Token______\n"))
    reader.skip(8)  # size of the header
    n_rows, n_features, n_columns = (reader.number() for _ in range(3))
    for _ in range(4):  # label column, max_bin, bin_construct_sample_cnt, min_data_in_bin
        reader.number()
    for _ in range(3):  # use_missing, zero_as_missing, whether there are raw values
        reader.number("?")
    reader.take("<i4", n_columns)  # feature of each column
    n_groups = reader.number()
    column_of_feature = reader.take("<i4", n_features)
    reader.take("<i4", n_features)  # group of each feature
    reader.take("<i4", n_features)  # place of each feature in its group
    reader.take("<u8", n_groups + 1)  # first bin of each group
    first_feature = reader.take("<i4", n_groups)
    reader.take("<i4", n_groups)  # number of features of each group
    reader.take("<i4", n_columns)  # max_bin_by_feature
    for _ in range(n_columns):
        reader.skip(reader.number())  # name
    for _ in range(n_columns):
        reader.take("<f8", reader.number())  # forced bounds
    reader.skip(reader.number("<u8"))  # labels, weights and so on

    features: list[Feature] = []
    groups = []
    bins = np.empty((n_rows, n_features), dtype=np.int64)
    for group in range(n_groups):
        reader.number("<u8")  # size of the group
        is_multi, _, is_sparse = (bool(reader.number("?")) for _ in range(3))
        n_members = reader.number()
        members = list(range(first_feature[group], first_feature[group] + n_members))
        groups.append(Group(members, is_multi))
        features += [read_feature(reader, int(column_of_feature[member])) for member in members]
        if is_multi:
            for member in members:
                feature = features[member]
                is_sparse = feature.frequent_share >= SPARSE_FEATURE
                n_entries = feature.n_bins + (feature.frequent > 0)
                stored = read_column(reader, n_rows, n_entries, is_sparse)
                bins[:, member] = decode(stored, feature, first=1)
        else:
            offsets = groups[-1].offsets(features)
            stored = read_column(reader, n_rows, offsets[-1], is_sparse)
            for member, first in zip(members, offsets, strict=False):
                bins[:, member] = decode(stored, features[member], first)
    return Data(features, groups, bins)


def read_feature(reader: Reader, column: int) -> Feature:
    n_bins = reader.number()
    missing = MISSING[reader.number()]
    reader.number("?")  # one bin only
    frequent_share = float(reader.take("<f8")[0])
    is_categorical = bool(reader.number())
    reader.take("<f8", 2)  # smallest and largest value
    zero, frequent = reader.number(), reader.number()
    categories = reader.take("<i4", n_bins if is_categorical else 0, padded=False)
    return Feature(
        column=column,
        upper=reader.take("<f8", 0 if is_categorical else n_bins),
        categories=categories.astype(np.int64),
        missing=missing,
        zero=zero,
        frequent=frequent,
        frequent_share=frequent_share,
    )


def read_column(reader: Reader, n_rows: int, n_entries: int, is_sparse: bool) -> Ints:
    """Stored entry of every row, 0 where nothing was stored."""
    kind = "u1" if n_entries <= 256 else "<u2" if n_entries <= 65536 else "<u4"
    if is_sparse:
        n_stored = reader.number()
        steps = reader.take("u1", n_stored + 1)
        column = np.zeros(n_rows, dtype=np.int64)
        column[np.cumsum(steps[:n_stored], dtype=np.int64)] = reader.take(kind, n_stored)
        return column
    if n_entries <= 16:  # two to a byte
        halves = reader.take("u1", (n_rows + 1) // 2)
        return np.stack([halves & 15, halves >> 4], axis=1).ravel()[:n_rows].astype(np.int64)
    return reader.take(kind, n_rows).astype(np.int64)


def decode(stored: Ints, feature: Feature, first: int) -> Ints:
    """Bins of one feature, whose entries in the column begin at ``first``."""
    is_own = (stored >= first) & (stored < first + feature.n_stored)
    bins = stored - first + (feature.frequent == 0)
    return np.where(is_own, bins, feature.frequent)


# Sums -----------------------------------------------------------------------------------------


def smallest_block(data: Data, groups: Sequence[Group]) -> int:
    """Fewest rows LightGBM gives a thread, of the groups that it stores row by row together."""
    columns = [
        column
        for group in groups
        for column in ([[f] for f in group.features] if group.is_multi else [group.features])
    ]
    members = [feature for column in columns for feature in column]
    n_dense = sum(1.0 - data.features[feature].frequent_share for feature in members)
    n_stored = sum(data.features[feature].n_stored for feature in members)
    if 1.0 - n_dense / len(columns) >= SPARSE_ROW:
        n_bins = 1 + n_stored
        frequent = np.array([feature.frequent for feature in data.features])
        is_stored = data.bins != frequent
        n_entries = sum(int(is_stored[:, column].any(axis=1).sum()) for column in columns)
        per_row = n_entries / data.n_rows
    else:
        # A bundle has one bin for "all frequent"; a feature alone keeps its frequent bin 0. When
        # the first of all features is alone, bin 0 of all is left free for it.
        n_bins = 0
        for group in groups:
            own = [data.features[feature] for feature in group.features]
            if group.is_multi:
                n_bins += sum(feature.n_bins for feature in own)
                n_bins += group is data.groups[0] and own[0].frequent > 0
            else:
                n_bins += 1 + sum(feature.n_stored for feature in own)
        per_row = float(len(columns))
    rows = int(float(np.float32(0.3) * np.float32(n_bins)) / (per_row + NEXT_TO_ZERO)) + 1
    return min(max(rows, 32), 1024)


def blocks(n_rows: int, n_threads: int, smallest: int) -> list[slice]:
    """Rows by thread. Each block is summed on its own, then they are added in this order."""
    n_blocks = min(n_threads, math.ceil(n_rows / smallest))
    if n_blocks <= 1:
        return [slice(0, n_rows)]
    size = math.ceil(math.ceil(n_rows / n_blocks) / 32) * 32
    return [slice(begin, begin + size) for begin in range(0, n_blocks * size, size)]


def root_sums(pairs: Doubles, params: Params) -> Doubles:
    """Sums over all rows; from 1024 rows on each thread adds up every n-th run of 512 rows.

    The threads' sums are added in the order in which they come in, so with three threads or more
    LightGBM differs from itself. Here they come in by number.
    """
    n_threads = 1 if params.deterministic or len(pairs) < 1024 else params.num_threads
    run = np.arange(len(pairs)) // 512
    total = np.zeros(2)
    for thread in range(n_threads):
        own = np.concatenate([np.zeros((1, 2)), pairs[run % n_threads == thread]])
        total = total + np.cumsum(own, axis=0)[-1]
    return total


@dataclass(frozen=True, slots=True)
class Training:
    """What every node of a tree reads."""

    data: Data
    pairs: Doubles  # (n_rows, 2): gradients and hessians, float32 values
    params: Params
    rows: Ints  # that take part
    task: Ints
    score: Score | None
    min_tasks: int
    task_column: TaskColumn | None = None

    def divides_tasks(self, feature: int) -> bool:
        """Whether cuts of a feature are task splits that have a price."""
        own = self.task_column
        return own is not None and own.column == feature and own.penalty > 0

    def blocks(self, group: Group, n_rows: int) -> list[slice]:
        """How the rows of a node are shared out where the histogram of this group is summed."""
        if self.params.force_row_wise:
            smallest = smallest_block(self.data, self.data.groups)
        elif group.is_multi:
            smallest = smallest_block(self.data, [group])
        else:
            return [slice(0, n_rows)]
        return blocks(n_rows, self.params.num_threads, smallest)


Histogram = dict[int, Doubles]  # feature → table of sums by bin


def build_histogram(training: Training, leaf: Leaf, features: Sequence[int]) -> Histogram:
    """Sums by bin from the rows of a leaf."""
    histogram: Histogram = {}
    for group in training.data.groups:
        members = [feature for feature in group.features if feature in features]
        shares = training.blocks(group, len(leaf.rows)) if members else []
        for feature in members:
            n_bins = training.data.features[feature].n_bins
            table = np.zeros((n_bins, 2))
            for share in shares:
                rows = leaf.rows[share]
                for part in (0, 1):
                    weights = training.pairs[rows, part]
                    bins = training.data.bins[rows, feature]
                    table[:, part] += np.bincount(bins, weights, minlength=n_bins)
            histogram[feature] = with_frequent_bin(table, training.data.features[feature], leaf)
    return histogram


def with_frequent_bin(table: Doubles, feature: Feature, leaf: Leaf) -> Doubles:
    """The frequent bin gets what the others leave of the leaf's sums; bin 0 would stay unknown."""
    frequent = feature.frequent
    table[frequent] = 0.0
    if frequent > 0:
        others = np.delete(table, frequent, axis=0)
        table[frequent] = np.subtract.accumulate(np.vstack([leaf.sums, others]))[-1]
    return table


def estimated_rows(hessian: Doubles, rows_per_hessian: float) -> Ints:
    """Rows of each bin, guessed from its hessian and rounded half up."""
    with np.errstate(all="ignore"):
        rows = np.trunc(hessian * rows_per_hessian + 0.5)
        fits = (rows > -(2.0**31)) & (rows < 2.0**31)
        return np.where(fits, rows, -(2.0**31)).astype(np.int64)  # what x86 makes of the rest


# Weights and gains ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a cut, or of many: each entry an array then."""

    gradient: Doubles
    hessian: Doubles
    n_rows: Ints | int


def soft_threshold(G: Doubles, params: Params) -> Doubles:
    """Gradient after lambda_l1 has pulled it towards 0."""
    return np.sign(G) * np.maximum(0.0, np.abs(G) - params.lambda_l1)


def free_output(side: Side, parent_output: float, params: Params, l2: float) -> Doubles:
    """Value of a leaf before the learning rate, without monotone bounds."""
    value = -soft_threshold(side.gradient, params) / (side.hessian + l2)
    if params.max_delta_step > 0:
        limit = params.max_delta_step
        value = np.where(np.abs(value) > limit, np.sign(value) * limit, value)
    if params.is_smoothed:
        ratio = np.asarray(side.n_rows) / params.path_smooth
        value = value * ratio / (ratio + 1) + parent_output / (ratio + 1)
    return value


def gain_at_output(side: Side, value: Doubles | float, params: Params, l2: float) -> Doubles:
    """-(2 G w + (H + λ) w²)."""
    G = soft_threshold(side.gradient, params)
    return -(2.0 * G * value + (side.hessian + l2) * value * value)


def free_gain(side: Side, parent_output: float, params: Params, l2: float) -> Doubles:
    """G² / (H + λ), or the gain at the output where that is limited or smoothed."""
    if params.max_delta_step > 0 or params.is_smoothed:
        value = free_output(side, parent_output, params, l2)
        return gain_at_output(side, value, params, l2)
    G = soft_threshold(side.gradient, params)
    return G * G / (side.hessian + l2)


def bounded_output(side: Side, leaf: Leaf, params: Params, l2: float) -> Doubles:
    """Value of a child of the leaf, kept within the monotone bounds of the leaf."""
    value = free_output(side, leaf.output, params, l2)
    if params.monotone_constraints:
        value = np.where(value < leaf.lower, leaf.lower, np.minimum(value, leaf.upper))
    return value


def gain_of_cuts(
    first: Side, second: Side, leaf: Leaf, params: Params, l2: float, direction: int
) -> Doubles:
    """Gains of both sides, first plus second; 0 where the outputs run against the constraint.

    Constraints that are all 0 constrain nothing, but change how the gain is computed.
    """
    if not params.monotone_constraints:
        gain = free_gain(first, leaf.output, params, l2)
        return gain + free_gain(second, leaf.output, params, l2)
    values = [bounded_output(side, leaf, params, l2) for side in (first, second)]
    gain = gain_at_output(first, values[0], params, l2)
    gain = gain + gain_at_output(second, values[1], params, l2)
    wrong = direction * values[0] > direction * values[1]
    return np.where(wrong, 0.0, gain)


# Cuts of one feature --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut that gains more than the floor."""

    scan: int  # 0, or 1 for the second scan of a numerical feature
    gain: float  # of both sides, the floor included
    left: Side
    goes_left: Bools  # per bin
    default_left: bool
    threshold: int  # bin; of a categorical feature 0


@dataclass(frozen=True, slots=True)
class Cuts:
    cuts: list[Cut]  # in the order of the search
    floor: float  # the leaf's own gain and min_gain_to_split
    l2: float
    any_gains: bool  # any cut above the floor, or without a number for a gain


@dataclass(slots=True)
class Split:
    feature: int
    column: int
    goes_left: Bools  # per bin
    default_left: bool
    threshold: int
    left: Side
    right: Side
    left_output: float
    right_output: float
    gain: float  # above the floor, times what the feature's gains are worth
    score: float  # S, what splits are ranked by first


@dataclass(slots=True)
class Leaf:
    number: int
    depth: int
    rows: Ints  # ascending
    sums: Doubles  # (G, H)
    output: float  # learning rate not included
    lower: float = -LARGEST  # monotone bounds of the outputs of its children
    upper: float = LARGEST
    path: frozenset[int] = frozenset()  # columns of the splits above
    histogram: Histogram = field(default_factory=dict)
    splittable: list[int] = field(default_factory=list)  # features with a cut that gains
    split: Split | None = None

    @property
    def whole(self) -> Side:
        """All rows, with the ε of both sides of a cut."""
        return Side(self.sums[0], self.sums[1] + 2 * EPSILON, len(self.rows))


def numerical_cuts(
    table: Doubles, feature: Feature, leaf: Leaf, params: Params, only: int | None
) -> Cuts:
    """Cuts between two bins.

    The bins are added up from the right, with missing values on the left; then, if the feature
    has missing values and a third bin, from the left, with missing values on the right. ``only``
    is the one cut that extra_trees considers.
    """
    whole, n_bins = leaf.whole, feature.n_bins
    l2, direction = params.lambda_l2, params.direction(feature.column)
    floor = float(free_gain(whole, leaf.output, params, l2)) + params.min_gain_to_split
    rows_of_bin = estimated_rows(table[:, 1], whole.n_rows / float(whole.hessian))
    goes_both_ways = n_bins > 2 and feature.missing != "None"
    has_nan_bin = goes_both_ways and feature.missing == "NaN"
    skipped = feature.zero if goes_both_ways and feature.missing == "Zero" else -1
    found: list[Cut] = []
    any_gains = False
    for backwards in (True, False) if goes_both_ways else (True,):
        start = Side(np.float64(0.0), np.float64(EPSILON), 0)
        added, thresholds = bins_of_scan(feature, backwards, has_nan_bin, skipped)
        if len(thresholds) > len(added):
            # Bin 0 is what the stored bins leave of the leaf, and is the first cut.
            start = rest_of(whole, table, rows_of_bin)
        near = running_sums(start, table[added], rows_of_bin[added])
        near = (
            near
            if len(thresholds) > len(added)
            else Side(near.gradient[1:], near.hessian[1:], near.n_rows[1:])
        )
        far = Side(
            whole.gradient - near.gradient, whole.hessian - near.hessian, whole.n_rows - near.n_rows
        )
        left, right = (far, near) if backwards else (near, far)
        is_allowed = are_big_enough(near, far, params)
        if only is not None:
            is_allowed &= np.asarray(thresholds) == only
        if not is_allowed.any():
            continue
        with np.errstate(all="ignore"):
            gain = gain_of_cuts(left, right, leaf, params, l2, direction)
        # A side without gradient and hessian has a gain of NaN: never the best, yet it counts.
        any_gains |= bool((is_allowed & ~(gain <= floor)).any())
        for i in np.flatnonzero(is_allowed & (gain > floor)):
            # A feature with two bins of which one is NaN is cut once, NaN right.
            default_left = backwards and (goes_both_ways or feature.missing != "NaN")
            found.append(
                Cut(
                    scan=int(not backwards),
                    gain=float(gain[i]),
                    left=at(left, i),
                    goes_left=bins_left_of(thresholds[i], feature, default_left),
                    default_left=default_left,
                    threshold=thresholds[i],
                )
            )
    return Cuts(found, floor, l2, any_gains)


def bins_of_scan(
    feature: Feature, backwards: bool, has_nan_bin: bool, skipped: int
) -> tuple[list[int], list[int]]:
    """Bins in the order in which a scan adds them up, and the threshold after each.

    Where the scan begins with the rest of the leaf there is one more threshold, before the first.
    """
    n_bins = feature.n_bins
    if backwards:
        added = [b for b in range(n_bins - 1 - has_nan_bin, 0, -1) if b != skipped]
        return added, [b - 1 for b in added]
    # Bin 0 has no sums if it is the frequent one. With a bin of 0 elsewhere this scan forgets it,
    # although its rows do go left.
    stored = range(1 if feature.frequent == 0 else 0, n_bins)
    added = [b for b in stored if b < n_bins - 1 and b != skipped]
    return added, [0, *added] if has_nan_bin and feature.frequent == 0 else added


def bins_left_of(threshold: int, feature: Feature, default_left: bool) -> NDArray[np.bool_]:
    """Which bins go left, that of missing values by default."""
    goes_left = np.arange(feature.n_bins) <= threshold
    if feature.missing == "Zero":
        goes_left[feature.zero] = default_left
    elif feature.missing == "NaN":
        goes_left[-1] = default_left
    return goes_left


def running_sums(start: Side, table: Doubles, n_rows: Ints) -> Side:
    """Start, start plus first bin, and so on."""
    return Side(
        np.cumsum(np.concatenate([[start.gradient], table[:, 0]])),
        np.cumsum(np.concatenate([[start.hessian], table[:, 1]])),
        np.cumsum(np.concatenate([[start.n_rows], n_rows])),
    )


def rest_of(whole: Side, table: Doubles, n_rows: Ints) -> Side:
    """What bins 1 and above leave of the whole."""
    return Side(
        np.subtract.accumulate(np.concatenate([[whole.gradient], table[1:, 0]]))[-1],
        np.subtract.accumulate(np.concatenate([[whole.hessian - EPSILON], table[1:, 1]]))[-1],
        whole.n_rows - int(n_rows[1:].sum()),
    )


def at(side: Side, i: int) -> Side:
    assert isinstance(side.n_rows, np.ndarray)
    return Side(side.gradient[i], side.hessian[i], int(side.n_rows[i]))


def are_big_enough(near: Side, far: Side, params: Params) -> Bools:
    """Cuts with enough on both sides. The search ends at the first with too little left."""
    fewest, lightest = params.fewest_rows, params.min_sum_hessian_in_leaf
    is_near_enough = (near.n_rows >= fewest) & (near.hessian >= lightest)
    is_over = is_near_enough & ((far.n_rows < fewest) | (far.hessian < lightest))
    return is_near_enough & ~np.logical_or.accumulate(is_over)


def categorical_cuts(
    table: Doubles, feature: Feature, leaf: Leaf, params: Params, draw: Random | None
) -> Cuts:
    """Sets of categories to send left. Bin 0 stays right."""
    whole = leaf.whole
    l2 = params.lambda_l2
    if params.is_smoothed:
        floor = float(gain_at_output(whole, leaf.output, params, l2))
    else:
        floor = float(free_gain(whole, 0.0, params, l2))
    floor += params.min_gain_to_split
    is_one_hot = feature.n_bins <= params.max_cat_to_onehot
    if is_one_hot:
        candidates = one_category_left(table, feature, leaf, params, draw)
    else:
        l2 += params.cat_l2
        candidates = several_categories_left(table, leaf, params, draw)
    found: list[Cut] = []
    any_gains = False
    for left, right, bins in candidates:
        # Of one category LightGBM adds the gains in the other order.
        sides = (right, left) if is_one_hot else (left, right)
        with np.errstate(all="ignore"):
            gain = float(gain_of_cuts(*sides, leaf, params, l2, direction=0))
        if gain <= floor:
            continue
        any_gains = True  # also when the gain is NaN
        if gain > floor:
            goes_left = np.isin(np.arange(feature.n_bins), bins)
            found.append(Cut(0, gain, left, goes_left, default_left=False, threshold=0))
    return Cuts(found, floor, l2, any_gains)


Candidates = Iterator[tuple[Side, Side, list[int]]]  # left, right, bins that go left


def one_category_left(
    table: Doubles, feature: Feature, leaf: Leaf, params: Params, draw: Random | None
) -> Candidates:
    whole = leaf.whole
    fewest, lightest = params.fewest_rows, params.min_sum_hessian_in_leaf
    n_rows = estimated_rows(table[:, 1], whole.n_rows / float(whole.hessian))
    offset = int(feature.frequent == 0)
    only = None if draw is None else draw.int32(1 - offset, feature.n_bins - offset) + offset
    for b in range(1, feature.n_bins):
        G, H = table[b]
        left = Side(G, H + EPSILON, int(n_rows[b]))
        right = Side(whole.gradient - G, whole.hessian - H - EPSILON, whole.n_rows - int(n_rows[b]))
        if (
            left.n_rows < fewest
            or lightest > H
            or right.n_rows < fewest
            or right.hessian < lightest
        ):
            continue
        if only is None or b == only:
            yield left, right, [b]


def several_categories_left(
    table: Doubles, leaf: Leaf, params: Params, draw: Random | None
) -> Candidates:
    """Categories with enough rows, sorted by their own ratio: the lowest left, then the highest."""
    whole = leaf.whole
    fewest, lightest = params.fewest_rows, params.min_sum_hessian_in_leaf
    n_rows = estimated_rows(table[:, 1], whole.n_rows / float(whole.hessian))
    used = used_categories(n_rows, params)
    used.sort(key=lambda b: table[b, 0] / (table[b, 1] + params.cat_smooth))
    most = min(params.max_cat_threshold, (len(used) + 1) // 2)
    only = None
    if draw is not None:
        last = max(min(most, len(used)) - 1, 0)
        only = draw.int32(0, last) if last > 0 else 0
    for order in (used, used[::-1]):
        G, H, n_left, n_group = 0.0, EPSILON, 0, 0
        for i, b in enumerate(order[:most]):
            G, H = G + table[b, 0], H + table[b, 1]
            n_left += int(n_rows[b])
            n_group += int(n_rows[b])
            left = Side(np.float64(G), np.float64(H), n_left)
            right = Side(whole.gradient - G, whole.hessian - H, whole.n_rows - n_left)
            if n_left < fewest or lightest > H:
                continue
            if right.n_rows < max(fewest, params.min_data_per_group) or right.hessian < lightest:
                break
            if n_group < params.min_data_per_group:
                continue
            n_group = 0
            if only is None or i == only:
                yield left, right, order[: i + 1]


def used_categories(n_rows: Ints, params: Params) -> list[int]:
    return [b for b in range(1, len(n_rows)) if n_rows[b] >= params.cat_smooth]


# Random numbers -------------------------------------------------------------------------------


class Random:
    """LightGBM's linear congruential generator."""

    def __init__(self, seed: int) -> None:
        self._x = seed % 2**32

    def _next(self) -> int:
        self._x = (214013 * self._x + 2531011) % 2**32
        return self._x

    def int32(self, begin: int, end: int) -> int:
        return (self._next() & 0x7FFFFFFF) % (end - begin) + begin

    def float(self) -> np.float32:
        return np.float32(self._next() >> 16 & 0x7FFF) / np.float32(32768)

    def sample(self, n: int, k: int) -> list[int]:
        """k of the numbers below n, ascending."""
        if k > n or k <= 0:
            return []
        if k == n:
            return list(range(n))
        if k > 1 and k > n / np.log2(k):
            chosen: list[int] = []
            for i in range(n):
                if float(self.float()) < (k - len(chosen)) / (n - i):
                    chosen.append(i)
            return chosen
        drawn: set[int] = set()
        for largest in range(n - k, n):
            i = self.int32(0, largest + 1)
            drawn.add(largest if i in drawn else i)
        return sorted(drawn)


class Draws:
    """Streams of features and cuts, which run on from tree to tree."""

    def __init__(self, data: Data, params: Params) -> None:
        self._params = params
        self._columns = sorted(feature.column for feature in data.features)
        self._feature_of = {f.column: i for i, f in enumerate(data.features)}
        self._features = Random(params.feature_fraction_seed)
        self._of_tree = self._columns
        self.reset()

    def reset(self) -> None:
        """What making a booster and each `Booster.reset_parameter` does to the streams.

        `Booster.update` with a custom objective resets parameters before the first tree.
        """
        seed, n_features = self._params.extra_seed, len(self._columns)
        self._cuts = [Random(seed + i) for i in range(n_features)]
        self.next_tree()

    def next_tree(self) -> None:
        if self._params.feature_fraction < 1:
            k = fraction_of(len(self._columns), self._params.feature_fraction)
            chosen = self._features.sample(len(self._columns), k)
            self._of_tree = [self._columns[i] for i in chosen]

    def features_of_tree(self) -> set[int]:
        return {self._feature_of[column] for column in self._of_tree}

    def features_of_leaf(self, path: frozenset[int]) -> set[int]:
        """Features that the leaf may use, among those of the tree: constraints, then the draw."""
        groups = self._params.interaction_constraints
        allowed = set(self._columns)
        if groups:
            allowed &= path.union(*(group for group in groups if path <= set(group)))
        fraction = self._params.feature_fraction_bynode
        if fraction < 1:
            columns = [column for column in self._of_tree if column in allowed]
            k = min(fraction_of(len(self._of_tree), fraction), len(columns))
            allowed = {columns[i] for i in self._features.sample(len(columns), k)}
        return {self._feature_of[column] for column in allowed}

    def cut(self, feature: int, n_bins: int) -> int | None:
        """The one cut of a numerical feature that extra_trees considers."""
        if not self._params.extra_trees:
            return None
        return self._cuts[feature].int32(0, n_bins - 2) if n_bins > 2 else 0

    def category(self, feature: int) -> Random | None:
        return self._cuts[feature] if self._params.extra_trees else None


def fraction_of(n: int, fraction: float) -> int:
    return max(int(n * fraction + 0.5), min(1, n))


class Bagging:
    """Rows of each tree: a stream for every 1024 rows, all drawn anew every ``freq`` trees."""

    def __init__(self, n_rows: int, fraction: float, freq: int, seed: int = 3) -> None:
        self._streams = [Random(seed + i) for i in range(math.ceil(n_rows / 1024))]
        self._n_rows, self._fraction, self._freq = n_rows, fraction, freq
        self._rows = np.arange(n_rows)

    def rows(self, iteration: int) -> Ints:
        if iteration % self._freq == 0:
            drawn = [float(self._streams[i // 1024].float()) for i in range(self._n_rows)]
            self._rows = np.flatnonzero(np.array(drawn) < self._fraction)
        return self._rows


# Scores of a cut (zhang2019, sec. 3.2) --------------------------------------------------------

# (s, s^t of the tasks present in the leaf) → S, which is rounded to float32.
Score = Callable[[float, Doubles], float]


def gain_of_task(sums: Doubles, params: Params) -> Floats:
    """G² / (H + λ), 0 if H <= 0: what no limit on the weight, no smoothing and no ε changes.

    In the roundings of XGBoost: both terms in float64, rounded, then divided in float32.
    """
    G, H = soft_threshold(sums[..., 0], params), sums[..., 1]
    with np.errstate(all="ignore"):
        gain = (G * G).astype(f32) / (H + params.lambda_l2).astype(f32)
        return np.where(H <= 0, f32(0), gain)


def sums_of_tasks(training: Training, leaf: Leaf, number: int) -> Doubles:
    """Sums by present task and bin of one feature."""
    bins, pairs = training.data.bins[leaf.rows, number], training.pairs[leaf.rows]
    present, task = np.unique(training.task[leaf.rows], return_inverse=True)
    sums = np.zeros((len(present), training.data.features[number].n_bins, 2))
    np.add.at(sums, (task, bins), pairs)
    return sums


def task_gains(sums: Doubles, goes_left: Bools, params: Params) -> Doubles:
    """s^t of each present task: by the rows that do go left, whatever the scan added up."""
    left, right = sums[:, goes_left].sum(axis=1), sums[:, ~goes_left].sum(axis=1)
    gain = gain_of_task(left, params) + gain_of_task(right, params)
    return (gain - gain_of_task(sums.sum(axis=1), params)).astype(np.float64)


# Best split of one leaf -----------------------------------------------------------------------


def find_best_split(training: Training, leaf: Leaf, permitted: set[int], draws: Draws) -> None:
    """Set split and splittable features of a leaf whose histogram is there.

    Every feature of the histogram is scanned, also those the leaf may not use: what is not
    splittable here will not be considered below.
    """
    params = training.params
    n_tasks = len(np.unique(training.task[leaf.rows]))
    score = training.score if n_tasks >= training.min_tasks else None
    for number in sorted(leaf.histogram):
        feature = training.data.features[number]
        table = leaf.histogram[number]
        divides_tasks = training.divides_tasks(number)
        if feature.is_categorical:
            limits = params
            if divides_tasks:
                limits = replace(params, max_cat_to_onehot=0, max_cat_threshold=feature.n_bins)
            found = categorical_cuts(table, feature, leaf, limits, draws.category(number))
        else:
            only = draws.cut(number, feature.n_bins)
            found = numerical_cuts(table, feature, leaf, params, only)
        if found.any_gains:
            leaf.splittable.append(number)
        if number not in permitted or not found.cuts:
            continue
        by_task = sums_of_tasks(training, leaf, number) if score else None
        for cut in [own_choice(found)] if by_task is None else found.cuts:
            s = worth(feature, leaf, params, cut.gain - found.floor)
            if divides_tasks:
                S = score_of_task_split(training, leaf, s, table)
                if S <= 0:
                    continue
            elif score and by_task is not None:
                S = float(f32(score(s, task_gains(by_task, cut.goes_left, params))))
            else:
                S = s if training.score is None else training.score(s, np.zeros(n_tasks))
            if s > 0 and (leaf.split is None or (-S, -s, feature.column) < rank(leaf.split)):
                leaf.split = make_split(number, feature, leaf, params, cut, found.l2, s, S)


def score_of_task_split(training: Training, leaf: Leaf, s: float, table: Doubles) -> float:
    """S with as many tasks as LightGBM sorts: small ones stay right."""
    assert training.task_column is not None
    whole = leaf.whole
    n_rows = estimated_rows(table[:, 1], whole.n_rows / float(whole.hessian))
    n_tasks = len(used_categories(n_rows, training.params))
    sigma2 = naive_task_splits.dispersion(training.pairs[training.rows])
    return float(naive_task_splits.score(s, n_tasks, sigma2, training.task_column.penalty))


def own_choice(found: Cuts) -> Cut:
    """LightGBM's: the first best of a scan.

    The second scan has to beat what subtracting and adding the floor leaves of the first one's.
    """
    best: Cut | None = None
    for scan in (0, 1):
        of_scan = [cut for cut in found.cuts if cut.scan == scan]
        if not of_scan:
            continue
        first = max(of_scan, key=lambda cut: cut.gain)
        if best is None or first.gain > (best.gain - found.floor) + found.floor:
            best = first
    assert best is not None
    return best


def worth(feature: Feature, leaf: Leaf, params: Params, gain: float) -> float:
    """What a gain counts for: feature_contri, and the penalty of a monotone constraint."""
    if params.feature_contri:
        gain *= params.feature_contri[feature.column]
    if params.direction(feature.column) and not feature.is_categorical:
        gain *= monotone_factor(leaf.depth, params.monotone_penalty)
    return gain


def make_split(
    number: int,
    feature: Feature,
    leaf: Leaf,
    params: Params,
    cut: Cut,
    l2: float,
    gain: float,
    score: float,
) -> Split:
    """The right side once more as what the left one leaves, whichever was added up."""
    whole, left = leaf.whole, cut.left
    right = Side(
        whole.gradient - left.gradient, whole.hessian - left.hessian, whole.n_rows - left.n_rows
    )
    return Split(
        feature=number,
        column=feature.column,
        goes_left=cut.goes_left,
        default_left=cut.default_left,
        threshold=cut.threshold,
        left=left,
        right=right,
        left_output=float(bounded_output(left, leaf, params, l2)),
        right_output=float(bounded_output(right, leaf, params, l2)),
        gain=gain,
        score=score,
    )


def rank(split: Split | None) -> tuple[float, float, int]:
    """Order of preference: larger (S, s), then lower column."""
    return (np.inf, 0.0, 0) if split is None else (-split.score, -split.gain, split.column)


def monotone_factor(depth: int, penalty: float) -> float:
    """What remains of the gain of a constrained feature; 1 + ε without a penalty."""
    if penalty >= depth + 1.0:
        return EPSILON
    if penalty <= 1.0:
        return 1.0 - penalty / 2.0**depth + EPSILON
    return 1.0 - 2.0 ** (penalty - 1.0 - depth) + EPSILON


# Growth ---------------------------------------------------------------------------------------


def grow_tree(
    data: Data,
    gradient: Floats,
    hessian: Floats,
    params: Params,
    *,
    rows: Ints | None = None,
    draws: Draws | None = None,
    task: Ints | None = None,
    score: Score | None = None,
    min_tasks: int = 2,
    task_column: TaskColumn | None = None,
) -> Tree:
    """Grow one tree.

    Parameters
    ----------
    data : Data
        As `read_data` gives it.
    gradient, hessian : ndarray of float32, shape (n_rows,)
        Derivatives of the loss in the margin.
    params : Params
        Stopping rules and penalties.
    rows : ndarray of int, optional
        Rows to grow on, ascending; all if left out.
    draws : Draws, optional
        Streams of a training with sampled features or cuts, which this tree advances.
    task : ndarray of int, shape (n_rows,), optional
        Task of each row; one task if left out.
    score : callable, optional
        The cut with the largest (S, s) of all admissible ones is taken; LightGBM's own choice if
        left out.
    min_tasks : int
        Where fewer tasks are present LightGBM chooses the cut, and S follows from its s.
    task_column : TaskColumn, optional
        Only without `score`.
    """
    pairs = np.stack([gradient, hessian], axis=1).astype(np.float64)
    task = np.zeros(data.n_rows, dtype=np.int64) if task is None else task
    rows = np.arange(data.n_rows) if rows is None else rows
    training = Training(data, pairs, params, rows, task, score, min_tasks, task_column)
    draws = Draws(data, params) if draws is None else draws
    draws.next_tree()

    root = make_root(training)
    leaves = [root]
    nodes: list[tuple[Leaf, Split, Side, Side, tuple[int, int]]] = []
    look_for_splits(training, None, root, None, draws)
    while len(leaves) < params.num_leaves:
        # The first of equals, so the lowest number.
        leaf = min(leaves, key=lambda leaf: rank(leaf.split))
        split = leaf.split
        if split is None:
            break
        left, right = split_leaf(training, leaf, split, len(leaves))
        counts = len(left.rows), len(right.rows)
        nodes.append((leaf, split, split.left, split.right, counts))
        leaves[leaf.number] = left
        leaves.append(right)
        if len(leaves) < params.num_leaves:
            look_for_splits(training, leaf, left, right, draws)
    return make_tree(training, leaves, nodes)


def make_root(training: Training) -> Leaf:
    rows = training.rows
    sums = root_sums(training.pairs[rows], training.params)
    root = Leaf(number=0, depth=0, rows=rows, sums=sums, output=0.0)
    # Of the root nothing is smoothed, and its sums carry no ε.
    with np.errstate(all="ignore"):  # without any hessian it is not a number, and stored as 0
        value = -soft_threshold(sums[0], training.params) / (sums[1] + training.params.lambda_l2)
    limit = training.params.max_delta_step
    if limit > 0 and abs(value) > limit:
        value = np.sign(value) * limit
    root.output = float(value)
    return root


def look_for_splits(
    training: Training, parent: Leaf | None, left: Leaf, right: Leaf | None, draws: Draws
) -> None:
    """Histograms and best splits of the root, or of two new leaves.

    The leaf with fewer rows is summed, the right one if equal; the other is the difference.
    """
    params = training.params
    children = [left] if right is None else [left, right]
    if 0 < params.max_depth <= left.depth:
        return
    if all(len(leaf.rows) < 2 * params.fewest_rows for leaf in children):
        return
    features = sorted(draws.features_of_tree() if parent is None else parent.splittable)
    smaller, larger = left, right
    if right is not None and len(left.rows) >= len(right.rows):
        smaller, larger = right, left
    smaller.histogram = build_histogram(training, smaller, features)
    if larger is not None:
        assert parent is not None
        larger.histogram = {
            feature: parent.histogram[feature] - smaller.histogram[feature] for feature in features
        }
    permitted = [draws.features_of_leaf(leaf.path) for leaf in (smaller, larger) if leaf]
    for leaf, own in zip([smaller, larger], permitted, strict=False):
        assert leaf is not None
        find_best_split(training, leaf, own, draws)


def split_leaf(training: Training, leaf: Leaf, split: Split, next_number: int) -> tuple[Leaf, Leaf]:
    """Children of a leaf; the left one keeps its number."""
    goes_left = split.goes_left[training.data.bins[leaf.rows, split.feature]]
    children = []
    for number, side, output, rows in (
        (leaf.number, split.left, split.left_output, leaf.rows[goes_left]),
        (next_number, split.right, split.right_output, leaf.rows[~goes_left]),
    ):
        sums = np.array([side.gradient, side.hessian - EPSILON])
        child = Leaf(number, leaf.depth + 1, rows, sums, output, leaf.lower, leaf.upper)
        child.path = leaf.path | {split.column}
        children.append(child)
    left, right = children
    direction = training.params.direction(split.column)
    if not training.data.features[split.feature].is_categorical and direction:
        middle = (split.left_output + split.right_output) / 2.0
        if direction > 0:
            left.upper, right.lower = min(middle, left.upper), max(middle, right.lower)
        else:
            left.lower, right.upper = max(middle, left.lower), min(middle, right.upper)
    return left, right


def make_tree(
    training: Training,
    leaves: list[Leaf],
    nodes: list[tuple[Leaf, Split, Side, Side, tuple[int, int]]],
) -> Tree:
    """Write splits and leaves down as flat arrays, in the order in which they came to be."""
    params = training.params
    n_nodes = len(nodes)
    left, right = np.zeros(n_nodes, dtype=np.int64), np.zeros(n_nodes, dtype=np.int64)
    parent_of_leaf: dict[int, tuple[Ints, int]] = {}
    threshold, categories = np.zeros(n_nodes), {}
    for node, (leaf, split, _, _, _) in enumerate(nodes):
        if leaf.number in parent_of_leaf:
            child, parent = parent_of_leaf[leaf.number]
            child[parent] = node
        left[node], right[node] = -1 - leaf.number, -1 - (node + 1)
        parent_of_leaf[leaf.number] = left, node
        parent_of_leaf[node + 1] = right, node
        feature = training.data.features[split.feature]
        if feature.is_categorical:
            categories[node] = sorted(feature.categories[split.goes_left].tolist())
        else:
            threshold[node] = feature.upper[split.threshold]
    leaf_of_row = np.full(training.data.n_rows, -1)
    for leaf in leaves:
        leaf_of_row[leaf.rows] = leaf.number
    outputs = np.array([leaf.output for leaf in leaves])
    value = np.array([leaf.output for leaf, *_ in nodes])
    hessian = np.array([(a.hessian - EPSILON) + (b.hessian - EPSILON) for _, _, a, b, _ in nodes])
    has_split = n_nodes > 0
    if IS_BEFORE_4_6 and has_split:
        hessian = np.array([leaf.sums[1] for leaf, *_ in nodes])
        value[0] = hessian[0] = 0.0
    return Tree(
        left=left,
        right=right,
        column=np.array([split.column for _, split, _, _, _ in nodes], dtype=np.int64),
        threshold=threshold,
        categories=categories,
        default_left=np.array([split.default_left for _, split, _, _, _ in nodes], dtype=bool),
        missing=[training.data.features[split.feature].missing for _, split, _, _, _ in nodes],
        gain=np.array(
            [split.gain + params.min_gain_to_split for _, split, _, _, _ in nodes]
        ).astype(np.float32),
        score=np.array([split.score for _, split, _, _, _ in nodes]),
        value=stored(value * params.learning_rate),
        hessian=hessian,
        count=np.array([sum(counts) for *_, counts in nodes], dtype=np.int64),
        leaf_value=stored(outputs * params.learning_rate) if has_split else np.zeros(1),
        leaf_hessian=np.array([leaf.sums[1] for leaf in leaves]) if has_split else np.zeros(1),
        leaf_count=np.array([len(leaf.rows) for leaf in leaves], dtype=np.int64),
        leaf_of_row=leaf_of_row,
    )


def stored(values: Doubles) -> Doubles:
    """Values as a tree keeps them."""
    values = np.where(np.isnan(values), 0.0, values)
    return np.where(np.abs(values) <= NEXT_TO_ZERO, 0.0, values)


def add_bias(tree: Tree, bias: float) -> Tree:
    """What boost_from_average makes of the first tree: the start moves into its values."""
    if abs(bias) <= EPSILON:
        return tree
    return replace(tree, value=stored(tree.value + bias), leaf_value=stored(tree.leaf_value + bias))
