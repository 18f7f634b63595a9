# SPDX-License-Identifier: Apache-2.0
"""The common model's trees: one booster, and task-specific leaf values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.archive import require
from mtboost.base.arrays import Float64Array, FloatArray
from mtboost.base.dataset import Dataset
from mtboost.base.tables import Table
from mtboost.base.tasks import Label, TaskName, groups_of, nearest
from mtboost.errors import UnsupportedError
from mtboost.model.stages.adding import Adding, by_task
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.document import Document
from mtboost.trees.losses import Loss, label_columns, leaf_refit, row_groups
from mtboost.trees.nesting import Nesting, with_groups
from mtboost.trees.nodes import Nodes
from mtboost.trees.pooled_leaves import PooledTrees, pool_leaves
from mtboost.trees.pooling import Kappa
from mtboost.trees.task_column import AddedColumns
from mtboost.trees.task_descriptors import TaskDescriptors
from mtboost.trees.task_values import TaskValues
from mtboost.trees.values_by_task import ValuesByTask

# Leaf numbers in a block of rows.
_LEAVES_PER_BLOCK = 8_000_000
# Of a leaf value: its leaf and the value.
_BYTES_OF_A_VALUE = 16
# Memory for leaf values that are collected by task.
_BYTES_OF_VALUES = 32 * 2**20
# Nodes of a task's trees that are made in the time of one look-up of a row's leaf value.
_LOOK_UPS_PER_NODE = 2


@dataclass(frozen=True, slots=True, eq=False)
class CommonTrees:
    """Trees of all tasks.

    Attributes
    ----------
    backend : Backend
    booster : xgboost.Booster or lightgbm.Booster
        Its leaves hold the values of all tasks together.
    tasks : tuple of task names
        Their positions are the codes in `pooled`. With nested leaf values also the groups of tasks,
        by shorter names.
    pooled : PooledTrees
        What the leaves hold of single tasks.
    has_task_column : bool
        Whether the last column of the booster is the code of the task, by which nodes split tasks.
    descriptors : TaskDescriptors, optional
        Values of the tasks in the last columns of the booster, by which nodes split tasks.
    shares : mapping of task name to float
        What the leaf values of a task are multiplied by, if not by 1: its model is an average of
        these trees and others.
    n_linear : int
        Rounds before the boosted ones, which are linear effects of the columns.
    linear_kappas : ndarray of float64, shape (n_levels, n_linear)
        κ by which these effects of tasks are shrunk, of nested tasks those of the outermost groups
        first; without levels where a file of an early version lacks them.
    """

    backend: Backend
    booster: Any
    tasks: tuple[TaskName, ...]
    pooled: PooledTrees = field(default_factory=PooledTrees)
    has_task_column: bool = False
    shares: Mapping[TaskName, float] = field(default_factory=dict)
    descriptors: TaskDescriptors | None = None
    n_linear: int = 0
    linear_kappas: Float64Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def are_same_for_all(self) -> bool:
        """Whether every task has the booster's own trees."""
        return (
            not self.pooled.has_values
            and not self.has_task_column
            and self.descriptors is None
            and not self.shares
        )

    @property
    def n_rounds(self) -> int:
        return self.backend.n_rounds(self.booster)

    @property
    def n_added(self) -> int:
        """Columns of the booster after those of the tables."""
        return self.descriptors.n if self.descriptors is not None else int(self.has_task_column)

    def without_rounds(self) -> CommonTrees:
        """The same before the first round."""
        document = self.backend.document(self.booster)
        pooled = PooledTrees(self.pooled.pooling)
        if pooled.has_values:  # those of the empty trees, which a booster without rounds has
            pooled.values.extend(TaskValues.none() for _ in range(document.n_outputs))
        booster, kappas = document.first_rounds(0), np.empty((0, 0))
        return replace(self, booster=booster, pooled=pooled, n_linear=0, linear_kappas=kappas)

    def check(self, document: Document) -> None:
        """Raise ModelFormatError unless values and descriptors fit the booster's document."""
        values, n_tasks = self.pooled.values, len(self.tasks)
        trees = document.leaf_values()
        is_one_a_tree = not self.pooled.has_values or len(values) == len(trees)
        require(is_one_a_tree, "task_values are of other trees")
        for own, leaves in zip(values, trees, strict=False):
            own.check(len(leaves), n_tasks)
        require(0 <= self.n_linear <= self.n_rounds, "linear effects have more rounds than it")
        kappas = self.linear_kappas
        require(not len(kappas) or kappas.shape[1] == self.n_linear, "linear_kappas are of others")
        require(bool((kappas > 0.0).all()), "linear_kappas are not above 0")
        if self.descriptors is not None:
            require(not self.has_task_column, "nodes split tasks in two ways")
            self.descriptors.check(n_tasks)

    def document_of(self, task: TaskName | None, document: Document) -> Document:
        """Document of an ordinary booster with the trees of a task, from that of all.

        A task that is not known has the values of its group, if that is known, or the pooled ones,
        and goes where nodes that split tasks send rows without a task, or a task that is like the
        mean of all.
        """
        found = -1 if task is None else self.code_of(task)
        code = None if found < 0 else found
        if code is not None and (self.pooled.has_values or task in self.shares):
            share = self.shares.get(task, 1.0) if task is not None else 1.0
            path = self._path(code)
            values = [
                share * self._values(number).of_task(pooled, *path)
                for number, pooled in enumerate(document.leaf_values())
            ]
            document = document.with_leaf_values(values)
        if self.has_task_column:
            document = document.for_task(code)
        if self.descriptors is not None:
            own = self.descriptors.of_rows(-1 if code is None else code)
            document = document.for_descriptors(own)
        return document

    def new_names(self, task: TaskName) -> list[TaskName]:
        """Return a task that is new, and those of its groups that are, if groups have values."""
        if not self.pooled.are_nested:
            return [task]
        return [name for name in with_groups([task]) if name not in self.tasks]

    def described(
        self, task: TaskName, table: Table, labels: FloatArray, weight: FloatArray | None
    ) -> CommonTrees:
        """These trees for one more task without leaf values.

        Its rows describe it, if nodes split tasks by descriptors.
        """
        names, descriptors = self.new_names(task), self.descriptors
        if descriptors is not None:
            for _ in names:
                descriptors = descriptors.with_task(table, label_columns(labels)[:, 0], weight)
        same = [TaskValues.none()] * len(self.pooled.values)
        return self.with_tasks(names, same, descriptors)

    def learn_task(
        self,
        data: Dataset,
        loss: Loss,
        signs: Sequence[int] = (),
        linear: Sequence[TaskValues] = (),
    ) -> CommonTrees:
        """These trees for one more task, as if its rows had not counted before.

        Its rows describe it, if nodes split tasks by descriptors. It has leaf values, if the
        others have: tree after tree, its rows have gradients at their margins so far, and its value
        in a leaf is shrunk towards the pooled one, or towards that of its group, with the κ of the
        others. Of a group that is new it is the only task.

        Parameters
        ----------
        data : Dataset
            Its rows, in the unit of the common model.
        loss : Loss
            That of the common model.
        signs : sequence of int
            Its monotone constraints. Without nodes to be read the task has the values of its group,
            or of all.
        linear : sequence of TaskValues
            Its linear effects, of the first trees; without any it has those of the others.
        """
        (task,) = data.tasks
        group = self.code_of(task)
        known = [] if group < 0 else self._path(group)
        names = self.new_names(task)
        descriptors = self.described(task, data.common, data.labels(), data.weight).descriptors
        if self.pooled.pooling is None:
            n_others = len(self.pooled.values) - len(linear)
            own = [*linear, *(n_others * [TaskValues.none()])]
        else:
            own = self._learned_values(names, known, data, loss, signs, descriptors, linear)
        return self.with_tasks(names, own, descriptors)

    def _learned_values(
        self,
        names: Sequence[TaskName],
        known: Sequence[int],
        data: Dataset,
        loss: Loss,
        signs: Sequence[int],
        descriptors: TaskDescriptors | None,
        linear: Sequence[TaskValues],
    ) -> list[TaskValues]:
        """Values of a new task, of these names in the hierarchy, for each tree.

        `known` are the codes of the groups that have values, `descriptors` those with the task, and
        `linear` its values in the first trees.
        """
        document = self.backend.document(self.booster)
        n_outputs = document.n_outputs
        labels = label_columns(data.labels())
        weight = None if data.weight is None else np.asarray(data.weight, np.float32)
        groups = row_groups(loss, labels, None)
        new = np.full(data.n_rows, -1, np.int32)
        margins = self._start(document, data.common, new, data.base_margin)
        margins += [own.start for own in self.pooled.values[:n_outputs]]
        place = np.full(data.n_rows, len(self.tasks))
        added = self._added(new) if descriptors is None else descriptors.of_rows(place)
        leaves = self.backend.leaves(self.booster, data.common, added)
        codes = np.zeros(data.n_rows, np.int32)
        nesting, pooling = Nesting.of(names), self._kappas(len(names))
        path = nesting.path(0)
        nodes = document.nodes(self.n_added) if signs else None
        own: list[TaskValues] = []
        pairs: Any = None
        for number, (pooled, others) in enumerate(
            zip(document.leaf_values(), self.pooled.values, strict=True)
        ):
            output = number % n_outputs
            if output == 0:
                pairs = loss.gradients(
                    margins, labels, weight, groups=groups.begins, order=groups.order
                )
                before = margins.copy()
            pooled = others.of_task(pooled, *known) - others.start
            bounds = None
            if signs:
                bounds = (pooled, pooled) if nodes is None else nodes.bounds(number, pooled, signs)
            values = pool_leaves(
                pooled,
                leaves[:, number],
                codes,
                pairs[:, output],
                n_tasks=1,
                pooling=pooling,
                learning_rate=others.learning_rate,
                refit=leaf_refit(
                    loss,
                    before,
                    labels,
                    weight,
                    output=output,
                    learning_rate=others.learning_rate,
                ),
                nesting=nesting,
                bounds=bounds,
            )
            if others.learning_rate == 0.0:
                values = linear[number] if number < len(linear) else TaskValues.none()
            own.append(replace(values, value=values.value + others.start))
            table_of_task = values.of_task(pooled, *path).astype(margins.dtype)
            margins[:, output] += table_of_task[leaves[:, number]]
        return own

    def _start(
        self,
        document: Document,
        table: Table,
        codes: npt.NDArray[np.int32],
        base_margin: Margins | None,
    ) -> Margins:
        """Margins before the first tree, shape (n_rows, n_outputs)."""
        start = self.backend.predict_margin(
            document.first_rounds(0), table, base_margin, self._added(codes)
        )
        return np.array(start).reshape(table.n_rows, document.n_outputs)

    def _values(self, number: int) -> TaskValues:
        return self.pooled.values[number] if self.pooled.has_values else TaskValues.none()

    def _added(self, codes: npt.NDArray[np.int32]) -> AddedColumns | None:
        """Columns of the booster that the tables lack."""
        if self.descriptors is not None:
            return self.descriptors.of_rows(codes)
        return codes if self.has_task_column else None

    def _kappas(self, n_levels: int) -> Kappa:
        """κ of the inner levels."""
        kappas = _kappas(self.pooled.pooling)[-n_levels:]
        return kappas if len(kappas) > 1 else kappas[0]

    def with_tasks(
        self,
        names: Sequence[TaskName],
        values: Sequence[TaskValues],
        descriptors: TaskDescriptors | None = None,
    ) -> CommonTrees:
        """These trees, also for one more task, and groups of it; `values` count them from 0."""
        n_known = len(self.tasks)
        together = [
            known.with_others(replace(own, task=own.task + np.int32(n_known)))
            for known, own in zip(self.pooled.values, values, strict=True)
        ]
        return replace(
            self,
            tasks=(*self.tasks, *names),
            pooled=PooledTrees(self.pooled.pooling, together),
            descriptors=descriptors,
        )

    def without_task(self, task: TaskName) -> CommonTrees:
        """These trees without the values of a task.

        Where nodes separate tasks, codes and ranks of the others must stay: an unused name takes
        the place of the task.
        """
        if task not in self.tasks:
            return self
        code = self.tasks.index(task)
        values = [own.without_task(code, keep_code=self.n_added > 0) for own in self.pooled.values]
        tasks = tuple(name for name in self.tasks if name != task)
        if self.n_added:
            tasks = (*self.tasks[:code], _unused_name(task, self.tasks), *self.tasks[code + 1 :])
        return replace(
            self,
            tasks=tasks,
            pooled=PooledTrees(self.pooled.pooling, values, self.pooled.mean_hessian),
            shares={name: share for name, share in self.shares.items() if name != task},
        )

    @property
    def groups(self) -> tuple[TaskName, ...]:
        """Groups of nested tasks that have leaf values."""
        if not self.pooled.are_nested:
            return ()
        n_levels = len(_kappas(self.pooled.pooling))
        return tuple(name for name in self.tasks if len(groups_of(name)) < n_levels - 1)

    @property
    def nesting(self) -> Nesting | None:
        """Groups of the tasks by code, if groups have leaf values."""
        return Nesting.of(self.tasks) if self.pooled.are_nested else None

    def codes_of(self, names: Sequence[TaskName]) -> npt.NDArray[np.int32]:
        """Code of each task; where it is new, that of its group, or -1."""
        places = {name: code for code, name in enumerate(self.tasks)}
        found = [nearest(name, places) for name in names]
        return np.array([-1 if name is None else places[name] for name in found], np.int32)

    def code_of(self, name: TaskName) -> int:
        """Return what :meth:`codes_of` does for a single task."""
        found = nearest(name, self.tasks)
        return -1 if found is None else self.tasks.index(found)

    def _path(self, code: int) -> list[int]:
        """Codes of the groups of a task that have values, outermost first, and its own."""
        groups = groups_of(self.tasks[code]) if self.pooled.are_nested else []
        return [*(self.tasks.index(group) for group in groups if group in self.tasks), code]

    def margins(
        self,
        table: Table,
        codes: npt.NDArray[np.int32],
        rounds: npt.NDArray[np.integer[Any]],
        base_margin: Margins | None,
    ) -> Margins:
        """Margins of rows, each following the trees of its task up to its round.

        Parameters
        ----------
        table : Table
            Rows with the common columns.
        codes : ndarray of int32, shape (n_rows,)
            Task of each row, or -1.
        rounds : ndarray of int, shape (n_rows,)
            Rounds that each row uses.
        base_margin : ndarray, optional

        Returns
        -------
        ndarray, shape (n_rows, n_outputs)
            Sums in tree order, as the booster of the row's task adds them.
        """
        document = self.backend.document(self.booster)
        n_rounds = int(rounds.max(initial=0))
        if self.are_predicted_at_once(rounds):
            first = document.first_rounds(n_rounds)
            margins = self.backend.predict_margin(first, table, base_margin, self._added(codes))
            return margins.reshape(table.n_rows, -1)
        found = self._margins_by_task(document, table, codes, rounds, base_margin)
        if found is not None:
            return found
        per_block = max(1, _LEAVES_PER_BLOCK // max(1, n_rounds))
        parts = []
        for begin in range(0, max(1, table.n_rows), per_block):
            rows = np.arange(begin, min(begin + per_block, table.n_rows))
            is_all = len(rows) == table.n_rows
            start = base_margin if base_margin is None or is_all else base_margin[rows]
            *_, last = self._by_round(
                document,
                table if is_all else table.take(rows),
                codes[rows],
                start,
                n_rounds,
                rounds[rows],
            )
            parts.append(last)
        return np.concatenate(parts)

    def _margins_by_task(
        self,
        document: Document,
        table: Table,
        codes: npt.NDArray[np.int32],
        rounds: npt.NDArray[np.integer[Any]],
        base_margin: Margins | None,
    ) -> Margins | None:
        """Margins by the trees of each task; None where the library has to predict."""
        cells, nodes = self.backend.cells(table), document.nodes(self.n_added)
        if cells is None or nodes is None:
            return None
        own = NodesByTask(self, nodes)
        if not len(codes):
            return None
        order, groups = by_task(codes)
        of_groups = [int(rounds[order[group.begin]]) for group in groups]
        n_rows = [group.end - group.begin for group in groups]
        is_one_each = np.array_equal(rounds[order], np.repeat(of_groups, n_rows))
        if not is_one_each or own.is_slower_than_look_ups(len(codes), len(groups)):
            return None
        margins = self._start(document, table, codes, base_margin)
        adding, nodes_of = Adding(margins, cells, order, sum_first=False), own.one_after_another()
        for group, n in zip(groups, of_groups, strict=True):
            adding.add(group, nodes_of(group.code).trees(), n * document.n_outputs)
        return margins if adding.end() else None

    def are_predicted_at_once(self, rounds: npt.NDArray[np.integer[Any]]) -> bool:
        """Whether one booster predicts rows that use these numbers of rounds."""
        is_one = bool((rounds == rounds.max(initial=0)).all())
        return not self.pooled.has_values and not self.shares and is_one

    def margins_by_round(
        self, table: Table, codes: npt.NDArray[np.int32], base_margin: Margins | None
    ) -> Iterator[Margins]:
        """Margins, shape (n_rows, n_outputs), after 0, 1, ... rounds; in one array."""
        document = self.backend.document(self.booster)
        rounds = np.full(table.n_rows, self.n_rounds)
        return self._by_round(document, table, codes, base_margin, self.n_rounds, rounds)

    def _by_round(
        self,
        document: Document,
        table: Table,
        codes: npt.NDArray[np.int32],
        base_margin: Margins | None,
        n_rounds: int,
        rounds: npt.NDArray[np.integer[Any]],
    ) -> Iterator[Margins]:
        """Margins after 0, 1, ... rounds; a row stays as it is after its own round."""
        backend = self.backend
        n_outputs = document.n_outputs
        margins = self._start(document, table, codes, base_margin)
        yield margins
        if n_rounds == 0:
            return
        n_trees = n_rounds * n_outputs
        shares = np.array([self.shares.get(task, 1.0) for task in self.tasks] + [1.0])
        nesting = self.nesting
        first = document.first_rounds(n_rounds)
        leaves = backend.leaves(first, table, self._added(codes))
        for number, pooled in enumerate(document.leaf_values()[:n_trees]):
            follows = rounds > number // n_outputs
            own_codes = codes[follows]
            own = self._values(number).of_rows(
                pooled, leaves[follows, number], own_codes, len(self.tasks), nesting
            )
            own *= shares[own_codes]
            own = own.astype(margins.dtype)
            output = number % n_outputs
            margins[follows, output] += own
            if output == n_outputs - 1:
                yield margins


class NodesByTask:
    """Nodes of the trees of each task, made from those of the booster.

    Parameters
    ----------
    trees : CommonTrees
    nodes : Nodes
        Those of the booster.
    """

    def __init__(self, trees: CommonTrees, nodes: Nodes) -> None:
        self._trees, self.nodes = trees, nodes
        self._ranks = None if trees.descriptors is None else trees.descriptors.ranks()
        self._nesting = trees.nesting

    @property
    def n_bytes(self) -> int:
        return self.nodes.n_bytes + (0 if self._ranks is None else self._ranks.nbytes)

    @property
    def differ_by_ranks_only(self) -> bool:
        """Whether all tasks have the booster's trees, which read their descriptors in the rows."""
        trees = self._trees
        return trees.descriptors is not None and not trees.pooled.has_values and not trees.shares

    def ranks(self, codes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float32]:
        """The added columns of rows of tasks, if nodes split tasks by descriptors."""
        assert self._ranks is not None
        return np.asarray(self._ranks[codes])

    def of(self, code: int, values: ValuesByTask | None = None) -> Nodes:
        """Nodes of the trees of a task, or of an unknown one (-1).

        `values` contain those of the task, where they have been collected already.
        """
        trees, nodes = self._trees, self.nodes
        has_values = trees.pooled.has_values
        if code >= 0 and (has_values or trees.tasks[code] in trees.shares):
            own = nodes.value.astype(np.float64)
            if has_values:
                values = values or self.values(code, code + 1)
                for each in [code] if self._nesting is None else self._nesting.path(code):
                    leaves, found = values.of_code(each)
                    own[leaves] = found
            nodes = nodes.with_values(trees.shares.get(trees.tasks[code], 1.0) * own)
        if trees.has_task_column:
            nodes = nodes.for_task(code)
        if self._ranks is not None:
            nodes = nodes.for_descriptors(self._ranks[code])
        return nodes

    def values(self, first: int, end: int) -> ValuesByTask:
        """Leaf values of the tasks `first` to `end` - 1, and of their groups."""
        n_names = len(self._trees.tasks)
        codes = np.arange(first, min(end, n_names), dtype=np.int32)
        if self._nesting is not None:
            codes = np.unique(np.concatenate(self._nesting.lineage(codes)))
            codes = codes[codes >= 0]
        roots = self.nodes.first_leaves
        return ValuesByTask.of(self._trees.pooled.values, roots, codes, n_names)

    def one_after_another(self) -> Callable[[int], Nodes]:
        """Return :meth:`of` for ascending codes; it collects the leaf values of many at a time."""
        n_values = sum(len(own.leaf) for own in self._trees.pooled.values)
        n_bytes = _BYTES_OF_A_VALUE * max(1, n_values)
        n_at_once = max(1, _BYTES_OF_VALUES * len(self._trees.tasks) // n_bytes)
        values: ValuesByTask | None = None

        def of(code: int) -> Nodes:
            nonlocal values
            if code >= 0 and (values is None or code not in values):
                first = code - code % n_at_once
                values = self.values(first, first + n_at_once)
            return self.of(code, values)

        return of

    def is_slower_than_look_ups(self, n_rows: int, n_groups: int) -> bool:
        """Whether looking up leaf values row by row is faster than making the trees of tasks."""
        n_look_ups = _LOOK_UPS_PER_NODE * n_rows * len(self.nodes.roots)
        return n_look_ups < n_groups * len(self.nodes.left)


def _kappas(pooling: object) -> tuple[float, ...]:
    """κ of each level."""
    assert isinstance(pooling, float | tuple)
    return pooling if isinstance(pooling, tuple) else (pooling,)


def _unused_name(task: TaskName, tasks: Sequence[TaskName]) -> TaskName:
    """A name of the type of a task that none has."""
    if not isinstance(task, tuple):
        return _unused_label(task, [name for name in tasks if not isinstance(name, tuple)])
    *groups, own = task
    return (*groups, _unused_label(own, [name[-1] for name in tasks if isinstance(name, tuple)]))


def _unused_label(label: Label, labels: Sequence[Label]) -> Label:
    """A label of the type of another that is not among some."""
    if isinstance(label, bool):
        raise UnsupportedError(
            f"Task {label!r} cannot be removed: nodes of the common model separate tasks, and no "
            "other name of type bool is left to mark its place. Name tasks by str or int."
        )
    if isinstance(label, int):
        return max(other for other in labels if isinstance(other, int)) + 1
    name = f"{label} (removed)"
    while name in labels:
        name += "'"
    return name
