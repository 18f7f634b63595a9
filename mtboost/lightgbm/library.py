# SPDX-License-Identifier: Apache-2.0
"""Assumptions about the installed LightGBM, in one place.

Every use of an undocumented behaviour is in this file or listed here with its file:

* A model text lists all training parameters after LightGBM has resolved aliases and defaults, also
  during training (:func:`read_parameters`), numbers with six digits. All digits are in
  ``Booster.params``, under any of the names in ``lightgbm.basic._ConfigAliases``
  (:func:`_all_digits`).
* ``lightgbm.train`` calls callbacks with ``before_iteration`` before ``update`` of the same round,
  and then ``eval_train``, ``eval_valid``, ``model_to_string`` and ``model_from_string`` of its
  booster, whose class may have been replaced by then (callbacks.py, booster.py). It calls the other
  callbacks after each round, in the order of ``order``; LightGBM's own have 10 to 30 (quitting.py).
* ``lightgbm.cv`` trains each fold on a ``Dataset.subset``, whose ``used_indices`` are its rows
  (:func:`rows_of_subset`).
* A booster without trees evaluates its metrics on the ``init_score`` of its data (growth.py).
* ``Booster.eval`` hands a function of the user's the scores of a data set in training without
  predicting anything (:func:`scores_in_training`).
* The format of ``Dataset.save_binary`` (bins.py) and of a model text, which may be assembled by
  hand (assemble.py).
* ``lightgbm.basic._ConfigAliases`` lists the names of all parameters (:func:`aliases`).
* The random streams of rows and columns (sampling.py).
* Its C++ function ``Network::num_machines`` can be called, but on Windows
  (:func:`check_one_machine`).
* Messages of a thread go to the function that it has registered, LightGBM's Python package keeps
  its own as ``lightgbm.basic._LIB.callback``, and parameters without a verbosity leave that of the
  thread alone (:func:`quiet`).
"""

from __future__ import annotations

import ctypes
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse

from mtboost import _core
from mtboost.base.checks import check_pairs, is_integer, listed, refuse
from mtboost.base.interrupts import restored, uninterrupted
from mtboost.base.queries import queries_from
from mtboost.base.tables import Table
from mtboost.base.tasks import TaskSet, as_tasks
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError, MissingDependencyError, ParameterError, UnsupportedError
from mtboost.trees.growth import check_groups

try:
    import lightgbm
    from lightgbm.basic import _LIB, _ConfigAliases  # type: ignore[attr-defined]  # not exported
except ImportError as error:
    raise MissingDependencyError(
        "mtboost.lightgbm needs LightGBM. Run: pip install 'mtboost[lightgbm]'"
    ) from error

_network_size = getattr(_LIB, "_ZN8LightGBM7Network12num_machinesEv", None)
#: LightGBM reads numbers up to this magnitude as 0.
ZERO_THRESHOLD = float(np.float32(1e-35))
_OLDEST = (4, 5)
_NEWEST_MAJOR = 4
# Parameters of objectives that a loss of the core takes.
_LOSS_NUMBERS = (
    "alpha",
    "fair_c",
    "poisson_max_delta_step",
    "tweedie_variance_power",
    "sigmoid",
    "scale_pos_weight",
)
_LOSS_SWITCHES = ("is_unbalance", "reg_sqrt", "lambdarank_norm")
_LOSS_COUNTS = ("lambdarank_truncation_level",)
#: Those of both kinds, and how they are read from a user's parameters.
LOSS_OPTIONS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_LOSS_NUMBERS, float),  # once check_values() has seen them
    **dict.fromkeys(_LOSS_COUNTS, int),
    **dict.fromkeys(_LOSS_SWITCHES, lambda value: str(value).lower() in ("true", "1", "+")),
}
# For boosters that are to be made quickly.
_ON_THE_SIDE = {"force_col_wise": True, "force_row_wise": False}
# Parameters that ask for trees only LightGBM grows: the one value there is, and what to do instead.
_ONLY = {
    "boosting": ("gbdt", "use boosting='gbdt'"),
    "tree_learner": ("serial", "train on one machine"),
    "device_type": ("cpu", "the finished booster predicts as any other"),
    "bagging_by_query": ("0", "use bagging_fraction"),
    "extra_trees": ("0", "leave it False"),
    "monotone_constraints_method": ("basic", "use 'basic'"),
    "forcedsplits_filename": ("", "leave it out"),
    "cegb_tradeoff": ("1", "leave it out"),
    "cegb_penalty_split": ("0", "leave it out"),
    "cegb_penalty_feature_lazy": ("", "leave it out"),
    "cegb_penalty_feature_coupled": ("", "leave it out"),
    "use_quantized_grad": ("0", "leave it False"),
    "linear_tree": ("0", "leave it False"),
}


