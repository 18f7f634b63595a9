# SPDX-License-Identifier: Apache-2.0
"""The common model of each fold, all with the same number of rounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.validation import Folds
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import is_of_hazards
from mtboost.metrics.survival import cox_losses
from mtboost.model.sharing.curves import extended_curves, mean_histories
from mtboost.model.stages.common import (
    CommonModel,
    SharedByModels,
    fit_common,
    follow_common,
    followed_margins,
)
from mtboost.model.stages.levels import with_levels
from mtboost.model.stages.mean_watch import MeanWatch
from mtboost.model.stages.objectives import Objectives
from mtboost.model.stages.settings import Settings
from mtboost.model.stages.specific import SpecificModel, fit_specific
from mtboost.model.stages.task_losses import as_losses
from mtboost.trees.backend import Margins


@dataclass(frozen=True)
class CommonByFold:
    """Common models with one setting, one for each fold.

    Attributes
    ----------
    settings : Settings
    by_fold : list of Settings
        The same for the training rows of each fold.
    folds : Folds
    models : list of CommonModel
        Each follows the best number of rounds of all folds, as far as it has that many.
    n_rounds : int
        The number of boosted rounds with the least mean loss over the validation rows of all folds.
    has_levels : bool
        Whether the levels of the tasks were estimated again after the trees.
    """

    settings: Settings
    by_fold: list[Settings]
    folds: Folds
    models: list[CommonModel]
    n_rounds: int
    has_levels: bool = False

    def losses_of_rows(self) -> Float64Array:
        """Loss of each validation row, fold after fold."""
        predictions = []
        for model, settings, (_, valid) in self._of_folds():
            n_rounds = max(model.quit_round.values()) - model.trees.n_linear
            known = _watch_of(model).predictions_after(n_rounds)
            if known is not None:
                predictions.append(
                    settings.objectives.followed_response(known, valid, settings.params)
                )
            else:
                margins = followed_margins(settings, model, valid)
                predictions.append(on_label_scale(settings, valid.tasks, margins))
        return _losses_of(self.settings, self.folds, np.concatenate(predictions))

    def least_losses(self) -> list[float]:
        """Least mean loss after any round, in each fold."""
        return [_watch_of(model).best for model in self.models]

    def judged_by(self, tasks: Collection[TaskName]) -> CommonByFold:
        """Return the same models with the validation rows of some tasks."""
        names = set(tasks)
        if all(names.issuperset(valid.tasks) for _, valid in self.folds.pairs):
            return self  # with the margins that are known
        kept = [
            (model, settings)
            for model, settings, (_, valid) in self._of_folds()
            if not set(valid.tasks).isdisjoint(tasks)
        ]
        models, by_fold = [model for model, _ in kept], [settings for _, settings in kept]
        return replace(self, by_fold=by_fold, folds=self.folds.judged_by(tasks), models=models)

    def with_levels(self) -> CommonByFold:
        """Return the models with the levels of tasks estimated again; see stages/levels.py."""
        models = [
            with_levels(settings, train, model) for model, settings, (train, _) in self._of_folds()
        ]
        return replace(self, models=models, has_levels=True)

    def unused(self) -> CommonByFold:
        """Return models of which no task uses a round."""
        models = [
            CommonModel(model.trees, dict.fromkeys(model.quit_round, 0), {}, {})
            for model in self.models
        ]
        return replace(self, models=models, n_rounds=0)

    def fit_specific(
        self, settings: Settings, alone: Collection[TaskName] = ()
    ) -> list[dict[TaskName, SpecificModel]]:
        """Continue the models for each task in each fold; see :func:`fit_specific`."""
        return [
            fit_specific(settings.on_rows(pair[0]), *pair, model, alone=alone, followed=margins)
            for model, pair, margins in zip(
                self.models,
                self.folds.pairs,
                zip(self._of_train, self._of_valid, strict=True),
                strict=True,
            )
        ]

    def followed_margins(self) -> npt.NDArray[Any]:
        """Return the margins of the validation rows, fold after fold."""
        return np.concatenate(self._of_valid)

    @cached_property
    def _of_train(self) -> list[Margins]:
        """Margins of the training rows of each fold."""
        return [
            followed_margins(settings, model, train)
            for model, settings, (train, _) in self._of_folds()
        ]

    @cached_property
    def _of_valid(self) -> list[Margins]:
        """Margins of the validation rows of each fold."""
        return [
            followed_margins(settings, model, valid)
            for model, settings, (_, valid) in self._of_folds()
        ]

    def _of_folds(self) -> Iterator[tuple[CommonModel, Settings, tuple[Dataset, Dataset]]]:
        return zip(self.models, self.by_fold, self.folds.pairs, strict=True)

    def history(self, reported: Objectives) -> dict[TaskName, Float64Array]:
        """Return the validation metric of each task after 0, 1, ... rounds, by these objectives."""
        histories = [model.history for model in self.models]
        if reported is not self.settings.objectives:
            other = replace(self.settings, objectives=reported)
            histories = [
                follow_common(other.on_rows(train), model.trees, valid, valid, 0).history
                for model, _, (train, valid) in self._of_folds()
            ]
        return mean_histories(
            reported.losses_of(self.folds.tasks.names),
            histories,
            self.folds.tasks.names,
            self.folds.valid_rows_by_task(self.folds.tasks),
        )


def fit_common_by_fold(
    settings: Settings,
    folds: Folds,
    to_beat: Sequence[float] | None = None,
    shared: Sequence[SharedByModels | None] | None = None,
    is_beaten: Callable[[Folds, Float64Array], bool] | None = None,
) -> CommonByFold:
    """Grow the common model of each fold; all folds together say how many rounds are best.

    Parameters
    ----------
    settings : Settings
    folds : Folds
    to_beat : sequence of float, optional
        Mean loss of each fold that a model must come near, or its training ends.
    shared : sequence of SharedByModels, optional
        What models of other trees have left in each fold.
    is_beaten : callable, optional
        Given the first folds, two or more, and the loss of each of their validation rows after the
        rounds that are best in its fold. Where it returns True the other folds are left out.
    """
    bars = [np.inf] * len(folds.pairs) if to_beat is None else to_beat
    known = [None] * len(folds.pairs) if shared is None else shared
    by_fold: list[Settings] = []
    models: list[CommonModel] = []
    for (train, valid), bar, own in zip(folds.pairs, bars, known, strict=True):
        by_fold.append(settings.on_rows(train))
        models.append(fit_common(by_fold[-1], train, valid, to_beat=bar, shared=own))
        if is_beaten is not None and 2 <= len(models) < len(folds.pairs):
            first = folds.first(len(models))
            if is_beaten(first, _least_losses_of_rows(settings, by_fold, first, models)):
                folds = first
                break
    best = _best_round(models, folds)
    followed = [
        replace(
            model,
            quit_round=dict.fromkeys(
                model.quit_round, min(model.trees.n_linear + best, model.trees.n_rounds)
            ),
        )
        for model in models
    ]
    return CommonByFold(settings, by_fold, folds, followed, best)


def row_losses(settings: Settings, folds: Folds, margins: npt.NDArray[Any]) -> Float64Array:
    """Loss of each validation row: the metric of the row alone, or of its query."""
    tasks = folds.valid_tasks()
    return _losses_of(settings, folds, on_label_scale(settings, tasks, margins))


def _best_round(models: list[CommonModel], folds: Folds) -> int:
    """Return the round with the least mean loss of all folds."""
    curves = [np.array(_watch_of(model).curve) for model in models]
    length = max(map(len, curves))
    weights = [float(valid.loss_weights().sum()) for _, valid in folds.pairs]
    mean = np.average(extended_curves(curves, length), axis=0, weights=weights)
    return _watch_of(models[0]).first_round + int(np.argmin(mean))


def _least_losses_of_rows(
    settings: Settings, by_fold: Sequence[Settings], folds: Folds, models: Sequence[CommonModel]
) -> Float64Array:
    """Loss of each validation row after the rounds that are best in its fold, fold after fold."""
    predictions = [
        own.objectives.followed_response(_watch_of(model).best_predictions, valid, own.params)
        for own, (_, valid), model in zip(by_fold, folds.pairs, models, strict=True)
    ]
    return _losses_of(settings, folds, np.concatenate(predictions))


def _watch_of(model: CommonModel) -> MeanWatch:
    assert model.together is not None
    return model.together


def on_label_scale(
    settings: Settings, tasks: TaskSet, margins: npt.NDArray[Any]
) -> npt.NDArray[np.floating]:
    """Return margins of rows of tasks, shape (n_rows, n_outputs), on the scale of the labels."""
    own = margins[:, 0] if margins.shape[1] == 1 else margins
    return settings.objectives.response(own, tasks.names, tasks.codes, settings.params)


def are_judged(settings: Settings, folds: Folds) -> npt.NDArray[np.bool_]:
    """Whether each validation row counts in its task's metric: of hazards, beside an event."""
    labels = np.concatenate([valid.labels() for _, valid in folds.pairs])
    if not is_of_hazards(settings.objectives.metric):
        return np.ones(len(labels), bool)
    strata = _strata(folds)
    return np.asarray(np.bincount(strata, labels > 0.0)[strata] > 0.0)


def _strata(folds: Folds) -> npt.NDArray[np.int64]:
    """Number of the task and fold of each validation row."""
    codes = [valid.tasks.codes for _, valid in folds.pairs]
    first = np.cumsum([0, *(valid.tasks.n_tasks for _, valid in folds.pairs)])
    return np.concatenate([at + own for at, own in zip(first, codes, strict=False)])


def _losses_of(
    settings: Settings, folds: Folds, predictions: npt.NDArray[np.floating]
) -> Float64Array:
    """Loss of each validation row that is predicted so, on the scale of the labels."""
    labels = np.concatenate([valid.labels() for _, valid in folds.pairs])
    metric, queries = settings.objectives.metric, folds.valid_queries()
    if is_of_hazards(metric):
        return cox_losses(labels, predictions, _strata(folds))
    if queries is None:
        losses = settings.objectives.losses_of(folds.tasks.names)
        return losses.of_rows(labels, predictions, folds.valid_tasks().codes)
    n_queries = int(queries[-1]) + 1
    values = evaluate_by_task(metric, labels, predictions, queries, n_queries, None, queries)
    return as_losses(metric, values)[queries]
