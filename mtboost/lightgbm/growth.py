# SPDX-License-Identifier: Apache-2.0
"""The common model that grows in LightGBM's training loop: bins, gradients, trees and margins.

LightGBM's own objects keep the data, the parameters and the metrics; :class:`LightgbmGrowth` grows
the trees and gives them to the booster that ``lightgbm.train`` sees (booster.py).
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.arrays import Float32Array, Float64Array
from mtboost.base.tasks import TaskSet
from mtboost.lightgbm import assemble, library
from mtboost.lightgbm.bins import bin_matrix, threshold_of
from mtboost.lightgbm.sampling import Bagging, FeatureFraction, sample_by_gradient
from mtboost.lightgbm.tree import Tree, constant_tree, tree_text
from mtboost.trees.growth import Objective, TaskGrowth, naming_the_round
from mtboost.trees.losses import (
    as_pair,
    as_zero_one,
    check_labels,
    is_multiclass,
    make_lightgbm_loss,
    row_groups,
)
from mtboost.trees.task_values import TaskValues
from mtboost.trees.tree_options import TreeOptions

_Grown = tuple[_core.Tree, dict[str, npt.NDArray[Any]], npt.NDArray[np.int32]]
_EPSILON = float(np.float32(1e-15))  # a start score up to this size is none


class LightgbmGrowth(TaskGrowth):
    """Growth beside a stock booster, which keeps parameters, metrics and data.

    The trees of a continued model are taken over.
    """

    settings: library.GrowthSettings

    def __init__(
        self,
        stock: lightgbm.Booster,
        *,
        tasks: TaskSet,
        options: TreeOptions,
        task_column: int | str | None = None,
    ) -> None:
        super().__init__(tasks, options, task_column)
        self.stock = stock
        self.settings = library.read_settings(stock)
        self._check_levels(self.settings.grow.max_depth, ", and num_leaves to 2**max_depth")
        self._n_outputs = self.settings.n_outputs
        self._texts = list(assemble.read_document(stock).trees)
        for _ in self._texts:
            self._keep_values(np.empty(0), TaskValues.none())
        # A tree with its values, or what a tree of one leaf adds to the margins.
        self._trees: list[tuple[_core.Tree, Float64Array, TaskValues] | float] = []
        self._start_scores = np.zeros(self._n_outputs)
        self._iteration = 0
        self._matrices: weakref.WeakKeyDictionary[lightgbm.Dataset, _core.BinnedMatrix] = (
            weakref.WeakKeyDictionary()
        )
        data = stock.train_set
        self._check_rows(data.num_data())
        self.know_tasks(data, tasks)
        self._has_start = data.get_field("init_score") is not None
        self._read_labels()
        self._is_trained = _are_two_classes(
            self.settings.objective, self._labels[:, 0], self._weights, self._n_outputs
        )
        order, first_rows = self._order_by_task()
        matrix, self._features = bin_matrix(
            data, storage_order=order, n_threads=self.settings.n_threads
        )
        # LightGBM does not report whether a constant column is categorical.
        may_divide = [feature.is_categorical or feature.n_bins == 1 for feature in self._features]
        self._grower = _core.TreeGrower(
            matrix,
            first_rows=first_rows,
            **self._grower_arguments(data.get_feature_name(), may_divide),
        )
        self._bags = self._make_bags()
        columns = [c for c, feature in enumerate(self._features) if feature.n_bins > 1]
        self._columns = FeatureFraction(
            np.array(columns, np.uint32),
            self.settings.feature_fraction,
            self.settings.feature_fraction_seed,
        )

    @property
    def n_rounds(self) -> int:
        return len(self._texts) // self._n_outputs

    def know_tasks(self, data: lightgbm.Dataset, tasks: TaskSet) -> None:
        super().know_tasks(data, tasks)
        self._margins.pop(data, None)  # TaskQuitting tells after the first round

    def read_settings(self) -> None:
        """Take over parameters that have changed; the streams of columns move on, as LightGBM's."""
        before, self.settings = self.settings, library.read_settings(self.stock)
        self._columns.reset(self.settings.feature_fraction, self.settings.feature_fraction_seed)
        if _bags_of(before) != _bags_of(self.settings):
            self._bags = self._make_bags()

    # ---- one round --------------------------------------------------------------------------

    def update(self, objective: Objective | None) -> bool:
        """Grow one tree per output; True if none of them has a split, and so no tree is kept."""
        data = self.stock.train_set
        if data.version != self._version:  # the user has set other labels or weights
            self._read_labels()
        self._objective = objective
        if objective is None:
            self._start()
        margins = self.margins(data)
        gradients = self._by_output(self._gradients(data, margins, objective))
        grown = self._grow(gradients)
        has_split = [of_output is not None for of_output in grown]
        is_first = not self._texts
        if not any(has_split) and not is_first:
            return True
        start = late = np.zeros(self._n_outputs)
        if is_first:
            start = self._start_scores
            if not all(has_split):
                late = self._late_start_scores()
        updated = margins.copy()
        for output, of_output in enumerate(grown):
            if of_output is None:
                n_rows = len(self._labels) if is_first or library.version() >= (4, 6) else None
                tree = constant_tree(start[output] + late[output], n_rows)
                self._trees.append(late[output])
                self._keep_values(tree.leaf_value, TaskValues.none())
                updated[:, output] += late[output]
            else:
                grown_tree, arrays, leaves = of_output
                with naming_the_round(self.n_rounds):
                    weights = self._weights_of_active_tasks()
                    arrays["value"], values = self._leaf_values(
                        arrays, leaves, gradients, margins, weights, output
                    )
                tree = self._in_lightgbms_order(arrays, start[output])
                self._trees.append((grown_tree, arrays["value"], values))
                in_order = _in_leaf_order(arrays, values, start[output])
                self._keep_values(tree.leaf_value, in_order)
                self._add_tree(arrays["value"], values, leaves, data, updated, output=output)
            self._texts.append(tree_text(tree))
        self._margins[data] = (len(self._trees), updated)
        self._iteration += any(has_split)
        return not any(has_split)

    def _grow(self, gradients: Float32Array) -> list[_Grown | None]:
        """A tree for each output; None if it has no split."""
        left_out = self._rows_without_gradient()
        gradients[left_out] = 0.0
        rows = self._rows(left_out, gradients)
        trees: list[_Grown | None] = []
        for output in range(self._n_outputs):
            if not self._is_trained[output]:
                trees.append(None)
                continue
            tree, leaves = self._grower.grow(
                self.settings.grow,
                np.ascontiguousarray(gradients[:, output]),
                tasks=self._active_tasks(),
                rows=rows,
                features=self._columns.draw(),
                tree_number=len(self._trees) + output,
                n_threads=self.settings.n_threads,
            )
            arrays = tree.arrays()
            trees.append((tree, arrays, leaves) if len(arrays["left"]) > 1 else None)
        return trees

    def _rows(
        self, left_out: npt.NDArray[np.int64], gradients: Float32Array
    ) -> npt.NDArray[np.uint8] | None:
        """Rows that may take part: those in the bag whose task has not quit.

        With goss `gradients` are OUT.
        """
        settings = self.settings
        if not settings.is_goss:
            rows = self._bags.rows(self._iteration)
        elif self._iteration < int(np.float32(1.0) / np.float32(settings.grow.learning_rate)):
            rows = None  # as in LightGBM
        else:
            rows = sample_by_gradient(
                gradients,
                top_rate=settings.top_rate,
                other_rate=settings.other_rate,
                seed=(settings.bagging_seed % 2**32, self._iteration),
            )
        if len(left_out):
            rows = np.ones(len(self._labels), np.uint8) if rows is None else rows.copy()
            rows[left_out] = 0
        return rows

    def _gradients(
        self, data: lightgbm.Dataset, margins: Float64Array, objective: Objective | None
    ) -> Float32Array:
        """Gradient pairs of shape (n_rows, n_outputs, 2)."""
        if objective is None:
            return self._gradients_of_loss(margins, self.n_rounds)
        prediction = margins[:, 0] if self._n_outputs == 1 else margins
        gradient, hessian = map(np.asarray, as_pair(objective(prediction.copy(), data)))
        if gradient.shape == hessian.shape == (margins.size,):  # one class after the other
            gradient, hessian = (part.reshape(-1, len(margins)).T for part in (gradient, hessian))
        return self._pairs_of((gradient, hessian), margins, self.n_rounds)

    # ---- margins and metrics ----------------------------------------------------------------

    def margins(self, data: lightgbm.Dataset) -> Float64Array:
        n_done, margins = self._margins.get(data) or (0, self.start_margins(data))
        if n_done < len(self._trees):
            margins = margins.copy()
            matrix = self._matrix(data)
            for number, tree in enumerate(self._trees[n_done:], n_done):
                output = number % self._n_outputs
                if isinstance(tree, float):
                    margins[:, output] += tree
                    continue
                grown_tree, pooled, values = tree
                leaves = grown_tree.leaves(matrix, n_threads=self.settings.n_threads)
                self._add_tree(pooled, values, leaves, data, margins, output=output)
        self._margins[data] = (len(self._trees), margins)
        return margins

    def start_margins(self, data: lightgbm.Dataset) -> Float64Array:
        own = data.get_field("init_score")
        margins = np.zeros((data.num_data(), self._n_outputs))
        if own is not None:
            margins += np.reshape(own, margins.shape)
        return margins + self._start_scores

    def _matrix(self, data: lightgbm.Dataset) -> _core.BinnedMatrix:
        if data not in self._matrices:
            self._matrices[data], _ = bin_matrix(
                data, storage_order=np.empty(0, np.uint32), n_threads=self.settings.n_threads
            )
        return self._matrices[data]

    def evaluate(self, data: lightgbm.Dataset, name: str, feval: Any) -> list[Any]:
        """LightGBM's own metrics on our margins, in LightGBM's own words."""
        if feval is None and not self.settings.has_metrics:
            return []
        with library.starting_from(data, self.margins(data)):
            booster = library.metric_booster(self.stock.params, data, name)
        return booster.eval_train(feval)

    # ---- the model --------------------------------------------------------------------------

    def to_booster(self) -> lightgbm.Booster:
        """A genuine booster with all trees and parameters."""
        frame = replace(
            assemble.read_document(self.stock), pandas_categorical=self.stock.pandas_categorical
        )
        return assemble.load_document(assemble.with_trees(frame, self._texts))

    @np.errstate(over="ignore")  # a gain beyond float32 is infinite, as in LightGBM
    def _in_lightgbms_order(self, tree: dict[str, npt.NDArray[Any]], bias: float) -> Tree:
        """Node i is the i-th split; a left child keeps the leaf's number."""
        left, right = tree["left"], tree["right"]
        inner, leaf_number = _leaf_numbers(tree)
        number = -1 - leaf_number  # of a node, or -1 - that of a leaf
        number[inner] = np.arange(len(inner))
        leaves = np.flatnonzero(left < 0)
        leaves = leaves[np.argsort(leaf_number[leaves])]
        features = tree["feature"][inner]
        is_categorical = np.array([self._features[f].is_categorical for f in features], bool)
        threshold = [
            0.0 if categorical else threshold_of(self._features, feature, position, default_left)
            for feature, position, default_left, categorical in zip(
                features.tolist(),
                tree["position"][inner].tolist(),
                tree["default_left"][inner].tolist(),
                is_categorical.tolist(),
                strict=True,
            )
        ]
        categories, starts = self._categories(tree, inner)
        # Before 4.6 a node kept the hessian it had as a leaf, and of the root nothing.
        hessian, value = tree["hessian"], tree["base_weight"] * self.settings.grow.learning_rate
        weight = hessian[left[inner]] + hessian[right[inner]]
        inner_value = _stored(value[inner])
        if library.version() < (4, 6):
            weight = hessian[inner]
            weight[0] = inner_value[0] = 0.0
        leaf_value, shrinkage = tree["value"][leaves], self.settings.grow.learning_rate
        if abs(bias) > _EPSILON:
            leaf_value, inner_value = _stored(leaf_value + bias), _stored(inner_value + bias)
            shrinkage = 1.0
        return Tree(
            split_feature=features.astype(np.int64),
            threshold=np.array(threshold),
            is_categorical=is_categorical,
            default_left=tree["default_left"][inner].astype(bool) & ~is_categorical,
            missing_type=np.array([self._features[f].missing_type for f in features], np.int64),
            left_child=number[left[inner]],
            right_child=number[right[inner]],
            split_gain=tree["gain"][inner].astype(np.float32).astype(np.float64),
            internal_value=inner_value,
            internal_weight=weight,
            internal_count=tree["n_rows"][inner].astype(np.int64),
            leaf_value=leaf_value,
            leaf_weight=hessian[leaves],
            leaf_count=tree["n_rows"][leaves].astype(np.int64),
            category_starts=starts,
            categories=categories,
            shrinkage=shrinkage,
        )

    def _categories(
        self, tree: dict[str, npt.NDArray[Any]], inner: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Categories of the categorical nodes that go left, and where each node's begin."""
        starts = tree["category_starts"]
        of_node = {
            int(node): tree["categories"][starts[i] : starts[i + 1]]
            for i, node in enumerate(tree["categorical_nodes"])
        }
        found = [
            np.sort(self._features[tree["feature"][node]].categories[of_node[int(node)]])
            for node in inner
            if int(node) in of_node
        ]
        lengths = [len(categories) for categories in found]
        categories = np.concatenate([*found, np.empty(0, np.int64)])
        return categories, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    # ---- before the first round -------------------------------------------------------------

    def _read_labels(self) -> None:
        """Take over labels and weights of the training rows."""
        data = self.stock.train_set
        label = data.get_field("label")
        labels = np.ascontiguousarray(label, np.float32).reshape(data.num_data(), -1)
        self._labels = as_zero_one(self.settings.objective, labels)
        self._weights = data.get_field("weight")
        self._query_begins = library.query_begins(data)
        self._version = data.version
        self._loss = None

    def _start(self) -> None:
        """Make the loss of LightGBM's own objective, and before the first round its start score."""
        if self._loss is not None:
            return
        loss = make_lightgbm_loss(
            self.settings.objective,
            self._n_outputs,
            arithmetic=library.arithmetic(),
            **self.settings.objective_options,
        )
        check_labels(loss, self._labels)
        self._groups = row_groups(loss, self._labels, self.tasks, self._query_begins)
        self._loss = loss
        if self.settings.boosts_from_average and not self._has_start and not self._texts:
            self._start_scores = library.start_score(self.stock)
            self._margins.clear()

    def _late_start_scores(self) -> Float64Array:
        """Return the constants of outputs whose first tree has no split, shape (n_outputs,)."""
        has_own = self._objective is not None or self._has_start
        if has_own or self.settings.boosts_from_average:
            return np.zeros(self._n_outputs)
        return library.start_score(self.stock)

    def _make_bags(self) -> Bagging:
        fraction: float | Float64Array
        fraction, *of_classes = _bags_of(self.settings)[:3]
        is_positive = self._labels[:, 0] > 0
        is_balanced = self.settings.objective == "binary" and min(of_classes) < 1.0
        if is_balanced and is_positive.any():
            fraction = np.where(is_positive, *of_classes)
        return Bagging(
            len(self._labels),
            fraction,
            self.settings.bagging_freq,
            self.settings.bagging_seed,
        )


def _bags_of(settings: library.GrowthSettings) -> tuple[float, float, float, int]:
    """Return the parameters of bags: a change of these begins new streams."""
    return (
        settings.bagging_fraction,
        settings.pos_bagging_fraction,
        settings.neg_bagging_fraction,
        settings.bagging_freq,
    )


def _are_two_classes(
    objective: str, labels: Float32Array, weights: Float32Array | None, n_outputs: int
) -> list[bool]:
    """Whether there are rows in and outside the class of each output: else it gets no trees."""
    if objective == "binary":
        return [len(np.unique(labels > 0)) == 2]
    if not is_multiclass(objective):
        return [True] * n_outputs
    if objective == "multiclassova":
        weights = None
    shares = np.bincount(labels.astype(np.int64), weights, n_outputs)
    shares = shares / shares.sum()
    return [bool(_EPSILON < share < 1.0 - _EPSILON) for share in shares]


def _leaf_numbers(
    tree: dict[str, npt.NDArray[Any]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Inner nodes in the order of their splits, and LightGBM's number of each node as a leaf."""
    left, right = tree["left"], tree["right"]
    inner = np.flatnonzero(left >= 0)
    inner = inner[np.argsort(left[inner])]  # children are numbered in the order of splits
    leaf_number = np.zeros(len(left), np.int64)
    for i, node in enumerate(inner):
        leaf_number[left[node]], leaf_number[right[node]] = leaf_number[node], i + 1
    return inner, leaf_number


def _in_leaf_order(
    tree: dict[str, npt.NDArray[Any]], values: TaskValues, bias: float
) -> TaskValues:
    """The tasks' values by LightGBM's numbers of the leaves, as the model's text holds them."""
    leaf = _leaf_numbers(tree)[1][values.leaf].astype(np.int32)
    value = _stored(values.value + bias) if abs(bias) > _EPSILON else values.value
    order = np.lexsort((values.task, leaf))
    start = bias if abs(bias) > _EPSILON else 0.0
    return replace(
        values, leaf=leaf[order], task=values.task[order], value=value[order], start=start
    )


def _stored(values: Float64Array) -> Float64Array:
    """Values as LightGBM keeps them."""
    return np.where(np.isnan(values) | (np.abs(values) <= library.ZERO_THRESHOLD), 0.0, values)
