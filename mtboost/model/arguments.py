# SPDX-License-Identifier: Apache-2.0
"""Arguments of :func:`mtboost.fit` and its kin, checked and completed before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import FloatArray
from mtboost.base.checks import (
    check_choice,
    check_number,
    check_seed,
    check_switch,
    is_number,
    listed,
    refuse,
)
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError, ParameterError, ParameterTypeError
from mtboost.metrics import Metric, check_outputs, get_metric
from mtboost.model.stages.mixed_objective import metrics_by_task
from mtboost.model.stages.objectives import ObjectiveByTask, Objectives, OneObjective
from mtboost.trees.backend import Backend
from mtboost.trees.feature_weights import PriorOption, read_importances
from mtboost.trees.losses import is_classification, is_multiclass
from mtboost.trees.pooled_leaves import PoolingOption
from mtboost.trees.split_scores import Beta, Score
from mtboost.trees.task_descriptors import MOST_DESCRIPTORS
from mtboost.trees.tree_options import TreeOptions

Strategy: TypeAlias = Literal["auto", "two-stage"]
TaskSplits: TypeAlias = "bool | float | Literal['descriptors']"


def strategy_of(
    strategy: Strategy | None,
    objective: object,
    early_stopping_rounds: object,
    min_delta: object,
    validation_fraction: object,
    eval_set: object,
) -> Strategy:
    """Return the strategy: as asked, else "auto", unless another argument rules that out."""
    if strategy is not None:
        check_choice("strategy", strategy, ("auto", "two-stage"))
        return strategy
    has_no_validation = eval_set is None and is_zero(validation_fraction)
    is_ruled_out = (
        isinstance(objective, Mapping)
        or early_stopping_rounds is None
        or not is_zero(min_delta)
        or has_no_validation
    )
    return "two-stage" if is_ruled_out else "auto"


def is_zero(value: object) -> bool:
    """Whether a value is the number 0."""
    return is_number(value) and float(value) == 0.0


def objective_for(backend: Backend, labels: npt.NDArray[Any]) -> str:
    """Return the objective for labels: logistic for 0 and 1, else squared error."""
    values = np.unique(labels)
    is_binary = len(values) == 2 and np.array_equal(values, [0.0, 1.0])
    return backend.binary if is_binary else backend.squared_error


def common_parameters(
    backend: Backend,
    params: Mapping[str, Any] | None,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    data: Dataset,
    n_threads: int | None,
    seed: int,
    *,
    is_ours: bool = True,
) -> dict[str, Any]:
    """The library's parameters of both stages, or of the common one of tasks with own losses.

    `is_ours` as of :meth:`Backend.check_values`.
    """
    objectives = names_of_objectives(objective)
    for name in objectives:
        backend.check_objective(name)
    own = backend.parameters({} if params is None else params, elsewhere=backend.arguments)
    if "num_class" in own and objectives and not is_multiclass(objective):
        raise ParameterError(
            f"params has 'num_class', but objective={objective!r} has no classes: leave it out."
        )
    labels = data.labels()
    settings = {
        **backend.settings(
            objective if isinstance(objective, str) else backend.squared_error,
            default_n_threads(n_threads, data.n_rows * data.common.n_features),
            check_seed(seed, bits=backend.seed_bits),
        ),
        **own,
    }
    if isinstance(objective, Mapping):
        starts = [name for name in backend.no_start if name in own]
        if starts:
            raise ParameterError(
                f"params has {starts[0]!r}, but with an objective for each task each starts from a "
                "constant: leave it out, or give rows their base_margin."
            )
    if is_multiclass(objective) and "num_class" not in settings:
        settings["num_class"] = _count_classes(labels)
    for name in objectives or [settings["objective"]]:
        backend.check_values(
            {**settings, "objective": name}, data.common, "params", is_ours=is_ours
        )
    return settings


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


def _count_classes(labels: FloatArray) -> int:
    classes = np.unique(labels)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise DataError(
            f"y must hold the classes 0, 1, ... without a gap, found "
            f"{listed(classes.tolist(), 'label')}: recode them, or pass their number in "
            "params={'num_class': ...}."
        )
    return max(2, len(classes))


def check_rows(
    backend: Backend,
    data: Dataset,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    settings: Mapping[str, Any],
    where: str = "",
) -> None:
    """Demand tables the library reads, labels in the domain, one base margin per output."""
    for table in data.tables:
        backend.check_table(table)
    n_outputs = int(settings.get("num_class", 1))
    labels = data.labels()
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


def feature_prior_of(
    backend: Backend, prior: PriorOption, params: Mapping[str, Any], data: Dataset
) -> PriorOption:
    """The prior of the specific models; one by position is named as the common columns are."""
    if prior is None:
        return None
    if isinstance(prior, str):
        if prior != "auto":
            raise ParameterError(
                f"feature_prior must be None, 'auto' or importances, found {prior!r}."
            )
        backend.feature_sampling(params, data.common, None)
        return prior
    backend.feature_sampling(params, data.common, prior)
    names, values = read_importances(prior)
    columns = data.common.feature_names
    if names is None and columns is not None:
        return dict(zip(columns, values.tolist(), strict=True))
    return prior


def task_splits_of(
    task_splits: object, objective: object, data: Dataset
) -> tuple[float | None, int | None]:
    """Return the price of task splits, or the number of descriptors; None for no task splits."""
    price, n_descriptors = None, None
    if task_splits is None or isinstance(task_splits, bool):
        price = 1.0 if task_splits else None
    elif isinstance(task_splits, str) and task_splits == "descriptors":
        n_descriptors = MOST_DESCRIPTORS
        if isinstance(objective, Mapping):
            raise ParameterError(
                "task_splits='descriptors' compares the labels of the tasks, and each task has an "
                "objective: pass True or a number, or one objective for all."
            )
    else:
        price = check_number(
            "task_splits", task_splits, low=0.0, besides="True, False, 'descriptors'"
        )
    is_wanted = price is not None or n_descriptors is not None
    if is_wanted and not may_split_tasks(data):
        raise ParameterError(
            f"task_splits needs columns of numbers, and "
            f"{listed(list(data.common.categorical_features), 'column')} hold categories: "
            "leave out task_splits, or encode them."
        )
    return price, n_descriptors


def may_split_tasks(data: Dataset) -> bool:
    """Whether a column of tasks can stand beside the common columns."""
    return not data.common.categorical_features


def metric_of(
    backend: Backend,
    objective: str | Callable[..., Any],
    eval_metric: str | Metric | Mapping[TaskName, str | Metric] | None,
    params: Mapping[str, Any],
) -> Metric:
    """Return the metric of tasks with one objective."""
    if isinstance(eval_metric, Mapping):
        raise ParameterError(
            "eval_metric is a mapping, but objective is one for all tasks: give one metric, or "
            "objective={task: ...} as well."
        )
    if eval_metric is None:
        return backend.default_metric(params)
    has_classes = is_multiclass(objective) or int(params.get("num_class", 1)) > 1
    return check_outputs(get_metric(eval_metric), has_classes=has_classes)


def make_objectives(
    backend: Backend,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    eval_metric: str | Metric | Mapping[TaskName, str | Metric] | None,
    tasks: TaskSet,
    params: Mapping[str, Any],
) -> Objectives:
    """Return what the tasks are trained for and validated by.

    Raises
    ------
    ParameterError
        There are several metrics for one objective, or a metric does not go with the objective.
    """
    if isinstance(objective, Mapping):
        metrics = metrics_by_task(eval_metric, objective, tasks, backend, params)
        return ObjectiveByTask(backend, objective, metrics)
    metric = metric_of(backend, objective, eval_metric, params)
    function = objective if callable(objective) else None
    return OneObjective(backend, metric, params["objective"], function)


def weight_of_positives(
    backend: Backend, objective: object, params: Mapping[str, Any], data: Dataset
) -> float:
    """Return how much the loss counts rows of the positive class, where the other counts 1.

    1 unless the objective is the library's for two classes.
    """
    if not is_classification(objective) or is_multiclass(objective):
        return 1.0
    options = backend.loss_options(params)
    weight = float(options.get("scale_pos_weight", 1.0))
    if options.get("is_unbalance", False):
        n_positives = int(np.count_nonzero(data.labels() > 0))
        weight *= (data.n_rows - n_positives) / max(n_positives, 1)
    return weight


def tree_options(
    data: Dataset,
    objective: object,
    is_auto: bool,
    split_score: Score | None,
    beta: Beta,
    pooling: PoolingOption,
    task_splits: TaskSplits | None,
    symmetric_trees: bool | None,
    random_strength: float | None,
    linear_effects: bool | None,
) -> tuple[TreeOptions, set[str]]:
    """Return the options of the common model's trees, and names of those that the user has fixed.

    With ``strategy="auto"`` (`is_auto`) they are where the search begins.
    """
    searched = {
        "pooling": pooling,
        "task_splits": task_splits,
        "symmetric_trees": symmetric_trees,
        "random_strength": random_strength,
        "linear_effects": linear_effects,
    }
    if linear_effects is not None:
        check_switch("linear_effects", linear_effects)
    fixed = {name for name, value in searched.items() if value is not None}
    score = ("plain" if is_auto else "entropy") if split_score is None else split_score
    if symmetric_trees is None:  # the search tries them, with the user's noise
        is_plain = isinstance(score, str) and score == "plain"
        symmetric_trees = is_auto and random_strength is not None and is_plain
    price, n_descriptors = task_splits_of(task_splits, objective, data)
    strength = 0.0 if random_strength is None else random_strength
    options = TreeOptions(
        score, beta, pooling, price, n_descriptors, symmetric_trees, random_strength=strength
    )
    if data.tasks.n_tasks == 1:
        options = replace(options, task_splits=None, n_descriptors=None)
    return options, fixed


def specific_parameters(
    backend: Backend,
    specific_params: Mapping[str, Any] | None,
    params: Mapping[str, Any],
    data: Dataset,
) -> dict[str, Any]:
    """Return the library's parameters of the specific models that differ from `params`."""
    own = backend.parameters(
        {} if specific_params is None else specific_params,
        "specific_params",
        elsewhere={**backend.arguments, "num_class": "params"},
    )
    if own:
        both = {**params, **own}
        backend.check_values(both, data.common, "specific_params", is_ours=False)
    return own
