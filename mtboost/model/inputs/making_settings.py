# SPDX-License-Identifier: Apache-2.0
"""Settings of both stages, made of the arguments of :func:`mtboost.fit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mtboost.base.arrays import FloatArray
from mtboost.base.checks import (
    check_count,
    check_number,
    check_seed,
    check_switch,
    check_verbose,
    listed,
)
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.metrics.built_in import check_outputs
from mtboost.metrics.metric import Metric
from mtboost.metrics.scorers import metric_or_scorer
from mtboost.model.inputs.arguments import Arguments, EvalMetric
from mtboost.model.inputs.checked_rows import check_kind_of_rows
from mtboost.model.inputs.named_objectives import check_fits, names_of_objectives
from mtboost.model.inputs.problem import Problem
from mtboost.model.stages.mixed_objective import metrics_by_task
from mtboost.model.stages.objectives import ObjectiveByTask, Objectives, OneObjective
from mtboost.model.stages.settings import LinearOption, Settings
from mtboost.trees.backend import Backend
from mtboost.trees.feature_weights import PriorOption, read_importances
from mtboost.trees.library_parameters import read_number
from mtboost.trees.losses import (
    is_classification,
    is_multiclass,
    is_of_two_classes,
)
from mtboost.trees.task_descriptors import MOST_DESCRIPTORS
from mtboost.trees.task_quitting import check_early_stopping_rounds, check_min_delta
from mtboost.trees.tree_options import TreeOptions

# Where the user says nothing: of both stages, and of strategy="auto" with few rows: small steps pay
# where few rows and much noise make every step uncertain.
LEARNING_RATE = 0.1
AUTO_LEARNING_RATE = 0.02
_MANY_ROWS = 100_000
_AUTO_ROUNDS = 5000
_ROUNDS = 500


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

    See :meth:`Backend.check_values` for `is_ours`.
    """
    objectives = names_of_objectives(objective)
    check_kind_of_rows(objective, data)
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


def _count_classes(labels: FloatArray) -> int:
    classes = np.unique(labels)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise DataError(
            f"y must hold the classes 0, 1, ... without a gap, found "
            f"{listed(classes.tolist(), 'label')}: recode them, or pass their number in "
            "params={'num_class': ...}."
        )
    return max(2, len(classes))


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
    if is_wanted and data.common.categorical_features:
        raise ParameterError(
            "task_splits needs columns of numbers, not categories as in "
            f"{listed(list(data.common.categorical_features), 'column')}: "
            "leave out task_splits, or encode them."
        )
    return price, n_descriptors


def metric_of(
    backend: Backend,
    objective: str | Callable[..., Any],
    eval_metric: EvalMetric,
    params: Mapping[str, Any],
) -> Metric:
    """Return the metric of tasks with one objective; of several metrics the last one."""
    if isinstance(eval_metric, list | tuple):
        if not eval_metric:
            raise ParameterError("eval_metric is empty: leave it out, or name a metric.")
        eval_metric = eval_metric[-1]
    if isinstance(eval_metric, Mapping):
        raise ParameterError(
            "eval_metric is a mapping, but objective is one for all tasks: give one metric, or "
            "objective={task: ...} as well."
        )
    if eval_metric is None:
        return backend.default_metric(params)
    has_classes = is_multiclass(objective) or int(params.get("num_class", 1)) > 1
    levels = () if callable(objective) else backend.levels(params)
    metric = check_outputs(
        metric_or_scorer(eval_metric, are_classes=is_classification(objective)),
        has_classes=has_classes,
        levels=levels,
    )
    check_fits(metric, objective, "eval_metric")
    if metric.name in ("aft-nloglik", "mphe") and isinstance(objective, str):
        own = backend.default_metric(params)  # as in XGBoost, with the parameters of the loss
        return own if own.name.partition("@")[0] == metric.name else metric
    return metric


def other_metrics(
    backend: Backend,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    eval_metric: EvalMetric,
    params: Mapping[str, Any],
) -> tuple[Metric, ...]:
    """Return all of several metrics but the last one, by which nothing is decided."""
    if not isinstance(eval_metric, list | tuple):
        return ()
    if isinstance(objective, Mapping):
        objective = _objective_of_all(objective)
    return tuple(metric_of(backend, objective, own, params) for own in eval_metric[:-1])


def _objective_of_all(objective: Mapping[TaskName, str]) -> str:
    """Return the objective that each task has; ParameterError if they differ."""
    first, *others = set(objective.values())
    if others:
        raise ParameterError(
            "eval_metric has several metrics, and the tasks have different objectives: give one "
            "metric, or a mapping with one for each task."
        )
    return first


def make_objectives(
    backend: Backend,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    eval_metric: EvalMetric,
    tasks: TaskSet,
    params: Mapping[str, Any],
) -> Objectives:
    """Return what the tasks are trained for and validated by.

    Raises
    ------
    ParameterError
        There are several metrics for different objectives, or a metric does not go with the
        objective.
    """
    if isinstance(objective, Mapping):
        if isinstance(eval_metric, list | tuple):
            metric = metric_of(backend, _objective_of_all(objective), eval_metric, params)
            return ObjectiveByTask(backend, objective, dict.fromkeys(tasks, metric))
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
    if not is_of_two_classes(objective):
        return 1.0
    options = backend.loss_options(params)
    weight = float(options.get("scale_pos_weight", 1.0))
    if options.get("is_unbalance", False):
        n_positives = int(np.count_nonzero(data.labels() > 0))
        weight *= (data.n_rows - n_positives) / max(n_positives, 1)
    return weight


