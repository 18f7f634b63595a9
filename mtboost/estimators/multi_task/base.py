# SPDX-License-Identifier: Apache-2.0
"""The part that the estimators of related tasks share: parameters in, attributes out."""

from __future__ import annotations

import abc
import copy
import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from mtboost.base.arrays import as_array
from mtboost.base.atomic_file import PathName
from mtboost.base.checked_tables import as_table, warn_of_different_texts
from mtboost.base.checks import check_type
from mtboost.base.class_weights import ClassWeight
from mtboost.base.given_splits import check_eval_set
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.several_labels import names_of_labels
from mtboost.base.sklearn_input import (
    checked_labels,
    checked_table,
    reading_numbers,
)
from mtboost.base.tables import Table, TaskColumn, column_names, columns_of
from mtboost.base.task_tables import CommonFeatures, check_task_keys, is_mapping
from mtboost.base.task_weights import TaskWeight
from mtboost.base.tasks import TaskName
from mtboost.base.threads import threads_of_jobs
from mtboost.errors import DataError, ParameterError
from mtboost.estimators.files import SavedEstimator
from mtboost.estimators.tree_parameters import seed_of
from mtboost.model.fitting import fit
from mtboost.model.inputs.arguments import EvalMetric, Strategy, TaskSplits, Validation, strategy_of
from mtboost.model.inputs.keywords import (
    names_of_estimators,
    where_in_a_method,
    where_in_an_estimator,
    where_it_belongs,
)
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.model import MultiTaskModel
from mtboost.model.parts.model_file import to_parts
from mtboost.model.prediction.predictions import UnknownTask
from mtboost.model.sharing.effort import EffortOption
from mtboost.trees.backend import Backend
from mtboost.trees.feature_weights import PriorOption
from mtboost.trees.losses import has_bounds
from mtboost.trees.pooling import PoolingOption
from mtboost.trees.split_scores import Beta, Score

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas as pd

Objective = str | Callable[..., Any]

# Parameters that XGBoost knows by the same name, and LightGBM by that or another.
_LIBRARY_PARAMETERS = (
    "learning_rate",
    "max_depth",
    "max_leaves",
    "grow_policy",
    "min_child_weight",
    "gamma",
    "reg_lambda",
    "reg_alpha",
    "max_delta_step",
    "subsample",
    "colsample_bytree",
    "colsample_bylevel",
    "colsample_bynode",
    "max_bin",
    "monotone_constraints",
    "interaction_constraints",
)
_N_ESTIMATORS = 100
# Say how to predict and nothing about rows, which is what scikit-learn routes.
UNROUTED = {"unknown_task": UNUSED}
UNROUTED_OUTPUT = {**UNROUTED, "output": UNUSED}


#: Parameters that ``fit`` has by the same name.
_OF_FIT = (
    "effort",
    "split_score",
    "beta",
    "pooling",
    "task_splits",
    "symmetric_trees",
    "random_strength",
    "unseen_at_random",
    "linear_effects",
    "shrink_to_constant",
    "n_ensemble",
    "backend",
    "early_stopping_rounds",
    "min_delta",
    "eval_metric",
    "validation_fraction",
    "validation",
    "time",
    "specific_params",
    "specific_rounds",
    "feature_prior",
    "task_weight",
    "common_features",
    "refit",
    "intervals",
    "calibrate",
    "verbose",
)


def where_outside_fit(name: str, given: Mapping[str, Any], known: Collection[str]) -> str:
    """Return where a keyword belongs that ``fit`` does not have."""
    return where_in_an_estimator(name, known, inspect.signature(MultiTaskEstimator).parameters)


def in_one_array(argument: str, values: Any, X: Any) -> Any:
    """Return what belongs to the rows of a mapping of tables, one table after the other."""
    if values is None or not is_mapping(X):
        return values
    if not X:
        raise DataError("X is an empty mapping: give a table for each task.")
    check_task_keys(argument, values, X)
    return np.concatenate([as_array(values[task]) for task in X])