def version() -> tuple[int, int]:
    """Major and minor version of the installed LightGBM."""
    major, minor = lightgbm.__version__.split(".")[:2]
    return int(major), int(minor)


def arithmetic() -> str:
    """Name of the rules by which the installed LightGBM computes."""
    return "lightgbm-4.5" if version() < (4, 7) else "lightgbm-4.7"


def check_version() -> None:
    """Raise unless the installed LightGBM is one this module was written for."""
    if version() < _OLDEST or version()[0] > _NEWEST_MAJOR:
        raise MissingDependencyError(
            f"mtboost supports lightgbm >= 4.5, < 5; found {lightgbm.__version__}. "
            "Run: pip install 'lightgbm>=4.5,<5'"
        )


def check_one_machine(user: str, params: Mapping[str, Any] | None = None) -> None:
    """Raise in a training on several machines.

    They are named in the parameters of a booster or data set. Where these are not at hand, or do
    not name them, LightGBM's network is asked, which belongs to the thread.
    """
    machines: Any = ""
    for name, value in (params or {}).items():
        if aliases().get(name, name) == "machines":
            machines = value or ""
    named = machines.split(",") if isinstance(machines, str) else machines
    n_machines = max(len(named), 1 if _network_size is None else _network_size())
    if n_machines > 1:
        raise UnsupportedError(
            f"{user} does not train on several machines, and LightGBM's network has "
            f"{n_machines}: train on one, without 'machines' in the parameters and outside of "
            "lightgbm.dask."
        )


@dataclass(frozen=True, slots=True)
class GrowthSettings:
    """Training parameters of a booster, as the grower and the losses need them."""

    grow: _core.LightgbmParams
    n_threads: int
    objective: str  # LightGBM's main name; "custom" without one
    objective_options: dict[str, Any]
    n_outputs: int
    boosts_from_average: bool
    has_metrics: bool
    bagging_fraction: float
    pos_bagging_fraction: float
    neg_bagging_fraction: float
    bagging_freq: int
    bagging_seed: int
    is_goss: bool
    top_rate: float
    other_rate: float
    feature_fraction: float
    feature_fraction_seed: int


def read_settings(booster: lightgbm.Booster) -> GrowthSettings:
    """Read the parameters that LightGBM itself would train with.

    Parameters that ask for trees only LightGBM can grow raise UnsupportedError.
    """
    check_one_machine("TaskSplit", booster.params)
    params = read_parameters(booster)
    for name, (only, instead) in _ONLY.items():
        if params.get(name, only) != only:
            raise UnsupportedError(
                f"{name}={params[name]} is not supported by TaskSplit, whose trees are its own: "
                f"{instead}."
            )

    _check_numbers(params, booster.num_feature())
    if params["objective"] == "lambdarank":
        _check_ranking(params)

    def number(name: str) -> float:
        return _all_digits(name, params[name], booster.params)

    return GrowthSettings(
        grow=_growth(params, number),
        n_threads=default_n_threads(int(params["num_threads"])),
        objective=params["objective"],
        objective_options={
            **{name: number(name) for name in _LOSS_NUMBERS},
            **{name: int(params[name]) for name in _LOSS_COUNTS},
            **{name: params[name] == "1" for name in _LOSS_SWITCHES},
        },
        n_outputs=booster.num_model_per_iteration(),
        boosts_from_average=params["boost_from_average"] == "1",
        has_metrics=params["metric"] != "custom",  # "custom": none of LightGBM's own
        bagging_fraction=number("bagging_fraction"),
        pos_bagging_fraction=number("pos_bagging_fraction"),
        neg_bagging_fraction=number("neg_bagging_fraction"),
        bagging_freq=int(params["bagging_freq"]),
        bagging_seed=int(params["bagging_seed"]),
        is_goss=params["data_sample_strategy"] == "goss",
        top_rate=number("top_rate"),
        other_rate=number("other_rate"),
        feature_fraction=number("feature_fraction"),
        feature_fraction_seed=int(params["feature_fraction_seed"]),
    )


