"""What most users call: :func:`fit`, both stages of zhang2019, and :func:`train`, stage one alone.

Stage one grows the common model in ``xgboost.train`` on the common columns of all tasks; tasks quit
when it stops helping them. Stage two continues it for each task with stock XGBoost, on the task's
own rows and all its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import xgboost

from mtboost.baselines import baseline_scores
from mtboost.data import FloatArray, Table, align, check_task_keys, is_mapping
from mtboost.dataset import Dataset, is_column
from mtboost.errors import DataError, ParameterError
from mtboost.losses import check_labels, is_classification, is_multiclass, make_loss
from mtboost.metrics import Metric, default_metric, get_metric
from mtboost.models import Columns, MultiTaskModel, TaskReport
from mtboost.scores import Beta, Score, make_split_score
from mtboost.stages import CommonModel, SpecificModel, TwoStages
from mtboost.tasks import TaskName, did_you_mean, listed
from mtboost.xgboost.callbacks import TaskSplit
from mtboost.xgboost.library import (
    ALIASES,
    default_n_threads,
    known_parameters,
    openmp_threads,
)
from mtboost.xgboost.matrices import quantile_matrix

# Parameters of XGBoost that are arguments of fit().
_ARGUMENTS = {
    "objective": "objective",
    "eval_metric": "eval_metric",
    "nthread": "n_threads",
    "n_jobs": "n_threads",
    "seed": "seed",
    "random_state": "seed",
}
TaskWeight = Mapping[TaskName, float] | Literal["balanced"] | None


def train(
    params: Mapping[str, Any],
    data: Dataset,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[Dataset, str]] = (),
    obj: Callable[..., Any] | None = None,
    custom_metric: Callable[..., Any] | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int = True,
    xgb_model: Any = None,
    callbacks: Sequence[xgboost.callback.TrainingCallback] = (),
) -> xgboost.Booster:
    """Train the common model: ``xgboost.train`` with :class:`~mtboost.xgboost.TaskSplit`.

    Parameters
    ----------
    params : mapping
        XGBoost's parameters, and ``split_score`` (default ``"entropy"``) and ``beta``.
    data : Dataset
        Rows to train on; the common columns are used.
    num_boost_round : int
        Rounds.
    evals : sequence of (Dataset, str)
        Data to evaluate after each round.
    obj, custom_metric, early_stopping_rounds, evals_result, verbose_eval, xgb_model, callbacks
        As in ``xgboost.train``.

    Returns
    -------
    xgboost.Booster

    Raises
    ------
    TypeError
        A parameter is unknown, or data or evals hold no Dataset.

    References
    ----------
    zhang2019, section 3.2.
    """
    _check_datasets(data, evals)
    params = dict(params)
    score: Score = params.pop("split_score", "entropy")
    beta: Beta = params.pop("beta", "auto")
    params = _checked(params)
    n_threads = params.get("nthread")

    def matrix_of(table: Table, part: Dataset, ref: xgboost.DMatrix | None) -> xgboost.DMatrix:
        return quantile_matrix(
            table,
            label=part.labels(),
            weight=part.weight,
            base_margin=part.base_margin,
            max_bin=params.get("max_bin"),
            n_threads=n_threads,
            ref=ref,
        )

    matrix = matrix_of(data.common, data, None)
    names, n_features = data.common.feature_names, data.common.n_features
    eval_matrices = [
        (matrix_of(align(part.common, names, n_features), part, matrix), name)
        for part, name in evals
    ]
    return xgboost.train(
        params,
        matrix,
        num_boost_round,
        evals=eval_matrices,
        obj=obj,
        custom_metric=custom_metric,
        early_stopping_rounds=early_stopping_rounds,
        evals_result=evals_result,
        verbose_eval=verbose_eval,
        xgb_model=xgb_model,
        callbacks=[
            TaskSplit(data.tasks, score=score, beta=beta, table=data.common.native),
            *callbacks,
        ],
    )


def fit(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    objective: str | Callable[..., Any] = "reg:squarederror",
    split_score: Score = "entropy",
    beta: Beta = "auto",
    params: Mapping[str, Any] | None = None,
    num_boost_round: int = 500,
    patience: int = 20,
    min_delta: float = 0.0,
    eval_metric: str | Metric | None = None,
    eval_set: Sequence[Any] | None = None,
    validation_fraction: float | Literal["auto"] = "auto",
    specific_params: Mapping[str, Any] | None = None,
    specific_rounds: int = 500,
    weight: Any = None,
    base_margin: Any = None,
    task_weight: TaskWeight = None,
    feature_names: Any = None,
    common_features: Sequence[str] | None = None,
    refit: bool = False,
    baselines: bool = False,
    callbacks: Sequence[xgboost.callback.TrainingCallback] = (),
    verbose: bool | int = False,
    n_threads: int | None = None,
    seed: int = 0,
) -> MultiTaskModel:
    """Fit a common model of all tasks and, on its residuals, a specific model of each.

    Parameters
    ----------
    X, y, task, weight, base_margin, feature_names, common_features
        See :class:`Dataset`.
    objective : str or callable, default="reg:squarederror"
        Name of an XGBoost objective, or a function ``(margins, DMatrix) -> gradient, hessian``.
    split_score : {"entropy", "variance", "plain"} or callable, default="entropy"
    beta : float or "auto"
        See :func:`mtboost.make_split_score`.
    params : mapping, optional
        XGBoost's parameters for both stages, such as ``max_depth`` and ``eta``.
    num_boost_round : int, default=500
        Most rounds of the common model.
    patience : int, default=20
        Rounds without improvement of its validation metric after which a task quits the common
        model, and a specific model ends.
    min_delta : float, default=0.0
        Smaller improvements do not count.
    eval_metric : str or Metric, optional
        By default the objective's; see :func:`mtboost.metrics.get_metric`.
    eval_set : (X, y[, task[, weight[, base_margin]]]), optional
        Validation rows; tasks without any never quit and get no specific model. They need a base
        margin if the training rows have one.
    validation_fraction : float in [0, 1) or "auto", default="auto"
        Without `eval_set`, the part of each task's rows (of each class, for a classifier) that is
        held out. ``"auto"`` is 0.2, or 0 for a single task. With 0 every task uses all rounds of
        the common model and none gets a specific one.
    specific_params : mapping, optional
        Parameters of the specific models that differ from `params`.
    specific_rounds : int, default=500
        Most rounds of a specific model; 0 for none.
    task_weight : mapping of task name to float, or "balanced", optional
        Multiplies the row weights of a task. ``"balanced"`` gives all tasks the same total.
    refit : bool, default=False
        Train both stages again on training and validation rows together, with the rounds found.
        Not with `eval_set`.
    baselines : bool, default=False
        Also train what one would do without mtboost (pooled, one model each, task as a category),
        to be compared in :meth:`MultiTaskModel.report`.
    callbacks : sequence of TrainingCallback
        Further callbacks for the common model's ``xgboost.train``.
    verbose : bool or int, default=False
        Print progress every so many rounds.
    n_threads : int, optional
        By default the cores this process may use, or one for a small table.
    seed : int, default=0
        Of the validation split and all sampling.

    Returns
    -------
    MultiTaskModel

    Raises
    ------
    DataError, ParameterError, TypeError
        Before any training, if something does not fit together.

    References
    ----------
    zhang2019, section 3.
    """
    data = Dataset(
        X,
        y,
        task=task,
        weight=weight,
        base_margin=base_margin,
        feature_names=feature_names,
        common_features=common_features,
    )
    settings = _parameters(params, objective, data, n_threads, seed)
    stages = TwoStages(
        params=settings,
        objective=objective if callable(objective) else None,
        metric=_metric(eval_metric, settings),
        score=split_score,
        beta=beta,
        rounds=_at_least(1, num_boost_round, "num_boost_round"),
        patience=_at_least(1, patience, "patience"),
        min_delta=min_delta,
        specific_params=_checked(
            specific_params or {}, "specific_params", {**_ARGUMENTS, "num_class": "params"}
        ),
        specific_rounds=_at_least(0, specific_rounds, "specific_rounds"),
        n_threads=settings["nthread"],
        verbose=verbose,
    )
    make_split_score(split_score, beta)
    _check_rows(data, objective, settings)
    data.weight = _task_weights(data, task_weight)
    valid: Dataset | None
    if eval_set is not None:
        if refit:
            raise ParameterError(
                "refit=True needs validation rows that fit() itself holds out: leave out eval_set, "
                "or append its rows to X."
            )
        train_rows, valid = data, _validation_data(data, eval_set, task, feature_names)
        _check_rows(valid, objective, settings, "eval_set: ")
    else:
        classes = is_classification(settings["objective"])
        train_rows, valid = _hold_out(data, validation_fraction, classes, seed)
    if train_rows.weight is not None and not train_rows.weight.any():
        raise DataError(
            "weight, times task_weight, is zero in every training row: at least one must count. "
            "Rows held out for validation (validation_fraction) are no training rows."
        )

    with openmp_threads(stages.n_threads):
        common = stages.fit_common(train_rows, valid, tuple(callbacks))
        specific = stages.fit_specific(train_rows, valid, common)
        scores = _scores(stages, valid, common, specific, data)
        if baselines and valid is not None:
            for name, values in baseline_scores(stages, train_rows, valid).items():
                for name_of_task, value in values.items():
                    scores[name_of_task][name] = value
        found = specific
        if refit and valid is not None:
            common = stages.refit_common(data, common)
            rounds = {name: model.n_rounds for name, model in specific.items()}
            specific = stages.fit_specific(data, None, common, rounds)
    return MultiTaskModel(
        common=common.booster,
        specific={name: model.booster for name, model in specific.items()},
        quit_round=common.quit_round,
        common_columns=Columns.of(data.common),
        task_columns={name: Columns.of(data.task_columns(name)) for name in data.tasks},
        objective=settings["objective"],
        metric=stages.metric.name,
        task_column=task if is_column(task) else None,
        reports=_reports(train_rows, valid, common, found, scores, settings["objective"]),
    )


def _parameters(
    params: Mapping[str, Any] | None,
    objective: str | Callable[..., Any],
    data: Dataset,
    n_threads: int | None,
    seed: int,
) -> dict[str, Any]:
    """XGBoost's parameters of both stages."""
    own = _checked(params or {}, "params", _ARGUMENTS)
    if not isinstance(n_threads, int | np.integer | None):
        raise ParameterError(f"n_threads must be None or an integer, found {n_threads!r}.")
    labels = data.labels()
    settings = {
        **own,
        "objective": "reg:squarederror" if callable(objective) else objective,
        "nthread": default_n_threads(n_threads, data.n_rows * data.common.n_features),
        "seed": _at_least(0, seed, "seed"),
    }
    if is_multiclass(objective) and "num_class" not in settings:
        settings["num_class"] = _count_classes(labels)
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