class MultiTaskEstimator(SavedEstimator):
    """Shared part of classifier and regressor; parameters: :class:`MultiTaskClassifier`."""

    _saved: ClassVar = {
        "n_features_in_": int,
        "feature_names_in_": np.ndarray | None,
        "_tables_differ": bool,
        "_place_of": dict,
    }
    __metadata_request__predict: ClassVar = UNROUTED_OUTPUT

    model_: MultiTaskModel

    @renamed(where_it_belongs, patience="early_stopping_rounds")
    def __init__(
        self,
        *,
        n_estimators: int | None = None,
        learning_rate: float | None = None,
        max_depth: int | None = None,
        max_leaves: int | None = None,
        grow_policy: Literal["depthwise", "lossguide"] | None = None,
        min_child_weight: float | None = None,
        gamma: float | None = None,
        reg_lambda: float | None = None,
        reg_alpha: float | None = None,
        max_delta_step: float | None = None,
        subsample: float | None = None,
        colsample_bytree: float | None = None,
        colsample_bylevel: float | None = None,
        colsample_bynode: float | None = None,
        max_bin: int | None = None,
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        objective: Objective | None = None,
        backend: Literal["xgboost", "lightgbm"] = "xgboost",
        params: Mapping[str, Any] | None = None,
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
        n_ensemble: int = 1,
        task: TaskColumn | list[str] | None = None,
        early_stopping_rounds: int | None = 20,
        min_delta: float = 0.0,
        eval_metric: EvalMetric = None,
        validation_fraction: float | Literal["auto"] = "auto",
        validation: Validation = "random",
        time: str | None = None,
        specific_params: Mapping[str, Any] | None = None,
        specific_rounds: int = 500,
        feature_prior: PriorOption = None,
        task_weight: TaskWeight = None,
        refit: bool | None = None,
        common_features: CommonFeatures = None,
        unknown_task: UnknownTask = "error",
        callbacks: Sequence[Any] | None = None,
        verbose: bool | int = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        class_weight: ClassWeight = None,
        scale_pos_weight: float | None = None,
        intervals: bool = False,
        calibrate: bool = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.grow_policy = grow_policy
        self.min_child_weight = min_child_weight
        self.gamma = gamma
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.max_delta_step = max_delta_step
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.max_bin = max_bin
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.objective = objective
        self.backend = backend
        self.params = params
        self.strategy = strategy
        self.effort = effort
        self.split_score = split_score
        self.beta = beta
        self.pooling = pooling
        self.task_splits = task_splits
        self.symmetric_trees = symmetric_trees
        self.random_strength = random_strength
        self.unseen_at_random = unseen_at_random
        self.linear_effects = linear_effects
        self.shrink_to_constant = shrink_to_constant
        self.n_ensemble = n_ensemble
        self.task = task
        self.early_stopping_rounds = early_stopping_rounds
        self.min_delta = min_delta
        self.eval_metric = eval_metric
        self.validation_fraction = validation_fraction
        self.validation = validation
        self.time = time
        self.specific_params = specific_params
        self.specific_rounds = specific_rounds
        self.feature_prior = feature_prior
        self.task_weight = task_weight
        self.refit = refit
        self.common_features = common_features
        self.unknown_task = unknown_task
        self.callbacks = callbacks
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.class_weight = class_weight
        self.scale_pos_weight = scale_pos_weight
        self.intervals = intervals
        self.calibrate = calibrate

    # ---- fit --------------------------------------------------------------------------------

    @renamed(where_outside_fit)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[Any] | None = None,
    ) -> Self:
        """Fit a common model of all tasks and a specific model of each; see :func:`mtboost.fit`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            NumPy array, SciPy CSR or CSC, pandas or polars DataFrame, pyarrow Table; NaN means
            missing. Tables of a mapping may have different columns; `y`, `sample_weight` and
            `base_margin` are mappings then, too.
        y : array-like of shape (n_rows,) or (n_rows, n_labels)
            Labels: numbers, or classes of any type for a classifier. Several labels a row, NaN
            where they are unknown, are tasks (docs/several_labels.md).
        task : array-like of shape (n_rows,), optional
            Task of each row, int or str, unless the parameter ``task`` names a column of `X`.
            Without both there is a single task.
        sample_weight : array-like of shape (n_rows,) or (n_rows, n_labels), optional
            Row weights >= 0.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margins that each row starts from; ``predict`` needs them as well. With several labels a
            row the shape is (n_rows, n_labels).
        eval_set : (X, y[, task[, weight[, base_margin]]]), optional
            Validation rows, instead of a fraction of the rows of `X`.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        DataError, ParameterError, ValueError, TypeError
            Before any training, if something does not fit together.
        """
        return self._fit(
            X,
            y,
            task=task,
            sample_weight=sample_weight,
            base_margin=base_margin,
            eval_set=eval_set,
        )

    @reading_rows
    def _fit(
        self,
        X: Any,
        y: Any,
        *,
        task: Any,
        sample_weight: Any,
        base_margin: Any,
        eval_set: Sequence[Any] | None,
        qid: Any = None,
    ) -> Self:
        """Fit as :meth:`fit` does, rows of queries too."""
        library = self._begin(task)
        table = None
        if is_mapping(X):
            check_task_keys("y", y, X)
            y = {name: self._check_labels(labels) for name, labels in y.items()}
        else:
            if has_bounds(self.objective) or names_of_labels(y) is None:
                y = self._check_labels(y)
            checked = self._check_table(X, reset=True)
            used = None if self.time is None else set(column_names(X)) - {self.time}
            table = as_table(checked, task_column=self.task, used=used)
            warn_of_different_texts(checked, table, table.n_rows)
            if sample_weight is not None and as_array(sample_weight).ndim < 2:
                with reading_numbers("sample_weight"):
                    sample_weight = _check_sample_weight(sample_weight, table.native)
        objective = self._learn_labels(y, library)
        y = self._encode(y)
        check_eval_set(eval_set)
        if eval_set is not None and len(eval_set) > 1:
            eval_set = (eval_set[0], self._encode(eval_set[1], "eval_set: y"), *eval_set[2:])
        sample_weight, eval_set = self._weigh_classes(y, sample_weight, eval_set)
        self._train(
            fit,
            library,
            X if table is None else table.native,
            y,
            task=task,
            objective=self._objective_given(objective, y),
            eval_set=eval_set,
            weight=sample_weight,
            base_margin=base_margin,
            qid=qid,
        )
        self._remember_columns(table)
        return self

    def _check_labels(self, y: Any) -> Any:
        """Check labels by scikit-learn's rules, which know no bounds of times."""
        return y if has_bounds(self.objective) else checked_labels(self, y)

    def _begin(self, task: Any) -> Backend:
        """Check the arguments of a fit that is to begin, and return the library."""
        if task is not None and self.task is not None:
            raise ParameterError(
                f"The task is given twice, by fit(task=...) and as column {self.task!r} of X: "
                f"leave one of them out."
            )
        if isinstance(self.objective, Mapping):
            raise ParameterError(
                "objective is a mapping, but the tasks of an estimator are all of one kind: use "
                "mtboost.fit(X, y, objective={task: ...})."
            )
        if self.time is not None:
            check_type("time", self.time, str, "None or the name of a column of X")
        # Should this fit fail, an earlier model would have the wrong classes and columns.
        self.__dict__.pop("model_", None)
        return get_backend(self.backend)

    def _train(
        self,
        train: Callable[..., MultiTaskModel],
        library: Backend,
        X: Any,
        y: Any,
        *,
        task: Any,
        eval_set: Sequence[Any] | None,
        **rows: Any,
    ) -> None:
        """Train the model by :func:`mtboost.fit`, or what has its arguments."""
        rounds = (self.early_stopping_rounds, self.min_delta, self.validation_fraction, eval_set)
        strategy = strategy_of(self.strategy, *rounds)
        n_estimators = self.n_estimators
        if n_estimators is None and strategy == "two-stage":
            n_estimators = _N_ESTIMATORS
        # Callbacks keep what they have seen, which must not reach another fit.
        self.callbacks_ = tuple(copy.deepcopy(() if self.callbacks is None else self.callbacks))
        with names_of_estimators():
            self.model_ = train(
                X,
                y,
                task=self.task if task is None else task,
                eval_set=eval_set,
                **rows,
                params=self._library_parameters(library),
                num_boost_round=n_estimators,
                callbacks=self.callbacks_,
                strategy=strategy,
                **{name: getattr(self, name) for name in _OF_FIT},
                n_threads=threads_of_jobs(self.n_jobs),
                seed=seed_of(self.random_state),
            )
        self.tasks_ = self.model_.tasks
        self.quit_round_ = self.model_.quit_round

    @abc.abstractmethod
    def _learn_labels(self, y: Any, library: Backend) -> Objective:
        """The objective for these labels."""

    def _objective_given(self, objective: Objective, y: Any) -> Objective | None:
        """The objective that ``fit`` is given for encoded labels; None where it may choose."""
        return objective

    def _encode(self, y: Any, argument: str = "y") -> Any:
        """Labels as the numbers that are trained on."""
        return y

    def _weigh_classes(
        self, y: Any, sample_weight: Any, eval_set: Sequence[Any] | None
    ) -> tuple[Any, Sequence[Any] | None]:
        """Return the weights of training rows, and the validation rows, with those of classes."""
        return sample_weight, eval_set

    def _library_parameters(self, library: Backend) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _LIBRARY_PARAMETERS}
        if self.scale_pos_weight is not None:
            own["scale_pos_weight"] = self.scale_pos_weight
        check_type("params", self.params, (Mapping, type(None)), "None or a mapping")
        further = dict(self.params or {})
        for name in own.keys() & further.keys():
            raise ParameterError(
                f"params holds {name!r}, which {type(self).__name__} has itself: pass {name}=."
            )
        given = {name: value for name, value in own.items() if value is not None}
        return library.named_parameters(given, further)

    def _check_table(self, X: Any, *, reset: bool) -> Any:
        """Check X by scikit-learn's rules; a data frame stays as it is."""
        return checked_table(
            self,
            X,
            task_column=self.task,
            reset=reset,
            time_column=self.time,
            has_time=reset,
        )

    def _remember_columns(self, table: Table | None) -> None:
        """Store the position in X of each feature of the model; None is a mapping of tables."""
        columns = list(self.model_.task_columns.values())
        self._tables_differ = len(set(columns)) > 1
        names: tuple[str, ...] | None
        if table is not None:
            names, self.n_features_in_ = table.feature_names, table.n_features
        elif columns[0].names is None:
            names, self.n_features_in_ = None, columns[0].n
        else:
            names = tuple(dict.fromkeys(chain(*(own.names or () for own in columns))))
            self.n_features_in_ = len(names)
            self.feature_names_in_ = np.array(names, dtype=object)
        if names is None:  # the library calls them f0, f1, ..., and the task column is none of them
            column = self.model_.task_column
            taken = () if column is None else columns_of(column)
            places = [n for n in range(self.n_features_in_) if n not in taken]
            own = get_backend(self.backend).feature_names(columns[0])
            self._place_of = dict(zip(own, places, strict=True))
        else:
            self._place_of = {name: place for place, name in enumerate(names)}

    # ---- predictions ------------------------------------------------------------------------

    def _margins(self, X: Any, *, unknown_task: UnknownTask | None, **options: Any) -> Any:
        X = self._fitted_table(X)
        return self.model_.predict_margin(X, unknown_task=self._asked(unknown_task), **options)

    def _predict(self, X: Any, unknown_task: UnknownTask | None, **options: Any) -> Any:
        """Predict on the scale of the labels, as the model does."""
        X = self._fitted_table(X)
        return self.model_.predict(X, unknown_task=self._asked(unknown_task), **options)

    def _asked(self, unknown_task: UnknownTask | None) -> UnknownTask:
        """What a call asks for, or else the parameter."""
        return self.unknown_task if unknown_task is None else unknown_task

    def _fitted_table(self, X: Any) -> Any:
        """Check X against the columns seen in fit; those of a mapping the model checks itself."""
        check_is_fitted(self, "model_")
        if is_mapping(X) or self._tables_differ:
            return X
        return self._check_table(X, reset=False)

    # ---- the model --------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """Mean gain of the splits on each column of `X`, of shape (n_features,).

        Computed as XGBoost's estimators do from the booster of each task (both stages, sum 1), then
        averaged over the tasks whose splits gain anything. The task column has 0.
        :meth:`.MultiTaskModel.importance` offers other kinds, for one task.
        """
        check_is_fitted(self, "model_")
        importances = np.zeros(self.n_features_in_)
        for task in self.tasks_:
            gains = self.model_.importance(task)
            total = sum(gains.values()) or 1.0
            for name, gain in gains.items():
                importances[self._place_of[name]] += gain / total
        return importances / (importances.sum() or 1.0)

    @renamed(where_in_a_method)
    def booster(self, task: TaskName | None = None) -> Any:
        """Return an ordinary booster of a task, or of all; see :meth:`.MultiTaskModel.booster`.

        Parameters
        ----------
        task : task name, optional
            None: one booster of all tasks, an output for each. XGBoost only, unless there is one
            task.

        Returns
        -------
        xgboost.Booster or lightgbm.Booster
            Its predictions are those of the model.

        Raises
        ------
        DataError, UnsupportedError
            The task is unknown, or a single booster cannot hold all tasks.
        """
        check_is_fitted(self, "model_")
        return self.model_.booster(task)

    def report(self) -> pd.DataFrame:
        """Summarise each task; see :meth:`.MultiTaskModel.report`.

        Returns
        -------
        pandas.DataFrame
            One row per task: rows, rounds and validation scores.
        """
        check_is_fitted(self, "model_")
        return self.model_.report()

    def plot_history(self, *, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Plot the validation metric of each task; see :meth:`.MultiTaskModel.plot_history`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default new ones.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the curves.

        Raises
        ------
        DataError
            No task has a validation curve.
        """
        check_is_fitted(self, "model_")
        return self.model_.plot_history(ax=ax)

    def report_html(self, path: PathName, X: Any = None, y: Any = None, **options: Any) -> None:
        """Write a report to one HTML file; see :meth:`.MultiTaskModel.report_html`.

        Parameters
        ----------
        path : str, bytes or path-like
            An existing file is replaced in one step.
        X : table of shape (n_rows, n_features), or mapping of task name to table, optional
            Rows that the model was not trained on.
        y : array-like of shape (n_rows,), or mapping of task name to array-like, optional
            Their labels, classes as in training.
        **options
            Further arguments of :meth:`.MultiTaskModel.report_html`.

        Raises
        ------
        DataError, ParameterError, TypeError, MissingDependencyError, OSError
            As :meth:`.MultiTaskModel.report_html`.
        """
        check_is_fitted(self, "model_")
        self.model_.report_html(path, X, None if y is None else self._encode(y), **options)

    # ---- files ------------------------------------------------------------------------------

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        check_is_fitted(self, "model_")
        metadata, members = super()._to_parts()
        model, boosters = to_parts(self.model_.__getstate__())
        return {**metadata, "model": json.dumps(model)}, {**members, **boosters}

    def _set_from_file(self, content: dict[str, Any]) -> None:
        super()._set_from_file(content)
        metadata = {**json.loads(content["model"]), "format": content["format"]}
        self.model_ = MultiTaskModel._from_file(metadata, content["files"])
        self.tasks_, self.quit_round_ = self.model_.tasks, self.model_.quit_round
        self.callbacks_ = ()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags
