# SPDX-License-Identifier: Apache-2.0
"""Objectives by the libraries' names: what their margins mean.

XGBoost's names have a colon, LightGBM's have none, so that one name says whose it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.special

from mtboost import _core
from mtboost.base.arrays import FloatArray
from mtboost.base.checks import did_you_mean
from mtboost.base.queries import check_queries, queries_from
from mtboost.base.tasks import TaskSet
from mtboost.errors import (
    DataError,
    MtboostError,
    ParameterError,
    ParameterTypeError,
    UnsupportedError,
)

Loss = _core.Loss | _core.LightgbmLoss
Label = TypeVar("Label", bound=np.floating[Any])
LeafRefit = Callable[[npt.NDArray[np.float64], npt.NDArray[np.int32]], npt.NDArray[np.float64]]

_LOGISTIC = ("binary:logistic", "reg:logistic", "binary:logitraw", "cross_entropy")
_SIGMOID = ("binary", "multiclassova")
_LOG_LINK = ("count:poisson", "reg:tweedie", "reg:gamma", "poisson", "tweedie", "gamma")
_TWO_CLASSES = ("binary:logistic", "binary:logitraw", "binary:hinge", "binary")
_RANKING = ("rank:ndcg", "rank:pairwise", "lambdarank")
_SOFTMAX = ("multi:softprob", "multi:softmax", "multiclass")
_QUANTILE = ("reg:quantileerror", "quantile")
_HAZARDS = ("survival:cox",)
_TIMES = ("survival:aft",)
_SURVIVAL = _HAZARDS + _TIMES
#: LightGBM's other names of its objectives, and its main ones.
LIGHTGBM_ALIASES = {
    "regression_l2": "regression",
    "mean_squared_error": "regression",
    "mse": "regression",
    "l2": "regression",
    "l2_root": "regression",
    "root_mean_squared_error": "regression",
    "rmse": "regression",
    "mean_absolute_error": "regression_l1",
    "mae": "regression_l1",
    "l1": "regression_l1",
    "mean_absolute_percentage_error": "mape",
    "xentropy": "cross_entropy",
    "softmax": "multiclass",
    "multiclass_ova": "multiclassova",
    "ova": "multiclassova",
    "ovr": "multiclassova",
}


#: Objectives of LightGBM, and XGBoost's for the same loss.
_IN_XGBOOST = {
    "regression": "reg:squarederror",
    "regression_l1": "reg:absoluteerror",
    "huber": "reg:pseudohubererror",
    "poisson": "count:poisson",
    "quantile": "reg:quantileerror",
    "gamma": "reg:gamma",
    "tweedie": "reg:tweedie",
    "binary": "binary:logistic",
    "cross_entropy": "reg:logistic",
    "multiclass": "multi:softprob",
    "lambdarank": "rank:ndcg",
}
#: Losses of scikit-learn, by LightGBM's names.
_OF_SKLEARN = {
    "squared_error": "regression",
    "absolute_error": "regression_l1",
    "log_loss": "binary",
    "logloss": "binary",
    "logistic": "binary",
}


def similar_objective(objective: object, known: Collection[str]) -> str:
    """Return the end of a message: the name that a library has for an objective of another.

    Else the nearest of the known names, if one is near.
    """
    name = _OF_SKLEARN.get(str(objective), main_name(objective))
    in_lightgbm = {theirs: own for own, theirs in _IN_XGBOOST.items()}
    for own in (name, _IN_XGBOOST.get(str(name)), in_lightgbm.get(str(name))):
        if own in known:
            return f" Did you mean {own!r}?"
    return did_you_mean(objective, known)


def main_name(objective: Any) -> Any:
    """An objective by LightGBM's main name for it; XGBoost's, and functions, as they are."""
    return LIGHTGBM_ALIASES.get(objective, objective) if isinstance(objective, str) else objective


def _is_one_of(objective: object, names: tuple[str, ...]) -> bool:
    return isinstance(objective, str) and main_name(objective) in names


def is_classification(objective: object) -> bool:
    """Whether labels are classes."""
    return is_multiclass(objective) or is_of_two_classes(objective)


def is_of_two_classes(objective: object) -> bool:
    """Whether labels are two classes."""
    return _is_one_of(objective, _TWO_CLASSES)


def is_multiclass(objective: object) -> bool:
    """Whether there is one margin per class."""
    return _is_one_of(objective, (*_SOFTMAX, "multiclassova"))


def is_quantile(objective: object) -> bool:
    """Whether margins are quantiles of the labels, one for each level."""
    return _is_one_of(objective, _QUANTILE)


def is_ranking(objective: object) -> bool:
    """Whether rows are ranked within queries."""
    return _is_one_of(objective, _RANKING)


def is_survival(objective: object) -> bool:
    """Whether labels are times of events, of which some are censored."""
    return _is_one_of(objective, _SURVIVAL)


def has_hazards(objective: object) -> bool:
    """Whether margins are logarithms of hazards, which are comparable within a task only."""
    return _is_one_of(objective, _HAZARDS)


def has_bounds(objective: object) -> bool:
    """Whether a label is a lower and an upper bound of a time."""
    return _is_one_of(objective, _TIMES)


def has_log_link(objective: object) -> bool:
    """Whether a margin is the logarithm of a mean."""
    return _is_one_of(objective, _LOG_LINK)


def has_identity_link(objective: object) -> bool:
    """Whether a margin is a mean in the unit of the labels."""
    return _is_one_of(objective, ("reg:squarederror", "regression"))


def standard_deviations(
    objective: object, means: FloatArray, options: Mapping[str, Any]
) -> npt.NDArray[np.float64]:
    """Standard deviations of labels with these means, up to a factor that all rows share.

    sqrt(μ^p) with the p of Poisson, Tweedie and gamma losses, else 1. `options` may have
    ``tweedie_variance_power``.
    """
    name = main_name(objective)
    power = {"count:poisson": 1.0, "poisson": 1.0, "reg:gamma": 2.0, "gamma": 2.0}.get(name, 0.0)
    if name in ("reg:tweedie", "tweedie"):
        power = float(options.get("tweedie_variance_power", 1.5))
    least = np.finfo(np.float32).tiny  # a mean of 0 is one that is too small for the libraries
    return np.asarray(np.maximum(np.asarray(means, np.float64), least) ** (0.5 * power))


def label_range(objective: object) -> tuple[float, float]:
    """Return the range of the means that an objective predicts."""
    if _is_one_of(objective, _LOG_LINK + _SURVIVAL):
        return 0.0, np.inf
    if main_name(objective) == "reg:squaredlogerror":
        return -1.0, np.inf
    return (0.0, 1.0) if _is_one_of(objective, _LOGISTIC) else (-np.inf, np.inf)


def inverse_link(objective: object, margins: FloatArray, *, sigmoid: float = 1.0) -> FloatArray:
    """Margins of shape (n_rows,) or (n_rows, n_outputs) on the scale of the labels.

    Probabilities for a classifier, also where XGBoost's predict gives margins (``logitraw``) or
    classes (``softmax``); 0 or 1 for ``hinge``, which has none; those of ``multiclassova`` do not
    add up to 1, as in LightGBM. An objective of the user's own keeps its margins. ``sigmoid`` is
    LightGBM's parameter.
    """
    objective = main_name(objective)
    if objective in _LOGISTIC:
        return np.asarray(scipy.special.expit(margins))
    if objective in _SIGMOID:
        return np.asarray(scipy.special.expit(sigmoid * margins))
    if objective in _LOG_LINK + _SURVIVAL:
        return np.asarray(np.exp(margins))
    if objective in _SOFTMAX and len(margins):  # XGBoost's margins of no rows have one axis
        return np.asarray(scipy.special.softmax(margins, axis=1))
    if objective == "binary:hinge":
        return (margins > 0).astype(margins.dtype)
    return margins


def check_same_link(common: str, specific: str) -> None:
    """Raise DataError unless margins of two objectives mean the same, so that they may be added."""
    margins = np.array([[-1.0, 0.5]])
    first, second = (inverse_link(own, margins) for own in (common, specific))
    if not np.array_equal(first, second):
        raise DataError(
            f"The common model has the objective {common!r}, the specific one {specific!r}: their "
            "margins have different units. Train both with the same objective; with a function as "
            "the objective, name it in params too."
        )


def link(objective: object, means: FloatArray, *, sigmoid: float = 1.0) -> FloatArray:
    """Margins of means on the scale of the labels: the inverse of :func:`inverse_link`.

    Of objectives whose outputs do not see each other.
    """
    objective = main_name(objective)
    if objective in _LOGISTIC:
        return np.asarray(scipy.special.logit(means))
    if objective in _SIGMOID:
        return np.asarray(scipy.special.logit(means) / sigmoid)
    if objective in _LOG_LINK + _SURVIVAL:
        return np.asarray(np.log(means))
    return means


@dataclass(frozen=True, slots=True)
class TaskLoss:
    """The loss of a task whose common model has tasks of other losses (docs/mixed_tasks.md).

    Attributes
    ----------
    objective : str
        The library's main name.
    options : dict of str to float or bool
        Parameters of the loss that were given.
    start : float
        Where the task starts, on the scale of its labels: their mean.
    unit : float
        How much of the task's margin one unit of the common margin is.
    dispersion : float
        What the loss is divided by in the common model.
    """

    objective: str
    options: dict[str, Any]
    start: float
    unit: float
    dispersion: float

    @property
    def start_margin(self) -> float:
        """The task's margin before the first tree."""
        return float(link(self.objective, np.array([self.start]), sigmoid=self.sigmoid)[0])

    @property
    def is_usable(self) -> bool:
        """Whether margins in the unit of the task are numbers."""
        with np.errstate(all="ignore"):
            scales = np.array([self.unit, self.dispersion, 1.0 / np.float64(self.unit) ** 2])
            start = np.float32(self.start_margin)
        return bool(np.isfinite(scales).all() and (scales > 0.0).all() and np.isfinite(start))

    def inverse_link(self, margins: FloatArray) -> FloatArray:
        """Margins of the task on the scale of its labels."""
        return inverse_link(self.objective, margins, sigmoid=self.sigmoid)

    @property
    def sigmoid(self) -> float:
        """Log-odds per unit of the task's margin."""
        return float(self.options.get("sigmoid", 1.0))


