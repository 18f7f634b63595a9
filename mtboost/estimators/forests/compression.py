# SPDX-License-Identifier: Apache-2.0
"""L1-based compression: a forest's nodes as features of a sparse linear model (joly2016)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mtboost import _core
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_count, check_number, check_seed, is_integer, is_number
from mtboost.base.sklearn_input import reading_numbers
from mtboost.base.sparse_tables import checked_sparse
from mtboost.base.threads import default_n_threads, threads_of_jobs
from mtboost.base.user_warnings import warn_user
from mtboost.errors import UnsupportedError
from mtboost.estimators.forests.base import BaseForest
from mtboost.estimators.forests.compressed_forests import (
    CompressedForestClassifier,
    CompressedForestRegressor,
    CvCurve,
    check_no_task,
)
from mtboost.estimators.forests.compressed_labels import Labels
from mtboost.estimators.forests.sklearn_forests import FORESTS, as_core_forest, is_sklearn_forest
from mtboost.estimators.table_estimator import as_rows, core_table

#: A table as the core reads it, and the codes of its tasks.
_LabelledRows: TypeAlias = tuple[
    npt.NDArray[np.float32] | _core.SparseRows, npt.NDArray[np.uint32] | None
]


def compress(
    forest: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    epsilon: float = 0.01,
    n_steps: int | Literal["cv"] = "cv",
    cv: Any = 10,
    max_steps: int = 10_000,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> CompressedForestRegressor | CompressedForestClassifier:
    """Make a forest many times smaller, mostly without losing accuracy.

    Whether a row visits a node is taken as a feature, of all nodes of all trees. Incremental
    forward stagewise regression finds a linear model on them: again and again it adds `epsilon`,
    with the right sign, to the coefficient of the node that is most correlated with the residual,
    of those for which the step lowers the training error. Most nodes never get a coefficient;
    nodes without any below them are removed. The path follows the monotone lasso.

    Parameters
    ----------
    forest : estimator
        A forest of mtboost, or scikit-learn's ``RandomForest*`` or ``ExtraTrees*``. One that is
        not fitted is fitted on `X` and `y`, as a clone.
    X : table of shape (n_rows, n_features)
        What the forest accepts. The forest's own training rows will do.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Numbers for a regressor, classes for a classifier.
    task : array-like of shape (n_rows,), optional
        Task of each row, for a forest that was fitted with it.
    epsilon : float > 0, default=0.01
        Length of a step in standard deviations of `y`. Smaller steps take longer and follow the
        path more closely.
    n_steps : int >= 0 or "cv", default="cv"
        Length of the path. With ``"cv"`` the number of steps with the least mean squared error in
        cross-validation: in each fold a clone of the forest is fitted on the training part and
        compressed, so what is validated is growing and compressing together. A forest that was
        fitted on other rows, or with weights, is not what is cloned: give a number then.
    cv : int, splitter or iterable, default=10
        Folds, as in :func:`sklearn.model_selection.cross_validate`. A number shuffles the rows, and
        keeps the classes' shares for a classifier of one column.
    max_steps : int >= 1, default=10_000
        Longest path that cross-validation evaluates. A path ends earlier where no step of its
        length would lower the training error.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds, and seeds their forests if the forest itself has no seed.
    n_jobs : int, optional
        Threads for the paths, by default the cores this process may use. Forests are grown with
        their own ``n_jobs``. The result does not depend on either.

    Returns
    -------
    CompressedForestRegressor or CompressedForestClassifier
        A fitted estimator that needs nothing of `forest`.

    Raises
    ------
    UnsupportedError
        `forest` is none of those above.
    DataError, ParameterError, ValueError
        Before any forest grows, if something does not fit together.

    Warns
    -----
    ConvergenceWarning
        The best number of steps is `max_steps`.

    Notes
    -----
    Indicators are centred and not scaled, so that a node of few rows costs as much as one of many:
    scaled ones gave larger forests with larger errors. Among nodes with the same rows, or with the
    complement, the first counts. With several outputs a step is a vector of length `epsilon` along
    the node's correlations with all of them (in standard deviations of each, or as they are for
    classes): it is nodes that take memory, so outputs share them. Classes are columns of 0 and 1
    with squared error.

    Memory: eight bytes for each row and node that it visits, in each thread.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X[:, 0] + X[:, 1] ** 2
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    >>> small = mtboost.compress(forest, X, y, n_steps=200)
    >>> small.n_test_nodes_ < small.n_test_nodes_before_ / 2
    True

    References
    ----------
    joly2016, chapter 7; hastie2007 (keys in docs/papers.md).
    """
    _check_forest(forest, task)
    is_cv = isinstance(n_steps, str) and n_steps == "cv"
    epsilon = check_number("epsilon", epsilon, above=0.0)
    if is_cv:
        max_steps = check_count("max_steps", max_steps, low=1)
    else:
        max_steps = check_count("n_steps", n_steps, besides="'cv'")
    check_consistent_length(X, y, task)
    X, y = checked_sparse(X, "X"), checked_sparse(y, "y")
    if hasattr(type(X), "columns"):
        as_table(X, task_column=getattr(forest, "task", None), has_time=False)
    if scipy.sparse.issparse(X):  # values stored twice crash scikit-learn's forests
        X = as_rows(X)
    labels = Labels.of(y, forest)
    n_threads = default_n_threads(threads_of_jobs(n_jobs))
    curve = None
    if is_cv:
        if is_number(random_state):
            random_state = check_seed(random_state, name="random_state", bits=32)
        rng = check_random_state(random_state)
        folds = list(_splitter(cv, y, forest, rng).split(X, y))
        template = _with_seed(forest, rng)
        inputs = [_fold(template, X, y, task, labels, train, valid) for train, valid in folds]
        paths = _core.stagewise_paths(
            inputs, epsilon=epsilon, max_steps=max_steps, n_threads=n_threads
        )
        curve = CvCurve.of([path["valid_losses"] / len(labels.scale) for path in paths])
        if curve.best == max_steps:
            warn_user(
                f"The cross-validated error is least after {max_steps} steps, the last that were "
                f"tried: raise max_steps, or epsilon.",
                ConvergenceWarning,
            )
        max_steps = curve.best
    if not _is_fitted(forest):
        forest = _fit(clone(forest), X, y, task)
    core = _core_of(forest)
    rows = _read(forest, X, task)
    (path,) = _core.stagewise_paths(
        [_core.StagewiseInput(core, rows[0], labels.values, tasks=rows[1])],
        epsilon=epsilon,
        max_steps=max_steps,
    )
    make = CompressedForestClassifier if labels.columns.classes else CompressedForestRegressor
    return make._of(forest, core, path, labels, curve)


# ---- forests ------------------------------------------------------------------------------------


def _read(forest: Any, X: Any, task: Any) -> _LabelledRows:
    """A user's table as the forest reads it."""
    if isinstance(forest, BaseForest):
        table, codes, _ = forest._read_known(X, task)
        return table, codes
    with reading_numbers("X"):
        table = validate_data(
            forest,
            X,
            reset=False,
            accept_sparse="csr",
            dtype=np.float32,
            ensure_all_finite="allow-nan",
        )
    return core_table(as_rows(table)), None


