# SPDX-License-Identifier: Apache-2.0
"""LightGBM's own trees of one output, for many: each output takes its multiple of every tree."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import lightgbm
import numpy as np

from mtboost import _core
from mtboost.base.arrays import Float32Array, Float64Array
from mtboost.base.checks import check_type
from mtboost.base.labels import as_known_labels, as_label_weights
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.lightgbm import library
from mtboost.lightgbm.projected_model import LOSSES, ProjectedModel
from mtboost.trees.losses import main_name
from mtboost.trees.projected_objective import BaseProjectedObjective
from mtboost.trees.projections import NComponents, Projection

Pair = tuple[Float32Array, Float32Array]
# Parameters that do not go with a tree for many outputs: the one value there is, and why.
_ONLY = {
    "boosting": ("gbdt", "changes trees that outputs have taken their multiples of"),
    "linear_tree": ("0", "has leaves that are not numbers"),
    "monotone_constraints": ("", "cannot hold: an output may take a negative multiple of a tree"),
    "num_class": ("1", "has several trees a round"),
    "reg_sqrt": ("0", "is not offered: train on sign(y) * sqrt(|y|)"),
    "sigmoid": ("1", "is not offered"),
    "scale_pos_weight": ("1", "is not offered: give weight="),
    "is_unbalance": ("0", "is not offered: give weight="),
}


class ProjectedObjective(BaseProjectedObjective, library.Callback):
    """Train many outputs with LightGBM's trees of a single one: ``gbrt-rpo`` of the source.

    Each round draws a random combination of the outputs, and LightGBM grows one tree on that of the
    residuals. Each output then takes the multiple ρ of the tree that makes its own loss smallest,
    times the learning rate: outputs that have nothing to do with the combination take nearly
    nothing. A round costs one tree, however many outputs there are. Labels may be unknown.

    It goes in ``callbacks=``, of scikit-learn's wrappers too, and holds the labels; those of the
    data set, which LightGBM wants, are not used. What LightGBM returns is the trees alone,
    :meth:`model` puts them together with the outputs' multiples::

        params = {"objective": "regression", "learning_rate": 0.1, ...}
        projected = mtboost.lightgbm.ProjectedObjective(Y, valid_labels={"valid_0": Y_valid})
        booster = lightgbm.train(params, lightgbm.Dataset(X, Y[:, 0]), 500, valid_sets=[...],
                                 callbacks=[projected, lightgbm.early_stopping(20)])
        model = projected.model(booster)
        model.predict(X)        # shape (n_rows, n_outputs)
        model.booster(3)        # an ordinary booster of output 3

    Parameters
    ----------
    labels : array-like of shape (n_rows, n_outputs)
        NaN is an unknown label, as if the row were not there for that output. The margins of an
        output without a known label are 0.
    weight : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Multiplies the weights of the data set; 0 is as good as an unknown label.
    valid_labels : mapping of str to array-like of shape (n_valid_rows, n_outputs), optional
        Labels of validation sets by their names (LightGBM's default: ``"valid_0"``, ...), for the
        mean loss over known labels, which replaces LightGBM's metrics.
    projection : str, array-like of shape (1, n_outputs) or None, default="gaussian"
        ``"gaussian"``, ``"rademacher"`` (±1), ``"achlioptas"`` (two thirds zeros), ``"sparse"``
        (a fraction 1/√d is not zero), ``"hadamard"``, ``"subsample"`` (one of the outputs) or
        ``"pca"`` (the direction in which the round's residuals are largest).
    shared : bool, default=False
        The first round's projection in all rounds.
    seed : int, default=0
        Of the projections.
    n_threads : int, optional
        For residuals and multiples; by default all cores that the process may use. They do not
        depend on it.

    Attributes
    ----------
    start : ndarray of float32, shape (n_outputs,)
        Constants that minimise the loss, where margins begin; zeros with
        ``boost_from_average=False``.
    rho : ndarray of float64, shape (n_trees, n_outputs)
        Of the last training. A margin is the start plus the sum over trees of ρ times the leaf,
        whose value has LightGBM's learning rate in it.

    Raises
    ------
    UnsupportedError
        When training begins: the objective is none of ``"regression"``, ``"regression_l1"``,
        ``"huber"`` (its corner is the parameter ``alpha``), ``"binary"`` and ``"cross_entropy"``
        (logistic), or a function; ``boosting`` is not ``"gbdt"``; linear trees, monotone
        constraints; an ``init_score``; a model to continue; ``lightgbm.cv``.
    DataError
        Shapes do not fit, a label is outside the objective's domain, or none is known; all labels
        of the data set are alike and the objective is ``"binary"``, for which LightGBM then grows
        no trees.
    ParameterError
        The projection makes no sense, or a validation set of that name does not exist.

    Notes
    -----
    A row counts in a tree by its weight, and where some of its labels are unknown by the fraction
    of the projection's squared entries that belongs to known ones; ``lambda_l2`` and
    ``min_sum_hessian_in_leaf`` refer to these sums. A ``feval`` is given margins of shape (n_rows,
    n_outputs). A logistic ρ is limited so that no margin moves by more than 10 times the learning
    rate in a round.

    A round whose tree has no split costs a round and changes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import lightgbm
    >>> from mtboost.lightgbm import ProjectedObjective
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> Y = X @ rng.normal(size=(4, 30))  # 30 outputs
    >>> params = {"objective": "regression", "num_leaves": 7, "verbosity": -1}
    >>> projected = ProjectedObjective(Y)
    >>> data = lightgbm.Dataset(X, Y[:, 0])
    >>> booster = lightgbm.train(params, data, 10, callbacks=[projected])
    >>> projected.model(booster).predict(X).shape
    (200, 30)

    References
    ----------
    joly2016, section 22.2, algorithm 2 (key in docs/papers.md).
    """

    _order = -999_999
    before_iteration = True

    start: Float32Array
    rho: Float64Array

    def __init__(
        self,
        labels: Any,
        *,
        weight: Any = None,
        valid_labels: Mapping[str, Any] | None = None,
        projection: Projection = "gaussian",
        shared: bool = False,
        seed: int = 0,
        n_threads: int | None = None,
    ) -> None:
        n_components: NComponents = 1 if isinstance(projection, str) else "log"  # a matrix says it
        super().__init__(projection, n_components, shared, seed, n_threads)
        if projection is None:
            raise ParameterError(
                "projection is None, but a tree of LightGBM has one output: name a projection, or "
                "use mtboost.xgboost.ProjectedObjective for trees of all outputs."
            )
        if valid_labels is not None:
            allowed = "None or a mapping of the name of a validation set to its labels"
            check_type("valid_labels", valid_labels, Mapping, allowed)
        self.labels = as_known_labels(labels)
        self.weight = None if weight is None else as_label_weights(weight, self._shape)
        self.valid_labels = {
            name: as_known_labels(given, argument=f"valid_labels[{name!r}]")
            for name, given in (valid_labels or {}).items()
        }
        self._objective = "regression"
        self._n_trees_after: list[int] = []

    @property
    def _shape(self) -> tuple[int, int]:
        n_rows, n_outputs = self.labels.shape
        return n_rows, n_outputs

    def __call__(self, *arguments: Any) -> Any:
        """Take the booster over before the first round, as a callback of ``lightgbm.train``."""
        if len(arguments) != 1:
            raise ParameterError(
                "ProjectedObjective was given as a function: train with callbacks=[projected], and "
                "name the objective in the parameters."
            )
        env = arguments[0]
        if isinstance(env.model, lightgbm.CVBooster):
            raise UnsupportedError(
                "ProjectedObjective cannot be used in lightgbm.cv: train each fold with "
                "lightgbm.train."
            )
        if env.iteration > env.begin_iteration:
            return
        if type(env.model) is not lightgbm.Booster:
            raise UnsupportedError(
                "ProjectedObjective uses LightGBM's own trees, and another callback has put its "
                "own in their place, or it was given twice: give lightgbm.train one of them."
            )
        if env.iteration > 0:
            raise UnsupportedError(
                "ProjectedObjective cannot continue a model, whose trees have no multiples for "
                "each output: leave out init_model=."
            )
        outputs = _Outputs(self, env.model)
        env.model.__class__ = _ProjectedBooster
        cast(_ProjectedBooster, env.model).outputs = outputs

    def model(self, booster: lightgbm.Booster) -> ProjectedModel:
        """Return the trained model: LightGBM's trees with the outputs' multiples of them.

        Parameters
        ----------
        booster : Booster
            The one that the last training with this object returned. Of its rounds those up to
            ``best_iteration`` are taken, if it has one.

        Returns
        -------
        ProjectedModel
            It predicts all outputs, and needs nothing of this object.

        Raises
        ------
        DataError
            The booster has other trees.
        """
        n_rounds = booster.best_iteration if booster.best_iteration > 0 else None
        n_trees = self._n_trees_after[:n_rounds][-1] if self._n_trees_after else 0
        if not n_trees or booster.num_trees() < n_trees or booster.num_trees() > len(self.rho):
            raise DataError(
                f"The booster has {booster.num_trees()} trees, but the last training with this "
                f"ProjectedObjective had {n_trees}: give the booster that it returned."
            )
        return ProjectedModel(booster, self.start, self.rho[:n_trees], self._objective)


class _ProjectedBooster(library.EvaluatedBooster):
    """LightGBM's booster in training, whose metrics are those of the outputs."""

    outputs: _Outputs

    def update(
        self, train_set: lightgbm.Dataset | None = None, fobj: Callable[..., Any] | None = None
    ) -> bool:
        if train_set is not None and train_set is not self.train_set:
            raise DataError(
                "ProjectedObjective trains on one data set; update() was given another one."
            )
        if fobj is not None and not isinstance(fobj, ProjectedObjective):
            raise UnsupportedError(
                "The objective is a function, which does not define the loss that each output's "
                f"multiple of a tree is found by: name one of {', '.join(LOSSES)}."
            )
        try:
            is_finished = super().update(fobj=self.outputs.gradients)
        except lightgbm.basic.LightGBMError as error:
            if "num_features" not in str(error):
                raise
            raise DataError(
                "No column can be split: all are constant, or min_data_in_leaf "
                f"({library.read_number(self, 'min_data_in_leaf'):g}) is too large for the rows."
            ) from None
        self.outputs.end_round(self)
        return is_finished

    def eval(self, data: lightgbm.Dataset, name: str, feval: Any = None) -> list[Any]:
        functions = feval if isinstance(feval, list) else [feval] if callable(feval) else []
        found: set[str] = set()

        def evaluate(_: Any, data: lightgbm.Dataset) -> list[tuple[str, float, bool]]:
            results = self.outputs.evaluate(data, functions)
            found.update(name for name, *_ in results)
            return results

        # LightGBM's own metrics are those of the labels in the data set.
        results = super().eval(data, name, evaluate)
        return [result for result in results if result[1] in found]

    def scores(self, data: lightgbm.Dataset) -> Float64Array:
        """Sum of the trees so far for a data set of the training."""
        return library.scores_in_training(super(), data)  # type: ignore[arg-type]  # not of our metrics

    def model_from_string(self, model_str: str) -> lightgbm.Booster:
        """Become a stock booster, of another model: how ``lightgbm.train`` ends."""
        del self.outputs
        booster = cast(lightgbm.Booster, self)
        booster.__class__ = lightgbm.Booster
        return library.become(booster, model_str)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # LightGBM's copies are genuine boosters.
        return object.__new__, (lightgbm.Booster,), copy.deepcopy(self).__getstate__()


class _Outputs:
    """Margins of all outputs while LightGBM grows trees of one."""

    def __init__(self, given: ProjectedObjective, booster: lightgbm.Booster) -> None:
        library.check_one_machine("ProjectedObjective", booster.params)
        params = library.read_parameters(booster)
        for name, (only, reason) in _ONLY.items():
            if params.get(name, only) != only:
                raise UnsupportedError(
                    f"{name}={params[name]} does not go with ProjectedObjective: it {reason}."
                )
        self._given = given
        given._objective = main_name(params["objective"])
        if given._objective not in LOSSES:
            raise UnsupportedError(
                f"objective={params['objective']!r} is not supported by ProjectedObjective: name "
                f"one of {', '.join(LOSSES)}."
            )
        if (
            given._objective == "binary"
            and np.ptp(library.labels_and_weights(booster.train_set)[0]) == 0
        ):
            raise DataError(
                "The labels of the data set are all alike, and with objective='binary' LightGBM "
                "would grow no trees: give it those of an output that has both classes, or use "
                "objective='cross_entropy'."
            )
        n_outputs = given.labels.shape[1]
        loss = LOSSES[given._objective][0]
        self._loss = _core.OutputLoss(
            loss, n_outputs, huber_delta=library.read_number(booster, "alpha")
        )
        self._train = self._read(booster.train_set, given.labels, given.weight, "labels")
        self._train.check_any_counts()
        starts = params["boost_from_average"] == "1"
        given.start = (
            self._loss.initial(self._train.labels, self._train.weights)
            if starts
            else np.zeros(n_outputs, np.float32)
        )
        given.rho = np.empty((0, n_outputs))
        given._n_trees_after = []
        self._train.begin(given.start)
        self._valid = []
        names = list(booster.name_valid_sets)
        for name in given.valid_labels:
            if name not in names:
                raise ParameterError(
                    f"valid_labels has labels of {name!r}, but the validation sets are "
                    f"{', '.join(map(repr, names)) or 'none'}: give them by these names."
                )
        for name, data in zip(names, booster.valid_sets, strict=True):
            labels = given.valid_labels.get(name)
            if labels is None:
                labels = np.full((data.num_data(), n_outputs), np.nan, np.float32)
            rows = self._read(data, labels, None, f"valid_labels[{name!r}]")
            rows.begin(given.start)
            self._valid.append(rows)
        self._n_threads = default_n_threads(given.n_threads, self._train.labels.size)
        self._pairs = np.zeros((*self._train.labels.shape, 2), np.float32)
        self._shared: Any = None

    def gradients(self, _: Any, data: lightgbm.Dataset) -> Pair:
        """Those of the projected residuals, by which LightGBM grows the round's tree."""
        rows, given = self._train, self._given
        residuals = self._loss.residuals(
            rows.margins, rows.labels, rows.weights, n_threads=self._n_threads
        )
        tree = len(given._n_trees_after)
        projection = self._shared or given.draw(
            self._loss.n_outputs, lambda: residuals, tree=tree, n_threads=self._n_threads
        )
        if projection is None:  # one output
            projection = _core.ForestProjection(np.ones((1, 1), np.float32))
        self._shared = projection if given.shared else None
        np.negative(residuals, out=self._pairs[..., 0])
        components = projection.project(
            self._pairs, rows.counts, seed=given.seed, tree=tree, n_threads=self._n_threads
        )
        if components.shape[1] != 1:
            raise ParameterError(
                f"projection has {components.shape[1]} components, but a tree of LightGBM has one "
                f"output: give a matrix of shape (1, {self._loss.n_outputs})."
            )
        gradient, hessian = np.moveaxis(components[:, 0], -1, 0)
        return np.ascontiguousarray(gradient), np.ascontiguousarray(hessian)

    def end_round(self, booster: _ProjectedBooster) -> None:
        """Let each output take its multiple of the tree that was grown."""
        given, rows = self._given, self._train
        direction = rows.grow(booster.scores(rows.data))
        steps = self._loss.steps(
            rows.margins, rows.labels, direction, rows.weights, n_threads=self._n_threads
        )
        steps *= library.read_number(
            booster, "learning_rate"
        )  # the tree's values have it in them, and ρ has lost it
        rows.add(direction, steps)
        for valid in self._valid:
            valid.add(valid.grow(booster.scores(valid.data)), steps)
        if booster.num_trees() > len(given.rho):  # LightGBM drops trees without a split
            given.rho = np.vstack([given.rho, steps])
        given._n_trees_after.append(len(given.rho))

    def evaluate(
        self, data: lightgbm.Dataset, functions: list[Callable[..., Any]]
    ) -> list[tuple[str, float, bool]]:
        """The mean loss over known labels, and what the user's functions make of all margins."""
        known = [rows for rows in (self._train, *self._valid) if rows.data is data]
        if not known:
            raise ParameterError(
                "ProjectedObjective evaluates the validation sets that training began with: name "
                "the others in valid_sets=."
            )
        rows = known[0]
        results: list[tuple[str, float, bool]] = []
        if not np.isnan(rows.labels).all():
            value = self._loss.mean_loss(
                rows.margins, rows.labels, rows.weights, n_threads=self._n_threads
            )
            results.append((f"{self._loss.name}_loss", value, False))
        for function in functions:
            found = function(rows.margins, data)
            results += found if isinstance(found, list) else [found]
        return results

    def _read(
        self,
        data: lightgbm.Dataset,
        labels: Float32Array,
        weight: Float32Array | None,
        argument: str,
    ) -> _DatasetRows:
        if len(labels) != data.num_data() or labels.shape[1] != self._loss.n_outputs:
            raise DataError(
                f"{argument} has shape {labels.shape}, but must have ({data.num_data()}, "
                f"{self._loss.n_outputs}), because the data set has {data.num_data()} rows."
            )
        if data.get_init_score() is not None:
            raise UnsupportedError(
                "ProjectedObjective starts from constants, and the data set has an init_score: "
                "leave it out."
            )
        weights = weight
        if data.get_weight() is not None:
            own = np.asarray(data.get_weight(), np.float32)
            weights = own if weight is None else (own * weight.T).T
        try:
            weights = None if weights is None else np.ascontiguousarray(weights)
            self._loss.check(labels, weights)
        except ValueError as error:
            raise DataError(f"{argument}: {error}") from None
        is_known = ~np.isnan(labels)
        counts = weights
        if not is_known.all():
            ones = np.float32(1.0) if weights is None else weights.reshape(len(labels), -1)
            counts = np.ascontiguousarray(is_known * ones, np.float32)
        return _DatasetRows(data, labels, weights, counts)


@dataclass(slots=True)
class _DatasetRows:
    """A data set: what is known of its rows, and how far the model is."""

    data: lightgbm.Dataset
    labels: Float32Array  # (n_rows, n_outputs)
    weights: Float32Array | None  # (n_rows,) or (n_rows, n_outputs)
    counts: Float32Array | None  # the same, 0 where labels are unknown
    margins: Float32Array = field(init=False)  # (n_rows, n_outputs)
    scores: Float64Array = field(init=False)  # sum of the trees, (n_rows,)

    def check_any_counts(self) -> None:
        if self.counts is not None and not self.counts.any():
            raise DataError(
                "labels has no known label of a weight above 0: at least one must count."
            )

    def begin(self, start: Float32Array) -> None:
        self.margins = np.tile(start, (len(self.labels), 1))
        self.scores = np.zeros(len(self.labels))

    def grow(self, scores: Float64Array) -> Float32Array:
        """Return the contribution of the last tree to a sum of trees, shape (n_rows,)."""
        direction = (scores - self.scores).astype(np.float32)
        self.scores = scores.copy()
        return direction

    def add(self, direction: Float32Array, steps: Float64Array) -> None:
        self.margins += np.multiply.outer(direction, steps.astype(np.float32))
