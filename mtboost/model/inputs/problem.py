# SPDX-License-Identifier: Apache-2.0
"""What a call of :func:`mtboost.fit` has to solve: rows, tasks and their objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtboost.base.checked_tables import as_table, warn_of_different_texts
from mtboost.base.classes import class_names, class_numbers, with_class_numbers
from mtboost.base.dataset import Dataset, place_of_task_column
from mtboost.base.several_labels import by_task
from mtboost.base.tables import TaskColumn, TaskPosition
from mtboost.base.task_tables import CommonFeatures, is_mapping
from mtboost.base.task_weights import TaskWeight
from mtboost.base.times import Times, check_times, split_time
from mtboost.base.validation import validation_data
from mtboost.model.inputs.arguments import Arguments, EvalMetric
from mtboost.model.inputs.checked_rows import check_are_times
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.inputs.named_objectives import Objective, complete_objective
from mtboost.trees.backend import Backend
from mtboost.trees.losses import has_bounds


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
            "has_base_margin": self.data.base_margin is not None,
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
    warn_of_different_texts(X, data.common, data.n_given_rows)
    check_are_times(arguments.objective, data)
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
