# SPDX-License-Identifier: Apache-2.0
"""Boosting whose trees search for splits where a prior expects them (eruhimov2007)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from mtboost import _core
from mtboost.base.archive import require
from mtboost.base.arrays import FloatArray
from mtboost.base.checks import check_choice, check_switch
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.renamed import renamed, without_parameters
from mtboost.estimators.boosting.base import BaseBoosting
from mtboost.estimators.boosting.classifier import BoostingClassifier
from mtboost.estimators.boosting.dynamic_sampling import DynamicSampling, as_plain
from mtboost.estimators.boosting.regressor import BoostingRegressor
from mtboost.estimators.boosting.rounds import Engine, JointEngine, Margins
from mtboost.estimators.boosting.tree_importances import (
    ImportanceType,
    as_shares,
    model_importances,
)
from mtboost.estimators.tree_parameters import MaxFeatures, features_per_node
from mtboost.trees.feature_weights import (
    FLOOR,
    FeaturePrior,
    check_floor,
    feature_shares,
    with_floor,
)


class BasePriorSampling(BaseBoosting):
    """Shared part of classifier and regressor; parameters: `PriorSamplingRegressor`."""

    prior_: npt.NDArray[np.float64]

    _saved: ClassVar[dict[str, Any]] = BaseBoosting._saved | {"prior_": np.ndarray}

    @renamed(n_features="max_features")
    def __init__(
        self,
        n_estimators: int = 200,
        *,
        prior: FeaturePrior | None = None,
        max_features: MaxFeatures = "sqrt",
        floor: float = FLOOR,
        dynamic: bool = False,
        importance_type: ImportanceType = "impurity",
        loss: Literal["squared_error", "absolute_error", "huber"] = "squared_error",
        huber_delta: float = 1.0,
        learning_rate: float = 0.1,
        max_depth: int | None = 3,
        min_samples_leaf: int | float = 1,
        subsample: float = 1.0,
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
        self.prior = prior
        self.max_features = max_features
        self.floor = floor
        self.dynamic = dynamic
        self.importance_type = importance_type
        self.loss = loss
        self.huber_delta = huber_delta
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.subsample = subsample
        self.max_bin = max_bin
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.scoring = scoring
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_floor(self.floor)
        check_switch("dynamic", self.dynamic)
        check_choice("importance_type", self.importance_type, get_args(ImportanceType))

    def _tree_parameters(self, n_features: int) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)
        self.prior_ = feature_shares(self.prior, names, n_features)
        return {
            "max_features": features_per_node(self.max_features, n_features),
            "feature_weights": with_floor(self.prior_, float(self.floor)),
        }

    def _start(
        self,
        start: Callable[..., _core.ProjectedBoosting],
        loss: _core.OutputLoss,
        labels: Margins,
        weights: Margins | None,
        n_threads: int,
    ) -> Engine:
        engine = start(loss, labels, weights)
        if not self.dynamic:
            return JointEngine(engine)
        return DynamicSampling(engine, self.prior_, float(self.floor), self.importance_type)

    @property
    def feature_importances_(self) -> FloatArray:
        """Importance of each column of `X`, of shape (n_features,); they sum to 1.

        Mean over the trees (eruhimov2007, eq. 1 and 2, or as `importance_type` says).
        """
        check_is_fitted(self, "models_")
        return as_shares(model_importances(self.models_[0], self.importance_type))

    def _plain_parameters(self) -> dict[str, Any]:
        return super()._plain_parameters() | {"prior": as_plain(self.prior)}

    def _set_from_file(self, content: dict[str, Any]) -> None:
        super()._set_from_file(content)
        require(self.prior_.shape == (self.n_features_in_,), "the prior is of other columns")
        is_known = self.importance_type in get_args(ImportanceType)
        require(is_known, f"importance_type is {self.importance_type!r}")


@shares_docstring_of(BaseBoosting)
class PriorSamplingRegressor(BoostingRegressor, BasePriorSampling):
    """Gradient boosting whose nodes consider few features, drawn by a prior on their importance.

    With few rows and many features, the best of all candidate splits is often best by chance. Here
    each node draws a few features with probabilities proportional to their importance in related
    problems (see :func:`mtboost.feature_prior`), and takes the best split of those. With
    ``max_features=1`` the prior alone chooses features, which is best for very few rows.

    Parameters
    ----------
    n_estimators : int, default=200
        Number of rounds.
    prior : array-like of shape (n_features,), mapping or pandas Series of numbers by name, optional
        Importances >= 0 of the columns of `X`, on any scale. Names are matched with those of the
        columns: names of other columns are ignored, and a column that the prior does not name has
        the share that it would have without a prior. None: all columns are equal.
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Number of features that a node considers, drawn from the prior without replacement; a float
        is a fraction of them. None: all, and the prior only excludes features of weight 0.
    floor : float, default=0.05
        Part of the probability that is spread evenly over all features, from 0 to 1. Without it
        features whose prior is 0 are never used.
    dynamic : bool, default=False
        Update the prior by the importances of the trees so far (dynamic feature selection): the
        prior counts as ten trees beside them.
    importance_type : {"impurity", "gain"}, default="impurity"
        What a split adds to the importance of its feature: ``"impurity"`` the decrease of variance
        within its node, however few rows that has (eruhimov2007, eq. 1); ``"gain"`` that times the
        weight of the node's rows, as XGBoost's total gain.
    loss : {"squared_error", "absolute_error", "huber"}, default="squared_error"
        Loss, summed over outputs if there are several: standardise outputs of different units.
    huber_delta : float, default=1.0
        Residual, in units of the label, beyond which the Huber loss is linear.
    learning_rate : float, default=0.1
        Step size: factor on the leaf values of each tree.
    max_depth : int or None, default=3
        Maximum depth of a tree.
    min_samples_leaf : int or float, default=1
        Minimum rows of each child; a float is a fraction of all rows.

    Attributes
    ----------
    prior_ : ndarray of float64, shape (n_features,)
        The prior of the columns, without the floor. It sums to 1.
    feature_importances_ : ndarray of float64, shape (n_features,)
        Mean importance of each column over the trees. They sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import PriorSamplingRegressor
    >>> X = np.random.default_rng(0).normal(size=(50, 100))
    >>> y = X[:, 0] - X[:, 1]
    >>> prior = np.where(np.arange(100) < 5, 1.0, 0.01)
    >>> model = PriorSamplingRegressor(prior=prior, random_state=0).fit(X, y)
    >>> model.feature_importances_.argsort()[-2:].tolist()
    [0, 1]

    References
    ----------
    eruhimov2007, sections 2 and 3 (key in docs/papers.md).
    """

    _saved: ClassVar = BoostingRegressor._saved | BasePriorSampling._saved


@shares_docstring_of(PriorSamplingRegressor)
class PriorSamplingClassifier(BoostingClassifier, BasePriorSampling):
    """Gradient boosting of classes or labels; nodes consider few features, drawn by a prior.

    As :class:`PriorSamplingRegressor`, with the logistic loss of two classes or of each label, or
    the softmax loss of several classes, which share their trees. Labels may be unknown (NaN).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or (n_labels,)
        Classes, or the numbers of the columns of a matrix of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import PriorSamplingClassifier
    >>> X = np.random.default_rng(0).normal(size=(60, 100))
    >>> y = np.where(X[:, 0] > 0, "high", "low")
    >>> prior = np.where(np.arange(100) < 5, 1.0, 0.01)
    >>> model = PriorSamplingClassifier(50, prior=prior, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (60, 2)

    References
    ----------
    eruhimov2007, sections 2 and 3 (key in docs/papers.md).
    """

    _saved: ClassVar = BoostingClassifier._saved | BasePriorSampling._saved

    # Labels of a regressor alone have a choice of losses.
    __init__ = renamed(n_features="max_features")(
        without_parameters("loss", "huber_delta")(BasePriorSampling.__init__)
    )