def _growth(params: Mapping[str, str], number: Callable[[str], float]) -> _core.LightgbmParams:
    """Return how single trees grow; `number` reads a parameter with all its digits."""

    def floats(name: str) -> list[float]:
        return [float(value) for value in params[name].split(",") if value]

    return _core.LightgbmParams(
        learning_rate=number("learning_rate"),
        max_depth=max(int(params["max_depth"]), 0),
        num_leaves=int(params["num_leaves"]),
        min_data_in_leaf=int(params["min_data_in_leaf"]),
        min_sum_hessian_in_leaf=number("min_sum_hessian_in_leaf"),
        min_gain_to_split=number("min_gain_to_split"),
        lambda_l1=number("lambda_l1"),
        lambda_l2=number("lambda_l2"),
        max_delta_step=number("max_delta_step"),
        path_smooth=number("path_smooth"),
        monotone_penalty=number("monotone_penalty"),
        max_cat_to_onehot=int(params["max_cat_to_onehot"]),
        max_cat_threshold=int(params["max_cat_threshold"]),
        cat_smooth=number("cat_smooth"),
        cat_l2=number("cat_l2"),
        min_data_per_group=int(params["min_data_per_group"]),
        feature_fraction_bynode=number("feature_fraction_bynode"),
        feature_contri=floats("feature_contri"),
        monotone_constraints=[int(value) for value in floats("monotone_constraints")],
        interaction_constraints=_groups(params),
        seed=int(params["feature_fraction_seed"]) % 2**64,
    )


def check_values(params: Mapping[str, Any], table: Table, argument: str, *, is_ours: bool) -> None:
    """Raise for values of parameters that LightGBM refuses, or that are not finite.

    Read from a booster of one row without values: LightGBM checks them when one is made. If our
    trees are to be grown (`is_ours`), parameters that ask for LightGBM's own trees raise too.
    """
    own = {**params, **_ON_THE_SIDE}
    if is_integer(params.get("bagging_freq")):
        own["bagging_freq"] = 0  # LightGBM makes no bags of less than a row
    try:
        row = scipy.sparse.csr_matrix((1, table.n_features))
        with quiet():
            data = lightgbm.Dataset(row, label=[1.0], group=[1], params=own)
            booster = lightgbm.Booster(own, data)
    except (lightgbm.basic.LightGBMError, TypeError, ValueError) as error:
        check = re.search(r"Check failed: \((\w+)\) (\S+) \((\S+)\)", str(error))
        reason = str(error) if check is None else f"{check[1]} must be {check[2]} {check[3]}"
        raise ParameterError(f"{argument}: LightGBM refuses a value: {reason}") from None
    try:
        params_of_booster = read_parameters(booster)
        _check_numbers(params_of_booster, table.n_features)
        _check_monotone(params_of_booster, table)
        if is_ours:
            read_settings(booster)
        elif params_of_booster["linear_tree"] != "0":
            raise UnsupportedError(
                f"{argument}: linear_tree=True puts linear models in the leaves, which mtboost "
                f"cannot read: leave it out."
            )
        elif (kind := params_of_booster["boosting"]) in ("dart", "rf"):
            raise UnsupportedError(
                f"{argument}: boosting={kind!r} changes what the trees of earlier rounds add: use "
                "boosting='gbdt'."
            )
    except ParameterError as error:
        raise ParameterError(f"{argument}: {error}") from None


def _check_numbers(params: Mapping[str, str], n_features: int) -> None:
    """Raise for what LightGBM accepts, but cannot train on."""
    for name, text in params.items():
        values = [part.strip("+-").lower() for part in text.split(",")]
        if "nan" in values or "inf" in values:
            refuse(name, text, "finite")
    if any(float(value) < 0 for value in params["feature_contri"].split(",") if value):
        refuse("feature_contri", params["feature_contri"], "numbers >= 0")
    check_groups(_groups(params), n_features)


def _check_ranking(params: Mapping[str, str]) -> None:
    """Raise for gains of labels other than LightGBM's default."""
    gains = [float(gain) for gain in params.get("label_gain", "").split(",") if gain]
    if gains and not np.allclose(gains, np.exp2(np.arange(len(gains))) - 1.0, rtol=1e-4):
        raise UnsupportedError(
            "label_gain is not supported: the gain of a label l is 2**l - 1. Leave it out, or "
            "recode the labels."
        )


def _check_monotone(params: Mapping[str, str], table: Table) -> None:
    """Raise for a constraint on a column of categories, for which LightGBM ends the process."""
    signs = params["monotone_constraints"].split(",")  # of each column, or of none
    signed = zip(table.feature_names or (), signs, strict=False)
    constrained = {name for name, sign in signed if sign not in ("", "0")}
    if unordered := [name for name in table.categorical_features if name in constrained]:
        raise ParameterError(
            f"monotone_constraints must be 0 for {listed(unordered, 'column')}: categories have "
            f"no order."
        )


