# SPDX-License-Identifier: Apache-2.0
"""The mean of several models, as one model.

Margins are averaged, not predictions: the mean of boosters is then a booster, whose leaf values are
divided by their number. In the mean of models that differ by what rows they held out, the choices
that chance has made cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from mtboost.base.arrays import Float32Array
from mtboost.base.checks import check_count, check_type
from mtboost.base.tables import Columns
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, UnsupportedError
from mtboost.model.inputs.arguments import Arguments
from mtboost.model.model import MultiTaskModel
from mtboost.model.parts.boosters import Boosters
from mtboost.model.parts.task_report import TaskReport
from mtboost.model.sharing.effort import Effort
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.trees.document import Document

#: What models have in common that have a mean.
_SAME = (
    *("backend", "tasks", "objective", "classes", "label_names"),
    *("common_columns", "task_columns"),
)


def fit_ensemble(
    fit: Callable[[Arguments], MultiTaskModel], arguments: Arguments, tasks: TaskSet
) -> MultiTaskModel:
    """Return the mean of models that differ in their seeds: ``fit(n_ensemble=...)``.

    Raises
    ------
    UnsupportedError
        Before any training, for models that have no mean.
    """
    if isinstance(arguments.objective, Mapping):
        raise UnsupportedError(
            "n_ensemble averages margins, which have different units with an objective for each "
            "task: leave one of them out."
        )
    if tasks.n_levels > 1:
        raise UnsupportedError(
            "n_ensemble averages trees of single tasks, and nested tasks have leaf values of "
            "groups too: leave n_ensemble out, or name the tasks by one column."
        )
    effort, n_models = arguments.effort, arguments.n_ensemble
    seed = check_count("seed", arguments.seed)
    assert isinstance(effort, Effort)
    effort = replace(effort, seconds=effort.seconds / n_models)
    own = replace(arguments, n_ensemble=1, effort=effort)
    return average_models([fit(replace(own, seed=seed + number)) for number in range(n_models)])


def average_models(models: Iterable[MultiTaskModel]) -> MultiTaskModel:
    """Make one model whose margins are the means of those of several.

    Parameters
    ----------
    models : iterable of MultiTaskModel
        Of the same library, objective, tasks and columns, such as models of different seeds.

    Returns
    -------
    MultiTaskModel
        A new model, all of whose trees belong to single tasks (`MultiTaskModel.specific`;
        ``quit_round`` is 0), except those of an unknown task. Its report has the means of the
        models' validation scores; that of their mean is usually better. It has no validation
        curves. Memory and the size of its file grow with tasks times trees.

    Raises
    ------
    DataError
        The models differ in more than their trees, or there are none.
    UnsupportedError
        Models with an objective for each task, or with leaf values of groups of nested tasks.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] + (shop == "b")
    >>> few = dict(task=shop, strategy="two-stage", num_boost_round=20)
    >>> models = [mtboost.fit(X, y, seed=seed, **few) for seed in (0, 1)]
    >>> mean = mtboost.average_models(models)
    >>> parts = [model.predict(X, task=shop) for model in models]
    >>> bool(np.allclose(mean.predict(X, task=shop), np.mean(parts, axis=0), atol=1e-5))
    True
    """
    check_type("models", models, Iterable, "several models, such as a list")
    models = list(models)
    _check_are_alike(models)
    first, stages = models[0], [model._stage for model in models]
    library, columns = stages[0].backend, first.common_columns
    starts = [stage.document.start_margins() for stage in stages]
    # The common trees that an unknown task follows.
    common = _mean([stage.continued_by(None, None) for stage in stages], starts, columns)
    specific = {}
    for task in first.tasks:
        documents = [
            stage.continued_by(task, model.specific[task])
            for stage, model in zip(stages, models, strict=True)
        ]
        specific[task] = _mean(documents, starts, first.task_columns[task]).load()
    return MultiTaskModel(
        common_trees=CommonTrees(library, common.load(), first.tasks),
        specific=Boosters(specific),
        quit_round=dict.fromkeys(first.tasks, 0),
        common_columns=columns,
        task_columns=dict(first.task_columns),
        objective=first.objective,
        metric=first.metric,
        task_column=first.task_column,
        task_position=first.task_position,
        label_names=first.label_names,
        reports={
            task: _mean_report(
                [model.reports[task] for model in models], library.n_rounds(specific[task])
            )
            for task in first.tasks
        },
        common_losses={
            f"{name} (model {number})": loss
            for number, model in enumerate(models, start=1)
            for name, loss in model.common_losses.items()
        },
        params=dict(first.params),
        specific_params=dict(first.specific_params),
        classes=first.classes,
        has_base_margin=any(model.has_base_margin for model in models),
    )


def _mean(
    documents: Sequence[Document], starts: Sequence[Float32Array], columns: Columns
) -> Document:
    """Return the mean of trees, which starts where the first do."""
    own = [
        document if np.array_equal(start, starts[0]) else document.starting_at(starts[0])
        for document, start in zip(documents, starts, strict=True)
    ]
    scaled = [document.scaled(1.0 / len(own)) for document in own]
    return reduce(lambda first, second: first.followed_by(second, columns), scaled)


def _mean_report(reports: Sequence[TaskReport], n_rounds: int) -> TaskReport:
    """Return what the reports of a task have in common; scores are their means."""
    first = reports[0]
    names = [name for name in first.scores if all(name in own.scores for own in reports)]
    names = [name for name in names if not name.endswith(" se")]  # of a mean of scores: unknown
    ways = dict.fromkeys(own.sharing for own in reports if own.sharing)
    return TaskReport(
        n_rows=first.n_rows,
        n_valid_rows=first.n_valid_rows,
        n_positives=first.n_positives,
        n_valid_positives=first.n_valid_positives,
        quit_round=0,
        specific_rounds=n_rounds,
        why_no_specific="",
        scores={name: float(np.mean([own.scores[name] for own in reports])) for name in names},
        common_history=np.empty(0),
        specific_history=np.empty(0),
        sharing=" / ".join(ways),
    )


def _check_are_alike(models: Sequence[MultiTaskModel]) -> None:
    """Raise an error unless the mean of the models is a model."""
    if not models:
        raise DataError("models is empty: pass one model or more.")
    for number, model in enumerate(models):
        check_type(f"models[{number}]", model, MultiTaskModel, "a MultiTaskModel")
    first = models[0]
    for number, model in enumerate(models):
        for name in _SAME:
            if getattr(model, name) != getattr(first, name):
                raise DataError(
                    f"models[{number}] has other {name} than models[0]: only models of the same "
                    "library, objective, tasks and columns have a mean."
                )
        if model._levels != first._levels:
            raise DataError(
                f"models[{number}] predicts the levels {list(model._levels)}, and models[0] "
                f"{list(first._levels)}: quantiles of different levels have no mean."
            )
        if model.calibration is not None:
            raise UnsupportedError(
                f"models[{number}] is calibrated, and a mean of calibrated models is not: fit "
                "without calibrate=True."
            )
        if model.losses:
            raise UnsupportedError(
                f"models[{number}] has an objective for each task, whose margins have different "
                "units: average models of one objective."
            )
        if model.common_trees.groups:
            raise UnsupportedError(
                f"models[{number}] has leaf values for groups of nested tasks, and a mean would "
                "not have them: name the tasks by their last level, or use one model."
            )
