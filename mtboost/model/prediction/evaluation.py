# SPDX-License-Identifier: Apache-2.0
"""Scores of a fitted model on new rows, by task and beside other models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_count, check_seed, shown
from mtboost.base.dataset import Dataset
from mtboost.base.frames import table_of_rows
from mtboost.base.labels import as_labels, as_weights
from mtboost.base.queries import Queries, as_queries, check_queries, queries_of_tables
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.several_labels import in_order_of_labels
from mtboost.base.tables import Table
from mtboost.base.task_tables import is_mapping
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError, ParameterError, ParameterTypeError
from mtboost.metrics.metric import Metric, check_classes
from mtboost.metrics.scorers import is_known, metric_or_scorer
from mtboost.model.estimates import (
    AnyMetric,
    Rows,
    Score,
    default_metrics,
    errors_by_task,
    make_score,
    other_scores,
    weighted_mean,
)
from mtboost.model.inputs.checked_rows import check_labels
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.inputs.named_objectives import check_fits
from mtboost.model.prediction.intervals import TasksWithIntervals
from mtboost.model.prediction.new_rows import NewRows, one_label_a_row, with_outputs
from mtboost.model.prediction.predictions import FittedTasks, UnknownTask
from mtboost.model.stages.settings import Settings
from mtboost.trees.backend import Margins
from mtboost.trees.losses import as_zero_one, has_hazards, is_classification, is_of_two_classes

if TYPE_CHECKING:
    import pandas as pd

#: Name of the row of all tasks together.
ALL_TASKS = "all tasks"
#: In the names of columns, between a metric and the other model.
GAIN_OVER = " gain over "


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """Rows to evaluate by: tables with their labels, one after another.

    Attributes
    ----------
    given : NewRows
    tables : list of Table
        One table, or one of each task.
    tasks : TaskSet
    y, weight : ndarray of float64, shape (n_rows,)
    queries : ndarray of int64, shape (n_rows,), optional
        Also the tasks, of survival, whose hazards are comparable within a task only.
    """

    given: NewRows
    tables: list[Table]
    tasks: TaskSet
    y: Float64Array
    weight: Float64Array | None
    queries: Queries | None = None


class EvaluatedTasks(TasksWithIntervals):
    """A :class:`mtboost.MultiTaskModel` that scores its predictions on new rows."""

    __slots__ = ()

    @renamed(where_in_a_method)
    @reading_rows
    def evaluate(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        qid: Any = None,
        metrics: AnyMetric | Sequence[AnyMetric] | None = None,
        against: Mapping[str, Any] | None = None,
        unknown_task: UnknownTask = "error",
        n_bootstrap: int = 200,
        seed: int = 0,
        alpha: float | None = None,
    ) -> pd.DataFrame:
        """Evaluate predictions on new rows: scores of each task with their standard errors.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            As in :meth:`predict`.
        y : array-like of shape (n_rows,), or mapping of task name to array-like
            Labels, as in training.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        weight : like `y`, optional
            Row weights >= 0; rows of weight 0 are left out.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), or mapping, optional
            Margin that each row starts from.
        qid : like `y`, optional
            Query of each row, for ``"ndcg"`` and ``"ndcg@k"``, whose standard errors treat queries
            as independent draws.
        metrics : str, Metric, callable, or a sequence of them, optional
            Names of :func:`mtboost.metrics.get_metric`; ``"average_precision"``, ``"mape"``,
            ``"wape"`` (the sum of absolute errors over that of absolute labels); names of
            scikit-learn's scorers, or scorers; functions ``(y, prediction) -> float``, of which
            less is better if their name ends in ``_error``, ``_loss`` or ``_deviance``. By default
            the validation metric of the model, and log loss, ``auc`` and ``average_precision`` of
            two classes, ``mlogloss`` and ``merror`` of several, else ``rmse`` and ``mae``.
        against : mapping of str to model, optional
            Models to compare with, by a name for the columns: another model of mtboost, a booster
            of the common columns, an estimator of scikit-learn, or predictions on the scale of the
            labels, in the shape of :meth:`predict`.
        unknown_task : {"error", "common"}
            As in :meth:`predict`.
        n_bootstrap : int, default=200
            Bootstrap replicates for the standard errors of metrics without a formula: ``"aucpr"``,
            scorers and functions.
        seed : int, default=0
            Seed of the bootstrap.
        alpha : float in (0, 1), optional
            Also evaluate the intervals of :meth:`predict_interval`: the fraction of the labels that
            they contain, ``"coverage"``, which should be near 1 - `alpha`, and the mean ``"width"``
            with their standard errors.

        Returns
        -------
        pandas.DataFrame
            One row for each task that has rows in `X`, and a last one, ``"all tasks"``, of all rows
            together (not where each task has its objective). Columns ``rows``, ``positives`` (two
            classes), and for each metric its value and ``"... se"``, the standard error; for each
            model of `against` ``"... gain over ..."``, positive where this model is better, and its
            standard error, that of a difference on the same rows. NaN where a metric is undefined.
            ``attrs["greater_is_better"]`` has a bool for each metric.

        Raises
        ------
        DataError, ParameterError, TypeError
            Rows, labels or metrics do not fit the model.
        MissingDependencyError
            pandas is not installed.

        Notes
        -----
        Standard errors treat rows as independent draws: they do not cover the randomness of the
        training rows. That of a mean comes from the losses of the rows, that of ``auc`` is
        DeLong's, those of ``rmse``, ``wape`` and ``average_precision`` come from the derivatives by
        the weights of the rows (infinitesimal jackknife).

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 3))
        >>> shop = np.repeat(["a", "b"], 200)
        >>> y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
        >>> train, test = np.arange(400) % 2 == 0, np.arange(400) % 2 == 1
        >>> model = mtboost.fit(
        ...     X[train], y[train], task=shop[train], strategy="two-stage", num_boost_round=20
        ... )
        >>> found = model.evaluate(X[test], y[test], task=shop[test], metrics=["auc", "logloss"])
        >>> list(found.index)
        ['a', 'b', 'all tasks']
        >>> list(found.columns)
        ['rows', 'positives', 'auc', 'auc se', 'logloss', 'logloss se']
        """
        check_count("n_bootstrap", n_bootstrap, low=2)
        check_seed(seed)
        given = one_label_a_row(self, X, y, task, weight, base_margin)
        X, task, base_margin = given.X, given.task, given.base_margin
        rows = _read_rows(self, given)
        check_labels(self._library, rows.y, rows.tasks, self.objective, with_outputs(self))
        if qid is not None:
            rows = replace(rows, queries=_read_queries(qid, rows))
        elif has_hazards(self.objective):
            rows = replace(rows, queries=rows.tasks.codes.astype(np.int64))
        margins, codes = self._margins(X, task, base_margin, unknown_task)
        found = {"": _together(on_label_scale(self, margins, codes))}
        if against is not None and not isinstance(against, Mapping):
            raise ParameterError(
                f"against is a {type(against).__name__}: pass {{name: model}}, by which columns "
                "are named."
            )
        for name, other in (against or {}).items():
            found[name] = _predictions_of(other, name, self, rows)
        intervals = None
        if alpha is not None:
            options = {"base_margin": base_margin, "unknown_task": unknown_task}
            intervals = _together(self.predict_interval(X, task=task, alpha=alpha, **options))
        by_metric = [metrics] if isinstance(metrics, str | Metric) or callable(metrics) else metrics
        is_counted = np.ones(len(rows.y), bool) if rows.weight is None else rows.weight > 0
        result: dict[Any, dict[str, Any]] = {}
        greater_is_better: dict[str, bool] = {}
        for code, task_name in enumerate(rows.tasks):
            own = np.flatnonzero((rows.tasks.codes == code) & is_counted)
            objective = self._objective_of(task_name)
            chosen = _metrics_of(self, task_name) if by_metric is None else by_metric
            for metric in chosen:
                check_classes(metric, rows.y[own])
            options = {"are_classes": is_classification(objective)}
            for metric in chosen:
                if isinstance(metric, str):
                    check_fits(metric_or_scorer(metric, **options), objective, "metrics:")
            scores = [make_score(metric, n_bootstrap, seed, **options) for metric in chosen]
            result[task_name] = _row(objective, scores, rows, found, own)
            result[task_name] |= _interval_scores(rows, intervals, own)
            greater_is_better |= {score.name: score.greater_is_better for score in scores}
        if len(rows.tasks) > 1 and not self.losses:
            if ALL_TASKS in result:
                raise DataError(
                    f"A task is named {ALL_TASKS!r}, as is the line of all rows: rename the task."
                )
            every = np.flatnonzero(is_counted)
            result[ALL_TASKS] = _row(objective, scores, rows, found, every)
            result[ALL_TASKS] |= _interval_scores(rows, intervals, every)
        table = table_of_rows(result, "task", "evaluate()")
        table.attrs["greater_is_better"] = greater_is_better
        return table


def _interval_scores(rows: _Judged, intervals: Float64Array | None, own: Any) -> dict[str, float]:
    """Return coverage and mean width of some rows, with standard errors."""
    if intervals is None or not len(own):
        return {}
    low, high = intervals[own].T
    weight = np.ones(len(own)) if rows.weight is None else rows.weight[own]
    values = {"coverage": (low <= rows.y[own]) & (rows.y[own] <= high), "width": high - low}
    found: dict[str, float] = {}
    for name, value in values.items():
        with np.errstate(invalid="ignore"):  # infinite widths have no error
            mean = weighted_mean(value, weight)
        found |= {name: mean.value, f"{name} se": mean.error}
    return found


def _row(
    objective: str, scores: list[Score], rows: _Judged, found: Mapping[str, Any], own: Any
) -> dict[str, Any]:
    """Return counts and scores of some rows; `found` has the predictions of each model."""
    row: dict[str, Any] = {"rows": len(own)}
    if is_of_two_classes(objective):
        row["positives"] = int((rows.y[own] > 0).sum())
    for score in scores:
        estimates = {
            name: score.estimate(Rows(rows.y, prediction, rows.weight, rows.queries).take(own))
            for name, prediction in found.items()
            if len(own)
        }
        if not estimates:
            continue
        mine = estimates.pop("")
        row |= {score.name: mine.value, f"{score.name} se": mine.error}
        for name, other in estimates.items():
            gain = f"{score.name}{GAIN_OVER}{name}"
            row[gain] = score.gain(mine.value, other.value)
            row[f"{gain} se"] = mine.error_of_gain(other)
    return row


def _read_rows(model: FittedTasks, given: NewRows) -> _Judged:
    X, y, task, weight = given.X, model._encode(given.y), given.task, given.weight
    if is_mapping(X):
        used = model._used_columns
        tables = [as_table(table, argument=f"X[{name!r}]", used=used) for name, table in X.items()]
        sizes = {name: table.n_rows for name, table in zip(X, tables, strict=True)}
        names = [name for name, n in sizes.items() for _ in range(n)]
        tasks = TaskSet.from_labels(names, len(names))
        labels = [as_labels(y[name], n, may_be_bounds=True) for name, n in sizes.items()]
        y = np.concatenate(labels)
        if weight is not None:
            weight = np.concatenate([as_weights(weight[name], n) for name, n in sizes.items()])
    else:
        table, own = model._split(X, task)
        tasks = model._tasks_of_rows(table, own)
        tables = [table]
        y = as_labels(y, table.n_rows, may_be_bounds=True)
        weight = None if weight is None else as_weights(weight, table.n_rows)
    if weight is not None:
        weight = np.asarray(weight, np.float64)
    y = as_zero_one(model.objective, np.asarray(y, np.float64))
    return _Judged(given, tables, tasks, y, weight)


def _read_queries(qid: Any, rows: _Judged) -> Queries:
    if is_mapping(rows.given.X):
        tables = dict(zip(rows.given.X, rows.tables, strict=True))
        queries = queries_of_tables(qid, {name: table.n_rows for name, table in tables.items()})
    else:
        queries = as_queries(qid, rows.tasks.n_rows)
    check_queries(queries, rows.tasks, rows.weight)
    return queries


def _metrics_of(model: FittedTasks, task: TaskName) -> list[str]:
    """Names of the task's validation metric, unless it is the user's, and of usual ones."""
    own = model._metric_of(task)
    return default_metrics(model._objective_of(task), [own] if is_known(own) else [])


def validation_errors(
    model: FittedTasks, valid: Dataset, settings: Settings
) -> dict[TaskName, dict[str, float]]:
    """Return the standard error of each task's metric on validation rows, as far as it is known.

    Also its scores by other metrics, with theirs; both by their names in a report.
    """
    if valid.n_rows == 0:  # a worker of Dask may hold none
        return {}
    names = valid.tasks.names
    codes = model._task_set.codes_of_rows(valid.tasks)
    margins = margins_of_rows(model, valid, codes)
    rows = Rows(
        valid.labels().astype(np.float64),
        np.asarray(on_label_scale(model, margins, codes), np.float64),
        None if valid.weight is None else valid.weight.astype(np.float64),
        queries=valid.queries,
    )
    errors: dict[TaskName, float] = {}
    if isinstance(model.metric, Mapping):
        for task in names:
            own = rows.take(valid.tasks.rows(task))
            metric = settings.of_task(task).metric
            errors |= errors_by_task(metric, own, np.zeros(len(own.y), np.int32), [task])
    else:
        errors = errors_by_task(settings.metric, rows, valid.tasks.codes, names)
    others = other_scores(settings.other_metrics, rows, valid.tasks.codes, names)
    return {
        task: {"final se": errors[task]} | own if task in errors else own
        for task, own in others.items()
    }


def margins_of_rows(
    model: FittedTasks, data: Dataset, codes: npt.NDArray[np.int32]
) -> npt.NDArray[np.floating[Any]]:
    """Return the margins of rows with these codes of their tasks, before they are calibrated."""
    if data.only_table is not None:
        return model._row_margins(data.only_table, codes, data.base_margin)
    parts, places = [], []
    for task in data.tasks:
        own = data.tasks.rows(task)
        start = None if data.base_margin is None else data.base_margin[own]
        parts.append(model._task_margins(data.task_table(task), task, start))
        places.append(own)
    return np.concatenate(parts)[np.argsort(np.concatenate(places))]


# ---- predictions ---------------------------------------------------------------------------------


def on_label_scale(model: FittedTasks, margins: Any, codes: Any) -> Any:
    """Return probabilities of classes, else predictions, as metrics expect them."""

    def response(own: Margins, task: TaskName | None) -> Margins:
        if not is_classification(model._objective_of(task)):
            return model._response(own, task)
        found = model._probabilities(own, task)
        return found if own.ndim == 2 else found[:, 1]

    return model._by_objective(response, margins, codes)


def _together(predictions: Any) -> Float64Array:
    if isinstance(predictions, Mapping):
        predictions = np.concatenate([np.asarray(part) for part in predictions.values()])
    return np.asarray(predictions, np.float64)


def _predictions_of(other: Any, name: str, model: FittedTasks, rows: _Judged) -> Float64Array:
    """Return the predictions of another model, on the scale of the labels."""
    other = getattr(other, "model_", other)
    if isinstance(other, FittedTasks):
        unknown_task: UnknownTask = "error" if other.losses else "common"
        margins, codes = other._margins(
            rows.given.X, rows.given.task, rows.given.base_margin, unknown_task
        )
        return _checked(name, on_label_scale(other, margins, codes), rows)
    library = type(other).__module__.partition(".")[0]
    if library in ("xgboost", "lightgbm") and type(other).__name__ == "Booster":
        backend = get_backend(library)
        parts = []
        response = backend.response(backend.document(other).first_rounds(0))
        for table in rows.tables:
            columns = model.common_columns.align(table)
            parts.append(response(backend.predict_margin(other, columns, None)))
        return _checked(name, np.concatenate(parts), rows)
    if hasattr(other, "predict"):
        is_classifier = hasattr(other, "predict_proba")
        predict = other.predict_proba if is_classifier else other.predict
        found = np.concatenate([np.asarray(predict(table.native)) for table in rows.tables])
        if is_classifier and found.ndim == 2 and found.shape[1] == 2:
            found = found[:, 1]
        return _checked(name, found, rows)
    is_known = rows.given.is_known
    if is_known is not None and np.shape(other)[:2] == is_known.shape:
        assert rows.given.label_names is not None
        other = in_order_of_labels(f"against[{name!r}]", other, rows.given.label_names)
        other = np.asarray(other).swapaxes(0, 1)[is_known.T]
    return _checked(name, other, rows)


def _checked(name: str, predictions: Any, rows: _Judged) -> Float64Array:
    """Return one prediction of each row, of which another model may have predicted all labels."""
    try:
        found = _together(predictions)
    except (TypeError, ValueError):
        raise ParameterTypeError(
            f"against[{name!r}] is {shown(predictions)}: pass a fitted model, such as "
            "mtboost.load_model returns of a file, or one prediction a row."
        ) from None
    is_known = rows.given.is_known
    if found.ndim == 0 or len(found) != len(rows.y):
        each = "row" if is_known is None else f"label, of shape {is_known.shape}"
        raise DataError(
            f"against[{name!r}] gives predictions of shape {found.shape}, but there are "
            f"{len(rows.y)} rows: pass a fitted model, or one prediction a {each}."
        )
    if is_known is not None and found.shape[1:] == is_known.shape[1:]:
        found = found[np.arange(len(found)), np.nonzero(is_known.T)[0]]
    return found
