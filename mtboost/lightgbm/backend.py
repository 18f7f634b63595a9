# SPDX-License-Identifier: Apache-2.0
"""LightGBM, as the two stages need it: see :class:`~mtboost.trees.backend.Backend`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import MappingProxyType
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.tables import Table
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import ParameterError, ParameterTypeError, UnsupportedError
from mtboost.lightgbm import assemble, library, matrices
from mtboost.lightgbm.callbacks import TaskSplit
from mtboost.lightgbm.document import LightgbmDocument
from mtboost.lightgbm.quitting import AFTER_QUITTING, QuitAt, TaskQuitting
from mtboost.lightgbm.residual import margins_of_rounds
from mtboost.trees.backend import (
    ENDS_ITSELF,
    Backend,
    Margins,
    Response,
    Rows,
    SplitLimits,
    UntrainableError,
)
from mtboost.trees.document import Document
from mtboost.trees.feature_weights import FeaturePrior
from mtboost.trees.library_parameters import Params, read_number
from mtboost.trees.losses import has_log_link, main_name, make_lightgbm_loss
from mtboost.trees.signs import check_columns, read_signs
from mtboost.trees.task_column import AddedColumns
from mtboost.trees.task_quitting import rounds_of_rows
from mtboost.trees.tree_options import TreeOptions

# Parameters of the estimators that LightGBM names otherwise, and those that it does not have.
_OTHER_NAMES = {"gamma": "min_gain_to_split"}
_NOT_NAMED = {
    "grow_policy": "It always splits the best leaf: bound trees by max_leaves and max_depth.",
    "colsample_bylevel": "Use colsample_bytree or colsample_bynode.",
}
#: Parameters that say which rows a tree sees.
_OF_SAMPLING = {
    "bagging_fraction",
    "bagging_freq",
    "pos_bagging_fraction",
    "neg_bagging_fraction",
    "data_sample_strategy",
    "boosting",
}
#: Its default of ``min_data_in_leaf``.
_MIN_ROWS_PER_LEAF = 20
#: Splits of categories, where leaves may have fewer rows: by default each side has a penalty of 10
#: rows, and 100 rows or more.
_FEW_ROWS_PER_CATEGORY = {"min_data_per_group": 5, "cat_smooth": 1.0, "cat_l2": 1.0}
# Parameters with a value for each column, and what leaves a column alone.
_LISTS = {"monotone_constraints": 0, "feature_contri": 1.0}


class LightgbmBackend(Backend):
    name = "lightgbm"
    suffix = "txt"
    squared_error = "regression"
    binary = "binary"
    multiclass = "multiclass"
    ranking = "lambdarank"
    mixable = ("regression", "binary", "cross_entropy", "poisson", "gamma", "tweedie")
    no_start = {}  # noqa: RUF012  # a constant
    seed_bits = 31
    unstored_is_missing = False
    margin_type = np.float64
    value_type = np.float64
    zero_threshold = library.ZERO_THRESHOLD
    adds_sums = True
    leaf_parameters = MappingProxyType(
        {
            "learning_rate": 0.1,
            "lambda_l2": 0.0,
            "lambda_l1": 0.0,
            "max_delta_step": 0.0,
        }
    )
    searched_parameters = MappingProxyType(
        {
            "min_data_in_leaf": 20,
            "min_sum_hessian_in_leaf": 1e-3,
            "bagging_fraction": 1.0,
            "feature_fraction": 1.0,
            "feature_fraction_bynode": 1.0,
            "min_gain_to_split": 0.0,
        }
    )
    fewest_rounds = 1
    has_unseen_at_random = False
    default_name = "Column_{}"
    threads = "num_threads"
    one_thread = {  # noqa: RUF012  # a constant
        "num_threads": 1,
        "force_col_wise": True,
        "force_row_wise": False,
    }
    huber_slope = ("alpha", 0.9)
    quantile_level = ("alpha", 0.9)
    task_quitting = TaskQuitting
    quit_at = QuitAt
    arguments = {  # noqa: RUF012  # a constant
        "objective": "objective",
        "metric": "eval_metric",
        "num_threads": "n_threads",
        "num_iterations": "num_boost_round",
        "early_stopping_round": "early_stopping_rounds",
        "early_stopping_min_delta": "min_delta",
        "seed": "seed",
        "categorical_feature": "X",
    }

    # ---- before any work --------------------------------------------------------------------

    def check_one_machine(self, params: Params) -> None:
        library.check_one_machine("mtboost", params)

    def names_of_parameters(self) -> tuple[Collection[str], Mapping[str, str]]:
        return library.known_parameters(), library.aliases()

    def _in_own_form(self, params: dict[str, Any], argument: str) -> dict[str, Any]:
        checked = {  # LightGBM compares parameters, which arrays cannot be
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in params.items()
        }
        for name in _LISTS:
            if isinstance(checked.get(name), Mapping):
                raise ParameterError(
                    f"{argument} has {name} by name, but LightGBM knows columns by position only: "
                    "give a list with a value for each."
                )
        if checked.get("monotone_constraints") is not None:
            signs = read_signs(checked["monotone_constraints"], argument)
            checked["monotone_constraints"] = signs
        if "interaction_constraints" in checked:
            groups = _groups(checked["interaction_constraints"], argument)
            checked["interaction_constraints"] = groups
        return checked

    def named_parameters(self, named: Params, params: Params) -> dict[str, Any]:
        for name, instead in _NOT_NAMED.items():
            if name in named:
                raise ParameterError(f"LightGBM has no {name}: leave it out. {instead}")
        own = {_OTHER_NAMES.get(name, name): value for name, value in named.items()}
        if "subsample" in named and "bagging_freq" not in map(
            library.aliases().get, params, params
        ):
            own["bagging_freq"] = 1  # LightGBM's default, 0, means no bags
        return {**own, **params}

    def check_values(self, params: Params, table: Table, argument: str, *, is_ours: bool) -> None:
        signs = params.get("monotone_constraints")
        if not isinstance(signs, str):  # of early files
            check_columns(signs, table, argument)
        _lists(params, table.n_features, 0, argument)
        library.check_values(params, table, argument, is_ours=is_ours)

    def settings(self, objective: str, n_threads: int, seed: int) -> dict[str, Any]:
        return {
            "objective": main_name(objective),
            "metric": "None",  # tasks are evaluated one by one
            "num_threads": n_threads,
            "seed": seed,
        }

    def check_table(self, table: Table) -> None:
        matrices.check_names(table)

    def loss_options(self, params: Params) -> dict[str, Any]:
        return {
            name: read(params[name])
            for name, read in library.LOSS_OPTIONS.items()
            if name in params
        }

    def loss(self, objective: str, options: Params, n_outputs: int = 1) -> _core.LightgbmLoss:
        return make_lightgbm_loss(objective, n_outputs, arithmetic=library.arithmetic(), **options)

    default_size = MappingProxyType({"num_leaves": 16})
    search_parameters = MappingProxyType({"feature_pre_filter": False})

    def with_size(self, params: Params, depth: int) -> dict[str, Any] | None:
        if {"max_depth", "num_leaves"} & params.keys():
            return None
        return {**params, "max_depth": depth, "num_leaves": 2**depth}

    def with_min_leaf(self, params: Params, n_rows: int, weight: float) -> dict[str, Any] | None:
        is_given = bool({"min_data_in_leaf", "min_sum_hessian_in_leaf"} & params.keys())
        are_filtered = params.get("feature_pre_filter") is not False  # columns, by the default
        # Its minimum is one of rows, whatever their hessians.
        if is_given or are_filtered or n_rows in {1, _MIN_ROWS_PER_LEAF}:
            return None
        return {**_FEW_ROWS_PER_CATEGORY, **params, "min_data_in_leaf": n_rows}

    def with_sampling(self, params: Params, part: float) -> dict[str, Any]:
        if _OF_SAMPLING & params.keys():
            return dict(params)
        return {**params, "bagging_fraction": part, "bagging_freq": 1}

    def stumps(self, params: Params, penalty: float, learning_rate: float) -> dict[str, Any]:
        size = {"max_depth": 1, "num_leaves": 2}
        return {**params, **size, "lambda_l2": penalty, "learning_rate": learning_rate}

    def _own_constraints(
        self, params: Params, names: Sequence[str], own: Sequence[str]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        place = {name: number for number, name in enumerate(own)}
        if params.get("interaction_constraints"):
            # LightGBM never splits a column that is in no group.
            alone = [[place[name]] for name in place if name not in names]
            groups = [
                [place[names[feature]] for feature in group if names[feature] in place]
                for group in params["interaction_constraints"]
            ]
            found["interaction_constraints"] = [*filter(None, groups), *alone]
        for parameter, rest in _LISTS.items():
            values = params.get(parameter)
            if values:
                given = values.split(",") if isinstance(values, str) else values
                by_name = dict(zip(names, map(float, given), strict=False))
                found[parameter] = [type(rest)(by_name.get(name, rest)) for name in own]
        return found

    def feature_sampling(
        self, params: Params, table: Table, prior: FeaturePrior | None
    ) -> tuple[dict[str, Any], npt.NDArray[np.float32]]:
        raise UnsupportedError(
            "feature_prior needs features that are drawn by weight, and LightGBM draws all alike: "
            "use backend='xgboost'."
        )

    # ---- training ---------------------------------------------------------------------------

    def matrix(
        self, rows: Rows, params: Params, n_threads: int | None, ref: lightgbm.Dataset | None = None
    ) -> lightgbm.Dataset:
        n_added = 0 if rows.added is None else rows.added.size // len(rows.added)
        lists = _lists(params, rows.table.n_features, n_added)
        return matrices.dataset(rows, {**params, **lists, "num_threads": n_threads}, ref)

    def set_margin(self, matrix: lightgbm.Dataset, margin: Margins | None) -> None:
        matrix.set_init_score(margin)

    def have_no_splits(
        self, params: Params, n_rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        if has_log_link(params.get("objective")) or "forcedsplits_filename" in params:
            return np.zeros(len(n_rows), bool)
        return np.asarray(n_rows < 2 * read_number(params, "min_data_in_leaf", _MIN_ROWS_PER_LEAF))

    def _task_split(self, tasks: TaskSet, options: TreeOptions, table: Table | None) -> TaskSplit:
        column = None if options.task_splits is None else -1
        split: TaskSplit = TaskSplit(tasks, options=options, task_column=column)
        return split

    def _shape(self, matrix: lightgbm.Dataset, params: Params) -> tuple[int, int]:
        with library.quiet_unless_asked(params):
            matrix.construct()
        return matrix.num_data(), matrix.num_feature()

    def _train(
        self,
        params: Params,
        matrix: lightgbm.Dataset,
        n_rounds: int,
        objective: Callable[..., Any] | None,
        valid: lightgbm.Dataset | None,
        callbacks: Sequence[Any],
    ) -> lightgbm.Booster:
        own = dict(params) if objective is None else {**params, "objective": objective}
        own |= {name: value for name, value in (matrix.params or {}).items() if name in _LISTS}
        if params.get("objective") == "mape":  # summed by columns, all rows have the first's weight
            own |= {"force_row_wise": True, "force_col_wise": False}
        with library.quiet_unless_asked(params):
            _check_trains(own["objective"], matrix.construct())
            n_rows = matrix.num_data()
            if read_number(params, "bagging_fraction", 1.0) * n_rows < 1.0:
                own["bagging_fraction"] = min(1.0, 1.5 / n_rows)  # LightGBM refuses an empty bag
            booster = lightgbm.train(
                own,
                matrix,
                n_rounds,
                valid_sets=None if valid is None else [valid],
                callbacks=list(callbacks),
                keep_training_booster=True,
            )
        # As train() ends, but with all rounds, also where a callback of the user's ended it.
        booster.best_iteration = -1
        text = booster.model_to_string(num_iteration=-1)
        # A model does not depend on the threads that trained it, nor on what LightGBM printed.
        for name, value in (("num_threads", 0), ("verbosity", params.get("verbosity", -1))):
            text = re.sub(rf"(?m)^\[{name}: -?\d+\]$", f"[{name}: {value}]", text)
        library.become(booster, text)
        return booster.free_dataset()

    def limits_of_splits(self, params: Params) -> SplitLimits:
        name = "min_sum_hessian_in_leaf"
        return SplitLimits(read_number(params, name, 1e-3), name, 0.0)

    def check_callbacks(self, callbacks: Sequence[object]) -> None:
        ends_itself = type(lightgbm.early_stopping(1, verbose=False))
        for callback in callbacks:
            if not callable(callback) or not hasattr(callback, "__dict__"):  # LightGBM writes there
                raise ParameterTypeError(
                    f"callbacks holds {callback!r}: it must be a function of "
                    "lightgbm.callback.CallbackEnv, such as lightgbm.log_evaluation()."
                )
            if isinstance(callback, ends_itself):
                raise ParameterError(ENDS_ITSELF.format("early_stopping"))

    def _has_start(self, matrix: lightgbm.Dataset) -> bool:
        return matrix.init_score is not None

    def stop_if(self, is_over: Callable[[], bool]) -> Callable[..., None]:
        def stop(env: lightgbm.callback.CallbackEnv) -> None:
            if is_over():
                raise lightgbm.callback.EarlyStopException(env.iteration, [])

        stop.order = AFTER_QUITTING  # type: ignore[attr-defined]  # how LightGBM orders callbacks
        return stop

    def unable_to_end(self, callback: Callable[..., None]) -> Callable[..., None]:
        def called(env: lightgbm.callback.CallbackEnv) -> None:
            with suppress(lightgbm.callback.EarlyStopException):
                callback(env)

        for name, default in (("order", 0), ("before_iteration", False)):
            setattr(called, name, getattr(callback, name, default))
        return called

    def empty_booster(self, table: Table, params: Params) -> lightgbm.Booster:
        row = Rows(
            table.take(np.zeros(1, np.int64)), np.ones(1, np.float32), queries=np.zeros(1, np.int64)
        )
        own = {name: params[name] for name in ("objective", "num_class") if name in params}
        with library.quiet():
            empty = lightgbm.Booster(own, matrices.dataset(row, {}))
        return assemble.first_rounds(assemble.read_document(empty), 0)

    def start_score(self, booster: lightgbm.Booster) -> npt.NDArray[np.float32]:
        return np.zeros(booster.num_model_per_iteration(), np.float32)  # its first trees hold it

    # ---- boosters ---------------------------------------------------------------------------

    def own_name(self, name: str) -> str:
        return matrices.own_name(name)

    def features_of(self, booster: lightgbm.Booster) -> list[str]:
        return booster.feature_name()

    def n_rounds(self, booster: lightgbm.Booster) -> int:
        return booster.current_iteration()

    def document(self, booster: lightgbm.Booster) -> LightgbmDocument:
        return LightgbmDocument.of(booster)

    def _predict(
        self,
        booster: lightgbm.Booster,
        table: Table,
        added: AddedColumns | None = None,
        **options: Any,
    ) -> npt.NDArray[Any]:
        return np.asarray(booster.predict(matrices.native(table, added), **options))

    def stacked(self, documents: Iterable[Document]) -> lightgbm.Booster:
        raise UnsupportedError(
            "LightGBM has no trees whose leaves hold a number for each task: name one, as in "
            "booster(task)."
        )

    def predict_margin(
        self,
        booster: lightgbm.Booster,
        table: Table,
        margin: Margins | None,
        added: AddedColumns | None = None,
    ) -> Margins:
        found = matrices.predict_margin(booster, table, added=added)
        return found if margin is None else np.reshape(margin, found.shape) + found

    def response(self, no_rounds: lightgbm.Booster) -> Response:
        return self.probabilities(no_rounds, _objective(no_rounds))

    def _sigmoid(self, booster: lightgbm.Booster) -> float:
        return float(library.read_parameters(booster).get("sigmoid", 1.0))

    def _followed_margins(
        self,
        booster: lightgbm.Booster,
        table: Table,
        margin: Margins | None,
        quit_round: Mapping[TaskName, int],
        tasks: TaskSet,
    ) -> Margins:
        rounds = rounds_of_rows(quit_round, tasks, table.n_rows, booster.current_iteration())
        found = margins_of_rounds(booster, table, rounds)
        return found if margin is None else np.reshape(margin, found.shape) + found

    def importance(self, booster: lightgbm.Booster, importance_type: str) -> dict[str, float]:
        kinds = {"weight": "split", "total_gain": "gain", "gain": "gain"}
        if importance_type not in kinds:
            raise ParameterError(
                "importance_type must be 'gain', 'total_gain' or 'weight': LightGBM keeps no "
                "covers."
            )
        values = booster.feature_importance(kinds[importance_type])
        if importance_type == "gain":
            values = values / np.maximum(booster.feature_importance("split"), 1)
        found = dict(zip(booster.feature_name(), map(float, values), strict=True))
        return {name: value for name, value in found.items() if value > 0}

    def contributions(self, booster: lightgbm.Booster, table: Table) -> Margins:
        found: Any = booster.predict(matrices.native(table), pred_contrib=True)
        if table.library == "scipy":  # then sparse, and a list of them for several outputs
            parts = found if isinstance(found, list) else [found]
            found = np.hstack([part.toarray() for part in parts])
        n_outputs = booster.num_model_per_iteration()
        shape = (table.n_rows, n_outputs, table.n_features + 1)
        return np.asarray(found if n_outputs == 1 else found.reshape(shape))

    def dump(self, booster: lightgbm.Booster) -> bytes:
        return booster.model_to_string(num_iteration=-1).encode()

    def load(self, raw: bytes) -> lightgbm.Booster:
        return lightgbm.Booster(model_str=raw.decode())


def _check_trains(objective: object, matrix: lightgbm.Dataset) -> None:
    """Raise where LightGBM would, for rows that may be those of a single task."""
    if has_log_link(objective) and not np.any(np.asarray(matrix.get_label())):
        raise UntrainableError(
            "all labels are 0", f"LightGBM trains no {objective} model where all labels are 0."
        )
    if callable(objective) and all(
        matrix.feature_num_bin(column) <= 1 for column in range(matrix.num_feature())
    ):
        raise UntrainableError(
            "no column has a split",
            "LightGBM trains no model by a function of gradients where no column can be split: all "
            "are constant, or min_data_in_leaf is too large for the rows.",
        )


def _lists(
    params: Params, n_columns: int, n_added: int, argument: str = "params"
) -> dict[str, Any]:
    """Parameters with a value for each column, completed for columns that are added to those."""
    found: dict[str, Any] = {}
    for name in _LISTS.keys() & params.keys():
        given = params[name]
        values = given.strip("()[] ").split(",") if isinstance(given, str) else list(given or ())
        if values and len(values) != n_columns:  # LightGBM may end the process
            raise ParameterError(
                f"{argument}: {name} must have a value for each of {n_columns} columns, found "
                f"{len(values)}."
            )
        if values:
            found[name] = [*values, *[_LISTS[name]] * n_added]
    return found


def _groups(interactions: Any, argument: str) -> list[list[int]]:
    """Interaction constraints; in a text each group is in brackets."""
    try:
        if isinstance(interactions, str):
            texts = re.findall(r"\[([^\[\]]*)\]", interactions)
            if not texts and interactions:
                raise ValueError("no group in brackets")
            interactions = [text.split(",") for text in texts]
        groups = [[int(feature) for feature in group] for group in interactions]
        if min(chain(*groups), default=0) < 0:
            raise ValueError("a number is below 0")
        return groups
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{argument} has interaction_constraints that are no lists of column numbers "
            f"({error}): give [[0, 1], [2]]."
        ) from None


def _objective(booster: lightgbm.Booster) -> str:
    """Name of the objective; "custom" if it was a function."""
    return library.read_parameters(booster).get("objective", "custom")
