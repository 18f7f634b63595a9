# SPDX-License-Identifier: Apache-2.0
"""The arguments of a call of :func:`mtboost.fit`, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias

from mtboost.base.checks import check_choice, check_count, check_switch, is_number
from mtboost.base.given_splits import check_eval_set, check_no_fraction, check_validation
from mtboost.base.task_tables import CommonFeatures
from mtboost.base.task_weights import TaskWeight
from mtboost.errors import ParameterError, ParameterTypeError
from mtboost.metrics.metric import Metric
from mtboost.model.sharing.effort import Effort, EffortOption, effort_of
from mtboost.model.stages.settings import LinearOption
from mtboost.trees.feature_weights import PriorOption
from mtboost.trees.pooling import PoolingOption
from mtboost.trees.split_scores import Beta, Score
from mtboost.trees.task_quitting import OnRound

Strategy: TypeAlias = Literal["auto", "two-stage"]
#: A metric or a scorer of scikit-learn, or names of them; several, or those of tasks.
OneMetric: TypeAlias = "str | Metric | Callable[..., Any]"
EvalMetric: TypeAlias = "OneMetric | Sequence[OneMetric] | Mapping[Any, OneMetric] | None"
TaskSplits: TypeAlias = "bool | float | Literal['descriptors']"
#: How validation rows are held out: by name, or by a splitter of scikit-learn.
Validation: TypeAlias = Literal["random", "stratified", "last", "tasks"] | Any
#: Rows that are drawn: another draw is as good.
DRAWN = ("random", "stratified")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Arguments:
    """The arguments of a call of :func:`mtboost.fit`, by their names there."""

    X: Any
    y: Any
    task: Any
    objective: str | Mapping[Any, str] | Callable[..., Any] | None
    strategy: Strategy | None
    effort: EffortOption | Effort
    split_score: Score | None
    beta: Beta
    pooling: PoolingOption
    task_splits: TaskSplits | None
    symmetric_trees: bool | None
    random_strength: float | None
    unseen_at_random: bool | None
    linear_effects: LinearOption | None
    shrink_to_constant: bool
    backend: Literal["xgboost", "lightgbm"]
    params: Mapping[str, Any] | None
    num_boost_round: int | None
    early_stopping_rounds: int | None
    min_delta: float
    eval_metric: EvalMetric
    eval_set: Sequence[Any] | None
    validation_fraction: float | Literal["auto"]
    validation: Validation
    time: Any
    specific_params: Mapping[str, Any] | None
    specific_rounds: int
    feature_prior: PriorOption
    weight: Any
    base_margin: Any
    qid: Any
    task_weight: TaskWeight
    feature_names: Any
    common_features: CommonFeatures
    refit: bool | None
    baselines: bool
    intervals: bool
    calibrate: bool
    callbacks: Sequence[Any]
    on_round: OnRound | None
    verbose: bool | int
    n_threads: int | None
    seed: int
    init_model: Any
    n_ensemble: int

    @property
    def is_auto(self) -> bool:
        """Whether how much tasks share is chosen; of arguments that are checked."""
        return self.strategy == "auto"

    def checked(self) -> Self:
        """Return the arguments with strategy and effort, if what does not need rows is valid."""
        check_count("n_ensemble", self.n_ensemble, low=1)
        for name in ("refit", "symmetric_trees"):
            if getattr(self, name) is not None:
                check_switch(name, getattr(self, name))
        check_switch("baselines", self.baselines)
        check_switch("shrink_to_constant", self.shrink_to_constant)
        for name in ("calibrate", "intervals"):
            if check_switch(name, getattr(self, name)) and self.n_ensemble > 1:
                raise ParameterError(_NOT_OF_MEANS[name])
        if not isinstance(self.callbacks, list | tuple):
            raise ParameterTypeError(
                f"callbacks is a {type(self.callbacks).__name__}: pass a list of callbacks."
            )
        effort = effort_of(self.effort)
        check_validation(self.validation)
        check_eval_set(self.eval_set)
        if self.eval_set is not None and self.validation != "random":
            raise ParameterError("validation and eval_set are both given: leave one of them out.")
        check_no_fraction(self.eval_set, self.validation_fraction)
        rounds = (self.early_stopping_rounds, self.min_delta)
        strategy = strategy_of(self.strategy, *rounds, self.validation_fraction, self.eval_set)
        if strategy == "auto":
            _check_auto(*rounds)
        return replace(self, strategy=strategy, effort=effort)

    def without_rows(self) -> Self:
        """Return what other processes can have: arguments without rows and callbacks."""
        return replace(
            self,
            X=None,
            y=None,
            task=None,
            weight=None,
            base_margin=None,
            qid=None,
            eval_set=None,
            callbacks=(),
        )


_NOT_OF_MEANS = {
    "calibrate": "calibrate=True is for one model, and n_ensemble averages several: leave one out.",
    "intervals": "intervals=True is for one model, and n_ensemble averages several: leave one out, "
    "or call conformalize(X, y) of the mean with rows that it was not trained on.",
}


def strategy_of(
    strategy: Strategy | None,
    early_stopping_rounds: object,
    min_delta: object,
    validation_fraction: object,
    eval_set: object,
) -> Strategy:
    """Return the strategy: as asked, else "auto", unless another argument rules that out."""
    if strategy is not None:
        check_choice("strategy", strategy, ("auto", "two-stage"))
        return strategy
    has_no_validation = eval_set is None and is_zero(validation_fraction)
    is_ruled_out = early_stopping_rounds is None or not is_zero(min_delta) or has_no_validation
    return "two-stage" if is_ruled_out else "auto"


def _check_auto(early_stopping_rounds: object, min_delta: object) -> None:
    """Refuse arguments that ``strategy="auto"`` has no use for."""
    if early_stopping_rounds is None:
        raise ParameterError(
            "strategy='auto' finds numbers of rounds on the validation rows, and "
            "early_stopping_rounds=None fixes them: pass a number, or strategy='two-stage'."
        )
    if min_delta:
        raise ParameterError(
            f"min_delta is {min_delta!r}, but strategy='auto' takes the rounds with the least mean "
            "loss of many tasks, however small the difference: leave it out."
        )


def is_zero(value: object) -> bool:
    """Whether a value is the number 0."""
    return is_number(value) and bool(value == 0)
