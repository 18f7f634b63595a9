# SPDX-License-Identifier: Apache-2.0
"""L1-based compression: a forest's nodes as features of a sparse linear model (joly2016)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from mtboost import _core
from mtboost.base.archive import require
from mtboost.base.arrays import Float64Array
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_count, check_number, check_seed, is_integer, is_number
from mtboost.base.labels import check_magnitude
from mtboost.base.sklearn_input import accuracy, check_classes, r2, reading_numbers
from mtboost.base.sparse_tables import checked_sparse
from mtboost.base.threads import default_n_threads, threads_of_jobs
from mtboost.base.user_warnings import warn_user
from mtboost.errors import ParameterError, UnsupportedError
from mtboost.estimators.forests.base import LARGEST_LABEL, BaseForest
from mtboost.estimators.forests.forest_file import forest_from_file, forest_to_file
from mtboost.estimators.forests.sklearn_forests import FORESTS, as_core_forest, is_sklearn_forest
from mtboost.estimators.table_estimator import TableEstimator, as_rows, core_table

if TYPE_CHECKING:
    import matplotlib.axes

#: A table as the core reads it, and the codes of its tasks.
_LabelledRows: TypeAlias = tuple[
    npt.NDArray[np.float32] | _core.SparseRows, npt.NDArray[np.uint32] | None
]


def compress(
    forest: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    epsilon: float = 0.01,
    n_steps: int | Literal["cv"] = "cv",
    cv: Any = 10,
    max_steps: int = 10_000,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> CompressedForestRegressor | CompressedForestClassifier:
    """Make a forest many times smaller, mostly without losing accuracy.

    Whether a row visits a node is taken as a feature, of all nodes of all trees. Incremental
    forward stagewise regression finds a linear model on them: again and again it adds `epsilon`,
    with the right sign, to the coefficient of the node that is most correlated with the residual,
    of those for which the step lowers the training error. Most nodes never get a coefficient;
    nodes without any below them are removed. The path follows the monotone lasso.

    Parameters
    ----------
    forest : estimator
        A forest of mtboost, or scikit-learn's ``RandomForest*`` or ``ExtraTrees*``. One that is
        not fitted is fitted on `X` and `y`, as a clone.
    X : table of shape (n_rows, n_features)
        What the forest accepts. The forest's own training rows will do.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Numbers for a regressor, classes for a classifier.
    task : array-like of shape (n_rows,), optional
        Task of each row, for a forest that was fitted with it.
    epsilon : float > 0, default=0.01
        Length of a step in standard deviations of `y`. Smaller steps take longer and follow the
        path more closely.
    n_steps : int >= 0 or "cv", default="cv"
        Length of the path. With ``"cv"`` the number of steps with the least mean squared error in
        cross-validation: in each fold a clone of the forest is fitted on the training part and
        compressed, so what is validated is growing and compressing together. A forest that was
        fitted on other rows, or with weights, is not what is cloned: give a number then.
    cv : int, splitter or iterable, default=10
        Folds, as in :func:`sklearn.model_selection.cross_validate`. A number shuffles the rows, and
        keeps the classes' shares for a classifier of one column.
    max_steps : int >= 1, default=10_000
        Longest path that cross-validation evaluates. A path ends earlier where no step of its
        length would lower the training error.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds, and seeds their forests if the forest itself has no seed.
    n_jobs : int, optional
        Threads for the paths, by default the cores this process may use. Forests are grown with
        their own ``n_jobs``. The result does not depend on either.

    Returns
    -------
    CompressedForestRegressor or CompressedForestClassifier
        A fitted estimator that needs nothing of `forest`.

    Raises
    ------
    UnsupportedError
        `forest` is none of those above.
    DataError, ParameterError, ValueError
        Before any forest grows, if something does not fit together.

    Warns
    -----
    ConvergenceWarning
        The best number of steps is `max_steps`.

    Notes
    -----
    Indicators are centred and not scaled, so that a node of few rows costs as much as one of many:
    scaled ones gave larger forests with larger errors. Among nodes with the same rows, or with the
    complement, the first counts. With several outputs a step is a vector of length `epsilon` along
    the node's correlations with all of them (in standard deviations of each, or as they are for
    classes): it is nodes that take memory, so outputs share them. Classes are columns of 0 and 1
    with squared error.

    Memory: eight bytes for each row and node that it visits, in each thread.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X[:, 0] + X[:, 1] ** 2
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    >>> small = mtboost.compress(forest, X, y, n_steps=200)
    >>> small.n_test_nodes_ < small.n_test_nodes_before_ / 2
    True

    References
    ----------
    joly2016, chapter 7; hastie2007 (keys in docs/papers.md).
    """
    _check_forest(forest, task)
    is_cv = isinstance(n_steps, str) and n_steps == "cv"
    epsilon = check_number("epsilon", epsilon, above=0.0)
    if is_cv:
        max_steps = check_count("max_steps", max_steps, low=1)
    else:
        max_steps = check_count("n_steps", n_steps, besides="'cv'")
    check_consistent_length(X, y, task)
    X, y = checked_sparse(X, "X"), checked_sparse(y, "y")
    if hasattr(type(X), "columns"):
        as_table(X, task_column=getattr(forest, "task", None))
    if scipy.sparse.issparse(X):  # values stored twice crash scikit-learn's forests
        X = as_rows(X)
    labels = _Labels.of(y, forest)
    n_threads = default_n_threads(threads_of_jobs(n_jobs))
    curve = None
    if is_cv:
        if is_number(random_state):
            random_state = check_seed(random_state, name="random_state", bits=32)
        rng = check_random_state(random_state)
        folds = list(_splitter(cv, y, forest, rng).split(X, y))
        template = _with_seed(forest, rng)
        inputs = [_fold(template, X, y, task, labels, train, valid) for train, valid in folds]
        paths = _core.stagewise_paths(
            inputs, epsilon=epsilon, max_steps=max_steps, n_threads=n_threads
        )
        curve = CvCurve.of([path["valid_losses"] / len(labels.scale) for path in paths])
        if curve.best == max_steps:
            warn_user(
                f"The cross-validated error is least after {max_steps} steps, the last that were "
                f"tried: raise max_steps, or epsilon.",
                ConvergenceWarning,
            )
        max_steps = curve.best
    if not _is_fitted(forest):
        forest = _fit(clone(forest), X, y, task)
    core = _core_of(forest)
    rows = _read(forest, X, task)
    (path,) = _core.stagewise_paths(
        [_core.StagewiseInput(core, rows[0], labels.values, tasks=rows[1])],
        epsilon=epsilon,
        max_steps=max_steps,
    )
    make = CompressedForestClassifier if labels.columns.classes else CompressedForestRegressor
    return make._of(forest, core, path, labels, curve)


@dataclass(frozen=True, eq=False, slots=True)
class CvCurve:
    """Cross-validated loss for each number of steps.

    Attributes
    ----------
    loss : ndarray of shape (n,)
        After 0, 1, ... steps: mean over folds of the squared error, relative to the variance of the
        labels and averaged over outputs. 1 is as bad as the mean.
    standard_error : ndarray of shape (n,)
        Of that mean. NaN for a single fold.
    """

    loss: Float64Array
    standard_error: Float64Array

    @classmethod
    def of(cls, losses: list[Float64Array]) -> Self:
        """From each fold's losses; a path that ends stays where it is."""
        length = max(map(len, losses))
        table = np.array([np.pad(own, (0, length - len(own)), mode="edge") for own in losses])
        error = np.full(length, np.nan)
        if len(table) > 1:
            error = table.std(axis=0, ddof=1) / math.sqrt(len(table))
        return cls(table.mean(axis=0), error)

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """0, 1, ..., one for each entry of the others."""
        return np.arange(len(self.loss))

    @property
    def best(self) -> int:
        """The least number of steps with the least loss."""
        return int(self.loss.argmin())