def tree_options(
    problem: Problem, arguments: Arguments, library_only: str | None = None
) -> tuple[TreeOptions, set[str]]:
    """Return the options of the common model's trees, and names of those that the user has fixed.

    With ``strategy="auto"`` they are where the search begins. With a parameter that only the
    library's own trees follow (`library_only`), the options of mtboost's are fixed too.
    """
    searched = ("pooling", "task_splits", "symmetric_trees", "random_strength", "linear_effects")
    fixed = {name for name in searched if getattr(arguments, name) is not None}
    if not arguments.shrink_to_constant:
        fixed.add("shrink_to_constant")
    score, strength = arguments.split_score, arguments.random_strength
    symmetric = arguments.symmetric_trees
    price, n_descriptors = task_splits_of(arguments.task_splits, problem.objective, problem.data)
    if score is None:
        splits_tasks = price is not None or n_descriptors is not None
        needs_plain = library_only is not None or symmetric or splits_tasks
        score = "plain" if arguments.is_auto or needs_plain else "entropy"
    if symmetric is None:  # the search tries them, with the user's noise
        is_plain = isinstance(score, str) and score == "plain"
        symmetric = arguments.is_auto and strength is not None and is_plain
    options = TreeOptions(
        score,
        arguments.beta,
        arguments.pooling,
        price,
        n_descriptors,
        symmetric,
        random_strength=0.0 if strength is None else strength,
        unseen_at_random=_draws_unseen(problem.library, arguments, library_only),
    )
    if problem.data.tasks.n_tasks == 1:
        options = replace(options, task_splits=None, n_descriptors=None)
    if library_only is not None:
        options.check_library_grown(library_only)
        fixed |= {"task_splits", "symmetric_trees", "random_strength"}
    return options, fixed


def _draws_unseen(library: Backend, arguments: Arguments, library_only: str | None) -> bool:
    if arguments.unseen_at_random is None:
        return arguments.is_auto and library_only is None and library.has_unseen_at_random
    is_wanted = check_switch("unseen_at_random", arguments.unseen_at_random)
    if is_wanted and not library.has_unseen_at_random:
        raise UnsupportedError(
            f"unseen_at_random=True is for trees of XGBoost, found backend={library.name!r}: its "
            "own rules say where missing values and unknown categories go. Leave it out, or use "
            "backend='xgboost'."
        )
    return is_wanted


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
        if backend.levels(both) != backend.levels(params):
            name = backend.quantile_level[0]
            raise ParameterError(
                f"specific_params has {name}={own[name]!r}, but specific models continue the "
                f"common one, of {name}={params.get(name)!r}: leave it out."
            )
        backend.check_values(both, data.common, "specific_params", is_ours=False)
    return own


def _linear_effects(value: LinearOption | None) -> LinearOption:
    if isinstance(value, str) and value == "intercepts":
        return "intercepts"
    return value is not None and check_switch("linear_effects", value, besides="'intercepts'")


def make_settings(problem: Problem, arguments: Arguments, *, n_rows: int | None = None) -> Settings:
    """Check and complete the arguments of :func:`fit` that do not belong to single rows.

    Of the rows are read the columns, the tasks, the set of labels and, unless it is given, their
    number.
    """
    data, library, objective = problem.data, problem.library, problem.objective
    library.check_callbacks(arguments.callbacks)
    parameters = _parameters_of_both(problem, arguments, data.n_rows if n_rows is None else n_rows)
    own = specific_parameters(library, arguments.specific_params, parameters, data)
    options, fixed = tree_options(problem, arguments, library.library_only(parameters))
    rounds = arguments.num_boost_round
    if rounds is None:
        rounds = _AUTO_ROUNDS if arguments.is_auto else _ROUNDS
    prior = arguments.feature_prior
    return Settings(
        backend=library,
        params=parameters,
        objectives=make_objectives(library, objective, problem.eval_metric, data.tasks, parameters),
        options=options,
        rounds=check_count("num_boost_round", rounds, low=1),
        early_stopping_rounds=check_early_stopping_rounds(arguments.early_stopping_rounds),
        min_delta=check_min_delta(arguments.min_delta),
        specific_params=own,
        specific_rounds=check_count("specific_rounds", arguments.specific_rounds),
        n_threads=default_n_threads(arguments.n_threads, data.n_rows * data.common.n_features),
        verbose=_verbose(arguments.verbose),
        feature_prior=feature_prior_of(library, prior, {**parameters, **own}, data),
        on_round=arguments.on_round,
        linear_effects=_linear_effects(arguments.linear_effects),
        given=fixed | library.parameters(arguments.params or {}).keys(),
        other_metrics=other_metrics(library, objective, problem.eval_metric, parameters),
    )


def _parameters_of_both(problem: Problem, arguments: Arguments, n_rows: int) -> dict[str, Any]:
    """Return the library's parameters of both stages, with defaults of their size and steps."""
    library = problem.library
    parameters = common_parameters(
        library,
        arguments.params,
        problem.objective,
        problem.data,
        arguments.n_threads,
        arguments.seed,
    )
    are_few = arguments.is_auto and n_rows <= _MANY_ROWS
    default = AUTO_LEARNING_RATE if are_few else LEARNING_RATE
    parameters = {"learning_rate": default, **parameters}
    if arguments.is_auto:
        rate = read_number(parameters, "learning_rate", default)
        if rate <= 0.0:
            raise ParameterError(
                f"params: learning_rate is {rate:g}, but strategy='auto' finds numbers of rounds "
                "in larger steps: give a number above 0."
            )
        parameters = {**library.search_parameters, **parameters, "learning_rate": rate}
    if not arguments.is_auto and library.with_size(parameters, 1) is not None:
        parameters |= library.default_size
    return parameters


def _verbose(given: object) -> bool | int:
    """Return True or False, or every how many rounds metrics are printed besides."""
    n_rounds = check_verbose(given)
    return bool(given) if isinstance(given, bool | np.bool_) else n_rounds
