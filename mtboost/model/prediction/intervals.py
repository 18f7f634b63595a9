# SPDX-License-Identifier: Apache-2.0
"""Prediction intervals of a fitted model, by the conformity scores of held-out rows.

The score of a row is the absolute error of its prediction, over the standard deviation that its
objective gives a label with this mean (1 for squared error). conformal.py turns scores into the
half widths of intervals; docs/intervals.md says where rows come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_number, listed
from mtboost.base.dataset import Dataset
from mtboost.base.labels import as_labels, as_nonnegative
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.tasks import TaskName
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.prediction.conformal import TaskQuantiles, task_quantiles
from mtboost.model.prediction.new_rows import RowsOfTask, check_known, rows_by_task
from mtboost.model.prediction.predictions import FittedTasks, UnknownTask
from mtboost.model.prediction.rows_of_task import check_new_name
from mtboost.trees.backend import Margins
from mtboost.trees.losses import (
    has_identity_link,
    is_classification,
    is_quantile,
    is_ranking,
    is_survival,
    label_range,
    standard_deviations,
)


def score_rows(
    model: FittedTasks, rows: Mapping[TaskName, RowsOfTask]
) -> dict[TaskName, Float64Array]:
    """Return the conformity scores of rows by task; rows of weight 0 have none."""
    _check_are_numbers(model, rows)
    found = {}
    for name, (table, y, weight, base_margin) in rows.items():
        labels = as_labels(y, table.n_rows).astype(np.float64)
        margins = model._task_margins(table, name, base_margin)
        means, scales = _means_and_scales(model, margins, name)
        scores = np.abs(labels - means) / scales
        if weight is not None:
            scores = scores[as_nonnegative(weight, table.n_rows, argument="weight") > 0]
        found[name] = scores / _unit(model, name)
    return {name: own for name, own in found.items() if len(own)}


def score_dataset(model: FittedTasks, data: Dataset) -> dict[TaskName, Float64Array]:
    """Return the conformity scores of rows with numbers as labels."""
    rows: dict[TaskName, RowsOfTask] = {}
    weight, margin = data.weight, data.base_margin
    for task in data.tasks:
        if not is_classification(model._objective_of(task)):
            own = data.tasks.rows(task)
            rows[task] = (
                data.task_table(task),
                data.labels()[own],
                None if weight is None else weight[own],
                None if margin is None else margin[own],
            )
    return score_rows(model, rows)


def check_is_of_numbers(
    objective: str | Mapping[TaskName, str] | Callable[..., Any], n_outputs: int
) -> None:
    """Raise ParameterError if the labels of all tasks are classes, or UnsupportedError."""
    objectives = objective.values() if isinstance(objective, Mapping) else [objective]
    if any(is_ranking(name) or is_survival(name) for name in objectives):
        raise ParameterError(
            f"intervals=True is not possible with objective={objective!r}, whose predictions are "
            "not on the scale of labels, or whose labels may be censored: leave it out."
        )
    if all(map(is_classification, objectives)):
        raise ParameterError(
            "intervals=True is for labels that are numbers, but these are classes: leave it out, "
            "and use predict_proba(X)."
        )
    if is_quantile(objective):
        _check_is_one_number(n_outputs)


def _check_is_one_number(n_outputs: int) -> None:
    if n_outputs > 1:
        raise UnsupportedError(
            f"Intervals are built around one prediction a row, and this model has {n_outputs} "
            "quantiles: use two of them as bounds, or fit a model of one level."
        )


def _check_are_numbers(model: FittedTasks, tasks: Iterable[TaskName]) -> None:
    classes = [task for task in tasks if is_classification(model._objective_of(task))]
    if classes:
        raise DataError(
            f"Intervals are for labels that are numbers, but those of {listed(classes, 'task')} "
            "are classes: use predict_proba(X)."
        )
    names = [model._objective_of(task) for task in tasks]
    if any(is_ranking(name) or is_survival(name) for name in names):
        raise DataError(
            "Intervals are for predictions on the scale of labels. Those of models that rank rows "
            "or predict survival are not: use predict(X)."
        )
    if is_quantile(model.objective):
        _check_is_one_number(model._stage.n_outputs)


def _quantiles(model: FittedTasks, alpha: float) -> TaskQuantiles:
    """Quantiles of the scores of each task, in the order of tasks."""

    def make() -> TaskQuantiles:
        scores = [model.conformity_scores.get(task, np.empty(0)) for task in model.tasks]
        found = task_quantiles(scores, alpha)
        others = [s for task, s in model.conformity_scores.items() if task not in model.quit_round]
        if others:  # errors of tasks that the model does not know
            found = replace(found, unknown=task_quantiles(others, alpha).unknown)
        return found

    return model._kept(f"quantiles {alpha!r}", make)


def _bounds(
    model: FittedTasks, quantiles: TaskQuantiles, margins: Margins, codes: npt.NDArray[Any]
) -> Float64Array:
    """Lower and upper bound of each row, shape (n_rows, 2)."""

    def parts(own: Margins, task: TaskName | None) -> Any:
        means, scales = _means_and_scales(model, own, task)
        limits = label_range(model._objective_of(task))
        return np.column_stack([means, scales, *(np.full(len(own), each) for each in limits)])

    found = model._by_objective(parts, margins, codes)
    means, scales, low, high = np.asarray(found, np.float64).T
    units = np.array([*(_unit(model, task) for task in model.tasks), 1.0])
    half = np.append(quantiles.by_task, quantiles.unknown)[codes] * units[codes] * scales
    bounds = np.column_stack([means - half, means + half])
    return np.asarray(np.clip(bounds, low[:, None], high[:, None]))


def _means_and_scales(
    model: FittedTasks, margins: Margins, task: TaskName | None
) -> tuple[Float64Array, Float64Array]:
    """Predictions, and the standard deviations of labels up to a factor."""
    means = np.asarray(model._response(margins, task), np.float64)
    options = model.losses[task].options if task in model.losses else model.params
    return means, standard_deviations(model._objective_of(task), means, options)


def _unit(model: FittedTasks, task: TaskName) -> float:
    """Unit of a task's errors, so that tasks whose labels have different units are comparable."""
    loss = model.losses.get(task)
    return loss.unit if loss is not None and has_identity_link(loss.objective) else 1.0


