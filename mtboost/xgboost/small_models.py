# SPDX-License-Identifier: Apache-2.0
"""Models of few rows each, trained by the core with the trees of XGBoost's ``hist``.

XGBoost's bins of few rows are the different values of a column (cpp/core/grow/small_models.hpp); of
more rows XGBoost finds the bins, and values are replaced by the least of their bins. Rows that a
tree does not see are drawn as XGBoost 3.2 does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost import _core
from mtboost.base.arrays import Float32Array
from mtboost.base.checked_tables import as_table
from mtboost.errors import ParameterError, UnsupportedError
from mtboost.trees.document import Unloaded
from mtboost.trees.leaf_gains import Splits, gains_of_values
from mtboost.trees.losses import make_loss
from mtboost.trees.nodes import NO_TASK_NODES, CategoryNodes, Nodes
from mtboost.trees.small_models import RowsByModel, SmallTrainer
from mtboost.trees.tree_options import TreeOptions
from mtboost.xgboost import assemble, library
from mtboost.xgboost.document import XgboostDocument
from mtboost.xgboost.matrices import quantile_matrix
from mtboost.xgboost.ubjson import encode

_Arrays = dict[str, npt.NDArray[Any]]
_OF_NODES = ("left", "feature", "condition", "default_left")
_OF_CATEGORIES = {"categorical_nodes", "category_starts", "categories"}


class XgboostSmallTrainer(SmallTrainer):
    """See :func:`small_trainer`."""

    def __init__(
        self,
        settings: library.GrowthSettings,
        loss: _core.Loss,
        frame: assemble.Document,
        options: TreeOptions,
        n_threads: int,
    ) -> None:
        self._settings, self._loss, self._frame = settings, loss, frame
        self._options, self._n_threads = options, n_threads
        types = frame["learner"]["feature_types"] or []
        self._is_categorical = np.array([own == "c" for own in types], np.uint8)
        draws = options.unseen_at_random
        self._n_categories = assemble.n_categories_of(frame) if draws else None

    def bin_rows(self, rows: RowsByModel) -> npt.NDArray[np.bool_]:
        most = self._settings.max_bin
        few = _core.have_few_values(
            rows.cells,
            rows.first_rows,
            is_categorical=self._is_categorical,
            most=most,
            n_threads=self._n_threads,
        ).astype(bool)
        for model in np.flatnonzero(~few).tolist():
            own = slice(*rows.first_rows[model : model + 2].tolist())
            weights = None if rows.weights is None else rows.weights[own]
            few[model] = _bin_model(rows.cells[own], weights, most, self._is_categorical)
        return few

    def begin(self, rows: RowsByModel, valid: RowsByModel) -> None:
        self._rows = rows
        self._margins, self._valid_margins = rows.margins.copy(), valid.margins.copy()
        self._pairs: Float32Array | None = None
        self._models = _core.SmallModels(
            cells=rows.cells,
            first_rows=rows.first_rows,
            valid_cells=valid.cells,
            first_valid_rows=valid.first_rows,
            params=self._settings.grow,
            symmetric=self._options.symmetric_trees,
            random_strength=self._options.random_strength,
            n_outputs=self._loss.n_outputs,
            is_categorical=self._is_categorical,
            unseen_at_random=self._options.unseen_at_random,
            n_categories=self._n_categories,
            n_threads=self._n_threads,
        )

    def grow(self, models: npt.NDArray[np.int64]) -> None:
        self._pairs = self._loss.gradients(
            self._margins,
            self._rows.labels[:, None],
            self._rows.weights,
            n_threads=self._n_threads,
            out=self._pairs,
        )
        self._models.grow(
            models.astype(np.uint32),
            self._pairs,
            self._margins,
            self._valid_margins,
            n_threads=self._n_threads,
        )

    @property
    def valid_margins(self) -> Float32Array:
        return self._valid_margins

    def keep(self, model: int, n_rounds: int) -> None:
        self._models.keep(model, n_rounds * self._loss.n_outputs)

    def trees(self) -> list[Unloaded]:
        shared = SharedTrees(self._frame, self._models.trees())
        return [ModelTrees(shared, model) for model in range(self._rows.n_models)]


@dataclass(frozen=True, slots=True, eq=False)
class SharedTrees:
    """Trees of many models as the core keeps them, and the document of a booster around them."""

    frame: assemble.Document
    arrays: _Arrays
    _scaled: dict[float, SharedTrees] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_outputs(self) -> int:
        return assemble.outputs_of(self.frame)

    def scaled(self, factor: float) -> SharedTrees:
        """Return all trees with leaf values multiplied; the same ones when asked again."""
        if factor not in self._scaled:
            self._scaled[factor] = replace(self, arrays=_scaled(self.arrays, factor))
        return self._scaled[factor]


def _scaled(arrays: _Arrays, factor: float) -> _Arrays:
    is_leaf = arrays["left"] < 0
    values = _times(arrays["condition"], factor)
    scaled = {
        **arrays,
        "condition": np.where(is_leaf, values, arrays["condition"]),
        "base_weight": np.where(is_leaf, values, arrays["base_weight"]),
    }
    gains = gains_of_values(_splits(arrays), _splits(scaled))
    with np.errstate(over="ignore"):  # infinite, as a gain beyond float32 is in XGBoost
        return {**scaled, "gain": np.concatenate([*gains, np.empty(0)]).astype(np.float32)}


def _times(values: Float32Array, factor: float) -> Float32Array:
    return (values * np.float64(factor)).astype(np.float32)


def _splits(arrays: _Arrays) -> list[Splits]:
    """Splits of each tree."""
    left = arrays["left"]
    columns = (
        left,
        np.where(left < 0, left, left + 1),
        *(arrays[name].astype(np.float64) for name in ("hessian", "condition", "gain")),
    )
    begins = arrays["first_nodes"].tolist()
    return [Splits(*(own[begin:end] for own in columns)) for begin, end in pairwise(begins)]


def _categories(arrays: _Arrays, begin: int, end: int) -> tuple[npt.NDArray[Any], ...]:
    """Nodes with categories among some nodes, starts of their lists, and the codes."""
    first, last = np.searchsorted(arrays["categorical_nodes"], [begin, end]).tolist()
    starts = arrays["category_starts"][first : last + 1]
    return (
        arrays["categorical_nodes"][first:last] - begin,
        starts - starts[0],
        arrays["categories"][starts[0] : starts[-1]],
    )


@dataclass(frozen=True, slots=True, eq=False)
class ModelTrees(Unloaded):
    """Trees of one of them; `first` are the values of a round before them, if there is one."""

    shared: SharedTrees
    model: int
    first: Float32Array | None = None

    @property
    def group(self) -> SharedTrees:
        return self.shared

    def with_first_round(self, values: Float32Array) -> ModelTrees:
        return replace(self, first=values)

    def scaled(self, factor: float) -> ModelTrees:
        first = None if self.first is None else _times(self.first, factor)
        return replace(self, shared=self.shared.scaled(factor), first=first)

    def _trees(self) -> range:
        first, last = self.shared.arrays["first_trees"][self.model : self.model + 2].tolist()
        return range(first, last)

    def document(self) -> XgboostDocument:
        trees = [self._tree(number) for number in self._trees()]
        if self.first is not None:
            first = self.first.tolist()
            trees[:0] = [
                assemble.constant_tree(each, n_features=self._n_features) for each in first
            ]
        n_outputs = self.shared.n_outputs
        return XgboostDocument(assemble.with_trees(self.shared.frame, trees, n_outputs=n_outputs))

    def dump(self) -> bytes:
        return bytes(encode(self.document().content))

    def _tree(self, number: int) -> assemble.Document:
        begin, end = self.shared.arrays["first_nodes"][number : number + 2].tolist()
        arrays = self.shared.arrays
        own = {name: arrays[name][begin:end] for name in arrays.keys() - _OF_CATEGORIES}
        left = own["left"]
        own |= {"right": np.where(left < 0, left, left + 1), "threshold": own["condition"]}
        nodes, starts, codes = _categories(arrays, begin, end)
        own |= {
            "value": own["condition"],
            "categorical_nodes": nodes.astype(np.int32),
            "category_starts": starts,
            "categories": codes,
        }
        return assemble.tree_document(own, n_features=self._n_features)

    @property
    def _n_features(self) -> int:
        return int(self.shared.frame["learner"]["learner_model_param"]["num_feature"])

    def nodes(self) -> Nodes | None:
        trees, arrays = self._trees(), self.shared.arrays
        firsts = arrays["first_nodes"][trees.start : trees.stop + 1]
        begin, end = int(firsts[0]), int(firsts[-1])
        own = {name: arrays[name][begin:end] for name in _OF_NODES}
        roots = firsts[:-1] - begin
        left = own["left"] + np.repeat(roots, np.diff(firsts)).astype(np.int32)
        left[own["left"] < 0] = -1
        listing, starts, codes = _categories(arrays, begin, end)
        if self.first is not None:  # trees of one leaf before the others
            n = len(self.first)
            own = {name: np.append(np.zeros(n, own[name].dtype), own[name]) for name in _OF_NODES}
            own["condition"][:n] = self.first
            left = np.append(np.full(n, -1), np.where(left < 0, left, left + n)).astype(np.int32)
            roots, listing = np.append(np.arange(n), roots + n), listing + n
        return Nodes(
            roots=roots.astype(np.int32),
            first_leaves=roots,
            left=left,
            right=np.where(left < 0, left, left + np.int32(1)),
            feature=own["feature"],
            threshold=own["condition"],
            value=own["condition"],
            default_left=own["default_left"],
            task_nodes=NO_TASK_NODES,
            category_nodes=CategoryNodes(listing, starts, codes),
            n_features=self._n_features,
            n_outputs=self.shared.n_outputs,
        )


def _bin_model(
    cells: Float32Array,
    weights: Float32Array | None,
    max_bin: int,
    is_categorical: npt.NDArray[np.uint8],
) -> bool:
    """Replace numbers by the least of XGBoost's bins, in columns that have more than `max_bin`.

    False if such a column has missing values: they may be separated from all others by the end of
    the last bin, which this loses.
    """
    matrix = quantile_matrix(as_table(cells), n_threads=1, weight=weights, max_bin=max_bin)
    pointers, values = matrix.get_quantile_cut()
    for column, (begin, end) in enumerate(pairwise(pointers.tolist())):
        own = cells[:, column]
        if column < len(is_categorical) and is_categorical[column]:
            continue
        if len(np.unique(own[~np.isnan(own)])) <= max_bin:
            continue
        if np.isnan(own).any():
            return False
        ends = values[begin + 1 : end]  # the first is below all values
        bins = np.searchsorted(ends, own, side="right")
        least = np.append(own.min(), ends[:-1])
        cells[:, column] = least[np.minimum(bins, len(least) - 1)]
    return True


def small_trainer(
    params: Mapping[str, Any], matrix: xgboost.DMatrix, options: TreeOptions, n_threads: int
) -> XgboostSmallTrainer | None:
    """Return what trains small models; None where only XGBoost grows such trees.

    `matrix` has the rows of one of the models: XGBoost makes a booster from it with the parameters
    and columns of all.
    """
    booster = xgboost.train({**params, "nthread": 1}, matrix, 1)
    try:
        settings = library.read_settings(booster)
        loss = make_loss(
            settings.objective,
            settings.n_classes or 1,
            arithmetic=library.arithmetic(),
            **settings.objective_options,
        )
    except (ParameterError, UnsupportedError):  # such as a share of 0, which XGBoost allows
        return None
    if settings.library_only is not None or loss.refits_leaves:
        return None
    if loss.needs_groups or loss.needs_risk_sets or loss.n_labels > loss.n_outputs:
        return None
    if not options.symmetric_trees:
        if any(params.get(name, 1) != 1 for name in _FEATURE_FRACTIONS):
            return None
        if params.get("subsample", 1) != 1 and not _draws_rows_as_xgboost():
            return None
    frame = assemble.read_document(booster)
    return XgboostSmallTrainer(settings, loss, frame, options, n_threads)


_FEATURE_FRACTIONS = ("colsample_bytree", "colsample_bylevel", "colsample_bynode")


@cache
def _draws_rows_as_xgboost() -> bool:
    """Whether the core draws the rows of a tree as the installed XGBoost does, tried on a few."""
    rng = np.random.default_rng(0)
    cells, labels = rng.normal(size=(2, 50, 1)).astype(np.float32)
    labels[::5] = 0.0  # rows without a gradient
    margins = np.zeros((50, 1), np.float32)
    params = {"max_depth": 2, "subsample": 0.6, "seed": 5, "nthread": 1}
    matrix = xgboost.QuantileDMatrix(cells, labels, base_margin=margins, nthread=1)
    booster = xgboost.train(params, matrix, 3)
    document = assemble.read_document(booster)
    loss = make_loss("reg:squarederror", arithmetic=library.arithmetic())
    trainer = XgboostSmallTrainer(library.read_settings(booster), loss, document, TreeOptions(), 1)
    none = np.empty(0, np.float32)
    ends = np.array([0, 50], np.uint32)
    trainer.begin(
        RowsByModel(cells, ends, labels[:, 0], margins, None),
        RowsByModel(cells[:0], np.zeros_like(ends), none, margins[:0], None),
    )
    for _ in range(3):
        trainer.grow(np.zeros(1, np.int64))
    (trees,) = trainer.trees()
    return all(
        np.array_equal(own[name], expected[name])
        for own, expected in zip(
            assemble.trees_of(trees.document().content), assemble.trees_of(document), strict=True
        )
        for name in ("split_conditions", "sum_hessian")
    )