def _groups(params: Mapping[str, str]) -> list[list[int]]:
    """Interaction constraints."""
    groups = re.findall(r"\[([^\]]*)\]", params["interaction_constraints"])
    return [[int(column) for column in group.split(",")] for group in groups]


def read_parameters(booster: lightgbm.Booster) -> dict[str, str]:
    """Training parameters of a booster by their main names, as texts; none for a treeless file."""
    text = booster.model_to_string(num_iteration=1, start_iteration=booster.current_iteration())
    return dict(re.findall(r"^\[(\w+): (.*)\]$", text, re.MULTILINE))


def read_number(booster: lightgbm.Booster, name: str) -> float:
    """A training parameter of a booster, by its main name, with all digits."""
    return _all_digits(name, read_parameters(booster)[name], booster.params)


def _all_digits(name: str, rounded: str, given: Mapping[str, Any]) -> float:
    """Parameter with all digits that the user gave, one of `given` if it is none of LightGBM's."""
    for alias in _ConfigAliases.get_sorted(name):
        value = _number(str(given.get(alias)))
        if f"{value:g}" == rounded:
            return value
    return float(rounded)


def _number(text: str) -> float:
    """A number as LightGBM reads it: digit by digit, so that the last bit may not be Python's."""
    parts = re.fullmatch(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?)(\d+))?", text)
    if parts is None or not (parts[2] or parts[3]):
        return math.nan
    whole, decimals = (
        reduce(lambda n, digit: 10.0 * n + int(digit), parts[i], 0.0) for i in (2, 3)
    )
    value = whole + decimals / 10.0 ** len(parts[3])
    scale = 10.0 ** min(int(parts[5] or 0), 308)
    value = value / scale if parts[4] == "-" else value * scale
    return -value if parts[1] == "-" else value


@cache
def objective_lines(name: str, options: tuple[tuple[str, Any], ...]) -> tuple[str, dict[str, str]]:
    """Return the lines of a model text for an objective: of its header, and its parameters."""
    row = lightgbm.Dataset(np.zeros((1, 1)), label=[1.0], group=[1])
    with quiet():
        booster = lightgbm.Booster({**_ON_THE_SIDE, "objective": name, **dict(options)}, row)
    header = re.search(r"^objective=(.*)$", booster.model_to_string(), re.MULTILINE)
    assert header is not None
    parameters = read_parameters(booster)
    return header[1], {each: parameters[each] for each in ("objective", *dict(options))}


def start_score(booster: lightgbm.Booster) -> npt.NDArray[np.float64]:
    """Return LightGBM's start scores, which precede the first tree, shape (n_outputs,).

    Its own estimate, taken from a booster that may not split: its trees are constants.
    """
    own = {**_ON_THE_SIDE, "min_gain_to_split": 1e300, "num_threads": 1}
    with quiet():
        scratch = lightgbm.Booster({**booster.params, **own}, booster.train_set)
        scratch.update()
    return np.array([scratch.get_leaf_output(tree, 0) for tree in range(scratch.num_trees())])


def metric_booster(
    params: Mapping[str, Any], data: lightgbm.Dataset, name: str
) -> lightgbm.Booster:
    """A booster without trees, whose margins are the ``init_score`` of its data."""
    own = {**_ON_THE_SIDE, "num_leaves": 2}
    with quiet():
        return lightgbm.Booster({**params, **own}, data).set_train_data_name(name)


@contextmanager
def starting_from(data: lightgbm.Dataset, margins: npt.NDArray[np.float64]) -> Iterator[None]:
    """Let `data` start from these margins, shape (n_rows, n_outputs), for a moment."""

    def start() -> tuple[Any, ...]:
        own = data.get_field("init_score"), data.init_score, data._predictor, data.version
        data._predictor = None  # a booster would take over the trees of a continued model
        data.set_init_score(margins[:, 0] if margins.shape[1] == 1 else margins)
        return own

    def restore(own: tuple[Any, ...]) -> None:
        field, data.init_score, data._predictor, version = own
        data.set_field("init_score", field)
        data.version = version  # a booster that sees another one reads its data anew

    with restored(start, restore):
        yield


class EvaluatedBooster(lightgbm.Booster):
    """LightGBM's booster in training, all of whose metrics come from :meth:`eval`."""

    def eval_train(self, feval: Any = None) -> list[Any]:
        return self.eval(self.train_set, self._train_data_name, feval)

    def eval_valid(self, feval: Any = None) -> list[Any]:
        pairs = zip(self.valid_sets, self.name_valid_sets, strict=True)
        return [result for data, name in pairs for result in self.eval(data, name, feval)]


