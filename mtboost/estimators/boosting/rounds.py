# SPDX-License-Identifier: Apache-2.0
"""Rounds of boosting: a score after each, early stopping, progress, callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.checks import refuse, shown
from mtboost.base.progress import Progress
from mtboost.errors import DataError, ParameterTypeError, TrainingError
from mtboost.estimators.table_estimator import CoreTable
from mtboost.trees.growth import naming_the_round

Margins = npt.NDArray[np.float32]


class Engine(Protocol):
    """Trainer of trees, for all outputs jointly or for each separately."""

    def update(self, *, n_threads: int) -> None: ...
    def mean_loss(self) -> float: ...
    @property
    def models(self) -> Sequence[_core.BoostedModel]: ...


class JointEngine:
    """One engine for all outputs."""

    def __init__(self, engine: _core.ProjectedBoosting) -> None:
        self._engine = engine

    def update(self, *, n_threads: int) -> None:
        self._engine.update(n_threads=n_threads)

    def mean_loss(self) -> float:
        return self._engine.mean_loss()

    @property
    def models(self) -> Sequence[_core.BoostedModel]:
        return [self._engine.model]


class SeparateEngines:
    """One independent engine for each output (binary relevance).

    Parameters
    ----------
    engines : sequence of _core.ProjectedBoosting
    shares : ndarray of shape (n_outputs,)
        Share of each output in the weight of the known labels.
    """

    def __init__(
        self, engines: Sequence[_core.ProjectedBoosting], shares: npt.NDArray[np.float64]
    ) -> None:
        self._engines = engines
        self._shares = shares

    def update(self, *, n_threads: int) -> None:
        for engine in self._engines:
            engine.update(n_threads=n_threads)

    def mean_loss(self) -> float:
        losses = [engine.mean_loss() for engine in self._engines]
        return float(self._shares @ losses)

    @property
    def models(self) -> Sequence[_core.BoostedModel]:
        return [engine.model for engine in self._engines]


def predict_margins(
    models: Sequence[_core.BoostedModel],
    table: CoreTable,
    margins: Sequence[Margins] | None = None,
    *,
    first: int = 0,
    last: int | None = None,
    n_threads: int,
) -> list[Margins]:
    """Margins of each model, or `margins` with the trees from `first` to before `last` added."""
    of_models = [None] * len(models) if margins is None else margins
    return [
        model.predict(table, first=first, last=last, margins=own, n_threads=n_threads)
        for model, own in zip(models, of_models, strict=True)
    ]


@dataclass
class Validation:
    """Validation rows, and the score of each round on them.

    Attributes
    ----------
    table : what the core reads
    score : callable
        Function of the margins; greater is better.
    early_stopping_rounds : int, optional
        Rounds without a better score after which training ends.
    scores : list of float
        After each round, also of those before this training.
    best_round : int
        Number of trees at the best score so far, the first of equal ones, and no less than training
        began with.
    """

    table: CoreTable
    score: Callable[[Margins], float]
    early_stopping_rounds: int | None
    scores: list[float] = field(default_factory=list)
    best_round: int = 0
    _best: float = -np.inf
    _n_worse: int = 0
    _margins: list[Margins] | None = None
    _n_seen: int = 0

    def add_rounds_before(self, models: Sequence[_core.BoostedModel], *, n_threads: int) -> None:
        """Score each round of the model that training goes on with, and the last to be improved."""
        n_trees = models[0].n_trees
        for last in range(1, n_trees + 1):
            self._add_score(models, last, n_threads)
        if n_trees > 0:
            self.best_round, self._best = n_trees, self.scores[-1]

    def add_round(self, models: Sequence[_core.BoostedModel], *, n_threads: int) -> bool:
        """Score the newest round; return whether training continues."""
        n_trees = models[0].n_trees
        self._add_score(models, n_trees, n_threads)
        self._n_worse += 1
        if self.best_round == 0 or self.scores[-1] > self._best:
            self.best_round, self._best, self._n_worse = n_trees, self.scores[-1], 0
        return self.early_stopping_rounds is None or self._n_worse < self.early_stopping_rounds

    def _add_score(
        self, models: Sequence[_core.BoostedModel], n_trees: int, n_threads: int
    ) -> None:
        self._margins = predict_margins(
            models,
            self.table,
            self._margins,
            first=self._n_seen,
            last=n_trees,
            n_threads=n_threads,
        )
        self._n_seen = n_trees
        self.scores.append(self.score(np.hstack(self._margins)))
        if self.early_stopping_rounds is not None and math.isnan(self.scores[-1]):
            raise DataError(
                f"The score of the rows held out is nan after round {n_trees}, and early stopping "
                "cannot compare it with others: hold out more rows, or choose another scoring."
            )


@dataclass(frozen=True)
class Round:
    """Argument of a callback.

    Attributes
    ----------
    number : int
        Trees so far.
    train_loss : float
        Mean loss of the known labels of the rows that are trained on.
    validation_score : float or None
        Greater is better; of ``"loss"`` it is the negative loss.
    """

    number: int
    train_loss: float
    validation_score: float | None


def checked_callbacks(callbacks: object) -> list[Callable[[Round], object]]:
    """Return callbacks as a list; ParameterTypeError unless all can be called."""
    if not isinstance(callbacks, Iterable) or isinstance(callbacks, str):
        refuse("callbacks", callbacks, "a sequence of functions", kind=ParameterTypeError)
    found = list(callbacks)
    for callback in found:
        if not callable(callback):
            raise ParameterTypeError(
                f"callbacks holds {shown(callback)}: it must be a function that takes a round."
            )
    return found


def run_rounds(
    engine: Engine,
    n_rounds: int,
    *,
    validation: Validation | None,
    callbacks: Sequence[Callable[[Round], object]],
    verbose: int,
    n_threads: int,
) -> list[float]:
    """Train; the training loss after each round. A callback that returns True ends the training."""
    losses: list[float] = []
    if validation is not None:
        validation.add_rounds_before(engine.models, n_threads=n_threads)
    shown = Progress(n_rounds, is_shown=verbose > 0, unit="round", every=max(1, verbose))
    with shown as progress:
        for number in range(1, n_rounds + 1):
            with naming_the_round(number):
                engine.update(n_threads=n_threads)
            losses.append(engine.mean_loss())
            if not math.isfinite(losses[-1]):
                raise TrainingError(
                    f"Round {number - 1}: the training loss is {losses[-1]:g}. Lower "
                    "learning_rate, or rescale labels or weights."
                )
            goes_on, score = True, None
            if validation is not None:
                goes_on = validation.add_round(engine.models, n_threads=n_threads)
                score = validation.scores[-1]
            current = Round(engine.models[0].n_trees, losses[-1], score)
            answers = [callback(current) for callback in callbacks]  # call all of them
            goes_on &= not any(isinstance(own, bool | np.bool_) and own for own in answers)
            progress.report(number, _reached(current, validation))
            if not goes_on:
                break
    return losses


def _reached(current: Round, validation: Validation | None) -> str:
    """Training loss and validation score, as progress shows them."""
    loss = f"training loss {current.train_loss:.5g}"
    if validation is None:
        return loss
    best = max(validation.scores)
    return f"{loss}, validation score {current.validation_score:.5g}, best {best:.5g}"
