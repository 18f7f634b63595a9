# SPDX-License-Identifier: Apache-2.0
"""The same trees with leaf values estimated again from new rows (refreshed_leaves.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.base.checks import is_number
from mtboost.base.dataset import Dataset
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.tables import Table
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import default_n_threads, openmp_threads
from mtboost.base.user_warnings import warn_user
from mtboost.errors import ParameterError, UnsupportedError
from mtboost.model.changes.refreshed_effects import refreshed_effects
from mtboost.model.inputs.checked_rows import check_rows, check_takes_new_rows
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.prediction.new_rows import as_dataset, check_known, rows_by_task, with_outputs
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.sharing.towards_constant import factor_of_new_values
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.model.stages.mixed_objective import (
    gradient_function,
    in_common_unit,
    start_margins,
)
from mtboost.model.stages.working_model import WorkingModel
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.document import Document
from mtboost.trees.losses import Loss, label_columns, leaf_refit, row_groups
from mtboost.trees.nesting import Nesting
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.refreshed_leaves import (
    Gradients,
    MakeRefit,
    OwnValues,
    Refresh,
    start_of_first_trees,
)
from mtboost.trees.task_column import AddedColumns

# Leaf numbers that are found at once.
_MOST_LEAVES = 50_000_000


class RefreshedTasks(FittedTasks):
    """A :class:`mtboost.MultiTaskModel` whose leaf values are estimated again."""

    __slots__ = ()

    @renamed(where_in_a_method)
    @reading_rows
    def refresh(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        shrink: float = 1.0,
        n_threads: int | None = None,
    ) -> Self:
        """Estimate the leaf values of all trees again from new rows, shrunk towards the old ones.

        Splits stay as they are. In the order of training each leaf with the value w, the sum of
        hessians H of its training rows and those of the new ones, G' and H', gets the value

            (shrink H w + H' w') / (shrink H + H'),

        where w' = -η G'/(H' + λ) is what the new rows alone would give it at their margins before
        the tree, with the learning rate η and the penalty λ of training. The leaves of the common
        model are estimated from the rows of all tasks that use them, those of the tasks' models
        from the rows of the task. With partially pooled leaves (κ) the deviation d of a task, with
        H_t of training rows and H'_t of new ones, from the leaf's new value v becomes

            (c (H_t + κ) d + H'_t (w'_t - v)) / (c (H_t + κ) + max(0, 1 - c) κ + H'_t)

        with c = shrink, for nested tasks level by level from the outermost one. Linear effects move
        by what a mixed model of the new rows finds, times H'/(shrink H + H') of all rows or of a
        task's.

        Start scores stay. H remains that of training however often a model is refreshed, so that
        earlier months fade.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            New rows of some tasks, as in :meth:`predict`. Tasks without rows keep their own models,
            but not the values of the common leaves.
        y : array-like of shape (n_rows,), or mapping of task name to array-like
            Labels.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        weight : like `y`, optional
            Row weights >= 0, with `task_weight` multiplied in, as for :meth:`update`.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), or mapping, optional
            Margin that each row starts from, if training had one.
        shrink : float, default=1.0
            How much a training row counts beside a new one: 0 forgets the old values, infinity
            keeps them.
        n_threads : int, optional
            By default the cores this process may use, or one for a small table.

        Returns
        -------
        MultiTaskModel
            A new model; this one stays as it is.

        Raises
        ------
        DataError, ParameterError, TypeError
            The rows do not fit the model, or a task is unknown.
        UnsupportedError
            The trees have monotone constraints, which single leaves may break, the model ranks the
            rows of queries, or it comes from a file without the parameters of training.

        Notes
        -----
        LightGBM's ``Booster.refit`` has one share for all leaves, ``decay_rate``, in place of
        H/(H + H'). A model whose objective was a function is refreshed by the loss that
        `objective` names.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> shop = np.repeat(["a", "b", "c"], 100)
        >>> y = X[:, 0] + (shop == "b")
        >>> model = mtboost.fit(X, y, task=shop, strategy="two-stage", num_boost_round=20)
        >>> refreshed = model.refresh(X, y + 1.0, task=shop, shrink=0.5)
        >>> bool(np.all(refreshed.predict(X, task=shop) > model.predict(X, task=shop)))
        True
        >>> kept = model.refresh(X, y + 1.0, task=shop, shrink=np.inf)
        >>> bool(np.all(kept.predict(X, task=shop) == model.predict(X, task=shop)))
        True
        """
        if not is_number(shrink) or not float(shrink) >= 0.0:
            raise ParameterError(f"shrink must be a number >= 0 or infinity, found {shrink!r}.")
        shrink = float(shrink)
        check_takes_new_rows(self.objective, "refresh()")
        rows = rows_by_task(self, X, y, task, weight, base_margin)
        check_known(self, rows, "update() trains new tasks too, and add_task() one.")
        data = as_dataset(self, rows)
        if not self.params:
            raise UnsupportedError(
                "The model comes from a file of an early version of mtboost, which does not hold "
                "the parameters of training, so that its leaves cannot be estimated again: fit it "
                "again."
            )
        _check_constraints(self)
        check_rows(self._library, data, self.objective, with_outputs(self))
        if np.isinf(shrink):
            return self._copy(**self._without_what_predictions_showed())
        if not any(self.quit_round.values()) and self.common_trees.n_rounds:
            warn_user(
                "No task follows the common model, whose leaves the new rows therefore do not "
                "change: unknown tasks are predicted as before. Where these matter, fit again on "
                "all rows; the models of a mean can be refreshed one by one, and averaged again."
            )
        n_threads = default_n_threads(n_threads, data.n_rows * data.common.n_features)
        with openmp_threads(n_threads):
            parts = _Refreshing(self, data, shrink, n_threads).parts()
        return self._copy(**parts, **self._without_what_predictions_showed())

    def _without_what_predictions_showed(self) -> dict[str, Any]:
        """Return the attributes of a model whose predictions differ from those of this one."""
        if self.calibration is not None:
            warn_user(
                "The model is calibrated, and the one that update() and refresh() return is not: "
                "its probabilities are those before calibration. For calibrated ones fit again, on "
                "all rows, with calibrate=True."
            )
        return {"conformity_scores": {}, "calibration": None}


def _check_constraints(model: FittedTasks) -> None:
    common = (model.params, model.common_columns)
    specific = [(own, model.task_columns[task]) for task, own in model.specific_params.items()]
    for params, columns in (common, *specific):
        if model._library.monotone_signs(params, columns):
            raise UnsupportedError(
                "refresh() estimates each leaf alone, which may break monotone_constraints: use "
                "update(), whose trees keep them."
            )


class _Refreshing:
    """New rows of all tasks, and the model they refresh."""

    def __init__(self, model: FittedTasks, data: Dataset, shrink: float, n_threads: int) -> None:
        self._model, self._data, self._shrink, self._n_threads = model, data, shrink, n_threads
        self._backend: Backend = model._library
        self._labels = label_columns(data.labels())
        #: In the unit of the common margin.
        self._common_rows = (
            in_common_unit(model.losses, data, self._backend) if model.losses else data
        )
        self._weight = None if data.weight is None else data.weight.astype(np.float32)

    def parts(self) -> dict[str, Any]:
        model = self._model
        trees, margins = self._common()
        specific = model.specific.copy()
        for task in self._data.tasks:
            if model.specific[task] is not None:
                specific[task] = self._specific(task, margins)
        return {"common_trees": trees, "specific": specific}

    # ---- common trees -----------------------------------------------------------------------

    def _common(self) -> tuple[Any, Margins]:
        """Return new common trees, and the margins of all rows after those they use."""
        model, data, backend = self._model, self._data, self._backend
        trees = model.common_trees
        document = backend.document(trees.booster)
        codes = trees.codes_of(data.tasks.names)[data.tasks.codes]
        rounds = np.array([model.quit_round[task] for task in data.tasks])[data.tasks.codes]
        values, hessians = document.leaf_values(), document.leaf_hessians()
        starts, n_linear = self._starts(document), trees.n_linear
        margins = self._start(document, codes) + np.array(starts)
        leaves_of = self._leaves(document, data.common, trees._added(codes))
        counts = self._counts()
        if n_linear:
            first = np.minimum(rounds, n_linear)
            margins = trees.margins(data.common, codes, first, self._common_rows.base_margin)
            uses = (rounds >= n_linear) & self._has_one_loss
            factor = factor_of_new_values(model.shrinkage_factor)
            if uses.any():
                start = self._start(document, codes)[uses, 0].astype(np.float64)
                before = start + (margins[uses, 0] - start) / factor
                effects = refreshed_effects(
                    trees,
                    values,
                    hessians,
                    lambda number: leaves_of(number)[uses],
                    self._working_model(before, uses),
                    codes[uses],
                    counts,
                    self._shrink,
                    factor,
                )
                values = [*effects.values, *values[n_linear:]]
                own_values = [*effects.by_task, *trees.pooled.values[n_linear:]]
                trees = replace(trees, pooled=replace(trees.pooled, values=own_values))
                margins[uses, 0] += effects.margins.astype(margins.dtype)
        refresh = Refresh(
            margins.astype(backend.margin_type),
            np.maximum(rounds - n_linear, 0),
            self._gradients(),
            self._refit(None if model.losses else self._loss(None), slice(None)),
            backend.leaf_rule(model.params),
            self._shrink,
        )
        own = _own_values(trees, codes, counts)
        boosted, found = refresh.trees(
            values[n_linear:],
            hessians[n_linear:],
            lambda number: leaves_of(n_linear + number),
            starts,
            own,
        )
        pooled = trees.pooled
        if own is not None:
            together = [*pooled.values[:n_linear], *found]
            pooled = PooledTrees(pooled.pooling, together, pooled.mean_hessian)
        booster = document.with_leaf_values([*values[:n_linear], *boosted]).load()
        return replace(trees, booster=booster, pooled=pooled), refresh.margins

    def _counts(self) -> Float64Array:
        """Training rows of each task of the common trees."""
        reports = self._model.reports
        return np.array(
            [
                reports[task].n_rows if task in reports else 0
                for task in self._model.common_trees.tasks
            ],
            np.float64,
        )

    def _working_model(self, margins: Float64Array, rows: Any) -> WorkingModel:
        loss, labels = self._loss(None), label_columns(self._common_rows.labels())[rows]
        weight = None if self._weight is None else self._weight[rows]
        tasks = self._strata
        groups = row_groups(
            loss, labels, None if tasks is None else tasks.take(np.flatnonzero(rows))
        )
        margin_type = self._backend.margin_type
        return WorkingModel(loss, margin_type, labels, weight, groups, margins, margins)

    def _start(self, document: Document, codes: Int32Array) -> Margins:
        """Margins before the first tree, shape (n_rows, n_outputs), in the common unit."""
        model, data = self._model, self._data
        if model.losses:
            return start_margins(model.losses, data, self._backend)[:, None]
        return model.common_trees._start(document, data.common, codes, data.base_margin)

    def _starts(self, document: Document) -> list[float]:
        if (
            not self._backend.fewest_rounds
            or self._model.losses
            or self._model.common_trees.n_linear
            or self._data.base_margin is not None
        ):
            return [0.0] * document.n_outputs
        return start_of_first_trees(
            document.leaf_values(),
            document.leaf_hessians(),
            document.n_outputs,
            self._backend.leaf_rule(self._model.params).reg_lambda,
        )

    # ---- specific trees ---------------------------------------------------------------------

    @cached_property
    def _start_alone(self) -> Margins:
        """Margins before the first tree of tasks that the common trees do not know."""
        first = self._backend.document(self._model.common_trees.booster)
        return self._start(first, np.full(self._data.n_rows, -1, np.int32))

    def _specific(self, task: TaskName, common: Margins) -> Any:
        """Return the booster of a task with new leaf values."""
        model, data, backend = self._model, self._data, self._backend
        rows = data.tasks.rows(task)
        document = backend.document(model.specific[task])
        share = model.common_trees.shares.get(task)
        is_alone = share is not None or model.quit_round[task] == 0
        factor = 1.0 if share is None else 1.0 - share
        values = [own / factor for own in document.leaf_values()]
        hessians = document.leaf_hessians()
        starts = [0.0] * document.n_outputs
        rule = backend.leaf_rule(model.specific_params.get(task, model.params))
        if is_alone and not model.losses:
            margins = self._start_alone[rows]
            if data.base_margin is None and backend.fewest_rounds:
                starts = start_of_first_trees(values, hessians, document.n_outputs, rule.reg_lambda)
                margins = margins + np.array(starts)
        else:
            unit = model.losses[task].unit if model.losses else 1.0
            margins = common[rows] * unit
        loss = self._loss(task)
        n_rounds = len(values) // document.n_outputs
        refresh = Refresh(
            margins.astype(backend.margin_type),
            np.full(len(rows), n_rounds),
            self._gradients_of(loss, rows),
            self._refit(loss, rows),
            rule,
            self._shrink,
        )
        table = model.task_columns[task].align(data.task_table(task))
        found, _ = refresh.trees(values, hessians, self._leaves(document, table), starts)
        return document.with_leaf_values([factor * own for own in found]).load()

    # ---- losses -----------------------------------------------------------------------------

    @property
    def _strata(self) -> TaskSet | None:
        """Tasks of the rows, which share no risk set in the common trees; None if all do."""
        return None if self._model._is_one_stratum else self._data.tasks

    @property
    def _has_one_loss(self) -> bool:
        """Whether all rows have one loss in the common margin, which linear effects need."""
        names = self._model.objective
        return isinstance(names, str) or set(names.values()) == {self._backend.squared_error}

    def _loss(self, task: TaskName | None) -> Loss:
        """Return the loss of the common trees, or that of a task's own."""
        model, backend = self._model, self._backend
        params = model.params if task is None else model.specific_params.get(task, model.params)
        options = backend.loss_options(params)
        known = model.losses and task is None
        name = backend.squared_error if known else model._objective_of(task)
        return backend.loss(name, options, model._stage.n_outputs)

    def _gradients(self) -> Gradients:
        """Gradients of all rows in the common margins."""
        model = self._model
        if not model.losses:
            return self._gradients_of(self._loss(None), slice(None), self._strata)
        mixed = gradient_function(model.losses, self._data, self._backend, self._n_threads)

        def gradients(margins: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            return np.stack(mixed(margins[:, 0], None), axis=-1)[:, None]

        return gradients

    def _gradients_of(self, loss: Any, rows: Any, tasks: TaskSet | None = None) -> Gradients:
        """Gradients of rows; `tasks` are theirs, None if it is one."""
        labels = self._labels[rows]
        groups = row_groups(loss, labels, tasks)
        weight = None if self._weight is None else self._weight[rows]

        def gradients(margins: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            found: npt.NDArray[np.float32] = loss.gradients(
                margins,
                labels,
                weight,
                groups=groups.begins,
                order=groups.order,
                n_threads=self._n_threads,
            )
            return found

        return gradients

    def _refit(self, loss: Loss | None, rows: Any) -> MakeRefit:
        labels = self._labels[rows]
        weight = None if self._weight is None else self._weight[rows]

        def refit(margins: npt.NDArray[Any], output: int, learning_rate: float) -> Any:
            return leaf_refit(
                loss,
                margins,
                labels,
                weight,
                output=output,
                learning_rate=learning_rate,
                n_threads=self._n_threads,
            )

        return refit

    def _leaves(
        self, document: Document, table: Table, added: AddedColumns | None = None
    ) -> Callable[[int], Int32Array]:
        """Leaf of each row in the tree of a number, asked for in rising order."""
        n_outputs = document.n_outputs
        n_rounds = len(document.leaf_values()) // n_outputs
        per_block = max(1, _MOST_LEAVES // max(1, table.n_rows * n_outputs))
        found: tuple[int, Int32Array] | None = None

        def leaves_of(number: int) -> Int32Array:
            nonlocal found
            begin = number // n_outputs // per_block * per_block
            if found is None or found[0] != begin:
                part = document.some_rounds(begin, min(n_rounds, begin + per_block))
                found = begin, self._backend.leaves(part, table, added)
            return found[1][:, number - begin * n_outputs]

        return leaves_of


def _own_values(trees: CommonTrees, codes: Int32Array, counts: Float64Array) -> OwnValues | None:
    """Return the leaf values of tasks in the boosted trees, if they have any."""
    kappa = trees.pooled.pooling
    if kappa is None:
        return None
    return OwnValues(
        trees.pooled.values[trees.n_linear :],
        codes,
        counts,
        kappa if isinstance(kappa, tuple) else (float(kappa),),  # type: ignore[arg-type]
        trees.nesting or Nesting(np.full(len(trees.tasks), -1, np.int32)),
    )
