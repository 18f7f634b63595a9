# SPDX-License-Identifier: Apache-2.0
"""XGBoost's own vector trees, whose structure is found on random projections of the gradients."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xgboost

from mtboost import _core
from mtboost.base.arrays import Float32Array
from mtboost.base.checks import listed
from mtboost.base.labels import as_known_labels, as_label_weights
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.trees.losses import (
    check_labels,
    check_shape_of_gradients,
    is_multiclass,
    make_loss,
    start_scores,
)
from mtboost.trees.projected_objective import BaseProjectedObjective
from mtboost.trees.projections import NComponents, Projection
from mtboost.xgboost import library
from mtboost.xgboost.matrix_fields import labels_and_weights
from mtboost.xgboost.objective_settings import read_objective

if TYPE_CHECKING:
    from xgboost.objective import TreeObjective
elif hasattr(xgboost, "objective"):
    TreeObjective = xgboost.objective.TreeObjective
else:  # before XGBoost 3.2, where ProjectedObjective refuses to be made
    TreeObjective = object

Pair = tuple[Float32Array, Float32Array]
_TREES_OF_ANOTHER = (
    "ProjectedObjective uses XGBoost's own trees, and another callback has put its own in their "
    "place: give xgboost.train one of them."
)


class ProjectedObjective(BaseProjectedObjective, xgboost.callback.TrainingCallback):
    """Let XGBoost find the structure of its trees on few random components of many outputs.

    Each round draws a projection Φ of shape (n_components, n_outputs). The tree's splits are those
    of squared error on the projected gradients, its leaves the Newton steps of all outputs:
    ``gbrt-relabel-rpo`` of the source. With hundreds of outputs a round takes a fraction of the
    time of XGBoost's own, whose histograms hold all of them, and splits that suit many related
    outputs have less noise to follow. Labels may be unknown.

    It goes in ``callbacks=`` and takes the gradients of the objective in the parameters (or of the
    function in ``obj=``), so that it works with scikit-learn's wrappers too::

        params = {"objective": "binary:logistic", "multi_strategy": "multi_output_tree",
                  "min_child_weight": 0, ...}
        projected = mtboost.xgboost.ProjectedObjective(n_components=5)
        booster = xgboost.train(params, dtrain, 200, callbacks=[projected])

    Parameters
    ----------
    labels : array-like of shape (n_rows, n_labels), optional
        Instead of those of the training matrix, which cannot be NaN: NaN is an unknown label, as if
        the row were not there for that output. The matrix then needs labels of the same shape all
        the same, such as ``numpy.nan_to_num(labels)``, for XGBoost to know how many there are.
    weight : array-like of shape (n_rows,) or (n_rows, n_labels), optional
        Multiplies the weights of the training matrix; 0 is as good as an unknown label.
    projection : str, array-like of shape (n_components, n_outputs) or None, default="gaussian"
        ``"gaussian"``, ``"rademacher"`` (±1), ``"achlioptas"`` (two thirds zeros), ``"sparse"``
        (a fraction 1/√d is not zero), ``"hadamard"``, ``"subsample"`` (some of the outputs) or
        ``"pca"`` (the directions in which the round's gradients are largest). None: XGBoost's own
        trees, of all outputs (``gbmort``).
    n_components : "log", int or float, default="log"
        The natural logarithm of the number of outputs, a number, or a fraction of the outputs.
    shared : bool, default=False
        The first round's projection in all rounds; of ``"pca"`` that of the first round of this
        training, also where it continues a model (``xgb_model=``).
    seed : int, default=0
        Of the projections. They depend on it and on the number of the round, so that a model that
        is continued is the one that was not interrupted, except with `shared` and ``"pca"``.
    n_threads : int, optional
        For the gradients; by default all cores that the process may use. They do not depend on it.

    Raises
    ------
    UnsupportedError
        XGBoost is older than 3.2. When training begins: parameters that do not go with a split
        gradient (other tree methods than ``"hist"``, dart, monotone constraints, several trees a
        round; before XGBoost 3.4 interaction constraints and a ``min_child_weight`` above 0; before
        3.3 categories); an objective whose leaves are not Newton steps.
    ParameterError
        The parameters lack ``multi_strategy="multi_output_tree"``, or `projection` or
        `n_components` make no sense; it was given as ``obj=`` alone.
    DataError
        Shapes do not fit, a label is outside the objective's domain, or an output has no known
        label.

    Notes
    -----
    *Start.* Without ``base_score`` in the parameters each output starts from the mean of its known
    labels, which minimises squared, logistic and Poisson loss; with a function in ``obj=`` from
    XGBoost's default.

    *Splits.* A row counts in a component by its weight, and where some of its labels are unknown by
    the fraction of the component's squared entries that belongs to known ones. In the split search
    ``gamma``, ``lambda`` and ``min_child_weight`` refer to these sums, also of a logistic
    objective, whose hessians set the leaves only.

    *Metrics* are XGBoost's, of the labels in its matrices: for unknown labels use a
    ``custom_metric``.

    The split gradient is marked experimental in XGBoost.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import ProjectedObjective
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> Y = X @ rng.normal(size=(4, 30))  # 30 outputs
    >>> params = {
    ...     "objective": "reg:squarederror",
    ...     "multi_strategy": "multi_output_tree",
    ...     "min_child_weight": 0,
    ...     "max_depth": 3,
    ... }
    >>> projected = ProjectedObjective(n_components=5)
    >>> booster = xgboost.train(params, xgboost.DMatrix(X, Y), 10, callbacks=[projected])
    >>> booster.predict(xgboost.DMatrix(X)).shape
    (200, 30)

    References
    ----------
    joly2016, section 22.2, algorithm 3 (key in docs/papers.md).
    """

    def __init__(
        self,
        labels: Any = None,
        *,
        weight: Any = None,
        projection: Projection = "gaussian",
        n_components: NComponents = "log",
        shared: bool = False,
        seed: int = 0,
        n_threads: int | None = None,
    ) -> None:
        library.check_has_split_gradient()
        super().__init__(projection, n_components, shared, seed, n_threads)
        self.labels = labels
        self.weight = weight

    def __call__(self, *_: Any) -> Any:
        """Refuse to be ``obj=`` alone: nothing would have checked the parameters."""
        raise ParameterError(
            "ProjectedObjective is missing among the callbacks: train with callbacks=[projected], "
            "with or without obj=projected."
        )

    def before_training(self, model: Any) -> Any:
        if not isinstance(model, xgboost.Booster):
            raise UnsupportedError(
                "ProjectedObjective cannot be used in xgboost.cv, which does not give a callback "
                "the rows of its folds: train each fold with xgboost.train."
            )
        if type(model) is not xgboost.Booster:
            raise UnsupportedError(_TREES_OF_ANOTHER)
        library.check_split_gradient(model)
        model.__class__ = _ProjectedBooster
        cast(_ProjectedBooster, model).gradients = _ProjectedGradients(self, model)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if not isinstance(model, _ProjectedBooster):  # a callback after this one has replaced it
            raise UnsupportedError(_TREES_OF_ANOTHER)
        return False

    def after_training(self, model: Any) -> Any:
        # A callback before this one, such as EarlyStopping(save_best=True), may have sliced a
        # genuine booster already.
        if isinstance(model, _ProjectedBooster):
            del model.gradients
            model.__class__ = xgboost.Booster  # type: ignore[assignment]
        return model


class _ProjectedBooster(xgboost.Booster):
    """XGBoost's booster in training: it asks `gradients`, whatever objective it is given."""

    gradients: _ProjectedGradients

    def update(
        self, dtrain: xgboost.DMatrix, iteration: int, fobj: Callable[..., Any] | None = None
    ) -> None:
        n_rounds = self.num_boosted_rounds()
        self.gradients.begin_round(n_rounds, dtrain, fobj)
        if n_rounds == 0 and (start := self.gradients.start(dtrain)):
            self.set_param({"base_score": start})
        super().update(dtrain, iteration, cast(Any, self.gradients))

    def __getstate__(self) -> dict[str, Any]:  # what XGBoost's copies are made from
        state: dict[str, Any] = super().__getstate__()
        del state["gradients"]
        return state

    def __reduce__(self) -> Any:
        return copy.copy, (copy.copy(self),)  # a copy is a genuine booster


class _ProjectedGradients(TreeObjective):
    """Gradients of a round: of all outputs, and those that find the splits."""

    def __init__(self, given: ProjectedObjective, model: xgboost.Booster) -> None:
        self._given = given
        self._settings = read_objective(model)
        self._function: Callable[..., Any] | None = None
        self._rows: _MatrixRows | None = None
        self._round = 0
        self._shared: Any = None

    def begin_round(
        self, n_rounds: int, matrix: xgboost.DMatrix, function: Callable[..., Any] | None
    ) -> None:
        """Take over the number of rounds so far, and read the matrix if it is new."""
        self._round = n_rounds
        self._function = None if isinstance(function, ProjectedObjective) else function
        if self._rows is None or self._rows.matrix() is not matrix:
            self._rows = self._read(matrix)

    def start(self, matrix: xgboost.DMatrix) -> str | None:
        """XGBoost's ``base_score``; None where it is another's affair."""
        rows, settings = self._rows, self._settings
        is_given = not settings.estimates_start or matrix.get_base_margin().size
        if is_given or self._function is not None or is_multiclass(settings.name):
            return None
        assert rows is not None
        counts = np.ones(len(rows.labels), np.float32) if rows.counts is None else rows.counts
        weights = np.broadcast_to(counts.reshape(len(counts), -1), rows.labels.shape)
        scores = [f"{score:.9g}" for score in start_scores(settings.name, rows.labels, weights)]
        return scores[0] if len(scores) == 1 else f"[{','.join(scores)}]"

    def __call__(self, iteration: int, y_pred: Any, dtrain: xgboost.DMatrix) -> Pair:
        rows = self._rows
        assert rows is not None
        if self._function is None:
            margins = np.ascontiguousarray(y_pred, np.float32).reshape(len(rows.labels), -1)
            rows.loss.gradients(
                margins, rows.labels, rows.weights, n_threads=rows.n_threads, out=rows.pairs
            )
        else:
            pair = library.call_objective(self._function, iteration, y_pred, dtrain)
            for part, values in enumerate(pair):
                shape = rows.pairs.shape[:2]
                check_shape_of_gradients(np.shape(values), shape)
                rows.pairs[..., part] = np.reshape(values, shape)
            if rows.factors is not None:  # the function may have made NaN of an unknown label
                rows.pairs[np.broadcast_to(rows.factors == 0, rows.pairs.shape[:2])] = 0
        if rows.factors is not None:
            np.multiply(rows.pairs, rows.factors[..., np.newaxis], out=rows.pairs)
        return rows.pairs[..., 0], rows.pairs[..., 1]

    def split_grad(self, iteration: int, grad: Any, hess: Any) -> Pair | None:
        rows, given = self._rows, self._given
        assert rows is not None
        projection = self._shared or given.draw(
            rows.pairs.shape[1],
            lambda: rows.pairs[..., 0],
            tree=self._round,
            n_threads=rows.n_threads,
        )
        if projection is None:
            return None
        self._shared = projection if given.shared else None
        components = projection.project(
            rows.pairs, rows.counts, seed=given.seed, tree=self._round, n_threads=rows.n_threads
        )
        n_components, n_outputs = components.shape[1], rows.pairs.shape[1]
        if n_components > n_outputs:
            raise ParameterError(
                f"projection has {n_components} components, but XGBoost's vector trees take as "
                f"many as there are outputs at most, {n_outputs}: lower n_components."
            )
        return components[..., 0], components[..., 1]

    def _read(self, matrix: xgboost.DMatrix) -> _MatrixRows:
        given = self._given
        library.check_vector_categories(matrix)
        n_rows = matrix.num_row()
        of_matrix, weights = labels_and_weights(matrix)
        of_matrix = of_matrix.reshape(n_rows, -1).astype(np.float32)
        labels = of_matrix if given.labels is None else as_known_labels(given.labels)
        if labels.shape != of_matrix.shape:
            raise DataError(
                f"labels has shape {labels.shape}, but the labels of the training matrix have "
                f"shape {of_matrix.shape}: give both for the same rows and outputs, for example "
                "label=numpy.nan_to_num(labels)."
            )
        is_unknown = np.isnan(labels)
        labels = np.where(is_unknown, np.float32(1.0), labels)  # every loss accepts it
        loss = self._make_loss(labels.shape[1])
        if self._function is None:
            check_labels(loss, labels)
        factors = None
        if given.weight is not None or is_unknown.any():
            ones = np.ones(n_rows, np.float32)
            factors = ones if given.weight is None else as_label_weights(given.weight, labels.shape)
            factors = factors.reshape(n_rows, -1)
            if is_unknown.any():
                factors = factors * ~is_unknown
            _check_known(factors)
        counts = weights
        if factors is not None:
            counts = factors if weights is None else factors * weights[:, np.newaxis]
            counts = counts.reshape(n_rows) if counts.shape[1] == 1 else counts
        return _MatrixRows(
            weakref.ref(matrix),
            loss,
            labels,
            weights,
            factors,
            counts,
            default_n_threads(given.n_threads, n_rows * loss.n_outputs),
            np.empty((n_rows, loss.n_outputs, 2), np.float32),
        )

    def _make_loss(self, n_labels: int) -> _core.Loss:
        settings = self._settings
        n_outputs = settings.n_classes if is_multiclass(settings.name) else n_labels
        loss = make_loss(
            settings.name, n_outputs, arithmetic=library.arithmetic(), **settings.options
        )
        if loss.refits_leaves and self._function is None:
            raise UnsupportedError(
                f"objective={settings.name!r} sets its leaves by another rule than the gradients: "
                "use 'reg:pseudohubererror', or, for absolute error, run pip install "
                "'xgboost>=3.4'."
            )
        return loss


@dataclass(frozen=True, slots=True)
class _MatrixRows:
    """Labels and weights of the training rows, read once, and their gradients."""

    matrix: weakref.ref[xgboost.DMatrix]
    loss: _core.Loss
    labels: Float32Array  # (n_rows, n_labels)
    weights: Float32Array | None  # the matrix's, (n_rows,)
    factors: Float32Array | None  # on gradients, (n_rows, n_labels) or (n_rows, 1); 0 where unknown
    counts: Float32Array | None  # weights times factors, (n_rows, n_labels) or (n_rows,)
    n_threads: int
    pairs: Float32Array  # (n_rows, n_outputs, 2); of the last round


def _check_known(factors: Float32Array) -> None:
    is_known = factors.any(axis=0)
    if not is_known.all():
        missing = [str(output) for output in np.flatnonzero(~is_known)]
        raise DataError(
            f"All labels of {listed(missing, 'output')} are unknown, or have weight 0: leave such "
            "outputs out."
        )
