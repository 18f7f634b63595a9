# SPDX-License-Identifier: Apache-2.0
""":func:`fit`: both stages of zhang2019.

Stage one grows the common model in ``xgboost.train`` on the common columns of all tasks; tasks quit
when it stops helping them. Stage two continues it for each task with stock XGBoost, on the task's
own rows and all its columns.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal

from mtboost.base.atomic_file import PathName
from mtboost.base.dataset import Dataset
from mtboost.base.progress import Progress
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.task_tables import CommonFeatures
from mtboost.base.task_weights import TaskWeight
from mtboost.base.threads import openmp_threads, threads_of_library
from mtboost.base.validation import Folds
from mtboost.errors import DataError, ParameterError
from mtboost.model.averaging import fit_ensemble
from mtboost.model.continuing import continued
from mtboost.model.fitted import Fitted, add_held_out, fitted_by_plan, model_of
from mtboost.model.inputs.arguments import Arguments, EvalMetric, Strategy, TaskSplits, Validation
from mtboost.model.inputs.checked_rows import Units, check_metrics, check_rows, check_scales
from mtboost.model.inputs.holding_out import (
    check_later_rows,
    check_training_rows,
    split_rows,
    with_positives,
)
from mtboost.model.inputs.keywords import where_it_belongs
from mtboost.model.inputs.making_settings import make_settings
from mtboost.model.inputs.named_objectives import check_n_classes
from mtboost.model.inputs.own_units import warn_of_units, with_own_units
from mtboost.model.inputs.problem import Problem, read_problem
from mtboost.model.model import MultiTaskModel
from mtboost.model.parts.calibration import check_can_calibrate
from mtboost.model.parts.task_report import validation_scores
from mtboost.model.prediction.evaluation import validation_errors
from mtboost.model.prediction.intervals import check_is_of_numbers
from mtboost.model.sharing.effort import Effort, EffortOption
from mtboost.model.sharing.plan import SharingPlan, fit_plan
from mtboost.model.sharing.planning import plan_sharing
from mtboost.model.stages.common import fit_common
from mtboost.model.stages.linear_effects import why_no_linear_effects
from mtboost.model.stages.objectives import Objectives
from mtboost.model.stages.settings import Settings
from mtboost.model.stages.specific import fit_specific
from mtboost.trees.feature_weights import PriorOption
from mtboost.trees.pooling import PoolingOption
from mtboost.trees.split_scores import Beta, Score
from mtboost.trees.task_quitting import OnRound


@renamed(where_it_belongs, patience="early_stopping_rounds")
@reading_rows
def fit(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    objective: str | Mapping[Any, str] | Callable[..., Any] | None = None,
    strategy: Strategy | None = None,
    effort: EffortOption = "balanced",
    split_score: Score | None = None,
    beta: Beta = "auto",
    pooling: PoolingOption = None,
    task_splits: TaskSplits | None = None,
    symmetric_trees: bool | None = None,
    random_strength: float | None = None,
    unseen_at_random: bool | None = None,
    linear_effects: bool | Literal["intercepts"] | None = None,
    shrink_to_constant: bool = True,
    backend: Literal["xgboost", "lightgbm"] = "xgboost",
    params: Mapping[str, Any] | None = None,
    num_boost_round: int | None = None,
    early_stopping_rounds: int | None = 20,
    min_delta: float = 0.0,
    eval_metric: EvalMetric = None,
    eval_set: Sequence[Any] | None = None,
    validation_fraction: float | Literal["auto"] = "auto",
    validation: Validation = "random",
    time: Any = None,
    specific_params: Mapping[str, Any] | None = None,
    specific_rounds: int = 500,
    feature_prior: PriorOption = None,
    weight: Any = None,
    base_margin: Any = None,
    qid: Any = None,
    task_weight: TaskWeight = None,
    feature_names: Any = None,
    common_features: CommonFeatures = None,
    refit: bool | None = None,
    baselines: bool = False,
    intervals: bool = False,
    calibrate: bool = False,
    callbacks: Sequence[Any] = (),
    on_round: OnRound | None = None,
    verbose: bool | int = False,
    n_threads: int | None = None,
    seed: int = 0,
    init_model: MultiTaskModel | PathName | None = None,
    n_ensemble: int = 1,
) -> MultiTaskModel:
    """Fit a model per task: a common model of all tasks, continued or replaced where a task gains.

    Parameters
    ----------
    X : table of shape (n_rows, n_features), or mapping of task name to table
        NumPy array, SciPy CSR or CSC, pandas or polars DataFrame, pyarrow Table; NaN is missing,
        and columns of text are categories. Tables of a mapping may have different columns; see
        `common_features`.
    y : array-like of shape (n_rows,) or (n_rows, n_labels), or mapping of task name to array-like
        Labels: numbers, or texts that name classes. ``classes`` of the model lists them in the
        order of the columns of ``predict_proba``. Each of several labels a row is a task, named by
        the column of a DataFrame or the position in an array; with `task` the tasks are tuples
        (label, task). Rows whose label is NaN are left out for that label (docs/several_labels.md).
    task : array-like of shape (n_rows,), or str or int, or list of str, optional
        Task of each row, or the name (or position) of the column of `X` that contains it; that
        column is not used as a feature. ``predict`` reads it from the same column. Nested tasks
        have one column per level, outermost first, as in ``["region", "store"]``, or one tuple per
        row; their names are tuples. None means a single task. Must be None for a mapping.
    objective : str, mapping of task name to str, or callable, optional
        The library's name of an objective (``"binary:logistic"`` of XGBoost is ``"binary"`` of
        LightGBM), or a function ``(margins, DMatrix or Dataset) -> gradient, hessian``. By default
        logistic loss where labels are two texts, or all 0 or 1 (False or True) and both occur;
        softmax for more texts; else squared error, of each task in its own unit where the labels of
        some vary much less than those of others (docs/mixed_tasks.md). It is found from the labels
        of all tasks together: if one label of a row, or one table, has 0 and 1 and others have
        numbers, all have squared error, with a warning. ``objective`` of the model and of its
        report names it. Integers of more values are numbers, such as counts, marks or
        years: as class numbers 0, 1, 2, ... they need ``"multi:softprob"`` (LightGBM:
        ``"multiclass"``), or ``MultiTaskClassifier``. A mapping names one for each task: squared
        error, logistic, Poisson, gamma and Tweedie losses can be mixed (docs/mixed_tasks.md). With
        several labels a row it may name one for each label, as may `eval_metric` and `task_weight`.
    strategy : {"auto", "two-stage"}, optional
        ``"auto"``, the default, chooses on validation rows how much the tasks share
        (docs/strategies.md): whether the leaf values of the common model are pooled or partially
        pooled, and whether a task uses the common model alone, a specific model on top of it, its
        average with an independent model, or an independent model alone. The choice is then trained
        on all rows of `X`; :meth:`MultiTaskModel.report` shows it with the scores of the
        alternatives. Arguments that are given are kept, and the others are searched: tree size and
        fraction of the rows per tree unless `params` sets them. The default learning rate is .02
        (.1 with more than 100,000 rows), the default `split_score` ``"plain"``. The number of
        common rounds is the same for all tasks, and `early_stopping_rounds` refers to a learning
        rate of .1. If tables have different columns, the common model uses all of them.
        ``"two-stage"`` is zhang2019 with the arguments below; it is the default where ``"auto"`` is
        impossible: with `early_stopping_rounds` None, a `min_delta`, or `validation_fraction` 0.
    effort : {"fast", "balanced", "thorough"} or float, default="balanced"
        How many settings ``strategy="auto"`` compares, on how many rows and at which learning rate
        (docs/strategies.md). A number is a time limit in seconds for the balanced search and the
        final models: common models that are predicted to exceed it are skipped, and are NaN in
        ``common_losses``. At least one common model is trained, and all ways to share it are
        compared. Ignored by the two-stage strategy, which compares none.
    split_score : {"entropy", "variance", "plain"} or callable, optional
        By default ``"entropy"``, or ``"plain"`` with ``strategy="auto"``, task splits or symmetric
        trees.
    beta : float or "auto"
        See :func:`mtboost.make_split_score`.
    pooling : float, sequence of float or "auto", optional
        κ of partially pooled leaves, in units of the hessian (for squared error: rows). In each
        leaf of the common model, the value of task t is its unpooled value, shrunk towards the
        pooled one by the factor H_t/(H_t + κ), where H_t is the hessian of its rows in the leaf.
        With 0 the tasks share only the structure of the trees, with infinity also the leaf values;
        ``"auto"`` estimates κ from the first tree (docs/pooling.md). For nested tasks a sequence
        has one κ per level: values are shrunk towards those of their group, and these towards the
        pooled one. Default: infinity; searched by ``strategy="auto"``.
    task_splits : bool, float or "descriptors", optional
        Whether nodes of the common model may separate the tasks into two groups. A number is the
        penalty c of such a split, in units of its expected gain under pure noise; True means 1.
        With ``"descriptors"`` tasks are separated by numbers that describe them: row counts, means,
        and correlations of labels with features (docs/split_scores.md). Needs
        ``split_score="plain"`` and numeric features. Default: False; searched by
        ``strategy="auto"``.
    symmetric_trees : bool, optional
        Whether trees are oblivious, with one split for all nodes of a level, in both stages: often
        better on few and noisy rows (docs/symmetric_trees.md). Needs ``split_score="plain"``.
        Default: False; searched by ``strategy="auto"``.
    random_strength : float, optional
        Noise that is added to the gains of the splits of symmetric trees, so that nearly equal ones
        are chosen at random; often better at 1 or 2 (docs/symmetric_trees.md). Default: 0; searched
        by ``strategy="auto"``.
    unseen_at_random : bool, optional
        Whether missing values and categories that no training row of a node has go to one of its
        children at random, to each with the probability that is its fraction of the hessians: over
        many trees their predictions are near the mean. XGBoost sends such missing values to the
        right and such categories to the left at each node, which may add up to extreme predictions.
        Needs ``backend="xgboost"``. Default: True with ``strategy="auto"`` where mtboost grows the
        trees, otherwise False (docs/usage.md).
    linear_effects : bool or "intercepts", optional
        Whether the common model begins with linear effects per task, like the random slopes of a
        mixed model, stored as trees of one feature each; boosted trees follow
        (docs/linear_effects.md). ``"intercepts"``: with random intercepts alone. Default: False;
        searched by ``strategy="auto"``, which also estimates the levels of tasks again after
        the trees, unless it is False.
    shrink_to_constant : bool, default=True
        Whether ``strategy="auto"`` shrinks its predictions towards a constant where the validation
        rows hardly prove that they are better (docs/strategies.md).
    backend : {"xgboost", "lightgbm"}, default="xgboost"
        The library whose bins, parameters and boosters are used.
    params : mapping, optional
        The library's parameters for both stages, such as ``learning_rate`` and
        ``max_depth``. Two stages have the defaults .1 and 4 (LightGBM: ``num_leaves`` 16). With
        ``scale_pos_weight``, ``strategy="auto"`` weights validation rows by it, too.
    num_boost_round : int, optional
        Maximum number of rounds of the common model, by default 500, or 5000 with
        ``strategy="auto"``.
    early_stopping_rounds : int or None, default=20
        Rounds without improvement of its validation metric after which a task quits the common
        model, and a specific model ends. With None all tasks use `num_boost_round` common rounds
        and `specific_rounds` specific rounds, which you tune for all tasks together: better if
        tasks have few validation rows, on which the best round is mostly noise. ``strategy="auto"``
        does not accept None.
    min_delta : float, default=0.0
        Minimum improvement of the metric that counts. Not with ``strategy="auto"``.
    eval_metric : str, Metric or scorer, or sequence or mapping of them, optional
        By default the objective's. Names are those of :func:`mtboost.metrics.get_metric` and of
        scikit-learn's scorers, which may also be passed themselves. Of a sequence the last one
        ends training, as in XGBoost; :meth:`MultiTaskModel.report` has the others, too. A mapping
        of task name to metric, which may leave tasks out, needs an objective for each task.
        ``strategy="auto"`` chooses by the metric if it is a built-in mean over rows; otherwise, as
        for ``"auc"``, by the objective's default metric, and this one is reported. With an
        objective per task their losses are scaled, to be added up (docs/mixed_tasks.md).
    eval_set : (X, y[, task[, weight[, base_margin[, qid]]]]), optional
        Validation rows; tasks without any never quit and get no specific model. They need a base
        margin if the training rows have one. Rows of tasks without training rows decide nothing;
        a warning names them.
    validation_fraction : float in [0, 1) or "auto", default="auto"
        Without `eval_set`, the fraction of each task's rows that is held out. Numbers of rows are
        rounded up or down at random, so that the fraction also holds over many small tasks.
        ``"auto"`` is 0.2, or 0 for a single task; ``strategy="auto"`` with fewer than 10,000 rows
        (2000 with ``effort="fast"``) holds out several fifths, one after the other, until 2000
        rows have been held out, or all
        (docs/strategies.md). With 0 every task uses all rounds of the common model and none gets a
        specific model, unless `early_stopping_rounds` is None.
    validation : {"random", "stratified", "last", "tasks"} or splitter, default="random"
        Which rows are held out without `eval_set`: random ones of each task, or with ``"last"``
        those of each task with the latest `time`, so that the model is chosen by how well it
        predicts later rows. ``"stratified"`` draws the same fraction of each class in each task, as
        the two-stage strategy always does; ``strategy="auto"`` then underestimates how uncertain
        the base rates of small tasks are (docs/strategies.md).
        ``"last"`` never uses folds, which would train on rows later than the validation rows.
        ``"tasks"`` holds out whole tasks, so that the model is chosen by how well it predicts new
        ones (``unknown_task="common"``): all tasks then use the common model, whose nodes do not
        separate tasks, and `validation_fraction` is a fraction of the tasks. A splitter, such as
        ``TimeSeriesSplit()``, has a method ``split(X, y, groups)``, where groups are the tasks. A
        list of pairs (train, valid) of row numbers or boolean masks names the rows themselves. In
        each split either every task needs training rows, or whole tasks are held out, as by
        ``GroupKFold()``. The two-stage strategy accepts one split only, and no whole tasks. Equal
        rows of several tasks are drawn together, as outputs of one table need it; of a panel whose
        missing cells are to be predicted, ``KFold(5, shuffle=True)`` holds out each row alone.
    time : str, array-like of shape (n_rows,), or mapping of task name to array-like, optional
        For ``validation="last"``: the time of each row, as dates, numbers or text that sorts, such
        as "2024-01-31" (not "31/01/2024"); or a column of the data frame `X`, which is then not
        used as a feature. Rows of equal time stay together.
    specific_params : mapping, optional
        Parameters of the specific models that differ from `params`. Without it
        ``strategy="auto"`` tries stumps too, unless `params` says how large trees are.
    specific_rounds : int, default=500
        Maximum number of rounds of a specific model; 0 for none. The independent models of
        ``strategy="auto"`` have at most `num_boost_round`, or none with 0.
    feature_prior : "auto", mapping of feature name to float, or array-like, optional
        Importances by which the specific models sample their features (eruhimov2007), such as those
        of :func:`feature_prior`; one number per common column, if not by name. ``"auto"`` uses the
        gains of the common model's splits. 5 % of the draws are uniform; a column that the prior
        does not name keeps its uniform probability. Each node considers ⌊√M⌋ of the task's M
        features, or the fraction ``colsample_bynode``. XGBoost only.
    weight : array-like of shape (n_rows,), or like `y`, optional
        Row weights >= 0.
    base_margin : like `y`, optional
        Margin that each row starts from; one column per class for several classes. Rows that are
        predicted, evaluated or used for updates later need theirs too (a warning otherwise).
    qid : like `y`, optional
        Query of each row, for objectives that rank the rows of a query (``"rank:ndcg"``,
        ``"rank:pairwise"``; LightGBM: ``"lambdarank"``). The rows of a query belong to one task and
        have one weight; whole queries are held out (docs/ranking.md).
    task_weight : mapping of task name to float, or "balanced", optional
        Multiplies the row weights of a task. ``"balanced"`` gives all tasks the same total.
    feature_names : sequence of str, or mapping of task name to sequence, optional
        Names for the columns of arrays.
    common_features : sequence of str or "all", optional
        Columns of the common model; by default those that every task has. ``"all"`` are the columns
        of any task, missing in the rows of a task that lacks them. See :class:`Dataset`.
    refit : bool, optional
        Train both stages again on training and validation rows together, with the rounds found;
        with ``strategy="auto"`` up to a quarter more, as there are more rows. By default
        True if `fit` itself holds rows out, and False with `eval_set`.
        ``strategy="auto"`` does not refit by default if there are more training rows than its
        search uses (`effort`).
    baselines : bool, default=False
        Also train the library's own alternatives (pooled, one model per task, task as a categorical
        feature) and show them in :meth:`MultiTaskModel.report`. With an objective per task only the
        models per task are possible.
    intervals : bool, default=False
        Store the errors of held-out rows, from which :meth:`MultiTaskModel.predict_interval`
        computes intervals (docs/intervals.md). If the final model is trained on all rows, the
        chosen settings are trained five more times, once without each fold (with `validation` or
        `eval_set`: once without those rows). Not for classification.
    calibrate : bool, default=False
        Calibrate the probabilities of two classes: slope and intercept of each task's log-odds in
        its margin, fitted to held-out rows and shrunk towards those of all tasks
        (docs/calibration.md). If the final model is trained on all rows, five more are trained, as
        with `intervals`. Validation scores of the report are those before.
    callbacks : sequence of callbacks
        Further callbacks for the common model's ``xgboost.train`` or ``lightgbm.train``; with
        ``strategy="auto"`` for that of the final model only. A model that is trained again with the
        rounds found, on all rows or for `intervals` and `calibrate`, has them too; they cannot end
        it.
    on_round : callable, optional
        Called after each round of the common model, if there are validation rows, with the number
        of rounds so far and a dict of task name to validation metric. An exception that it raises,
        such as ``optuna.TrialPruned``, ends the training. With ``strategy="auto"`` it is called for
        the chosen common model only.
    verbose : bool or int, default=False
        Show which model is trained: a bar, if tqdm is installed, or else messages of the logger
        ``"mtboost"``. With two stages a number also prints the metric of each task every `verbose`
        rounds of the common model.
    n_threads : int, optional
        By default the cores this process may use, or one for a small table.
    seed : int, default=0
        Seed of the validation split and of all sampling.
    init_model : MultiTaskModel, or path of its file, optional
        Model to continue, like ``xgb_model`` of XGBoost and ``init_model`` of LightGBM: the result
        has the old trees and at most `num_boost_round` (by default 100) new rounds. Equivalent to
        :meth:`MultiTaskModel.update`: the number of rounds is found on validation rows, unless
        `validation_fraction` is 0 or `early_stopping_rounds` None, and `params` lists only what
        differs from the model's. Arguments that do not apply to new rounds are refused.
    n_ensemble : int, default=1
        Number of models with seeds `seed`, `seed` + 1, ..., and so different validation rows, that
        are averaged into one (:func:`mtboost.average_models`): often better on few and noisy rows;
        the time grows in proportion (docs/strategies.md).

    Returns
    -------
    MultiTaskModel
        The fitted model.

    Raises
    ------
    DataError, ParameterError, TypeError
        Invalid or incompatible arguments; raised before any training.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> school = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] + (school == "b") + 0.1 * rng.normal(size=300)
    >>> model = mtboost.fit(X, y, task=school, params={"max_depth": 3}, num_boost_round=50)
    >>> model.predict(X, task=school).shape
    (300,)
    >>> booster = model.booster("b")  # an ordinary xgboost.Booster
    >>> booster.num_features()
    3

    Tables of different tasks may have different columns:

    >>> names = {"a": ["age", "income"], "b": ["age", "income", "rent"]}
    >>> tables = {"a": X[:100, :2], "b": X[100:200]}
    >>> labels = {"a": y[:100], "b": y[100:200]}
    >>> model = mtboost.fit(tables, labels, feature_names=names, num_boost_round=10)
    >>> model.tasks
    ('a', 'b')

    Rows may have several labels, some of them unknown:

    >>> import pandas as pd
    >>> Y = pd.DataFrame({"height": X[:, 0], "weight": X[:, 0] + X[:, 1]})
    >>> Y.loc[:99, "weight"] = np.nan
    >>> model = mtboost.fit(X, Y, strategy="two-stage", num_boost_round=10)
    >>> model.predict(X, output="pandas").columns.tolist()
    ['height', 'weight']

    References
    ----------
    zhang2019, section 3 (key in docs/papers.md).
    """
    arguments = Arguments(**locals())
    if init_model is not None:
        return continued(arguments, FIT_ARGUMENTS)
    return _fit(arguments.checked())


#: Arguments of fit() and their defaults.
FIT_ARGUMENTS = {
    name: argument.default for name, argument in inspect.signature(fit).parameters.items()
}


def _fit(arguments: Arguments) -> MultiTaskModel:
    """Return the model, or the mean of several, for arguments that are checked."""
    problem = read_problem(arguments)
    if arguments.n_ensemble > 1:
        own = replace(arguments, objective=problem.objective)
        return fit_ensemble(_fit, own, problem.data.tasks)
    problem = with_own_units(problem, arguments)
    settings = _settings(problem, arguments)
    rows, folds = split_rows(settings, problem, arguments)
    check_later_rows(problem, arguments, folds)
    judges = with_positives(settings, folds, problem.data) if folds and arguments.is_auto else folds
    fitted = _train(settings, judges, rows, arguments)
    parts = {**fitted.to_parts(rows, judges), **problem.to_parts()}
    model = model_of(parts, is_auto=arguments.is_auto)
    add_held_out(model, fitted, folds, rows, arguments)
    return model


def _settings(problem: Problem, arguments: Arguments) -> Settings:
    """Return the settings of both stages for rows that are checked."""
    settings = make_settings(problem, arguments)
    library, objective, data = problem.library, problem.objective, problem.data
    n_outputs = library.n_outputs(settings.params)
    check_rows(library, data, objective, settings.params)
    check_metrics(problem.eval_metric, data)
    check_n_classes(problem.classes, n_outputs)
    check_results(problem, arguments, n_outputs)
    return _with_possible_effects(settings, data)


def check_results(problem: Problem, arguments: Arguments, n_outputs: int) -> None:
    """Raise ParameterError if the labels have no intervals or probabilities that are asked for."""
    if arguments.intervals:
        check_is_of_numbers(problem.objective, n_outputs)
    if arguments.calibrate:
        check_can_calibrate(problem.objective, problem.data.base_margin)


def _train(settings: Settings, folds: Folds | None, data: Dataset, arguments: Arguments) -> Fitted:
    """Train as the strategy says, on the rows that are not held out and then on `data`."""
    for train in [train for train, _ in folds.pairs] if folds else [data]:
        check_training_rows(settings, train)
    check_scales(settings, Units.of(data.numbers(), data.weight))
    warn_of_units(settings, data)
    callbacks = tuple(arguments.callbacks)
    if arguments.is_auto:
        assert folds is not None
        assert isinstance(arguments.effort, Effort)
        fitted = _fit_auto(settings, folds, data, arguments.refit, callbacks, arguments.effort)
    else:
        fitted = fit_two_stages(settings, folds, data, arguments.refit, callbacks)
    if arguments.baselines and folds:
        fitted.add_baselines(folds)
    return fitted


def fit_two_stages(
    settings: Settings,
    folds: Folds | None,
    data: Dataset,
    refit: bool | None,
    callbacks: tuple[Any, ...],
) -> Fitted:
    """Train both stages; unless `refit` is False again with the same rounds on all rows."""
    train: Dataset
    valid: Dataset | None
    train, valid = folds.pairs[0] if folds else (data, None)
    is_refit = refit is not False and train is not data
    settings = settings.on_rows(train)
    is_shown = bool(settings.verbose) and settings.team is None
    progress = Progress(2 + is_refit, is_shown=is_shown)
    with _library_threads(settings, data), progress:
        progress.begin("common model")
        common = fit_common(settings, train, valid, callbacks)
        progress.begin("specific models")
        specific = fit_specific(settings, train, valid, common)
        own = {**settings.params, **settings.specific_params}
        fitted = Fitted(
            settings,
            common,
            specific,
            specific,
            validation_scores(train, valid, common, specific),
            train,
            params=settings.params,
            specific_params=dict.fromkeys(data.tasks, own),
            callbacks=callbacks,
        )
        if valid is not None:
            _add_errors(fitted, train, valid)
        if is_refit:
            progress.begin("final model")
            # Only what they have found is needed from here on; of many tasks trees take much room.
            validated = {task: replace(model, trees=None) for task, model in specific.items()}
            del specific
            fitted = replace(fitted, specific={}, validated=validated)
            fitted = fitted.on_rows(data)
    return fitted


def _add_errors(fitted: Fitted, train: Dataset, valid: Dataset) -> None:
    """Add the standard errors of the validation scores."""
    own = {**fitted.to_parts(train, None), "task_column": None, "task_position": None}
    errors = validation_errors(model_of(own, is_auto=False), valid, fitted.settings)
    for task, scores in fitted.scores.items():
        if "final" in scores and task in errors:
            scores |= errors[task]


def _fit_auto(
    settings: Settings,
    folds: Folds,
    data: Dataset,
    refit: bool | None,
    callbacks: tuple[Any, ...],
    effort: Effort,
) -> Fitted:
    """Choose how much to share on validation rows, and train that on all rows."""
    judged, reported, judges, effort = _judging(settings, folds, effort)
    progress = Progress(effort.n_models(data.tasks.n_levels > 1), is_shown=bool(settings.verbose))
    with _library_threads(settings, data), progress:
        plan = plan_sharing(judged, judges, effort, reported, progress)
        # With many rows those held out add little to what the others say.
        is_trained = plan.common is not None and refit is None and not effort.small_steps
        trained, rows = None, data
        if refit is False or (is_trained and not callbacks):
            trained, rows = None if callbacks else plan.common, folds.pairs[0][0]
        common, specific = fit_plan(plan.for_rows(rows.n_rows), rows, callbacks, trained)
    return fitted_by_plan(settings, plan, common, specific, rows, callbacks)


def _library_threads(settings: Settings, data: Dataset) -> AbstractContextManager[None]:
    """Limit the threads of XGBoost while a model of these rows is trained."""
    n_cells = data.n_rows * data.common.n_features
    return openmp_threads(threads_of_library(settings.n_threads, n_cells))


def choose_plan(settings: Settings, folds: Folds, effort: Effort) -> SharingPlan:
    """Choose how much to share on validation rows, without training that on all rows."""
    judged, reported, judges, effort = _judging(settings, folds, effort)
    data, _ = folds.pairs[0]
    with _library_threads(settings, data), Progress(1, is_shown=False) as progress:
        return plan_sharing(judged, judges, effort, reported, progress)


def _judging(
    settings: Settings, folds: Folds, effort: Effort
) -> tuple[Settings, Objectives, Folds, Effort]:
    """Return settings of the search, objectives with the metrics to report, rows and effort."""
    judges = folds.with_weight()
    if judges is None:
        raise DataError(
            "strategy='auto' chooses on validation rows, and the weight of each is zero: give "
            "eval_set, or hold out more rows by validation_fraction."
        )
    train, _ = judges.pairs[0]
    judged, reported = settings.with_means(train), settings.objectives
    metrics = (each.losses_of(train.tasks.names).metrics for each in (judged.objectives, reported))
    if all(map(operator.is_, *metrics)):
        reported = judged.objectives
    judged = replace(
        judged, common_early_stopping_rounds=settings.early_stopping_rounds, verbose=False
    )
    return judged, reported, judges, effort.for_rows(train.n_rows, folds.tasks.n_tasks)


def _with_possible_effects(settings: Settings, data: Dataset) -> Settings:
    """Return the settings, without linear effects to search where these rows cannot have them."""
    linear = settings.linear_effects
    reason = why_no_linear_effects(settings, data, linear or "intercepts")
    if reason and linear:
        raise ParameterError(f"linear_effects={linear!r} is not possible: {reason}. Leave it out.")
    return replace(settings, given={*settings.given, "linear_effects"}) if reason else settings
