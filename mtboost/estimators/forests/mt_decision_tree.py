# SPDX-License-Identifier: Apache-2.0
"""Decision trees that tasks with different labels share (faddoul2012)."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from mtboost import _core
from mtboost.base.archive import require
from mtboost.base.arrays import Float64Array, as_array
from mtboost.base.checks import check_choice, check_number, did_you_mean, listed
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.labels import as_float64_weights, check_sum_of_weights
from mtboost.base.renamed import renamed
from mtboost.base.sklearn_input import checked_labels, mixed_as_objects, reading_numbers
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError
from mtboost.estimators.forests.drawn_tree import DrawnTree, feature_names, importances
from mtboost.estimators.forests.task_classes import TaskClasses
from mtboost.estimators.table_estimator import CoreTable, TableEstimator, core_codes, core_table
from mtboost.estimators.tree_parameters import (
    MaxFeatures,
    checked_depth,
    features_per_node,
    rows_at_least,
    seed_of,
)
from mtboost.model.inputs.keywords import where_in_a_method

Criterion = Literal["joint", "sum", "max", "concat"]


@dataclass(frozen=True, eq=False)
class _TrainingRows:
    """Rows that trees grow on."""

    table: CoreTable
    tasks: npt.NDArray[np.uint32]
    labels: npt.NDArray[np.uint32]
    weights: Float64Array
    params: _core.MTTreeParams
    n_threads: int


class MTTreeEstimator(
    ClassifierMixin,  # type: ignore[misc]  # scikit-learn has no types
    TableEstimator,
    metaclass=abc.ABCMeta,
):
    """Common part of one tree and boosted trees, see :class:`MTDecisionTreeClassifier`."""

    criterion: Criterion
    purity: float
    max_depth: int | None
    min_samples_split: int | float
    min_samples_leaf: int | float
    max_features: MaxFeatures
    random_state: int | np.random.RandomState | None

    classes_: npt.NDArray[Any]
    task_classes_: dict[TaskName, npt.NDArray[Any]]
    _task_classes: TaskClasses

    def _learn(self, X: Any, y: Any, task: Any, sample_weight: Any) -> _TrainingRows:
        """Check everything, and remember names; what trees need to grow."""
        labels = checked_labels(self, mixed_as_objects(y))
        table, tasks = self._read(X, task, reset=True, y=y, sample_weight=sample_weight)
        check_consistent_length(table, labels)
        n_rows, n_features = table.shape
        weights = np.ones(n_rows)
        if sample_weight is not None:
            weights = as_float64_weights(sample_weight, n_rows, argument="sample_weight")
            check_sum_of_weights(weights)
        params = _core.MTTreeParams(
            criterion=check_choice("criterion", self.criterion, get_args(Criterion)),
            purity=check_number("purity", self.purity, above=0.0, high=1.0),
            max_features=features_per_node(self.max_features, n_features),
            max_depth=checked_depth(self.max_depth),
            min_samples_split=rows_at_least(self.min_samples_split, n_rows, "min_samples_split", 2),
            min_samples_leaf=rows_at_least(self.min_samples_leaf, n_rows, "min_samples_leaf", 1),
            seed=seed_of(self.random_state),
        )
        self.tasks_ = tasks.names
        classes, codes = TaskClasses.of(labels, tasks)
        self._set_classes(classes)
        return _TrainingRows(
            core_table(table),
            core_codes(tasks.codes),
            codes,
            weights,
            params,
            self._n_threads(table.size),
        )

    def _set_classes(self, classes: TaskClasses) -> None:
        self._task_classes, self.classes_ = classes, classes.union
        self.task_classes_ = dict(classes.by_task(self.tasks_))

    def _grow(
        self, columns: _core.SortedColumns, rows: _TrainingRows, weights: Float64Array, tree: int
    ) -> _core.MTDecisionTree:
        return _core.MTDecisionTree(
            columns,
            rows.params,
            class_starts=self._task_classes.starts,
            labels=rows.labels,
            weights=weights,
            tree=tree,
            n_threads=rows.n_threads,
        )

    def _read_known(self, X: Any, task: Any) -> tuple[CoreTable, npt.NDArray[np.uint32], int]:
        """A table, the codes of its tasks, all of which `fit` has seen, and threads for it."""
        table, labels = self._split(X, task, reset=False)
        codes = self._tasks.encode(labels, table.shape[0], unknown="keep")
        if len(codes) and codes.min() < 0:
            row = int(codes.argmin())
            name = as_array(labels).reshape(-1).tolist()[row]
            raise DataError(
                f"task label {name!r} at row {row} is unknown. Known: "
                f"{listed(self.tasks_, 'task')}.{did_you_mean(name, self.tasks_)} A tree decides "
                f"only for tasks that it was grown with."
            )
        return core_table(table), core_codes(codes), self._n_threads(table.size)

    def _labels_of(self, classes: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
        labels: npt.NDArray[Any] = self.classes_[self._task_classes.columns[classes]]
        return labels

    @abc.abstractmethod
    def predict(self, X: Any, *, task: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each row, one of its task's."""

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
        predicted = self.predict(X, task=task)
        check_consistent_length(predicted, y, sample_weight)
        with reading_numbers("y"):
            is_right = predicted == column_or_1d(mixed_as_objects(y))
        if sample_weight is None:
            return float(is_right.mean())
        weights = as_float64_weights(sample_weight, len(predicted), argument="sample_weight")
        return float(np.average(is_right, weights=weights))

    def _place_importances(self, own: Float64Array) -> Float64Array:
        """Those of the features as those of the columns of X."""
        return own if self.task is None else np.insert(own, self._task_place, 0.0)

    def _trees_to_file(self, trees: Sequence[_core.MTDecisionTree]) -> dict[str, Any]:
        return super()._to_file() | {
            "task_classes": asdict(self._task_classes),
            "trees": _core.mt_tree_arrays(list(trees)),
        }

    def _trees_from_file(self, content: dict[str, Any]) -> list[_core.MTDecisionTree]:
        """Set everything but the trees, and return them."""
        super()._set_from_file(content)
        classes = TaskClasses(**content["task_classes"])
        require(classes.fits(len(self.tasks_)), "the classes are of other tasks")
        self._set_classes(classes)
        trees = _core.mt_trees_from_arrays(content["trees"], n_features=self._n_features)
        require(len(trees) > 0, "there are no trees")
        for tree in trees:
            starts = tree.arrays()["class_starts"]
            require(np.array_equal(starts, classes.starts), "the trees are of other classes")
        return trees

    def _drawn(self, tree: _core.MTDecisionTree) -> DrawnTree:
        names = getattr(self, "feature_names_in_", None)
        features = feature_names(
            names, self.n_features_in_, None if self.task is None else self._task_place
        )
        return DrawnTree.of(tree, features, self.tasks_, self.classes_[self._task_classes.columns])


