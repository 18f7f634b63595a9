# SPDX-License-Identifier: Apache-2.0
"""Metrics: a user's, of the rows of one task, and built-in ones, of all tasks at once."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.errors import DataError, ParameterError
from mtboost.metrics.task_rows import TaskRows

_OF_TWO_CLASSES = ("logloss", "error", "auc", "aucpr", "average_precision")
_NO_MEANS = ("auc", "aucpr", "average_precision", "concordance", "mape", "wape")


@dataclass(frozen=True)
class Metric:
    """A score of one task's predictions.

    Parameters
    ----------
    name : str
        Shown in histories and progress lines.
    function : callable
        ``function(y_true, y_pred, sample_weight=w) -> float``, the signature of scikit-learn's
        metrics. It is called once a task and round with that task's rows: ``y_true`` of shape (n,),
        ``y_pred`` of shape (n,) or (n, n_classes) on the response scale (probabilities of a
        classifier), and ``w`` of shape (n,), or None when the rows have no weights. It may return
        NaN where it is undefined. Without weights it needs no argument ``sample_weight``.
    greater_is_better : bool
        The direction of improvement.

    Examples
    --------
    >>> from sklearn.metrics import average_precision_score
    >>> from mtboost.metrics import Metric
    >>> metric = Metric("ap", average_precision_score, greater_is_better=True)
    """

    name: str
    function: Callable[..., Any]
    greater_is_better: bool

    def gains(self, value: Float64Array, than: Float64Array | float) -> Float64Array:
        """Compute by how much the value of each task is better.

        Parameters
        ----------
        value : ndarray of float64, shape (..., n_tasks)
            Values of the metric.
        than : ndarray of float64 or float
            Values to compare with.

        Returns
        -------
        ndarray of float64, shape (..., n_tasks)
            Positive where `value` is better.
        """
        return value - than if self.greater_is_better else than - value

    def name_of(self, task: int) -> str:
        """Return the name of the metric of a task.

        Parameters
        ----------
        task : int
            Code of the task.

        Returns
        -------
        str
            The same for all tasks, unless they have different metrics.
        """
        return self.name

    def _by_task(self, y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
        has_weights = takes_weights(self)
        if rows.weight is not None and not has_weights:
            raise ParameterError(
                f"Metric {self.name!r} is a function without an argument sample_weight, but rows "
                f"have weights: add sample_weight=None to its arguments, or leave out the weights."
            )
        result = np.full(rows.n_tasks, np.nan)
        order = np.argsort(rows.codes, kind="stable")
        ends = np.cumsum(np.bincount(rows.codes, minlength=rows.n_tasks))
        for task, own in enumerate(np.split(order, ends[:-1])):
            if len(own):
                weight = None if rows.weight is None else rows.weight[own]
                options = {"sample_weight": weight} if has_weights else {}
                try:
                    result[task] = self.function(y[own], prediction[own], **options)
                except Exception as error:
                    error.add_note(
                        f"Metric {self.name!r} failed on task number {task}, which has {len(own)} "
                        f"rows; let it return NaN where it is undefined."
                    )
                    raise
        return result


def takes_weights(metric: Metric) -> bool:
    """Whether the function of a metric can be called with the weights of rows."""
    if isinstance(metric, BuiltIn):
        return True
    try:
        parameters = inspect.signature(metric.function).parameters
    except (TypeError, ValueError):  # some built-in ones have no signature
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    return "sample_weight" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


# Evaluated every round: a loop over 1000 tasks that calls scikit-learn takes about a second each
# time, so means are np.bincount and ranking metrics one sort by (task, prediction).
@dataclass(frozen=True)
class BuiltIn(Metric):
    """A metric whose function takes the rows of all tasks at once.

    Attributes
    ----------
    levels : tuple of float
        Levels of quantiles, one for each column of the predictions; empty for other metrics.
    """

    levels: tuple[float, ...] = ()

    @property
    def is_of_classes(self) -> bool:
        """Whether a prediction is a probability for each class, and not one number."""
        return self.name in ("merror", "mlogloss")

    def _by_task(self, y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
        n_levels = len(self.levels)
        n_axes = 2 if self.is_of_classes or n_levels > 1 else 1
        if prediction.ndim != n_axes or (n_levels > 1 and prediction.shape[1] != n_levels):
            shape = f"(n_rows, {n_levels or 'n_classes'})" if n_axes == 2 else "(n_rows,)"
            raise DataError(
                f"{self.name} needs predictions of shape {shape}, found {prediction.shape}."
            )
        # A task without rows is 0/0; a prediction of 0 may make a likelihood infinite, as in
        # XGBoost.
        if y.ndim == 2 and not (is_of_bounds(self) or self.name == "concordance"):
            raise DataError(f"{self.name} needs one label a row, found bounds of times.")
        if y.ndim == 1 and is_of_bounds(self):
            raise DataError(f"{self.name} needs two bounds of times a row, found one label.")
        if self.name.partition("@")[0] in _OF_TWO_CLASSES:
            y = np.where(y == -1.0, 0.0, y)  # LightGBM's labels of two classes may be -1 and 1
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            result: Float64Array = self.function(y, prediction, rows)
        is_nan = np.isnan(prediction)
        has_nan = np.zeros(rows.n_tasks)
        has_nan[rows.codes[is_nan if n_axes == 1 else is_nan.any(axis=1)]] = 1.0
        if rows.total is not None:
            has_nan = rows.total(has_nan)
        result[has_nan > 0.0] = np.nan
        return result


def check_classes(metric: object, y: Float64Array) -> None:
    """Raise DataError unless labels suit a built-in metric of two classes, or its name."""
    name = metric.name if isinstance(metric, BuiltIn) else metric
    if not isinstance(name, str) or name.partition("@")[0] not in _OF_TWO_CLASSES:
        return
    are_known = ((y >= 0.0) & (y <= 1.0)) | (y == -1.0)
    if not are_known.all():
        raise DataError(
            f"{name} needs labels of two classes, from 0 to 1, found {y[~are_known][0]:g}: choose "
            "a metric for such labels."
        )


def is_of_queries(metric: Metric) -> bool:
    """Whether a metric is a built-in one of rows that are ranked within queries."""
    return isinstance(metric, BuiltIn) and metric.name.partition("@")[0] == "ndcg"


def is_of_survival(metric: Metric) -> bool:
    """Whether a metric is a built-in one of hazards or times, whose labels are times."""
    is_concordance = isinstance(metric, BuiltIn) and metric.name == "concordance"
    return is_concordance or is_of_hazards(metric) or is_of_bounds(metric)


def is_of_hazards(metric: Metric) -> bool:
    """Whether a metric is the built-in likelihood of hazards, which are those of strata."""
    return isinstance(metric, BuiltIn) and metric.name == "cox-nloglik"


def is_of_bounds(metric: Metric) -> bool:
    """Whether a metric is the built-in likelihood of times, whose labels are bounds."""
    return isinstance(metric, BuiltIn) and metric.name.partition("@")[0] == "aft-nloglik"


def is_mean_of_rows(metric: Metric) -> bool:
    """Whether a metric of rows, queries or events, or its square, is surely the mean over them."""
    return isinstance(metric, BuiltIn) and metric.name not in _NO_MEANS
