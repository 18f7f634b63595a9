# SPDX-License-Identifier: Apache-2.0
"""Compressed forests: predictions of a sparse linear model on a forest's nodes, and their files."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.exceptions import NotFittedError

from mtboost import _core
from mtboost.base.archive import require
from mtboost.base.arrays import Float64Array
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.renamed import renamed
from mtboost.base.sklearn_input import accuracy, r2
from mtboost.errors import ParameterError
from mtboost.estimators.forests.compressed_labels import LabelColumns, Labels
from mtboost.estimators.forests.forest_file import forest_from_file, forest_to_file
from mtboost.estimators.table_estimator import TableEstimator
from mtboost.model.inputs.keywords import where_in_a_method

if TYPE_CHECKING:
    import matplotlib.axes


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
        labels: Labels,
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

    _label_columns: LabelColumns

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
                'n_steps was given, so no curve was computed: compress with n_steps="cv".'
            )
        curve = self.cv_curve_
        return plot_cv_curve(curve.steps, curve.loss, curve.standard_error, curve.best, ax=ax)

    def _outputs(self, X: Any, task: Any) -> Float64Array:
        self._check_is_made()
        if not hasattr(self, "tasks_"):
            check_no_task(task)
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
        columns = LabelColumns(**labels | {"classes": tuple(labels["classes"])})
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

    @renamed(where_in_a_method)
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

    @renamed(where_in_a_method)
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

    @renamed(where_in_a_method)
    @shares_docstring_of(CompressedForestRegressor.predict, sections=["Raises"])
    def predict_proba(self, X: Any, *, task: Any = None) -> Any:
        """Estimate the probability of each class.

        The linear model of each class, cut to [0, 1] and divided by the sum over classes.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes), or list of them
            One array for each column if the labels had several; of an indicator matrix and a forest
            of mtboost one of shape (n_rows, n_labels), as from the forest.
        """
        shares = self._label_columns.shares(self._outputs(X, task))
        if self._label_columns.is_matrix:
            return np.column_stack([own[:, 1] for own in shares])
        return shares[0] if self._label_columns.is_flat else shares

    @renamed(where_in_a_method)
    def predict(self, X: Any, *, task: Any = None) -> npt.NDArray[Any]:
        """The most probable class, shape (n_rows,) or (n_rows, n_columns of y)."""
        shares = self._label_columns.shares(self._outputs(X, task))
        found = [
            classes[own.argmax(axis=1)]
            for classes, own in zip(self._label_columns.classes, shares, strict=True)
        ]
        return found[0] if self._label_columns.is_flat else np.column_stack(found)

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Accuracy of :meth:`predict`; of indicators the share of rows that are wholly right."""
        return accuracy(y, self.predict(X, task=task), sample_weight)


def check_no_task(task: Any) -> None:
    if task is not None:
        raise ParameterError("task is given, but scikit-learn's forests know no tasks.")
