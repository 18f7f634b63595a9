# SPDX-License-Identifier: Apache-2.0
"""MT-ExtraTrees: extremely randomised trees that may also split tasks (simm2014)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_choice, check_number
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.labels import check_magnitude
from mtboost.base.renamed import renamed
from mtboost.base.sklearn_input import (
    accuracy,
    as_numbers,
    checked_labels,
    encode_classes,
    r2,
)
from mtboost.estimators.forests.base import (
    CLASSIFIER_ATTRIBUTES,
    LARGEST_LABEL,
    REGRESSOR_ATTRIBUTES,
    BaseForest,
    ForestLabels,
)
from mtboost.estimators.tree_parameters import MaxFeatures
from mtboost.model.inputs.keywords import where_in_a_method


class _MTExtraTrees(BaseForest):
    """Shared part of classifier and regressor; parameters: :class:`MTExtraTreesClassifier`."""

    splitter: Literal["random", "best"]
    task_split_prob: float
    alpha: float

    @renamed(where_in_a_method)
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy array, SciPy sparse matrix, pandas or polars DataFrame, or pyarrow Table of
            numbers; NaN means missing.
        y : array-like of shape (n_rows,)
            Labels: numbers, or classes of any type for a classifier.
        task : array-like of shape (n_rows,), optional
            Task of each row, int or str, unless the parameter ``task`` names a column of `X`.
            Without both there is a single task.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0; 0 leaves a row out.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        DataError, ParameterError, ValueError
            Before any tree grows, if something does not fit together.
        """
        check_number("task_split_prob", self.task_split_prob, low=0.0, high=1.0)
        check_number("alpha", self.alpha, low=0.0)
        check_choice("splitter", self.splitter, ("random", "best"))
        return self._fit(X, y, task, sample_weight)

    @renamed(where_in_a_method)
    def apply(self, X: Any, *, task: Any = None) -> npt.NDArray[np.int32]:
        """Return the leaf of each tree that each row reaches.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it. A row of a task that ``fit`` has not seen goes, at
            a task split, to the side of the mean of all tasks.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_estimators)
            Numbers of nodes.

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or only one of the two has a task.
        """
        return self._leaves(X, task)

    def _knows_tasks(self) -> bool:
        return len(self.tasks_) > 1

    def _core_parameters(self) -> dict[str, Any]:
        return {
            "splitter": self.splitter,
            "task_split_prob": float(self.task_split_prob),
            "alpha": float(self.alpha),
        }