class TasksWithIntervals(FittedTasks):
    """A :class:`mtboost.MultiTaskModel` that predicts intervals."""

    __slots__ = ()

    @renamed(where_in_a_method)
    @reading_rows
    def predict_interval(
        self,
        X: Any,
        *,
        task: Any = None,
        alpha: float = 0.1,
        base_margin: Any = None,
        unknown_task: UnknownTask = "error",
    ) -> Any:
        """Predict intervals that contain the labels of new rows with probability 1 - `alpha`.

        Split-conformal intervals about :meth:`predict`, whose widths come from the errors of
        held-out rows (`conformity_scores`). The quantile of a task with few of them is shrunk
        towards that of all tasks, see docs/intervals.md. :meth:`evaluate` shows the coverage of
        each task.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            As in :meth:`predict`.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        alpha : float in (0, 1), default=0.1
            Probability that a label is outside; 1 - ``confidence_level`` of MAPIE.
        base_margin : array-like of shape (n_rows,), or mapping, optional
            Margin that each row starts from.
        unknown_task : {"error", "common"}
            As in :meth:`predict`. A task without scores, such as one of :meth:`add_task`, gets
            intervals by how much the errors of the other tasks differ. Those of an unknown task are
            too narrow unless :meth:`conformalize` has had rows of such tasks.

        Returns
        -------
        ndarray of float64, shape (n_rows, 2); for a mapping, a dict of them
            Lower and upper bound, in the unit of the labels. Infinite, with a warning, where there
            are too few scores for this `alpha`.

        Raises
        ------
        DataError
            The model has no scores, labels are classes, or as :meth:`predict`.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 2))
        >>> shop = np.repeat(["a", "b", "c"], 200)
        >>> y = X[:, 0] + np.where(shop == "c", 3.0, 1.0) * rng.normal(size=600)
        >>> model = mtboost.fit(
        ...     X, y, task=shop, strategy="two-stage", num_boost_round=20, intervals=True
        ... )
        >>> low, high = model.predict_interval(X, task=shop, alpha=0.2).T
        >>> bool((high - low)[shop == "c"].mean() > 2 * (high - low)[shop == "a"].mean())
        True
        """
        alpha = check_number("alpha", alpha, above=0.0, below=1.0)
        _check_are_numbers(self, self.tasks if not self.losses else ())
        if not self.conformity_scores:
            raise DataError(
                "The model has no conformity scores, by which intervals are computed: call "
                "fit(..., intervals=True), or conformalize(X, y) with rows that it was not trained "
                "on. update() with new rounds and refresh() drop the scores of the model before."
            )
        quantiles = _quantiles(self, alpha)
        margins, codes = self._margins(X, task, base_margin, unknown_task)
        if isinstance(margins, dict):
            _check_are_numbers(self, margins)
            codes_of = {name: code for code, name in enumerate(self.tasks)}
            found: Any = {
                name: _bounds(self, quantiles, own, np.full(len(own), codes_of.get(name, -1)))
                for name, own in margins.items()
            }
            parts = list(found.values())
        else:
            shape, codes = codes.shape, codes.ravel()
            margins = margins.reshape(len(codes), *margins.shape[len(shape) :])
            codes = np.where(codes < len(self.tasks), codes, -1)  # groups of tasks have no scores
            _check_are_numbers(self, [self.tasks[code] for code in np.unique(codes) if code >= 0])
            found = _bounds(self, quantiles, margins, codes).reshape(*shape, 2)
            parts = [found]
        if any(np.isinf(own).any() for own in parts):
            n_scores = sum(map(len, self.conformity_scores.values()))
            warn_user(
                f"Some intervals are infinite: alpha={alpha:g} needs more than {n_scores} "
                f"conformity scores of {len(self.conformity_scores)} tasks to bound the errors of "
                "every task here. Pass a larger alpha, or conformalize(X, y) with more rows.",
            )
        return found

    @renamed(where_in_a_method)
    @reading_rows
    def conformalize(
        self, X: Any, y: Any, *, task: Any = None, weight: Any = None, base_margin: Any = None
    ) -> Self:
        """Learn the widths of intervals from rows that the model has not seen.

        Nothing was chosen by these rows, so that :meth:`predict_interval` has the coverage
        1 - `alpha`. They replace the `conformity_scores` of their tasks; other tasks keep theirs.

        Rows of tasks that the model does not know are predicted by the common model. Intervals of
        unknown tasks then go by how much the errors of these tasks differ, which are larger than
        those of tasks that were trained.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Rows, as in :meth:`predict`.
        y : array-like of shape (n_rows,), or mapping of task name to array-like
            Labels.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        weight : like `y`, optional
            Row weights >= 0; rows of weight 0 are left out, all others count alike.
        base_margin : array-like of shape (n_rows,), or mapping, optional
            Margin that each row starts from.

        Returns
        -------
        MultiTaskModel
            A new model; this one stays as it is.

        Raises
        ------
        DataError
            The rows do not fit the model, labels are classes, or a task is unknown and each has an
            objective.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 2))
        >>> shop = np.repeat(["a", "b", "c"], 200)
        >>> y = X[:, 0] + rng.normal(size=600)
        >>> train, own = np.arange(600) % 3 > 0, np.arange(600) % 3 == 0
        >>> model = mtboost.fit(
        ...     X[train], y[train], task=shop[train], strategy="two-stage", num_boost_round=20
        ... ).conformalize(X[own], y[own], task=shop[own])
        >>> model.predict_interval(X, task=shop).shape
        (600, 2)
        """
        rows = rows_by_task(self, X, y, task, weight, base_margin)
        if self.losses:
            check_known(self, rows, "Give a new task to add_task() first.")
        for name in rows:
            if name not in self.quit_round:
                check_new_name(name, self.tasks)
        scores = self.conformity_scores | score_rows(self, rows)
        return self._copy(conformity_scores=scores)
