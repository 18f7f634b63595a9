# SPDX-License-Identifier: Apache-2.0
"""The common model that grows in XGBoost's training loop: bins, gradients, trees and margins.

XGBoost's own objects keep the data, the parameters and the metrics; :class:`XgboostGrowth` grows
the trees, or gives leaf values to those that XGBoost grows (library_grown.py), and assembles the
boosters that ``xgboost.train`` sees (booster.py).
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse
import xgboost

from mtboost import _core
from mtboost.base.arrays import Float32Array, on_host
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, UnsupportedError
from mtboost.trees.growth import Objective, TaskGrowth
from mtboost.trees.losses import (
    check_labels,
    has_bounds,
    make_loss,
    row_groups,
)
from mtboost.trees.task_values import TaskValues, task_attributes
from mtboost.trees.tree_options import TreeOptions
from mtboost.xgboost import assemble
from mtboost.xgboost.bins import MOST_INNER_BINS, Cuts, bin_matrix
from mtboost.xgboost.collective import Workers, check_objective
from mtboost.xgboost.device_rows import DeviceRows
from mtboost.xgboost.library import (
    GrowthSettings,
    arithmetic,
    call_objective,
    check_one_machine,
    read_settings,
)
from mtboost.xgboost.library_grown import (
    LibraryGrower,
    LibraryTree,
    why_library_grows,
)
from mtboost.xgboost.matrices import ValidationMatrix, starting_from
from mtboost.xgboost.matrix_fields import labels_and_weights, query_begins
from mtboost.xgboost.task_field import INSTEAD, check_no_bounds, task_numbers, tasks_in_field
from mtboost.xgboost.ubjson import encode
from mtboost.xgboost.vector_leaves import scalar_trees

_SERIAL_ROWS = 20_000
# Values of a validation matrix that are read back, at 12 bytes each, to be binned.
_MOST_VALUES = 20_000_000


class XgboostGrowth(TaskGrowth):
    """Growth beside a stock booster, which keeps parameters and metrics.

    Trees of the stock booster, if any, are continued and taken out of it. `table` is what the
    training matrix was made from (see :func:`~mtboost.xgboost.bins.bin_matrix`). With `reads_tasks`
    the matrices themselves have the tasks of their rows (task_field.py), and may be those of one of
    several workers.
    """

    settings: GrowthSettings

    def __init__(
        self,
        stock: xgboost.Booster,
        *,
        tasks: TaskSet,
        options: TreeOptions,
        task_column: int | str | None = None,
        table: object = None,
        reads_tasks: bool = False,
    ) -> None:
        super().__init__(tasks, options, task_column)
        self.stock = stock
        self.settings = read_settings(stock)
        self.reads_tasks = reads_tasks
        self._workers: Workers | None = None
        self._has_whole_tasks = False  # no task has rows on two workers
        if not reads_tasks:
            check_one_machine("TaskSplit", INSTEAD)
        self._join_workers()
        if self.settings.library_only is not None:
            self._check_library_grown(self.settings.library_only)
        self._check_levels(self.settings.grow.max_depth, "")
        self._table = table
        self._frame: assemble.Document | None = None
        self._trees: list[assemble.Document] = []
        # Those of them that are not taken over.
        self._grown: list[_core.Tree | LibraryTree] = []
        self._grower: _core.TreeGrower | LibraryGrower | None = None
        self._device: DeviceRows | None = None
        self._train: weakref.ref[xgboost.DMatrix] | None = None
        self._start_margin: Float32Array | None = None
        self._cuts: Cuts | None = None
        self._unused_categories: dict[str, Any] = {}  # argument of the core that lists them
        # Rows in the bins of the training matrix; None: XGBoost is to find their leaves.
        self._binned: weakref.WeakKeyDictionary[xgboost.DMatrix, _core.BinnedMatrix | None] = (
            weakref.WeakKeyDictionary()
        )
        if stock.num_boosted_rounds() > 0:
            self._take_over_trees()

    @property
    def n_rounds(self) -> int:
        return len(self._trees) // self._n_outputs

    def set_param(self, params: Any, value: Any) -> None:
        """Change parameters during training."""
        if isinstance(params, str):
            params = {params: value}
        self.stock.set_param(params)
        self.settings = read_settings(self.stock)
        self.__dict__.pop("_parameters", None)
        if isinstance(self._grower, LibraryGrower):
            self._grower.set_param(dict(params), self.settings)
        elif self._grower is not None and self.settings.library_only is not None:
            raise UnsupportedError(
                f"{self.settings.library_only} was set during training, whose trees mtboost grows: "
                "set it in params before training."
            )

    def _check_library_grown(self, reason: str) -> None:
        self._options.check_library_grown(reason, has_task_column=self._task_column is not None)

    # ---- one round --------------------------------------------------------------------------

    def update(self, matrix: xgboost.DMatrix, iteration: int, objective: Objective | None) -> None:
        """Grow one tree per output from the gradients at the current margins."""
        if self._grower is None:
            self._start(matrix, objective)
        assert self._grower is not None
        if self._workers is not None:
            self._workers.check_equal(
                {"the parameters": self._parameters, "the round": str(iteration)}
            )
        if self._train is None or self._train() is not matrix:
            raise DataError("TaskSplit trains on one matrix; update() was given another one.")
        with nullcontext() if self._device is None else self._device.current():
            self._add_round(matrix, iteration, objective)

    def _add_round(
        self, matrix: xgboost.DMatrix, iteration: int, objective: Objective | None
    ) -> None:
        margins = self._margins_of(matrix)
        gradients = self._gradients(matrix, margins, iteration, objective)
        left_out = self._rows_without_gradient()
        if len(left_out):
            gradients[left_out] = 0.0
        gradients = self._by_output(gradients)
        updated = margins.copy()
        for output, (grown_tree, leaves) in enumerate(self._grow(matrix, gradients)):
            tree = grown_tree.arrays(**self._unused_categories)
            if len(left_out):
                without = leaves[left_out]
                leaves[left_out] = np.minimum(without, ~without)  # negative: took no part
            tree["value"], values = self._leaf_values(
                tree, leaves, gradients, margins, self._weights, output
            )
            self._add_tree(tree["value"], values, leaves, matrix, updated, output=output)
            self._trees.append(
                grown_tree.with_values(tree["value"])
                if isinstance(grown_tree, LibraryTree)
                else assemble.tree_document(tree, n_features=matrix.num_col())
            )
            self._grown.append(grown_tree)
            self._keep_values(self._trees[-1]["split_conditions"], values)
        self._margins[matrix] = (len(self._trees), updated)

    def _gradients_of_loss(self, margins: Any, iteration: int) -> Any:
        device = self._device
        if device is None:
            return super()._gradients_of_loss(margins, iteration)
        found = device.gradients(margins, self._is_active)
        if found is None:
            found = device.put(super()._gradients_of_loss(on_host(margins), iteration))
        return found

    def _grow(
        self, matrix: xgboost.DMatrix, gradients: Float32Array
    ) -> Sequence[tuple[_core.Tree | LibraryTree, npt.NDArray[np.int32]]]:
        """Grow one tree per output; with the leaf of each row in it."""
        grower = self._grower
        assert grower is not None
        if isinstance(grower, LibraryGrower):
            return grower.grow(matrix, gradients, len(self._trees))
        return [
            grower.grow(
                self.settings.grow,
                np.ascontiguousarray(gradients[:, output]),
                tasks=self._active_tasks(),
                tree_number=len(self._trees) + output,
                n_threads=self.settings.n_threads,
            )
            for output in range(self._n_outputs)
        ]

    def _gradients(
        self,
        matrix: xgboost.DMatrix,
        margins: Float32Array,
        iteration: int,
        objective: Objective | None,
    ) -> Any:
        """Gradient pairs of shape (n_rows, n_outputs, 2), where the margins lie."""
        if objective is None:
            return self._gradients_of_loss(margins, iteration)
        prediction = margins[:, 0] if self._n_outputs == 1 else margins
        pair = call_objective(objective, iteration, on_host(prediction.copy()), matrix)
        return self._pairs_of(pair, margins, iteration)

    # ---- margins and metrics ----------------------------------------------------------------

    def margins(self, matrix: xgboost.DMatrix) -> Float32Array:
        return cast(Float32Array, on_host(self._margins_of(matrix)))

    def _margins_of(self, matrix: xgboost.DMatrix) -> Any:
        """Margins of all rows, where the rows lie."""
        if self.reads_tasks and matrix not in self._codes:
            self._read_codes(matrix)
        n_done, margins = self._margins.get(matrix) or (0, self.start_margins(matrix))
        if n_done < len(self._trees):
            binned = self._binned_as_in_training(matrix)
            n_at_once = 0
            if self.pooled.pooling is None:
                n_at_once = len(self._trees) - (0 if binned is None else len(self._grown))
            if n_done < n_at_once:
                margins = self._with_trees(self._trees[n_done:n_at_once], matrix, margins)
                n_done = n_at_once
            margins = margins.copy()
            for number in range(n_done, len(self._trees)):
                leaves = self._leaves(number, matrix, binned)
                self._add_tree(
                    self._trees[number]["split_conditions"].astype(np.float64),
                    self.pooled.values[number],
                    leaves,
                    matrix,
                    margins,
                    output=number % self._n_outputs,
                    n_threads=self._threads_for(matrix),
                )
        self._margins[matrix] = (len(self._trees), margins)
        return margins

    def _threads_for(self, matrix: xgboost.DMatrix) -> int:
        """For few rows the start of threads would cost more than the prediction."""
        return 1 if matrix.num_row() < _SERIAL_ROWS else self.settings.n_threads

    def _binned_as_in_training(self, matrix: xgboost.DMatrix) -> _core.BinnedMatrix | None:
        """The rows in the bins of the training matrix, if they lead to the leaves XGBoost finds.

        So they do for a validation matrix of ours, and for a QuantileDMatrix that was made with
        ``ref`` the training matrix. The core finds leaves by bins in a part of the time that
        XGBoost takes to load a tree.
        """
        if matrix not in self._binned:
            self._binned[matrix] = None
            is_ours = isinstance(matrix, ValidationMatrix)
            if (
                self._cuts is not None
                and isinstance(self._grower, _core.TreeGrower)
                and matrix.num_nonmissing() <= _MOST_VALUES
                and (
                    np.diff(self._cuts[0]).max(initial=0) <= MOST_INNER_BINS
                    if is_ours
                    else isinstance(matrix, xgboost.QuantileDMatrix)
                    and all(map(np.array_equal, matrix.get_quantile_cut(), self._cuts))
                )
            ):
                self._binned[matrix] = bin_matrix(
                    matrix,
                    storage_order=np.empty(0, np.uint32),
                    n_threads=self.settings.n_threads,
                    trained=self._cuts if is_ours else None,
                )
        return self._binned[matrix]

    def _leaves(
        self, number: int, matrix: xgboost.DMatrix, binned: _core.BinnedMatrix | None
    ) -> npt.NDArray[np.int32]:
        """Leaf of each row in one tree."""
        n_taken_over = len(self._trees) - len(self._grown)
        if binned is not None and number >= n_taken_over:
            grown = self._grown[number - n_taken_over]
            assert isinstance(grown, _core.Tree)
            return grown.leaves(binned, n_threads=self._threads_for(matrix))
        # A tree whose leaf values are leaf numbers finds the leaves of any kind of matrix.
        numbered = [assemble.with_leaf_numbers(self._trees[number])] * self._n_outputs
        none = np.zeros((matrix.num_row(), self._n_outputs), np.float32)
        found = self._with_trees(numbered, matrix, none)
        return found[:, number % self._n_outputs].astype(np.int32)

    def _with_trees(
        self, trees: list[assemble.Document], matrix: xgboost.DMatrix, margins: Float32Array
    ) -> Float32Array:
        new = assemble.load_document(self._document(trees))
        new.set_param({"nthread": self._threads_for(matrix), "device": self.settings.device})
        # XGBoost adds trees to a base margin one after another, as it would to earlier trees.
        with starting_from(matrix, margins[:, 0] if self._n_outputs == 1 else margins):
            found: Float32Array = new.predict(matrix, output_margin=True)
        return found.reshape(margins.shape)

    def start_margins(self, matrix: xgboost.DMatrix) -> Float32Array:
        own = matrix.get_base_margin()
        if own.size:
            return cast(
                Float32Array, own.reshape(matrix.num_row(), -1).astype(np.float32, copy=True)
            )
        return np.tile(self._first_margin(), (matrix.num_row(), 1))

    def _first_margin(self) -> Float32Array:
        """Margins of a row before the first tree, shape (1, n_outputs).

        It makes a matrix, which waits for the other workers. Before Python 3.12 a cached property
        has one lock for all instances: workers that are threads of a process would wait for ever.
        """
        if self._start_margin is None:
            self._start_margin = assemble.start_margins(self._document([])).reshape(1, -1)
        return self._start_margin

    @cached_property
    def _without_trees(self) -> xgboost.Booster:
        booster = assemble.first_rounds(self._document([]), 0)
        booster.set_param({"nthread": self.settings.n_threads})
        return booster

    def predict(self, matrix: xgboost.DMatrix, *, output_margin: bool) -> Float32Array:
        margins = self.margins(matrix)
        flat = margins[:, 0].copy() if self._n_outputs == 1 else margins.copy()
        if output_margin:
            return flat
        # XGBoost remembers predictions by matrix, whatever its base margin: hence a matrix of its
        # own for the inverse link, without values.
        values = scipy.sparse.csr_array((len(flat), matrix.num_col()), dtype=np.float32)
        rows = xgboost.DMatrix(values, base_margin=flat)
        return cast(Float32Array, self._without_trees.predict(rows, validate_features=False))

    def evaluate(
        self,
        evals: Sequence[tuple[xgboost.DMatrix, str]],
        iteration: int,
        metric: Callable[..., Any] | None,
        output_margin: bool,
    ) -> str:
        """XGBoost's own metrics on our margins, in XGBoost's own words."""
        # Without matrices too: XGBoost then notes its default metric in the configuration.
        message = xgboost.Booster.eval_set(self.stock, [], iteration)
        for matrix, name in evals:
            margins = self._margins_of(matrix)
            with starting_from(matrix, margins[:, 0] if self._n_outputs == 1 else margins):
                line = xgboost.Booster.eval_set(self.stock, [(matrix, name)], iteration)
            message += line[line.index("]") + 1 :]
        if metric is not None:
            for matrix, name in evals:
                scores = metric(self.predict(matrix, output_margin=output_margin), matrix)
                for label, value in scores if isinstance(scores, list) else [scores]:
                    message += f"\t{name}-{label}:{value:f}"
        return message

    # ---- the model --------------------------------------------------------------------------

    def to_booster(self, attributes: dict[str, str | None], config: str) -> xgboost.Booster:
        """A genuine booster with all trees, parameters and attributes."""
        document = self._document(self._trees)
        document["learner"]["attributes"] = {**attributes, **self._task_attributes()}
        booster = assemble.load_document(document)
        booster.load_config(config)
        return booster

    def _document(self, trees: list[assemble.Document]) -> assemble.Document:
        frame = self._frame or assemble.read_document(self.stock)
        return assemble.with_trees(frame, trees, n_outputs=self._n_outputs)

    # ---- before the first round -------------------------------------------------------------

    def _take_over_trees(self) -> None:
        """Continue a model: its trees become ours, the stock booster keeps only parameters."""
        config = self.stock.save_config()
        self._frame = assemble.read_document(self.stock)
        self._n_outputs = assemble.outputs_of(self._frame)
        self._trees = assemble.trees_of(self._frame)
        if any(tree["tree_param"]["size_leaf_vector"] not in "01" for tree in self._trees):
            self._trees = [own for tree in self._trees for own in scalar_trees(tree)]
            self._n_outputs = len(self._trees) // self.stock.num_boosted_rounds()
        for tree in self._trees:
            self._keep_values(tree["split_conditions"], TaskValues.none())
        self.stock.load_model(encode(self._document([])))
        self.stock.load_config(config)

    def _start(self, matrix: xgboost.DMatrix, objective: Objective | None) -> None:
        n_rows = matrix.num_row()
        if self.reads_tasks:
            check_no_bounds("TaskSplit", self.settings.objective)
            self._set_tasks(tasks_in_field("TaskSplit", matrix, self._workers))
        elif not n_rows and self._workers is None:
            raise DataError("The training matrix has no rows: pass one with at least one row.")
        self._check_rows(n_rows)
        self.know_tasks(matrix, self.tasks)
        self._compare_tasks(self.tasks)
        types = matrix.feature_types or ["float"] * matrix.num_col()
        options = self._grower_arguments(
            matrix.feature_names or [], [kind == "c" for kind in types]
        )
        if objective is None:
            labels, self._weights = labels_and_weights(matrix, self.settings.objective)
            self._labels = labels.reshape(n_rows, self._n_labels(labels.size, n_rows))
            self._loss = self._make_loss()
            strata = None if self._options.one_stratum else self.tasks
            self._groups = row_groups(self._loss, self._labels, strata, query_begins(matrix))
        self._objective = objective
        if self._workers is not None:
            self._check_same_columns(self._workers, matrix)
        self._initialise(matrix, objective)
        if self._options.unseen_at_random and self._workers is None and self._frame is not None:
            self._unused_categories = {"n_categories": assemble.n_categories_of(self._frame)}
        if self._workers is not None:
            self._first_margin()  # makes a matrix: on all workers, whatever their rows have
        self._train = weakref.ref(matrix)
        if (reason := why_library_grows(self.settings, matrix)) is not None:
            self._check_library_grown(reason)
            rank = 0 if self._workers is None else self._workers.rank
            self._device = self._rows_on_device(matrix)
            self._grower = LibraryGrower(self.stock, self.settings, rank, self._device)
            return
        order, first_rows = self._order_by_task()
        feature_weights = matrix.get_float_info("feature_weights")
        self._grower = _core.TreeGrower(
            bin_matrix(
                matrix,
                storage_order=order,
                n_threads=self.settings.n_threads,
                table=self._table,
                totals=self._totals(matrix),
            ),
            first_rows=first_rows,
            feature_weights=feature_weights if feature_weights.size else None,
            workers=None if self._workers is None else self._workers.communicator,
            has_whole_tasks=self._has_whole_tasks,
            **options,
        )
        self._table = None
        if isinstance(matrix, xgboost.QuantileDMatrix):
            self._cuts = matrix.get_quantile_cut()

    def know_tasks(self, data: xgboost.DMatrix, tasks: TaskSet) -> None:
        is_train = self._train is not None and self._train() is data
        if self._device is None or not is_train:  # of training rows the device has them
            super().know_tasks(data, tasks)

    def _rows_on_device(self, matrix: xgboost.DMatrix) -> DeviceRows | None:
        """The training rows on the GPU that XGBoost grows on; None on the host."""
        refits = self._loss is not None and self._loss.refits_leaves
        device = None if refits else DeviceRows.of(self.settings.device)
        if device is not None:
            device.keep_values(self._table, matrix)
            if self._objective is None:
                device.keep_labels(self.settings, self._labels, self._weights, self._row_codes)
            self._margins[matrix] = (len(self._trees), device.put(self._margins_of(matrix)))
            self._row_codes = device.put(self._row_codes)
            self._codes[matrix] = self._row_codes
        self._table = None
        return device

    # ---- several machines (docs/several_machines.md) ----------------------------------------

    def _join_workers(self) -> None:
        self._workers = workers = Workers.of_this_thread()
        if workers is None:
            return
        check_objective(self.settings.objective)
        if self._options.quantized_gradients:
            raise UnsupportedError(
                "quantized_gradients=True is not supported on several machines: leave it out, or "
                "train on one machine."
            )
        self._total = lambda values: workers.sum(values, "task sums of the leaves")
        workers.check_equal(
            {
                "the version of XGBoost": xgboost.__version__,
                "the parameters": self._parameters,
                "the options of TaskSplit": self._comparable_options(),
            }
        )

    @cached_property
    def _parameters(self) -> str:
        """Parameters that all workers must share; the number of threads is not among them."""
        learner = json.loads(self.stock.save_config())["learner"]
        generic = {
            name: learner["generic_param"].get(name) for name in ("seed", "seed_per_iteration")
        }
        parts = ("gradient_booster", "objective", "learner_train_param")
        return json.dumps([generic, *(learner[part] for part in parts)])

    def _comparable_options(self) -> str:
        """The options as text; of a score that is an object its type, since addresses differ."""
        score = self._options.split_score
        name = score if isinstance(score, str) else type(score).__name__
        return f"{name} {replace(self._options, split_score='plain')!r}"

    def _compare_tasks(self, tasks: TaskSet) -> None:
        """Find out whether the rows of each task lie on one worker; all know the same names."""
        if self._workers is not None:
            self._workers.check_equal({"the names of the tasks": repr(tasks.names)})
            presence = (tasks.counts > 0).astype(np.float64)
            n_workers_of_task = self._workers.sum(presence, "workers of the tasks")
            self._has_whole_tasks = bool(n_workers_of_task.max(initial=0.0) <= 1)

    def _read_codes(self, matrix: xgboost.DMatrix) -> None:
        """Tasks of rows to be evaluated; those without training rows are not known."""
        numbers = task_numbers(matrix)
        if numbers is not None and self.tasks.names:
            names = np.array(self.tasks.names)
            places = np.searchsorted(names, numbers).clip(max=len(names) - 1)
            self._codes[matrix] = np.where(names[places] == numbers, places, -1).astype(np.int32)

    def _n_labels(self, n_labels: int, n_rows: int) -> int:
        """Labels of a row, of which a worker without rows has none."""
        if self._workers is None:
            return -1
        table = self._workers.gather([n_labels, n_rows], "numbers of labels")
        found = table[table[:, 1] > 0]
        if len(found) == 0:
            raise DataError("The training matrix has no rows on any worker.")
        return int((found[:, 0] // found[:, 1]).max())

    @staticmethod
    def _check_same_columns(workers: Workers, matrix: xgboost.DMatrix) -> None:
        """Raise unless all workers have the same features and bins."""
        is_binned = isinstance(matrix, xgboost.QuantileDMatrix)  # others are in the first round
        bins = matrix.get_quantile_cut() if is_binned else ()
        workers.check_equal(
            {
                "the bins of the training matrix": b"".join(part.tobytes() for part in bins),
                "the names and types of its features": repr(
                    (matrix.feature_names, matrix.feature_types, matrix.num_col())
                ),
            }
        )

    def _totals(self, matrix: xgboost.DMatrix) -> tuple[int, int] | None:
        """Values and cells on all workers."""
        if self._workers is None:
            return None
        n_values, n_cells = matrix.num_nonmissing(), matrix.num_row() * matrix.num_col()
        totals = self._workers.gather([n_values, n_cells], "numbers of values").sum(axis=0)
        return int(totals[0]), int(totals[1])

    def _task_attributes(self) -> dict[str, str]:
        """Leaf values of tasks as attributes of a booster that returns without the callback."""
        if not self.reads_tasks or not self.pooled.values:
            return {}
        if not any(len(values.leaf) for values in self.pooled.values):
            return {}
        return task_attributes(self.tasks.names, self.pooled.values)

    def _make_loss(self) -> _core.Loss:
        are_bounds = has_bounds(self.settings.objective)
        n_outputs = 1 if are_bounds else self.settings.n_classes or self._labels.shape[1]
        if self._labels.size == 0 and (self._workers is None or len(self._labels)):
            raise DataError("The training matrix has no labels: give it label=.")
        loss = make_loss(
            self.settings.objective,
            n_outputs,
            arithmetic=arithmetic(),
            **self.settings.objective_options,
        )
        check_labels(loss, self._labels)
        return loss

    def _initialise(self, matrix: xgboost.DMatrix, objective: Objective | None) -> None:
        """Let XGBoost make what it makes in its first round: bin edges and the start score."""
        scratch = self.stock.copy()
        scratch.set_param({"max_depth": 1, "max_leaves": 0, "subsample": 1.0})
        scratch.set_param({"multi_strategy": "one_output_per_tree"})
        if self.settings.n_classes:  # the start score of several classes differs by the threads
            scratch.set_param({"nthread": 1})
        if objective is None:
            scratch.update(matrix, 0)
        else:
            # A stock booster does not estimate a start score for a custom objective.
            shape = scratch.predict(matrix, output_margin=True, strict_shape=True).shape
            if not matrix.num_row():  # of which predictions have no columns since 3.4
                shape = (0, max(1, self.settings.n_classes))
            scratch.boost(matrix, 0, grad=np.zeros(shape, "f4"), hess=np.ones(shape, "f4"))
        if self._frame is None:
            self._frame = assemble.read_document(scratch)
            self._n_outputs = assemble.outputs_of(self._frame)
