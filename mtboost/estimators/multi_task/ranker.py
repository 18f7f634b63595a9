# SPDX-License-Identifier: Apache-2.0
"""The scikit-learn estimator that ranks the rows of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mtboost.base.arrays import as_array
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.frames import Output
from mtboost.base.labels import as_labels
from mtboost.base.queries import as_queries, check_queries
from mtboost.base.renamed import renamed, without_parameters
from mtboost.base.task_tables import check_task_keys, is_mapping
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, ParameterError
from mtboost.estimators.multi_task.base import (
    MultiTaskEstimator,
    Objective,
    in_one_array,
    where_outside_fit,
)
from mtboost.estimators.multi_task.classifier import MultiTaskClassifier
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.prediction.predictions import UnknownTask
from mtboost.trees.backend import Backend
from mtboost.trees.losses import is_ranking


@shares_docstring_of(MultiTaskClassifier, without=["classes_"])
class MultiTaskRanker(MultiTaskEstimator):
    """Ranker for related tasks: a common model, continued by a specific model for each task.

    Ranks the rows of each query, such as the products that a market shows for a search. Every query
    belongs to one task. By default validation queries decide how much the tasks share
    (``strategy="auto"``), by their NDCG. See docs/ranking.md.

    Parameters
    ----------
    objective : {"rank:ndcg", "rank:pairwise", "lambdarank"}, optional
        By default ``"rank:ndcg"`` of XGBoost, or ``"lambdarank"`` of LightGBM.
    eval_metric : {"ndcg", "ndcg@k"} or Metric, optional
        By default that of the first 32 positions, as in XGBoost.
    validation_fraction : float in [0, 1) or "auto", default="auto"
        Fraction of the queries of each task that is held out, unless ``fit`` gets `eval_set`.
        ``"auto"`` is 0.2, or 0 for a single task; ``strategy="auto"`` with fewer than 10,000 rows
        holds out several fifths, one after the other, until 2000 queries have been held out, or
        all. With 0 every task uses all rounds of the common model and none gets a specific one,
        unless `early_stopping_rounds` is None.

    Attributes
    ----------
    model_ : MultiTaskModel
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import MultiTaskRanker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> query = np.repeat(np.arange(60), 10)
    >>> market = np.array(["north", "south"])[query % 2]
    >>> y = np.digitize(X[:, 0] + (market == "north") * X[:, 1], [0.0, 1.0, 2.0])
    >>> ranker = MultiTaskRanker(strategy="two-stage", n_estimators=20, max_depth=3)
    >>> ranker = ranker.fit(X, y, task=market, qid=query)
    >>> ranker.predict(X, task=market).shape
    (600,)
    >>> ranker.score(X, y, task=market, qid=query) > 0.9
    True

    References
    ----------
    zhang2019, section 3; burges2010 (keys in docs/papers.md).
    """

    __init__ = without_parameters("class_weight", "scale_pos_weight", "intervals", "calibrate")(
        MultiTaskEstimator.__init__
    )

    @renamed(where_outside_fit)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        task: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[Any] | None = None,
    ) -> Self:
        """Fit a common model of all tasks and a specific model of each; see :func:`mtboost.fit`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            NumPy array, SciPy CSR or CSC, pandas or polars DataFrame, pyarrow Table; NaN means
            missing. Tables of a mapping may have different columns; `y`, `qid`, `sample_weight` and
            `base_margin` are mappings then, too.
        y : array-like of shape (n_rows,)
            Relevance of each row: whole numbers, 0 for irrelevant rows.
        qid : array-like of shape (n_rows,)
            Query of each row, in any order; the rows of a query belong to one task.
        task : array-like of shape (n_rows,), optional
            Task of each row, int or str, unless the parameter ``task`` names a column of `X`.
            Without both there is a single task.
        sample_weight : array-like of shape (n_rows,), optional
            Weights >= 0, one for all rows of a query.
        base_margin : array-like of shape (n_rows,), optional
            Margin that each row starts from; ``predict`` needs it as well.
        eval_set : (X, y, task, weight, base_margin, qid), optional
            Validation rows, instead of a fraction of the queries of `X`; what is not there is None.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        DataError, ParameterError, ValueError, TypeError
            Before any training, if something does not fit together.
        """
        _check_has_queries(qid)
        return self._fit(
            X,
            y,
            task=task,
            sample_weight=sample_weight,
            base_margin=base_margin,
            eval_set=eval_set,
            qid=qid,
        )

    @renamed(where_in_a_method)
    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
        output: Output = "numpy",
    ) -> Any:
        """Predict scores that rank the rows of a query: the largest is ranked first.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        base_margin : array-like of shape (n_rows,), optional
            Margin that each row starts from, if ``fit`` had one.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the common model. By default the parameter of the estimator.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` and ``"polars"`` give a Series named ``"prediction"``; ``"pandas"`` keeps
            the index of `X`, if it has one.

        Returns
        -------
        ndarray of float32, or float64 from LightGBM, shape (n_rows,), or Series; or a dict of them
            Scores without a unit, to be compared within a query only.

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is unknown (the known ones are listed).
        MissingDependencyError
            The library of `output` is not installed.
        """
        rows = {"task": task, "base_margin": base_margin}
        return self._predict(X, unknown_task, **rows, output=output)

    @renamed(where_in_a_method)
    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, qid: Any = None, task: Any = None
    ) -> float:
        """Compute the mean NDCG of the queries, over all positions.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``. With a mapping `y`, `sample_weight` and `qid` are mappings, too.
        y : array-like of shape (n_rows,)
            Relevance of each row.
        sample_weight : array-like of shape (n_rows,), optional
            Weights >= 0, one for all rows of a query.
        qid : array-like of shape (n_rows,)
            Query of each row.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.

        Returns
        -------
        float
            Between 0 and 1, of perfect rankings.
        """
        _check_has_queries(qid)
        prediction = np.asarray(in_one_array("predictions", self.predict(X, task=task), X))
        y, qid = in_one_array("y", y, X), _queries_of_all(qid, X)
        sample_weight = in_one_array("sample_weight", sample_weight, X)
        queries = as_queries(qid, len(prediction))
        one_task = TaskSet.from_labels(None, len(prediction))
        weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        check_queries(queries, one_task, weight)
        labels = as_labels(y, len(prediction))
        found = evaluate_by_task("ndcg", labels, prediction, one_task.codes, 1, weight, queries)
        return float(found[0])

    def _learn_labels(self, y: Any, library: Backend) -> Objective:
        objective = library.ranking if self.objective is None else self.objective
        if not is_ranking(objective):
            raise ParameterError(
                f"objective={objective!r} does not rank rows: choose {library.ranking!r}, or use "
                "MultiTaskRegressor."
            )
        return objective


def _check_has_queries(qid: Any) -> None:
    if qid is None:
        raise DataError("qid is missing: pass the query of each row, which is ranked in it.")


def _queries_of_all(qid: Any, X: Any) -> Any:
    """Return queries of a mapping, one table after the other; none has rows of two tables."""
    if not is_mapping(X):
        return qid
    check_task_keys("qid", qid, X)
    n_before, found = 0, []
    for task in X:
        names, codes = np.unique(as_array(qid[task]), return_inverse=True)
        found.append(n_before + codes)
        n_before += len(names)
    return np.concatenate(found)
