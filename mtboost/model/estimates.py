# SPDX-License-Identifier: Apache-2.0
"""Scores of predictions with their standard errors.

A score comes with *effects*, a vector whose Euclidean norm is the standard error. For a smooth
function of the weights of the rows they are the derivatives by the weights (infinitesimal
jackknife): deviations from the mean for a mean, DeLong's placement values for the AUC. For any
other function they are deviations of bootstrap replicates. Either way the effects of two models on
the same rows may be subtracted, and the norm is the standard error of the paired difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError, ParameterTypeError
from mtboost.metrics.by_task import evaluate_by_task, evaluate_strata
from mtboost.metrics.metric import (
    Metric,
    is_mean_of_rows,
    is_of_hazards,
    is_of_queries,
    is_of_survival,
)
from mtboost.metrics.scorers import metric_or_scorer
from mtboost.trees.losses import (
    has_hazards,
    is_classification,
    is_multiclass,
    is_quantile,
    is_ranking,
    is_survival,
)

#: What users may pass as a metric: a name, a Metric, a scikit-learn scorer, or a function.
AnyMetric = str | Metric | Callable[..., Any]

#: Between the name of another metric than that of the model and the name of a score.
OTHER_METRIC = ": "

_LESS_IS_BETTER = ("_error", "_loss", "_deviance")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Labels and predictions of rows.

    Attributes
    ----------
    y : ndarray of float64, shape (n_rows,)
    prediction : ndarray of float64, shape (n_rows,) or (n_rows, n_classes)
    weight : ndarray of float64, shape (n_rows,), optional
        Positive.
    """

    y: Float64Array
    prediction: Float64Array
    weight: Float64Array | None
    #: Query of each row, of metrics that rank, or its task, of those of survival.
    queries: npt.NDArray[np.int64] | None = None

    @property
    def weights(self) -> Float64Array:
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Rows:
        weight = None if self.weight is None else self.weight[rows]
        queries = None if self.queries is None else self.queries[rows]
        own = {"y": self.y[rows], "prediction": self.prediction[rows]}
        return replace(self, **own, weight=weight, queries=queries)


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A score, and the effects whose norm is its standard error."""

    value: float
    effects: Float64Array

    @classmethod
    def undefined(cls) -> Estimate:
        """Return that of rows on which a score is not defined."""
        return cls(np.nan, np.array([np.nan]))

    @property
    def error(self) -> float:
        return float(np.linalg.norm(self.effects))

    def error_of_gain(self, other: Estimate) -> float:
        """Return the standard error of the difference from a score of the same rows."""
        if len(self.effects) != len(other.effects):  # one of them is undefined
            return np.nan
        return float(np.linalg.norm(self.effects - other.effects))


@dataclass(frozen=True, slots=True)
class Score:
    """A metric that estimates its standard error.

    Attributes
    ----------
    name : str
    greater_is_better : bool
    estimate : callable
        Function of :class:`Rows`, which gives an :class:`Estimate`.
    """

    name: str
    greater_is_better: bool
    estimate: Callable[[Rows], Estimate]

    def gain(self, value: float, than: float) -> float:
        return value - than if self.greater_is_better else than - value


def make_score(
    metric: AnyMetric, n_bootstrap: int, seed: int, *, are_classes: bool = False
) -> Score:
    """Return the score of a metric; `n_bootstrap` and `seed` are for those without a formula.

    `are_classes` says whether labels are classes, and predictions their probabilities.
    """
    if isinstance(metric, str | Metric) or hasattr(metric, "set_score_request"):
        return _of_metric(metric_or_scorer(metric, are_classes=are_classes), n_bootstrap, seed)
    if not callable(metric):
        raise ParameterTypeError(
            f"metrics has {metric!r}: give the name of a metric, an mtboost.metrics.Metric, a "
            "scikit-learn scorer, or a function (y, prediction) -> float."
        )
    name = getattr(metric, "__name__", type(metric).__name__)
    return _of_metric(Metric(name, metric, not name.endswith(_LESS_IS_BETTER)), n_bootstrap, seed)


def other_scores(
    metrics: Sequence[Metric],
    rows: Rows,
    codes: npt.NDArray[np.integer[Any]],
    tasks: Sequence[TaskName],
) -> dict[TaskName, dict[str, float]]:
    """Return the scores of each task, and their standard errors, by names of a report.

    See :func:`errors_by_task` for the arguments.
    """
    found: dict[TaskName, dict[str, float]] = {task: {} for task in tasks}
    for metric in metrics:
        values = evaluate_by_task(
            metric, rows.y, rows.prediction, codes, len(tasks), rows.weight, rows.queries
        )
        errors = errors_by_task(metric, rows, codes, tasks)
        for task, value in zip(tasks, values.tolist(), strict=True):
            found[task][score_name(metric, "final")] = value
            if task in errors:
                found[task][score_name(metric, "final se")] = errors[task]
    return found


def score_name(metric: Metric, name: str) -> str:
    """Return the name under which a report keeps a score of another metric than its own."""
    return f"{metric.name}{OTHER_METRIC}{name}"


def errors_by_task(
    metric: Metric,
    rows: Rows,
    codes: npt.NDArray[np.integer[Any]],
    tasks: Sequence[TaskName],
) -> dict[TaskName, float]:
    """Return the standard error of the score of each task that has rows with a weight.

    Empty for metrics whose error only a bootstrap gives.

    Parameters
    ----------
    metric : Metric
    rows : Rows
        Of all tasks.
    codes : ndarray of int, shape (n_rows,)
        Places of the tasks of the rows in `tasks`.
    tasks : sequence of task names
    """
    estimate = _of_metric(metric, 2, 0).estimate
    if isinstance(estimate, _Bootstrap):
        return {}
    counted = np.flatnonzero(rows.weights > 0)
    order = counted[np.argsort(codes[counted], kind="stable")]
    ends = np.cumsum(np.bincount(codes[counted], minlength=len(tasks)))[:-1]
    by_task = zip(tasks, np.split(order, ends), strict=True)
    return {task: estimate(rows.take(own)).error for task, own in by_task if len(own)}


def _of_metric(metric: Metric, n_bootstrap: int, seed: int) -> Score:
    if metric.name in _OWN and type(metric) is not Metric:
        return _OWN[metric.name]
    if is_of_queries(metric):
        return Score(metric.name, metric.greater_is_better, partial(_mean_of_queries, metric))
    if is_mean_of_rows(metric) and not is_of_hazards(metric):
        return Score(metric.name, metric.greater_is_better, partial(_mean, metric))

    def function(rows: Rows) -> float:
        codes = np.zeros(len(rows.y), np.int32)
        if is_of_survival(metric) and rows.queries is not None:
            return evaluate_strata(metric, rows.y, rows.prediction, rows.queries, rows.weight)
        return float(evaluate_by_task(metric, rows.y, rows.prediction, codes, 1, rows.weight)[0])

    return Score(metric.name, metric.greater_is_better, _Bootstrap(function, n_bootstrap, seed))


# ---- scores with a formula -----------------------------------------------------------------------


def _mean(metric: Metric, rows: Rows) -> Estimate:
    """A mean over rows, or the root of one."""
    n_rows = len(rows.y)
    each = np.arange(n_rows, dtype=np.int32)
    losses = evaluate_by_task(metric, rows.y, rows.prediction, each, n_rows)
    if metric.name != "rmse":
        return weighted_mean(losses, rows.weights)
    square = weighted_mean(np.square(losses), rows.weights)
    root = math.sqrt(square.value)
    return Estimate(root, square.effects / (2.0 * root) if root else square.effects)


def _mean_of_queries(metric: Metric, rows: Rows) -> Estimate:
    if rows.queries is None:
        raise DataError(f"{metric.name} ranks the rows of each query: pass qid.")
    _, firsts, queries = np.unique(rows.queries, return_index=True, return_inverse=True)
    codes = queries.reshape(-1)
    values = evaluate_by_task(metric, rows.y, rows.prediction, codes, len(firsts), None, codes)
    return weighted_mean(values, rows.weights[firsts])


def weighted_mean(values: Float64Array, weights: Float64Array) -> Estimate:
    """Return the weighted mean of rows, whose error is NaN for a single one."""
    mean = float(np.average(values, weights=weights))
    return Estimate(mean, _scaled(weights * (values - mean) / weights.sum()))


def _scaled(effects: Float64Array) -> Float64Array:
    """Derivatives by the log weights of n rows, with n - 1 degrees of freedom."""
    n_rows = len(effects)
    return effects * math.sqrt(n_rows / (n_rows - 1)) if n_rows > 1 else np.full(n_rows, np.nan)


def _auc(rows: Rows) -> Estimate:
    """Area under the receiver operating characteristic, with the error of DeLong et al. (1988)."""
    is_positive = rows.y > 0.5
    if is_positive.all() or not is_positive.any():
        return Estimate.undefined()
    effects = np.empty(len(rows.y))
    positive, negative = (rows.take(np.flatnonzero(own)) for own in (is_positive, ~is_positive))
    above = _share_below(positive.prediction, negative)
    below = 1.0 - _share_below(negative.prediction, positive)
    of_positives = weighted_mean(above, positive.weights)
    of_negatives = weighted_mean(below, negative.weights)
    effects[is_positive], effects[~is_positive] = of_positives.effects, of_negatives.effects
    return Estimate(of_positives.value, effects)


def _share_below(values: Float64Array, others: Rows) -> Float64Array:
    """Share of other rows with a lower prediction; equal ones count one half."""
    order = np.argsort(others.prediction)
    sums = np.append(0.0, np.cumsum(others.weights[order]))
    known = others.prediction[order]
    lower = sums[np.searchsorted(known, values, "left")]
    not_higher = sums[np.searchsorted(known, values, "right")]
    return np.asarray((lower + not_higher) / (2.0 * sums[-1]))


def _average_precision(rows: Rows) -> Estimate:
    """Mean precision at the positives, as scikit-learn's ``average_precision_score``."""
    weights, is_positive = rows.weights, rows.y > 0.5
    if not is_positive.any():
        return Estimate.undefined()
    values, place = np.unique(-rows.prediction, return_inverse=True)  # thresholds, falling
    at = np.bincount(place, weights * is_positive, len(values))
    positives, predicted = np.cumsum(at), np.cumsum(np.bincount(place, weights, len(values)))
    total, precision = positives[-1], positives / predicted
    average = float((at * precision).sum() / total)

    def from_here_on(terms: Float64Array) -> Float64Array:
        return np.cumsum(terms[::-1])[::-1]

    # By the weight of a row: its own precision, and those of the thresholds at which it is counted.
    by_row = -from_here_on(at * precision / predicted)[place]
    own = precision[place] + from_here_on(at / predicted)[place] - average
    return Estimate(average, _scaled(weights * (by_row + is_positive * own) / total))