def start_scores(
    objective: str, labels: FloatArray, weights: FloatArray
) -> npt.NDArray[np.float64]:
    """The mean label of each output, as XGBoost's ``base_score``; shapes (n_rows, n_outputs).

    It minimises squared, logistic and Poisson loss. Where all labels of an output are alike, the
    margin of a probability or a mean would be infinite: both stay half a label away from it.
    """
    n_known = (weights > 0).sum(axis=0)
    means = np.average(labels.astype(np.float64), axis=0, weights=weights)
    low = 0.5 / n_known
    if objective in _LOGISTIC:
        return np.asarray(means.clip(low, 1.0 - low))
    return np.asarray(means.clip(low) if objective in _LOG_LINK else means)


def make_loss(
    objective: str, n_outputs: int = 1, *, arithmetic: str = "xgboost-3.0", **options: Any
) -> _core.Loss:
    """Loss of the core for an objective of XGBoost; UnsupportedError if there is none.

    That of quantiles has as many outputs as ``quantile_alpha`` has levels.
    """
    if is_quantile(objective) and "quantile_alpha" in options:
        options["quantile_alpha"] = np.atleast_1d(options["quantile_alpha"]).tolist()
        n_outputs = len(options["quantile_alpha"])
    try:
        return _core.Loss(objective, n_outputs=n_outputs, arithmetic=arithmetic, **options)
    except ValueError as error:
        raise _refusal(objective, error) from None