def _check_rows(
    data: Dataset,
    objective: str | Callable[..., Any],
    settings: Mapping[str, Any],
    where: str = "",
) -> None:
    """Demand labels that the objective is defined on, and one base margin per output."""
    n_outputs = int(settings.get("num_class", 1))
    if isinstance(objective, str):
        try:
            check_labels(make_loss(objective, n_outputs), data.labels())
        except DataError as error:
            raise DataError(f"{where}{error}") from None
    margins = data.base_margin
    n_found = 1 if margins is None or margins.ndim == 1 else margins.shape[1]
    if margins is not None and n_found != n_outputs:
        raise DataError(
            f"{where}base_margin has {n_found} columns, but {settings['objective']} has "
            f"{n_outputs} margins a row."
        )


def _check_datasets(data: object, evals: Sequence[object]) -> None:
    if not isinstance(data, Dataset):
        raise TypeError(
            f"data is a {type(data).__name__}: make it mtboost.Dataset(X, y, task=...)."
        )
    for number, pair in enumerate(evals):
        if not (
            isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], Dataset)
        ):
            raise TypeError(f"evals[{number}] must be a pair (mtboost.Dataset, name).")


def _checked(
    params: Mapping[str, Any], argument: str = "params", elsewhere: Mapping[str, str] = {}
) -> dict[str, Any]:
    """XGBoost's parameters without aliases: mappings that are merged must call one thing alike.

    Names that XGBoost does not know are refused; it would only warn. `elsewhere` has parameters
    that belong into another argument of :func:`fit`.
    """
    known = known_parameters()
    checked: dict[str, Any] = {}
    for name, value in params.items():
        if name not in known:
            raise TypeError(f"{argument} has an unknown name {name!r}.{did_you_mean(name, known)}")
        if name in elsewhere:
            raise ParameterError(f"Pass {elsewhere[name]}= to fit(), not {name!r} in {argument}.")
        if ALIASES.get(name, name) in checked:
            raise ParameterError(f"{argument} has {ALIASES.get(name, name)!r} under two names.")
        checked[ALIASES.get(name, name)] = value
    return checked


