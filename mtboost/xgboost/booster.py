# SPDX-License-Identifier: Apache-2.0
"""Our trees inside XGBoost's own training loop.

``xgboost.train`` asks its booster for three things a round: ``update``, ``eval_set``, and now and
then an attribute or parameter. :class:`GrowingBooster` is the stock booster with these replaced;
the stock object keeps the parameters, metrics and attributes, but no tree ever enters it. Whatever
else asks for the model (saving, slicing, SHAP, a user's callback) is given a genuine booster,
assembled when needed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.arrays import Float32Array
from mtboost.trees.growth import Objective
from mtboost.xgboost.growth import XgboostGrowth


class GrowingBooster(xgboost.Booster):
    """A booster during training: what ``xgboost.train`` and its callbacks see.

    Any method not defined here works on :attr:`handle`, a genuine booster of the trees so far.
    """

    def __init__(self, growth: XgboostGrowth) -> None:
        # Booster.__init__ would create another model; everything is in `growth`.
        self.growth = growth
        self._trained: xgboost.Booster | None = None

    def __del__(self) -> None:
        pass  # the handle belongs to another booster

    @property
    def handle(self) -> Any:  # type: ignore[override]  # an attribute in Booster
        return self.trained().handle

    def trained(self) -> xgboost.Booster:
        """A genuine booster of the trees so far."""
        if self._trained is None:
            self._trained = self.growth.to_booster(self.attributes(), self.save_config())
        return self._trained

    def update(
        self, dtrain: xgboost.DMatrix, iteration: int, fobj: Objective | None = None
    ) -> None:
        self._trained = None
        self.growth.update(dtrain, iteration, fobj)

    def boost(self, dtrain: xgboost.DMatrix, iteration: int, **kwargs: Any) -> None:
        """Grow from given gradients, as ``Booster.boost`` of any supported version."""
        self._trained = None
        if kwargs.get("fobj") is not None:
            self.growth.update(dtrain, iteration, kwargs["fobj"])
        else:
            self.growth.update(dtrain, iteration, lambda *_: (kwargs["grad"], kwargs["hess"]))

    def eval_set(
        self,
        evals: Sequence[tuple[xgboost.DMatrix, str]],
        iteration: int = 0,
        feval: Callable[..., Any] | None = None,
        output_margin: bool = True,
    ) -> str:
        return self.growth.evaluate(evals, iteration, feval, output_margin)

    def predict(
        self,
        data: xgboost.DMatrix,
        output_margin: bool = False,
        training: bool = False,
        **kwargs: Any,
    ) -> npt.NDArray[np.float32]:
        if kwargs:
            options = {"output_margin": output_margin, "training": training, **kwargs}
            return cast(Float32Array, self.trained().predict(data, **options))
        return self.growth.predict(data, output_margin=output_margin)

    def num_boosted_rounds(self) -> int:
        return self.growth.n_rounds

    # Parameters and attributes stay with the stock booster.

    def set_param(self, params: Any, value: Any = None) -> None:
        self._trained = None
        self.growth.set_param(params, value)

    def save_config(self) -> str:
        return self.growth.stock.save_config()

    def attr(self, key: str) -> str | None:
        return self.growth.stock.attr(key)

    def attributes(self) -> dict[str, str | None]:
        return self.growth.stock.attributes()

    def set_attr(self, **kwargs: Any) -> None:
        self._trained = None
        self.growth.stock.set_attr(**kwargs)

    # Copies and pickles are genuine boosters.

    def __copy__(self) -> xgboost.Booster:
        return copy.copy(self.trained())

    def __deepcopy__(self, memo: Any) -> xgboost.Booster:
        return copy.deepcopy(self.trained(), memo)

    def copy(self) -> xgboost.Booster:
        return self.trained().copy()

    def __reduce__(self) -> Any:
        # copy.copy hands back what it is given; a function of ours would be needed to unpickle.
        return copy.copy, (self.trained(),)
