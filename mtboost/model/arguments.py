# SPDX-License-Identifier: Apache-2.0
"""Arguments of :func:`mtboost.fit` and its kin, checked and completed before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import FloatArray
from mtboost.base.checks import (
    check_choice,
    check_count,
    check_number,
    check_seed,
    check_switch,
    check_verbose,
    is_number,
    listed,
    refuse,
)
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError, ParameterError, ParameterTypeError
from mtboost.metrics.built_in import check_outputs
from mtboost.metrics.metric import (
    Metric,
    is_of_bounds,
    is_of_hazards,
    is_of_queries,
    is_of_survival,
)
from mtboost.metrics.scorers import metric_or_scorer
from mtboost.model.stages.mixed_objective import metrics_by_task
from mtboost.model.stages.objectives import ObjectiveByTask, Objectives, OneObjective
from mtboost.model.stages.settings import Settings
from mtboost.trees.backend import Backend
from mtboost.trees.feature_weights import PriorOption, read_importances
from mtboost.trees.losses import (
    as_zero_one,
    has_bounds,
    has_hazards,
    is_classification,
    is_multiclass,
    is_ranking,
    is_survival,
)
from mtboost.trees.pooled_leaves import PoolingOption
from mtboost.trees.split_scores import Beta, Score
from mtboost.trees.task_descriptors import MOST_DESCRIPTORS
from mtboost.trees.task_quitting import OnRound, check_early_stopping_rounds, check_min_delta
from mtboost.trees.tree_options import TreeOptions

Strategy: TypeAlias = Literal["auto", "two-stage"]
#: A metric or a scorer of scikit-learn, or names of them; several, or those of tasks.
OneMetric: TypeAlias = "str | Metric | Callable[..., Any]"
EvalMetric: TypeAlias = "OneMetric | Sequence[OneMetric] | Mapping[Any, OneMetric] | None"
TaskSplits: TypeAlias = "bool | float | Literal['descriptors']"

# Where the user says nothing: of both stages, and of strategy="auto" with few rows: small steps pay
# where few rows and much noise make every step uncertain.
LEARNING_RATE = 0.1
AUTO_LEARNING_RATE = 0.02
_MANY_ROWS = 100_000
_AUTO_ROUNDS = 2000
_ROUNDS = 500


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


def check_auto(early_stopping_rounds: object, min_delta: object) -> None:
    """Refuse arguments that ``strategy="auto"`` has no use for."""
    if early_stopping_rounds is None:
        raise ParameterError(
            "strategy='auto' finds numbers of rounds on the validation rows, and "
            "early_stopping_rounds=None fixes them: pass a number, or strategy='two-stage'."
        )
    if min_delta:
        raise ParameterError(
            f"min_delta is {min_delta!r}, but strategy='auto' takes the rounds with the least mean "
            "loss of many tasks, however small the difference: leave it out."
        )


def check_switches(refit: object, baselines: object) -> None:
    """Raise unless these arguments of :func:`fit` are True or False, or `refit` is None."""
    check_switch("baselines", baselines)
    if refit is not None:
        check_switch("refit", refit)


def is_zero(value: object) -> bool:
    """Whether a value is the number 0."""
    return is_number(value) and float(value) == 0.0


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
    fits = is_ranking(objective) == is_of_queries(metric)
    fits &= is_survival(objective) == is_of_survival(metric)
    fits &= not (is_of_hazards(metric) and has_bounds(objective))
    fits &= not (is_of_bounds(metric) and has_hazards(objective))
    if metric.name == "aft-nloglik" and fits:
        return backend.default_metric(params)
    if not fits and type(metric) is not Metric:
        allowed = "a metric of rows"
        if is_ranking(objective):
            allowed = "'ndcg', 'ndcg@k'"
        elif is_survival(objective):
            own = "cox-nloglik" if has_hazards(objective) else "aft-nloglik"
            allowed = f"{own!r}, 'concordance'"
        raise ParameterError(
            f"eval_metric {metric.name!r} does not fit objective={objective!r}: choose {allowed}, "
            "or pass a Metric."
        )
    return metric


def other_metrics(
    backend: Backend,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    eval_metric: EvalMetric,
    params: Mapping[str, Any],
) -> tuple[Metric, ...]:
    """Return all of several metrics but the last one, by which nothing is decided."""
    if isinstance(objective, Mapping) or not isinstance(eval_metric, list | tuple):
        return ()
    return tuple(metric_of(backend, objective, own, params) for own in eval_metric[:-1])


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
    library_only: str | None = None,
) -> tuple[TreeOptions, set[str]]:
    """Return the options of the common model's trees, and names of those that the user has fixed.

    With ``strategy="auto"`` (`is_auto`) they are where the search begins. With a parameter that
    only the library's own trees follow (`library_only`), the options of mtboost's are fixed too.
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
    is_plain_score = is_auto or library_only is not None
    score = ("plain" if is_plain_score else "entropy") if split_score is None else split_score
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
    if library_only is not None:
        options.check_library_grown(library_only)
        fixed |= {"task_splits", "symmetric_trees", "random_strength"}
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
        if backend.levels(both) != backend.levels(params):
            name = backend.quantile_level[0]
            raise ParameterError(
                f"specific_params has {name}={own[name]!r}, but specific models continue the "
                f"common one, of {name}={params.get(name)!r}: leave it out."
            )
        backend.check_values(both, data.common, "specific_params", is_ours=False)
    return own


