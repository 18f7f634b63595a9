# SPDX-License-Identifier: Apache-2.0
"""Forests for many outputs, grown on random projections of them (joly2016, chapter 5)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import type_of_target

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_choice, check_switch
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.labels import check_magnitude
from mtboost.base.renamed import renamed
from mtboost.base.sklearn_input import (
    accuracy,
    as_numbers,
    check_classes,
    check_indicators,
    checked_labels,
    encode_classes,
    r2,
    reading_numbers,
)
from mtboost.base.sparse_tables import checked_sparse
from mtboost.errors import DataError
from mtboost.estimators.forests.base import (
    CLASSIFIER_ATTRIBUTES,
    LARGEST_LABEL,
    REGRESSOR_ATTRIBUTES,
    BaseForest,
    ForestLabels,
)
from mtboost.estimators.tree_parameters import MaxFeatures
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.trees.projections import NComponents, Projection, make_projection

# Of so few outputs the covariance matrix, 8 MB at most, has all principal components.
_FEW_OUTPUTS = 1000
_ROUNDING = 1e-12


class _ProjectedForest(BaseForest):
    """Common part of classifier and regressor; see :class:`ProjectedForestClassifier`."""

    @renamed(where_in_a_method)
    def __init__(
        self,
        n_estimators: int = 100,
        *,
        projection: Projection = "gaussian",
        n_components: NComponents = "log",
        shared: bool = False,
        splitter: Literal["random", "best"] = "best",
        max_features: MaxFeatures = "sqrt",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.projection = projection
        self.n_components = n_components
        self.shared = shared
        self.splitter = splitter
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @renamed(where_in_a_method)
    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy array, SciPy sparse matrix, pandas or polars DataFrame, or pyarrow Table of
            numbers; NaN means missing.
        y : array-like or SciPy sparse matrix of shape (n_rows,) or (n_rows, n_outputs)
            Numbers; for a classifier classes, or an indicator matrix of labels. A sparse matrix is
            never made dense.
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
        check_choice("splitter", self.splitter, ("random", "best"))
        check_switch("shared", self.shared)
        return self._fit(X, y, None, sample_weight)

    @renamed(where_in_a_method)
    def apply(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the leaf of each tree that each row reaches.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_estimators)
            Numbers of nodes.

        Raises
        ------
        ValueError
            Columns are not those of ``fit``.
        """
        return self._leaves(X, None)

    def _core_parameters(self) -> dict[str, Any]:
        return {"splitter": self.splitter}

    def _split_targets(self, labels: ForestLabels, weights: Float64Array | None) -> dict[str, Any]:
        projection = make_projection(
            self.projection,
            self.n_components,
            labels.n_outputs,
            is_shared=self.shared,
            principal_components=lambda n: _principal_components(labels.table, n, weights),
        )
        return {"projection": projection}  # None stands for the outputs


