# SPDX-License-Identifier: Apache-2.0
"""AdaBoost.M1 with trees that tasks with different labels share (faddoul2012)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from mtboost import _core
from mtboost.base.archive import require
from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count, check_verbose
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.progress import Progress
from mtboost.base.renamed import renamed
from mtboost.base.user_warnings import warn_user
from mtboost.estimators.forests.drawn_tree import importances
from mtboost.estimators.forests.mt_decision_tree import (
    Criterion,
    MTDecisionTreeClassifier,
    MTTreeEstimator,
)
from mtboost.estimators.tree_parameters import MaxFeatures
from mtboost.model.inputs.keywords import where_in_a_method

# What AdaBoost.M1 counts as the error of a tree that makes none.
_LEAST_ERROR = 1e-10
# A tree whose error is no further below 1/2 counts as one of 1/2: it may be the last tree again, on
# weights by which that errs on exactly 1/2. Sums of 10⁹ weights are off by less than 1e-13, and a
# tree so close to 1/2 would have a vote of 4e-10.
_LEAST_EDGE = 1e-10


@shares_docstring_of(MTDecisionTreeClassifier, without=["tree_"])
class MTAdaBoostClassifier(MTTreeEstimator):
    """AdaBoost.M1 over the rows of all tasks, with multi-task decision trees.

    Each round grows a :class:`MTDecisionTreeClassifier` on weighted rows and increases the weight
    of the rows, of any task, that it misclassifies. The vote for a class is the sum of ln(1/β) over
    the trees that predict it, with β = ε / (1 - ε) and ε the tree's weighted error on all tasks.
    Training ends early where ε is 0, or 1/2 or more (up to rounding, 1e-10): such a tree is
    discarded, unless it is the first.

    Parameters
    ----------
    n_estimators : int, default=50
        Maximum number of rounds.
    purity : float in (0, 1], default=0.8
        A task is decided where one class has this share of its weight. Below 1 it keeps trees weak,
        whatever the numbers of tasks and classes (section 2.4 of the paper): a tree without error
        would end the training.
    max_depth : int, optional
        Maximum depth of a tree. A tree whose weighted error is 1/2 or more ends the training, with
        a warning if it is the first: many tasks with many classes need deep trees.
    verbose : bool or int, default=False
        Show progress: a bar of tqdm, or without it the error in the log every `verbose` rounds.
    n_jobs : int, optional
        Threads, by default the cores this process may use, or one for a small table. Trees do not
        depend on it.

    Attributes
    ----------
    trees_ : list of mtboost._core.MTDecisionTree
        The trees in C++.
    estimator_errors_ : ndarray of float64, shape (n_trees,)
        ε of each tree.
    estimator_weights_ : ndarray of float64, shape (n_trees,)
        ln(1/β) of each tree, with ε at least 1e-10; 1 for a single tree with ε of 1/2 or more.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import MTAdaBoostClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> inbox = rng.integers(0, 2, 200)
    >>> y = (X.sum(axis=1) > 0) + 2 * inbox  # classes 0 and 1, or 2 and 3
    >>> model = MTAdaBoostClassifier(max_depth=3).fit(X, y, task=inbox)
    >>> model.score(X, y, task=inbox) > 0.95
    True

    References
    ----------
    faddoul2012, section 3 (key in docs/papers.md).
    """

    trees_: list[_core.MTDecisionTree]
    estimator_errors_: Float64Array
    estimator_weights_: Float64Array

    _saved: ClassVar = MTTreeEstimator._saved | {
        "estimator_errors_": np.ndarray,
        "estimator_weights_": np.ndarray,
    }

    @renamed(where_in_a_method)
    def __init__(
        self,
        n_estimators: int = 50,
        *,
        criterion: Criterion = "joint",
        purity: float = 0.8,
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        max_features: MaxFeatures = None,
        task: str | int | None = None,
        verbose: bool | int = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.purity = purity
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.task = task
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @renamed(where_in_a_method)
    @shares_docstring_of(MTDecisionTreeClassifier.fit, sections=["Returns"])
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Raises
        ------
        DataError, ParameterError, ValueError
            Before any tree grows, if something does not fit together.
        """
        self.__dict__.pop("trees_", None)
        n_rounds = check_count("n_estimators", self.n_estimators, low=1)
        every = check_verbose(self.verbose)
        rows = self._learn(X, y, task, sample_weight)
        columns = _core.SortedColumns(rows.table, n_threads=rows.n_threads)
        trees: list[_core.MTDecisionTree] = []
        errors: list[float] = []
        votes: list[float] = []
        weights = rows.weights / rows.weights.sum()
        shown = Progress(n_rounds, is_shown=every > 0, unit="round", every=max(1, every))
        with shown as progress:
            for number in range(n_rounds):
                tree = self._grow(columns, rows, weights, number)
                found = tree.classes(rows.table, rows.tasks, n_threads=rows.n_threads)
                is_right = found == rows.labels
                error = float(weights[~is_right].sum())
                is_chance = error >= 0.5 - _LEAST_EDGE
                if is_chance and trees:
                    break
                beta = max(error, _LEAST_ERROR) / (1.0 - max(error, _LEAST_ERROR))
                trees.append(tree)
                errors.append(error)
                votes.append(1.0 if is_chance else -np.log(beta))
                progress.report(number + 1, f"error {error:.6g}")
                if is_chance:
                    warn_user(
                        f"The first tree errs on {error:.3f} of the weight, and AdaBoost.M1 needs "
                        "less than 1/2: the model is this tree alone. More tasks and classes need "
                        "deeper trees: raise max_depth.",
                    )
                if is_chance or error == 0.0:
                    break
                weights = np.where(is_right, weights * beta, weights)
                weights /= weights.sum()
        self.trees_ = trees
        self.estimator_errors_, self.estimator_weights_ = np.array(errors), np.array(votes)
        return self

    @renamed(where_in_a_method)
    @shares_docstring_of(MTDecisionTreeClassifier.predict, sections=["Returns", "Raises"])
    def predict(self, X: Any, *, task: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each row with the most votes, one of its task's."""

        most = self.predict_proba(X, task=task).argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[most]
        return labels

    @renamed(where_in_a_method)
    @shares_docstring_of(MTDecisionTreeClassifier.predict)
    def predict_proba(self, X: Any, *, task: Any = None) -> Float64Array:
        """Share of each class in the votes of the trees.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
            Columns are those of ``classes_``, labels of all tasks; 0 for labels that the row's task
            does not have. They rank classes well, but are no frequencies: calibrate them where
            that matters.

        Raises
        ------
        DataError, ValueError
            As :meth:`predict`.
        """
        *_, last = self.staged_predict_proba(X, task=task)
        return last

    @renamed(where_in_a_method)
    @shares_docstring_of(MTDecisionTreeClassifier.predict, sections=["Raises"])
    def staged_predict(self, X: Any, *, task: Any = None) -> Iterator[npt.NDArray[Any]]:
        """Predict with the first tree, the first two, and so on.

        Yields
        ------
        ndarray of shape (n_rows,)
            As :meth:`predict`.
        """
        for shares in self.staged_predict_proba(X, task=task):
            yield self.classes_[shares.argmax(axis=1)]

    @renamed(where_in_a_method)
    @shares_docstring_of(MTDecisionTreeClassifier.predict, sections=["Raises"])
    def staged_predict_proba(self, X: Any, *, task: Any = None) -> Iterator[Float64Array]:
        """Compute the shares of the votes after the first tree, the first two, and so on.

        Yields
        ------
        ndarray of float64, shape (n_rows, n_classes)
            As :meth:`predict_proba`.
        """
        check_is_fitted(self, "trees_")
        table, codes, n_threads = self._read_known(X, task)
        votes = np.zeros((len(codes), len(self.classes_)))
        total = 0.0
        for tree, weight in zip(self.trees_, self.estimator_weights_, strict=True):
            found = self._task_classes.columns[tree.classes(table, codes, n_threads=n_threads)]
            votes[np.arange(len(codes)), found] += weight
            total += weight
            yield votes / total

    @property
    def feature_importances_(self) -> Float64Array:
        """Mean over the trees, weighted by their votes, of the importances of each.

        Shape (n_features,); see :attr:`MTDecisionTreeClassifier.feature_importances_`.
        """
        check_is_fitted(self, "trees_")
        own = [importances(tree, self._n_features) for tree in self.trees_]
        mean = np.average(own, axis=0, weights=self.estimator_weights_)
        return self._place_importances(mean / (mean.sum() or 1.0))

    def _to_file(self) -> dict[str, Any]:
        check_is_fitted(self, "trees_")
        return self._trees_to_file(self.trees_)

    def _set_from_file(self, content: dict[str, Any]) -> None:
        self.trees_ = self._trees_from_file(content)
        for own in (self.estimator_errors_, self.estimator_weights_):
            is_one_a_tree = own.shape == (len(self.trees_),) and own.dtype == np.float64
            require(is_one_a_tree, "votes are not one a tree")

    def to_text(self, tree: int) -> str:
        """Describe one of the trees in lines of text.

        Parameters
        ----------
        tree : int
            Number of the tree, from 0; a negative one counts from the last.

        Returns
        -------
        str
            Splits, and the nodes where each task is decided, with the class.

        Raises
        ------
        ParameterError
            There is no such tree.
        """
        return self._drawn(self._tree(tree)).to_text()

    @shares_docstring_of(to_text, sections=["Raises"])
    def to_graphviz(self, tree: int) -> str:
        """Describe one of the trees in the language of Graphviz.

        Returns
        -------
        str
            For ``dot`` or ``graphviz.Source``.
        """
        return self._drawn(self._tree(tree)).to_graphviz()

    def _tree(self, number: int) -> _core.MTDecisionTree:
        check_is_fitted(self, "trees_")
        n_trees = len(self.trees_)
        return self.trees_[check_count("tree", number, low=-n_trees, high=n_trees - 1)]
