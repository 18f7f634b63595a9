# SPDX-License-Identifier: Apache-2.0
"""The parts of a fitted model, and the ordinary boosters that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_choice, did_you_mean, listed
from mtboost.base.classes import class_numbers
from mtboost.base.frames import FrameLibrary, as_frame
from mtboost.base.renamed import renamed
from mtboost.base.several_labels import LabelNames, labels_of
from mtboost.base.tables import Columns, TaskColumn, TaskPosition
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError, UnsupportedError
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.parts.boosters import Boosters
from mtboost.model.parts.calibration import Calibration
from mtboost.model.parts.common_stage import CommonStage
from mtboost.model.parts.task_report import TaskReport
from mtboost.model.parts.task_trees import TaskTrees
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.trees.backend import Backend
from mtboost.trees.document import Document
from mtboost.trees.losses import TaskLoss, has_hazards, is_quantile
from mtboost.trees.tree_options import ONE_STRATUM

Made = TypeVar("Made")
_MISSING = object()


@dataclass(slots=True, eq=False, repr=False)
class FittedParts:
    """The parts of a :class:`mtboost.MultiTaskModel`, which has the same attributes."""

    common_trees: CommonTrees
    specific: Boosters
    quit_round: dict[TaskName, int]
    common_columns: Columns
    task_columns: dict[TaskName, Columns]
    objective: str | dict[TaskName, str]
    metric: str | dict[TaskName, str]
    task_column: TaskColumn | None
    reports: dict[TaskName, TaskReport]
    losses: dict[TaskName, TaskLoss] = field(default_factory=dict)
    common_losses: dict[str, float] = field(default_factory=dict)
    common_choice: str | None = None
    shrinkage_factor: float | None = None
    has_task_levels: bool | None = None
    unseen_at_random: bool = False
    has_base_margin: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    specific_params: dict[TaskName, dict[str, Any]] = field(default_factory=dict)
    task_position: TaskPosition | None = None
    conformity_scores: dict[TaskName, npt.NDArray[np.float64]] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    label_names: LabelNames | None = None
    calibration: Calibration | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        n_specific = sum(report.specific_rounds > 0 for report in self.reports.values())
        kinds = dict.fromkeys(self.losses[task].objective for task in self.losses)
        return (
            f"<MultiTaskModel {', '.join(kinds) or self.objective}: {len(self.tasks)} tasks, "
            f"{self._library.n_rounds(self.common)} common rounds, {n_specific} specific models"
            f"{self._shrinkage_note}>"
        )

    @property
    def _shrinkage_note(self) -> str:
        """What to add to a short description of a model whose predictions are shrunk."""
        factor = self.shrinkage_factor
        if factor is None or factor == 1.0:
            return ""
        if factor == 0.0:
            return ", shrunk to a constant"
        return f", predictions shrunk by the factor {factor:.2g} towards a constant"

    def _objective_of(self, task: TaskName | None) -> str:
        """Objective of a task, or that of all."""
        return self.objective if isinstance(self.objective, str) else self.objective[task]  # type: ignore[index]

    def _metric_of(self, task: TaskName) -> str:
        """Name of the validation metric of a task, or of that of all."""
        return self.metric if isinstance(self.metric, str) else self.metric[task]

    def _copy(self, **changes: Any) -> Self:
        """The same with other parts; what a copy adds to its parts does not reach this one."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__} | changes
        own = {name: dict(part) for name, part in parts.items() if type(part) is dict}
        own["specific"] = parts["specific"].copy()
        return type(self)(**(parts | own | {"_cache": {}}))

    def __getstate__(self) -> dict[str, Any]:
        names = [name for name in self.__dataclass_fields__ if name != "_cache"]
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "_cache": {}}.items():
            setattr(self, name, value)

    @property
    def common(self) -> Any:
        """Booster of the common model."""
        return self.common_trees.booster

    @property
    def backend(self) -> str:
        """Name of the library of all boosters."""
        return self._library.name

    @property
    def _library(self) -> Backend:
        return self.common_trees.backend

    def _kept(self, key: str, make: Callable[[], Made]) -> Made:
        """Return what was made for a key; threads may ask together, and all use what one adds."""
        found = self._cache.get(key, _MISSING)
        if found is _MISSING:
            found = self._cache.setdefault(key, make())
        made: Made = found
        return made

    @property
    def _stage(self) -> CommonStage:
        """The common model as each task follows it, and what predictions keep of it."""
        return self._kept(
            "stage",
            lambda: CommonStage(
                self.common_trees,
                self.quit_round,
                self.common_columns,
                self.task_columns,
                self.losses,
            ),
        )

    @property
    def _task_trees(self) -> TaskTrees:
        """The trees that the core predicts with."""
        return self._kept("trees", lambda: TaskTrees(self._stage, self.specific))

    @property
    def _task_set(self) -> TaskSet:
        """The tasks by code."""
        return self._kept("task set", lambda: TaskSet(self.tasks, np.empty(0, np.int32)))

    @property
    def _names(self) -> TaskSet:
        """The tasks by code, and after them the groups that have leaf values."""
        return self._kept("names", lambda: TaskSet(self._stage.names, np.empty(0, np.int32)))

    @property
    def _used_columns(self) -> frozenset[str] | None:
        """Names of the columns of any task; None if columns have no names."""

        def make() -> frozenset[str] | None:
            columns = [self.common_columns, *self.task_columns.values()]
            names = [own.names for own in dict.fromkeys(columns) if own.names is not None]
            return frozenset[str]().union(*names) if names else None

        return self._kept("used columns", make)

    @property
    def _labels(self) -> LabelNames:
        """Labels of a row, of a model that has several."""
        return labels_of(self.label_names or (), self.tasks)

    @property
    def _task_position(self) -> TaskColumn:
        """Position of the task column in training; its name in models of early files."""
        found = self.task_column if self.task_position is None else self.task_position
        assert found is not None
        return found

    @property
    def _levels(self) -> tuple[float, ...]:
        """Levels of the quantiles that the model predicts; empty of other models."""
        return self._library.levels({**self.params, "objective": self.objective})

    @property
    def _is_one_stratum(self) -> bool:
        """Whether the risk sets of the common trees have rows of all tasks, as the search chose."""
        choice = self.common_choice or ""
        return has_hazards(self.objective) and ONE_STRATUM in choice.split(", ")

    @property
    def _output_name(self) -> str:
        """What the margins of a row belong to."""
        return "levels" if is_quantile(self.objective) else "classes"

    @property
    def tasks(self) -> tuple[TaskName, ...]:
        """Names of the tasks, in the order of training."""
        return tuple(self.quit_round)

    @property
    def history(self) -> dict[TaskName, dict[str, npt.NDArray[np.float64]]]:
        """Validation metric of each task after 0, 1, ... rounds, by stage.

        Curves of models of the training rows alone, by which rounds were found; empty where there
        were no validation rows. With ``strategy="auto"`` of the common model that was chosen, and
        of the task's specific or independent model, unless its rounds were found at another
        learning rate. They may end before the rounds that a model trained on all rows has.
        """
        return {
            task: {"common": report.common_history, "specific": report.specific_history}
            for task, report in self.reports.items()
        }

    @renamed(where_in_a_method)
    def curves(self, *, output: FrameLibrary = "pandas") -> Any:
        """Return :attr:`history` as one table, a row for each task, stage and round.

        Parameters
        ----------
        output : {"pandas", "polars"}, default="pandas"
            Library of the table.

        Returns
        -------
        DataFrame
            Columns ``task``, ``stage`` (``"common"`` or ``"specific"``), ``round``, ``metric`` (its
            name) and ``value``.

        Raises
        ------
        MissingDependencyError
            The library of `output` is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> shop = np.repeat(["a", "b", "c"], 100)
        >>> model = mtboost.fit(X, X[:, 0], task=shop, strategy="two-stage", num_boost_round=5)
        >>> model.curves().groupby(["task", "stage"])["value"].min().shape
        (6,)
        """
        check_choice("output", output, ("pandas", "polars"))
        columns: dict[str, list[Any]] = {
            name: [] for name in ("task", "stage", "round", "metric", "value")
        }
        for task, stages in self.history.items():
            metric = self._metric_of(task)
            for stage, curve in stages.items():
                n = len(curve)
                rows = ([task] * n, [stage] * n, range(n), [metric] * n, curve.tolist())
                for own, values in zip(columns.values(), rows, strict=True):
                    own.extend(values)
        return as_frame(columns, output)

    @renamed(where_in_a_method)
    def booster(self, task: TaskName | None = None) -> Any:
        """One ordinary booster for a task: its common rounds, then its specific rounds.

        It predicts from the task's columns and has no others, gives the model's margins (of XGBoost
        bit for bit; of LightGBM up to the order of two sums in double precision), and needs no
        mtboost. Calibrated margins are in its leaf values, up to rounding.

        Parameters
        ----------
        task : task name, optional
            By default all: a booster with an output for each task, in the order of :attr:`tasks`,
            and a last one for unknown tasks, which predicts as ``unknown_task="common"`` does, of
            nested tasks those of unknown groups.
            Every row is predicted as if it were of every task. Tasks with the same splits share
            trees whose leaves hold a number for each of them. XGBoost has such trees, LightGBM has
            not. A model of one task has its output alone.

        Returns
        -------
        xgboost.Booster or lightgbm.Booster
            With the categories and names of the training columns.

        Raises
        ------
        DataError
            The task is unknown, or one booster with the different trees of all tasks would be too
            large.
        UnsupportedError
            The library has no booster of all tasks: LightGBM; several classes or levels; tasks with
            different objectives.
        """
        if task is None:
            return self._booster_of_all()
        self._check_task(task)
        return self._document_of(task).load()

    def _document_of(self, task: TaskName | None) -> Document:
        """Trees of a task, or of an unknown one: None, or the name of its group."""
        document = self._stage.continued_by(task, None if task is None else self.specific.get(task))
        return document if self.calibration is None else document.affine(*self.calibration.of(task))

    def _booster_of_all(self) -> Any:
        if self.losses or self._stage.n_outputs > 1:
            what = "different objectives" if self.losses else f"several {self._output_name}"
            raise UnsupportedError(
                f"One booster cannot hold all tasks of a model with {what}. Ask for that of one "
                f"task, such as booster({self.tasks[0]!r})."
            )
        tasks = self.tasks if len(self.tasks) == 1 else (*self.tasks, None)
        return self._library.stacked(map(self._document_of, tasks))

    def _check_task(self, task: TaskName) -> None:
        try:
            self.quit_round[task]
        except (KeyError, TypeError):
            raise DataError(
                f"task {task!r} is unknown. Known: {listed(self.tasks, 'task')}."
                f"{did_you_mean(task, self.tasks)}"
            ) from None

    def _names_of_features(self, task: TaskName) -> list[str]:
        """Names of a task's columns, those of the library where the user gave none."""
        columns = self.task_columns[task]
        return list(columns.names or self._library.feature_names(columns))

    def _encode(self, y: Any) -> Any:
        """Labels with the numbers of classes that have names."""
        return class_numbers(y, self.classes)

    def _decode(self, y: Any) -> Any:
        """Labels as the user gives them, of those of :meth:`_encode`."""
        return y if self.classes is None else np.array(self.classes)[np.asarray(y, np.intp)]
