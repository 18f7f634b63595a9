"""Boosting of many outputs whose trees are cut by few components of them (joly2016, chapter 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from mtboost import _core
from mtboost.boosting.base import (
    BaseProjectedBoosting,
    BoostingProjection,
    Floats,
    Strategy,
    check_positive,
)
from mtboost.boosting.rounds import Margins
from mtboost.errors import DataError, ParameterError
from mtboost.projections import NComponents
from mtboost.tree_parameters import MaxFeatures

_LOSSES = {"squared_error": "squared", "absolute_error": "absolute", "huber": "huber"}


class ProjectedBoostingRegressor(RegressorMixin, BaseProjectedBoosting):  # type: ignore[misc]
    """Gradient boosting of many outputs, whose trees are cut by few random components of them.

    Each round projects the residuals of all outputs to `n_components` components and grows one tree
    on them. Its leaves then say what all outputs need there, so that a round of hundreds of outputs
    costs little more than one of few, and related outputs share what they know. Labels may be
    unknown, NaN.

    Parameters
    ----------
    n_estimators : int, default=100
        Rounds.
    strategy : str, default="gbrt-relabel-rpo"
        ``"gbrt-relabel-rpo"`` as above. ``"gbrt-rpo"``: a tree keeps one number a leaf, that of its
        one component, and each output counts it with a weight of its own: small models, and
        outputs that have little in common. ``"gbmort"``: cuts are found on all outputs.
        ``"single-target"``: a model for each output by itself.
    loss : {"squared_error", "absolute_error", "huber"}, default="squared_error"
        Summed over outputs: those of other units should be standardised.
    huber_delta : float, default=1.0
        Residuals beyond it count as absolute ones.
    projection : str, array-like of shape (n_components, n_outputs) or None, default="gaussian"
        ``"gaussian"``, ``"rademacher"`` (±1), ``"achlioptas"`` (two thirds zeros), ``"sparse"``
        (a part 1/√d is not zero), ``"hadamard"``, ``"subsample"`` (some of the outputs); or by the
        residuals of the round: ``"variance"`` (outputs, in proportion to what is unexplained) or
        ``"pca"`` (the directions in which most is). None: all outputs.
    n_components : "log", int or float, default="log"
        The natural logarithm of the number of outputs, a number, or a part of the outputs.
    shared : bool, default=False
        The first round's projection in all rounds.
    learning_rate : float, default=0.1
        What a tree adds is multiplied by it. Up to 1 the training loss never rises, if all rows
        take part.
    max_depth : int or None, default=6
        Most divisions from the root to a leaf.
    max_leaf_nodes : int, optional
        Most leaves; the node that gains most is divided next.
    min_samples_leaf : int or float, default=1
        Least rows on each side of a cut; a float is a part of all rows.
    max_features : {"sqrt", "log2"}, int, float or None, default=None
        Features that a node looks at; a float is a part of them.
    subsample : float, default=1.0
        Part of the rows that each tree grows on.
    colsample_bytree : float, default=1.0
        Part of the features that each tree may use.
    max_bin : int, default=256
        Most bins of a feature. They are XGBoost's.
    early_stopping_rounds : int, optional
        End after so many rounds without a better score, and keep the trees up to the best.
    validation_fraction : float, default=0.1
        Part of the rows that is held out for it, unless ``fit`` gets an ``eval_set``.
    scoring : str or callable, default="loss"
        Score of the rows that are held out, of which more is better: ``"loss"``, ``"r2"`` (mean
        over outputs) and ``"label_ranking_average_precision"`` leave unknown labels out; or another
        name of scikit-learn's, or a scorer ``(estimator, X, y) -> float``.
    warm_start : bool, default=False
        A further ``fit`` adds trees until there are `n_estimators`: the same ones as in one go.
    verbose : bool or int, default=False
        Print the loss after each round, or after so many.
    n_jobs : int, optional
        Threads, by default the cores this process may use, or one for a small table. Trees do not
        depend on it.
    random_state : int, RandomState instance or None, default=None
        An int makes each fit the same.

    Attributes
    ----------
    n_estimators_ : int
        Trees that are kept.
    train_losses_ : ndarray of shape (n_rounds,)
        Mean loss of the known labels after each round.
    validation_scores_ : ndarray of shape (n_rounds,), or None
    feature_importances_ : ndarray of shape (n_features_in_,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of `X`, where all are strings.

    Examples
    --------
    >>> model = ProjectedBoostingRegressor(n_components=5).fit(X, Y)  # doctest: +SKIP
    >>> model.predict(X)  # of shape (n_rows, n_outputs)  # doctest: +SKIP
    >>> model.booster().save_model("model.ubj")  # for XGBoost  # doctest: +SKIP

    References
    ----------
    joly2016, section 22, algorithms 2 and 3 (key in docs/papers.md).
    """

    loss: Literal["squared_error", "absolute_error", "huber"]
    huber_delta: float
    _n_outputs: int
    _is_vector: bool

    _saved: ClassVar = BaseProjectedBoosting._saved | {"_n_outputs": int, "_is_vector": bool}

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        strategy: Strategy = "gbrt-relabel-rpo",
        loss: Literal["squared_error", "absolute_error", "huber"] = "squared_error",
        huber_delta: float = 1.0,
        projection: BoostingProjection = "gaussian",
        n_components: NComponents = "log",
        shared: bool = False,
        learning_rate: float = 0.1,
        max_depth: int | None = 6,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int | float = 1,
        max_features: MaxFeatures = None,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        max_bin: int = 256,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        scoring: str | Callable[..., float] = "loss",
        warm_start: bool = False,
        verbose: bool | int = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.strategy = strategy
        self.loss = loss
        self.huber_delta = huber_delta
        self.projection = projection
        self.n_components = n_components
        self.shared = shared
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.max_bin = max_bin
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.scoring = scoring
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    def predict(self, X: Any) -> Floats:
        """Sums of the leaves' values.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_outputs), as `y` in ``fit``

        Raises
        ------
        ValueError
            Columns are not those of ``fit``.
        """
        return self._predict_margins(self._margins(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination of :meth:`predict`, averaged over outputs."""
        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def _predict_margins(self, margins: Margins) -> Floats:
        outputs = margins.astype(np.float64)
        return outputs[:, 0] if self._is_vector else outputs

    def _read_labels(self, y: Any, *, reset: bool) -> Margins:
        y = self._checked(y, np.float32)
        labels: Margins = y.reshape(len(y), -1)
        if reset:
            self._is_vector = y.ndim == 1
            self._n_outputs = labels.shape[1]
        elif labels.shape[1] != self._n_outputs:
            raise DataError(f"y has {labels.shape[1]} outputs instead of {self._n_outputs}.")
        return labels

    def _decode(self, labels: Margins) -> Any:
        return self._predict_margins(labels)

    def _loss(self, n_outputs: int | None = None) -> _core.OutputLoss:
        if self.loss not in _LOSSES:
            raise ParameterError(
                f"loss is {self.loss!r}: it must be one of {', '.join(map(repr, _LOSSES))}."
            )
        check_positive(self.huber_delta, "huber_delta")
        return _core.OutputLoss(
            _LOSSES[self.loss], n_outputs or self._n_outputs, huber_delta=float(self.huber_delta)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class ProjectedBoostingClassifier(ClassifierMixin, BaseProjectedBoosting):  # type: ignore[misc]
    """Gradient boosting of many labels or classes, whose trees are cut by few components of them.

    As :class:`ProjectedBoostingRegressor`, with the logistic loss of each label, or softmax of the
    classes. A label may be unknown, NaN: neither 0 nor 1, and the row's others count all the same.

    Parameters
    ----------
    All those of :class:`ProjectedBoostingRegressor`, but `loss` and `huber_delta`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or (n_labels,)
        Classes, or the numbers of the columns of a matrix of labels.

    All others are those of :class:`ProjectedBoostingRegressor`.

    Examples
    --------
    >>> model = ProjectedBoostingClassifier(n_components=20).fit(X, Y)  # doctest: +SKIP
    >>> model.predict_proba(X)  # of shape (n_rows, n_labels)  # doctest: +SKIP

    References
    ----------
    joly2016, section 22, algorithms 2 and 3 (key in docs/papers.md).
    """

    classes_: npt.NDArray[Any]
    _has_indicators: bool
    _is_sparse: bool

    _saved: ClassVar = BaseProjectedBoosting._saved | {
        "classes_": np.ndarray,
        "_has_indicators": bool,
        "_is_sparse": bool,
    }

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        strategy: Strategy = "gbrt-relabel-rpo",
        projection: BoostingProjection = "gaussian",
        n_components: NComponents = "log",
        shared: bool = False,
        learning_rate: float = 0.1,
        max_depth: int | None = 6,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int | float = 1,
        max_features: MaxFeatures = None,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        max_bin: int = 256,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        scoring: str | Callable[..., float] = "loss",
        warm_start: bool = False,
        verbose: bool | int = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.strategy = strategy
        self.projection = projection
        self.n_components = n_components
        self.shared = shared
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.max_bin = max_bin
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.scoring = scoring
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class, (n_rows,), or of each class or label, (n_rows, n_classes).

        Those of several classes are up to a constant of the row.
        """
        return self._decision_function_margins(self._margins(X))

    def staged_decision_function(self, X: Any) -> Iterator[Floats]:
        """What :meth:`decision_function` says after each tree."""
        for margins in self._staged_margins(X):
            yield self._decision_function_margins(margins)

    def staged_predict_proba(self, X: Any) -> Iterator[Floats]:
        """What :meth:`predict_proba` says after each tree."""
        for margins in self._staged_margins(X):
            yield self._predict_proba_margins(margins)

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class or label.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes) or (n_rows, n_labels)
            Of a matrix of labels one column a label: the probability that the row has it.

        Raises
        ------
        ValueError
            Columns are not those of ``fit``.
        """
        return self._predict_proba_margins(self._margins(X))

    def predict(self, X: Any) -> Any:
        """The most probable class of each row, or all labels more probable than not.

        Returns
        -------
        ndarray of shape (n_rows,), or indicator matrix of shape (n_rows, n_labels)
            Sparse if `y` was sparse in ``fit``.
        """
        return self._predict_margins(self._margins(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of :meth:`predict`; of a matrix of labels, the part of rows wholly right."""
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def _decision_function_margins(self, margins: Margins) -> Floats:
        return margins[:, 0] if self._is_binary() else margins

    def _predict_proba_margins(self, margins: Margins) -> Floats:
        log_odds = margins.astype(np.float64)
        if self._has_indicators:
            return np.asarray(expit(log_odds))
        if self._is_binary():
            return np.hstack([expit(-log_odds), expit(log_odds)])
        return np.asarray(softmax(log_odds, axis=1))

    def _predict_margins(self, margins: Margins) -> Any:
        if self._has_indicators:
            indicators = (margins > 0.0).astype(np.int64)
            return scipy.sparse.csr_array(indicators) if self._is_sparse else indicators
        if self._is_binary():
            return self.classes_[(margins[:, 0] > 0.0).astype(np.intp)]
        return self.classes_[margins.argmax(axis=1)]

    def _is_binary(self) -> bool:
        return not self._has_indicators and len(self.classes_) == 2

    def _are_classes(self) -> bool:
        return not self._has_indicators

    def _read_labels(self, y: Any, *, reset: bool) -> Margins:
        is_sparse = scipy.sparse.issparse(y)
        y = self._checked(y, None)
        has_indicators = is_sparse or (y.ndim == 2 and y.shape[1] > 1)
        if not reset and has_indicators != self._has_indicators:
            raise DataError("y must hold classes, or labels, as it did in fit.")
        if reset:
            self._has_indicators, self._is_sparse = has_indicators, is_sparse
        if not has_indicators:
            return self._encode(y, reset)
        labels: Margins = self._checked(y, np.float32)
        is_label = np.isnan(labels) | (labels == 0.0) | (labels == 1.0)
        if not is_label.all():
            row, column = np.unravel_index(int(is_label.argmin()), labels.shape)
            raise DataError(
                f"y is {labels[row, column]:g} at row {row}, column {column}: labels in several "
                f"columns must be 0, 1, or NaN where unknown. Classes go in one column."
            )
        if reset:
            self.classes_ = np.arange(labels.shape[1])
        elif labels.shape[1] != len(self.classes_):
            raise DataError(f"y has {labels.shape[1]} labels instead of {len(self.classes_)}.")
        return labels

    def _encode(self, y: Any, reset: bool) -> Margins:
        """Numbers of classes, NaN where unknown, as a column."""
        y = column_or_1d(y, warn=True)
        is_known = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), bool)
        known = y[is_known]
        check_classification_targets(known)
        encoder = LabelEncoder()
        if reset:
            self.classes_ = encoder.fit(known).classes_
            if len(self.classes_) < 2:
                raise DataError(f"y has {len(self.classes_)} classes: there must be two or more.")
        encoder.classes_ = self.classes_
        codes = np.full((len(y), 1), np.nan, np.float32)
        codes[is_known, 0] = encoder.transform(known)
        return codes

    def _decode(self, labels: Margins) -> Any:
        codes = labels.astype(np.int64)
        return codes if self._has_indicators else self.classes_[codes[:, 0]]

    def _loss(self, n_outputs: int | None = None) -> _core.OutputLoss:
        if self._has_indicators or self._is_binary():
            n_labels = len(self.classes_) if self._has_indicators else 1
            return _core.OutputLoss("logistic", n_outputs or n_labels)
        if self.strategy == "single-target":
            raise ParameterError(
                "strategy='single-target' has no probabilities of several classes: use another, or "
                "sklearn.multiclass.OneVsRestClassifier."
            )
        return _core.OutputLoss("softmax", len(self.classes_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
