# SPDX-License-Identifier: Apache-2.0
"""Predictions by the core: the trees of each task, laid out once and kept for later calls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array, FloatArray, Int32Array
from mtboost.base.latest import Latest
from mtboost.base.tables import Columns, Table
from mtboost.errors import ModelFormatError, UnsupportedError
from mtboost.model.parts.boosters import Boosters
from mtboost.model.parts.common_stage import CommonStage
from mtboost.model.stages.adding import Adding, Group, Order, by_task, threads_for
from mtboost.model.stages.common_trees import NodesByTask
from mtboost.trees.backend import Margins
from mtboost.trees.nodes import MarginTrees, Nodes

#: Memory for the trees of a model that are kept for later predictions.
MOST_BYTES = 128 * 2**20
# Tasks of one call whose leaf values are collected one by one.
_FEW_TASKS = 16


_Trees = TypeVar("_Trees", NodesByTask, MarginTrees)


@dataclass(frozen=True, eq=False)
class _Common(Generic[_Trees]):
    """Common trees of a task, or of all, and margins before the first, shape (n_outputs,)."""

    trees: _Trees
    start: Float32Array

    @property
    def n_bytes(self) -> int:
        return self.trees.n_bytes


@dataclass(frozen=True, slots=True)
class _Use:
    """How a task uses the common trees, and the columns of its specific trees, if it has any."""

    n_outputs: int
    n_trees: int
    sum_first: bool
    own_columns: Columns | None


class TaskTrees:
    """Trees of all tasks of a model, made when they are first needed and kept in bounded memory.

    Margins are bitwise those of the boosters. Threads may predict at the same time.

    Parameters
    ----------
    stage : CommonStage
    specific : Boosters
    """

    def __init__(self, stage: CommonStage, specific: Boosters) -> None:
        self._stage, self._specific = stage, specific
        self._backend = stage.backend
        self._kept = Latest(MOST_BYTES)
        self._uses: dict[int, _Use] = {}
        self._own_starts: dict[int, Float32Array] = {}

    @property
    def n_bytes(self) -> int:
        """Memory of what is kept, at most :data:`MOST_BYTES`, or that of the largest part."""
        return self._kept.n_bytes

    def margins(self, table: Table, codes: Int32Array, start: FloatArray | None) -> Margins | None:
        """Margins of rows, each of the task or group with its code; -1 is an unknown task.

        Parameters
        ----------
        table : Table
            Its columns are found by name, in any order and among others.
        codes : ndarray of int32, shape (n_rows,)
        start : ndarray of shape (n_rows,) or (n_rows, n_outputs), optional
            What each row starts from.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs), or None
            None if the library has to predict: the table is large and sparse or of polars or
            pyarrow, or has categories there, tasks lack common columns, a value is infinite, or
            there are no rows.
        """
        stage = self._stage
        if stage.optional_columns or len(codes) == 0:
            return None
        cells = self._backend.cells_to_predict(stage.columns.align(table))
        if cells is None:
            return None
        if len(codes) == 1 or (codes == codes[0]).all():
            return self._of_one_task(table, cells, int(codes[0]), start)
        order, groups = by_task(codes)
        has_many = len(groups) > _FEW_TASKS and not stage.trees.are_same_for_all
        if has_many and not stage.losses and self._is_faster_by_tree(codes, groups):
            margins = stage.margins(table, codes, start).reshape(table.n_rows, -1)
        else:
            found = self._starts(order, groups, start, table.n_rows)
            if found is None:
                return None
            margins = found
            add = self._add_common_of_many if has_many else self._add_common
            if not add(margins, cells, codes, order, groups):
                return None
        if not self._add_specific(margins, table, cells, order, groups):
            return None
        return margins[:, 0] if margins.shape[1] == 1 else margins

    # ---- margins ----------------------------------------------------------------------------

    def _of_one_task(
        self, table: Table, cells: FloatArray, code: int, start: FloatArray | None
    ) -> Margins | None:
        """The same for rows of one task, often a single row, of which each step counts."""
        common = self._common(code)
        if common is None:
            return None
        use = self._uses.get(code)
        if use is None:
            use = self._uses[code] = self._use(code, common)
        margins = np.empty((table.n_rows, use.n_outputs), self._backend.margin_type)
        if start is None:
            margins[:] = common.start
        else:
            with np.errstate(over="ignore"):  # infinite, as in XGBoost
                margins[:] = start.reshape(margins.shape)
        if not _add(margins, cells, common.trees, use.n_trees, use.sum_first):
            return None
        if use.own_columns is not None:
            if use.own_columns != self._stage.columns:
                own_cells = self._backend.cells_to_predict(use.own_columns.align(table))
                if own_cells is None:
                    return None
                cells = own_cells
            trees = self._specific_trees(code)
            if trees is None or not _add(
                margins, cells, trees, trees.n_trees, self._backend.adds_sums
            ):
                return None
        return margins[:, 0] if use.n_outputs == 1 else margins

    def _use(self, code: int, common: _Common[MarginTrees]) -> _Use:
        stage = self._stage
        rounds = stage.rounds_of(np.array([code], np.int32))
        name = stage.task_of(code)
        has_own = name is not None and self._specific.has_rounds(name)
        return _Use(
            n_outputs=stage.n_outputs,
            n_trees=common.trees.n_trees if stage.losses else int(rounds[0]) * stage.n_outputs,
            sum_first=self._sums_first(rounds),
            own_columns=stage.task_columns[name] if has_own and name is not None else None,
        )

    def _starts(
        self, order: Order, groups: list[Group], start: FloatArray | None, n_rows: int
    ) -> Margins | None:
        """Margins before the first tree, shape (n_rows, n_outputs)."""
        margins = np.empty((n_rows, self._stage.n_outputs), self._backend.margin_type)
        if start is not None:
            with np.errstate(over="ignore"):  # infinite, as in XGBoost
                margins[:] = start.reshape(margins.shape)
            return margins
        if self._stage.losses:
            for group in groups:
                margins[order[group.begin : group.end]] = self._own_start(group.code)
        elif groups:
            common = self._common(groups[0].code)
            if common is None:
                return None
            margins[:] = common.start
        return margins

    def _own_start(self, code: int) -> Float32Array:
        """Margins of a task before the first tree, shape (n_outputs,), where each has its loss."""
        if code not in self._own_starts:
            loss = self._stage.losses[self._stage.tasks[code]]
            self._own_starts[code] = self._stage.document.own_start(loss)
        return self._own_starts[code]

    def _add_common(
        self,
        margins: Margins,
        cells: FloatArray,
        codes: Int32Array,
        order: Order,
        groups: list[Group],
    ) -> bool:
        """Add the common trees of each task; False if the library has to predict."""
        stage = self._stage
        rounds = self._rounds(groups)
        adding = Adding(margins, cells, order, self._sums_first(rounds))
        for group, n_rounds in zip(groups, rounds.tolist(), strict=True):
            common = self._common(group.code)
            if common is None:
                return False
            n_trees = common.trees.n_trees if stage.losses else n_rounds * stage.n_outputs
            adding.add(group, common.trees, n_trees)
        return adding.end()

    def _add_common_of_many(
        self,
        margins: Margins,
        cells: FloatArray,
        codes: Int32Array,
        order: Order,
        groups: list[Group],
    ) -> bool:
        """The same for many tasks with different trees, of which no more is made than needed."""
        stage = self._stage
        found = self._kept.get("nodes", self._read_common)
        if found is None:
            return False
        nodes = found.trees
        rounds = self._rounds(groups)
        n_trees = (rounds * stage.n_outputs).tolist()
        if nodes.differ_by_ranks_only and not stage.losses:
            cells = np.column_stack([cells, nodes.ranks(stage.codes_in_trees(codes))])
            shared = self._kept.get(
                "trees of all", lambda: _Common(nodes.nodes.trees(), found.start)
            )
            adding = Adding(margins, cells, order, self._sums_first(rounds))
            for group, n in zip(groups, n_trees, strict=True):
                adding.add(group, shared.trees, n)
            return adding.end()
        adding = Adding(margins, cells, order, self._sums_first(rounds))
        own_codes = stage.codes_in_trees(np.array([group.code for group in groups], np.int32))
        nodes_of = nodes.one_after_another()

        def make(code: int, code_in_trees: int) -> _Common[MarginTrees] | None:
            return self._of_task(code, nodes_of(code_in_trees), found)

        for group, code, n in zip(groups, own_codes.tolist(), n_trees, strict=True):
            own = self._kept.get(("common", group.code), partial(make, group.code, code))
            if own is None:
                return False
            adding.add(group, own.trees, own.trees.n_trees if stage.losses else n)
        return adding.end()

    def _is_faster_by_tree(self, codes: Int32Array, groups: list[Group]) -> bool:
        """Whether looking up leaf values by row is faster than making the trees of the tasks."""
        found = self._kept.get("nodes", self._read_common)
        if found is None or found.trees.differ_by_ranks_only or self._stage.trees.has_task_column:
            return False
        return found.trees.is_slower_than_look_ups(len(codes), len(groups))

    def _rounds(self, groups: list[Group]) -> npt.NDArray[np.int64]:
        return self._stage.rounds_of(np.array([group.code for group in groups], np.int32))

    def _sums_first(self, rounds: npt.NDArray[np.int64]) -> bool:
        """Whether the library adds up the trees of these numbers of rounds before the margin."""
        stage = self._stage
        if stage.losses or stage.trees.are_same_for_all:
            return self._backend.adds_sums
        return self._backend.adds_sums and stage.trees.are_predicted_at_once(rounds)

    def _add_specific(
        self,
        margins: Margins,
        table: Table,
        cells: FloatArray,
        order: Order,
        groups: list[Group],
    ) -> bool:
        """Add the specific trees of each task; False if the library has to predict."""
        stage = self._stage
        adding: dict[Columns, Adding] = {}
        for group in groups:
            name = stage.task_of(group.code)
            if name is None or not self._specific.has_rounds(name):
                continue
            columns = stage.task_columns[name]
            if columns not in adding:
                is_common = columns == stage.columns
                own = cells if is_common else self._backend.cells_to_predict(columns.align(table))
                if own is None:
                    return False
                adding[columns] = Adding(margins, own, order, self._backend.adds_sums)
            trees = self._specific_trees(group.code)
            if trees is None:
                return False
            adding[columns].add(group, trees, trees.n_trees)
        is_finite = [own.end() for own in adding.values()]
        return all(is_finite)

    # ---- trees ------------------------------------------------------------------------------

    def _common(self, code: int) -> _Common[MarginTrees] | None:
        """Common trees of a task; None if the core cannot predict with them."""
        if self._stage.trees.are_same_for_all and not self._stage.losses:
            return self._kept.get("common", self._same_common)
        return self._kept.get(("common", code), lambda: self._common_of_task(code))

    def _same_common(self) -> _Common[MarginTrees] | None:
        found = self._read_common()
        return None if found is None else _Common(found.trees.nodes.trees(), found.start)

    def _common_of_task(self, code: int) -> _Common[MarginTrees] | None:
        found = self._kept.get("nodes", self._read_common)
        if found is None:
            return None
        own = int(self._stage.codes_in_trees(np.array([code], np.int32))[0])
        return self._of_task(code, found.trees.of(own), found)

    def _of_task(
        self, code: int, nodes: Nodes, common: _Common[NodesByTask]
    ) -> _Common[MarginTrees] | None:
        """The common trees of a task, given their nodes; in its unit, where it has a loss.

        Then they are those of the rounds that the task uses.
        """
        stage = self._stage
        if not stage.losses:
            return _Common(nodes.trees(), common.start)
        task = stage.tasks[code]
        n_rounds = stage.quit_round[task]
        if n_rounds == 0:  # trees of LightGBM would hold the start
            document = self._backend.document(stage.followed_by(task))
            found = document.nodes()
            return None if found is None else _Common(found.trees(), self._own_start(code))
        loss, n_first = stage.losses[task], common.trees.nodes.n_first
        own = stage.document.in_unit(nodes, loss, n_first).of_first_trees(n_rounds)
        return _Common(own.trees(), self._own_start(code))

    def _read_common(self) -> _Common[NodesByTask] | None:
        document = self._stage.document
        nodes = document.nodes(self._stage.trees.n_added)
        if nodes is None:
            return None
        return _Common(NodesByTask(self._stage.trees, nodes), document.start_margins())

    def _specific_trees(self, code: int) -> MarginTrees | None:
        def make() -> MarginTrees | None:
            try:
                nodes = self._specific.nodes(self._stage.tasks[code], self._backend)
            except (ModelFormatError, UnsupportedError):  # only the library can read it
                return None
            return None if nodes is None else nodes.trees()

        return self._kept.get(("specific", code), make)


def _add(
    margins: Margins, cells: FloatArray, trees: MarginTrees, n_trees: int, sum_first: bool
) -> bool:
    """Add the first trees to all margins; False if a value is infinite, which XGBoost refuses."""
    own: Any = trees  # margins of the libraries differ in type
    n_rows = len(margins)
    return bool(
        own.add_to(
            margins,
            cells,
            rows=None,
            trees=[own],
            n_trees=[n_trees],
            begins=[0],
            ends=[n_rows],
            sum_first=sum_first,
            n_threads=threads_for(n_rows * n_trees),
        )
    )
