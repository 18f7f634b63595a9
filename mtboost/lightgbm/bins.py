# SPDX-License-Identifier: Apache-2.0
"""LightGBM's bins of a data set, as the table of bin numbers that the grower reads.

``Dataset.save_binary`` writes everything that LightGBM trains on, also where the raw data has been
freed; docs/lightgbm_arithmetic.md, section 1, describes its contents.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.errors import UnsupportedError
from mtboost.lightgbm.library import quiet

_TOKEN = b"______LightGBM_Binary_File_Token______\n"
_SPARSE_SHARE = 0.7  # of the frequent bin, from which LightGBM stores a feature alone sparsely
# Bytes that the sparse layout takes for a value, and the dense layout for a cell.
_SPARSE_BYTES, _DENSE_BYTES = 10, 1
_MISSING_NONE, _MISSING_ZERO, _MISSING_NAN = range(3)


@dataclass(frozen=True)  # no slots: what follows from the fields is kept
class Feature:
    """Bins of one column of the data, in LightGBM's numbers."""

    upper_bounds: npt.NDArray[np.float64]  # bin b of a numeric column ends here; NaN: bin of NaN
    categories: npt.NDArray[np.int64]  # of a category column; bin 0 holds NaN and rare ones
    missing_type: int  # 0 nothing, 1 zero, 2 NaN
    zero_bin: int
    frequent_bin: int  # LightGBM's most frequent bin
    frequent_share: float

    @cached_property
    def is_categorical(self) -> bool:
        return len(self.categories) > 0

    @cached_property
    def n_bins(self) -> int:
        return len(self.categories) if self.is_categorical else len(self.upper_bounds)

    @cached_property
    def n_stored(self) -> int:
        """Entries in a column shared with other features: bin 0 has none when it is frequent."""
        return self.n_bins - (self.frequent_bin == 0)

    @cached_property
    def missing_bin(self) -> int:
        """The bin that goes by default direction; n_bins if there is none."""
        if self.is_categorical:
            return 0
        by_type = {_MISSING_ZERO: self.zero_bin, _MISSING_NAN: self.n_bins - 1}
        return by_type.get(self.missing_type, self.n_bins)


#: A column that LightGBM leaves out, because it has one value or no possible split.
CONSTANT = Feature(np.array([np.inf]), np.empty(0, np.int64), _MISSING_NONE, 0, 0, 1.0)


@dataclass(frozen=True, slots=True)
class _Column:
    """Entries of the features that LightGBM stores together, as they are in the file.

    Entry 0 of a row stands for the frequent bins of them all.
    """

    bytes: npt.NDArray[np.uint8]
    bits: int
    steps: npt.NDArray[np.uint8] | None  # rows from entry to entry; None: every row has one

    @property
    def n_values(self) -> int:
        """Entries besides 0."""
        if self.bits == 4:
            return sum(int(np.count_nonzero(self.bytes & half)) for half in (0x0F, 0xF0))
        return int(np.count_nonzero(self.bytes.view(f"<u{self.bits // 8}")))


@dataclass(frozen=True, slots=True)
class Bins:
    """Features of a LightGBM data set by column, and the positions of their entries."""

    n_rows: int
    features: list[Feature]  # one per column of the data
    columns: list[_Column]
    column_of_feature: list[int]
    first_entries: list[int]  # by feature

    def matrix(self, storage_order: npt.NDArray[np.uint32], n_threads: int) -> _core.BinnedMatrix:
        """The grower's table. `storage_order`: row to be stored in each place, or empty."""
        features = self.features
        n_values = sum(column.n_values for column in self.columns)
        return _core.lightgbm_matrix(
            n_bins=np.array([feature.n_bins for feature in features], np.uint32),
            missing_bins=np.array([feature.missing_bin for feature in features], np.uint32),
            frequent_bins=np.array([feature.frequent_bin for feature in features], np.uint32),
            missing_types=np.array([feature.missing_type for feature in features], np.uint8),
            is_categorical=np.array([feature.is_categorical for feature in features], np.uint8),
            columns=[column.bytes for column in self.columns],
            bits=[column.bits for column in self.columns],
            steps=[column.steps for column in self.columns],
            column_of_feature=self.column_of_feature,
            first_entries=self.first_entries,
            n_rows=self.n_rows,
            storage_order=storage_order,
            is_sparse=_SPARSE_BYTES * n_values < _DENSE_BYTES * self.n_rows * len(features),
            n_threads=n_threads,
        )


