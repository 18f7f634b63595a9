# SPDX-License-Identifier: Apache-2.0
"""XGBoost's own trees, whose features are drawn by a prior (eruhimov2007)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.checks import check_number, check_switch
from mtboost.base.interrupts import restored
from mtboost.errors import ParameterError, UnsupportedError
from mtboost.trees.feature_weights import (
    FLOOR,
    FeaturePrior,
    check_floor,
    feature_shares,
    read_importances,
    sampling_weights,
)
from mtboost.xgboost.booster import GrowingBooster
from mtboost.xgboost.collective import Workers
from mtboost.xgboost.library import check_samples_features, check_version


class PriorFeatureSampling(xgboost.callback.TrainingCallback):
    """Let XGBoost draw features that were important elsewhere more often than others.

    In each node XGBoost draws a few features without replacement, each with a probability that is
    proportional to its weight among those left, and takes the best split of these. Where rows are
    few, a split of an unimportant feature cannot win by chance if the feature is seldom considered.
    Loop, objective, metrics and early stopping stay XGBoost's, and the booster is an ordinary one.
    It works in ``xgboost.cv``, ``xgboost.dask`` and scikit-learn's wrappers too, and with
    :class:`TaskSplit` if it stands after it in `callbacks`::

        prior = mtboost.feature_prior(problems)
        params = {"colsample_bynode": 0.1, ...}  # fraction of the features per node
        booster = xgboost.train(params, dtrain, 200, callbacks=[PriorFeatureSampling(prior)])

    Parameters
    ----------
    prior : mapping of feature name to float, or array-like of shape (n_features,), optional
        Importances, of any scale; see :func:`mtboost.feature_prior`. Columns that a mapping does
        not name have the share of the draws that they would have without a prior, 1 / n_features.
        None, with ``dynamic=True``: all features are equal at first.
    dynamic : bool, default=False
        After each round the total gains of the trees so far count too.
    prior_rounds : float, default=10.0
        With ``dynamic=True``, the number of rounds whose gains together count as much as the prior.
    floor : float in [0, 1], default=0.05
        Fraction of the draws in which all features are equal. With 0 a feature of weight 0 is drawn
        only if there are fewer others than a node considers.

    Raises
    ------
    ParameterError
        `floor` or `prior_rounds` is out of range; there is no prior, and ``dynamic=False``. When
        training begins: ``colsample_bynode`` is 1.
    UnsupportedError
        When training begins: ``booster="gblinear"``, ``tree_method="exact"``, which draw no
        features for a node; another callback's booster; ``dynamic=True`` with :class:`TaskSplit`,
        or with vector trees before XGBoost 3.2.
    DataError
        The prior holds no importances, or does not fit the training matrix.

    Notes
    -----
    A node considers max(1, ⌊n_features · colsample_bynode⌋) features. The source takes
    ⌊√n_features⌋ (its PFS), or 1 (PFS₁). ``colsample_bytree`` and ``colsample_bylevel`` draw by the
    same weights.

    After c rounds the share of a feature is (prior_rounds · p + c · g) / (prior_rounds + c), where
    p and g are its parts of the prior and of all gain so far. The source leaves this rule open.

    Weights are in the training matrix while XGBoost grows a round. Before and after it has its own,
    also if training is interrupted.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import PriorFeatureSampling
    >>> X = np.random.default_rng(0).normal(size=(50, 100))
    >>> dtrain = xgboost.DMatrix(X, X[:, 0] - X[:, 1])
    >>> prior = np.where(np.arange(100) < 5, 1.0, 0.01)
    >>> params = {"max_depth": 3, "colsample_bynode": 0.1}  # 10 of 100 features a node
    >>> booster = xgboost.train(params, dtrain, 20, callbacks=[PriorFeatureSampling(prior)])
    >>> booster.num_boosted_rounds()
    20

    References
    ----------
    eruhimov2007, section 3; section 2 for the dynamic weights (key in docs/papers.md).
    """

    def __init__(
        self,
        prior: FeaturePrior | None = None,
        *,
        dynamic: bool = False,
        prior_rounds: float = 10.0,
        floor: float = FLOOR,
    ) -> None:
        super().__init__()
        check_version()
        if prior is not None:
            read_importances(prior)
        elif not dynamic:
            raise ParameterError(
                "Without a prior all features are equal, as in XGBoost without this callback: give "
                "a prior, or dynamic=True."
            )
        self.prior = prior
        self.dynamic = check_switch("dynamic", dynamic)
        self.prior_rounds = check_number("prior_rounds", prior_rounds, above=0.0)
        self.floor = check_floor(floor)

    def weights(
        self, matrix: xgboost.DMatrix, booster: xgboost.Booster | None = None
    ) -> npt.NDArray[np.float32]:
        """Weights of the features of a matrix, the largest 1, for the trees after `booster`'s.

        Parameters
        ----------
        matrix : DMatrix
            To train on.
        booster : Booster, optional
            The trees so far, which count if ``dynamic=True``.

        Returns
        -------
        ndarray of float32, shape (n_features,)
            What ``feature_weights`` of the matrix would be.

        Raises
        ------
        DataError
            The prior does not fit the matrix.
        """
        n_features = matrix.num_col()
        shares = feature_shares(self.prior, matrix.feature_names, n_features)
        n_rounds = booster.num_boosted_rounds() if self.dynamic and booster is not None else 0
        if n_rounds and booster is not None:
            names = matrix.feature_names or [f"f{feature}" for feature in range(n_features)]
            found = booster.get_score(importance_type="total_gain")
            gains = np.array([found.get(name, 0.0) for name in names], np.float64)
            if gains.any():
                parts = gains / gains.sum()
                shares = (self.prior_rounds * shares + n_rounds * parts) / (
                    self.prior_rounds + n_rounds
                )
        return sampling_weights(shares, self.floor)

    # ---- what xgboost.train calls ----------------------------------------------------------------

    def before_training(self, model: Any) -> Any:
        for booster in _boosters(model):
            self._start(booster)
        return model

    def _start(self, booster: xgboost.Booster) -> None:
        sampling_class = _SAMPLING.get(type(booster))
        if sampling_class is None:
            raise UnsupportedError(
                "PriorFeatureSampling works with XGBoost's own trees and with TaskSplit, but "
                "another callback has put its booster in their place: give the training matrix "
                "weights that stay, dtrain.set_info(feature_weights=...)."
            )
        stock = booster
        if isinstance(booster, GrowingBooster):
            if self.dynamic:
                raise UnsupportedError(
                    "TaskSplit reads the weights of features once, before the first round: use "
                    "dynamic=False, or leave out TaskSplit."
                )
            stock = booster.growth.stock
        check_samples_features(stock, stock.num_features(), needs_gains=self.dynamic)
        booster.__class__ = sampling_class
        cast(_SamplingBooster, booster).sampling = self

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if not all(isinstance(booster, _SamplingBooster) for booster in _boosters(model)):
            raise UnsupportedError(
                "Another callback, such as TaskSplit, has replaced the booster after "
                "PriorFeatureSampling had seen it: let it stand before PriorFeatureSampling in "
                "callbacks."
            )
        return False

    def after_training(self, model: Any) -> Any:
        for booster in _boosters(model):
            # A callback before this one may have sliced the booster already.
            if isinstance(booster, _SamplingBooster):
                del booster.sampling
                booster.__class__ = _STOCK[type(booster)]  # type: ignore[assignment]
        return model


class _SamplingBooster(xgboost.Booster):
    """XGBoost's booster in training, whose matrix has the weights of `sampling` in each round."""

    sampling: PriorFeatureSampling

    def update(
        self, dtrain: xgboost.DMatrix, iteration: int, fobj: Callable[..., Any] | None = None
    ) -> None:
        weights = self.sampling.weights(dtrain, self)
        workers = Workers.of_this_thread()
        if workers is not None:
            workers.check_equal({"the weights of the features": weights.tobytes()})
        with _weighted(dtrain, weights):
            super().update(dtrain, iteration, fobj)

    def __getstate__(self) -> dict[str, Any]:  # what XGBoost's copies are made from
        state: dict[str, Any] = super().__getstate__()
        del state["sampling"]
        return state

    def __reduce__(self) -> Any:
        return copy.copy, (copy.copy(self),)  # a copy is a genuine booster


class _SamplingGrowingBooster(_SamplingBooster, GrowingBooster):
    """The same with the trees of TaskSplit."""


_SAMPLING: dict[type[xgboost.Booster], type[_SamplingBooster]] = {
    xgboost.Booster: _SamplingBooster,
    GrowingBooster: _SamplingGrowingBooster,
}
_STOCK = {sampling: stock for stock, sampling in _SAMPLING.items()}


def _boosters(model: Any) -> list[xgboost.Booster]:
    """The booster in training, or in ``xgboost.cv`` that of each fold."""
    return [model] if isinstance(model, xgboost.Booster) else [fold.bst for fold in model.cvfolds]


@contextmanager
def _weighted(matrix: xgboost.DMatrix, weights: npt.NDArray[np.float32]) -> Iterator[None]:
    def weigh() -> npt.NDArray[np.float32]:
        own: npt.NDArray[np.float32] = matrix.get_float_info("feature_weights")
        matrix.set_info(feature_weights=weights)
        return own

    with restored(weigh, lambda own: matrix.set_info(feature_weights=own)):
        yield