class ProjectedForestClassifier(ClassifierMixin, _ProjectedForest):  # type: ignore[misc]
    """Random forest for many labels or classes, whose splits are found on few projected components.

    Each tree projects the indicators of all labels onto `n_components` random components, ranks its
    splits by their variance, and computes the leaf values from the labels themselves. With
    thousands of labels a split then costs as much as one of a few. Leaves store only the labels of
    their rows.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    projection : str, array-like of shape (n_components, n_outputs) or None, default="gaussian"
        ``"gaussian"``, ``"rademacher"`` (±1), ``"achlioptas"`` (two thirds zeros), ``"sparse"``
        (a fraction 1/√d is not zero), ``"hadamard"``, ``"subsample"`` (some of the outputs) or
        ``"pca"`` (the principal components, the same for all trees). None: all outputs.
    n_components : "log", int or float, default="log"
        Number of components; ``"log"`` is the natural logarithm of the number of outputs, a float a
        fraction of them. A matrix as `projection` has as many as rows.
    shared : bool, default=False
        Use one projection for all trees instead of one for each.
    splitter : {"best", "random"}, default="best"
        The best split of each feature, or a random one (with ``bootstrap=False``, extra trees).
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Number of features that a node considers; a float is a fraction of them, None are all.
        Features that are constant in the node do not count.
    max_depth : int, optional
        Maximum depth of a tree.
    min_samples_split : int or float, default=2
        Minimum rows of a node that may be split; a float is a fraction of all rows.
    min_samples_leaf : int or float, default=1
        Minimum rows of each child; a float is a fraction of all rows.
    bootstrap : bool, default=True
        Grow each tree on rows drawn with replacement.
    max_samples : int or float, optional
        Number of rows drawn for each tree with `bootstrap`; a float is a fraction of them. By
        default as many as there are.
    oob_score : bool, default=False
        Score each row by the trees that it was not drawn for.
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
    classes_ : ndarray of shape (n_classes,) or (n_labels,)
        Classes, or the numbers of the columns of an indicator matrix.
    feature_importances_ : ndarray of float64, shape (n_features,)
        Share of each column in the decrease of impurity; they sum to 1.
    oob_decision_function_ : ndarray of float64, shape (n_rows, n_classes)
        With `oob_score`: probabilities; NaN where a row was drawn for every tree.
    oob_score_ : float
        With `oob_score`: accuracy of these; NaN, with a warning, if no row has one.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns of `X`, where all are strings.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import ProjectedForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> Y = X @ rng.normal(size=(4, 30)) > 0  # 30 labels
    >>> forest = ProjectedForestClassifier(20, random_state=0).fit(X, Y)
    >>> forest.predict_proba(X).shape
    (200, 30)

    References
    ----------
    joly2016, section 17, algorithms 1 (`shared`) and 2 (key in docs/papers.md).
    """

    _has_indicators: bool
    _is_sparse: bool

    _saved: ClassVar = (
        BaseForest._saved | CLASSIFIER_ATTRIBUTES | {"_has_indicators": bool, "_is_sparse": bool}
    )

    @renamed(where_in_a_method)
    @shares_docstring_of(_ProjectedForest.apply, sections=["Raises"])
    def predict_proba(self, X: Any) -> Float64Array:
        """Probability of each class or label: the mean over trees of its share in the row's leaf.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes) or (n_rows, n_labels)
            Of an indicator matrix one column a label: the probability that the row has it.
        """
        return self._outputs(X, None)

    @renamed(where_in_a_method)
    @shares_docstring_of(_ProjectedForest.apply, sections=["Raises"])
    def predict(self, X: Any) -> Any:
        """Predict the most probable class of each row, or all labels with a probability above 0.5.

        Returns
        -------
        ndarray of shape (n_rows,), or indicator matrix of shape (n_rows, n_labels)
            Sparse if `y` was sparse in ``fit``.
        """
        return self._decide(self.predict_proba(X))

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy of :meth:`predict`; of an indicator matrix, the subset accuracy.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like or sparse matrix of shape (n_rows,) or (n_rows, n_labels)
            True classes, or indicator matrix of labels.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.

        Returns
        -------
        float
            Fraction of the weight of the rows all of whose labels are correct.
        """
        return accuracy(y, self.predict(X), sample_weight)

    def _decide(self, probabilities: Float64Array) -> Any:
        if not self._has_indicators:
            return self.classes_[probabilities.argmax(axis=1)]
        indicators = (probabilities > 0.5).astype(np.int64)
        return scipy.sparse.csr_array(indicators) if self._is_sparse else indicators

    def _read_labels(self, y: Any) -> ForestLabels:
        is_sparse = scipy.sparse.issparse(y)
        y = checked_sparse(y, "y").tocsr() if is_sparse else _known_labels(self, y)
        check_classes(y)
        is_label = is_sparse and y.shape[1] == 1
        has_indicators = is_label or type_of_target(y) == "multilabel-indicator"
        if has_indicators:
            check_indicators(y)
            labels = _sparse_labels(y)
            classes = np.arange(y.shape[1])
            labels.pop("label_values")  # all 1
        else:
            if y.ndim == 2 and y.shape[1] > 1:
                raise DataError(
                    "y has several columns of classes: a projected forest knows one column of "
                    "classes, or an indicator matrix of labels."
                )
            y = column_or_1d(y, warn=True)
            classes, codes = encode_classes(y)
            labels = {"labels": codes.astype(np.uint32)}
            y = OneHotEncoder().fit_transform(y[:, np.newaxis])
        n_labels = len(classes)
        labels["n_labels"] = n_labels
        fitted = {"classes_": classes, "_has_indicators": has_indicators, "_is_sparse": is_sparse}
        return ForestLabels(labels, n_labels, fitted, table=y)

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _predict_out_of_bag(self, outputs: Float64Array) -> Float64Array:
        self.oob_decision_function_ = outputs
        return outputs

    def _score_out_of_bag(self, predicted: Float64Array, y: Any) -> float:
        return accuracy(y, self._decide(predicted), None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


@shares_docstring_of(ProjectedForestClassifier, without=["classes_", "oob_decision_function_"])
class ProjectedForestRegressor(RegressorMixin, _ProjectedForest):  # type: ignore[misc]
    """Random forest for many outputs, whose splits are found on few projected components.

    As :class:`ProjectedForestClassifier`, with numbers as outputs. Outputs of different units
    should be standardised: splits weigh them by their variance.

    Attributes
    ----------
    oob_prediction_ : ndarray of float64, shape (n_rows,) or (n_rows, n_outputs)
        With `oob_score`: predictions; NaN where a row was drawn for every tree.
    oob_score_ : float
        With `oob_score`: R² of these; NaN, with a warning, if no row has one.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import ProjectedForestRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> Y = X @ rng.normal(size=(4, 30))
    >>> forest = ProjectedForestRegressor(20, n_components=5, random_state=0).fit(X, Y)
    >>> forest.predict(X).shape
    (200, 30)

    References
    ----------
    joly2016, section 17, algorithms 1 (`shared`) and 2 (key in docs/papers.md).
    """

    _is_vector: bool

    _saved: ClassVar = BaseForest._saved | REGRESSOR_ATTRIBUTES | {"_is_vector": bool}

    @renamed(where_in_a_method)
    @shares_docstring_of(_ProjectedForest.apply, sections=["Raises"])
    def predict(self, X: Any) -> Float64Array:
        """Mean over trees of the mean output of the row's leaf.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_outputs), as `y` in ``fit``
            In the units of the labels.
        """
        return self._shaped(self._outputs(X, None))

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the coefficient of determination of :meth:`predict`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like or SciPy sparse matrix of shape (n_rows,) or (n_rows, n_outputs)
            True numbers.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.

        Returns
        -------
        float
            R², averaged over outputs: 1 for perfect predictions, 0 for those of the mean.
        """
        return r2(y, self.predict(X), sample_weight)

    def _shaped(self, outputs: Float64Array) -> Float64Array:
        return outputs[:, 0] if self._is_vector else outputs

    def _read_labels(self, y: Any) -> ForestLabels:
        is_vector = False
        if scipy.sparse.issparse(y):
            y = checked_sparse(y, "y")
            with reading_numbers("y"):
                y = check_array(y, accept_sparse="csr", dtype=np.float64, input_name="y")
            check_magnitude(y.data, LARGEST_LABEL)
            labels = {**_sparse_labels(y), "n_labels": y.shape[1]}
        else:
            y = _known_labels(self, y, y_numeric=True)
            is_vector = np.ndim(y) == 1
            y = as_numbers(y).reshape(len(y), -1)
            check_magnitude(y, LARGEST_LABEL)
            labels = {"y": y}
        return ForestLabels(labels, y.shape[1], {"_is_vector": is_vector}, table=y)

    def _n_outputs(self) -> int | None:
        return 1 if self._is_vector else None

    def _predict_out_of_bag(self, outputs: Float64Array) -> Float64Array:
        self.oob_prediction_ = self._shaped(outputs)
        return self.oob_prediction_

    def _score_out_of_bag(self, predicted: Float64Array, y: Any) -> float:
        return float(r2_score(y.toarray() if scipy.sparse.issparse(y) else y, predicted))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _known_labels(estimator: Any, y: Any, **options: Any) -> Any:
    """Check labels of one or several outputs; unknown ones are refused with what accepts them."""
    try:
        return checked_labels(estimator, y, multi_output=True, **options)
    except DataError as error:
        if "contains NaN" not in str(error):  # scikit-learn's words
            raise
        raise DataError(
            f"{error} A leaf stores the mean of all labels of its rows: use ProjectedBoosting*, "
            "which accepts unknown labels, or leave out the rows."
        ) from None