def bin_matrix(
    data: lightgbm.Dataset, *, storage_order: npt.NDArray[np.uint32], n_threads: int
) -> tuple[_core.BinnedMatrix, list[Feature]]:
    """The bins of a constructed data set, and what each of its columns' bins are."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.bin"
        with quiet():
            data.save_binary(path)
        file = np.memmap(path, np.uint8, "r")
        bins = _read(_Reader(file))
        matrix = bins.matrix(storage_order, n_threads)
        features = bins.features
        del bins, file
    return matrix, features


class _Reader:
    """Bytes from front to back; most entries are padded to a multiple of 8."""

    def __init__(self, raw: npt.NDArray[np.uint8]) -> None:
        self._raw = raw
        self._at = 0

    def take(self, kind: str, n: int = 1, padded: bool = True) -> npt.NDArray[Any]:
        n_bytes = n * np.dtype(kind).itemsize
        entries = self._raw[self._at : self._at + n_bytes]
        self.skip(n_bytes, padded)
        return np.frombuffer(entries, kind)

    def number(self, kind: str = "<i4") -> int:
        return int(self.take(kind)[0])

    def skip(self, n_bytes: int, padded: bool = True) -> None:
        self._at += math.ceil(n_bytes / 8) * 8 if padded else n_bytes


def _read(reader: _Reader) -> Bins:
    reader.skip(len(_TOKEN))
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
    reader.take("<i4", n_groups)  # first feature of each group
    reader.take("<i4", n_groups)  # number of features of each group
    reader.take("<i4", n_columns)  # max_bin_by_feature
    for _ in range(n_columns):
        reader.skip(reader.number())  # name
    for _ in range(n_columns):
        reader.take("<f8", reader.number())  # forced bounds
    reader.skip(reader.number("<u8"))  # labels, weights and so on

    # Columns of the data that are no features read a column of entries 0.
    empty = np.empty(0, np.uint8)
    bins = Bins(
        n_rows, [CONSTANT] * n_columns, [_Column(empty, 8, empty)], [0] * n_columns, [1] * n_columns
    )
    first_feature = 0
    for _ in range(n_groups):
        reader.number("<u8")  # size of the group
        is_multi, _, is_sparse = (bool(reader.number("?")) for _ in range(3))
        members = column_of_feature[first_feature : first_feature + reader.number()].tolist()
        first_feature += len(members)
        for member in members:
            bins.features[member] = _read_feature(reader)
        if is_multi:
            for member in members:
                feature = bins.features[member]
                n_entries = feature.n_bins + (feature.frequent_bin > 0)
                is_sparse = feature.frequent_share >= _SPARSE_SHARE
                bins.columns.append(_read_column(reader, n_rows, n_entries, is_sparse))
                bins.column_of_feature[member] = len(bins.columns) - 1
        else:
            n_entries = 1 + sum(bins.features[member].n_stored for member in members)
            bins.columns.append(_read_column(reader, n_rows, n_entries, is_sparse))
            first = 1
            for member in members:
                bins.column_of_feature[member] = len(bins.columns) - 1
                bins.first_entries[member] = first
                first += bins.features[member].n_stored
    return bins


def _read_feature(reader: _Reader) -> Feature:
    n_bins = reader.number()
    if n_bins > np.iinfo(np.uint16).max:
        raise UnsupportedError(
            f"A column has {n_bins} bins; at most {np.iinfo(np.uint16).max} are supported: lower "
            "max_bin or merge categories."
        )
    missing_type = reader.number()
    reader.number("?")  # one bin only
    frequent_share = float(reader.take("<f8")[0])
    is_categorical = bool(reader.number())
    reader.take("<f8", 2)  # smallest and largest value
    zero_bin, frequent_bin = reader.number(), reader.number()
    categories = reader.take("<i4", n_bins if is_categorical else 0, padded=False)
    bounds = reader.take("<f8", 0 if is_categorical else n_bins)
    return Feature(
        upper_bounds=bounds.copy(),
        categories=categories.astype(np.int64),
        missing_type=missing_type,
        zero_bin=zero_bin,
        frequent_bin=frequent_bin,
        frequent_share=frequent_share,
    )


def _read_column(reader: _Reader, n_rows: int, n_entries: int, is_sparse: bool) -> _Column:
    bits = 8 if n_entries <= 256 else 16 if n_entries <= 65536 else 32
    if is_sparse:
        n_stored = reader.number()
        steps = reader.take("u1", n_stored + 1)[:n_stored]
        return _Column(reader.take("u1", n_stored * bits // 8), bits, steps)
    if n_entries <= 16:
        return _Column(reader.take("u1", (n_rows + 1) // 2), 4, None)
    return _Column(reader.take("u1", n_rows * bits // 8), bits, None)


def threshold_of(
    features: Sequence[Feature], feature: int, position: int, default_left: bool
) -> float:
    """Largest value that goes left at a split of a numeric feature (cpp/core/split)."""
    own = features[feature]
    if default_left:
        bin_above = position + (position >= own.missing_bin)
        return float(own.upper_bounds[bin_above - 1])
    below = position - 1
    return float(own.upper_bounds[below + (below >= own.missing_bin)])
