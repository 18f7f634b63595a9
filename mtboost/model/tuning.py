# SPDX-License-Identifier: Apache-2.0
"""Search over the settings of :func:`mtboost.fit` with Optuna."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_count, check_number, check_seed, check_type, check_verbose
from mtboost.base.frames import table_of_rows
from mtboost.base.progress import Progress
from mtboost.base.tasks import TaskName
from mtboost.base.user_warnings import warn_user
from mtboost.base.validation import fraction_of
from mtboost.errors import DataError, MissingDependencyError, ParameterError, TrainingError
from mtboost.metrics.metric import Metric
from mtboost.model.fitting import FIT_ARGUMENTS, check_results, fit
from mtboost.model.inputs.arguments import Arguments
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.inputs.making_settings import metric_of
from mtboost.model.inputs.named_objectives import names_of_objectives
from mtboost.model.inputs.problem import read_problem
from mtboost.model.model import MultiTaskModel
from mtboost.model.search_space import Space, check_fit_arguments, make_space

if TYPE_CHECKING:
    import optuna
    import pandas as pd

# A trial is compared with others where as much has been learnt: each time the sum of the learning
# rates of its rounds has grown by so much. By rounds, small learning rates would always be behind.
_STEP = 0.5
_STEPS_BEFORE_PRUNING = 10
_TRIALS_BEFORE_PRUNING = 5


@dataclass(frozen=True, slots=True)
class TuningResult:
    """Result of :func:`tune`.

    Attributes
    ----------
    best_params : dict
        The settings of the best trial, by their names in the space.
    best_score : float
        Its mean over tasks of the validation metric. Chosen as the best of many, on the rows that
        also ended its training: too good as an estimate for new rows.
    model : MultiTaskModel
        Fitted with these settings, by default on all rows.
    fit_arguments : dict
        The arguments of :func:`mtboost.fit` for them, besides `X`, `y` and other values per row.
    metric : str
        Name of the metric.
    study : optuna.Study
        All trials, for Optuna's plots and importances of parameters. The user attribute ``scores``
        of a trial has the metric of each task.
    """

    best_params: dict[str, Any]
    best_score: float
    model: MultiTaskModel
    fit_arguments: dict[str, Any]
    metric: str
    study: optuna.Study

    def trials(self) -> pd.DataFrame:
        """One row per trial, in their order.

        Returns
        -------
        pandas.DataFrame
            Columns ``state`` (``"complete"``, ``"pruned"`` or ``"fail"``), ``score``, ``seconds``,
            one for each setting, and the validation metric of each task. NaN where a trial was not
            finished.
        """
        rows = {}
        for trial in self.study.trials:
            is_complete = trial.state.name == "COMPLETE"
            rows[trial.number] = {
                "state": trial.state.name.lower(),
                "score": trial.value if is_complete else np.nan,
                "seconds": trial.duration.total_seconds() if trial.duration else np.nan,
                **trial.params,
                **{f"{self.metric} {k}": v for k, v in trial.user_attrs.get("scores", {}).items()},
            }
        return table_of_rows(rows, "trial", "trials()")


def tune(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    objective: Any = None,
    backend: Literal["xgboost", "lightgbm"] = "xgboost",
    n_trials: int = 20,
    timeout: float | None = None,
    space: Space | None = None,
    study: optuna.Study | None = None,
    refit: bool | None = None,
    seed: int = 0,
    verbose: bool | int = False,
    **fit_arguments: Any,
) -> TuningResult:
    """Try settings of :func:`mtboost.fit` and fit the best of them.

    Each trial fits a model on the same training rows and is scored on the same validation rows, the
    ones that :func:`fit` would hold out or those of `eval_set`, by the mean over tasks of its
    metric: every task counts the same, as each decides for itself when to quit. Tasks without
    validation rows on which the metric is defined do not count. The first trial is what fit() does
    by default, as far as this lies in the space; of the next ones some are random, and then
    Optuna's tree-structured Parzen estimator proposes them. Trials that are worse than the median
    of the others at equal progress are pruned.

    Parameters
    ----------
    X : table of shape (n_rows, n_features), or mapping of task name to table
        NumPy array, SciPy CSR or CSC, pandas or polars DataFrame, pyarrow Table; NaN is missing.
        Tables of a mapping may have different columns; see `common_features`.
    y : array-like of shape (n_rows,) or (n_rows, n_labels), or mapping of task name to array-like
        Labels, as in :func:`mtboost.fit`.
    task : array-like of shape (n_rows,), or str or int, optional
        Task of each row, or the name (or position) of the column of `X` that contains it; that
        column is not used as a feature. None is a single task. Must be None for a mapping.
    objective : str, mapping of task name to str, or callable, optional
        As in :func:`mtboost.fit`.
    backend : {"xgboost", "lightgbm"}, default="xgboost"
        The library whose bins, parameters and boosters are used.
    n_trials : int, default=20
        Maximum number of trials.
    timeout : float, optional
        Seconds after which no further trial begins. What is found then depends on the machine.
    space : mapping of name to range, or callable, optional
        What is searched. A name is an argument of :func:`mtboost.fit` (``"split_score"``), a
        parameter of the library (``"max_depth"``), or after ``specific_`` one of the specific
        models only (``"specific_max_depth"``). A range is ``(low, high)``, integers if both are,
        ``(low, high, "log")``, a list of choices, or None for what is not to be searched. It
        replaces ranges of the same name in the default space and is added to the others. A function
        takes an ``optuna.Trial`` and returns a mapping of name to value, in place of the default.
        By default ``min_child_weight`` (LightGBM: ``min_child_samples``) and ``colsample_bytree``,
        as ``strategy="auto"`` finds the rest itself. With ``strategy="two-stage"`` also
        ``max_depth`` (``max_leaves``), ``learning_rate``, ``subsample``, ``split_score``, and the
        depth (leaves) of the specific models. Those that `fit_arguments` fixes are left out.
        Numbers of rounds are found by the validation rows, not searched.
    study : optuna.Study, optional
        A study with its own sampler, pruner or storage, to which trials are added.
    refit : bool, optional
        Fit the best settings on all rows, with the rounds found on the training rows. By default
        if `eval_set` is not given, with which it is not possible.
    seed : int, default=0
        Seed of :func:`fit` and of the search.
    verbose : bool or int, default=False
        Show progress: a bar of tqdm, or lines in the log, with the best metric so far. From 2 on
        Optuna logs each trial, too.
    **fit_arguments
        Further arguments of :func:`mtboost.fit`, the same in all trials, but for ``baselines``,
        ``intervals``, ``calibrate`` and ``n_ensemble``, which only the last fit has. What `params`
        and `specific_params` hold is not searched. ``validation_fraction`` is 0.2 by default, for a
        single task too.

    Returns
    -------
    TuningResult
        Its attributes: `model`, the fitted :class:`MultiTaskModel`; `best_params`, the settings by
        their names in the space; `best_score`, the mean over tasks of `metric`, the name of the
        metric; `fit_arguments`, to fit the same again; `study`, the study of Optuna. Its method
        `trials()` returns a DataFrame with a row for each trial.
        Ctrl-C ends the search and fits the best settings so far, if a trial was finished.

    Raises
    ------
    MissingDependencyError
        Optuna is not installed.
    DataError, ParameterError, TypeError
        Before any training, if something does not fit together.
    TrainingError
        No trial was finished.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> found = mtboost.tune(
    ...     X, y, task=task, n_trials=2, num_boost_round=5, specific_rounds=5, n_threads=1
    ... )
    >>> found.model.predict(X, task=task).shape
    (200,)

    References
    ----------
    akiba2019 (Optuna), bergstra2011 (its sampler); keys in docs/papers.md.
    """
    try:
        import optuna
    except ImportError:
        raise MissingDependencyError("tune() needs Optuna: pip install 'mtboost[tune]'.") from None
    check_fit_arguments(fit_arguments, inspect.signature(tune).parameters)
    n_trials = check_count("n_trials", n_trials, low=1)
    verbose = check_verbose(verbose)
    if timeout is not None:
        timeout = check_number("timeout", timeout, above=0.0, besides="None")
    library = get_backend(backend)
    seed = check_seed(seed, bits=library.seed_bits)
    if isinstance(objective, Mapping):
        raise ParameterError(
            "objective is a mapping: metrics of different losses have no mean that trials could be "
            "compared by. Tune with one objective."
        )
    at_the_end = _check_validation(fit_arguments, refit)
    given = {"objective": objective, "backend": backend, "seed": seed, **fit_arguments}
    rows = {"X": X, "y": y, "task": task}
    wanted = Arguments(**{**FIT_ARGUMENTS, **given, **at_the_end, **rows}).checked()
    problem = read_problem(wanted)
    objective = problem.objective
    assert not isinstance(objective, Mapping)
    for name in names_of_objectives(objective):
        library.check_objective(name)
    fixed = {**given, "objective": objective, "strategy": wanted.strategy}
    own_space = make_space(library, space, fixed)
    params = {
        "objective": objective if isinstance(objective, str) else library.squared_error,
        **library.parameters(fit_arguments.get("params") or {}),
    }
    check_results(problem, wanted, library.n_outputs(params))
    metric = metric_of(library, objective, problem.eval_metric, params)
    del wanted, problem  # the trials read the rows themselves
    study = _study(study, metric, seed, verbose)
    start = own_space.start()
    if start:
        study.enqueue_trial(start, skip_if_exists=True)

    def score(trial: optuna.Trial) -> float:
        arguments = own_space.arguments(own_space.values(trial))
        watch = _Pruning(trial, own_space.learning_rate(arguments), metric)
        model = fit(X, y, task=task, **arguments, on_round=watch, refit=False)
        scores = {name: report.scores.get("final") for name, report in model.reports.items()}
        known = {name: value for name, value in scores.items() if value is not None}
        trial.set_user_attr("scores", {str(name): value for name, value in known.items()})
        return _mean(known, metric)

    _optimize(study, score, n_trials, timeout, verbose)
    best = _best(study)
    values = own_space.values(optuna.trial.FixedTrial(best.params, best.number))
    arguments = own_space.arguments(values)
    return TuningResult(
        best_params=values,
        best_score=best.value,
        model=fit(X, y, task=task, **arguments, **at_the_end),
        fit_arguments={**arguments, **at_the_end},
        metric=metric.name,
        study=study,
    )


def _check_validation(fit_arguments: dict[str, Any], refit: bool | None) -> dict[str, Any]:
    """Complete the arguments of ``fit``, and return those of the last fit, after the search."""
    has_eval_set = fit_arguments.get("eval_set") is not None
    if not has_eval_set:
        # As of several tasks: trials of one task are compared on validation rows, too.
        fraction = fraction_of(fit_arguments.get("validation_fraction", "auto"), n_tasks=2)
        fit_arguments["validation_fraction"] = fraction
        if fraction == 0.0:
            raise ParameterError(
                "validation_fraction is 0: trials are compared on validation rows. Leave it out, "
                "or pass eval_set."
            )
    refit = not has_eval_set if refit is None else refit
    if has_eval_set and refit:
        raise ParameterError("refit=True cannot go with eval_set: append its rows to X instead.")
    at_the_end = ("baselines", "intervals", "calibrate", "n_ensemble")
    last = {name: fit_arguments.pop(name, FIT_ARGUMENTS[name]) for name in at_the_end}
    return {"refit": refit, **last}


def _optimize(
    study: optuna.Study,
    score: Callable[[optuna.Trial], float],
    n_trials: int,
    timeout: float | None,
    verbose: int,
) -> None:
    """Run the trials; Ctrl-C ends the search if one was finished."""
    progress = Progress(n_trials, is_shown=verbose > 0, unit="trial")
    n_done = itertools.count(1)

    def report(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        best = f"best {_best(study).value:.5g}" if _finished(study) else "none finished"
        progress.report(next(n_done), best)

    with _logging(verbose), progress:
        try:
            study.optimize(score, n_trials, timeout, catch=(TrainingError,), callbacks=[report])
        except (KeyboardInterrupt, UnboundLocalError) as error:
            # Optuna raises an UnboundLocalError where Ctrl-C comes while it stores a result.
            if not isinstance(error, KeyboardInterrupt):
                if not isinstance(error.__context__, KeyboardInterrupt):
                    raise
                error = error.__context__
            if not _finished(study):
                raise error from None
            warn_user(
                f"The search was interrupted: the best of {len(_finished(study))} finished trials "
                f"is fitted now.",
            )
    if not _finished(study):
        raise TrainingError(
            "No trial came to its end: timeout ended the search before, or all were given up by "
            "the study's pruner, or their gradients were not finite."
        )


class _Pruning:
    """Reports the best metric so far, averaged over tasks, and gives a trial up that is behind."""

    def __init__(self, trial: optuna.Trial, learning_rate: float, metric: Metric) -> None:
        self._trial = trial
        self._learning_rate = learning_rate
        self._metric = metric
        self._best: dict[TaskName, float] = {}
        self._step = 0

    def __call__(self, n_rounds: int, scores: Mapping[TaskName, float]) -> None:
        import optuna

        better = np.fmax if self._metric.greater_is_better else np.fmin  # NaN is never better
        self._best = {
            name: float(better(value, self._best.get(name, np.nan)))
            for name, value in scores.items()
        }
        step = int(n_rounds * self._learning_rate / _STEP + 1e-9)
        if step == self._step:
            return
        self._step = step
        self._trial.report(_mean(self._best, self._metric), step)
        if self._trial.should_prune():
            raise optuna.TrialPruned


def _mean(scores: Mapping[TaskName, float], metric: Metric) -> float:
    values: npt.NDArray[np.float64] = np.array(list(scores.values()), np.float64)
    if np.isnan(values).all():
        raise DataError(
            f"{metric.name} is undefined on the validation rows of every task: hold out more rows "
            f"(validation_fraction), or choose another eval_metric."
        )
    return float(np.nanmean(values))


def _study(given: optuna.Study | None, metric: Metric, seed: int, verbose: int) -> optuna.Study:
    """The user's study, or one that samples by the seed and prunes by the median."""
    import optuna

    direction: Literal["maximize", "minimize"] = (
        "maximize" if metric.greater_is_better else "minimize"
    )
    if given is None:
        with _logging(verbose):
            return optuna.create_study(
                direction=direction,
                sampler=optuna.samplers.TPESampler(seed=seed % 2**32),
                pruner=optuna.pruners.MedianPruner(
                    n_startup_trials=_TRIALS_BEFORE_PRUNING,
                    n_warmup_steps=_STEPS_BEFORE_PRUNING,
                ),
            )
    check_type("study", given, optuna.Study, "None or an optuna.Study")
    found = [each.name.lower() for each in given.directions]
    if found != [direction]:
        raise ParameterError(
            f"study has the direction {', '.join(found)}, but {metric.name} is to {direction}: "
            f"optuna.create_study(direction={direction!r})."
        )
    return given


def _best(study: optuna.Study) -> Any:
    try:
        return study.best_trial
    except ValueError:  # the first was finished, but Ctrl-C came before it was stored as the best
        return _finished(study)[-1]


def _finished(study: optuna.Study) -> list[Any]:
    return [trial for trial in study.trials if trial.state.name == "COMPLETE"]


@contextmanager
def _logging(verbose: int) -> Iterator[None]:
    """Warnings of Optuna alone, unless the user wants to read of each trial."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO if verbose > 1 else optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
