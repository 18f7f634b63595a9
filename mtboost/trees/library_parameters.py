# SPDX-License-Identifier: Apache-2.0
"""Parameters of a boosting library, as fit() reads them before any work.

Part of the interface of a library, :class:`~mtboost.trees.backend.Backend`.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import FloatArray
from mtboost.base.checks import check_number, did_you_mean, refuse
from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns, Table
from mtboost.errors import DataError, ParameterError, ParameterTypeError, UnsupportedError
from mtboost.metrics.built_in import default_metric
from mtboost.metrics.metric import Metric
from mtboost.trees.feature_weights import FeaturePrior
from mtboost.trees.losses import (
    Loss,
    check_labels,
    has_log_link,
    inverse_link,
    is_multiclass,
    is_quantile,
)
from mtboost.trees.parameter_names import (
    AS_CATEGORIES,
    OF_CATEGORIES,
    ROWS_OF_A_LEAF,
    argument_of,
    of_a_leaf,
    same_parameter,
)
from mtboost.trees.refreshed_leaves import LeafRule
from mtboost.trees.signs import read_signs

Params = Mapping[str, Any]


def read_number(params: Params, name: str, default: float) -> float:
    """A parameter as a number, which the libraries also read from a text."""
    given = params.get(name, default)
    try:
        return check_number(name, float(given) if isinstance(given, str) else given)
    except ValueError:
        refuse(name, given, "a finite number")


def _refuse_argument(name: str, given: str, argument: str) -> NoReturn:
    """Raise ParameterError for a parameter in `given` that is an argument of fit()."""
    if argument == "X":
        raise ParameterError(f"{given} has {name!r}.{AS_CATEGORIES}")
    raise ParameterError(f"Pass {argument}= to fit(), not {name!r} in {given}.")


class LibraryParameters(abc.ABC):
    """Names, values and defaults of a library's parameters, and the losses that they choose."""

    name: ClassVar[str]
    #: The library's names of common objectives.
    squared_error: ClassVar[str]
    binary: ClassVar[str]
    multiclass: ClassVar[str]
    ranking: ClassVar[str]
    #: Objectives that tasks of one common model may have beside each other: their best constant is
    #: the mean label, and their leaves are Newton steps.
    mixable: ClassVar[tuple[str, ...]]
    #: Parameters of some of them, of which the library warns with the others.
    parameters_of_losses: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    #: Parameters of a model whose rows all have base margins.
    no_start: ClassVar[Mapping[str, Any]]
    #: Bits of the largest seed that it reads.
    seed_bits: ClassVar[int]
    #: Its parameters that are arguments of fit(): name → argument.
    arguments: ClassVar[Mapping[str, str]]
    #: Its parameters of leaf values, and their defaults: the learning rate, the L2 and the L1
    #: penalty, and the largest step.
    leaf_parameters: ClassVar[Mapping[str, float]]
    #: Further ones that are often searched, and their defaults.
    searched_parameters: ClassVar[Mapping[str, float]]
    #: Its parameter for the number of threads, and those that make its sums independent of it.
    threads: ClassVar[str]
    one_thread: ClassVar[Mapping[str, Any]]
    #: Its parameter for the slope of the Huber loss, and the default.
    huber_slope: ClassVar[tuple[str, float]]
    #: Its parameter for the levels of quantiles, and the default.
    quantile_level: ClassVar[tuple[str, float]]
    #: Its name of a column without one, to be filled in with the position.
    default_name: ClassVar[str]
    #: Size of the trees of two stages where `params` do not say how large they are.
    default_size: ClassVar[Mapping[str, Any]]
    #: Parameters of a search, whose models differ in the minimum rows per leaf on the same bins.
    search_parameters: ClassVar[Mapping[str, Any]]

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
        that the caller knows beside the library's. Values of NumPy become those of Python, which a
        model file can hold.
        """
        if not isinstance(params, Mapping):
            refuse(argument, params, "a mapping of names to values", kind=ParameterTypeError)
        self.check_one_machine(params)
        known, main_names = self.names_of_parameters()
        checked: dict[str, Any] = {}
        for name, value in params.items():
            main = main_names.get(name, name)
            if main not in known:
                self._refuse_name(name, argument, {*known, *main_names, *others}, elsewhere)
            if main in elsewhere:
                _refuse_argument(name, argument, elsewhere[main])
            if main in checked:
                raise ParameterError(f"{argument} has {main!r} under two names.")
            checked[main] = _without_numpy(value)
        return self._in_own_form(checked, argument)

    def _refuse_name(
        self, name: object, argument: str, known: Collection[str], elsewhere: Mapping[str, str]
    ) -> NoReturn:
        """Raise for a name that the library does not know, with the one that is meant."""
        text = str(name)
        if elsewhere and (own := argument_of(text)):
            _refuse_argument(text, argument, own)
        if text in OF_CATEGORIES:
            _refuse_argument(text, argument, "X")
        if text in ROWS_OF_A_LEAF:
            hint = of_a_leaf("min_child_weight")
        elif same := same_parameter(text, known):
            hint = f" Did you mean {same!r}?"
        else:
            hint = did_you_mean(text, known)
        raise TypeError(f"{argument} has an unknown name {name!r}.{hint}")

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
            There is none, but one of nearly that name, or with another name.
        UnsupportedError
            There is none.
        """
        try:
            self.loss(objective, {}, 2 if is_multiclass(objective) else 1)
        except UnsupportedError as error:
            if "Did you mean" in str(error):
                raise ParameterError(str(error)) from None
            raise

    def check_labels(self, objective: str, params: Params, labels: FloatArray) -> None:
        """Raise unless the objective is known and defined on the labels."""
        loss = self.loss(objective, self.loss_options(params), self.n_outputs(params))
        check_labels(loss, labels)

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

    @abc.abstractmethod
    def loss_options(self, params: Params) -> dict[str, Any]:
        """Those of the parameters that belong to a loss."""

    @abc.abstractmethod
    def loss(self, objective: str, options: Params, n_outputs: int = 1) -> Loss:
        """The core's loss of an objective."""

    def default_metric(self, params: Params) -> Metric:
        own = self.loss_options(params)
        return default_metric(
            params["objective"],
            tweedie_variance_power=read_number(params, "tweedie_variance_power", 1.5),
            huber_slope=read_number(params, *self.huber_slope),
            fair_c=read_number(params, "fair_c", 1.0),
            quantile_alpha=self.levels(params),
            n_ranked=own.get("lambdarank_num_pair_per_sample", 32),
            exp_gain=own.get("ndcg_exp_gain", True),
            **{name: own[name] for name in own if name.startswith("aft_loss_")},
        )

    def inverse_link(self, params: Params, margins: npt.NDArray[Any]) -> npt.NDArray[np.floating]:
        """Return margins on the scale of the labels."""
        sigmoid = read_number(params, "sigmoid", 1.0)  # LightGBM's
        return inverse_link(params["objective"], margins, sigmoid=sigmoid)

    def leaf_rule(self, params: Params) -> LeafRule:
        """Return how leaf values are made of sums of gradients and hessians."""
        own = self.leaf_parameters.items()
        return LeafRule(*(read_number(params, name, default) for name, default in own))

    @abc.abstractmethod
    def with_size(self, params: Params, depth: int) -> dict[str, Any] | None:
        """Return parameters of trees of this depth; None where `params` say how large trees are."""

    @abc.abstractmethod
    def with_min_leaf(self, params: Params, n_rows: int, weight: float) -> dict[str, Any] | None:
        """Return parameters of trees with at least this number of rows per leaf.

        `weight` is the sum of hessians that as many rows have on average. None where `params` say
        how small leaves may be, and where the library has this number by default.
        """

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
        signs = read_signs(params.get("monotone_constraints") or (), "params")
        if isinstance(signs, dict):
            signs = [signs.get(name, 0) for name in self.feature_names(columns)]
        return signs if any(signs) else []

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

    def feature_names(self, columns: Columns) -> list[str]:
        """Return the names that a booster gives to columns."""
        if columns.names is None:
            return [self.default_name.format(number) for number in range(columns.n)]
        return list(map(self.own_name, columns.names))

    def own_name(self, name: str) -> str:
        """Return the library's name of a column."""
        return name


def _without_numpy(value: Any) -> Any:
    """Return a parameter with numbers and lists in place of scalars and arrays of NumPy.

    Libraries read the digits of a number: those of 0.1 in single precision are 0.1.
    """
    if isinstance(value, np.floating):
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return [_without_numpy(each) for each in value] if value.ndim else _without_numpy(value[()])
    if type(value) in (list, tuple):
        return type(value)(map(_without_numpy, value))
    if type(value) is dict:
        return {name: _without_numpy(each) for name, each in value.items()}
    return value
