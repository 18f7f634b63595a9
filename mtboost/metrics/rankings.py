# SPDX-License-Identifier: Apache-2.0
"""Metrics of the order of predictions: of two classes, and of the rows of queries."""

from typing import NamedTuple

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.errors import DataError
from mtboost.metrics.task_rows import TaskRows


class _Counts(NamedTuple):
    """Positives (or negatives) in weight. A threshold is one distinct (task, prediction)."""

    at: Float64Array  # of each threshold
    above: Float64Array  # of each threshold: at higher predictions of the same task
    total: Float64Array  # of each task


def _counts(
    y: Float64Array, prediction: Float64Array, rows: TaskRows
) -> tuple[TaskRows, _Counts, _Counts]:
    """The task of each threshold, its positives and its negatives.

    A label of 0.3 is 0.3 positive and 0.7 negative, as in XGBoost.
    """
    order = np.lexsort((-prediction, rows.codes))
    codes, prediction = rows.codes[order], prediction[order]
    is_first = np.ones(len(y), dtype=bool)
    is_first[1:] = (codes[1:] != codes[:-1]) | (prediction[1:] != prediction[:-1])
    first = np.flatnonzero(is_first)
    thresholds = TaskRows(codes[first], rows.n_tasks, None)

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


def auc(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    """Area under the receiver operating characteristic; a tie of two classes counts one half."""
    thresholds, positive, negative = _counts(y, prediction, rows)
    ranked = thresholds.sum(negative.at * (positive.above + 0.5 * positive.at))
    return ranked / (positive.total * negative.total)


def aucpr(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
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
    of_task = TaskRows(thresholds.codes[rises], rows.n_tasks, None).sum(area)
    return np.where(negative.total > 0, of_task / positive.total, np.nan)


def average_precision(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    """Mean precision at the positives, as scikit-learn's ``average_precision_score``."""
    thresholds, positive, negative = _counts(y, prediction, rows)
    rises = positive.at > 0
    hits = positive.at[rises] + positive.above[rises]
    precision = hits / (hits + negative.at[rises] + negative.above[rises])
    of_task = TaskRows(thresholds.codes[rises], rows.n_tasks, None)
    return of_task.sum(positive.at[rises] * precision) / positive.total


def ndcg(
    y: Float64Array,
    prediction: Float64Array,
    rows: TaskRows,
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
    return TaskRows(rows.codes[rows_of], rows.n_tasks, weight).mean(values)