class Callback:
    """Callback of ``lightgbm.train``, which sets `order` where it does not find it in the instance.

    TaskSplit comes first, before any other callback reads the booster, and ProjectedObjective next,
    which is refused beside it. TaskQuitting comes after LightGBM's log_evaluation and
    record_evaluation, and before its early_stopping, at 30, which ends the round for all callbacks
    after it, the last round always.
    """

    _order: ClassVar[int]
    before_iteration: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self.order = self._order


_Messages = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
# A function of C without any effect. One of Python would run the handlers of signals, and lose what
# they raise, because LightGBM calls it.
_DROP = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, _Messages)
_QUIET = threading.local()


def quiet() -> AbstractContextManager[None]:
    """Let LightGBM print nothing in this thread while the block lasts.

    The messages are dropped, and not prevented by ``verbosity=-1``: that would outlast the block,
    because LightGBM does not say what the verbosity of a thread was before.
    """
    return restored(_begin_quiet, _end_quiet)


def quiet_unless_asked(params: Mapping[str, Any]) -> AbstractContextManager[None]:
    """The same, unless the parameters say what to print."""
    return nullcontext() if "verbosity" in params else quiet()


def _begin_quiet() -> None:
    _QUIET.depth = getattr(_QUIET, "depth", 0) + 1
    _LIB.LGBM_RegisterLogCallback(_DROP)


def _end_quiet(_: None) -> None:
    _QUIET.depth -= 1
    if _QUIET.depth == 0:
        _LIB.LGBM_RegisterLogCallback(_LIB.callback)


def become(booster: lightgbm.Booster, text: str) -> lightgbm.Booster:
    """Let a booster become another model, in place.

    LightGBM frees the old one first, and in between would free it again if it were interrupted.
    """
    with uninterrupted():
        return booster.model_from_string(text)


@cache
def aliases() -> dict[str, str]:
    """Other names of parameters, and the main ones."""
    every = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    return {other: main for main, names in every.items() for other in names if other != main}


@cache
def known_parameters() -> frozenset[str]:
    """Main names of parameters that LightGBM accepts."""
    return frozenset(lightgbm.basic._ConfigAliases._get_all_param_aliases())


def rows_of_subset(data: lightgbm.Dataset, n_rows: int) -> npt.NDArray[np.integer[Any]] | None:
    """Return the rows of a data set that a subset of it has, such as a fold of ``lightgbm.cv``."""
    used = data.used_indices
    if used is None or data.num_data() == n_rows or max(used) >= n_rows:
        return None
    return np.asarray(used)


def tasks_of_matrices(name: str, pairs: Any) -> list[tuple[lightgbm.Dataset, TaskSet]]:
    """Data sets and the tasks of their rows, from an argument `name` with labels of the rows."""
    checked = check_pairs(name, pairs, lightgbm.Dataset, "(Dataset, task of each row)")
    return [(data, as_tasks(task)) for data, task in checked]


def labels_and_weights(data: lightgbm.Dataset) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Labels of a data set and weights, if any; DataError if it has no labels."""
    labels, weights = data.get_label(), data.get_weight()
    if labels is None:
        raise DataError("A validation set has no labels: give it label=.")
    return np.asarray(labels), None if weights is None else np.asarray(weights)


def query_begins(data: lightgbm.Dataset) -> npt.NDArray[np.uint32] | None:
    """Return the first row of each query of a data set, and last the number of rows."""
    begins = data.get_field("group")
    if data.get_field("position") is not None:
        raise UnsupportedError(
            "position is not supported: mtboost does not estimate position biases. Leave it out."
        )
    return None if begins is None else np.asarray(begins).astype(np.uint32)


def queries_of(data: lightgbm.Dataset) -> npt.NDArray[np.int64] | None:
    """Return the query of each row of a data set; None if there are no queries."""
    begins = query_begins(data)
    return None if begins is None else queries_from(begins)


def scores_in_training(
    booster: lightgbm.Booster, data: lightgbm.Dataset
) -> npt.NDArray[np.float64]:
    """Current predictions for a data set of the training; margins if the objective is a function.

    Shape (n_rows,) or (n_rows, n_outputs). LightGBM overwrites the array in the next round.
    """
    found: list[npt.NDArray[np.float64]] = []

    def keep(scores: npt.NDArray[np.float64], _: lightgbm.Dataset) -> list[tuple[str, float, bool]]:
        found.append(scores)
        return []

    booster.eval(data, "", feval=keep)
    return found[0]