def _wape(rows: Rows) -> Estimate:
    """Sum of absolute errors over the sum of absolute labels."""
    errors, sizes = np.abs(rows.prediction - rows.y), np.abs(rows.y)
    total = float((rows.weights * sizes).sum())
    if total == 0.0:
        return Estimate.undefined()
    ratio = float((rows.weights * errors).sum() / total)
    return Estimate(ratio, _scaled(rows.weights * (errors - ratio * sizes) / total))


def _mape(rows: Rows) -> Estimate:
    """Mean absolute error relative to the label; undefined where a label is 0."""
    if not rows.y.all():
        return Estimate.undefined()
    return weighted_mean(np.abs((rows.prediction - rows.y) / rows.y), rows.weights)


_OWN = {
    score.name: score
    for score in (
        Score("auc", True, _auc),
        Score("average_precision", True, _average_precision),
        Score("mape", False, _mape),
        Score("wape", False, _wape),
    )
}

# ---- other scores --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    """Any function of rows; rows are drawn with replacement, alike for every model."""

    function: Callable[[Rows], float]
    n_replicates: int
    seed: int

    def __call__(self, rows: Rows) -> Estimate:
        value = self.function(rows)
        rng = np.random.default_rng(self.seed)
        found = []
        for _ in range(self.n_replicates if math.isfinite(value) else 0):
            drawn = np.sort(rng.integers(len(rows.y), size=len(rows.y)))
            if len(np.unique(rows.y[drawn])) > 1:  # many a score needs two classes
                found.append(self.function(rows.take(drawn)))
            else:
                found.append(np.nan)
        replicates = np.array(found)
        n_known = np.count_nonzero(np.isfinite(replicates))
        if n_known < 2:
            return Estimate(value, np.full(max(1, len(replicates)), np.nan))
        deviations = replicates - np.nanmean(replicates)
        return Estimate(value, np.nan_to_num(deviations) / math.sqrt(n_known - 1))


def default_metrics(objective: str, own: Sequence[str]) -> list[str]:
    """Return the metrics of an objective: `own`, and those that are usual for its labels."""
    if is_ranking(objective):
        return list(own) or ["ndcg"]
    if is_survival(objective):
        usual = ["cox-nloglik"] if has_hazards(objective) else []
        return list(dict.fromkeys([*own, *usual, "concordance"]))
    usual = ["rmse", "mae"]
    if objective == "binary:hinge":  # it predicts classes only
        usual = ["error"]
    elif is_multiclass(objective):
        usual = ["mlogloss", "merror"]
    elif is_classification(objective):
        usual = ["logloss", "auc", "average_precision"]
    elif is_quantile(objective):
        usual = []
    return list(dict.fromkeys([*own, *usual]))
