"""Our trees inside LightGBM's own training loop.

``lightgbm.train`` asks its booster for little: ``update``, ``eval_train`` and ``eval_valid`` each
round, its text at the end. :class:`GrowingBooster` is the stock booster with these replaced; the
stock object keeps the parameters, metrics and data, but no tree ever enters it. Whatever else asks
for the model (saving, predicting, SHAP, a user's callback) is given a genuine booster, assembled
when needed.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.errors import DataError, TrainingError, UnsupportedError
from mtboost.growth import TaskGrowth
from mtboost.lightgbm import assemble
from mtboost.lightgbm.bins import Feature, bin_matrix, threshold_of
from mtboost.lightgbm.library import (
    Settings,
    arithmetic,
    metric_booster,
    read_settings,
    silence,
    start_score,
    starting_from,
    version,
)
from mtboost.lightgbm.sampling import Bagging, FeatureFraction
from mtboost.losses import check_labels, make_lightgbm_loss
from mtboost.tasks import TaskSet

DoubleArray = npt.NDArray[np.float64]
FloatArray = npt.NDArray[np.float32]
Objective = Callable[..., tuple[npt.ArrayLike, npt.ArrayLike]]
_NEXT_TO_ZERO = float(np.float32(1e-35))  # LightGBM stores 0 for values up to this size
_EPSILON = float(np.float32(1e-15))  # a start score up to this size is none


class Growth(TaskGrowth):
    """Trees grown so far, and the margins they give to every data set in use.

    Parameters
    ----------
    stock : Booster
        Holds parameters, metrics and data; the trees of a continued model are taken over.
    tasks : TaskSet or None
        Task of each training row; None is one task.
    score : SplitScore or None
        None ranks cuts by the pooled gain.
    """

    def __init__(
        self,
        stock: lightgbm.Booster,
        *,
        tasks: TaskSet | None,
        score: _core.SplitScore | None,
    ) -> None:
        super().__init__(tasks, score)
        self.stock = stock
        self.settings: Settings = read_settings(stock)
        self._n_outputs = self.settings.n_outputs
        self._texts = list(assemble.read_document(stock).trees)
        self._n_continued = len(self._texts)
        self._trees: list[tuple[_core.Tree, DoubleArray] | None] = []  # values; None: a constant
        self._start_scores = np.zeros(self._n_outputs)
        self._loss: _core.LightgbmLoss | None = None
        self._grower: _core.TreeGrower | None = None
        self._features: list[Feature] = []
        self._objective: Objective | None = None
        self._has_start = False
        self._iteration = 0
        self._labels: FloatArray = np.empty((0, 1), np.float32)
        self._bags: Bagging
        self._columns: FeatureFraction
        self._matrices: weakref.WeakKeyDictionary[lightgbm.Dataset, _core.BinnedMatrix] = (
            weakref.WeakKeyDictionary()
        )
        self._margins: weakref.WeakKeyDictionary[lightgbm.Dataset, tuple[int, DoubleArray]] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def n_rounds(self) -> int:
        return len(self._texts) // self._n_outputs

    @property
    def objective(self) -> object:
        """Name of the objective, or the user's function."""
        return self._objective or self.settings.objective

    def read_settings(self) -> None:
        """Take over parameters that have changed; the streams of columns move on, as LightGBM's."""
        self.settings = read_settings(self.stock)
        if self._grower is None:
            return
        self._columns.fraction = self.settings.feature_fraction
        self._columns.draw()
        bags = self._bags
        if (bags.fraction, bags.freq) != (
            self.settings.bagging_fraction,
            self.settings.bagging_freq,
        ):
            self._bags = self._make_bags()

    # ---- one round --------------------------------------------------------------------------

    def update(self, objective: Objective | None) -> bool:
        """Grow one tree per output; True if none of them has a split, and so no tree is kept."""
        data = self.stock.train_set
        if self._grower is None:
            self._start(data, objective)
        assert self._grower is not None
        margins = self.margins(data)
        gradients = self._gradients(data, margins, objective)
        left_out = self._rows_without_gradient()
        gradients[left_out] = 0.0
        rows = self._rows(left_out)
        n_threads = self.settings.n_threads
        grown = [
            self._grower.grow(
                self.settings.grow,
                np.ascontiguousarray(gradients[:, output]),
                tasks=self._active_tasks(),
                rows=rows,
                features=self._columns.draw(),
                tree_number=len(self._trees) + output,
                n_threads=n_threads,
            )
            for output in range(self._n_outputs)
        ]
        arrays = [tree.arrays() for tree, _ in grown]
        if not any(len(tree["left"]) > 1 for tree in arrays):
            if not self._texts:
                self._add_constants()
            return True
        updated = margins.copy()
        is_first = not self._texts
        for output, ((tree, leaves), of_tree) in enumerate(zip(grown, arrays, strict=True)):
            if len(of_tree["left"]) == 1:
                if is_first:
                    self._add_constant(self._start_scores[output], len(self._labels))
                else:
                    self._add_constant(0.0)
                continue
            if self._loss is not None and self._loss.refits_leaves:
                of_tree["value"] = self._loss.refit_leaf_values(
                    of_tree["value"],
                    leaves,
                    margins,
                    self._labels,
                    self._weights_of_active_tasks(),
                    output=output,
                    learning_rate=self.settings.grow.learning_rate,
                    n_threads=n_threads,
                )
            _core.add_leaf_values(
                of_tree["value"], leaves, updated, output=output, n_threads=n_threads
            )
            self._trees.append((tree, of_tree["value"]))
            bias = self._start_scores[output] if is_first else 0.0
            self._texts.append(assemble.tree_text(self._in_lightgbms_order(of_tree, bias)))
        self._margins[data] = (len(self._trees), updated)
        self._iteration += 1
        return False

    def _rows(self, left_out: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8] | None:
        """Rows that may take part: those in the bag whose task has not quit."""
        rows = self._bags.rows(self._iteration)
        if len(left_out):
            rows = np.ones(len(self._labels), np.uint8) if rows is None else rows.copy()
            rows[left_out] = 0
        return rows

    def _gradients(
        self, data: lightgbm.Dataset, margins: DoubleArray, objective: Objective | None
    ) -> FloatArray:
        """Gradient pairs of shape (n_rows, n_outputs, 2)."""
        if objective is None:
            assert self._loss is not None
            try:
                return self._loss.gradients(
                    margins,
                    self._labels,
                    self._weights_of_active_tasks(),
                    n_threads=self.settings.n_threads,
                )
            except ValueError as error:
                raise TrainingError(f"Round {self.n_rounds}: {error}") from None
        prediction = margins[:, 0] if self._n_outputs == 1 else margins
        return self._pairs_of(objective(prediction.copy(), data), margins, self.n_rounds)

    # ---- margins and metrics ----------------------------------------------------------------

    def margins(self, data: lightgbm.Dataset) -> DoubleArray:
        """Raw scores of all rows, shape (n_rows, n_outputs): float64 sums in tree order."""
        if data in self._margins:
            n_done, margins = self._margins[data]
        else:
            n_done, margins = 0, self.start_margins(data)
        if n_done < len(self._trees):
            margins = margins.copy()
            matrix = self._matrix(data)
            for number, tree in enumerate(self._trees[n_done:], n_done):
                if tree is None:
                    continue
                _core.add_leaf_values(
                    tree[1],
                    tree[0].leaves(matrix, n_threads=self.settings.n_threads),
                    margins,
                    output=number % self._n_outputs,
                    n_threads=self.settings.n_threads,
                )
        self._margins[data] = (len(self._trees), margins)
        return margins

    def start_margins(self, data: lightgbm.Dataset) -> DoubleArray:
        """Raw scores before the first tree of this training, shape (n_rows, n_outputs)."""
        own = data.get_field("init_score")
        if own is None:
            return np.tile(self._start_scores, (data.num_data(), 1))
        return np.array(own, np.float64, order="C").reshape(data.num_data(), -1)

    def _matrix(self, data: lightgbm.Dataset) -> _core.BinnedMatrix:
        if data not in self._matrices:
            self._matrices[data], _ = bin_matrix(
                data, storage_order=np.empty(0, np.uint32), n_threads=self.settings.n_threads
            )
        return self._matrices[data]

    def evaluate(self, data: lightgbm.Dataset, name: str, feval: Any) -> list[Any]:
        """LightGBM's own metrics on our margins, in LightGBM's own words."""
        with starting_from(data, self.margins(data)):
            booster = metric_booster(self.stock.params, data, name)
            return booster.eval_train(feval)

    # ---- the model --------------------------------------------------------------------------

    def to_booster(self) -> lightgbm.Booster:
        """A genuine booster with all trees and parameters."""
        frame = replace(
            assemble.read_document(self.stock), pandas_categorical=self.stock.pandas_categorical
        )
        return assemble.load_document(assemble.with_trees(frame, self._texts))

    def _add_constants(self) -> None:
        """What LightGBM makes of a first round without splits: trees of the start score."""
        scores = self._start_scores
        if (
            self._objective is None
            and not self.settings.boosts_from_average
            and not self._has_start
        ):
            scores = start_score(self.stock)  # LightGBM estimates it now
        for score in scores:
            self._add_constant(score, len(self._labels))
        for data, (_, margins) in list(self._margins.items()):
            self._margins[data] = (len(self._trees), margins + (scores - self._start_scores))

    def _add_constant(self, value: float, n_rows: int | None = None) -> None:
        self._trees.append(None)
        self._texts.append(assemble.tree_text(assemble.constant_tree(value, n_rows)))

    @np.errstate(over="ignore")  # a gain beyond float32 is infinite, as in LightGBM
    def _in_lightgbms_order(self, tree: dict[str, npt.NDArray[Any]], bias: float) -> assemble.Tree:
        """Node i is the i-th split; a left child keeps the leaf's number."""
        left, right = tree["left"], tree["right"]
        inner = np.flatnonzero(left >= 0)
        inner = inner[np.argsort(left[inner])]  # children are numbered in the order of splits
        number = np.full(len(left), -1)  # of a node, or -1 - that of a leaf
        leaf_number = np.zeros(len(left), np.int64)
        for i, node in enumerate(inner):
            leaf_number[left[node]], leaf_number[right[node]] = leaf_number[node], i + 1
        number = -1 - leaf_number
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
        if version() < (4, 6):
            weight = hessian[inner]
            weight[0] = inner_value[0] = 0.0
        leaf_value, shrinkage = tree["value"][leaves], self.settings.grow.learning_rate
        if abs(bias) > _EPSILON:
            leaf_value, inner_value = _stored(leaf_value + bias), _stored(inner_value + bias)
            shrinkage = 1.0
        return assemble.Tree(
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

    def _start(self, data: lightgbm.Dataset, objective: Objective | None) -> None:
        n_rows = data.num_data()
        self._check_rows(n_rows)
        silence()
        self._objective = objective
        self._has_start = data.get_field("init_score") is not None
        label = data.get_field("label")
        self._labels = np.ascontiguousarray(label, np.float32).reshape(n_rows, -1)
        self._weights = data.get_field("weight")
        if objective is None:
            self._loss = make_lightgbm_loss(
                self.settings.objective,
                self._n_outputs,
                arithmetic=arithmetic(),
                **self.settings.objective_options,
            )
            check_labels(self._loss, self._labels)
            if self.settings.boosts_from_average and not self._has_start and not self._texts:
                self._start_scores = start_score(self.stock)
        order, first_rows = self._order_by_task()
        matrix, self._features = bin_matrix(
            data, storage_order=order, n_threads=self.settings.n_threads
        )
        self._grower = _core.TreeGrower(matrix, score=self._score, first_rows=first_rows)
        self._iteration = 0
        self._bags = self._make_bags()
        columns = [c for c, feature in enumerate(self._features) if feature.n_bins > 1]
        self._columns = FeatureFraction(
            np.array(columns, np.uint32),
            self.settings.feature_fraction,
            self.settings.feature_fraction_seed,
        )
        if objective is not None:  # LightGBM then resets its parameters before the first tree
            self.stock.reset_parameter({"objective": "none"})
            self._columns.draw()

    def _make_bags(self) -> Bagging:
        return Bagging(
            len(self._labels),
            self.settings.bagging_fraction,
            self.settings.bagging_freq,
            self.settings.bagging_seed,
        )


def _stored(values: DoubleArray) -> DoubleArray:
    """Values as LightGBM keeps them."""
    return np.where(np.isnan(values) | (np.abs(values) <= _NEXT_TO_ZERO), 0.0, values)


class GrowingBooster(lightgbm.Booster):
    """A booster during training: what ``lightgbm.train`` and its callbacks see.

    Made of a stock booster by :func:`take_over`. Any method not defined here works on a genuine
    booster of the trees so far.
    """

    growth: Growth
    _trained: lightgbm.Booster | None

    def __del__(self) -> None:
        release(self).__del__()

    @property
    def _handle(self) -> Any:  # type: ignore[override]  # an attribute in Booster
        return self.trained()._handle

    def trained(self) -> lightgbm.Booster:
        """A genuine booster of the trees so far."""
        if self.growth.n_rounds == 0:
            return self.growth.stock
        if self._trained is None:
            self._trained = self.growth.to_booster()
        self._trained.best_iteration = self.best_iteration
        return self._trained

    def update(
        self, train_set: lightgbm.Dataset | None = None, fobj: Objective | None = None
    ) -> bool:
        if train_set is not None and train_set is not self.growth.stock.train_set:
            raise DataError("TaskSplit trains on one data set; update() was given another one.")
        self._trained = None
        return self.growth.update(fobj)

    def eval(self, data: lightgbm.Dataset, name: str, feval: Any = None) -> list[Any]:
        return self.growth.evaluate(data, name, feval)

    def eval_train(self, feval: Any = None) -> list[Any]:
        return self.growth.evaluate(self.train_set, self._train_data_name, feval)

    def eval_valid(self, feval: Any = None) -> list[Any]:
        pairs = zip(self.valid_sets, self.name_valid_sets, strict=True)
        return [
            result for data, name in pairs for result in self.growth.evaluate(data, name, feval)
        ]

    def add_valid(self, data: lightgbm.Dataset, name: str) -> GrowingBooster:
        self.valid_sets.append(data.construct())
        self.name_valid_sets.append(name)
        return self

    def reset_parameter(self, params: dict[str, Any]) -> GrowingBooster:
        self._trained = None
        self.growth.stock.reset_parameter(params)  # whose `params` are ours
        self.growth.read_settings()
        return self

    def current_iteration(self) -> int:
        return self.growth.n_rounds

    def rollback_one_iter(self) -> GrowingBooster:
        raise UnsupportedError("TaskSplit cannot take a round back: train with fewer rounds.")

    def refit(self, *args: Any, **kwargs: Any) -> lightgbm.Booster:
        return self.trained().refit(*args, **kwargs)

    def model_to_string(self, num_iteration: int | None = None, *args: Any, **kwargs: Any) -> str:
        return self.trained().model_to_string(num_iteration, *args, **kwargs)

    def model_from_string(self, model_str: str) -> lightgbm.Booster:
        """Become the stock booster again, of another model: how ``lightgbm.train`` ends."""
        return release(self).model_from_string(model_str)

    # Copies and pickles are genuine boosters.

    def __copy__(self) -> lightgbm.Booster:
        return copy.copy(self.trained())

    def __deepcopy__(self, memo: Any) -> lightgbm.Booster:
        return copy.deepcopy(self.trained(), memo)

    def __reduce__(self) -> Any:
        # copy.copy hands back what it is given; a function of ours would be needed to unpickle.
        return copy.copy, (self.trained(),)


def take_over(
    booster: lightgbm.Booster, *, tasks: TaskSet | None, score: _core.SplitScore | None
) -> None:
    """Make a growing booster of a stock one, in place: ``lightgbm.train`` holds the object."""
    growth = Growth(booster, tasks=tasks, score=score)
    # The stock booster lives on as an object of its own with the same state.
    growth.stock = object.__new__(lightgbm.Booster)
    growth.stock.__dict__.update(booster.__dict__)
    del booster.__dict__["_handle"]
    booster.__dict__.update(growth=growth, _trained=None)
    booster.__class__ = GrowingBooster


def release(growing: GrowingBooster) -> lightgbm.Booster:
    """Make the stock booster of a growing one again, without our trees; in place."""
    stock = growing.growth.stock.__dict__
    growing.__dict__["_handle"], stock["_handle"] = stock["_handle"], None
    del growing.growth, growing._trained
    booster = cast(lightgbm.Booster, growing)
    booster.__class__ = lightgbm.Booster
    return booster
