# SPDX-License-Identifier: Apache-2.0
"""Scores per task, evaluated for all tasks in one pass.

A built-in metric has the definition XGBoost 3.2 gives the metric of the same name, computed in
float64.
"""

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln, huber, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer, get_scorer_names

from mtboost.base.arrays import Float64Array, Total
from mtboost.base.checks import check_choice, did_you_mean
from mtboost.base.tables import TaskColumn, as_table
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError, ParameterError

__all__ = ["Metric", "TaskScorer", "default_metric", "get_metric", "task_scorer"]


_TINY = 1e-16  # XGBoost's bound of a probability before its logarithm is taken
_OF_TWO_CLASSES = ("logloss", "error", "auc", "aucpr", "average_precision")
_NO_MEANS = ("auc", "aucpr", "average_precision", "concordance", "mape", "wape")
_LEAST_PREDICTION = -1.0 + 1e-6  # as in the loss of reg:squaredlogerror
_TINY_LIKELIHOOD = 1e-12  # XGBoost's bound of that of a time
_GAMMA_SHIFT = 1e-6  # XGBoost adds it to label and prediction before it divides


class _TaskRows(NamedTuple):
    """The rows of all tasks, and sums over those of each task."""

    codes: npt.NDArray[np.integer[Any]]
    n_tasks: int
    weight: Float64Array | None
    queries: npt.NDArray[np.integer[Any]] | None = None
    total: Total | None = None  # None: all rows are here

    def weigh(self, values: Float64Array) -> Float64Array:
        return values if self.weight is None else values * self.weight

    def sum(self, values: Float64Array) -> Float64Array:
        sums = np.bincount(self.codes, values, minlength=self.n_tasks)
        return sums.astype(np.float64, copy=False)  # integer if there are no rows at all

    def mean(self, values: Float64Array) -> Float64Array:
        """Weighted mean of each task; NaN for a task whose weights sum to zero."""
        if self.weight is None:
            counts = np.bincount(self.codes, minlength=self.n_tasks)
            return self._quotient(self.sum(values), counts)
        return self._quotient(self.sum(values * self.weight), self.sum(self.weight))

    def _quotient(self, sums: Float64Array, weights: npt.NDArray[Any]) -> Float64Array:
        if self.total is not None:
            sums, weights = self.total(np.stack([sums, weights]))
        quotient: Float64Array = sums / weights
        return quotient


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

    def _by_task(self, y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
        takes_weights = _takes_weights(self.function)
        if rows.weight is not None and not takes_weights:
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
                options = {"sample_weight": weight} if takes_weights else {}
                try:
                    result[task] = self.function(y[own], prediction[own], **options)
                except Exception as error:
                    error.add_note(
                        f"Metric {self.name!r} failed on task number {task}, which has {len(own)} "
                        f"rows; let it return NaN where it is undefined."
                    )
                    raise
        return result


def _takes_weights(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with ``sample_weight=``."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in ones have no signature
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    return "sample_weight" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


# Evaluated every round: a loop over 1000 tasks that calls scikit-learn takes about a second each
# time, so means are np.bincount and ranking metrics one sort by (task, prediction).
@dataclass(frozen=True)
class _BuiltIn(Metric):
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

    def _by_task(self, y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
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


def evaluate_by_task(
    metric: str | Metric,
    y: npt.ArrayLike,
    prediction: npt.ArrayLike,
    codes: npt.NDArray[np.integer[Any]],
    n_tasks: int,
    weight: npt.ArrayLike | None = None,
    queries: npt.NDArray[np.integer[Any]] | None = None,
    total: Total | None = None,
) -> Float64Array:
    """Value of a metric on the rows of each task.

    Parameters
    ----------
    metric : str or Metric
        Name of a built-in metric (see :func:`get_metric`) or a user's.
    y : array-like of shape (n_rows,), or (n_rows, 2)
        Labels; class numbers for ``merror`` and ``mlogloss``. Metrics of two classes read -1 as 0.
        Two columns are bounds of times.
    prediction : array-like of shape (n_rows,) or (n_rows, n_classes)
        On the response scale: probabilities for ``logloss`` and ``error``. The two-dimensional
        shape is for ``merror`` and ``mlogloss``; ``auc`` and ``aucpr`` take any increasing scale.
    codes : ndarray of int, shape (n_rows,)
        Task of each row, 0 to ``n_tasks`` - 1.
    n_tasks : int
        Number of tasks.
    weight : array-like of shape (n_rows,), optional
        Row weights.
    queries : ndarray of int, shape (n_rows,), optional
        Query of each row, for ``ndcg``.
    total : callable, optional
        Adds up arrays over several machines, each of which calls it as often as the others; for
        metrics that are means over rows (:func:`is_mean_of_rows`).

    Returns
    -------
    ndarray of float64, shape (n_tasks,)
        NaN where the metric is undefined: no row, no weight, a NaN prediction, or, for ``auc`` and
        ``aucpr``, one class only.

    Raises
    ------
    DataError
        The predictions have the wrong number of axes for a built-in metric.
    """
    weights = None if weight is None else np.asarray(weight, np.float64)
    rows = _TaskRows(codes, n_tasks, weights, queries, total)
    return get_metric(metric)._by_task(
        np.asarray(y, np.float64), np.asarray(prediction, np.float64), rows
    )


def scores_by_task(
    metric: Metric,
    tasks: TaskSet,
    y: npt.ArrayLike,
    prediction: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    queries: npt.NDArray[np.integer[Any]] | None = None,
) -> list[tuple[str, float]]:
    """Names ``f"{metric}-{task}"`` and values of :func:`evaluate_by_task`, tasks in their order."""
    values = evaluate_by_task(metric, y, prediction, tasks.codes, tasks.n_tasks, weight, queries)
    return named_scores(metric, tasks, values)


def named_scores(metric: Metric, tasks: TaskSet, values: Float64Array) -> list[tuple[str, float]]:
    """Names ``f"{metric}-{task}"`` and the values of the tasks, in their order."""
    names = (f"{metric.name}-{task}" for task in tasks.names)
    return list(zip(names, values.tolist(), strict=True))


@dataclass(frozen=True)
class TaskScorer:
    """A scorer for scikit-learn's searches and cross-validation; :func:`task_scorer` makes it.

    Attributes
    ----------
    metric : Metric
        Evaluates the rows of each task.
    task : str or int, or list of str
        Column of the table that holds the task, or the columns of nested tasks.
    aggregate : {"worst", "mean"}
        How the scores of the tasks become one.
    only : task name or None
        The one task whose score counts.
    """

    metric: Metric
    task: TaskColumn | list[str]
    aggregate: Literal["worst", "mean"]
    only: TaskName | None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of an estimator on rows, greater is better; NaN if it is undefined.

        Parameters
        ----------
        estimator : object
            Fitted; a classifier has ``predict_proba`` and ``classes_``.
        X : table of shape (n_rows, n_features)
            With the column of the tasks.
        y : array-like of shape (n_rows,)
            Labels.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.

        Returns
        -------
        float
            The metric, negative where less is better.
        """
        table = as_table(X, task_column=self.task, used=())
        tasks = TaskSet.from_labels(table.task_labels(self.task), table.n_rows)
        labels = np.asarray(y)
        metric = self.metric
        if hasattr(estimator, "classes_"):
            if isinstance(metric.function, _Scorer):
                metric = replace(metric, function=replace(metric.function, are_classes=True))
            labels = np.searchsorted(estimator.classes_, labels)
            prediction = estimator.predict_proba(X)
            prediction = prediction[:, 1] if prediction.shape[1] == 2 else prediction
        else:
            prediction = estimator.predict(X)
        values = evaluate_by_task(
            metric, labels, prediction, tasks.codes, tasks.n_tasks, sample_weight
        )
        scores = values if metric.greater_is_better else -values
        if self.only is not None:
            return float(scores[tasks.code(self.only)]) if self.only in tasks else math.nan
        scores = scores[~np.isnan(scores)]
        if not scores.size:
            return math.nan
        return float(scores.min() if self.aggregate == "worst" else scores.mean())


def task_scorer(
    metric: Any,
    *,
    task: TaskColumn | list[str],
    aggregate: Literal["worst", "mean"] = "worst",
    only: TaskName | None = None,
) -> TaskScorer:
    """Make a scorer by task, as ``scoring`` of ``GridSearchCV`` and ``cross_validate``.

    Parameters
    ----------
    metric : str, Metric or scorer
        See :func:`get_metric`; or a scorer of scikit-learn, or its name.
    task : str or int, or list of str
        Column of the table that holds the task: its name, or its position in an array; or the
        columns of nested tasks, outermost first.
    aggregate : {"worst", "mean"}, default="worst"
        Score of the task with the worst one, or the mean in which every task counts the same,
        however many rows it has. Tasks whose score is undefined are left out.
    only : task name, optional
        Score of this task alone.

    Returns
    -------
    TaskScorer
        Its scores are greater where they are better: a metric of which less is better is negative,
        as in scikit-learn.

    Raises
    ------
    ParameterError, TypeError
        There is no such metric, or way to aggregate.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_validate
    >>> from mtboost import MultiTaskRegressor
    >>> from mtboost.metrics import task_scorer
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=(300, 2)), np.arange(300) % 3])
    >>> y = X[:, 0] + (X[:, 2] == 1) * X[:, 1]
    >>> estimator = MultiTaskRegressor(task=2, strategy="two-stage", n_estimators=20)
    >>> scoring = {
    ...     "worst": task_scorer("rmse", task=2),
    ...     "second": task_scorer("rmse", task=2, only=1),
    ... }
    >>> scores = cross_validate(estimator, X, y, cv=2, scoring=scoring)
    >>> bool(np.all(scores["test_worst"] <= scores["test_second"]))
    True
    """
    check_choice("aggregate", aggregate, ("worst", "mean"))
    return TaskScorer(metric_or_scorer(metric, are_classes=False), task, aggregate, only)


def _rmse(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    return np.sqrt(rows.mean(np.square(prediction - y)))


def _rmsle(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    gap = np.log1p(np.maximum(prediction, _LEAST_PREDICTION)) - np.log1p(y)
    return np.sqrt(rows.mean(gap**2))


def _mae(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    return rows.mean(np.abs(prediction - y))


def _mphe(
    y: Float64Array, prediction: Float64Array, rows: _TaskRows, slope: float = 1.0
) -> Float64Array:
    return rows.mean(slope**2 * (np.hypot(1.0, (prediction - y) / slope) - 1.0))


def _pinball(
    y: Float64Array, prediction: Float64Array, rows: _TaskRows, levels: Float64Array
) -> Float64Array:
    """Mean over rows and levels of α (y - q) above the quantile q, (1 - α) (q - y) below it."""
    above = y[:, None] - prediction.reshape(len(y), len(levels))
    return rows.mean(np.maximum(levels * above, (levels - 1.0) * above).mean(axis=1))


def _error(
    y: Float64Array, prediction: Float64Array, rows: _TaskRows, threshold: float = 0.5
) -> Float64Array:
    return rows.mean(np.where(prediction > threshold, 1.0 - y, y))


def _huber(
    y: Float64Array, prediction: Float64Array, rows: _TaskRows, slope: float
) -> Float64Array:
    return rows.mean(huber(slope, prediction - y))


def _fair(y: Float64Array, prediction: Float64Array, rows: _TaskRows, scale: float) -> Float64Array:
    z = np.abs(prediction - y) / scale
    return rows.mean(scale**2 * (z - np.log1p(z)))


def _mape(y: Float64Array, prediction: Float64Array, rows: _TaskRows, least: float) -> Float64Array:
    return rows.mean(np.abs(prediction - y) / np.maximum(np.abs(y), least))


def _logloss(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    # Not np.clip(p, tiny, 1 - tiny): 1 - 1e-16 is the float64 below 1, off by a tenth of 1e-16.
    is_one = y == 1.0
    if (is_one | (y == 0.0)).all():  # one logarithm a row instead of two
        of_label = np.where(is_one, prediction, 1.0 - prediction)
        return rows.mean(-np.log(np.maximum(of_label, _TINY)))
    log_p = np.log(np.maximum(prediction, _TINY))
    log_q = np.log(np.maximum(1.0 - prediction, _TINY))
    return rows.mean(-(y * log_p + (1.0 - y) * log_q))


def _merror(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    return rows.mean((prediction.argmax(axis=1) != y).astype(np.float64))


def _mlogloss(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    of_label = np.take_along_axis(prediction, y.astype(np.intp)[:, None], axis=1)[:, 0]
    return rows.mean(-np.log(np.maximum(of_label, _TINY)))


def _poisson_nloglik(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    mean = np.maximum(prediction, _TINY)
    return rows.mean(gammaln(y + 1.0) + mean - y * np.log(mean))


def _tweedie_nloglik(
    y: Float64Array, prediction: Float64Array, rows: _TaskRows, power: float
) -> Float64Array:
    score = prediction ** (2.0 - power) / (2.0 - power)
    return rows.mean(score - y * prediction ** (1.0 - power) / (1.0 - power))


def _gamma_deviance(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    ratio = (y + _GAMMA_SHIFT) / (prediction + _GAMMA_SHIFT)
    return rows.mean(2.0 * (ratio - 1.0 - np.log(ratio)))


class _Counts(NamedTuple):
    """Positives (or negatives) in weight. A threshold is one distinct (task, prediction)."""

    at: Float64Array  # of each threshold
    above: Float64Array  # of each threshold: at higher predictions of the same task
    total: Float64Array  # of each task


def _counts(
    y: Float64Array, prediction: Float64Array, rows: _TaskRows
) -> tuple[_TaskRows, _Counts, _Counts]:
    """The task of each threshold, its positives and its negatives.

    A label of 0.3 is 0.3 positive and 0.7 negative, as in XGBoost.
    """
    order = np.lexsort((-prediction, rows.codes))
    codes, prediction = rows.codes[order], prediction[order]
    is_first = np.ones(len(y), dtype=bool)
    is_first[1:] = (codes[1:] != codes[:-1]) | (prediction[1:] != prediction[:-1])
    first = np.flatnonzero(is_first)
    thresholds = _TaskRows(codes[first], rows.n_tasks, None)

    next_task = np.flatnonzero(np.diff(thresholds.codes)) + 1

    def count(members: Float64Array) -> _Counts:
        at = np.add.reduceat(rows.weigh(members)[order], first)
        total = thresholds.sum(at)
        # One running sum over all tasks. Taking off the total of a finished task, added up in the
        # same order, leaves exactly 0: no task loses digits to the weights of another.
        spaced = np.insert(at, next_task, -total[thresholds.codes[next_task - 1]])
        before = np.cumsum(np.append(0.0, spaced))[:-1]
        return _Counts(at, np.delete(before, next_task + np.arange(len(next_task))), total)

    return thresholds, count(y), count(1.0 - y)


def _auc(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    """Area under the receiver operating characteristic; a tie of two classes counts one half."""
    thresholds, positive, negative = _counts(y, prediction, rows)
    ranked = thresholds.sum(negative.at * (positive.above + 0.5 * positive.at))
    return ranked / (positive.total * negative.total)


def _aucpr(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    """Area under the precision-recall curve, on which counts, not precisions, are interpolated.

    This is XGBoost's continuous curve (Keilwagen, Grosse and Grau, 2014, PLoS ONE 9(3)).
    scikit-learn's ``average_precision_score`` is a step curve through the same points.
    """
    thresholds, positive, negative = _counts(y, prediction, rows)
    # Down to the next threshold, h negatives come with each positive: at t positives the precision
    # is t / ((1 + h) t + b), and the area below it is the integral over t. No positives, no area.
    rises = positive.at > 0
    h = negative.at[rises] / positive.at[rises]
    b = negative.above[rises] - h * positive.above[rises]
    above = positive.above[rises] + negative.above[rises]
    at = positive.at[rises] + negative.at[rises]
    log_growth = np.where(above > 0, np.log1p(at / above), 0.0)  # b is 0 where nothing is above
    area = (positive.at[rises] - b / (1.0 + h) * log_growth) / (1.0 + h)
    of_task = _TaskRows(thresholds.codes[rises], rows.n_tasks, None).sum(area)
    return np.where(negative.total > 0, of_task / positive.total, np.nan)


def _average_precision(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    """Mean precision at the positives, as scikit-learn's ``average_precision_score``."""
    thresholds, positive, negative = _counts(y, prediction, rows)
    rises = positive.at > 0
    hits = positive.at[rises] + positive.above[rises]
    precision = hits / (hits + negative.at[rises] + negative.above[rises])
    of_task = _TaskRows(thresholds.codes[rises], rows.n_tasks, None)
    return of_task.sum(positive.at[rises] * precision) / positive.total