class MTExtraTreesClassifier(ClassifierMixin, _MTExtraTrees):  # type: ignore[misc]
    """Extremely randomised trees for related tasks: nodes split by values or separate tasks.

    Rows of all tasks grow the same trees. In each node, beside random splits of features, a random
    task split, by the tasks' mean label in the node, is tried with probability `task_split_prob`;
    below it the two groups of tasks have separate subtrees. Where tasks behave alike they are not
    separated and share the rows. Without a task it is scikit-learn's ``ExtraTreesClassifier``.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    task_split_prob : float in [0, 1], default=0.25
        Probability that a node tries a task split (λ of the paper). 0 pools all tasks.
    alpha : float >= 0, default=1.0
        Shrinkage of the tasks' means towards the mean of all tasks, which counts as `alpha` rows.
    splitter : {"random", "best"}, default="random"
        One random split of each feature, or the best (with `bootstrap`, a random forest).
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Number of features that a node considers; a float is a fraction of them, None are all.
        Features that are constant in the node do not count.
    max_depth : int, optional
        Maximum depth of a tree.
    min_samples_split : int or float, default=2
        Minimum rows of a node that may be split; a float is a fraction of all rows.
    min_samples_leaf : int or float, default=10
        Minimum rows of each child; a float is a fraction of all rows. Probabilities of related
        tasks are better from larger leaves than scikit-learn's (benchmarks/mt_extra_trees.py); with
        1 and ``task_split_prob=0`` the trees are those of scikit-learn.
    bootstrap : bool, default=False
        Grow each tree on rows drawn with replacement.
    max_samples : int or float, optional
        Number of rows drawn for each tree with `bootstrap`; a float is a fraction of them. By
        default as many as there are.
    oob_score : bool, default=False
        Score each row by the trees that it was not drawn for.
    task : str or int, optional
        Column of `X` that contains the task of each row: its name, or its position in an array. It
        is not used as a feature. Needed for ``cross_val_score``, ``GridSearchCV`` and the like.
    warm_start : bool, default=False
        A further ``fit`` adds trees until there are `n_estimators`. Parameters may have changed and
        count for the new trees; tasks, columns, and classes or outputs must be the same.
    n_jobs : int, optional
        Threads, by default the cores this process may use, or one for a small table. Trees do not
        depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed; with an int each fit is the same.
    verbose : bool or int, default=False
        Show progress: a bar of tqdm, or without it lines in the log every `verbose` trees, but at
        most 50. Trees do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels of all tasks. A task may lack some.
    tasks_ : tuple of task names
        ``("all",)`` without a task.
    feature_importances_ : ndarray of float64, shape (n_features,)
        Share of each column in the decrease of impurity.
    task_importance_ : float
        Share of the task splits; with those of the features it sums to 1.
    oob_decision_function_ : ndarray of float64, shape (n_rows, n_classes)
        With `oob_score`: probabilities; NaN where a row was drawn for every tree.
    oob_score_ : float
        With `oob_score`: accuracy of these; NaN, with a warning, if no row has one.
    n_features_in_ : int
        Number of columns of `X`, including the task column.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where all are strings.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import MTExtraTreesClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> task = rng.integers(0, 2, 300)
    >>> y = X[:, 0] * np.where(task == 0, 1, -1) > 0  # opposite in the two tasks
    >>> forest = MTExtraTreesClassifier(20, random_state=0).fit(X, y, task=task)
    >>> forest.predict_proba(X, task=task).shape
    (300, 2)

    References
    ----------
    simm2014, section 3; geurts2006 (keys in docs/papers.md).
    """

    _saved: ClassVar = BaseForest._saved | CLASSIFIER_ATTRIBUTES

    @renamed(where_in_a_method)
    def __init__(
        self,
        n_estimators: int = 100,
        *,
        task_split_prob: float = 0.25,
        alpha: float = 1.0,
        splitter: Literal["random", "best"] = "random",
        max_features: MaxFeatures = "sqrt",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 10,
        bootstrap: bool = False,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        task: str | int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.task_split_prob = task_split_prob
        self.alpha = alpha
        self.splitter = splitter
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.task = task
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @renamed(where_in_a_method)
    @shares_docstring_of(_MTExtraTrees.apply, sections=["Raises"])
    def predict_proba(self, X: Any, *, task: Any = None) -> Float64Array:
        """Probability of each class: the mean over trees of its share in the row's leaf.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        return self._probabilities(self._outputs(X, task))

    @renamed(where_in_a_method)
    @shares_docstring_of(_MTExtraTrees.apply, sections=["Raises"])
    def predict(self, X: Any, *, task: Any = None) -> npt.NDArray[Any]:
        """Predict the most probable class of each row.

        Returns
        -------
        ndarray of shape (n_rows,)
            Elements of ``classes_``.
        """
        most_probable = self.predict_proba(X, task=task).argmax(axis=1)
        classes: npt.NDArray[Any] = self.classes_[most_probable]
        return classes

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Compute the accuracy of :meth:`predict`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like of shape (n_rows,)
            True classes.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.

        Returns
        -------
        float
            Fraction of the weight of the rows that is classified correctly.
        """
        return accuracy(y, self.predict(X, task=task), sample_weight)

    def _read_labels(self, y: Any) -> ForestLabels:
        y = checked_labels(self, y)
        classes, codes = encode_classes(y)
        n_classes = len(classes)
        arguments: dict[str, Any]
        if n_classes > 2:
            arguments = {"labels": codes.astype(np.uint32), "n_labels": n_classes}
        else:  # one number says both shares
            arguments = {"y": codes.astype(np.float64)[:, np.newaxis]}
        return ForestLabels(arguments, _n_shares(n_classes), {"classes_": classes})

    def _n_outputs(self) -> int:
        return _n_shares(len(self.classes_))

    def _probabilities(self, outputs: Float64Array) -> Float64Array:
        if len(self.classes_) > 2:
            return outputs
        if len(self.classes_) == 1:
            return np.ones_like(outputs)
        return np.hstack([1.0 - outputs, outputs])

    def _predict_out_of_bag(self, outputs: Float64Array) -> Float64Array:
        self.oob_decision_function_ = self._probabilities(outputs)
        return self.oob_decision_function_

    def _score_out_of_bag(self, predicted: Float64Array, y: Any) -> float:
        return float(accuracy_score(y, self.classes_[predicted.argmax(axis=1)]))


def _n_shares(n_classes: int) -> int:
    """Numbers that a leaf has for this many classes."""
    return n_classes if n_classes > 2 else min(n_classes, 1)


@shares_docstring_of(MTExtraTreesClassifier, without=["classes_", "oob_decision_function_"])
class MTExtraTreesRegressor(RegressorMixin, _MTExtraTrees):  # type: ignore[misc]
    """Extremely randomised trees for related tasks: nodes split by values or separate tasks.

    As :class:`MTExtraTreesClassifier`, with numbers as labels. Without a task it is scikit-learn's
    ``ExtraTreesRegressor``.

    Parameters
    ----------
    max_features : {"sqrt", "log2"}, int, float or None, default=1.0
        Number of features that a node considers; a float is a fraction of them, 1.0 and None are
        all. Features that are constant in the node do not count.
    min_samples_leaf : int or float, default=20
        Minimum rows of each child; a float is a fraction of all rows.

    Attributes
    ----------
    oob_prediction_ : ndarray of float64, shape (n_rows,)
        With `oob_score`: predictions; NaN where a row was drawn for every tree.
    oob_score_ : float
        With `oob_score`: R² of these; NaN, with a warning, if no row has one.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import MTExtraTreesRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> school = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] + (school == "b")
    >>> forest = MTExtraTreesRegressor(random_state=0).fit(X, y, task=school)
    >>> forest.predict(X, task=school).shape
    (300,)

    References
    ----------
    simm2014, section 3; geurts2006 (keys in docs/papers.md).
    """

    _saved: ClassVar = BaseForest._saved | REGRESSOR_ATTRIBUTES

    @renamed(where_in_a_method)
    def __init__(
        self,
        n_estimators: int = 100,
        *,
        task_split_prob: float = 0.25,
        alpha: float = 1.0,
        splitter: Literal["random", "best"] = "random",
        max_features: MaxFeatures = 1.0,
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 20,
        bootstrap: bool = False,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        task: str | int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.task_split_prob = task_split_prob
        self.alpha = alpha
        self.splitter = splitter
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.task = task
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @renamed(where_in_a_method)
    @shares_docstring_of(_MTExtraTrees.apply, sections=["Raises"])
    def predict(self, X: Any, *, task: Any = None) -> Float64Array:
        """Mean over trees of the mean label of the row's leaf.

        Returns
        -------
        ndarray of float64, shape (n_rows,)
            In the unit of the labels.
        """
        return self._outputs(X, task)[:, 0]

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Compute the coefficient of determination of :meth:`predict`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like of shape (n_rows,)
            True numbers.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.

        Returns
        -------
        float
            R²: 1 for perfect predictions, 0 for those of the mean.
        """
        return r2(y, self.predict(X, task=task), sample_weight)

    def _read_labels(self, y: Any) -> ForestLabels:
        y = checked_labels(self, y, y_numeric=True)
        y = as_numbers(y)
        check_magnitude(y, LARGEST_LABEL)
        return ForestLabels({"y": y[:, np.newaxis]}, 1, {})

    def _n_outputs(self) -> int:
        return 1

    def _predict_out_of_bag(self, outputs: Float64Array) -> Float64Array:
        self.oob_prediction_ = outputs[:, 0]
        return self.oob_prediction_

    def _score_out_of_bag(self, predicted: Float64Array, y: Any) -> float:
        return float(r2_score(y, predicted))