def _check_forest(forest: Any, task: Any) -> None:
    if not isinstance(forest, BaseForest) and not is_sklearn_forest(forest):
        known = ", ".join(FORESTS)
        raise UnsupportedError(
            f"forest is a {type(forest).__name__}: compress() knows mtboost's forests, and of "
            f"scikit-learn {known}."
        )
    if is_sklearn_forest(forest):
        check_no_task(task)


def _is_fitted(forest: Any) -> bool:
    try:
        check_is_fitted(forest)
    except NotFittedError:
        return False
    return True


def _fit(forest: Any, X: Any, y: Any, task: Any) -> Any:
    return forest.fit(X, y) if task is None else forest.fit(X, y, task=task)


def _core_of(forest: Any) -> _core.Forest:
    if isinstance(forest, BaseForest):
        return forest.forest_
    return as_core_forest(forest)


def _with_seed(forest: Any, rng: np.random.RandomState) -> Any:
    """An unfitted clone that grows the same trees each time, if `rng` is not random itself."""
    forest = clone(forest)
    if forest.random_state is None:
        forest.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
    return forest


def _fold(
    template: Any,
    X: Any,
    y: Any,
    task: Any,
    labels: Labels,
    train: npt.NDArray[np.int64],
    valid: npt.NDArray[np.int64],
) -> _core.StagewiseInput:
    """A forest that was fitted on one fold's training rows, and the rows to walk on."""
    own, others = (
        [None if part is None else _safe_indexing(part, rows) for part in (X, y, task)]
        for rows in (train, valid)
    )
    forest = _fit(clone(template), *own)
    (table, codes), (valid_table, valid_codes) = (
        _read(forest, part[0], part[2]) for part in (own, others)
    )
    return _core.StagewiseInput(
        _core_of(forest),
        table,
        labels.values[train],
        tasks=codes,
        X_valid=valid_table,
        y_valid=labels.values[valid],
        tasks_valid=valid_codes,
    )


def _splitter(cv: Any, y: Any, forest: Any, rng: np.random.RandomState) -> Any:
    checked = check_cv(cv, y, classifier=is_classifier(forest))
    if is_integer(cv):
        kind = StratifiedKFold if isinstance(checked, StratifiedKFold) else KFold
        return kind(checked.n_splits, shuffle=True, random_state=rng)
    return checked
