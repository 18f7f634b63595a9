# SPDX-License-Identifier: Apache-2.0
"""scikit-learn estimators: parameters in, :func:`mtboost.fit`, attributes out."""

from __future__ import annotations

import abc
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from mtboost.base.arrays import as_array
from mtboost.base.atomic_file import PathName
from mtboost.base.checks import check_type
from mtboost.base.class_weights import ClassWeight, weights_of_classes, weights_with_classes
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.frames import like
from mtboost.base.renamed import renamed, without_parameters
from mtboost.base.several_labels import names_of_labels, values_and_known
from mtboost.base.sklearn_input import (
    accuracy,
    check_classes,
    checked_labels,
    checked_table,
    r2,
    reading_numbers,
)
from mtboost.base.tables import Table, TaskColumn, as_table, columns_of
from mtboost.base.task_tables import CommonFeatures, check_task_keys, is_mapping
from mtboost.base.task_weights import TaskWeight
from mtboost.base.tasks import TaskName
from mtboost.base.threads import threads_of_jobs
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.estimators.files import SavedEstimator
from mtboost.estimators.tree_parameters import seed_of
from mtboost.model.arguments import EvalMetric, Strategy, TaskSplits, Validation, strategy_of
from mtboost.model.fitting import fit
from mtboost.model.keywords import where_it_belongs
from mtboost.model.libraries import get_backend
from mtboost.model.model import MultiTaskModel
from mtboost.model.parts import to_parts
from mtboost.model.predictions import UnknownTask
from mtboost.model.sharing.effort import EffortOption
from mtboost.trees.backend import Backend
from mtboost.trees.feature_weights import PriorOption
from mtboost.trees.losses import has_bounds, is_classification, is_multiclass, is_survival
from mtboost.trees.pooled_leaves import PoolingOption
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
# Says how to predict and nothing about rows, which is what scikit-learn routes.
_UNROUTED = {"unknown_task": UNUSED}