# ---- the compressed forest ----------------------------------------------------------------------


class _CompressedForest(TableEstimator):
    """Common part of regressor and classifier; described at :class:`CompressedForestRegressor`."""

    n_jobs = None

    forest_: _core.Forest
    n_trees_before_: int
    n_nodes_before_: int
    n_steps_: int
    cv_curve_: CvCurve | None

    @classmethod
    def _of(
        cls,
        forest: Any,
        core: _core.Forest,
        path: dict[str, npt.NDArray[Any]],
        labels: _Labels,
        curve: CvCurve | None,
    ) -> Self:
        nodes, numbers = np.unique(path["nodes"], return_inverse=True)
        coefficients = np.zeros((len(nodes), len(labels.scale)))
        np.add.at(coefficients, numbers, path["changes"].reshape(-1, len(labels.scale)))
        intercept = path["intercepts"][-len(labels.scale) :]
        model = cls()
        model._label_columns = labels.columns
        model.forest_ = _core.pruned_forest(
            core,
            nodes,
            coefficients=coefficients * labels.scale,
            intercept=intercept * labels.scale + labels.center,
        )
        model.n_trees_before_, model.n_nodes_before_ = core.n_trees, core.n_nodes
        model.n_steps_ = len(path["nodes"])
        model.cv_curve_ = curve
        for name in TableEstimator._saved | {"task": None}:
            value = getattr(forest, name, None)
            if value is not None:
                setattr(model, name, value)
        return model

    _label_columns: _LabelColumns

    _saved: ClassVar = TableEstimator._saved | {
        "task": str | int | None,
        "n_trees_before_": int,
        "n_nodes_before_": int,
        "n_steps_": int,
    }

    @property
    def n_trees_(self) -> int:
        """Trees of which a node is left."""
        return self.forest_.n_trees

    @property
    def n_nodes_(self) -> int:
        """Nodes that are left, leaves among them."""
        return self.forest_.n_nodes

    @property
    def n_test_nodes_before_(self) -> int:
        """Nodes of the whole forest that are no leaves."""
        return (self.n_nodes_before_ - self.n_trees_before_) // 2

    @property
    def n_test_nodes_(self) -> int:
        """Nodes that are left and are no leaves."""
        return (self.n_nodes_ - self.n_trees_) // 2

    def plot_cv_curve(self, *, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draw the cross-validated error over the number of steps; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ParameterError
            The number of steps was given, so nothing was cross-validated.
        """
        from mtboost.estimators.forests.plotting import plot_cv_curve

        self._check_is_made()
        if self.cv_curve_ is None:
            raise ParameterError(
                'There is no curve, because n_steps was given: compress with n_steps="cv".'
            )
        curve = self.cv_curve_
        return plot_cv_curve(curve.steps, curve.loss, curve.standard_error, curve.best, ax=ax)

    def _outputs(self, X: Any, task: Any) -> Float64Array:
        self._check_is_made()
        if not hasattr(self, "tasks_"):
            _check_no_task(task)
        table, codes, n_threads = self._read_known(X, task)
        return self.forest_.predict(table, tasks=codes, n_threads=n_threads)

    def _knows_tasks(self) -> bool:
        return self.forest_.n_tasks > 0

    def _check_is_made(self) -> None:
        if not hasattr(self, "forest_"):
            raise NotFittedError(
                f"This {type(self).__name__} is empty: mtboost.compress() makes those that predict."
            )

    def _to_file(self) -> dict[str, Any]:
        self._check_is_made()
        return (
            super()._to_file()
            | {
                "labels": asdict(self._label_columns),
                "cv_curve": self.cv_curve_ and asdict(self.cv_curve_),
            }
            | forest_to_file(self.forest_)
        )

    def _set_from_file(self, content: dict[str, Any]) -> None:
        super()._set_from_file(content)
        curve, labels = content["cv_curve"], content["labels"]
        self.cv_curve_ = None if curve is None else CvCurve(**curve)
        if self.cv_curve_ is not None:
            shapes = self.cv_curve_.loss.shape, self.cv_curve_.standard_error.shape
            require(shapes[0] == shapes[1] and len(shapes[0]) == 1, "the curve is not a curve")
        require(
            isinstance(labels["is_flat"], bool) and isinstance(labels["is_matrix"], bool),
            "the labels are neither flat nor a matrix",
        )
        columns = _LabelColumns(**labels | {"classes": tuple(labels["classes"])})
        forest = forest_from_file(content)
        require(
            forest.n_features == self._n_features
            and forest.n_tasks in (0, len(getattr(self, "tasks_", ())))
            and columns.fits(forest.n_outputs, is_classifier=is_classifier(self)),
            "the trees are of another forest",
        )
        self._label_columns = columns
        self.forest_ = forest


class CompressedForestRegressor(RegressorMixin, _CompressedForest):  # type: ignore[misc]
    """A small forest, made by :func:`mtboost.compress`.

    It predicts, is scored, inspected and pickled like any fitted estimator of scikit-learn. It has
    no ``fit``: a forest comes first.

    Attributes
    ----------
    n_steps_ : int
        Length of the path.
    cv_curve_ : CvCurve or None
        ``steps``, ``loss`` and ``standard_error``, if the number of steps was cross-validated.
    n_trees_before_, n_nodes_before_, n_test_nodes_before_ : int
        Size of the forest: trees, nodes, and nodes that are no leaves.
    n_trees_, n_nodes_, n_test_nodes_ : int
        Size that is left. The ratio of test nodes is joly2016's compression factor.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features,)
        Those of the forest.
    """

    def predict(self, X: Any, *, task: Any = None) -> Float64Array:
        """Predict the labels of rows.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in the forest's ``fit``; NaN is missing.
        task : array-like of shape (n_rows,), optional
            Task of each row, if the forest was fitted with it.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_outputs)

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or the task is missing.
        """
        outputs = self._outputs(X, task)
        return outputs[:, 0] if self._label_columns.is_flat else outputs

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Coefficient of determination of :meth:`predict`, averaged over outputs."""
        return r2(y, self.predict(X, task=task), sample_weight)


class CompressedForestClassifier(ClassifierMixin, _CompressedForest):  # type: ignore[misc]
    """A small forest, made by :func:`mtboost.compress`.

    As :class:`CompressedForestRegressor`, for classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of them
        Those of the forest.

    All others are those of :class:`CompressedForestRegressor`.
    """

    @property
    def classes_(self) -> Any:
        """Sorted classes, of each column if the labels had several; columns of indicators."""
        columns = self._label_columns
        if columns.is_matrix:
            return np.arange(len(columns.classes))
        return columns.classes[0] if columns.is_flat else list(columns.classes)

    def predict_proba(self, X: Any, *, task: Any = None) -> Any:
        """Estimate the probability of each class.

        The linear model of each class, cut to [0, 1] and divided by the sum over classes.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in the forest's ``fit``; NaN is missing.
        task : array-like of shape (n_rows,), optional
            Task of each row, if the forest was fitted with it.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes), or list of them
            One array for each column if the labels had several; of an indicator matrix and a forest
            of mtboost one of shape (n_rows, n_labels), as from the forest.

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or the task is missing.
        """
        shares = self._label_columns.shares(self._outputs(X, task))
        if self._label_columns.is_matrix:
            return np.column_stack([own[:, 1] for own in shares])
        return shares[0] if self._label_columns.is_flat else shares

    def predict(self, X: Any, *, task: Any = None) -> npt.NDArray[Any]:
        """The most probable class, shape (n_rows,) or (n_rows, n_columns of y)."""
        shares = self._label_columns.shares(self._outputs(X, task))
        found = [
            classes[own.argmax(axis=1)]
            for classes, own in zip(self._label_columns.classes, shares, strict=True)
        ]
        return found[0] if self._label_columns.is_flat else np.column_stack(found)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Accuracy of :meth:`predict`; of indicators the share of rows that are wholly right."""
        return accuracy(y, self.predict(X, task=task), sample_weight)


# ---- labels -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _LabelColumns:
    """The columns of the labels, and what outputs say of them."""

    is_flat: bool  # y has one dimension
    classes: tuple[npt.NDArray[Any], ...] = ()  # of each column; of a regressor none
    is_matrix: bool = False  # one label a column; their probabilities are one matrix

    def fits(self, n_outputs: int, *, is_classifier: bool) -> bool:
        """Whether they may be those of a forest."""
        if not is_classifier:
            return not self.classes and (n_outputs == 1 or not self.is_flat)
        return (
            (len(self.classes) == 1 or not self.is_flat)
            and all(own.ndim == 1 and len(own) > 0 for own in self.classes)
            and n_outputs == sum(map(_n_outputs, self.classes))
            and (not self.is_matrix or all(len(own) == 2 for own in self.classes))
        )

    def shares(self, outputs: Float64Array) -> list[Float64Array]:
        """Probabilities of the classes of each column."""
        found = []
        end = 0
        for classes in self.classes:
            begin, end = end, end + _n_outputs(classes)
            own = np.clip(outputs[:, begin:end], 0.0, 1.0)
            match len(classes):
                case 1:
                    own = np.ones_like(own)
                case 2:
                    own = np.hstack([1.0 - own, own])
                case _:  # the outputs sum to 1, so that some are positive
                    own /= own.sum(axis=1, keepdims=True)
            found.append(own)
        return found


def _n_outputs(classes: npt.NDArray[Any]) -> int:
    """Of two classes the share of the second says that of the first."""
    return len(classes) if len(classes) > 2 else 1


@dataclass(frozen=True, eq=False, slots=True)
class _Labels:
    """Labels as numbers with mean 0 and variance 1, as the path sees them, and the way back.

    Classes stay 0 and 1 but for a common factor: sums of them are then exact, and of two nodes
    that are equally correlated the first wins on every machine.
    """

    values: Float64Array  # (n_rows, n_outputs)
    center: Float64Array  # (n_outputs,)
    scale: Float64Array
    columns: _LabelColumns

    @classmethod
    def of(cls, y: Any, forest: Any) -> Self:
        if is_classifier(forest):
            return cls._of_classes(y, may_be_matrix=isinstance(forest, BaseForest))
        with reading_numbers("y"):
            numbers = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_magnitude(numbers, LARGEST_LABEL)
        values = numbers.reshape(len(numbers), -1)
        center, scale = values.mean(axis=0), values.std(axis=0)
        scale[scale <= 1e-14 * np.abs(center)] = 1.0  # constant but for the mean's rounding
        return cls((values - center) / scale, center, scale, _LabelColumns(numbers.ndim == 1))

    @classmethod
    def _of_classes(cls, y: Any, may_be_matrix: bool) -> Self:
        check_classes(y)
        table = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        is_matrix = may_be_matrix and type_of_target(table) == "multilabel-indicator"
        classes, indicators = [], []
        for column in table.reshape(len(table), -1).T:
            known, codes = np.unique(column, return_inverse=True)
            if is_matrix:  # a label that all rows have, or none, has two classes all the same
                known, codes = np.arange(2), column.astype(np.int64)
            own = codes[:, np.newaxis]
            classes.append(known)
            indicators.append(own if len(known) <= 2 else own == np.arange(len(known)))
        values = np.hstack(indicators).astype(np.float64)
        spread = math.sqrt(values.var(axis=0).mean())
        scale = np.full(values.shape[1], spread if spread > 0.0 else 1.0)
        center = np.zeros(len(scale))
        columns = _LabelColumns(table.ndim == 1, tuple(classes), is_matrix)
        return cls(values / scale, center, scale, columns)


# ---- forests ------------------------------------------------------------------------------------


def _read(forest: Any, X: Any, task: Any) -> _LabelledRows:
    """A user's table as the forest reads it."""
    if isinstance(forest, BaseForest):
        table, codes, _ = forest._read_known(X, task)
        return table, codes
    with reading_numbers("X"):
        table = validate_data(
            forest,
            X,
            reset=False,
            accept_sparse="csr",
            dtype=np.float32,
            ensure_all_finite="allow-nan",
        )
    return core_table(as_rows(table)), None


