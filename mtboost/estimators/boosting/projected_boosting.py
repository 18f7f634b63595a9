# SPDX-License-Identifier: Apache-2.0
"""Boosting of many outputs with splits found on few projected components (joly2016, ch. 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.checks import check_choice, check_count, check_number, check_switch
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.renamed import renamed, without_parameters
from mtboost.errors import ParameterError
from mtboost.estimators.boosting.base import BaseBoosting, for_core
from mtboost.estimators.boosting.classifier import BoostingClassifier
from mtboost.estimators.boosting.regressor import BoostingRegressor
from mtboost.estimators.boosting.rounds import Engine, JointEngine, Margins, SeparateEngines
from mtboost.estimators.tree_parameters import MaxFeatures, features_per_node
from mtboost.model.inputs.keywords import where_in_a_method
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
    """Shared part of classifier and regressor; parameters: `ProjectedBoostingRegressor`."""

    @renamed(where_in_a_method)
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

    def _check_parameters(self) -> None:
        check_choice("strategy", self.strategy, _STRATEGIES)
        super()._check_parameters()
        check_number("colsample_bytree", self.colsample_bytree, above=0.0, high=1.0)
        check_switch("shared", self.shared)
        check_projection(self.projection, self.n_components, besides=tuple(_OF_RESIDUALS))
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
            engine = start(loss, labels, weights, relabels=relabels, projection=projection)
            return JointEngine(engine)
        counts = _label_counts(labels, weights)
        engines = [
            start(self._loss(1), labels[:, [output]], _column(weights, output), model=output)
            for output in range(loss.n_outputs)
        ]
        return SeparateEngines(engines, counts / counts.sum())

    def _projection(
        self, loss: _core.OutputLoss, labels: Margins, weights: Margins | None, n_threads: int
    ) -> Any:
        if self.strategy == "gbmort" or loss.n_outputs == 1:
            return None
        n_components = 1 if self.strategy == "gbrt-rpo" else self.n_components
        kind = self._residual_kind()
        if kind is None:
            given = cast(Projection, self.projection)
            if self.strategy == "gbrt-rpo" and given is None:
                raise ParameterError(
                    f"projection is None, all {loss.n_outputs} outputs, but strategy='gbrt-rpo' "
                    f"has one component: choose a projection, or use 'gbmort'."
                )
            n_rows = 1 if isinstance(given, str) else len(np.atleast_1d(cast(Any, given)))
            if self.strategy == "gbrt-rpo" and n_rows > 1:
                raise ParameterError(
                    f"projection is a matrix of {n_rows} components, but strategy='gbrt-rpo' has "
                    f"one: give one row, or use 'gbrt-relabel-rpo'."
                )
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
        """The core's name of a projection that is computed from the residuals of each round."""
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


@shares_docstring_of(BaseBoosting)
class ProjectedBoostingRegressor(BoostingRegressor, BaseProjectedBoosting):
    """Gradient boosting of many outputs, with splits found on few projected components.

    Each round projects the residuals of all outputs onto `n_components` components and grows one
    tree on them. Its leaf values are then computed for all outputs, so that a round of hundreds of
    outputs costs little more than one of few, and related outputs share trees. Labels may be
    unknown (NaN).

    Parameters
    ----------
    n_estimators : int, default=100
        Number of rounds.
    strategy : str, default="gbrt-relabel-rpo"
        ``"gbrt-relabel-rpo"``: as described above. ``"gbrt-rpo"``: a leaf has one number, that of
        the one component, and each output multiplies the tree by a weight: small models, for
        outputs that have little in common. ``"gbmort"``: splits are found on all outputs.
        ``"single-target"``: a separate model for each output.
    loss : {"squared_error", "absolute_error", "huber"}, default="squared_error"
        Loss, summed over outputs: standardise outputs of different units.
    huber_delta : float, default=1.0
        Residual, in units of the label, beyond which the Huber loss is linear.
    projection : str, array-like of shape (n_components, n_outputs) or None, default="gaussian"
        ``"gaussian"``, ``"rademacher"`` (±1), ``"achlioptas"`` (two thirds zeros), ``"sparse"`` (a
        fraction 1/√d is not zero), ``"hadamard"``, ``"subsample"`` (some of the outputs); or by the
        residuals of the round: ``"variance"`` (outputs, drawn in proportion to their unexplained
        variance) or ``"pca"`` (the directions of largest variance). None: all outputs.
    n_components : "log", int or float, default="log"
        Number of components; ``"log"`` is the natural logarithm of the number of outputs, a float a
        fraction of them. A matrix as `projection` has as many as rows.
    shared : bool, default=False
        Use the first round's projection in all rounds.
    learning_rate : float, default=0.1
        Step size: factor on the leaf values of each tree. Up to 1 the training loss never rises, if
        every tree is grown on all rows.
    max_depth : int or None, default=6
        Maximum depth of a tree.
    max_leaf_nodes : int, optional
        Maximum number of leaves; the node with the largest gain is split first.
    min_samples_leaf : int or float, default=5
        Minimum rows of each child, whatever their weights; a float is a fraction of all rows.
        Leaves of one row follow its noise; with much noise 20 are better still
        (docs/projected_boosting.md, section 8).
    max_features : {"sqrt", "log2"}, int, float or None, default=None
        Number of features that a node considers; a float is a fraction of them, None are all.
    colsample_bytree : float, default=1.0
        Fraction of the features drawn for each tree.

    Attributes
    ----------
    feature_importances_ : ndarray of float64, shape (n_features,)
        Share of each column in the gain of all splits.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import ProjectedBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> Y = X @ rng.normal(size=(4, 30))
    >>> model = ProjectedBoostingRegressor(20, n_components=5, random_state=0).fit(X, Y)
    >>> model.predict(X).shape
    (200, 30)
    >>> type(model.booster()).__name__  # of XGBoost, with 30 outputs
    'Booster'

    References
    ----------
    joly2016, section 22, algorithms 2 and 3 (key in docs/papers.md).
    """


@shares_docstring_of(ProjectedBoostingRegressor)
class ProjectedBoostingClassifier(BoostingClassifier, BaseProjectedBoosting):
    """Gradient boosting of many labels or classes, with splits found on few components.

    As :class:`ProjectedBoostingRegressor`, with the logistic loss of each label, or the softmax
    loss of the classes. Labels may be unknown (NaN): such a label is ignored, the row's others
    count.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or (n_labels,)
        Classes, or the numbers of the columns of a matrix of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import ProjectedBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> Y = X @ rng.normal(size=(4, 30)) > 0  # 30 labels
    >>> model = ProjectedBoostingClassifier(20, n_components=5, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (200, 30)

    References
    ----------
    joly2016, section 22, algorithms 2 and 3 (key in docs/papers.md).
    """

    # Labels of a regressor alone have a choice of losses.
    __init__ = renamed(where_in_a_method)(
        without_parameters("loss", "huber_delta")(BaseProjectedBoosting.__init__)
    )

    def _loss(self, n_outputs: int | None = None) -> _core.OutputLoss:
        loss = super()._loss(n_outputs)
        if loss.name == "softmax" and self.strategy == "single-target":
            raise ParameterError(
                "strategy='single-target' has no probabilities of several classes: use another, or "
                "sklearn.multiclass.OneVsRestClassifier."
            )
        return loss
