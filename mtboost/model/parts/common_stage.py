# SPDX-License-Identifier: Apache-2.0
"""The common model as each task follows it: its rounds, its leaf values, its objective."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mtboost.base.archive import require
from mtboost.base.arrays import FloatArray, Int32Array, Int64Array
from mtboost.base.latest import Latest
from mtboost.base.missing_columns import align_some, lacking
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.trees.backend import Backend, Margins, Response
from mtboost.trees.document import Document
from mtboost.trees.losses import TaskLoss

# Tasks of one call that their own boosters predict.
_FEW_TASKS = 16
# Size of the boosters of tasks that are kept for later predictions, as files.
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class _KeptBooster:
    booster: Any
    n_bytes: int


@dataclass(frozen=True, eq=False)
class CommonStage:
    """First part of the model of each task; the second is its specific model.

    Boosters of a task's rounds are kept, for predictions that follow.

    Attributes
    ----------
    trees : CommonTrees
    quit_round : mapping of task name to int
        Rounds that each task uses; the order of its names is that of the codes.
    columns : Columns
        Columns of the common model.
    task_columns : mapping of task name to Columns
        Columns of each task, which may lack some of the common ones.
    losses : mapping of task name to TaskLoss
        Start and unit of the tasks, if each task has its objective; else empty.
    """

    trees: CommonTrees
    quit_round: Mapping[TaskName, int]
    columns: Columns
    task_columns: Mapping[TaskName, Columns]
    losses: Mapping[TaskName, TaskLoss]
    _cache: dict[str, Any] = field(default_factory=dict)

    @property
    def backend(self) -> Backend:
        return self.trees.backend

    @cached_property
    def tasks(self) -> tuple[TaskName, ...]:
        return tuple(self.quit_round)

    @cached_property
    def names(self) -> tuple[TaskName, ...]:
        """Tasks, and groups of them that have leaf values: their positions are the codes."""
        return (*self.quit_round, *self.trees.groups)

    @property
    def n_outputs(self) -> int:
        return self.document.n_outputs

    @cached_property
    def optional_columns(self) -> frozenset[str]:
        """Common columns that some task lacks."""
        columns = self.task_columns.values()
        return frozenset[str]().union(*(lacking(self.columns, own) for own in columns))

    @property
    def most_rounds(self) -> int:
        """Rounds of an unknown task: the most that a task uses; all if none uses any.

        Where all tasks have models without common rounds, these are the best that is known of
        others.
        """
        return max(self.quit_round.values()) or self.trees.n_rounds

    @property
    def stored(self) -> Collection[str] | None:
        """Columns of a sparse table in which NaN must be stored to be missing; None is all."""
        return () if self.backend.unstored_is_missing else None

    def check(self) -> None:
        """Raise ModelFormatError unless trees, rounds, columns and losses fit together."""
        backend, booster, document = self.backend, self.trees.booster, self.document
        n_rounds = backend.n_rounds(booster)
        is_known = all(0 <= rounds <= n_rounds for rounds in self.quit_round.values())
        require(is_known, f"a task uses other rounds than the {n_rounds} of the common model")
        self.trees.check(document)
        has_columns = backend.has_columns(booster, self.columns, self.trees.n_added)
        require(has_columns, "the common model has other columns")
        require(not (self.losses and self.n_outputs > 1), "the common model has several outputs")
        for loss in self.losses.values():
            require(loss.objective in backend.mixable, f"a task has the objective {loss.objective}")
            backend.loss(loss.objective, loss.options)
            require(loss.is_usable, "a task has a loss without start, unit or dispersion")

    # ---- margins ----------------------------------------------------------------------------

    def margins(self, table: Table, codes: Int32Array, start: FloatArray | None) -> Margins:
        """Margins of rows, each of the task or group with its code; -1 is an unknown task.

        Parameters
        ----------
        table : Table
            Its columns are found by name, in any order and among others.
        codes : ndarray of shape (n_rows,)
        start : ndarray of shape (n_rows,) or (n_rows, n_outputs), optional
            What each row starts from.
        """
        if not self.optional_columns:
            return self._of_common_columns(self.columns.align(table), codes, start)
        margins: Margins | None = None
        for common, rows in self._common_tables(table, codes):
            part = self._of_common_columns(
                common, codes[rows], None if start is None else start[rows]
            )
            if margins is None:
                margins = np.empty((table.n_rows, *part.shape[1:]), part.dtype)
            margins[rows] = part
        assert margins is not None
        return margins

    def _common_tables(self, table: Table, codes: Int32Array) -> Iterator[tuple[Table, Int64Array]]:
        """The common columns of rows whose tasks have the same ones, and these rows.

        What a task lacks is missing, whatever the table has there.
        """
        groups: dict[Columns | None, list[int]] = {}
        for code in np.unique(codes).tolist():
            task = self.task_of(code)
            columns = None if task is None else self.task_columns[task]
            groups.setdefault(columns, []).append(code)
        for columns, members in groups.items():
            rows = np.flatnonzero(np.isin(codes, members))
            part = table.take(rows)
            if part.feature_names is None:
                part = (columns or self.columns).align(part)
            absent = self.optional_columns.intersection(lacking(self.columns, columns or part))
            own = [name for name in self.columns.names or () if name not in absent]
            yield align_some(self.columns, part, own, stored=self.stored), rows

    def _of_common_columns(
        self, common: Table, codes: Int32Array, start: FloatArray | None
    ) -> Margins:
        if not (self.losses or self.trees.are_same_for_all):
            present = np.unique(codes)
            has_sums = start is not None and self.backend.adds_sums
            if 0 < len(present) <= _FEW_TASKS and not has_sums:
                return self._of_boosters(common, codes, present, start)
            own = self.codes_in_trees(codes)
            found = self.trees.margins(common, own, self.rounds_of(codes), start)
            return found[:, 0] if found.shape[1] == 1 else found
        margins: Margins | None = None
        for booster, rows in self._boosters(codes):
            part = self.backend.predict_margin(
                booster, common.take(rows), None if start is None else start[rows]
            )
            if margins is None:
                margins = np.empty((common.n_rows, *part.shape[1:]), part.dtype)
            margins[rows] = part
        assert margins is not None
        return margins

    def _of_boosters(
        self, common: Table, codes: Int32Array, present: Int32Array, start: FloatArray | None
    ) -> Margins:
        """Margins of rows of few tasks, whose boosters are kept: to make one takes long."""
        parts = []
        for code in present.tolist():
            rows = np.flatnonzero(codes == code)
            is_all = len(rows) == common.n_rows
            parts.append(
                self.backend.predict_margin(
                    self._booster_of(code),
                    common if is_all else common.take(rows),
                    None if start is None else start[rows],
                )
            )
        margins = np.concatenate(parts)
        margins[np.argsort(codes, kind="stable")] = margins.copy()
        return margins

    def _booster_of(self, code: int) -> Any:
        """The booster that a task, a group or an unknown task follows."""

        def make() -> _KeptBooster:
            name = self.names[code] if code >= 0 else None
            rounds = int(self.rounds_of(np.array([code], np.int32))[0])
            booster = self.trees.document_of(name, self.document).first_rounds(rounds)
            return _KeptBooster(booster, len(self.backend.dump(booster)))

        kept = self._cache.setdefault("boosters", Latest(_MOST_BYTES))
        found: _KeptBooster = kept.get(code, make)
        return found.booster

    def _boosters(self, codes: Int32Array) -> Iterator[tuple[Any, Int64Array]]:
        """Boosters, each with the rows that follow it."""
        if self.losses:
            for code in np.unique(codes):
                yield self.followed_by(self.tasks[code]), np.flatnonzero(codes == code)
            return
        rounds = self.rounds_of(codes)
        for n_rounds in np.unique(rounds):
            yield self._first_rounds(int(n_rounds)), np.flatnonzero(rounds == n_rounds)

    def task_of(self, code: int) -> TaskName | None:
        """Task with this code; None of a group, or for -1, an unknown task."""
        return self.tasks[code] if 0 <= code < len(self.tasks) else None

    def rounds_of(self, codes: Int32Array) -> Int64Array:
        """Rounds that the task with each code uses; others are unknown tasks."""
        return np.asarray(self._rounds[codes])

    @cached_property
    def _rounds(self) -> Int64Array:
        known = list(self.quit_round.values())
        n_others = 1 + len(self.names) - len(known)  # groups and, last, unknown tasks
        return np.array(known + n_others * [self.most_rounds])

    def codes_in_trees(self, codes: Int32Array) -> Int32Array:
        """Codes by which the common trees know tasks and groups; -1 is an unknown task."""
        return np.asarray(self._own_codes[codes])

    @cached_property
    def _own_codes(self) -> Int32Array:
        return np.append(self.trees.codes_of(self.names), np.int32(-1))

    # ---- boosters ---------------------------------------------------------------------------

    def followed_by(self, task: TaskName) -> Any:
        """A booster of the rounds that the task uses, with its leaf values and objective.

        An unknown task has :attr:`most_rounds`.
        """
        rounds = self.quit_round.get(task, self.most_rounds)
        if self.losses:
            return self._own_rounds(rounds, task)
        if self.trees.are_same_for_all:
            return self._first_rounds(rounds)
        return self._document_of(task).first_rounds(rounds)

    def continued_by(self, task: TaskName | None, specific: Any) -> Document:
        """Document of what the task follows and of its specific model, if it has one.

        None is an unknown task; the name of a group one of that group.
        """
        document = self._document_of(task)
        if task is None or task not in self.quit_round:
            return document.combined(None, self.most_rounds, self.columns)
        n_rounds = self.quit_round[task]
        if self.losses:
            booster = self.followed_by(task)
            document, n_rounds = self.backend.document(booster), self.backend.n_rounds(booster)
        columns = self.task_columns[task]
        names = lacking(self.columns, columns)
        if names:
            document = document.without_columns(self.columns, names)
        return document.combined(specific, n_rounds, columns)

    def response(self, task: TaskName | None) -> Response:
        """Return what makes predictions of the margins of a task, or of all."""
        key = "response" if task is None else f"response {task!r}"
        if key not in self._cache:
            self._cache[key] = self.backend.response(self._without_rounds(task))
        response: Response = self._cache[key]
        return response

    def probabilities(self, task: TaskName | None, objective: str) -> Response:
        """As :meth:`response` for probabilities of classes."""
        key = "probabilities" if task is None else f"probabilities {task!r}"
        if key not in self._cache:
            booster = self._without_rounds(task)
            self._cache[key] = self.backend.probabilities(booster, objective)
        response: Response = self._cache[key]
        return response

    def _without_rounds(self, task: TaskName | None) -> Any:
        """Return a booster without rounds, which has the link of a task, or of all."""
        if task is None or not self.losses:
            return self._first_rounds(0)
        return self._own_rounds(0, task)

    def _first_rounds(self, rounds: int) -> Any:
        key = f"rounds {rounds}"
        if key not in self._cache:
            self._cache[key] = self.document.first_rounds(rounds)
        return self._cache[key]

    def _own_rounds(self, rounds: int, task: TaskName) -> Any:
        """The first rounds as a booster of the task's own objective."""
        loss, are_same = self.losses[task], self.trees.are_same_for_all
        key = f"rounds {rounds} {loss}" + ("" if are_same else f" {task!r}")
        if key not in self._cache:
            self._cache[key] = self._document_of(task).own_rounds(rounds, loss)
        return self._cache[key]

    def _document_of(self, task: TaskName | None) -> Document:
        return self.trees.document_of(task, self.document)

    @cached_property
    def document(self) -> Document:
        """The common booster taken apart."""
        return self.backend.document(self.trees.booster)
