# SPDX-License-Identifier: Apache-2.0
"""Checks of rows, of training and of eval_set, against the objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtboost.base.arrays import FloatArray
from mtboost.base.dataset import Dataset
from mtboost.base.labels import weights_or_ones
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.metrics.metric import check_classes
from mtboost.model.stages.settings import Settings
from mtboost.trees.backend import Backend
from mtboost.trees.losses import as_zero_one, has_bounds, has_hazards, is_ranking

#: Weights are small if their mean is below this, and so few children are as heavy as a tree needs.
_SMALL_WEIGHT = 0.2
_FEW_CHILDREN = 100.0
#: Share of the sum of squares that a split worth having may explain.
_SMALL_SHARE = 1e-3
#: Distance of margins of neighbouring values, in standard deviations of the labels, that is coarse.
_COARSE = 0.01


def check_rows(
    backend: Backend,
    data: Dataset,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    settings: Mapping[str, Any],
    where: str = "",
) -> None:
    """Demand tables the library reads, labels in the domain, one base margin per output.

    Labels -1 and 1 of LightGBM's ``binary`` become 0 and 1 in `data`.
    """
    check_kind_of_rows(objective, data)
    for table in data.tables:
        backend.check_table(table)
    n_outputs = backend.n_outputs(settings)
    data.y = as_zero_one(objective, data.labels())
    check_labels(backend, data.y, data.tasks, objective, settings, where)
    margins = data.base_margin
    n_found = 1 if margins is None or margins.ndim == 1 else margins.shape[1]
    if margins is not None and n_found != n_outputs:
        raise DataError(
            f"{where}base_margin has {n_found} columns, but {settings['objective']} has "
            f"{n_outputs} margins a row."
        )


def check_labels(
    backend: Backend,
    labels: FloatArray,
    tasks: TaskSet,
    objective: str | Mapping[TaskName, str] | Callable[..., Any],
    settings: Mapping[str, Any],
    where: str = "",
) -> None:
    """Demand labels in the domain of the objective, or of that of their task if it has one."""
    parts: list[tuple[str, FloatArray, str]] = []
    if isinstance(objective, str):
        parts = [(objective, labels, "")]
    elif isinstance(objective, Mapping):
        parts = [
            (objective[task], labels[tasks.rows(task)], f"task {task!r}, rows of it counted: ")
            for task in tasks
            if task in objective
        ]
    for name, own_labels, of_task in parts:
        try:
            backend.check_labels(name, settings, own_labels)
        except DataError as error:
            raise DataError(f"{where}{of_task}{error}") from None


def check_metrics(eval_metric: Any, data: Dataset) -> None:
    """Raise DataError if a metric of two classes is to judge other labels.

    Metrics of each task are left to the objectives.
    """
    labels = data.labels().astype(np.float64)
    if isinstance(eval_metric, Mapping) or labels.ndim > 1:
        return
    is_one = isinstance(eval_metric, str) or not isinstance(eval_metric, Sequence)
    for metric in [eval_metric] if is_one else eval_metric:
        check_classes(metric, labels)


@dataclass(frozen=True, slots=True)
class Units:
    """Sums by which the units of weights and labels are judged, of rows with a weight above 0.

    Attributes
    ----------
    n_rows : int
    weight : float
        Sum of the weights.
    mean : float
        Of the labels.
    squares : float
        Weighted sum of their squared distances from the mean.
    """

    n_rows: int = 0
    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, labels: FloatArray, weight: FloatArray | None) -> Units:
        """Those of rows, shape (n_rows,)."""
        y = labels.astype(np.float64)
        own = weights_or_ones(weight, len(y))
        total = float(own.sum())
        if not total > 0.0:
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):  # labels may be infinite bounds of times
            mean = float(own @ y / total)
            return cls(int((own > 0.0).sum()), total, mean, float(own @ (y - mean) ** 2))

    def __add__(self, other: Units) -> Units:
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        share, step = other.weight / weight, other.mean - self.mean
        return Units(
            self.n_rows + other.n_rows,
            weight,
            self.mean + step * share,
            self.squares + other.squares + step**2 * share * self.weight,
        )


def check_scales(settings: Settings, units: Units) -> None:
    """Refuse labels whose gains overflow; warn if trees can hardly learn labels or weights.

    The limits of the library's splits have units, and its margins a number of digits.
    """
    _check_gains(settings, units)
    limits = settings.backend.limits_of_splits(settings.params)
    mean = units.weight / units.n_rows
    if mean < _SMALL_WEIGHT and units.weight < _FEW_CHILDREN * limits.hessian:
        warn_user(
            f"weight adds up to {units.weight:.3g}, and each side of a split needs "
            f"{limits.name_of_hessian}={limits.hessian:g}: trees can hardly split. Divide the "
            f"weights by their mean ({mean:.3g})."
        )
    elif settings.objectives.names == settings.backend.squared_error and units.squares > 0.0:
        spread = float(np.sqrt(units.squares / units.weight))
        distance = float(np.spacing(settings.backend.margin_type(abs(units.mean))))
        if _SMALL_SHARE * units.squares < limits.gain:
            warn_user(
                f"y has standard deviation {spread:.3g}, and trees have no split whose gain, in "
                f"squared units of y, is below {limits.gain:g}: good ones are lost. Fit to y in a "
                f"smaller unit, such as y / {spread:.1g}."
            )
        elif _COARSE * spread < distance:
            warn_user(
                f"y has mean {units.mean:.6g} and standard deviation {spread:.3g}, and margins "
                f"near this mean are multiples of {distance:.2g}: small steps of training are "
                f"lost. Fit to y - {units.mean:.2g}, and add it to the predictions."
            )


def _check_gains(settings: Settings, units: Units) -> None:
    """Refuse labels, and warn of weights, with which gains of squared error overflow.

    XGBoost skips splits of infinite gain, which has the square of a sum of gradients. At the mean
    that is at most half the root of weight times squares (Cauchy and Schwarz): with twice the limit
    r² is what it was, with a hundred times .01 to .13 less, and at labels of 1e20 near 0. Losses of
    tasks have labels in units, and float32 for both libraries.
    """
    is_one = isinstance(settings.objectives.names, str)
    most = float(np.finfo(settings.backend.margin_type if is_one else np.float32).max)
    largest = units.squares * (0.25 * units.weight if is_one else 1.0)
    is_squared_error = settings.objectives.common_name == settings.backend.squared_error
    if not is_squared_error or largest <= most:
        return
    if 0.25 * units.weight * units.weight > most:
        warn_user(
            f"weight adds up to {units.weight:.3g}: gains of splits overflow beyond {most:.2g}, "
            "and good splits are lost. Divide the weights by their mean "
            f"({units.weight / units.n_rows:.3g})."
        )
        return
    spread = np.sqrt(units.squares / units.weight)
    raise DataError(
        f"y has standard deviation {spread:.3g}: gains of splits overflow beyond {most:.2g}, and "
        f"good splits would be lost. Fit to y in a larger unit, such as y / {spread:.1g}."
    )


def check_takes_new_rows(objective: object, change: str) -> None:
    """Raise UnsupportedError for a change of a model by new rows, which need queries."""
    if is_ranking(objective):
        raise UnsupportedError(
            f"{change} takes no queries, and objective={objective!r} ranks the rows of each query: "
            "fit a new model, with qid."
        )


def check_kind_of_rows(objective: object, data: Dataset) -> None:
    """Raise unless rows have queries, or bounds of labels, exactly if the objective needs them."""
    shape = data.labels().shape
    if has_bounds(objective) and len(shape) == 1:
        raise DataError(
            f"objective={objective!r} needs y of shape ({data.n_rows}, 2), lower and upper bounds "
            f"of times, found {shape}: repeat the time of an event, and give infinity as upper "
            "bound of a row that is right-censored."
        )
    if len(shape) == 2 and not has_bounds(objective):
        raise DataError(
            f"y has shape {shape}, but must have ({data.n_rows},), because X has {data.n_rows} "
            "rows. Two columns are the bounds of times of objective='survival:aft'."
        )
    if is_ranking(objective) and data.queries is None:
        raise DataError(
            f"objective={objective!r} ranks the rows of each query: pass qid, the query of each "
            "row."
        )
    if data.queries is not None and not is_ranking(objective):
        raise ParameterError(
            f"qid is given, but objective={objective!r} does not rank the rows of queries: leave "
            "qid out, or pass objective='rank:ndcg' (LightGBM: 'lambdarank')."
        )


def check_are_times(objective: object, data: Dataset) -> None:
    """Raise DataError where labels of hazards are whether an event came, and not when.

    Warn of events at time 0, which have no sign: -0.0, a row that was censored then, has one.
    """
    if not has_hazards(objective):
        return
    outermost = [name[0] if isinstance(name, tuple) else name for name in data.tasks]
    for label in data.label_names or (None,):
        is_own = np.array([label in (None, name) for name in outermost])[data.tasks.codes]
        if np.array_equal(np.unique(data.labels()[is_own]), [0.0, 1.0]):
            raise DataError(
                f"{'y' if label is None else f'y[{label!r}]'} is 0 or 1 in every row, and "
                f"objective={objective!r} needs times: the time of an event, and minus the time "
                "at which a row was censored, as np.where(event, time, -time) has them."
            )
    labels = data.labels()
    n_zeros = int(np.count_nonzero((labels == 0.0) & ~np.signbit(labels)))
    if n_zeros:
        warn_user(
            f"y is 0 in {n_zeros} rows, which count as censored at time 0, as in XGBoost: "
            f"objective={objective!r} knows an event by a time above 0. Give events at time 0 a "
            "small time, such as half of the least other one, and leave out rows that were "
            "censored then, of which nothing is known."
        )