def make_lightgbm_loss(
    objective: str,
    n_outputs: int = 1,
    *,
    arithmetic: str = "lightgbm-4.7",
    reg_sqrt: bool = False,
    **options: Any,
) -> _core.LightgbmLoss:
    """Loss of the core for an objective of LightGBM, as :func:`make_loss` for XGBoost's."""
    if reg_sqrt:
        raise UnsupportedError(
            "reg_sqrt=True is not supported: train on sign(y) * sqrt(|y|) and square what is "
            "predicted."
        )
    name = main_name(objective)
    try:
        return _core.LightgbmLoss(name, n_outputs=n_outputs, arithmetic=arithmetic, **options)
    except ValueError as error:
        raise _refusal(objective, error) from None


def _refusal(objective: str, error: ValueError) -> MtboostError:
    """Return the error for an objective that is unknown, or that has a wrong option."""
    if "must be" in str(error):  # an option of the loss
        return ParameterError(f"params of objective={objective!r}: {error}.")
    known = str(error).partition("known are ")[2].split(", ")  # as the core lists them
    return UnsupportedError(
        f"objective={objective!r} is not supported: {error}. A function of your own is."
        f"{similar_objective(objective, known)}"
    )


def as_pair(returned: Any) -> tuple[Any, Any]:
    """Gradient and hessian, as a user's objective has returned them."""
    try:
        gradient, hessian = returned
    except (TypeError, ValueError):
        raise ParameterTypeError(
            f"objective returned {type(returned).__name__}: it must return gradient, hessian."
        ) from None
    return gradient, hessian


