# SPDX-License-Identifier: Apache-2.0
"""Interface of a boosting library, in the order in which fit() uses it.

XGBoost answers in xgboost/backend.py, LightGBM in lightgbm/backend.py. Margins are arrays of shape
(n_rows, n_outputs), float32 for XGBoost and float64 for LightGBM. A *booster* is the library's own,
and a *matrix* what it trains on (``DMatrix``, ``Dataset``).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import FloatArray
from mtboost.base.checks import check_number, did_you_mean, refuse
from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError, ParameterError, ParameterTypeError, UnsupportedError
from mtboost.metrics.built_in import WITH_METRIC, default_metric
from mtboost.metrics.metric import Metric
from mtboost.trees.document import Document, Unloaded
from mtboost.trees.feature_weights import FeaturePrior
from mtboost.trees.losses import (
    Loss,
    check_labels,
    has_log_link,
    inverse_link,
    is_multiclass,
    is_quantile,
)
from mtboost.trees.nodes import Nodes
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.refreshed_leaves import LeafRule
from mtboost.trees.small_models import SmallTrainer
from mtboost.trees.task_column import AddedColumns
from mtboost.trees.task_quitting import BaseQuitAt, TaskWatch
from mtboost.trees.tree_options import TreeOptions

# Fewer cells (rows times features) are trained faster by one thread of a library than by the core.
_SMALL = 100_000
# Rows of a model that is trained beside others.
_MOST_ROWS = 65_535
Margins = npt.NDArray[Any]
Params = Mapping[str, Any]
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


def is_quick(n_rows: int, n_rounds: int) -> bool:
    """Whether one thread predicts in about a millisecond: few pairs of a row and a round."""
    return n_rows * (1 + n_rounds) < 100_000


def read_number(params: Params, name: str, default: float) -> float:
    """A parameter as a number, which the libraries also read from a text."""
    given = params.get(name, default)
    try:
        return check_number(name, float(given) if isinstance(given, str) else given)
    except ValueError:
        refuse(name, given, "a finite number")


class Backend(abc.ABC):
    """A library, as the two stages of zhang2019 need it."""

    name: ClassVar[str]
    #: Ending of a booster's file.
    suffix: ClassVar[str]
    #: The library's names of common objectives.
    squared_error: ClassVar[str]
    binary: ClassVar[str]
    multiclass: ClassVar[str]
    ranking: ClassVar[str]
    #: Objectives that tasks of one common model may have beside each other: their best constant is
    #: the mean label, and their leaves are Newton steps.
    mixable: ClassVar[tuple[str, ...]]
    #: Parameters of a model whose rows all have base margins.
    no_start: ClassVar[Mapping[str, Any]]
    #: Bits of the largest seed that it reads.
    seed_bits: ClassVar[int]
    #: Whether a cell that a sparse table does not store is missing; else it is 0.
    unstored_is_missing: ClassVar[bool]
    margin_type: ClassVar[type[np.floating[Any]]]
    #: Whether trees are added up from 0, and their sum to a base margin; else to the base margin.
    adds_sums: ClassVar[bool]
    #: Its parameters that are arguments of fit(): name → argument.
    arguments: ClassVar[Mapping[str, str]]
    #: Its parameters of leaf values, and their defaults: the learning rate, the L2 and the L1
    #: penalty, and the largest step.
    leaf_parameters: ClassVar[Mapping[str, float]]
    #: Fewest rounds that a task without base margins uses: LightGBM's start score is in the first.
    fewest_rounds: ClassVar[int]
    #: Its parameter for the number of threads, and those that make its sums independent of it.
    threads: ClassVar[str]
    one_thread: ClassVar[Mapping[str, Any]]
    #: Its parameter for the slope of the Huber loss, and the default.
    huber_slope: ClassVar[tuple[str, float]]
    #: Its parameter for the levels of quantiles, and the default.
    quantile_level: ClassVar[tuple[str, float]]
    #: Its name of a column without one, to be filled in with the position.
    default_name: ClassVar[str]
    #: Its callbacks: ``TaskQuitting``, and one that lets tasks quit after given rounds.
    task_quitting: ClassVar[type[TaskWatch]]
    quit_at: ClassVar[type[BaseQuitAt]]

    # ---- before any work --------------------------------------------------------------------

    @abc.abstractmethod
    def check_one_machine(self, params: Params) -> None:
        """Raise UnsupportedError where the library would train on several machines."""

    @abc.abstractmethod
    def names_of_parameters(self) -> tuple[Collection[str], Mapping[str, str]]:
        """Names that the library knows, and of other names the main one."""

    def parameters(
        self,
        params: Params,
        argument: str = "params",
        *,
        elsewhere: Mapping[str, str] = {},
        others: Collection[str] = (),
    ) -> dict[str, Any]:
        """The library's parameters without aliases: mappings that are merged must agree on names.

        Several machines are refused, and names it does not know: it would only warn. `elsewhere`
        has parameters that belong into another argument of :func:`mtboost.fit`; `others` are names
        that the caller knows beside the library's.
        """
        if not isinstance(params, Mapping):
            refuse(argument, params, "a mapping of names to values", kind=ParameterTypeError)
        self.check_one_machine(params)
        known, main_names = self.names_of_parameters()
        checked: dict[str, Any] = {}
        for name, value in params.items():
            main = main_names.get(name, name)
            if main not in known:
                hint = did_you_mean(name, {*known, *main_names, *others})
                raise TypeError(f"{argument} has an unknown name {name!r}.{hint}")
            if main in elsewhere:
                raise ParameterError(
                    f"Pass {elsewhere[main]}= to fit(), not {name!r} in {argument}."
                )
            if main in checked:
                raise ParameterError(f"{argument} has {main!r} under two names.")
            checked[main] = value
        return self._in_own_form(checked, argument)

    @abc.abstractmethod
    def _in_own_form(self, params: dict[str, Any], argument: str) -> dict[str, Any]:
        """The parameters with values of types that the library reads."""

    @abc.abstractmethod
    def check_values(self, params: Params, table: Table, argument: str, *, is_ours: bool) -> None:
        """Raise for values that the library refuses, or trains on without sense, such as NaN.

        Parameters
        ----------
        params : mapping
            All parameters of a training, by their main names.
        table : Table
            Whose columns constraints refer to.
        argument : str
            What messages call the parameters.
        is_ours : bool
            Whether our trees are to be grown with them, not the library's.
        """

    def library_only(self, params: Params) -> str | None:
        """Return the parameter by which the library must grow the common trees itself, if any.

        Raises UnsupportedError where they could not be continued.
        """
        return None

    @abc.abstractmethod
    def named_parameters(self, named: Params, params: Params) -> dict[str, Any]:
        """Parameters that the estimators name, as XGBoost does, beside `params` of the library."""

    @abc.abstractmethod
    def settings(self, objective: str, n_threads: int, seed: int) -> dict[str, Any]:
        """Parameters for these arguments of fit()."""

    def with_threads(self, params: Params, n_threads: int) -> dict[str, Any]:
        return {**params, self.threads: n_threads}

    def without_threads(self, params: Params) -> dict[str, Any]:
        """Return parameters on which a model depends: all but the number of threads."""
        return {name: value for name, value in params.items() if name != self.threads}

    @abc.abstractmethod
    def check_table(self, table: Table) -> None:
        """Raise unless the library can read the table."""

    def check_objective(self, objective: str) -> None:
        """Raise unless the core has the loss of an objective.

        Raises
        ------
        ParameterError
            There is none, but one of nearly that name.
        UnsupportedError
            There is none.
        """
        try:
            self.loss(objective, {}, 2 if is_multiclass(objective) else 1)
        except UnsupportedError as error:
            own = [name for name in WITH_METRIC if (":" in name) == (":" in self.squared_error)]
            if hint := did_you_mean(objective, own):
                raise ParameterError(f"{error}{hint}") from None
            raise

    def check_labels(self, objective: str, n_outputs: int, labels: FloatArray) -> None:
        """Raise unless the objective is known and defined on the labels."""
        check_labels(self.loss(objective, {}, n_outputs), labels)

    def levels(self, params: Params) -> tuple[float, ...]:
        """Return the levels of a quantile objective, one for each output; empty for others."""
        if not is_quantile(params.get("objective")):
            return ()
        name, default = self.quantile_level
        given = params.get(name, default)
        if isinstance(given, Sequence) and not isinstance(given, str):
            return tuple(map(float, given))
        return (read_number(params, name, default),)

    def n_outputs(self, params: Params) -> int:
        """Return the number of margins of a row."""
        return max(int(params.get("num_class", 1)), len(self.levels(params)))

    def check_start(self, params: Params, data: Dataset) -> None:
        """Raise DataError unless the training rows have a finite start score."""
        objective, labels = params.get("objective"), data.numbers()
        counts = labels if data.weight is None else labels * data.weight
        is_given = data.base_margin is not None or any(name in params for name in self.no_start)
        if has_log_link(objective) and not is_given and not counts.any():
            raise DataError(
                f"y is 0 in every training row that has weight, and the start of {objective}, the "
                f"logarithm of the mean label, would be infinite: give it rows with other labels."
            )

    def ranking_options(self, params: Params) -> dict[str, Any]:
        """Return the options of the default metric of a ranking objective."""
        own = self.loss_options(params)
        return {
            "n_ranked": own.get("lambdarank_num_pair_per_sample", 32),
            "exp_gain": own.get("ndcg_exp_gain", True),
        }

    def survival_options(self, params: Params) -> dict[str, Any]:
        """Return the options of the default metric of an objective of times with bounds."""
        own = self.loss_options(params)
        return {name: own[name] for name in own if name.startswith("aft_loss_")}

    @abc.abstractmethod
    def loss_options(self, params: Params) -> dict[str, Any]:
        """Those of the parameters that belong to a loss."""

    @abc.abstractmethod
    def loss(self, objective: str, options: Params, n_outputs: int = 1) -> Loss:
        """The core's loss of an objective."""

    def default_metric(self, params: Params) -> Metric:
        return default_metric(
            params["objective"],
            tweedie_variance_power=read_number(params, "tweedie_variance_power", 1.5),
            huber_slope=read_number(params, *self.huber_slope),
            fair_c=read_number(params, "fair_c", 1.0),
            quantile_alpha=self.levels(params),
            **self.ranking_options(params),
            **self.survival_options(params),
        )

    def inverse_link(self, params: Params, margins: Margins) -> npt.NDArray[np.floating]:
        """Margins on the scale of the labels."""
        sigmoid = read_number(params, "sigmoid", 1.0)  # LightGBM's
        return inverse_link(params["objective"], margins, sigmoid=sigmoid)

    #: Size of the trees of two stages where `params` do not say how large they are.
    default_size: ClassVar[Mapping[str, Any]]

    def leaf_rule(self, params: Params) -> LeafRule:
        """Return how leaf values are made of sums of gradients and hessians."""
        own = self.leaf_parameters.items()
        return LeafRule(*(read_number(params, name, default) for name, default in own))

    @abc.abstractmethod
    def with_size(self, params: Params, depth: int) -> dict[str, Any] | None:
        """Return parameters of trees of this depth; None where `params` say how large trees are."""

    @abc.abstractmethod
    def with_sampling(self, params: Params, part: float) -> dict[str, Any]:
        """Parameters of trees that see a part of the rows, unless `params` say what they see."""

    @abc.abstractmethod
    def stumps(self, params: Params, penalty: float, learning_rate: float) -> dict[str, Any]:
        """Parameters of trees with one split, whose leaves have an L2 penalty."""

    def own_parameters(self, params: Params, common: Table, own: Table) -> dict[str, Any]:
        """Constraints given by position among the common columns, for a task's own columns."""
        names, own_names = common.feature_names, own.feature_names
        if own_names == names and own.n_features == common.n_features:
            return dict(params)
        assert names is not None
        assert own_names is not None
        return {**params, **self._own_constraints(params, names, own_names)}

    def monotone_signs(self, params: Params, columns: Columns) -> list[int]:
        """Return the monotone constraint of each column, -1, 0 or 1; empty without any."""
        signs: Any = params.get("monotone_constraints") or ()
        if isinstance(signs, Mapping):
            signs = [signs.get(name, 0) for name in self.feature_names(columns)]
        elif isinstance(signs, str):
            signs = signs.strip("()").split(",")
        found = [int(sign) for sign in signs]
        return found if any(found) else []

    @abc.abstractmethod
    def _own_constraints(
        self, params: Params, names: Sequence[str], own: Sequence[str]
    ) -> dict[str, Any]:
        """Those of the parameters that refer to columns `names`, for the columns `own`."""

    @abc.abstractmethod
    def feature_sampling(
        self, params: Params, table: Table, prior: FeaturePrior | None
    ) -> tuple[dict[str, Any], npt.NDArray[np.float32]]:
        """Parameters and weights by which nodes draw columns of the table as the prior wants it.

        Raises where the library draws no features by weight, or the prior does not fit.
        """

    # ---- training ---------------------------------------------------------------------------

    @abc.abstractmethod
    def matrix(self, rows: Rows, params: Params, n_threads: int | None, ref: Any = None) -> Any:
        """Rows to train on, or with the training matrix as `ref`, rows to validate on.

        Those reach the leaves that the finished booster will lead them to, whatever their values.
        """

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
        is_small = n_rows * n_columns < _SMALL
        if is_small:
            params = {**params, **self.one_thread}
        if options is None:
            options = TreeOptions()
        if options.symmetric_trees or not is_small:
            one_task = TaskSet.from_labels(None, n_rows)
            callbacks = [self._task_split(one_task, options.of_one_task(), table), *callbacks]
        return self._train(params, matrix, n_rounds, objective, valid, callbacks)

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
    def empty_booster(self, table: Table, params: Params) -> Any:
        """A booster for the columns of a table that adds nothing."""

    @abc.abstractmethod
    def start_score(self, booster: Any) -> npt.NDArray[np.float32]:
        """Margins before the first tree, shape (n_outputs,); 0 where the trees hold them."""

    # ---- boosters ---------------------------------------------------------------------------

    def feature_names(self, columns: Columns) -> list[str]:
        """Return the names that a booster gives to columns."""
        if columns.names is None:
            return [self.default_name.format(number) for number in range(columns.n)]
        return list(map(self.own_name, columns.names))

    def own_name(self, name: str) -> str:
        """Return the library's name of a column."""
        return name

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
        """Return the numbers of a table as the library reads them; None for other tables."""
        return table.numbers(self.margin_type)

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