def _sparse_labels(y: Any) -> dict[str, Any]:
    """Stored values of a matrix, row by row, as the core takes them."""
    matrix = scipy.sparse.csr_array(y.astype(np.float64), copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return {
        "labels": matrix.indices.astype(np.uint32),
        "label_starts": matrix.indptr.astype(np.uint64),
        "label_values": matrix.data,
    }


def _principal_components(
    y: Any, n_components: int, weights: Float64Array | None = None
) -> npt.NDArray[np.float32]:
    """The directions in which most of the variance of Y lies; a sparse Y stays sparse.

    Its mean is subtracted from sums and products. What is dense has a row for each component, or
    for each output where these are few. Fewer rows than outputs have fewer directions. A row of
    weight w counts as w rows.
    """
    if weights is not None and not weights.all():
        y, weights = y[weights > 0.0], weights[weights > 0.0]
    n_rows, n_outputs = y.shape
    n_components = max(1, min(n_components, n_rows - 1, n_outputs))
    y = y.astype(np.float64)
    if weights is None:
        total, mean, roots = n_rows, y.mean(axis=0), np.ones(n_rows)
    else:
        weights = weights / weights.max()  # only their ratios matter; sums of these are finite
        total, mean, roots = weights.sum(), weights @ y / weights.sum(), np.sqrt(weights)
    mean = np.asarray(mean).ravel()
    by_root = scipy.sparse.diags_array(roots)  # squares and products are weighted
    if scipy.sparse.issparse(y):
        y = by_root @ y
        squares = y.power(2).sum()
        variation = squares - total * mean @ mean
    else:
        squares = np.square(by_root @ y).sum()
        y = by_root @ (y - mean)  # nothing is lost to rounding where means are large
        mean = np.zeros(n_outputs)
        variation = np.square(y).sum()
    if variation <= _ROUNDING * squares:
        return np.eye(n_components, n_outputs, dtype=np.float32)  # constant: any direction will do
    if n_outputs <= _FEW_OUTPUTS or n_components == n_outputs:
        products = y.T @ y
        if scipy.sparse.issparse(products):
            products = products.toarray()
        scatter = products - total * np.outer(mean, mean)
        _, columns = scipy.linalg.eigh(
            scatter, subset_by_index=(n_outputs - n_components, n_outputs - 1)
        )
        directions = columns.T[::-1]
    else:
        centred = LinearOperator(
            y.shape,
            matvec=lambda v: y @ v.ravel() - roots * (mean @ v.ravel()),
            rmatvec=lambda v: y.T @ v.ravel() - mean * (roots * v.ravel()).sum(),
            dtype=np.float64,
        )
        start = np.random.default_rng(0).normal(size=min(y.shape))
        _, lengths, rows = svds(centred, n_components, v0=start, return_singular_vectors="vh")
        directions = rows[np.argsort(-lengths)]
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(np.take_along_axis(directions, largest[:, np.newaxis], axis=1))
    return np.ascontiguousarray(signs * directions, dtype=np.float32)