def make_settings(
    data: Dataset,
    library: Backend,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    *,
    is_auto: bool,
    split_score: Score | None,
    beta: Beta,
    pooling: PoolingOption,
    task_splits: TaskSplits | None,
    symmetric_trees: bool | None,
    random_strength: float | None,
    linear_effects: bool | None,
    params: Mapping[str, Any] | None,
    num_boost_round: int | None,
    early_stopping_rounds: int | None,
    min_delta: float,
    eval_metric: EvalMetric,
    specific_params: Mapping[str, Any] | None,
    specific_rounds: int,
    feature_prior: PriorOption,
    on_round: OnRound | None,
    verbose: bool | int,
    n_threads: int | None,
    seed: int,
    n_rows: int | None = None,
) -> Settings:
    """Check and complete the arguments of :func:`fit` that do not belong to single rows.

    Of `data` are read the columns, the tasks, the set of labels and, unless it is given, the number
    of rows.
    """
    parameters = common_parameters(library, params, objective, data, n_threads, seed)
    are_few = is_auto and (data.n_rows if n_rows is None else n_rows) <= _MANY_ROWS
    parameters = {"learning_rate": AUTO_LEARNING_RATE if are_few else LEARNING_RATE, **parameters}
    if not is_auto:
        is_free = library.with_size(parameters, 1) is not None
        parameters |= library.default_size if is_free else {}
    own = specific_parameters(library, specific_params, parameters, data)
    options, fixed = tree_options(
        data,
        objective,
        is_auto,
        split_score,
        beta,
        pooling,
        task_splits,
        symmetric_trees,
        random_strength,
        linear_effects,
        library.library_only(parameters),
    )
    if num_boost_round is None:
        num_boost_round = _AUTO_ROUNDS if is_auto else _ROUNDS
    return Settings(
        backend=library,
        params=parameters,
        objectives=make_objectives(library, objective, eval_metric, data.tasks, parameters),
        options=options,
        rounds=check_count("num_boost_round", num_boost_round, low=1),
        early_stopping_rounds=check_early_stopping_rounds(early_stopping_rounds),
        min_delta=check_min_delta(min_delta),
        specific_params=own,
        specific_rounds=check_count("specific_rounds", specific_rounds),
        n_threads=default_n_threads(n_threads, data.n_rows * data.common.n_features),
        verbose=check_verbose(verbose),
        feature_prior=feature_prior_of(library, feature_prior, {**parameters, **own}, data),
        on_round=on_round,
        linear_effects=bool(linear_effects),
        given=fixed | library.parameters(params or {}).keys(),
        other_metrics=other_metrics(library, objective, eval_metric, parameters),
    )
