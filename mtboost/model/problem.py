# SPDX-License-Identifier: Apache-2.0
"""What a call of :func:`mtboost.fit` has to solve: rows, tasks and their objectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import FloatArray
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import listed, refuse
from mtboost.base.classes import class_names, class_numbers, with_class_numbers
from mtboost.base.dataset import Dataset, place_of_task_column
from mtboost.base.several_labels import by_task
from mtboost.base.tables import TaskColumn, TaskPosition
from mtboost.base.task_tables import CommonFeatures, is_mapping
from mtboost.base.task_weights import TaskWeight
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.times import Times, check_times, split_time
from mtboost.base.validation import validation_data
from mtboost.errors import DataError, ParameterError, ParameterTypeError
from mtboost.model.arguments import Arguments, EvalMetric
from mtboost.model.libraries import get_backend
from mtboost.model.stages.mixed_objective import objectives_by_task
from mtboost.trees.backend import Backend
from mtboost.trees.losses import (
    as_zero_one,
    has_bounds,
    is_classification,
    is_multiclass,
    is_ranking,
)

Objective = str | Mapping[TaskName, str] | Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows and tasks of a call of :func:`mtboost.fit`, and what they are trained for.

    Attributes
    ----------
    data : Dataset
        Training rows. Labels that are texts are the numbers of classes here.
    library : Backend
    objective : str, dict of task name to str, or callable
        A dict has one for each task, in their order.
    eval_metric, task_weight
        As the user gave them, with names of tasks in place of those of labels.
    valid : Dataset, optional
        Validation rows of the user.
    times : ndarray of int64, shape (n_rows,), optional
        Rank of the time of each training row.
    place : tuple
        Name and position of the task column in training, None if there is none.
    classes : tuple of str, optional
        Names of classes, if labels are texts.
    """

    data: Dataset
    library: Backend
    objective: Objective
    eval_metric: EvalMetric = None
    task_weight: TaskWeight = None
    valid: Dataset | None = None
    times: Times | None = None
    place: tuple[TaskColumn | None, TaskPosition | None] = (None, None)
    classes: tuple[str, ...] | None = None

    def to_parts(self) -> dict[str, Any]:
        """Return the attributes of a model that do not depend on training, by name."""
        return {
            "task_column": self.place[0],
            "task_position": self.place[1],
            "classes": self.classes,
            "label_names": self.data.label_names,
        }


def read_problem(arguments: Arguments) -> Problem:
    """Read rows, tasks and objectives of arguments that are checked.

    Raises
    ------
    DataError, ParameterError, TypeError
        A table, a label or a name does not fit the others.
    """
    X, times = arguments.X, None
    if arguments.time is not None:
        X, times = split_time(X, arguments.time)
    classes = class_names(arguments.y)
    data = Dataset(
        X,
        class_numbers(arguments.y, classes),
        task=arguments.task,
        qid=arguments.qid,
        common_features=_common_features(arguments, X),
        weight=arguments.weight,
        base_margin=arguments.base_margin,
        feature_names=arguments.feature_names,
        are_bounds=has_bounds(arguments.objective),
    )
    check_times(times, arguments.validation, data.n_given_rows)
    if times is not None and data.row_numbers is not None:
        times = times[data.row_numbers]
    objective, eval_metric, task_weight = (
        by_task(own, data.label_names, data.tasks)
        for own in (arguments.objective, arguments.eval_metric, arguments.task_weight)
    )
    library = get_backend(arguments.backend)
    return Problem(
        data,
        library,
        complete_objective(library, objective, data, classes),
        eval_metric,
        task_weight,
        _validation_rows(arguments, data, classes),
        times,
        place_of_task_column(X, data.task_column, arguments.feature_names),
        classes,
    )


def _common_features(arguments: Arguments, X: Any) -> CommonFeatures:
    """Return the columns of the common model: of "auto" by default those of any task."""
    if arguments.common_features is None and arguments.is_auto and is_mapping(X) and X:
        names = arguments.feature_names
        if names is not None or as_table(next(iter(X.values()))).feature_names is not None:
            return "all"  # columns that a task lacks may help the others
    return arguments.common_features


def _validation_rows(
    arguments: Arguments, data: Dataset, classes: Sequence[str] | None
) -> Dataset | None:
    """Return the validation rows that the user gives."""
    if arguments.eval_set is None:
        return None
    eval_set = with_class_numbers(arguments.eval_set, classes)
    assert eval_set is not None
    return validation_data(data, eval_set, arguments.feature_names)


