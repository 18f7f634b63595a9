# SPDX-License-Identifier: Apache-2.0
"""The scikit-learn classifier of related tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelEncoder

from mtboost.base.checks import check_choice
from mtboost.base.class_weights import weights_of_classes, weights_with_classes
from mtboost.base.frames import Output, like, predictions_as
from mtboost.base.renamed import renamed, without_parameters
from mtboost.base.several_labels import (
    in_order_of_labels,
    in_order_of_predictions,
    known_labels,
    names_of_labels,
    values_and_known,
)
from mtboost.base.sklearn_input import accuracy, check_classes, class_codes
from mtboost.errors import DataError, ParameterError
from mtboost.estimators.multi_task.base import (
    UNROUTED,
    UNROUTED_OUTPUT,
    MultiTaskEstimator,
    Objective,
    in_one_array,
)
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.prediction.predictions import OUTPUTS, UnknownTask
from mtboost.trees.backend import Backend
from mtboost.trees.losses import is_classification, is_multiclass


class MultiTaskClassifier(ClassifierMixin, MultiTaskEstimator):  # type: ignore[misc]
    """Classifier for related tasks: a common model, continued by a specific model for each task.

    By default validation rows decide how much the tasks share (``strategy="auto"``). Without a task
    it is gradient boosting of one model, whose kind of trees and rounds are chosen as well.

    Parameters
    ----------
    n_estimators : int, optional
        Maximum number of rounds of the common model: by default 5000, or 100 with
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
        ``strategy="auto"``, task splits or symmetric trees.
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
    unseen_at_random : bool, optional
        Whether missing values and categories that no training row of a node has go to a child at
        random, see :func:`mtboost.fit`. By default True with ``strategy="auto"`` and XGBoost.
    linear_effects : bool or "intercepts", optional
        Whether the model begins with linear effects that differ from task to task, see
        :func:`mtboost.fit`. By default False, or ``strategy="auto"`` searches.
    shrink_to_constant : bool, default=True
        Whether ``strategy="auto"`` shrinks predictions that the validation rows hardly prove to be
        better than a constant, see :func:`mtboost.fit`.
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
        ``"auto"`` is 0.2, or 0 for a single task; ``strategy="auto"`` with fewer than 10,000 rows
        (2000 with ``effort="fast"``) holds out several fifths, one after the other, until 2000
        rows have been held out, or all.
        With 0 every task uses all rounds of the common model and none gets a specific one, unless
        `early_stopping_rounds` is None.
    validation : {"random", "stratified", "last", "tasks"} or splitter, default="random"
        Rows that are held out: drawn at random, from each class of a task or from all its rows, or
        the last of each task by `time`, or those of whole tasks, to choose by how well new tasks
        are predicted, or those that a splitter of scikit-learn names, see :func:`mtboost.fit`.
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
        out; with ``strategy="auto"`` up to a quarter more, as there are more rows. By default True
        if `fit` itself holds rows out.
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

    __init__ = without_parameters("intervals")(MultiTaskEstimator.__init__)

    _saved: ClassVar = {**MultiTaskEstimator._saved, "classes_": np.ndarray}

    __metadata_request__predict_proba: ClassVar = UNROUTED_OUTPUT
    __metadata_request__decision_function: ClassVar = UNROUTED

    @renamed(where_in_a_method)
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

    @renamed(where_in_a_method)
    def predict_proba(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
        output: Output = "numpy",
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
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` and ``"polars"`` give a DataFrame with a column for each class, named by
            it (polars: by its text); ``"pandas"`` keeps the index of `X`, if it has one.

        Returns
        -------
        ndarray of float32, or float64 from LightGBM, or DataFrame; for a mapping, a dict of them
            Shape (n_rows, n_classes), in the order of ``classes_``, or (n_rows, n_labels,
            n_classes).

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is unknown (the known ones are listed).
        MissingDependencyError
            The library of `output` is not installed.
        """
        check_choice("output", output, OUTPUTS)
        X = self._fitted_table(X)
        found = self.model_.predict_proba(
            X,
            task=task,
            base_margin=base_margin,
            unknown_task=self._asked(unknown_task),
        )
        if output != "numpy" and getattr(found, "ndim", 2) > 2:
            raise ParameterError(
                f"output={output!r} is for one number a label, and the model has "
                f"{len(self.classes_)}: pass output='numpy'."
            )
        return predictions_as(output, found, X, self.classes_.tolist())

    @renamed(where_in_a_method)
    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
        output: Output = "numpy",
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
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` and ``"polars"`` give a Series named ``"prediction"``, or a DataFrame with
            a column for each label; ``"pandas"`` keeps the index of `X`, if it has one.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_labels), Series or DataFrame; or a dict of them
            Elements of ``classes_``.

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is unknown (the known ones are listed).
        MissingDependencyError
            The library of `output` is not installed.
        """
        check_choice("output", output, OUTPUTS)
        margins = self._margins(X, task=task, base_margin=base_margin, unknown_task=unknown_task)
        found = _each(self._most_probable, margins)
        return predictions_as(output, found, X, self.model_._labels)

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Compute the accuracy of :meth:`predict`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``. With a mapping `y` and `sample_weight` are mappings, too.
        y : array-like of shape (n_rows,) or (n_rows, n_labels)
            True classes.
        sample_weight : array-like of shape (n_rows,) or (n_rows, n_labels), optional
            Row weights >= 0.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.

        Returns
        -------
        float
            Fraction of the weight of the rows, of several labels a row that of the known labels,
            that is classified correctly.
        """
        predicted = in_one_array("predictions", self.predict(X, task=task), X)
        y = in_one_array("y", y, X)
        sample_weight = in_one_array("sample_weight", sample_weight, X)
        names = self.model_._labels
        y = in_order_of_predictions(y, predicted, names)
        sample_weight = in_order_of_labels("sample_weight", sample_weight, names)
        if names_of_labels(y) is None:
            return accuracy(y, predicted, sample_weight)
        values, is_known = values_and_known(y)
        if sample_weight is not None:
            weights = np.asarray(sample_weight).reshape(len(values), -1)
            sample_weight = np.broadcast_to(weights, values.shape)[is_known]
        labels, found = (class_codes(own[is_known], self.classes_) for own in (values, predicted))
        return accuracy(labels, found, sample_weight)

    def _learn_labels(self, y: Any, library: Backend) -> Objective:
        labels = np.concatenate(list(y.values())) if isinstance(y, Mapping) else y
        if names_of_labels(labels) is not None:
            labels = known_labels(labels)
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

    def _encode(self, y: Any, argument: str = "y") -> Any:
        if isinstance(y, Mapping) or names_of_labels(y) is None:
            return _each(partial(class_codes, classes=self.classes_, argument=argument), y)
        values, is_known = values_and_known(y)
        codes = np.full(values.shape, np.nan)
        codes[is_known] = class_codes(values[is_known], self.classes_, argument)
        return like(y, codes)

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


def _each(function: Callable[[Any], Any], values: Any) -> Any:
    """Apply a function to an array, or to each task's."""
    if isinstance(values, Mapping):
        return {task: function(part) for task, part in values.items()}
    return function(values)