def _metric(eval_metric: str | Metric | None, params: Mapping[str, Any]) -> Metric:
    if eval_metric is not None:
        return get_metric(eval_metric)
    return default_metric(
        params["objective"],
        tweedie_variance_power=float(params.get("tweedie_variance_power", 1.5)),
        huber_slope=float(params.get("huber_slope", 1.0)),
    )


def _at_least(least: int, value: Any, name: str) -> int:
    is_number = isinstance(value, int | float | np.number)
    if not (is_number and value >= least and float(value).is_integer()):
        raise ParameterError(f"{name} must be an integer >= {least}, found {value!r}.")
    return int(value)


def _task_weights(data: Dataset, task_weight: TaskWeight) -> FloatArray | None:
    """Row weights times the weight of the row's task."""
    if task_weight is None:
        return data.weight
    own = np.ones(data.n_rows) if data.weight is None else np.asarray(data.weight, np.float64)
    if task_weight == "balanced":
        totals = np.bincount(data.tasks.codes, own, minlength=data.tasks.n_tasks)
        factors = own.sum() / (data.tasks.n_tasks * np.where(totals > 0, totals, 1.0))
    elif isinstance(task_weight, Mapping):
        check_task_keys("task_weight", task_weight, data.tasks.names)
        try:
            factors = np.array([float(task_weight[name]) for name in data.tasks])
        except (TypeError, ValueError):
            factors = np.array([np.nan])
        if not (np.isfinite(factors).all() and (factors >= 0).all()):
            raise ParameterError(
                f"task_weight must hold finite numbers >= 0, found {dict(task_weight)}."
            )
    else:
        raise ParameterError(f"task_weight must be a mapping or 'balanced', found {task_weight!r}.")
    weights: FloatArray = own * factors[data.tasks.codes]
    return weights


def _validation_data(
    data: Dataset, eval_set: Sequence[Any], task: Any, feature_names: Any
) -> Dataset:
    """Validation rows as the user gave them, columns as in training."""
    if not 2 <= len(eval_set) <= 5:
        raise DataError(
            f"eval_set has {len(eval_set)} parts: it must be (X, y), optionally followed by task, "
            "weight and base_margin."
        )
    X, y, own_task, weight, base_margin = [*eval_set, None, None, None][:5]
    if own_task is None and is_column(task):
        own_task = task
    if (base_margin is None) != (data.base_margin is None):
        raise DataError(
            "base_margin must be given for training and validation rows, or for neither: "
            "eval_set=(X, y, task, weight, base_margin)."
        )
    if own_task is None and not is_mapping(X) and data.tasks.n_tasks > 1:
        raise DataError("eval_set lacks the tasks of its rows: pass (X, y, task).")
    if is_mapping(X) and feature_names is not None:
        feature_names = {name: names for name, names in feature_names.items() if name in X}
    try:
        valid = Dataset(
            X,
            y,
            task=own_task,
            weight=weight,
            base_margin=base_margin,
            feature_names=feature_names,
            common_features=data.common.feature_names,
        )
        for name in valid.tasks:
            data.tasks.code(name)
        valid.common = align(valid.common, data.common.feature_names, data.common.n_features)
    except DataError as error:
        raise DataError(f"eval_set: {error}") from None
    return valid


def _hold_out(
    data: Dataset, fraction: float | Literal["auto"], classes: bool, seed: int
) -> tuple[Dataset, Dataset | None]:
    """Hold out the same part of each task, and of each class in it."""
    if fraction == "auto":
        fraction = 0.2 if data.tasks.n_tasks > 1 else 0.0
    if not (isinstance(fraction, (int, float)) and 0 <= fraction < 1):
        raise ParameterError(
            f"validation_fraction must be in [0, 1) or 'auto', found {fraction!r}."
        )
    groups = data.tasks.codes.astype(np.int64)
    if classes:
        labels = np.unique(data.labels(), return_inverse=True)[1]
        groups = groups * (int(labels.max()) + 1) + labels
    groups = np.unique(groups, return_inverse=True)[1]
    counts = np.bincount(groups)
    # Rank of each row within its group under a random order.
    order = np.lexsort((np.random.default_rng(seed).random(data.n_rows), groups))
    rank = np.empty(data.n_rows, np.int64)
    rank[order] = np.arange(data.n_rows) - np.repeat(np.cumsum(counts) - counts, counts)
    held_out = rank < np.round(fraction * counts)[groups]
    if not held_out.any():
        return data, None
    return data.take(np.flatnonzero(~held_out)), data.take(np.flatnonzero(held_out))


def _scores(
    stages: TwoStages,
    valid: Dataset | None,
    common: CommonModel,
    specific: Mapping[TaskName, SpecificModel],
    data: Dataset,
) -> dict[TaskName, dict[str, float]]:
    """Validation metric of each task after stage one and after stage two."""
    scores: dict[TaskName, dict[str, float]] = {name: {} for name in data.tasks}
    if valid is None:
        return scores
    for name in data.tasks:
        history = common.history.get(name)
        if history is None or not history.size:
            continue
        scores[name]["common"] = float(history[common.quit_round[name]])
        model = specific[name]
        scores[name]["final"] = (
            float(model.history[model.n_rounds]) if model.n_rounds else scores[name]["common"]
        )
    return scores


def _reports(
    data: Dataset,
    valid: Dataset | None,
    common: CommonModel,
    specific: Mapping[TaskName, SpecificModel],
    scores: Mapping[TaskName, dict[str, float]],
    objective: str,
) -> dict[TaskName, TaskReport]:
    labels = data.labels()
    is_binary = is_classification(objective) and not is_multiclass(objective)
    reports = {}
    for name in data.tasks:
        rows = data.tasks.rows(name)
        n_valid = len(valid.tasks.rows(name)) if valid is not None and name in valid.tasks else 0
        reports[name] = TaskReport(
            n_rows=len(rows),
            n_valid_rows=n_valid,
            n_positives=int((labels[rows] > 0).sum()) if is_binary else None,
            quit_round=common.quit_round[name],
            specific_rounds=specific[name].n_rounds,
            why_no_specific=specific[name].reason,
            scores=scores[name],
            common_history=common.history.get(name, np.empty(0)),
            specific_history=specific[name].history,
        )
    return reports