class MTDecisionTreeClassifier(MTTreeEstimator):
    """Decision tree for several tasks, whose classes may differ.

    All tasks grow one tree. Where the rows of a task share one class, that task is decided, while
    the others continue in the same tree. Tasks that are related in some region of the features
    share the splits there. With a single task it is a plain decision tree by information gain.

    Parameters
    ----------
    criterion : {"joint", "sum", "max", "concat"}, default="joint"
        Quality of a split, in bits per unit of weight. ``"joint"``: the information gains IG_j of
        the tasks, weighted by their shares p_j of the node's weight; ``"sum"``: not weighted;
        ``"max"``: the largest, which is the paper's choice, with ties broken by ``"joint"``.
        ``"concat"``: the gain of the pair (task, label), which is ``"joint"`` plus the mutual
        information of task and child: it also favours splits that separate tasks.
    purity : float in (0, 1], default=1.0
        A task is decided where one class has this share of its weight.
    max_depth : int, optional
        Maximum depth of the tree.
    min_samples_split : int or float, default=2
        Minimum rows of a node that may be split; a float is a fraction of all rows. Rows of tasks
        that are decided do not count.
    min_samples_leaf : int or float, default=1
        Minimum rows of each child; a float is a fraction of all rows. Rows of tasks that are
        decided do not count.
    max_features : {"sqrt", "log2"}, int, float or None, default=None
        Number of features that a node considers; a float is a fraction of them, None are all.
        Features that are constant in the node do not count.
    task : str or int, optional
        Column of `X` that contains the task of each row: its name, or its position in an array. It
        is not used as a feature. Needed for ``cross_val_score``, ``GridSearchCV`` and the like.
    n_jobs : int, optional
        Threads, by default the cores this process may use, or one for a small table. The tree does
        not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw of features, if `max_features` leaves some out.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels of all tasks, in the order of the columns of ``predict_proba``.
    task_classes_ : dict of task name to ndarray
        Sorted labels of each task.
    tasks_ : tuple of task names
        ``("all",)`` without a task.
    tree_ : mtboost._core.MTDecisionTree
        The tree in C++.
    feature_importances_ : ndarray of float64, shape (n_features,)
        Share of each column in the information gain of all splits.
    n_features_in_ : int
        Number of columns of `X`, including the task column.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where all are strings.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import MTDecisionTreeClassifier
    >>> X = np.arange(8.0)[:, np.newaxis]
    >>> inbox = np.array(["work", "home"] * 4)
    >>> y = np.array(["ham", "friend"] * 2 + ["spam", "shop"] * 2)
    >>> tree = MTDecisionTreeClassifier().fit(X, y, task=inbox)
    >>> tree.predict([[1.0], [6.0]], task=["home", "work"]).tolist()
    ['friend', 'spam']

    References
    ----------
    faddoul2012, section 2 (key in docs/papers.md).
    """

    tree_: _core.MTDecisionTree

    @renamed(where_in_a_method)
    def __init__(
        self,
        *,
        criterion: Criterion = "joint",
        purity: float = 1.0,
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        max_features: MaxFeatures = None,
        task: str | int | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.criterion = criterion
        self.purity = purity
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.task = task
        self.n_jobs = n_jobs
        self.random_state = random_state

    @renamed(where_in_a_method)
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> Self:
        """Grow the tree.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy array, SciPy sparse matrix, pandas or polars DataFrame, or pyarrow Table of
            numbers; NaN means missing. A sparse matrix gives the tree of the dense table, at the
            cost of its values that are not 0.
        y : array-like of shape (n_rows,)
            Labels of any type. Each task has the classes that its own rows have; in a list or an
            array of objects the labels of one task may be str and those of another int.
        task : array-like of shape (n_rows,), optional
            Task of each row, int or str, unless the parameter ``task`` names a column of `X`.
            Without both there is a single task.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0; 0 leaves a row out. A task with weights of 0 only is decided at once,
            for its most frequent label.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        DataError, ParameterError, ValueError
            Before the tree grows, if something does not fit together.
        """
        self.__dict__.pop("tree_", None)
        rows = self._learn(X, y, task, sample_weight)
        columns = _core.SortedColumns(rows.table, n_threads=rows.n_threads)
        self.tree_ = self._grow(columns, rows, rows.weights, tree=0)
        return self

    @renamed(where_in_a_method)
    def predict(self, X: Any, *, task: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each row, one of its task's.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.

        Returns
        -------
        ndarray of shape (n_rows,)
            Elements of ``task_classes_`` of the row's task.

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is missing or unknown (the known ones are
            listed).
        """

        check_is_fitted(self, "tree_")
        table, codes, n_threads = self._read_known(X, task)
        return self._labels_of(self.tree_.classes(table, codes, n_threads=n_threads))

    @renamed(where_in_a_method)
    @shares_docstring_of(predict, sections=["Raises"])
    def predict_proba(self, X: Any, *, task: Any = None) -> Float64Array:
        """Share of each class among the rows of the task where the tree decides it.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
            Columns are those of ``classes_``, labels of all tasks; 0 for labels that the row's task
            does not have.
        """
        check_is_fitted(self, "tree_")
        table, codes, n_threads = self._read_known(X, task)
        found = self.tree_.decisions(table, codes, n_threads=n_threads)
        arrays = self.tree_.arrays()
        columns = self._task_classes.columns[arrays["leaf_outputs"]]
        n_decisions = len(arrays["decided_tasks"])
        shares = sp.csr_array(
            (arrays["leaf_values"], columns, arrays["leaf_starts"].astype(np.int64)),
            shape=(n_decisions, len(self.classes_)),
        )
        probabilities: Float64Array = shares[found].toarray()
        return probabilities

    @renamed(where_in_a_method)
    @shares_docstring_of(predict, sections=["Raises"])
    def apply(self, X: Any, *, task: Any = None) -> npt.NDArray[np.intp]:
        """Return the node that decides each row.

        Returns
        -------
        ndarray of int, shape (n_rows,)
            Numbers of nodes.
        """
        check_is_fitted(self, "tree_")
        table, codes, n_threads = self._read_known(X, task)
        found = self.tree_.decisions(table, codes, n_threads=n_threads)
        starts = self.tree_.arrays()["decision_starts"]
        nodes: npt.NDArray[np.intp] = np.searchsorted(starts, found, side="right") - 1
        return nodes

    @property
    def feature_importances_(self) -> Float64Array:
        """Share of each column of `X` in the information gain of all splits; they sum to 1.

        Shape (n_features,). A split counts with the weight of its rows; all 0 without splits.
        """
        check_is_fitted(self, "tree_")
        return self._place_importances(importances(self.tree_, self._n_features))

    def _to_file(self) -> dict[str, Any]:
        check_is_fitted(self, "tree_")
        return self._trees_to_file([self.tree_])

    def _set_from_file(self, content: dict[str, Any]) -> None:
        (self.tree_,) = self._trees_from_file(content)

    def to_text(self) -> str:
        """Describe the tree in lines of text.

        Returns
        -------
        str
            Splits, and the nodes where each task is decided, with the class.
        """
        check_is_fitted(self, "tree_")
        return self._drawn(self.tree_).to_text()

    def to_graphviz(self) -> str:
        """Describe the tree in the language of Graphviz.

        Returns
        -------
        str
            For ``dot`` or ``graphviz.Source``.
        """
        check_is_fitted(self, "tree_")
        return self._drawn(self.tree_).to_graphviz()
