"""What most users call: :func:`fit`, both stages of zhang2019, and :func:`train`, stage one alone.

Stage one grows the common model in ``xgboost.train`` on the common columns of all tasks; tasks quit
when it stops helping them. Stage two continues it for each task with stock XGBoost, on the task's
own rows and all its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import xgboost

from mtboost.arguments import (
    at_least,
    check_rows,
    common_parameters,
    feature_prior_of,
    metric_of,
)
from mtboost.backends import get_backend
from mtboost.baselines import baseline_scores
from mtboost.dataset import Dataset, is_column
from mtboost.errors import DataError, ParameterError
from mtboost.feature_weights import PriorOption
from mtboost.losses import is_classification
from mtboost.metrics import Metric
from mtboost.models import MultiTaskModel
from mtboost.reports import task_reports, validation_scores
from mtboost.scores import Beta, Score, make_split_score
from mtboost.stages import TwoStages
from mtboost.tables import Columns, Table
from mtboost.task_quitting import OnRound
from mtboost.task_weights import TaskWeight, weights_with_tasks
from mtboost.threads import default_n_threads, openmp_threads
from mtboost.validation import hold_out, validation_data
from mtboost.xgboost.callbacks import InOrder, TaskSplit
from mtboost.xgboost.library import with_start
from mtboost.xgboost.matrices import quantile_matrix


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
    params = get_backend("xgboost").parameters(params, others=("split_score", "beta"))
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
    columns = Columns.of(data.common)
    eval_matrices = [
        (matrix_of(columns.align(part.common), part, matrix), name) for part, name in evals
    ]
    split = TaskSplit(data.tasks, score=score, beta=beta, table=data.common.native)
    return xgboost.train(
        with_start(params, matrix),
        matrix,
        num_boost_round,
        evals=eval_matrices,
        obj=obj,
        custom_metric=custom_metric,
        early_stopping_rounds=early_stopping_rounds,
        evals_result=evals_result,
        verbose_eval=verbose_eval,
        xgb_model=xgb_model,
        callbacks=[InOrder([split, *callbacks])],
    )


def fit(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    objective: str | Callable[..., Any] | None = None,
    split_score: Score = "entropy",
    beta: Beta = "auto",
    backend: Literal["xgboost", "lightgbm"] = "xgboost",
    params: Mapping[str, Any] | None = None,
    num_boost_round: int = 500,
    patience: int | None = 20,
    min_delta: float = 0.0,
    eval_metric: str | Metric | None = None,
    eval_set: Sequence[Any] | None = None,
    validation_fraction: float | Literal["auto"] = "auto",
    specific_params: Mapping[str, Any] | None = None,
    specific_rounds: int = 500,
    feature_prior: PriorOption = None,
    weight: Any = None,
    base_margin: Any = None,
    task_weight: TaskWeight = None,
    feature_names: Any = None,
    common_features: Sequence[str] | None = None,
    refit: bool = False,
    baselines: bool = False,
    callbacks: Sequence[Any] = (),
    on_round: OnRound | None = None,
    verbose: bool | int = False,
    n_threads: int | None = None,
    seed: int = 0,
) -> MultiTaskModel:
    """Fit a common model of all tasks and, on its residuals, a specific model of each.

    Parameters
    ----------
    X, y, task, weight, base_margin, feature_names, common_features
        See :class:`Dataset`.
    objective : str or callable, optional
        The library's name of an objective (``"binary:logistic"`` of XGBoost is ``"binary"`` of
        LightGBM), or a function ``(margins, DMatrix or Dataset) -> gradient, hessian``. By default
        squared error.
    split_score : {"entropy", "variance", "plain"} or callable, default="entropy"
    beta : float or "auto"
        See :func:`mtboost.make_split_score`.
    backend : {"xgboost", "lightgbm"}, default="xgboost"
        The library whose bins, parameters and boosters are used.
    params : mapping, optional
        The library's parameters for both stages, such as ``max_depth`` and ``learning_rate``.
    num_boost_round : int, default=500
        Most rounds of the common model.
    patience : int or None, default=20
        Rounds without improvement of its validation metric after which a task quits the common
        model, and a specific model ends. None leaves nothing to single tasks: all use
        `num_boost_round` rounds of the common model and `specific_rounds` of their own, numbers to
        be tuned for all tasks together. Better where a task has few validation rows, whose best
        round is mostly chance.
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
    feature_prior : "auto", mapping of feature name to float, or array-like, optional
        Importances by which the specific models draw their features (eruhimov2007), such as those
        of :func:`feature_prior`; one number for each common column, if not by name. ``"auto"``
        takes what the splits of the common model gain. In 5% of the draws all features are equal; a
        column that the prior does not name has the share it would have without one. Each node looks
        at ⌊√M⌋ of the task's M features, or as many as ``colsample_bynode`` says. XGBoost only.
    task_weight : mapping of task name to float, or "balanced", optional
        Multiplies the row weights of a task. ``"balanced"`` gives all tasks the same total.
    refit : bool, default=False
        Train both stages again on training and validation rows together, with the rounds found.
        Not with `eval_set`.
    baselines : bool, default=False
        Also train what one would do without mtboost (pooled, one model each, task as a category),
        to be compared in :meth:`MultiTaskModel.report`.
    callbacks : sequence of callbacks
        Further callbacks for the common model's ``xgboost.train`` or ``lightgbm.train``.
    on_round : callable, optional
        Told of each round of the common model, if there are validation rows: the number of rounds
        so far, and a dict of task name to the validation metric after them. What it raises ends
        the training, as ``optuna.TrialPruned``.
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
    library = get_backend(backend)
    objective = library.squared_error if objective is None else objective
    settings = common_parameters(library, params, objective, data, n_threads, seed)
    own_params = library.parameters(
        specific_params or {},
        "specific_params",
        elsewhere={**library.arguments, "num_class": "params"},
    )
    threads = default_n_threads(n_threads, data.n_rows * data.common.n_features)
    stages = TwoStages(
        backend=library,
        params=settings,
        objective=objective if callable(objective) else None,
        metric=metric_of(library, eval_metric, settings),
        score=split_score,
        beta=beta,
        rounds=at_least(1, num_boost_round, "num_boost_round"),
        patience=None if patience is None else at_least(1, patience, "patience"),
        min_delta=min_delta,
        specific_params=own_params,
        specific_rounds=at_least(0, specific_rounds, "specific_rounds"),
        n_threads=threads,
        verbose=verbose,
        feature_prior=feature_prior_of(library, feature_prior, {**settings, **own_params}, data),
        on_round=on_round,
    )
    make_split_score(split_score, beta)
    check_rows(library, data, objective, settings)
    data.weight = weights_with_tasks(data.tasks, data.weight, task_weight)
    valid: Dataset | None
    if eval_set is not None:
        if refit:
            raise ParameterError(
                "refit=True needs validation rows that fit() itself holds out: leave out eval_set, "
                "or append its rows to X."
            )
        train_rows, valid = data, validation_data(data, eval_set, task, feature_names)
        check_rows(library, valid, objective, settings, "eval_set: ")
    else:
        classes = is_classification(settings["objective"])
        train_rows, valid = hold_out(data, validation_fraction, classes, seed)
    if train_rows.weight is not None and not train_rows.weight.any():
        raise DataError(
            "weight, times task_weight, is zero in every training row: at least one must count. "
            "Rows held out for validation (validation_fraction) are no training rows."
        )

    with openmp_threads(stages.n_threads):
        common = stages.fit_common(train_rows, valid, tuple(callbacks))
        specific = stages.fit_specific(train_rows, valid, common)
        scores = validation_scores(data, valid, common, specific)
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
        reports=task_reports(train_rows, valid, common, found, scores, settings["objective"]),
        backend=backend,
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