#: Parameters that ``fit`` has by the same name.
_OF_FIT = (
    "effort",
    "split_score",
    "beta",
    "pooling",
    "task_splits",
    "symmetric_trees",
    "random_strength",
    "linear_effects",
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


class _MultiTaskEstimator(SavedEstimator):
    """Shared part of classifier and regressor; parameters: :class:`MultiTaskClassifier`."""

    _saved: ClassVar = {
        "n_features_in_": int,
        "feature_names_in_": np.ndarray | None,
        "_tables_differ": bool,
        "_place_of": dict,
    }
    __metadata_request__predict: ClassVar = _UNROUTED

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
        linear_effects: bool | None = None,
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
        self.linear_effects = linear_effects
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
            Validation rows, instead of a part of `X`.

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

    def _fit(
        self,
        X: Any,
        y: Any,
        *,
        task: Any,
        sample_weight: Any,
        base_margin: Any,
        eval_set: Sequence[Any] | None,
        **rows: Any,
    ) -> Self:
        """Fit as :meth:`fit` does; `rows` are further arguments of :func:`mtboost.fit`."""
        library = self._begin(task)
        table = None
        if is_mapping(X):
            check_task_keys("y", y, X)
            y = {name: self._check_labels(labels) for name, labels in y.items()}
        else:
            if has_bounds(self.objective) or names_of_labels(y) is None:
                y = self._check_labels(y)
            checked = self._check_table(X, reset=True)
            used = None if self.time is None else set(map(str, X.columns)) - {self.time}
            table = as_table(checked, task_column=self.task, used=used)
            if sample_weight is not None and as_array(sample_weight).ndim < 2:
                with reading_numbers("sample_weight"):
                    sample_weight = _check_sample_weight(sample_weight, table.native)
        objective = self._learn_labels(y, library)
        y = self._encode(y)
        if eval_set is not None and len(eval_set) > 1:
            eval_set = (eval_set[0], self._encode(eval_set[1]), *eval_set[2:])
        sample_weight, eval_set = self._weigh_classes(y, sample_weight, eval_set)
        rounds = (self.early_stopping_rounds, self.min_delta, self.validation_fraction, eval_set)
        strategy = strategy_of(self.strategy, objective, *rounds)
        self._train(
            fit,
            library,
            strategy,
            X if table is None else table.native,
            y,
            task=self.task if task is None else task,
            objective=objective,
            eval_set=eval_set,
            weight=sample_weight,
            base_margin=base_margin,
            **rows,
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
        # Should this fit fail, an earlier model would have the wrong classes and columns.
        self.__dict__.pop("model_", None)
        return get_backend(self.backend)

    def _train(
        self,
        train: Callable[..., MultiTaskModel],
        library: Backend,
        strategy: Strategy,
        X: Any,
        y: Any,
        **rows: Any,
    ) -> None:
        """Train the model by :func:`mtboost.fit`, or what has its arguments."""
        n_estimators = self.n_estimators
        if n_estimators is None and strategy == "two-stage":
            n_estimators = _N_ESTIMATORS
        # Callbacks keep what they have seen, which must not reach another fit.
        self.callbacks_ = tuple(copy.deepcopy(() if self.callbacks is None else self.callbacks))
        self.model_ = train(
            X,
            y,
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

    @abc.abstractmethod
    def _encode(self, y: Any) -> Any:
        """Labels as the numbers that are trained on."""

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
        return checked_table(self, X, task_column=self.task, reset=reset, time_column=self.time)

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
        :meth:`MultiTaskModel.importance` offers other kinds, for one task.
        """
        check_is_fitted(self, "model_")
        importances = np.zeros(self.n_features_in_)
        for task in self.tasks_:
            gains = self.model_.importance(task)
            total = sum(gains.values()) or 1.0
            for name, gain in gains.items():
                importances[self._place_of[name]] += gain / total
        return importances / (importances.sum() or 1.0)

    def booster(self, task: TaskName | None = None) -> Any:
        """Return an ordinary booster of a task, or of all; see :meth:`MultiTaskModel.booster`.

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
            The task is unknown, or there is no one booster of all tasks.
        """
        check_is_fitted(self, "model_")
        return self.model_.booster(task)

    def report(self) -> pd.DataFrame:
        """Summarise each task; see :meth:`MultiTaskModel.report`.

        Returns
        -------
        pandas.DataFrame
            One row per task: rows, rounds and validation scores.
        """
        check_is_fitted(self, "model_")
        return self.model_.report()

    def plot_history(self, *, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Plot the validation metric of each task; see :meth:`MultiTaskModel.plot_history`.

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
        """Write a report to one HTML file; see :meth:`MultiTaskModel.report_html`.

        Parameters
        ----------
        path : str, bytes or path-like
            An existing file is replaced in one step.
        X : table of shape (n_rows, n_features), or mapping of task name to table, optional
            Rows that the model was not trained on.
        y : array-like of shape (n_rows,), or mapping of task name to array-like, optional
            Their labels, classes as in training.
        **options
            Further arguments of :meth:`MultiTaskModel.report_html`.

        Raises
        ------
        DataError, ParameterError, TypeError, MissingDependencyError, OSError
            As :meth:`MultiTaskModel.report_html`.
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


class MultiTaskClassifier(ClassifierMixin, _MultiTaskEstimator):  # type: ignore[misc]
    """Classifier for related tasks: a common model, continued by a specific model for each task.

    By default validation rows decide how much the tasks share (``strategy="auto"``). Without a task
    it is gradient boosting of one model, whose kind of trees and rounds are chosen as well.

    Parameters
    ----------
    n_estimators : int, optional
        Maximum number of rounds of the common model: by default 2000, or 100 with
        ``strategy="two-stage"``.
    learning_rate : float, optional
        Step size: factor on the leaf values of each tree. By default .02 (.1 with more than 100,000
        rows, or with ``strategy="two-stage"``). The tree parameters after it, down to
        `interaction_constraints`, have the meaning and, but for `max_depth`, the default of the
        library.
    max_depth : int, optional
        Maximum depth of a tree. Where nothing says how large trees are, it is 4 (LightGBM:
        `max_leaves` is 16), or ``strategy="auto"`` searches.
    max_leaves : int, optional
        Maximum number of leaves of a tree (LightGBM: ``num_leaves``).
    grow_policy : {"depthwise", "lossguide"}, optional
        Split nodes level by level, or the node with the largest gain first. XGBoost only.
    min_child_weight : float, optional
        Minimum sum of hessians of a child (LightGBM: ``min_sum_hessian_in_leaf``).
    gamma : float, optional
        Minimum gain of a split (LightGBM: ``min_gain_to_split``).
    reg_lambda : float, optional
        L2 penalty on leaf values.
    reg_alpha : float, optional
        L1 penalty on leaf values.
    max_delta_step : float, optional
        Maximum absolute leaf value before `learning_rate` is applied.
    subsample : float in (0, 1], optional
        Fraction of the rows drawn for each tree. With LightGBM rows are drawn in every round,
        unless `params` has another ``bagging_freq``.
    colsample_bytree : float in (0, 1], optional
        Fraction of the features drawn for each tree.
    colsample_bylevel : float in (0, 1], optional
        Fraction of the features drawn for each level. XGBoost only.
    colsample_bynode : float in (0, 1], optional
        Fraction of the features drawn for each node.
    max_bin : int, optional
        Maximum number of bins of a feature.
    monotone_constraints : sequence of int, str or mapping, optional
        Direction of the effect of each feature, -1, 0 or 1, by position, in XGBoost also by name.
        The task column has none.
    interaction_constraints : sequence of sequences or str, optional
        Groups of features that may occur together on a path of a tree, as in the library.
    objective : str, optional
        The library's name of an objective for classes; by default ``"binary:logistic"``, or
        ``"multi:softprob"`` for more than two classes, of LightGBM ``"binary"`` and
        ``"multiclass"``.
    backend : {"xgboost", "lightgbm"}, default="xgboost"
        The library whose bins, parameters and boosters are used.
    params : mapping, optional
        Further parameters of the library, such as ``max_cat_to_onehot``.
    strategy : {"auto", "two-stage"}, optional
        ``"auto"``, the default unless another parameter rules it out, searches how much the tasks
        should share, see :func:`mtboost.fit`. It keeps what other parameters fix and searches the
        rest, so leave `learning_rate`, `max_depth` and `subsample` unset as well.
    effort : {"fast", "balanced", "thorough"} or float, default="balanced"
        How much ``strategy="auto"`` searches, or for how many seconds, see :func:`mtboost.fit`.
    split_score : {"entropy", "variance", "plain"} or callable, optional
        See :func:`mtboost.make_split_score`. By default ``"entropy"``, or ``"plain"`` with
        ``strategy="auto"``.
    beta : float or "auto", default="auto"
        Weight of the variance in ``split_score="variance"``, see :func:`mtboost.make_split_score`.
    pooling : float, sequence of float or "auto", optional
        κ of partially pooled leaves, see :func:`mtboost.fit`. By default leaves are pooled
        completely, or ``strategy="auto"`` searches.
    task_splits : bool, float or "descriptors", optional
        Whether nodes may separate tasks, see :func:`mtboost.fit`. By default they may not, or
        ``strategy="auto"`` searches.
    symmetric_trees : bool, optional
        Whether all nodes of a level have the same split, see :func:`mtboost.fit`. By default False,
        or ``strategy="auto"`` searches.
    random_strength : float, optional
        Noise in the choice of the splits of symmetric trees, see :func:`mtboost.fit`. By default 0,
        or ``strategy="auto"`` searches.
    linear_effects : bool, optional
        Whether the model begins with linear effects that differ from task to task, see
        :func:`mtboost.fit`. By default False, or ``strategy="auto"`` searches.
    n_ensemble : int, default=1
        Number of models of different seeds whose mean this is, see :func:`mtboost.fit`.
    task : str or int, or list of str, optional
        Column of `X` that contains the task of each row: its name, or its position in an array; or
        the columns of nested tasks, outermost first, as in ``["region", "store"]``. It is not used
        as a feature. scikit-learn's scorers cannot pass tasks to ``predict``, so use this parameter
        with ``cross_val_score``, ``GridSearchCV`` and the like.
    early_stopping_rounds : int or None, default=20
        Rounds without improvement after which a task quits the common model, and a specific model
        ends. None: all tasks use all rounds of both stages, see :func:`mtboost.fit`.
    min_delta : float, default=0.0
        Smaller improvements do not count.
    eval_metric : str, Metric or scorer, or sequence of them, optional
        By default the objective's. Of a sequence the last one ends training, see
        :func:`mtboost.fit`.
    validation_fraction : float in [0, 1) or "auto", default="auto"
        Fraction of the rows of each task that is held out, unless ``fit`` gets `eval_set`.
        ``"auto"`` is 0.2, or 0 for a single task; ``strategy="auto"`` with fewer than 2000 rows
        holds out each row once, in five folds. With 0 every task uses all rounds of the common
        model and none gets a specific one.
    validation : {"random", "stratified", "last"} or splitter, default="random"
        Rows that are held out: drawn at random, from each class of a task or from all its rows, or
        the last of each task by `time`, or those that a splitter of scikit-learn names, see
        :func:`mtboost.fit`.
    time : str, optional
        Column of the data frame `X` with the time of each row, for ``validation="last"``. It is not
        used as a feature.
    specific_params : mapping, optional
        Parameters of the library that differ in the specific models.
    specific_rounds : int, default=500
        Maximum number of rounds of a specific model; 0 for none.
    feature_prior : "auto", mapping of feature name to float, or array-like, optional
        Importances by which the specific models draw their features, see :func:`mtboost.fit`.
    task_weight : mapping of task name to float, or "balanced", optional
        Factor on the row weights of each task. ``"balanced"`` gives all tasks the same total.
    refit : bool, optional
        Train both stages again on all rows of `X`, with the numbers of rounds found on those held
        out. By default True if `fit` itself holds rows out.
    common_features : sequence of str or "all", optional
        Columns of the common model; by default those that every task has. ``"all"`` are the columns
        of any task, missing in the rows of a task that lacks them.
    unknown_task : {"error", "common"}, default="error"
        What predictions do with rows of a task that was not trained, unless they say otherwise:
        refuse them, or predict them with the common model, as cross-validation by
        ``LeaveOneGroupOut`` needs it.
    callbacks : sequence of callbacks, optional
        The library's, for the common model. Each fit uses copies, which are in ``callbacks_``
        afterwards.
    verbose : bool or int, default=False
        Show progress, see :func:`mtboost.fit`.
    n_jobs : int, optional
        Threads of ``fit``, by default the cores this process may use, or one for a small table; -1
        are all cores. The model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the validation split and of all sampling. With an int each fit is the same.
    class_weight : mapping of class to float, or "balanced", optional
        Factor on the weight of each row by its class, of validation rows too; classes that the
        mapping lacks have 1. ``"balanced"`` gives all classes the same total weight over the rows
        of all tasks: n_rows / (n_classes * rows of the class), as in scikit-learn. Probabilities
        are then those of rows weighted like this.
    scale_pos_weight : float, optional
        Factor on the loss of rows of ``classes_[1]``, for two classes: the library's parameter.
        With ``strategy="auto"`` validation rows are weighted by it, too; otherwise, as in the
        libraries, validation metrics ignore it.
    calibrate : bool, default=False
        Calibrate the probabilities of two classes on held-out rows, see :func:`mtboost.fit`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels of all tasks. A task may lack some.
    model_ : MultiTaskModel
        The fitted model; its classes are 0, 1, ...
    tasks_ : tuple of task names
        ``("all",)`` without a task.
    quit_round_ : dict of task name to int
        Rounds of the common model that each task uses.
    callbacks_ : tuple of callbacks
        The copies of `callbacks` that the fit used.
    feature_importances_ : ndarray of float64, shape (n_features,)
        Mean gain of the splits on each column of `X`, averaged over the tasks. They sum to 1.
    n_features_in_ : int
        Number of columns of `X`, including the task column; of a mapping, of different columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where all are strings.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from mtboost import MultiTaskClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> task = rng.integers(0, 2, 300)
    >>> y = np.where(X[:, 0] + task * X[:, 1] > 0, "yes", "no")
    >>> model = MultiTaskClassifier(n_estimators=20, max_depth=3).fit(X, y, task=task)
    >>> model.predict_proba(X, task=task).shape
    (300, 2)

    The task as a column of the table, for the tools of scikit-learn:

    >>> model = MultiTaskClassifier(n_estimators=10, max_depth=2, task=3)
    >>> scores = cross_val_score(model, np.column_stack([X, task]), y, cv=2, scoring="roc_auc")
    >>> bool(scores.min() > 0.9)
    True

    References
    ----------
    zhang2019, section 3 (key in docs/papers.md).
    """

    __init__ = without_parameters("intervals")(_MultiTaskEstimator.__init__)

    _saved: ClassVar = {**_MultiTaskEstimator._saved, "classes_": np.ndarray}

    __metadata_request__predict_proba: ClassVar = _UNROUTED
    __metadata_request__decision_function: ClassVar = _UNROUTED

    def decision_function(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
    ) -> Any:
        """Compute the margins: log-odds of ``classes_[1]``, or one margin per class.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margins that each row starts from, if ``fit`` had them.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the common model. By default the parameter of the estimator.

        Returns
        -------
        ndarray of float32, or float64 from LightGBM; for a mapping, a dict of them
            Shape (n_rows,) or (n_rows, n_classes).

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is unknown (the known ones are listed).
        """
        return self._margins(X, task=task, base_margin=base_margin, unknown_task=unknown_task)

    def predict_proba(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
    ) -> Any:
        """Compute the probability of each class.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margins that each row starts from, if ``fit`` had them.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the common model. By default the parameter of the estimator.

        Returns
        -------
        ndarray of float32, or float64 from LightGBM; for a mapping, a dict of them
            Shape (n_rows, n_classes), in the order of ``classes_``, or (n_rows, n_labels,
            n_classes).

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is unknown (the known ones are listed).
        """
        X = self._fitted_table(X)
        return self.model_.predict_proba(
            X, task=task, base_margin=base_margin, unknown_task=self._asked(unknown_task)
        )

    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
    ) -> Any:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margins that each row starts from, if ``fit`` had them.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the common model. By default the parameter of the estimator.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_labels); for a mapping, a dict of them
            Elements of ``classes_``.

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is unknown (the known ones are listed).
        """
        margins = self._margins(X, task=task, base_margin=base_margin, unknown_task=unknown_task)
        return _each(self._most_probable, margins)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Compute the accuracy of :meth:`predict`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like of shape (n_rows,) or (n_rows, n_labels)
            True classes.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.

        Returns
        -------
        float
            Fraction of the weight of the rows, of several labels a row that of the known labels,
            that is classified correctly.
        """
        predicted = self.predict(X, task=task)
        if names_of_labels(y) is None:
            return accuracy(y, predicted, sample_weight)
        values, is_known = values_and_known(y)
        if sample_weight is not None:
            weights = np.asarray(sample_weight).reshape(len(values), -1)
            sample_weight = np.broadcast_to(weights, values.shape)[is_known]
        return accuracy(
            self._codes(values[is_known]), self._codes(predicted[is_known]), sample_weight
        )

    def _learn_labels(self, y: Any, library: Backend) -> Objective:
        labels = np.concatenate(list(y.values())) if isinstance(y, Mapping) else y
        if names_of_labels(labels) is not None:
            values, is_known = values_and_known(labels)
            labels = values[is_known]
            if self.class_weight is not None:
                raise ParameterError(
                    "class_weight is for one label a row: pass sample_weight of shape (n_rows, "
                    "n_labels)."
                )
        check_classes(labels)
        self.classes_ = LabelEncoder().fit(labels).classes_
        n_classes = len(self.classes_)
        if n_classes < 2:
            found = f"one class only, {self.classes_.tolist()[0]!r}" if n_classes else "no labels"
            raise DataError(f"y has {found}: a classifier needs two classes.")
        objective = self.objective
        if objective is None:
            objective = library.binary if n_classes == 2 else library.multiclass
        if not is_classification(objective):
            raise ParameterError(
                f"objective={objective!r} gives no probabilities of classes: choose "
                f"{library.binary!r} or {library.multiclass!r}, or train it by mtboost.fit."
            )
        if n_classes > 2 and not is_multiclass(objective):
            raise ParameterError(
                f"objective={objective!r} is for two classes, but y has {n_classes}: choose "
                f"{library.multiclass!r}."
            )
        return objective

    def _encode(self, y: Any) -> Any:
        if isinstance(y, Mapping) or names_of_labels(y) is None:
            return _each(self._codes, y)
        values, is_known = values_and_known(y)
        codes = np.full(values.shape, np.nan)
        codes[is_known] = self._codes(values[is_known])
        return like(y, codes)

    def _codes(self, y: Any) -> Any:
        encoder = LabelEncoder()
        encoder.classes_ = self.classes_
        return encoder.transform(y)

    def _weigh_classes(
        self, y: Any, sample_weight: Any, eval_set: Sequence[Any] | None
    ) -> tuple[Any, Sequence[Any] | None]:
        if self.class_weight is None:
            return sample_weight, eval_set
        factors = weights_of_classes(self.class_weight, self.classes_, y)
        weight = weights_with_classes("sample_weight", sample_weight, y, factors)
        if eval_set is not None and 1 < len(eval_set) < 6:
            X_valid, y_valid, task, own, *margin = [*eval_set, None, None][: max(4, len(eval_set))]
            own = weights_with_classes("eval_set: weight", own, y_valid, factors)
            eval_set = (X_valid, y_valid, task, own, *margin)
        return weight, eval_set

    def _library_parameters(self, library: Backend) -> dict[str, Any]:
        if self.scale_pos_weight is not None and len(self.classes_) > 2:
            raise ParameterError(
                f"scale_pos_weight is for two classes, but y has {len(self.classes_)}: pass "
                "class_weight={class: weight}."
            )
        return super()._library_parameters(library)

    def _most_probable(self, margins: npt.NDArray[np.floating]) -> npt.NDArray[Any]:
        number = margins > 0 if self.model_._stage.n_outputs == 1 else margins.argmax(axis=-1)
        classes: npt.NDArray[Any] = self.classes_[number.astype(np.intp)]
        return classes


@shares_docstring_of(MultiTaskClassifier, without=["classes_"])
class MultiTaskRegressor(RegressorMixin, _MultiTaskEstimator):  # type: ignore[misc]
    """Regressor for related tasks: a common model, continued by a specific model for each task.

    By default validation rows decide how much the tasks share (``strategy="auto"``). Without a task
    it is gradient boosting of one model, whose kind of trees and rounds are chosen as well.

    Parameters
    ----------
    objective : str or callable, optional
        The library's name of an objective, by default squared error, or a function ``(margins,
        DMatrix or Dataset) -> gradient, hessian``.
    validation_fraction : float in [0, 1) or "auto", default="auto"
        Fraction of the rows of each task that is held out, unless ``fit`` gets `eval_set`.
        ``"auto"`` is 0.2, or 0 for a single task; ``strategy="auto"`` with fewer than 2000 rows
        holds out each row once, in five folds. With 0 every task uses all rounds of the common
        model and none gets a specific one.
    intervals : bool, default=False
        Keep the errors of held-out rows for :meth:`predict_interval`, see :func:`mtboost.fit`.

    Attributes
    ----------
    model_ : MultiTaskModel
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import MultiTaskRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> school = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] + (school == "b") + 0.1 * rng.normal(size=300)
    >>> model = MultiTaskRegressor(n_estimators=50, max_depth=3).fit(X, y, task=school)
    >>> model.predict(X, task=school).shape
    (300,)
    >>> type(model.booster("b")).__name__  # of XGBoost
    'Booster'

    References
    ----------
    zhang2019, section 3 (key in docs/papers.md).
    """

    __init__ = without_parameters("class_weight", "scale_pos_weight", "calibrate")(
        _MultiTaskEstimator.__init__
    )

    __metadata_request__predict: ClassVar = {**_UNROUTED, "sort_levels": UNUSED}

    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
        sort_levels: bool = False,
    ) -> Any:
        """Predict on the scale of the labels.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        base_margin : array-like of shape (n_rows,), optional
            Margin that each row starts from, if ``fit`` had one.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the common model. By default the parameter of the estimator.
        sort_levels : bool, default=False
            Whether quantiles of several levels are sorted in each row (docs/quantiles.md).

        Returns
        -------
        ndarray of float32, or float64 from LightGBM, shape (n_rows,); for a mapping, a dict of them
            In the unit of the labels. Of several labels a row the shape is (n_rows, n_labels), of
            quantiles of several levels (n_rows, n_levels).

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is unknown (the known ones are listed).
        """
        X = self._fitted_table(X)
        return self.model_.predict(
            X,
            task=task,
            base_margin=base_margin,
            unknown_task=self._asked(unknown_task),
            sort_levels=sort_levels,
        )

    def predict_interval(
        self,
        X: Any,
        *,
        task: Any = None,
        alpha: float = 0.1,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
    ) -> Any:
        """Predict intervals that contain the labels of new rows with probability 1 - `alpha`.

        Needs the parameter `intervals`, or :meth:`conformalize`; see
        :meth:`MultiTaskModel.predict_interval`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        alpha : float in (0, 1), default=0.1
            Probability that a label is outside.
        base_margin : array-like of shape (n_rows,), optional
            Margin that each row starts from, if ``fit`` had one.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained. By default the parameter of the
            estimator.

        Returns
        -------
        ndarray of float64, shape (n_rows, 2); for a mapping, a dict of them
            Lower and upper bound, in the unit of the labels.

        Raises
        ------
        DataError, ValueError
            There are no held-out errors, or as :meth:`predict`.
        """
        X = self._fitted_table(X)
        return self.model_.predict_interval(
            X,
            task=task,
            alpha=alpha,
            base_margin=base_margin,
            unknown_task=self._asked(unknown_task),
        )

    def conformalize(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
    ) -> Self:
        """Learn the widths of intervals from rows that ``fit`` has not seen.

        See :meth:`MultiTaskModel.conformalize`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        y : array-like of shape (n_rows,)
            Labels.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0; rows of weight 0 are left out, all others count alike.
        base_margin : array-like of shape (n_rows,), optional
            Margin that each row starts from, if ``fit`` had one.

        Returns
        -------
        self
            With other intervals.

        Raises
        ------
        DataError, ValueError
            The rows do not fit the model, or a task is unknown.
        """
        X = self._fitted_table(X)
        self.model_ = self.model_.conformalize(
            X, y, task=task, weight=sample_weight, base_margin=base_margin
        )
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Compute the coefficient of determination of :meth:`predict`, or a concordance.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like of shape (n_rows,) or (n_rows, n_labels)
            True numbers, or times as in ``fit``.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.

        Returns
        -------
        float
            R²: 1 for perfect predictions, 0 for those of the mean. Of several labels a row their
            mean, each over the rows that know it. Of an objective of survival the concordance: 1
            for the right order of times, one half by chance (docs/survival.md).

        Raises
        ------
        UnsupportedError
            The model predicts quantiles of several levels.
        """
        if self.model_._stage.n_outputs > 1:
            raise UnsupportedError(
                "score() is R², of one prediction a row, and this model predicts quantiles of "
                "several levels: pass scoring=task_scorer('quantile@0.1,0.9', task=...) of "
                "mtboost.metrics, with its levels."
            )
        if is_survival(self.objective):
            table = self.model_.evaluate(
                self._fitted_table(X),
                y,
                task=task,
                weight=sample_weight,
                metrics="concordance",
                n_bootstrap=2,
            )
            return float(table["concordance"].iloc[-1])  # of all tasks together
        predicted = self.predict(X, task=task)
        if names_of_labels(y) is None:
            return r2(y, predicted, sample_weight)
        values, is_known = values_and_known(y)
        weights = np.ones(1) if sample_weight is None else np.asarray(sample_weight)
        weights = np.broadcast_to(weights.reshape(len(weights), -1), values.shape)
        columns = zip(values.T, predicted.T, weights.T, is_known.T, strict=True)
        return float(np.mean([r2(own[k], found[k], w[k]) for own, found, w, k in columns]))

    def _learn_labels(self, y: Any, library: Backend) -> Objective:
        return library.squared_error if self.objective is None else self.objective

    def _encode(self, y: Any) -> Any:
        return y


def _each(function: Callable[[Any], Any], values: Any) -> Any:
    """Apply a function to an array, or to each task's."""
    if isinstance(values, Mapping):
        return {task: function(part) for task, part in values.items()}
    return function(values)