def complete_objective(
    library: Backend, objective: Any, data: Dataset, classes: Sequence[str] | None = None
) -> Objective:
    """Return the objective, that of each task where they differ; by default one for the labels."""
    if classes is not None:
        objective = objective_for_classes(library, objective, classes)
    if objective is None:
        return objective_for(library, data.labels())
    if isinstance(objective, Mapping):
        return objectives_by_task(objective, data.tasks, library)
    found: Objective = objective
    return found


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
            f"leave it out, or choose {backend.multiclass!r}."
        )
    return str(objective)


def check_n_classes(names: Sequence[str] | None, n_outputs: int) -> None:
    """Raise unless a model of classes with names has an output for each, or one for two."""
    if names is not None and n_outputs not in (
        len(names),
        len(names) - 1 if len(names) == 2 else 0,
    ):
        raise ParameterError(
            f"params has 'num_class' = {n_outputs}, but y has {len(names)} classes: leave it out."
        )


def objective_for(backend: Backend, labels: npt.NDArray[Any]) -> str:
    """Return the objective for labels: logistic for 0 and 1, else squared error."""
    values = np.unique(labels)
    is_binary = len(values) == 2 and np.array_equal(values, [0.0, 1.0])
    return backend.binary if is_binary else backend.squared_error


def check_kind_of_rows(objective: object, data: Dataset) -> None:
    """Raise unless rows have queries, or bounds of labels, exactly if the objective needs them."""
    shape = data.labels().shape
    if has_bounds(objective) and len(shape) == 1:
        raise DataError(
            f"objective={objective!r} needs y of shape ({data.n_rows}, 2), lower and upper bounds "
            f"of times, found {shape}: repeat the time of an event, and give infinity as upper "
            "bound of a row that is right-censored."
        )
    if len(shape) == 2 and not has_bounds(objective):
        raise DataError(
            f"y has shape {shape}, but must have ({data.n_rows},), because X has {data.n_rows} "
            "rows. Two columns are the bounds of times of objective='survival:aft'."
        )
    if is_ranking(objective) and data.queries is None:
        raise DataError(
            f"objective={objective!r} ranks the rows of each query: pass qid, the query of each "
            "row, to mtboost.fit or MultiTaskRanker. Changes of a fitted model, tune and Dask do "
            "not support it."
        )
    if data.queries is not None and not is_ranking(objective):
        raise ParameterError(
            f"qid is given, but objective={objective!r} does not rank the rows of queries: leave "
            "qid out, or pass objective='rank:ndcg' (LightGBM: 'lambdarank')."
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


def check_rows(
    backend: Backend,
    data: Dataset,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    settings: Mapping[str, Any],
    where: str = "",
) -> None:
    """Demand tables the library reads, labels in the domain, one base margin per output.

    Labels -1 and 1 of LightGBM's ``binary`` become 0 and 1 in `data`.
    """
    check_kind_of_rows(objective, data)
    for table in data.tables:
        backend.check_table(table)
    n_outputs = backend.n_outputs(settings)
    labels = data.y = as_zero_one(objective, data.labels())
    parts: list[tuple[str, FloatArray, str]] = []
    if isinstance(objective, str):
        parts = [(objective, labels, "")]
    elif isinstance(objective, Mapping):
        parts = [
            (objective[task], labels[data.tasks.rows(task)], f"task {task!r}, rows of it counted: ")
            for task in data.tasks
        ]
    for name, own_labels, of_task in parts:
        try:
            backend.check_labels(name, n_outputs, own_labels)
        except DataError as error:
            raise DataError(f"{where}{of_task}{error}") from None
    margins = data.base_margin
    n_found = 1 if margins is None or margins.ndim == 1 else margins.shape[1]
    if margins is not None and n_found != n_outputs:
        raise DataError(
            f"{where}base_margin has {n_found} columns, but {settings['objective']} has "
            f"{n_outputs} margins a row."
        )


def labels_are_classes(
    objective: str | Mapping[TaskName, str] | Callable[..., Any], tasks: TaskSet
) -> bool | npt.NDArray[np.bool_]:
    """Whether the labels are classes, of all rows or of each."""
    if not isinstance(objective, Mapping):
        return is_classification(objective)
    of_task: npt.NDArray[np.bool_] = np.array([is_classification(objective[t]) for t in tasks])
    return of_task[tasks.codes]