def _check_forest(forest: Any, task: Any) -> None:
    if not isinstance(forest, BaseForest) and not is_sklearn_forest(forest):
        known = ", ".join(kind.__name__ for kind in FORESTS)
        raise UnsupportedError(
            f"forest is a {type(forest).__name__}: compress() knows mtboost's forests, and of "
            f"scikit-learn {known}."
        )
    if is_sklearn_forest(forest):
        _check_no_task(task)


def _check_no_task(task: Any) -> None:
    if task is not None:
        raise ParameterError("task is given, but scikit-learn's forests know no tasks.")


def _is_fitted(forest: Any) -> bool:
    try:
        check_is_fitted(forest)
    except NotFittedError:
        return False
    return True


def _fit(forest: Any, X: Any, y: Any, task: Any) -> Any:
    return forest.fit(X, y) if task is None else forest.fit(X, y, task=task)


def _core_of(forest: Any) -> _core.Forest:
    if isinstance(forest, BaseForest):
        return forest.forest_
    return as_core_forest(forest)


def _with_seed(forest: Any, rng: np.random.RandomState) -> Any:
    """An unfitted clone that grows the same trees each time, if `rng` is not random itself."""
    forest = clone(forest)
    if forest.random_state is None:
        forest.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
    return forest


def _fold(
    template: Any,
    X: Any,
    y: Any,
    task: Any,
    labels: _Labels,
    train: npt.NDArray[np.int64],
    valid: npt.NDArray[np.int64],
) -> _core.StagewiseInput:
    """A forest that was fitted on one fold's training rows, and the rows to walk on."""
    own, others = (
        [None if part is None else _safe_indexing(part, rows) for part in (X, y, task)]
        for rows in (train, valid)
    )
    forest = _fit(clone(template), *own)
    (table, codes), (valid_table, valid_codes) = (
        _read(forest, part[0], part[2]) for part in (own, others)
    )
    return _core.StagewiseInput(
        _core_of(forest),
        table,
        labels.values[train],
        tasks=codes,
        X_valid=valid_table,
        y_valid=labels.values[valid],
        tasks_valid=valid_codes,
    )


def _splitter(cv: Any, y: Any, forest: Any, rng: np.random.RandomState) -> Any:
    checked = check_cv(cv, y, classifier=is_classifier(forest))
    if is_integer(cv):
        kind = StratifiedKFold if isinstance(checked, StratifiedKFold) else KFold
        return kind(checked.n_splits, shuffle=True, random_state=rng)
    return checked


# ---- checks -------------------------------------------------------------------------------------