def check_shape_of_gradients(found: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raise DataError unless a user's gradient, or hessian, has a number for each margin."""
    if math.prod(found) != math.prod(shape):
        raise DataError(
            f"The objective returned an array of shape {found}: gradient and hessian must have the "
            f"shape of the margins, {shape}."
        )


def leaf_refit(
    loss: Loss | None,
    margins: npt.NDArray[Any],
    labels: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32] | None,
    *,
    output: int,
    learning_rate: float,
    n_threads: int = 1,
) -> LeafRefit | None:
    """Return the function that gives each leaf the optimum of the loss.

    None where leaf values are Newton steps, as those of most losses are.

    Parameters
    ----------
    loss : Loss or None
        None if a user's function gives the gradients.
    margins : ndarray of shape (n_rows, n_outputs)
        Before the tree whose leaves are refitted.
    labels : ndarray of float32, shape (n_rows, n_outputs)
    weights : ndarray of float32, shape (n_rows,), optional
    output : int
        Output of the tree.
    """
    if loss is None or not loss.refits_leaves:
        return None
    refit_leaf_values: Any = loss.refit_leaf_values  # margins of the libraries differ in type

    def refit(
        values: npt.NDArray[np.float64], leaves: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float64]:
        found: npt.NDArray[Any] = refit_leaf_values(
            values.astype(margins.dtype),
            leaves,
            margins,
            labels,
            weights,
            output=output,
            learning_rate=learning_rate,
            n_threads=n_threads,
        )
        return found.astype(np.float64)

    return refit


def as_zero_one(objective: object, labels: npt.NDArray[Label]) -> npt.NDArray[Label]:
    """Return labels with 0 for -1 if the objective is LightGBM's ``binary``, else as they are.

    To LightGBM any label above 0 is positive, and labels -1 and 1 are usual; 2 would be a mistake.
    """
    if not _is_one_of(objective, ("binary",)) or not (labels == -1.0).any():
        return labels
    found = labels.copy()
    found[labels == -1.0] = 0.0
    return found


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows whose gradients depend on each other; none for most losses.

    Attributes
    ----------
    begins : ndarray of uint32, shape (n_groups + 1,), optional
        First row of each group, and the number of rows.
    order : ndarray of uint32, shape (n_rows,), optional
        The rows of group after group, by time; None if they are in this order.
    """

    begins: npt.NDArray[np.uint32] | None = None
    order: npt.NDArray[np.uint32] | None = None


def row_groups(
    loss: Loss,
    labels: FloatArray,
    tasks: TaskSet | None,
    query_begins: npt.NDArray[np.uint32] | None = None,
) -> RowGroups:
    """Return the groups of a loss: the queries of one that ranks, risk sets of one of survival.

    Each task is a stratum with separate risk sets. DataError unless a loss that ranks has
    queries, each inside one task.
    """
    if loss.needs_risk_sets:
        codes = np.zeros(len(labels), np.int32) if tasks is None else tasks.codes
        order = np.lexsort((np.abs(labels.reshape(-1)), codes))
        counts = np.bincount(codes, minlength=1)
        begins = np.concatenate([[0], np.cumsum(counts)])
        return RowGroups(begins.astype(np.uint32), order.astype(np.uint32))
    if not loss.needs_groups:
        return RowGroups()
    if query_begins is None:
        raise DataError(
            f"objective={loss.name!r} ranks the rows of each query, and the training data has no "
            "queries: give it group=, the number of rows of each."
        )
    if tasks is not None:
        check_queries(queries_from(query_begins), tasks, None)
    return RowGroups(query_begins)


def label_columns(labels: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return labels as losses read them: shape (n_rows, n_labels)."""
    found = np.ascontiguousarray(labels, np.float32)
    return found if found.ndim == 2 else found[:, np.newaxis]


def check_labels(loss: Loss, labels: FloatArray) -> None:
    """Raise DataError if a label, shape (n_rows,) or (n_rows, n_labels), is outside its domain."""
    try:
        loss.check_labels(label_columns(labels))
    except ValueError as error:
        raise DataError(str(error)) from None