def _wape(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    """Sum of absolute errors over the sum of absolute labels."""
    sizes = rows.sum(rows.weigh(np.abs(y)))
    return np.where(sizes > 0.0, rows.sum(rows.weigh(np.abs(prediction - y))) / sizes, np.nan)


def _relative_error(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    """Mean absolute error relative to the label; undefined for a task with a label of 0."""
    return rows.mean(np.abs(prediction - y) / np.where(y == 0.0, np.nan, np.abs(y)))


def _ndcg(
    y: Float64Array,
    prediction: Float64Array,
    rows: _TaskRows,
    n_ranked: int | None = None,
    exp_gain: bool = True,
) -> Float64Array:
    """Mean normalised discounted cumulative gain of the queries; those without any gain count 1.

    Rows of equal prediction share the mean of their discounts, as in scikit-learn.
    """
    if rows.queries is None:
        raise DataError("ndcg ranks the rows of each query: pass qid, the query of each row.")
    queries = np.unique(rows.queries, return_inverse=True)[1].reshape(-1)
    n_queries = int(queries.max(initial=-1)) + 1
    gains = np.exp2(y) - 1.0 if exp_gain else y
    counts = np.bincount(queries, minlength=n_queries)
    firsts = np.cumsum(counts) - counts
    ranks = np.arange(len(y)) - np.repeat(firsts, counts)  # of rows sorted by query
    discounts = 1.0 / np.log2(ranks + 2.0)
    if n_ranked is not None:
        discounts[ranks >= n_ranked] = 0.0
    best = np.lexsort((-gains, queries))
    ideal = np.bincount(queries[best], discounts * gains[best], n_queries)
    order = np.lexsort((-prediction, queries))
    own, values = queries[order], prediction[order]
    is_new = np.ones(len(y), bool)
    is_new[1:] = (own[1:] != own[:-1]) | (values[1:] != values[:-1])
    tie = np.cumsum(is_new) - 1
    of_tie = np.bincount(tie, discounts) / np.bincount(tie)
    found = np.bincount(own, of_tie[tie] * gains[order], n_queries)
    values = np.where(ideal > 0.0, found / ideal, 1.0)
    rows_of = order[firsts]  # one row of each query
    weight = None if rows.weight is None else rows.weight[rows_of]
    return _TaskRows(rows.codes[rows_of], rows.n_tasks, weight).mean(values)


def _at_risk(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    """Sum of the hazards of the rows of a row's task that are at risk at its time."""
    order = np.lexsort((np.abs(y), rows.codes))
    codes, time = rows.codes[order], np.abs(y)[order]
    hazards = rows.weigh(prediction)[order]
    sums = np.empty(len(y))
    firsts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    for first, last in zip(firsts, [*firsts[1:], len(y)], strict=True):
        sums[first:last] = np.cumsum(hazards[first:last][::-1])[::-1]
    is_new = np.ones(len(y), bool)
    is_new[1:] = (codes[1:] != codes[:-1]) | (time[1:] != time[:-1])
    found = np.empty(len(y))
    found[order] = sums[np.maximum.accumulate(np.where(is_new, np.arange(len(y)), 0))]
    return found


def _cox_nloglik(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    """Negative partial log-likelihood of the hazards by events (Breslow's for equal times).

    A weight counts as many rows; XGBoost's metric, the same without weights, leaves them out.
    """
    events = rows.weigh((y > 0.0).astype(np.float64))
    losses = np.log(_at_risk(y, prediction, rows)) - np.log(prediction)
    return rows.sum(np.where(events > 0.0, events * losses, 0.0)) / rows.sum(events)


def evaluate_strata(
    metric: Metric,
    y: Float64Array,
    prediction: Float64Array,
    strata: npt.NDArray[np.integer[Any]],
    weight: Float64Array | None,
) -> float:
    """Return a metric of survival of rows whose hazards are comparable within strata only.

    The mean of the strata, by the weight of their events.
    """
    names, codes = np.unique(strata, return_inverse=True)
    codes = codes.reshape(-1)
    values = evaluate_by_task(metric, y, prediction, codes, len(names), weight)
    is_event = (y > 0.0) if weight is None else weight * (y > 0.0)
    events = np.where(np.isnan(values), 0.0, np.bincount(codes, is_event, len(names)))
    return float(np.average(np.nan_to_num(values), weights=events)) if events.any() else math.nan


def cox_losses(
    y: npt.ArrayLike, prediction: npt.ArrayLike, strata: npt.NDArray[np.integer[Any]]
) -> Float64Array:
    """Return losses of rows whose mean over the rows of a stratum is its ``cox-nloglik``.

    Those of censored rows, and of a stratum without events, are 0.
    """
    labels, hazards = np.asarray(y, np.float64), np.asarray(prediction, np.float64)
    rows = _TaskRows(strata, int(strata.max(initial=-1)) + 1, None)
    is_event = labels > 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(_at_risk(labels, hazards, rows)) - np.log(hazards)
        scale = rows.sum(np.ones(len(labels))) / rows.sum(is_event.astype(np.float64))
    return np.where(is_event, losses * scale[strata], 0.0)


def _bounds(y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Bounds of the time of each row; given as they are, or minus the time of a censored row."""
    if y.ndim == 2:
        return y[:, 0], y[:, 1]
    return np.abs(y), np.where(y > 0.0, y, np.inf)


def _aft_nloglik(
    y: Float64Array, prediction: Float64Array, rows: _TaskRows, distribution: str, scale: float
) -> Float64Array:
    """XGBoost's loss of predicted times, with its bound of a likelihood."""
    lower, upper = y.T
    z_lower, z_upper = (np.log(each) - np.log(prediction) for each in (lower, upper))
    density, share = _DISTRIBUTIONS[distribution]
    of_event = density(z_lower / scale) / (scale * lower)
    of_interval = share(z_upper / scale) - share(z_lower / scale)
    likelihood = np.where(lower == upper, of_event, of_interval)
    return rows.mean(-np.log(np.maximum(likelihood, _TINY_LIKELIHOOD)))


def _concordance(y: Float64Array, prediction: Float64Array, rows: _TaskRows) -> Float64Array:
    """Share of pairs in which the row that is surely earlier has the larger hazard (Harrell).

    Or, of labels that are bounds, the shorter predicted time. A row is surely earlier than one
    whose lower bound is above its upper one, or equal to it and not the time of an event. A tie of
    two predictions counts one half, a pair as much as the product of its weights.
    """
    lower, upper = _bounds(y)
    hazards = -prediction if y.ndim == 2 else prediction
    weight = rows.weigh(np.ones(len(y)))
    # Each row stands twice in the order of time: where it surely ends, and where it may begin.
    time = np.concatenate([upper, lower])
    is_end = np.arange(len(time)) < len(y)
    place = np.concatenate([np.ones(len(y), int), np.where(lower == upper, 0, 2)])
    codes = np.tile(rows.codes, 2)
    order = np.lexsort((place, time, codes))
    begins = np.where(is_end, 0.0, np.tile(weight, 2))
    below, later = _later_rows(np.tile(hazards, 2)[order], begins[order], codes[order])
    ends = np.where(is_end & np.isfinite(time), np.tile(weight, 2), 0.0)[order]
    found = _TaskRows(codes[order], rows.n_tasks, None)
    value = found.sum(ends * below) / found.sum(ends * later)
    is_undefined = rows.sum(np.where(np.isnan(prediction), 1.0, 0.0)) > 0.0
    return np.where(is_undefined, np.nan, value)


def _later_rows(
    values: Float64Array, weight: Float64Array, groups: npt.NDArray[np.integer[Any]]
) -> tuple[Float64Array, Float64Array]:
    """Weight of the later rows of a row's group: of smaller values (half that of equal), and all.

    As merge sort does it: at each level, rows of the first half of a block meet those of its second
    half, sorted by value.
    """
    n_rows = len(values)
    places = np.arange(n_rows)
    ranks = np.unique(values, return_inverse=True)[1].reshape(-1)
    by_value = np.lexsort((ranks, groups))
    below, later = np.zeros(n_rows), np.zeros(n_rows)
    size = 1
    while size < n_rows:
        blocks = places // (2 * size)
        order = by_value[np.argsort(blocks[by_value], kind="stable")]
        is_second = (places[order] // size) % 2 == 1
        is_new = np.ones((2, n_rows), bool)  # of blocks and groups, and of values in them
        same = (blocks[order][1:] == blocks[order][:-1]) & (groups[order][1:] == groups[order][:-1])
        is_new[0, 1:] = ~same
        is_new[1, 1:] = ~same | (ranks[order][1:] != ranks[order][:-1])
        numbers = np.cumsum(is_new, axis=1) - 1
        second = np.where(is_second, weight[order], 0.0)
        total = np.bincount(numbers[0], second)
        at = np.bincount(numbers[1], second)
        firsts = np.flatnonzero(is_new[1])
        first_of = numbers[1][np.flatnonzero(is_new[0])]  # first value of each block and group
        sums = np.append(0.0, np.cumsum(at))
        start = sums[first_of][numbers[0][firsts]]
        under = sums[:-1] - start + 0.5 * at
        first = order[~is_second]
        below[first] += under[numbers[1][~is_second]]
        later[first] += total[numbers[0][~is_second]]
        size *= 2
    return below, later


#: Densities of the logarithms of times, and their integrals.
_DISTRIBUTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "normal": (lambda z: np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi), ndtr),
    "logistic": (lambda z: expit(z) * expit(-z), expit),
    "extreme": (lambda z: np.exp(z - np.exp(z)), lambda z: -np.expm1(-np.exp(z))),
}
_BUILT_IN = {
    metric.name: metric
    for metric in (
        _BuiltIn("rmse", _rmse, False),
        _BuiltIn("rmsle", _rmsle, False),
        _BuiltIn("mae", _mae, False),
        _BuiltIn("mphe", _mphe, False),
        _BuiltIn("logloss", _logloss, False),
        _BuiltIn("error", _error, False),
        _BuiltIn("auc", _auc, True),
        _BuiltIn("aucpr", _aucpr, True),
        _BuiltIn("merror", _merror, False),
        _BuiltIn("mlogloss", _mlogloss, False),
        _BuiltIn("poisson-nloglik", _poisson_nloglik, False),
        _BuiltIn("gamma-deviance", _gamma_deviance, False),
        _BuiltIn("ndcg", _ndcg, True),
        _BuiltIn("cox-nloglik", _cox_nloglik, False),
        _BuiltIn("concordance", _concordance, True),
        _BuiltIn("average_precision", _average_precision, True),
        _BuiltIn("mape", _relative_error, False),
        _BuiltIn("wape", _wape, False),
    )
}


def _aft(distribution: str, scale: float) -> _BuiltIn:
    if distribution not in _DISTRIBUTIONS or not 0.0 < scale < math.inf:
        raise ParameterError(
            f"aft-nloglik needs a distribution, {', '.join(_DISTRIBUTIONS)}, and a positive scale, "
            f"as in 'aft-nloglik@logistic,0.5', found {distribution!r} and {scale:g}."
        )
    function = partial(_aft_nloglik, distribution=distribution, scale=scale)
    is_default = (distribution, scale) == ("normal", 1.0)
    name = "aft-nloglik" if is_default else f"aft-nloglik@{distribution},{scale:g}"
    return _BuiltIn(name, function, False)


_BUILT_IN["aft-nloglik"] = _aft("normal", 1.0)
_DEFAULT_METRIC = {
    "reg:squarederror": "rmse",
    "reg:squaredlogerror": "rmsle",
    "reg:absoluteerror": "mae",
    "reg:pseudohubererror": "mphe",
    "reg:logistic": "rmse",
    "reg:gamma": "gamma-deviance",
    "reg:tweedie": "tweedie-nloglik",
    "reg:quantileerror": "quantile",
    "binary:logistic": "logloss",
    "binary:logitraw": "logloss",
    "binary:hinge": "error",
    "count:poisson": "poisson-nloglik",
    "multi:softprob": "mlogloss",
    "multi:softmax": "mlogloss",
    "rank:ndcg": "ndcg",
    "rank:pairwise": "ndcg",
    "survival:cox": "cox-nloglik",
    "survival:aft": "aft-nloglik",
    # LightGBM's objectives:
    "regression": "rmse",
    "regression_l1": "mae",
    "huber": "huber",
    "fair": "fair",
    "mape": "mape@1",
    "poisson": "poisson-nloglik",
    "gamma": "gamma-deviance",
    "tweedie": "tweedie-nloglik",
    "quantile": "quantile",
    "binary": "logloss",
    "cross_entropy": "logloss",
    "multiclass": "mlogloss",
    "multiclassova": "mlogloss",
    "lambdarank": "ndcg",
}
#: Objectives that have a default metric, those of XGBoost with a colon.
WITH_METRIC = tuple(_DEFAULT_METRIC)


def get_metric(metric: str | Metric) -> Metric:
    """Return the metric of a name, with its direction.

    Parameters
    ----------
    metric : str or Metric
        ``rmse``, ``rmsle``, ``mae``, ``mphe``, ``logloss``, ``error``, ``error@t`` (another
        threshold than 0.5), ``auc``, ``aucpr``, ``merror``, ``mlogloss``, ``poisson-nloglik``,
        ``gamma-deviance``, ``tweedie-nloglik@p`` (variance power), ``huber@a`` and ``fair@c``
        (LightGBM's losses with ``alpha`` and ``fair_c``), ``mape@c`` (absolute error relative to
        the label, or to c where that is larger; LightGBM's has 1), ``mape`` (undefined for a task
        with a label of 0), ``wape`` (the sum of absolute errors over that of absolute labels),
        ``average_precision`` (scikit-learn's), ``quantile@a`` (the pinball loss of a level; of
        several, as in ``quantile@0.1,0.5,0.9``, the mean of the losses of the columns of the
        predictions), ``ndcg`` or ``ndcg@k`` (of the first k positions; docs/ranking.md),
        ``cox-nloglik`` of hazards, ``aft-nloglik`` of times, or ``aft-nloglik@d,s`` with
        distribution and scale, and ``concordance`` of either (docs/survival.md). A Metric is
        returned as it is.

    Returns
    -------
    Metric
        Named as in `metric`.

    Raises
    ------
    ParameterError
        There is no such metric, or the number after ``@`` is out of range.
    TypeError
        A bare function: nothing says whether greater is better.

    Examples
    --------
    >>> from mtboost.metrics import get_metric
    >>> get_metric("auc").greater_is_better
    True
    >>> get_metric("rmse").greater_is_better
    False
    """
    if isinstance(metric, Metric):
        return metric
    if not isinstance(metric, str):
        raise TypeError(
            f"metric is {metric!r}; pass the name of a metric, or mtboost.metrics.Metric(name, "
            f"function, greater_is_better) for your own function."
        )
    if metric in _BUILT_IN:
        return _BUILT_IN[metric]
    name, _, number = metric.partition("@")
    if name == "error":
        # A prediction of float32 0.3 is not above 0.3, as it would be if 0.3 were not rounded
        # alike.
        threshold = float(np.float32(_number_in(metric, number)))
        return _BuiltIn(metric, partial(_error, threshold=threshold), False)
    if name == "tweedie-nloglik":
        return _tweedie(metric, _number_in(metric, number, 1.0, 2.0))
    if name in ("huber", "fair", "mape"):
        return _of_error(name, _number_in(metric, number, 0.0))
    if name == "aft-nloglik":
        distribution, _, scale = number.partition(",")
        return _aft(distribution, _number_in(metric, scale, 0.0))
    if name == "quantile":
        return _quantile([_number_in(metric, level, 0.0, 1.0) for level in number.split(",")])
    if name == "ndcg":
        if not number.isdigit() or int(number) < 1:
            raise ParameterError(
                f"metric {metric!r} needs a number of positions of at least 1 after '@', found "
                f"{number!r}."
            )
        return _BuiltIn(metric, partial(_ndcg, n_ranked=int(number)), True)
    known = [*_BUILT_IN, "error@t", "tweedie-nloglik@p", "huber@a", "fair@c", "mape@c"]
    known += ["quantile@a", "ndcg@k", "aft-nloglik@d,s"]
    raise ParameterError(
        f"metric {metric!r} is unknown.{did_you_mean(metric, known)} Choose one of "
        f"{', '.join(known)}, or pass a Metric."
    )


@dataclass(frozen=True)
class _Scorer:
    """A scorer of scikit-learn as a function of labels and predictions.

    Attributes
    ----------
    scorer : object
        Greater values are better.
    are_classes : bool
        Whether labels are classes, and predictions their probabilities.
    """

    scorer: Any
    are_classes: bool

    def __call__(self, y: Any, prediction: Any, sample_weight: Any = None) -> float:
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        estimator = _estimator_of(prediction, self.are_classes)
        with warnings.catch_warnings():  # of one class many a score is undefined
            warnings.filterwarnings("ignore", category=UndefinedMetricWarning)
            try:
                return float(self.scorer(estimator, np.arange(len(y))[:, None], y, **options))
            except ValueError:
                if self.are_classes and len(np.unique(y)) < 2:
                    return math.nan
                raise


def _estimator_of(prediction: Float64Array, are_classes: bool) -> Any:
    """Return an estimator of scikit-learn with known predictions."""
    mixin = ClassifierMixin if are_classes else RegressorMixin

    class Known(mixin, BaseEstimator):  # type: ignore[misc, valid-type]  # untyped
        def fit(self, X: Any, y: Any) -> Any:
            return self

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict(self, X: Any) -> Any:
            if are_classes:
                return self.predict_proba(X).argmax(axis=1).astype(np.float64)
            return prediction[X[:, 0]]

        def predict_proba(self, X: Any) -> Any:
            found = prediction[X[:, 0]]
            return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found

    known = Known()
    if are_classes:
        n_classes = 2 if prediction.ndim == 1 else prediction.shape[1]
        known.classes_ = np.arange(n_classes, dtype=np.float64)
    return known


def metric_or_scorer(metric: Any, *, are_classes: bool) -> Metric:
    """Return the metric of a name, or that of a scorer of scikit-learn or of its name.

    Parameters
    ----------
    metric : str, Metric or scorer
        Names of :func:`get_metric` come first.
    are_classes : bool
        Whether labels are classes, and predictions their probabilities.

    Raises
    ------
    ParameterError, TypeError
        The name is not that of a metric or scorer.
    """
    if hasattr(metric, "set_score_request"):
        return Metric(str(metric), _Scorer(metric, are_classes), True)
    try:
        return get_metric(metric)
    except ParameterError as error:
        known = get_scorer_names()
        if metric in known:
            return Metric(metric, _Scorer(get_scorer(metric), are_classes), True)
        hint = "" if did_you_mean(metric, _BUILT_IN) else did_you_mean(metric, known)
        raise ParameterError(f"{error} Scorers of scikit-learn have names, too.{hint}") from None


def check_outputs(metric: Metric, *, has_classes: bool, levels: Sequence[float] = ()) -> Metric:
    """Return the metric if it is of what an objective predicts for a row.

    That is a probability for each class, a quantile for each of several `levels`, or one number.

    Raises
    ------
    ParameterError
        A built-in metric takes predictions of the other kind.
    """
    if isinstance(metric, _BuiltIn) and metric.is_of_classes != has_classes:
        found = "a probability for each class" if has_classes else "one number per row"
        known = [each.name for each in _BUILT_IN.values() if each.is_of_classes == has_classes]
        raise ParameterError(
            f"eval_metric {metric.name!r} does not fit the objective, which predicts {found}: "
            f"choose one of {', '.join(known)}, or pass a Metric."
        )
    n_columns = len(metric.levels) if isinstance(metric, _BuiltIn) else 0
    if isinstance(metric, _BuiltIn) and max(n_columns, 1) != max(len(levels), 1):
        raise ParameterError(
            f"eval_metric {metric.name!r} does not fit the objective, which predicts "
            f"{'one number' if len(levels) < 2 else f'{len(levels)} quantiles'} per row: choose "
            f"{repr(_quantile(levels).name) if levels else 'rmse'}, or pass a Metric."
        )
    return metric


def is_of_queries(metric: Metric) -> bool:
    """Whether a metric is a built-in one of rows that are ranked within queries."""
    return isinstance(metric, _BuiltIn) and metric.name.partition("@")[0] == "ndcg"


def is_of_survival(metric: Metric) -> bool:
    """Whether a metric is a built-in one of hazards or times, whose labels are times."""
    is_concordance = isinstance(metric, _BuiltIn) and metric.name == "concordance"
    return is_concordance or is_of_hazards(metric) or is_of_bounds(metric)


def is_of_hazards(metric: Metric) -> bool:
    """Whether a metric is the built-in likelihood of hazards, which are those of strata."""
    return isinstance(metric, _BuiltIn) and metric.name == "cox-nloglik"


def is_of_bounds(metric: Metric) -> bool:
    """Whether a metric is the built-in likelihood of times, whose labels are bounds."""
    return isinstance(metric, _BuiltIn) and metric.name.partition("@")[0] == "aft-nloglik"


def is_mean_of_rows(metric: Metric) -> bool:
    """Whether a metric of rows, queries or events, or its square, is surely the mean over them."""
    return isinstance(metric, _BuiltIn) and metric.name not in _NO_MEANS


def default_metric(
    objective: str,
    *,
    tweedie_variance_power: float = 1.5,
    huber_slope: float = 1.0,
    fair_c: float = 1.0,
    quantile_alpha: Sequence[float] = (0.5,),
    n_ranked: int = 32,
    exp_gain: bool = True,
    aft_loss_distribution: str = "normal",
    aft_loss_distribution_scale: float = 1.0,
) -> Metric:
    """Return the metric that XGBoost reports for an objective by default.

    An objective of LightGBM has the metric of its counterpart. One difference: for
    ``binary:logitraw`` XGBoost takes margins for probabilities in its log loss; here predictions
    are probabilities for every metric.

    Parameters
    ----------
    objective : str
        Name of a supported objective, such as ``"binary:logistic"`` or LightGBM's ``"binary"``.
    tweedie_variance_power : float, default=1.5
        Parameter of ``reg:tweedie``.
    huber_slope : float, default=1.0
        Parameter of ``reg:pseudohubererror``, or ``alpha`` of LightGBM's ``huber``.
    fair_c : float, default=1.0
        Parameter of LightGBM's ``fair``.
    quantile_alpha : sequence of float, default=(0.5,)
        Levels of ``reg:quantileerror``, or that of LightGBM's ``quantile``.
    n_ranked : int, default=32
        Positions that count for a ranking objective.
    exp_gain : bool, default=True
        Whether the gain of a label is 2^label - 1 for a ranking objective, and not the label.
    aft_loss_distribution : {"normal", "logistic", "extreme"}, default="normal"
        Parameter of ``survival:aft``.
    aft_loss_distribution_scale : float, default=1.0
        The same.

    Returns
    -------
    Metric
        A built-in metric.

    Raises
    ------
    ParameterError
        The objective is not supported.

    Examples
    --------
    >>> from mtboost.metrics import default_metric
    >>> default_metric("binary:logistic").name
    'logloss'
    """
    if objective not in _DEFAULT_METRIC:
        raise ParameterError(
            f"objective {objective!r} has no default "
            f"metric.{did_you_mean(objective, _DEFAULT_METRIC)} Name the metric, or choose one of "
            f"{', '.join(_DEFAULT_METRIC)}."
        )
    name = _DEFAULT_METRIC[objective]
    if name == "tweedie-nloglik":
        return _tweedie(f"{name}@{tweedie_variance_power:g}", tweedie_variance_power)
    if name == "ndcg":
        function = partial(_ndcg, n_ranked=n_ranked, exp_gain=exp_gain)
        return _BuiltIn(f"ndcg@{n_ranked}", function, True)
    if name in ("huber", "fair"):
        return _of_error(name, huber_slope if name == "huber" else fair_c)
    if name == "mape@1":
        return _of_error("mape", 1.0)
    if name == "mphe":
        return _BuiltIn(name, partial(_mphe, slope=huber_slope), False)
    if name == "quantile":
        return _quantile(quantile_alpha)
    if name == "aft-nloglik":
        return _aft(aft_loss_distribution, aft_loss_distribution_scale)
    return _BUILT_IN[name]


def _tweedie(name: str, power: float) -> Metric:
    return _BuiltIn(name, partial(_tweedie_nloglik, power=power), False)


def _of_error(name: str, number: float) -> Metric:
    function = {
        "huber": partial(_huber, slope=number),
        "fair": partial(_fair, scale=number),
        "mape": partial(_mape, least=number),
    }[name]
    return _BuiltIn(f"{name}@{number:g}", function, False)


def _quantile(levels: Sequence[float]) -> Metric:
    name = f"quantile@{','.join(f'{level:g}' for level in levels)}"
    function = partial(_pinball, levels=np.array(levels, np.float64))
    return _BuiltIn(name, function, False, tuple(levels))


def _number_in(metric: str, text: str, low: float = -math.inf, high: float = math.inf) -> float:
    """The number after ``@`` in the name of a metric."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low < number < high:
        raise ParameterError(
            f"metric {metric!r} needs a number between {low:g} and {high:g} after '@', found "
            f"{text!r}."
        )
    return number
