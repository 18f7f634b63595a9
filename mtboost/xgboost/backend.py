# SPDX-License-Identifier: Apache-2.0
"""XGBoost, as the two stages need it: see :class:`~mtboost.trees.backend.Backend`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse
import xgboost

from mtboost import _core
from mtboost.base.arrays import FloatArray
from mtboost.base.checks import check_choice
from mtboost.base.queries import begins_of
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import openmp_threads
from mtboost.errors import ParameterError, UnsupportedError
from mtboost.trees.backend import (
    ENDS_ITSELF,
    Backend,
    Margins,
    Response,
    Rows,
    SplitLimits,
    is_quick,
)
from mtboost.trees.document import Document, Unloaded
from mtboost.trees.feature_weights import (
    FeaturePrior,
    feature_shares,
    sampled_fraction,
    sampling_weights,
)
from mtboost.trees.library_parameters import Params, read_number
from mtboost.trees.losses import has_identity_link, is_quantile, make_loss
from mtboost.trees.refreshed_leaves import LeafRule
from mtboost.trees.signs import check_columns, check_groups_of_names, read_signs
from mtboost.trees.task_column import AddedColumns
from mtboost.trees.tree_options import TreeOptions
from mtboost.xgboost import assemble, library, matrices
from mtboost.xgboost.callbacks import InOrder, TaskSplit, UnableToEnd, check_callbacks
from mtboost.xgboost.document import XgboostDocument, stacked
from mtboost.xgboost.objective_settings import LOSS_OPTIONS, OF_TIMES, read_levels
from mtboost.xgboost.packed_models import pack_models, unpack_models
from mtboost.xgboost.quitting import QuitAt, TaskQuitting
from mtboost.xgboost.residual import residual_margin
from mtboost.xgboost.small_models import XgboostSmallTrainer, small_trainer

_IMPORTANCES = ("gain", "total_gain", "weight", "cover", "total_cover")

#: Gain that a split must exceed: `kRtEps` in XGBoost's source.
_LEAST_GAIN = 1e-6


class XgboostBackend(Backend):
    name = "xgboost"
    suffix = "ubj"
    squared_error = "reg:squarederror"
    binary = "binary:logistic"
    multiclass = "multi:softprob"
    ranking = "rank:ndcg"
    mixable = (
        "reg:squarederror",
        "binary:logistic",
        "reg:logistic",
        "count:poisson",
        "reg:gamma",
        "reg:tweedie",
    )
    parameters_of_losses = MappingProxyType(
        {
            "tweedie_variance_power": ("reg:tweedie",),
            "scale_pos_weight": (
                "reg:squarederror",
                "reg:logistic",
                "binary:logistic",
                "reg:gamma",
            ),
        }
    )
    no_start = {"base_score": 0.0}  # noqa: RUF012  # a constant
    seed_bits = 63
    unstored_is_missing = True
    margin_type = np.float32
    value_type = np.float32
    zero_threshold = 0.0
    adds_sums = False
    leaf_parameters = MappingProxyType(
        {
            "learning_rate": 0.3,
            "reg_lambda": 1.0,
            "reg_alpha": 0.0,
            "max_delta_step": 0.0,
        }
    )
    searched_parameters = MappingProxyType(
        {
            "min_child_weight": 1.0,
            "subsample": 1.0,
            "colsample_bytree": 1.0,
            "colsample_bylevel": 1.0,
            "colsample_bynode": 1.0,
            "min_split_loss": 0.0,
        }
    )
    fewest_rounds = 0
    has_unseen_at_random = True
    default_name = "f{}"
    threads = "nthread"
    one_thread = {"nthread": 1}  # noqa: RUF012  # a constant
    huber_slope = ("huber_slope", 1.0)
    quantile_level = ("quantile_alpha", 0.5)
    task_quitting = TaskQuitting
    quit_at = QuitAt
    arguments = {  # noqa: RUF012  # a constant
        "objective": "objective",
        "eval_metric": "eval_metric",
        "nthread": "n_threads",
        "n_jobs": "n_threads",
        "seed": "seed",
        "random_state": "seed",
    }

    # ---- before any work --------------------------------------------------------------------

    def check_one_machine(self, params: Params) -> None:
        library.check_one_machine("mtboost")

    def names_of_parameters(self) -> tuple[Collection[str], Mapping[str, str]]:
        return library.known_parameters(), library.ALIASES

    def _in_own_form(self, params: dict[str, Any], argument: str) -> dict[str, Any]:
        if params.get("process_type", "default") != "default":
            raise UnsupportedError(
                f"{argument}: process_type={params['process_type']!r} changes existing trees, and "
                "leaf values of tasks belong to trees that are grown. Leave it out; for later "
                "rows use model.refresh or model.update."
            )
        if params.get("monotone_constraints") is not None:
            signs = read_signs(params["monotone_constraints"], argument)
            # XGBoost knows tuples only.
            params["monotone_constraints"] = signs if isinstance(signs, dict) else tuple(signs)
        if "quantile_alpha" in params:
            params["quantile_alpha"] = read_levels(params["quantile_alpha"], argument)
        return params

    def named_parameters(self, named: Params, params: Params) -> dict[str, Any]:
        return {**named, **params}

    def check_values(self, params: Params, table: Table, argument: str, *, is_ours: bool) -> None:
        if is_quantile(params.get("objective")) and "quantile_alpha" not in params:
            raise ParameterError(
                f"{argument} lacks 'quantile_alpha', which objective='reg:quantileerror' needs: "
                "give a level, as in {'quantile_alpha': 0.9}, or several, as in [0.1, 0.5, 0.9]."
            )
        signs = params.get("monotone_constraints")
        if not isinstance(signs, str):  # of early files
            check_columns(signs, table, argument)
        check_groups_of_names(params.get("interaction_constraints"), table, argument)
        levels = self.levels(params)
        if library.version() >= (3, 4) and list(levels) != sorted(levels):
            raise ParameterError(
                f"{argument}: quantile_alpha must be ascending since XGBoost 3.4: give "
                f"{sorted(levels)}."
            )
        library.check_values(params, table, argument, is_ours=is_ours)

    def library_only(self, params: Params) -> str | None:
        names = ("device", "tree_method", "updater", "multi_strategy")
        own = {name: params[name] for name in names if name in params}
        row = xgboost.DMatrix(np.zeros((1, 1)), label=[0], nthread=1)
        settings = library.read_settings(xgboost.Booster({**own, "verbosity": 0}, cache=[row]))
        if settings.has_vector_leaves:
            raise UnsupportedError(
                f"params: {settings.library_only} is for TaskSplit in xgboost.train: the trees of "
                "fit() are continued by specific models, one tree per output. Leave it out."
            )
        return settings.library_only

    def settings(self, objective: str, n_threads: int, seed: int) -> dict[str, Any]:
        return {"objective": objective, "nthread": n_threads, "seed": seed}

    def check_table(self, table: Table) -> None:
        library.check_readable(table)

    def leaf_rule(self, params: Params) -> LeafRule:
        # XGBoost's own default for this objective.
        largest = {"max_delta_step": 0.7} if params.get("objective") == "count:poisson" else {}
        return Backend.leaf_rule(self, {**largest, **params})

    def loss_options(self, params: Params) -> dict[str, Any]:
        options: dict[str, Any] = {
            name: read_number(params, name, 0.0) if read is float else read(params[name])
            for name, read in LOSS_OPTIONS.items()
            if name in params
        }
        levels = self.levels(params)
        return {**options, "quantile_alpha": levels} if levels else options

    def loss(self, objective: str, options: Params, n_outputs: int = 1) -> _core.Loss:
        return make_loss(objective, n_outputs, arithmetic=library.arithmetic(), **options)

    default_size = MappingProxyType({"max_depth": 4})
    search_parameters: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def with_size(self, params: Params, depth: int) -> dict[str, Any] | None:
        if {"max_depth", "max_leaves", "grow_policy"} & params.keys():
            return None
        return {**params, "max_depth": depth}

    @staticmethod
    def _needs_core(params: Params, options: TreeOptions) -> bool:
        # Not where rows are drawn: small models have XGBoost's draws.
        draws_rows = params.get("subsample", 1) != 1
        return options.symmetric_trees or (options.unseen_at_random and not draws_rows)

    def with_min_leaf(self, params: Params, n_rows: int, weight: float) -> dict[str, Any] | None:
        if "min_child_weight" in params:
            return None
        return {**params, "min_child_weight": _readable(weight)}

    def with_sampling(self, params: Params, part: float) -> dict[str, Any]:
        return {"subsample": part, **params}

    def stumps(self, params: Params, penalty: float, learning_rate: float) -> dict[str, Any]:
        size = {"max_depth": 1, "max_leaves": 0, "grow_policy": "depthwise"}
        penalty = _readable(penalty)
        return {**params, **size, "reg_lambda": penalty, "learning_rate": learning_rate}

    def _own_constraints(
        self, params: Params, names: Sequence[str], own: Sequence[str]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        known = set(own)
        interactions = params.get("interaction_constraints")
        if isinstance(interactions, str):
            groups = json.loads(interactions)
            interactions = [[names[feature] for feature in group] for group in groups]
        if interactions:
            groups = [[name for name in group if name in known] for group in interactions]
            found["interaction_constraints"] = [*filter(None, groups)]
        monotone = params.get("monotone_constraints")
        if isinstance(monotone, Mapping):
            found["monotone_constraints"] = {n: s for n, s in monotone.items() if n in known}
        elif monotone is not None:
            signs = monotone.strip("()").split(",") if isinstance(monotone, str) else monotone
            by_name = dict(zip(names, signs, strict=False))
            found["monotone_constraints"] = tuple(int(by_name.get(name, 0)) for name in own)
        return found

    def feature_sampling(
        self, params: Params, table: Table, prior: FeaturePrior | None
    ) -> tuple[dict[str, Any], npt.NDArray[np.float32]]:
        fraction = params.get("colsample_bynode", sampled_fraction(table.n_features))
        if fraction == 1 and table.n_features > 1:
            raise ParameterError(
                "colsample_bynode=1 considers all features in every node, so that a feature_prior "
                "changes nothing: leave it out for the root of their number, or set it below 1."
            )
        weights = sampling_weights(feature_shares(prior, table.feature_names, table.n_features))
        return {**params, "colsample_bynode": fraction}, weights

    # ---- training ---------------------------------------------------------------------------

    def matrix(
        self, rows: Rows, params: Params, n_threads: int | None, ref: xgboost.DMatrix | None = None
    ) -> xgboost.DMatrix:
        options: dict[str, Any] = {
            **_labels(rows.label),
            "weight": rows.weight,
            "base_margin": rows.margin,
            "n_threads": n_threads,
        }
        if rows.queries is not None:
            begins = begins_of(rows.queries)
            options["group"] = np.diff(begins)
            if rows.weight is not None:
                options["weight"] = rows.weight[begins[:-1]]
        if ref is not None:
            return matrices.validation_matrix(rows.table, rows.added, **options)
        options["feature_weights"] = rows.feature_weights
        if library.trains_on_values(params):
            return matrices.plain_matrix(rows.table, rows.added, **options)
        return matrices.quantile_matrix(
            rows.table, rows.added, max_bin=params.get("max_bin"), **options
        )

    def set_margin(self, matrix: xgboost.DMatrix, margin: Margins | None) -> None:
        matrix.set_base_margin(margin)

    @staticmethod
    def has_other_machines() -> bool:
        return xgboost.collective.get_world_size() > 1

    def small_trainer(
        self, params: Params, first: Rows, options: TreeOptions, n_threads: int
    ) -> XgboostSmallTrainer | None:
        return small_trainer(params, self.matrix(first, params, 1), options, n_threads)

    def own_start(self, params: Params, rows: Rows) -> npt.NDArray[np.float32]:
        names = (*library.OF_OBJECTIVES, "num_class")
        own = {name: params[name] for name in names if name in params}
        # A round that adds nothing. Exact trees need no bins, and what they predict is not parsed.
        own |= {"tree_method": "exact", "max_depth": 1, "learning_rate": 0.0, **self.one_thread}
        matrix = self.matrix(rows, own, 1)
        booster = xgboost.train(library.with_start(own, matrix), matrix, 1)
        margins: npt.NDArray[np.float32] = booster.predict(matrix, output_margin=True)
        return np.atleast_1d(margins[0])

    def _task_split(self, tasks: TaskSet, options: TreeOptions, table: Table | None) -> TaskSplit:
        return TaskSplit(
            tasks,
            options=options,
            task_column=None if options.task_splits is None else -1,
            table=table.native if table else None,
        )

    def _shape(self, matrix: xgboost.DMatrix, params: Params) -> tuple[int, int]:
        return matrix.num_row(), matrix.num_col()

    def _train(
        self,
        params: Params,
        matrix: xgboost.DMatrix,
        n_rounds: int,
        objective: Callable[..., Any] | None,
        valid: xgboost.DMatrix | None,
        callbacks: Sequence[Any],
    ) -> xgboost.Booster:
        return xgboost.train(
            library.with_start(params, matrix),
            matrix,
            n_rounds,
            obj=objective,
            verbose_eval=False,
            callbacks=[InOrder(callbacks)],
        )

    def limits_of_splits(self, params: Params) -> SplitLimits:
        name = "min_child_weight"
        return SplitLimits(read_number(params, name, 1.0), name, _LEAST_GAIN)

    def check_callbacks(self, callbacks: Sequence[object]) -> None:
        check_callbacks(callbacks)
        if any(isinstance(each, xgboost.callback.EarlyStopping) for each in callbacks):
            raise ParameterError(ENDS_ITSELF.format("EarlyStopping"))

    def _has_start(self, matrix: xgboost.DMatrix) -> bool:
        return bool(matrix.get_base_margin().size)

    def stop_if(self, is_over: Callable[[], bool]) -> xgboost.callback.TrainingCallback:
        return _Stop(is_over)

    def unable_to_end(
        self, callback: xgboost.callback.TrainingCallback
    ) -> xgboost.callback.TrainingCallback:
        return UnableToEnd(callback)

    def empty_booster(self, table: Table, params: Params) -> xgboost.Booster:
        row = matrices.quantile_matrix(
            table.take(np.zeros(1, np.int64)),
            label=np.ones(1, np.float32),
            label_lower_bound=np.ones(1, np.float32),
            label_upper_bound=np.ones(1, np.float32),
        )
        names = ("objective", "num_class", "quantile_alpha", "nthread", *OF_TIMES)
        own = {name: params[name] for name in names if name in params}
        grown = xgboost.train({**own, "base_score": 0.5}, row, 1)
        return assemble.first_rounds(assemble.read_document(grown), 0)

    def start_score(self, booster: xgboost.Booster) -> npt.NDArray[np.float32]:
        return assemble.start_margins(assemble.read_document(booster))

    # ---- boosters ---------------------------------------------------------------------------

    def features_of(self, booster: xgboost.Booster) -> list[str]:
        names = booster.feature_names
        return self.feature_names(Columns(tuple(names) if names else None, booster.num_features()))

    def n_rounds(self, booster: xgboost.Booster) -> int:
        return booster.num_boosted_rounds()

    def document(self, booster: xgboost.Booster) -> XgboostDocument:
        return XgboostDocument.of(booster)

    def _predict(
        self,
        booster: xgboost.Booster,
        table: Table,
        added: AddedColumns | None = None,
        base_margin: Margins | None = None,
        **options: Any,
    ) -> Margins:
        n_threads = 1 if is_quick(table.n_rows, booster.num_boosted_rounds()) else None
        with openmp_threads(n_threads):
            matrix = matrices.new_matrix(table, added, base_margin=base_margin)
            return np.asarray(booster.predict(matrix, **options))

    def stacked(self, documents: Iterable[Document]) -> xgboost.Booster:
        return stacked(documents)

    def predict_margin(
        self,
        booster: xgboost.Booster,
        table: Table,
        margin: Margins | None,
        added: AddedColumns | None = None,
    ) -> Margins:
        return self._predict(booster, table, added, margin, output_margin=True)

    def response(self, no_rounds: xgboost.Booster) -> Response:
        learner = json.loads(no_rounds.save_config())["learner"]
        name = learner["objective"]["name"]
        is_sorted = is_quantile(name) and library.version() >= (3, 4)  # the levels of each row
        if has_identity_link(name) or (is_quantile(name) and not is_sorted):
            return lambda margins: margins
        n_features = no_rounds.num_features()

        def respond(margins: Margins) -> Margins:
            if not len(margins):  # of a matrix without rows XGBoost predicts no columns
                return respond(np.zeros((1, *margins.shape[1:]), margins.dtype))[:0]
            # XGBoost predicts in place from SciPy's matrices only, not from its arrays.
            rows = scipy.sparse.csr_matrix((len(margins), n_features), dtype=np.float32)
            with openmp_threads(1 if is_quick(len(margins), 1) else None):
                return np.asarray(
                    no_rounds.inplace_predict(rows, base_margin=margins, validate_features=False)
                )

        return respond

    def _followed_margins(
        self,
        booster: xgboost.Booster,
        table: Table,
        margin: Margins | None,
        quit_round: Mapping[TaskName, int],
        tasks: TaskSet,
    ) -> Margins:
        matrix = matrices.new_matrix(table, base_margin=margin)
        return residual_margin(booster, matrix, quit_round, tasks).reshape(table.n_rows, -1)

    def importance(self, booster: xgboost.Booster, importance_type: str) -> dict[str, float]:
        check_choice("importance_type", importance_type, _IMPORTANCES)
        found = booster.get_score(importance_type=importance_type)
        return {name: float(np.ravel(score)[0]) for name, score in found.items()}

    def contributions(self, booster: xgboost.Booster, table: Table) -> Margins:
        return np.asarray(booster.predict(matrices.new_matrix(table), pred_contribs=True))

    def pack(self, models: Mapping[int, Unloaded]) -> dict[str, bytes]:
        return pack_models(models)

    def unpack(self, members: Mapping[str, bytes], n_tasks: int) -> dict[int, Unloaded]:
        return unpack_models(members, n_tasks)

    def dump(self, booster: xgboost.Booster) -> bytes:
        return bytes(booster.save_raw("ubj"))

    def load(self, raw: bytes) -> xgboost.Booster:
        booster = xgboost.Booster()
        with openmp_threads(1):  # those of a larger number would be missing after a fork
            booster.load_model(bytearray(raw))
        return booster


def _labels(labels: FloatArray) -> dict[str, FloatArray]:
    """Labels, or bounds of shape (n_rows, 2), as arguments of a matrix."""
    if labels.ndim == 1:
        return {"label": labels}
    lower, upper = np.ascontiguousarray(labels.T, np.float32)
    return {"label_lower_bound": lower, "label_upper_bound": upper}


class _Stop(xgboost.callback.TrainingCallback):
    def __init__(self, is_over: Callable[[], bool]) -> None:
        super().__init__()
        self._is_over = is_over

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return self._is_over()


def _readable(value: float) -> float:
    """Return the nearest positive number that XGBoost reads.

    It refuses what float32 cannot hold with all digits, also those that it rounds to.
    """
    return min(max(value, 1e-37), 1e38)
