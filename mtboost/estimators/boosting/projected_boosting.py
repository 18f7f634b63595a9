# SPDX-License-Identifier: Apache-2.0
"""Boosting of many outputs whose trees are cut by few components of them (joly2016, chapter 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.checks import check_choice, check_count, check_number, check_switch
from mtboost.errors import ParameterError
from mtboost.estimators.boosting.base import BaseBoosting, for_core
from mtboost.estimators.boosting.classifier import BoostingClassifier
from mtboost.estimators.boosting.regressor import BoostingRegressor
from mtboost.estimators.boosting.rounds import Apart, Engine, Margins, Together
from mtboost.estimators.tree_parameters import MaxFeatures, features_per_node
from mtboost.trees.projections import (
    NComponents,
    Projection,
    check_projection,
    count_components,
    make_projection,
)

Strategy: TypeAlias = Literal["gbrt-relabel-rpo", "gbrt-rpo", "gbmort", "single-target"]
BoostingProjection: TypeAlias = Projection | Literal["variance"]
_STRATEGIES = ("gbrt-relabel-rpo", "gbrt-rpo", "gbmort", "single-target")
_OF_RESIDUALS = {"variance": "variance", "pca": "singular"}


class BaseProjectedBoosting(BaseBoosting):
    """What classifier and regressor share; described at `ProjectedBoostingRegressor`."""

    strategy: Strategy
    projection: BoostingProjection
    n_components: NComponents
    shared: bool
    max_leaf_nodes: int | None
    max_features: MaxFeatures
    colsample_bytree: float

    def _check_parameters(self) -> None:
        check_choice("strategy", self.strategy, _STRATEGIES)
        super()._check_parameters()
        check_number("colsample_bytree", self.colsample_bytree, above=0.0, high=1.0)
        check_switch("shared", self.shared)
        if self._residual_kind() is None:
            check_projection(cast(Projection, self.projection), self.n_components)
        else:
            count_components(self.n_components, 1)
        if self.strategy == "gbrt-rpo" and self.n_components not in ("log", 1):
            raise ParameterError(
                f"n_components is {self.n_components!r}, but strategy='gbrt-rpo' has one: leave it "
                f"out, or use 'gbrt-relabel-rpo'."
            )

    def _check_goes_on(self, loss: _core.OutputLoss) -> None:
        n_models = loss.n_outputs if self.strategy == "single-target" else 1
        relabels = self.strategy != "gbrt-rpo"
        if len(self.models_) != n_models or self.models_[0].relabels != relabels:
            raise ParameterError(
                f"warm_start cannot go on with trees of another strategy than {self.strategy!r}: "
                f"leave warm_start out to begin again."
            )

    def _tree_parameters(self, n_features: int) -> dict[str, Any]:
        return {
            "max_leaf_nodes": 0
            if self.max_leaf_nodes is None
            else check_count("max_leaf_nodes", self.max_leaf_nodes, low=2, besides="None"),
            "max_features": features_per_node(self.max_features, n_features),
            "colsample": float(self.colsample_bytree),
        }

    def _start(
        self,
        start: Callable[..., _core.ProjectedBoosting],
        loss: _core.OutputLoss,
        labels: Margins,
        weights: Margins | None,
        n_threads: int,
    ) -> Engine:
        if self.strategy != "single-target":
            projection = self._projection(loss, labels, weights, n_threads)
            relabels = self.strategy != "gbrt-rpo"
            return Together(start(loss, labels, weights, relabels=relabels, projection=projection))
        counts = _label_counts(labels, weights)
        engines = [
            start(self._loss(1), labels[:, [output]], _column(weights, output), model=output)
            for output in range(loss.n_outputs)
        ]
        return Apart(engines, counts / counts.sum())

    def _projection(
        self, loss: _core.OutputLoss, labels: Margins, weights: Margins | None, n_threads: int
    ) -> Any:
        if self.strategy == "gbmort" or loss.n_outputs == 1:
            return None
        n_components = 1 if self.strategy == "gbrt-rpo" else self.n_components
        kind = self._residual_kind()
        if kind is None:
            given = cast(Projection, self.projection)
            return make_projection(given, n_components, loss.n_outputs, is_shared=self.shared)
        count = min(count_components(n_components, loss.n_outputs), loss.n_outputs)
        drawn = _core.ResidualProjection(kind, n_components=count)
        if not self.shared:
            return drawn
        own = for_core(labels)
        initial = loss.initial(own, weights, n_threads=n_threads)
        margins = np.repeat(initial[np.newaxis], len(labels), axis=0)
        residuals = loss.residuals(margins, own, weights, n_threads=n_threads)
        return _core.ForestProjection(
            drawn.matrix(residuals, seed=self._seed, tree=0, n_threads=n_threads)
        )

    def _residual_kind(self) -> str | None:
        """The core's name of a projection that looks at the residuals of each round."""
        return _OF_RESIDUALS.get(self.projection) if isinstance(self.projection, str) else None


def _column(weights: Margins | None, output: int) -> Margins | None:
    if weights is None or weights.ndim == 1:
        return weights
    return np.ascontiguousarray(weights[:, output])


def _label_counts(labels: Margins, weights: Margins | None) -> npt.NDArray[np.float64]:
    """Weight of the known labels of each output."""
    own = np.ones((1, 1)) if weights is None else weights.reshape(len(labels), -1)
    counts: npt.NDArray[np.float64] = (~np.isnan(labels) * own).sum(axis=0, dtype=np.float64)
    return counts


class ProjectedBoostingRegressor(BoostingRegressor, BaseProjectedBoosting):
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
    min_samples_leaf : int or float, default=5
        Least rows on each side of a cut, whatever their weights; a float is a part of all rows.
        Leaves of one row follow its noise; with much noise 20 are better still
        (docs/projected_boosting.md, section 8).
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
        min_samples_leaf: int | float = 5,
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


class ProjectedBoostingClassifier(BoostingClassifier, BaseProjectedBoosting):
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
        min_samples_leaf: int | float = 5,
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

    def _loss(self, n_outputs: int | None = None) -> _core.OutputLoss:
        loss = super()._loss(n_outputs)
        if loss.name == "softmax" and self.strategy == "single-target":
            raise ParameterError(
                "strategy='single-target' has no probabilities of several classes: use another, or "
                "sklearn.multiclass.OneVsRestClassifier."
            )
        return loss
