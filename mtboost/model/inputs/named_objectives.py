# SPDX-License-Identifier: Apache-2.0
"""Objectives of a call of fit or tune: as it names them, or by the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import listed, refuse
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError, ParameterError, ParameterTypeError
from mtboost.metrics.metric import (
    Metric,
    is_of_bounds,
    is_of_hazards,
    is_of_queries,
    is_of_survival,
)
from mtboost.model.stages.mixed_objective import objectives_by_task
from mtboost.trees.backend import Backend
from mtboost.trees.losses import (
    has_bounds,
    has_hazards,
    is_classification,
    is_multiclass,
    is_ranking,
    is_survival,
)

#: More different whole numbers are rarely classes.
MOST_CLASSES = 20
#: Of a class on average.
_LEAST_ROWS = 5
#: Rows of a task in which counts would hardly be 0 and 1 alone.
_LEAST_ROWS_OF_TWO = 20
#: Tasks that a message names in a mapping, of either kind.
_N_NAMED = 3

Objective = str | Mapping[TaskName, str] | Callable[..., Any]


def check_fits(metric: Metric, objective: object, argument: str) -> None:
    """Raise ParameterError where a built-in metric judges other labels than the objective has."""
    fits = is_ranking(objective) == is_of_queries(metric)
    fits &= is_survival(objective) == is_of_survival(metric)
    fits &= not (is_of_hazards(metric) and has_bounds(objective))
    fits &= not (is_of_bounds(metric) and has_hazards(objective))
    if fits or type(metric) is Metric:
        return
    allowed = "a metric of rows"
    if is_ranking(objective):
        allowed = "'ndcg', 'ndcg@k', 'ndcg@k,linear'"
    elif is_survival(objective):
        own = "cox-nloglik" if has_hazards(objective) else "aft-nloglik"
        allowed = f"{own!r}, 'concordance'"
    raise ParameterError(
        f"{argument} {metric.name!r} does not fit objective={objective!r}: choose {allowed}, or "
        "pass a Metric."
    )


def complete_objective(
    library: Backend,
    objective: Any,
    data: Dataset,
    classes: Sequence[str] | None = None,
    n_rows: int | None = None,
) -> Objective:
    """Return the objective, that of each task where they differ; by default one for the labels.

    `n_rows` is the number of all rows where `data` has those of different labels alone.
    """
    if classes is not None:
        objective = objective_for_classes(library, objective, classes)
    if objective is None:
        found = objective_for(library, data.labels(), n_rows or data.n_rows)
        if found == library.squared_error:
            _warn_of_some_classes(library, data)
        return found
    if isinstance(objective, Mapping):
        return objectives_by_task(objective, data.tasks, library)
    given: Objective = objective
    return given


def objective_for_classes(backend: Backend, objective: Any, names: Sequence[str]) -> str:
    """Return the objective of classes with names: by default logistic for two, softmax for more.

    Raises
    ------
    DataError
        It is none of classes, or of two where there are more.
    """
    are_two = len(names) == 2
    if objective is None:
        return backend.binary if are_two else backend.multiclass
    if not is_classification(objective) or not (are_two or is_multiclass(objective)):
        raise DataError(
            f"y has the {listed(names, 'class')}, and objective={objective!r} is not for them: "
            f"leave it out, or choose {(backend.binary if are_two else backend.multiclass)!r}. "
            "Among the estimators MultiTaskClassifier is for classes."
        )
    return str(objective)


def objective_for(backend: Backend, labels: npt.NDArray[Any], n_rows: int) -> str:
    """Return the objective for labels: logistic for 0 and 1, else squared error.

    Warns where the labels may be numbers of classes.
    """
    values = np.unique(labels)
    if np.array_equal(values, [0.0, 1.0]):
        return backend.binary
    if len(values) <= min(MOST_CLASSES, n_rows / _LEAST_ROWS):
        _warn_of_classes(backend, values)
    return backend.squared_error


def _warn_of_classes(backend: Backend, values: npt.NDArray[Any]) -> None:
    """Warn where the distinct values of labels, in ascending order, may be numbers of classes."""
    remedy = f"give objective={backend.multiclass!r}"
    if len(values) > 2 and np.array_equal(values, np.arange(len(values))):
        found = f"whole numbers from 0 to {len(values) - 1}"
    elif np.array_equal(values, [0.0]):
        found, remedy = "0", f"give objective={backend.binary!r}"
    elif len(values) == 2 and np.array_equal(values, np.rint(values)):
        found = f"{values[0]:.15g} or {values[1]:.15g}"
        remedy = f"make them 0 and 1, and give objective={backend.binary!r}"
    else:
        return
    warn_user(
        f"All labels are {found}, and are learned as quantities, with squared error. If they are "
        f"classes, {remedy}; if not, objective={backend.squared_error!r}."
    )


def _warn_of_some_classes(backend: Backend, data: Dataset) -> None:
    """Warn where only some labels of a row, or only some tables of a mapping, have 0 or 1 alone.

    Tasks of one table are of one kind: that a small one has no other count says little.
    """
    tasks, names = data.tasks, data.label_names
    groups: list[Any] = list(tasks) if names is None else list(names)
    if data.labels().ndim > 1 or (names is None and data.only_table is not None):
        return
    outermost = [task[0] if isinstance(task, tuple) else task for task in tasks]
    place = {name: number for number, name in enumerate(groups)}
    group_of = [place[own] for own in (tasks if names is None else outermost)]
    of_row = np.array(group_of)[tasks.codes]
    n_zeros, n_ones, n_rows = (
        np.bincount(of_row[own], minlength=len(groups))
        for own in (data.labels() == 0, data.labels() == 1, slice(None))
    )
    are_classes = (n_zeros + n_ones == n_rows) & (n_zeros > 0) & (n_ones > 0)
    are_classes &= n_rows >= _LEAST_ROWS_OF_TWO
    classes = [name for name, own in zip(groups, are_classes, strict=True) if own]
    others = [name for name, own in zip(groups, are_classes, strict=True) if not own]
    if not classes or not others:
        return
    pairs = [f"{name!r}: {backend.binary!r}" for name in classes[:_N_NAMED]]
    pairs += [f"{name!r}: {backend.squared_error!r}" for name in others[:_N_NAMED]]
    more = ", ..." if len(pairs) < len(groups) else ""
    warn_user(
        f"All labels of {listed(classes, 'label' if names else 'task')} are 0 or 1, those of "
        f"others are not, and all are learned as quantities, with squared error. If they are "
        f"classes, pass objective={{{', '.join(pairs)}{more}}} to mtboost.fit; if not, "
        f"objective={backend.squared_error!r}."
    )


def names_of_objectives(objective: object) -> list[str]:
    """Objectives of the library, each once; none if a function gives the gradients."""
    if isinstance(objective, str):
        return [objective]
    if isinstance(objective, Mapping):
        return list(dict.fromkeys(objective.values()))
    if not callable(objective):
        allowed = "the name of an objective, a mapping of task to name, or a function"
        refuse("objective", objective, allowed, "None", kind=ParameterTypeError)
    return []


def check_n_classes(names: Sequence[str] | None, n_outputs: int) -> None:
    """Raise unless a model of classes with names has an output for each, or one for two."""
    if names is not None and n_outputs not in (
        len(names),
        len(names) - 1 if len(names) == 2 else 0,
    ):
        raise ParameterError(
            f"params has 'num_class' = {n_outputs}, but y has {len(names)} classes: leave it out."
        )


def labels_are_classes(
    objective: str | Mapping[TaskName, str] | Callable[..., Any], tasks: TaskSet
) -> bool | npt.NDArray[np.bool_]:
    """Whether the labels are classes, of all rows or of each."""
    if not isinstance(objective, Mapping):
        return is_classification(objective)
    of_task: npt.NDArray[np.bool_] = np.array([is_classification(objective[t]) for t in tasks])
    return of_task[tasks.codes]
