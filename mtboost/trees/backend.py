# SPDX-License-Identifier: Apache-2.0
"""Interface of a boosting library, in the order in which fit() uses it.

XGBoost answers in xgboost/backend.py, LightGBM in lightgbm/backend.py. Margins are arrays of shape
(n_rows, n_outputs), float32 for XGBoost and float64 for LightGBM. A *booster* is the library's own,
and a *matrix* what it trains on (``DMatrix``, ``Dataset``). Parameters: library_parameters.py.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import FloatArray
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError
from mtboost.metrics.metric import Metric
from mtboost.trees.document import Document, Unloaded
from mtboost.trees.library_parameters import LibraryParameters, Params
from mtboost.trees.losses import inverse_link
from mtboost.trees.nodes import Nodes
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.small_models import SmallTrainer
from mtboost.trees.task_column import AddedColumns
from mtboost.trees.task_quitting import BaseQuitAt, TaskWatch
from mtboost.trees.tree_options import TreeOptions

# Fewer cells (rows times features) are trained faster by one thread of a library than by the core.
_SMALL = 100_000
# Rows of a model that is trained beside others.
_MOST_ROWS = 65_535
Margins = npt.NDArray[Any]
#: Makes predictions of margins of shape (n_rows,) or (n_rows, n_outputs).
Response = Callable[[Margins], Margins]


class UntrainableError(DataError):
    """The library trains nothing on some rows, though nothing is wrong with them."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        #: In few words, for reports.
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to train or validate on."""

    table: Table
    label: FloatArray
    weight: FloatArray | None = None
    margin: Margins | None = None
    #: Columns of the rows' tasks, after those of the table.
    added: AddedColumns | None = None
    #: Those of `feature_sampling`.
    feature_weights: npt.NDArray[np.float32] | None = None
    #: Query of each row, whose rows follow each other.
    queries: npt.NDArray[np.int64] | None = None


#: Why a library's callback of early stopping is refused.
ENDS_ITSELF = (
    "callbacks holds {}, which needs evaluation data that the training of a common model has not: "
    "leave it out. strategy='auto' finds the numbers of rounds itself, strategy='two-stage' by "
    "early_stopping_rounds=."
)


class SplitLimits(NamedTuple):
    """Least sum of hessians of each side, which parameter it is, and the gain to exceed."""

    hessian: float
    name_of_hessian: str
    gain: float


def is_quick(n_rows: int, n_rounds: int) -> bool:
    """Whether one thread predicts in about a millisecond: few pairs of a row and a round."""
    return n_rows * (1 + n_rounds) < 100_000


class Backend(LibraryParameters):
    """A library, as the two stages of zhang2019 need it."""

    #: Ending of a booster's file.
    suffix: ClassVar[str]
    #: Whether a cell that a sparse table does not store is missing; else it is 0.
    unstored_is_missing: ClassVar[bool]
    margin_type: ClassVar[type[np.floating[Any]]]
    #: Numbers up to this magnitude are 0 to the library.
    zero_threshold: ClassVar[float]
    #: Type in which the library compares values with thresholds.
    value_type: ClassVar[type[np.floating[Any]]]
    #: Whether trees are added up from 0, and their sum to a base margin; else to the base margin.
    adds_sums: ClassVar[bool]
    #: Fewest rounds that a task without base margins uses: LightGBM's start score is in the first.
    fewest_rounds: ClassVar[int]
    #: Whether trees can be grown with ``TreeOptions.unseen_at_random``.
    has_unseen_at_random: ClassVar[bool]
    #: Its callbacks: ``TaskQuitting``, and one that lets tasks quit after given rounds.
    task_quitting: ClassVar[type[TaskWatch]]
    quit_at: ClassVar[type[BaseQuitAt]]

    # ---- training ---------------------------------------------------------------------------

    @abc.abstractmethod
    def matrix(self, rows: Rows, params: Params, n_threads: int | None, ref: Any = None) -> Any:
        """Rows to train on, or with the training matrix as `ref`, rows to validate on.

        Those reach the leaves that the finished booster will lead them to, whatever their values.
        """

    @abc.abstractmethod
    def set_margin(self, matrix: Any, margin: Margins | None) -> None:
        """Let the rows of a training matrix start from other margins."""

    def train_common(
        self,
        params: Params,
        matrix: Any,
        n_rounds: int,
        *,
        tasks: TaskSet,
        options: TreeOptions,
        table: Table | None,
        objective: Callable[..., Any] | None,
        valid: Any = None,
        callbacks: Sequence[Any] = (),
    ) -> tuple[Any, PooledTrees]:
        """The library's train with ``TaskSplit``; `callbacks` are called in their order.

        With ``options.task_splits`` the last column of the matrix holds the tasks. Returns the
        booster, and the leaf values of single tasks.
        """
        split = self._task_split(tasks, options, table)
        booster = self._train(params, matrix, n_rounds, objective, valid, [split, *callbacks])
        return booster, split.pooled

    def train_plain(
        self,
        params: Params,
        matrix: Any,
        n_rounds: int,
        *,
        objective: Callable[..., Any] | None = None,
        options: TreeOptions | None = None,
        valid: Any = None,
        callbacks: Sequence[Any] = (),
        table: Table | None = None,
    ) -> Any:
        """The library's own model, with the result of one thread; or one of symmetric trees.

        The library's sums differ by the number of threads in the last bit, and so may its trees.
        Small tables are therefore trained by one thread, large ones by the core, whose trees are
        those of one thread of the library bit for bit.
        """
        n_rows, n_columns = self._shape(matrix, params)
        is_small = n_rows * n_columns < _SMALL and not self.has_other_machines()
        if is_small:
            params = {**params, **self.one_thread}
        if options is None:
            options = TreeOptions()
        if self._needs_core(params, options) or not is_small:
            one_task = TaskSet.from_labels(None, n_rows)
            callbacks = [self._task_split(one_task, options.of_one_task(), table), *callbacks]
        return self._train(params, matrix, n_rounds, objective, valid, callbacks)

    @staticmethod
    def _needs_core(params: Params, options: TreeOptions) -> bool:
        """Whether trees of one task with these options are grown by the core."""
        return options.symmetric_trees

    @staticmethod
    def has_other_machines() -> bool:
        """Whether this thread trains together with other machines, which may have more rows."""
        return False

    def small_trainer(
        self, params: Params, first: Rows, options: TreeOptions, n_threads: int
    ) -> SmallTrainer | None:
        """Return what trains many models with the trees of `train_plain`; None: there is nothing.

        `first` are the rows of one of the models, with margins.
        """
        return None

    def own_start(self, params: Params, rows: Rows) -> npt.NDArray[np.float32]:
        """Return the margins that a model of some rows starts from, shape (n_outputs,).

        Of what has a small trainer.
        """
        raise NotImplementedError

    def have_no_splits(
        self, params: Params, n_rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return for numbers of rows whether models of so few never change their margins."""
        return np.zeros(len(n_rows), bool)

    @staticmethod
    def are_small(n_rows: npt.NDArray[np.int64], n_features: int) -> npt.NDArray[np.bool_]:
        """Return which numbers of rows :meth:`small_trainer` may be asked for."""
        return (n_rows * n_features < _SMALL) & (n_rows <= _MOST_ROWS)

    @abc.abstractmethod
    def limits_of_splits(self, params: Params) -> SplitLimits:
        """Return what a split must have."""

    @abc.abstractmethod
    def _task_split(self, tasks: TaskSet, options: TreeOptions, table: Table | None) -> Any:
        """The library's callback ``TaskSplit``."""

    @abc.abstractmethod
    def _shape(self, matrix: Any, params: Params) -> tuple[int, int]:
        """Rows and columns of a matrix."""

    @abc.abstractmethod
    def _train(
        self,
        params: Params,
        matrix: Any,
        n_rounds: int,
        objective: Callable[..., Any] | None,
        valid: Any,
        callbacks: Sequence[Any],
    ) -> Any:
        """The library's train."""

    @abc.abstractmethod
    def check_callbacks(self, callbacks: Sequence[object]) -> None:
        """Raise unless the training of a common model can call all of them."""

    def quitting(
        self,
        valid: Any,
        tasks: TaskSet | None,
        *,
        metric: Metric,
        early_stopping_rounds: int | None,
        min_delta: float,
        verbose: bool | int = False,
    ) -> TaskWatch:
        """The library's callback ``TaskQuitting``."""
        found = self.task_quitting(
            valid,
            tasks,
            metric=metric,
            early_stopping_rounds=early_stopping_rounds,
            min_delta=min_delta,
            verbose=verbose,
        )
        if not self._has_start(valid):
            found.fewest_rounds = self.fewest_rounds
        return found

    @abc.abstractmethod
    def _has_start(self, matrix: Any) -> bool:
        """Whether the rows of a matrix have base margins."""

    @abc.abstractmethod
    def stop_if(self, is_over: Callable[[], bool]) -> Any:
        """A callback that ends a training after the round in which something holds."""

    @abc.abstractmethod
    def unable_to_end(self, callback: Any) -> Any:
        """The same callback, in a training whose number of rounds is known."""

    @abc.abstractmethod
    def empty_booster(self, table: Table, params: Params) -> Any:
        """A booster for the columns of a table that adds nothing."""

    @abc.abstractmethod
    def start_score(self, booster: Any) -> npt.NDArray[np.float32]:
        """Margins before the first tree, shape (n_outputs,); 0 where the trees hold them."""

    # ---- boosters ---------------------------------------------------------------------------

    @abc.abstractmethod
    def features_of(self, booster: Any) -> list[str]:
        """The names of a booster's own columns."""

    def has_columns(self, booster: Any, columns: Columns, n_more: int = 0) -> bool:
        """Return whether a booster has these columns, and `n_more` after them."""
        found = self.features_of(booster)
        is_as_wide = len(found) == columns.n + n_more
        return is_as_wide and found[: columns.n] == self.feature_names(columns)

    @abc.abstractmethod
    def n_rounds(self, booster: Any) -> int: ...

    @abc.abstractmethod
    def document(self, booster: Any) -> Document:
        """Return the booster taken apart."""

    def cells(self, table: Table) -> npt.NDArray[np.floating] | None:
        """Return the numbers of a table as the library reads them; None for other tables.

        Categories are their codes.
        """
        return table.coded_numbers(self.margin_type)

    def cells_to_predict(self, table: Table) -> npt.NDArray[np.floating] | None:
        """As :meth:`cells`; small sparse tables and those of polars and pyarrow are copied."""
        cells = self.cells(table)
        if cells is not None:
            return cells
        return table.copied_numbers(self.margin_type, np.nan if self.unstored_is_missing else 0.0)

    def leaves(
        self, booster: Any, table: Table, added: AddedColumns | None = None
    ) -> npt.NDArray[np.int32]:
        """Number of the leaf that each row reaches in each tree, shape (n_rows, n_trees)."""
        found = self._predict(booster, table, added, pred_leaf=True)
        return np.asarray(found, np.int32).reshape(table.n_rows, -1)

    @abc.abstractmethod
    def _predict(
        self, booster: Any, table: Table, added: AddedColumns | None = None, **options: Any
    ) -> npt.NDArray[Any]:
        """Return what the booster's own predict does."""

    @abc.abstractmethod
    def stacked(self, documents: Iterable[Document]) -> Any:
        """One booster with an output for each of several; none is made if the library cannot."""

    @abc.abstractmethod
    def predict_margin(
        self,
        booster: Any,
        table: Table,
        margin: Margins | None,
        added: AddedColumns | None = None,
    ) -> Margins:
        """Margins in the library's shape: (n_rows,) for one output. `added` as in `Rows`."""

    @abc.abstractmethod
    def response(self, no_rounds: Any) -> Response:
        """Return what makes predictions of margins; `no_rounds` is a booster without rounds."""

    def probabilities(self, no_rounds: Any, objective: str) -> Response:
        """As `response` for probabilities of classes; of the second one where there are two."""
        sigmoid = self._sigmoid(no_rounds)
        return lambda margins: np.asarray(inverse_link(objective, margins, sigmoid=sigmoid))

    def _sigmoid(self, booster: Any) -> float:
        """LightGBM's parameter of a booster."""
        return 1.0

    def followed_margins(
        self,
        booster: Any,
        table: Table,
        margin: Margins | None,
        quit_round: Mapping[TaskName, int],
        tasks: TaskSet,
    ) -> Margins:
        """Margins of all rows, each task following the booster up to its own round.

        Shape (n_rows, n_outputs): sums in tree order, as the combined booster adds them.
        """
        n_rounds = self.n_rounds(booster)
        of_task = np.array([quit_round.get(name, n_rounds) for name in tasks.names], np.int64)
        found = self._margins_of_core(booster, table, margin, of_task[tasks.codes])
        if found is None:
            found = self._followed_margins(booster, table, margin, quit_round, tasks)
        return found

    def _margins_of_core(
        self, booster: Any, table: Table, margin: Margins | None, rounds: npt.NDArray[np.int64]
    ) -> Margins | None:
        """Margins of rows after their numbers of rounds; None where the library has to predict."""
        cells, document = self.cells(table), self.document(booster)
        nodes = document.nodes()
        if cells is None or nodes is None:
            return None
        margins = np.empty((table.n_rows, nodes.n_outputs), self.margin_type)
        margins[:] = document.start_margins() if margin is None else margin.reshape(margins.shape)
        return self._add_nodes(nodes, table, cells, margins, rounds)

    def continued_margins(self, own: Unloaded, table: Table, margins: Margins) -> Margins:
        """Margins of rows after trees that continue them, without a booster where possible."""
        cells, nodes = self.cells(table), own.nodes()
        if cells is not None and nodes is not None:
            start = np.array(margins, self.margin_type).reshape(table.n_rows, nodes.n_outputs)
            rounds = np.full(table.n_rows, len(nodes.roots) // nodes.n_outputs)
            found = self._add_nodes(nodes, table, cells, start, rounds)
            if found is not None:
                return found
        return self.predict_margin(own.document().load(), table, margins)

    def _add_nodes(
        self,
        nodes: Nodes,
        table: Table,
        cells: npt.NDArray[np.floating],
        margins: Margins,
        rounds: npt.NDArray[np.int64],
    ) -> Margins | None:
        """Add the first rounds to the margins of rows; None where a value is infinite."""
        ends = np.cumsum(np.bincount(rounds))
        used = np.flatnonzero(np.diff(ends, prepend=0))
        trees: Any = nodes.trees()  # margins of the libraries differ in type
        is_finite = type(trees).add_to(
            margins,
            cells,
            rows=np.argsort(rounds, kind="stable"),
            trees=[trees] * len(used),
            n_trees=(used * nodes.n_outputs).tolist(),
            begins=np.concatenate([[0], ends[used]])[:-1].tolist(),
            ends=ends[used].tolist(),
            sum_first=self.adds_sums,
            n_threads=1 if is_quick(table.n_rows, len(nodes.roots)) else default_n_threads(None),
        )
        return margins if is_finite else None

    @abc.abstractmethod
    def _followed_margins(
        self,
        booster: Any,
        table: Table,
        margin: Margins | None,
        quit_round: Mapping[TaskName, int],
        tasks: TaskSet,
    ) -> Margins:
        """The same by the library."""

    def margins_by_round(
        self, booster: Any, table: Table, margin: Margins | None
    ) -> Iterator[Margins]:
        """Margins, shape (n_rows, n_outputs), after 0, 1, ... rounds; in one array."""
        document = self.document(booster)
        n_outputs = document.n_outputs
        start = self.predict_margin(document.first_rounds(0), table, margin)
        margins = np.array(start, self.margin_type).reshape(table.n_rows, n_outputs)
        yield margins
        leaves = self.leaves(booster, table)
        for number, values in enumerate(document.leaf_values()):
            of_rows = values[leaves[:, number]]
            margins[:, number % n_outputs] += of_rows.astype(self.margin_type)
            if number % n_outputs == n_outputs - 1:
                yield margins

    @abc.abstractmethod
    def importance(self, booster: Any, importance_type: str) -> dict[str, float]:
        """Importance of the features that a booster uses."""

    @abc.abstractmethod
    def contributions(self, booster: Any, table: Table) -> Margins:
        """SHAP values and, last, the bias: shape (n_rows, n_features + 1), outputs before them."""

    def pack(self, models: Mapping[int, Unloaded]) -> dict[str, bytes]:
        """Members of a model file that hold many models, by their numbers; none: one by one."""
        return {}

    def unpack(self, members: Mapping[str, bytes], n_tasks: int) -> dict[int, Unloaded]:
        """The way back; raises ModelFormatError unless they are models."""
        return {}

    @abc.abstractmethod
    def dump(self, booster: Any) -> bytes: ...

    @abc.abstractmethod
    def load(self, raw: bytes) -> Any: ...
