# SPDX-License-Identifier: Apache-2.0
"""Our trees inside LightGBM's own training loop.

``lightgbm.train`` asks its booster for little: ``update``, ``eval_train`` and ``eval_valid`` each
round, its text at the end. :class:`GrowingBooster` is the stock booster with these replaced; the
stock object keeps the parameters, metrics and data, but no tree ever enters it. Whatever else asks
for the model (saving, predicting, SHAP, a user's callback) is given a genuine booster, assembled
when needed.
"""

from __future__ import annotations

import copy
from typing import Any, cast

import lightgbm

from mtboost.base.interrupts import uninterrupted
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.lightgbm import library
from mtboost.lightgbm.growth import LightgbmGrowth
from mtboost.trees.growth import Objective
from mtboost.trees.tree_options import TreeOptions

_ONLY_FINISHED = (
    "{} cannot be used while TaskSplit trains: use it on the finished booster, without "
    "keep_training_booster=True."
)


class GrowingBooster(library.EvaluatedBooster):
    """A booster during training: what ``lightgbm.train`` and its callbacks see.

    Made of a stock booster by :func:`take_over`. Any method not defined here works on a genuine
    booster of the trees so far.
    """

    growth: LightgbmGrowth
    _trained: lightgbm.Booster | None

    def __del__(self) -> None:
        release(self).__del__()

    @property
    def _handle(self) -> Any:  # type: ignore[override]  # an attribute in Booster
        return self.trained()._handle

    def trained(self) -> lightgbm.Booster:
        """A genuine booster of the trees so far."""
        if self.growth.n_rounds == 0:
            return self.growth.stock
        if self._trained is None:
            self._trained = self.growth.to_booster()
        for name in ("best_iteration", "best_score", "params"):
            setattr(self._trained, name, getattr(self, name))
        return self._trained

    def update(
        self, train_set: lightgbm.Dataset | None = None, fobj: Objective | None = None
    ) -> bool:
        if train_set is not None and train_set is not self.growth.stock.train_set:
            raise DataError("TaskSplit trains on one data set; update() was given another one.")
        if fobj is None and self._has_no_objective:
            raise ParameterError(
                "The objective of this training is a function, which a booster does not keep: "
                "give it to update(fobj=...)."
            )
        if fobj is not None and not self._has_no_objective:
            self.reset_parameter({"objective": "none"})
            self._has_no_objective = True
        self._trained = None
        return self.growth.update(fobj)

    @property
    def _has_no_objective(self) -> bool:
        """LightGBM's own note that functions take the place of its objective."""
        has_none: bool = self.__dict__["_Booster__set_objective_to_none"]
        return has_none

    @_has_no_objective.setter
    def _has_no_objective(self, has_none: bool) -> None:
        self.__dict__["_Booster__set_objective_to_none"] = has_none

    def eval(self, data: lightgbm.Dataset, name: str, feval: Any = None) -> list[Any]:
        if not any(data is own for own in (self.train_set, *self.valid_sets)):
            self.add_valid(data, name)
        return self.growth.evaluate(data, name, feval)

    def add_valid(self, data: lightgbm.Dataset, name: str) -> GrowingBooster:
        self.growth.stock.add_valid(data, name)  # whose lists of data sets are ours
        return self

    def reset_parameter(self, params: dict[str, Any]) -> GrowingBooster:
        self._trained = None
        self.growth.stock.reset_parameter(params)  # whose `params` are ours
        self.growth.read_settings()
        return self

    def current_iteration(self) -> int:
        return self.growth.n_rounds

    def rollback_one_iter(self) -> GrowingBooster:
        raise UnsupportedError("TaskSplit cannot take a round back: train with fewer rounds.")

    def shuffle_models(self, *args: Any, **kwargs: Any) -> GrowingBooster:
        raise UnsupportedError(_ONLY_FINISHED.format("shuffle_models()"))

    def set_leaf_output(self, *args: Any, **kwargs: Any) -> GrowingBooster:
        raise UnsupportedError(_ONLY_FINISHED.format("set_leaf_output()"))

    def free_dataset(self) -> lightgbm.Booster:
        """Become a genuine booster, which cannot be trained any more."""
        text = self.model_to_string(num_iteration=-1)
        return self.model_from_string(text).free_dataset()

    def model_from_string(self, model_str: str) -> lightgbm.Booster:
        """Become the stock booster again, of another model: how ``lightgbm.train`` ends."""
        return library.become(release(self), model_str)

    # Copies and pickles are genuine boosters.

    def __copy__(self) -> lightgbm.Booster:
        return copy.copy(self.trained())

    def __deepcopy__(self, memo: Any) -> lightgbm.Booster:
        return copy.deepcopy(self.trained(), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return object.__new__, (lightgbm.Booster,), self.trained().__getstate__()


def take_over(
    booster: lightgbm.Booster,
    *,
    tasks: TaskSet,
    options: TreeOptions,
    task_column: int | str | None = None,
) -> LightgbmGrowth:
    """Make a growing booster of a stock one, in place: ``lightgbm.train`` holds the object."""
    growth = LightgbmGrowth(booster, tasks=tasks, options=options, task_column=task_column)
    with uninterrupted():  # two owners of a handle would both free what it refers to
        # The stock booster lives on as a separate object with the same state.
        growth.stock = object.__new__(lightgbm.Booster)
        growth.stock.__dict__.update(booster.__dict__)
        del booster.__dict__["_handle"]
        booster.__dict__.update(growth=growth, _trained=None)
        booster.__class__ = GrowingBooster
    return growth


def release(growing: GrowingBooster) -> lightgbm.Booster:
    """Make the stock booster of a growing one again, without our trees; in place."""
    booster = cast(lightgbm.Booster, growing)
    with uninterrupted():
        stock = growing.growth.stock.__dict__
        growing.__dict__["_handle"], stock["_handle"] = stock["_handle"], None
        del growing.growth, growing._trained
        booster.__class__ = lightgbm.Booster
    return booster
