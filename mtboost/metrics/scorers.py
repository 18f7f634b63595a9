# SPDX-License-Identifier: Apache-2.0
"""Scorers: of scikit-learn as metrics, and metrics by task as scorers for it."""

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils.metadata_routing import MetadataRequest

from mtboost.base.arrays import Float64Array
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_choice, did_you_mean, listed
from mtboost.base.queries import Queries, as_queries, check_queries
from mtboost.base.sklearn_input import class_codes
from mtboost.base.tables import TaskColumn
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError, ParameterError
from mtboost.metrics.built_in import BUILT_IN, get_metric, name_here
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import Metric, check_classes, is_of_queries, takes_weights


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
    _requests: dict[str, bool | str | None] = field(default_factory=dict, repr=False, compare=False)

    def __call__(
        self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, qid: Any = None
    ) -> float:
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
            Row weights >= 0; with ``ndcg`` one for all rows of a query.
        qid : array-like of shape (n_rows,), optional
            Query of each row, which ``ndcg`` needs.

        Returns
        -------
        float
            The metric, negative where less is better.

        Raises
        ------
        DataError
            The metric is one of two classes, and the labels are others; or it ranks, and `qid` is
            missing; or neither the rows nor the estimator have the task of `only`.
        """
        table = as_table(X, task_column=self.task, used=())
        tasks = TaskSet.from_labels(table.task_labels(self.task), table.n_rows)
        self._check_only(estimator, tasks)
        labels = np.asarray(y)
        metric = self.metric
        queries = None
        if is_of_queries(metric):
            queries = self._queries(qid, tasks, sample_weight)
        if hasattr(estimator, "classes_"):
            if isinstance(metric.function, _Scorer):
                metric = replace(metric, function=replace(metric.function, are_classes=True))
            labels = class_codes(labels, np.asarray(estimator.classes_))
            prediction = estimator.predict_proba(X)
            prediction = prediction[:, 1] if prediction.shape[1] == 2 else prediction
        else:
            prediction = estimator.predict(X)
        check_classes(metric, np.asarray(labels, np.float64))
        values = evaluate_by_task(
            metric, labels, prediction, tasks.codes, tasks.n_tasks, sample_weight, queries
        )
        scores = values if metric.greater_is_better else -values
        if self.only is not None:
            return float(scores[tasks.code(self.only)]) if self.only in tasks else math.nan
        scores = scores[~np.isnan(scores)]
        if not scores.size:
            return math.nan
        return float(scores.min() if self.aggregate == "worst" else scores.mean())

    def _check_only(self, estimator: Any, tasks: TaskSet) -> None:
        """Raise DataError if the only task is none of the rows, nor of those of training."""
        while hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        known = getattr(estimator, "tasks_", None)
        if self.only is None or self.only in tasks or known is None or self.only in known:
            return
        raise DataError(
            f"only={self.only!r} is not a task of the estimator, nor of the rows. Known: "
            f"{listed(list(known), 'task')}.{did_you_mean(self.only, known)}"
        )

    def _queries(self, qid: Any, tasks: TaskSet, sample_weight: Any) -> Queries:
        if qid is None:
            raise DataError(
                f"{self.metric.name} ranks the rows of each query: pass qid, the query of each "
                "row. Searches of scikit-learn pass it on after "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        queries = as_queries(qid, len(tasks.codes))
        weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        check_queries(queries, tasks, weight)
        return queries

    # ---- what scikit-learn asks a scorer ---------------------------------------------------------

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Choose the arguments that scikit-learn's metadata routing passes to this scorer.

        Parameters
        ----------
        **requests : bool, str or None
            ``sample_weight`` and ``qid``: whether the scorer takes them, or the name that the
            caller has for them. By default a metric that ranks takes ``qid``, and
            ``sample_weight`` is an error until it is set, as with scikit-learn's own scorers.

        Returns
        -------
        TaskScorer
            This one.

        Raises
        ------
        TypeError
            Of another name.
        """
        for name in requests:
            if name not in ("sample_weight", "qid"):
                raise TypeError(
                    f"set_score_request has no argument {name!r}: it has sample_weight and qid."
                )
        self._requests.update(requests)
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the request of scikit-learn's metadata routing.

        Returns
        -------
        MetadataRequest
            As :meth:`set_score_request` has chosen.
        """
        found = MetadataRequest(owner=type(self).__name__)
        requests = {"sample_weight": None, "qid": is_of_queries(self.metric), **self._requests}
        for name, alias in requests.items():
            found.score.add_request(param=name, alias=alias)
        return found

    def _accept_sample_weight(self) -> bool:
        """Whether searches without metadata routing may pass weights: they ask every scorer."""
        return takes_weights(self.metric)


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
        See :func:`get_metric`; or a scorer of scikit-learn, or its name. ``ndcg`` needs the query
        of each row, `qid`, which searches pass on by scikit-learn's metadata routing.
    task : str or int, or list of str
        Column of the table that holds the task: its name, or its position in an array; or the
        columns of nested tasks, outermost first.
    aggregate : {"worst", "mean"}, default="worst"
        Score of the task with the worst one, or the mean in which every task counts the same,
        however many rows it has. Tasks whose score is undefined are left out.
    only : task name, optional
        Score of this task alone, NaN where the rows to score have none of it.

    Returns
    -------
    TaskScorer
        Its scores are greater where they are better: a metric of which less is better is negative,
        as in scikit-learn.

    Raises
    ------
    ParameterError, TypeError
        The metric or the way to aggregate is unknown.

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
        with warnings.catch_warnings():  # without rows of a class many a score is undefined
            warnings.filterwarnings("ignore", category=UndefinedMetricWarning)
            try:
                return float(self.scorer(estimator, np.arange(len(y))[:, None], y, **options))
            except ValueError:
                if self.are_classes and len(np.unique(y)) < len(estimator.classes_):
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
    if hasattr(metric, "set_score_request") and not isinstance(metric, TaskScorer):
        return Metric(str(metric), _Scorer(metric, are_classes), True)
    try:
        return get_metric(metric)
    except ParameterError as error:
        known = get_scorer_names()
        if metric in known:
            return Metric(metric, _Scorer(get_scorer(metric), are_classes), True)
        is_built_in = name_here(metric) or did_you_mean(metric, BUILT_IN)
        hint = "" if is_built_in else did_you_mean(metric, known)
        raise ParameterError(f"{error} Scorers of scikit-learn have names, too.{hint}") from None


def is_known(name: str) -> bool:
    """Whether a metric or scorer has this name, so that it need not be given again."""
    try:
        metric_or_scorer(name, are_classes=True)
    except ParameterError:
        return False
    return True
