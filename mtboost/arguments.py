"""Arguments of :func:`mtboost.fit` and its kin, checked and completed before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from mtboost.dataset import Dataset
from mtboost.errors import DataError, ParameterError
from mtboost.labels import FloatArray
from mtboost.losses import check_labels, is_multiclass, make_loss
from mtboost.metrics import Metric, default_metric, get_metric
from mtboost.tasks import did_you_mean, listed
from mtboost.threads import default_n_threads
from mtboost.xgboost.library import ALIASES, check_readable, known_parameters

# Parameters of XGBoost that are arguments of fit().
ARGUMENTS = {
    "objective": "objective",
    "eval_metric": "eval_metric",
    "nthread": "n_threads",
    "n_jobs": "n_threads",
    "seed": "seed",
    "random_state": "seed",
}


def common_parameters(
    params: Mapping[str, Any] | None,
    objective: str | Callable[..., Any],
    data: Dataset,
    n_threads: int | None,
    seed: int,
) -> dict[str, Any]:
    """XGBoost's parameters of both stages."""
    own = xgboost_parameters(params or {}, elsewhere=ARGUMENTS)
    if not isinstance(n_threads, int | np.integer | None):
        raise ParameterError(f"n_threads must be None or an integer, found {n_threads!r}.")
    labels = data.labels()
    settings = {
        **own,
        "objective": "reg:squarederror" if callable(objective) else objective,
        "nthread": default_n_threads(n_threads, data.n_rows * data.common.n_features),
        "seed": at_least(0, seed, "seed"),
    }
    if is_multiclass(objective) and "num_class" not in settings:
        settings["num_class"] = _count_classes(labels)
    return settings


def _count_classes(labels: FloatArray) -> int:
    classes = np.unique(labels)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise DataError(
            f"y must hold the classes 0, 1, ... without a gap, found "
            f"{listed(classes.tolist(), 'label')}: recode them, or pass their number in "
            "params={'num_class': ...}."
        )
    return max(2, len(classes))


def check_rows(
    data: Dataset,
    objective: str | Callable[..., Any],
    settings: Mapping[str, Any],
    where: str = "",
) -> None:
    """Demand tables XGBoost reads, labels the objective takes, and one base margin per output."""
    for table in data.tables:
        check_readable(table)
    n_outputs = int(settings.get("num_class", 1))
    if isinstance(objective, str):
        try:
            check_labels(make_loss(objective, n_outputs), data.labels())
        except DataError as error:
            raise DataError(f"{where}{error}") from None
    margins = data.base_margin
    n_found = 1 if margins is None or margins.ndim == 1 else margins.shape[1]
    if margins is not None and n_found != n_outputs:
        raise DataError(
            f"{where}base_margin has {n_found} columns, but {settings['objective']} has "
            f"{n_outputs} margins a row."
        )


def xgboost_parameters(
    params: Mapping[str, Any],
    argument: str = "params",
    *,
    elsewhere: Mapping[str, str] = {},
    others: Collection[str] = (),
) -> dict[str, Any]:
    """XGBoost's parameters without aliases: mappings that are merged must call one thing alike.

    Names that XGBoost does not know are refused; it would only warn. `elsewhere` has parameters
    that belong into another argument of :func:`mtboost.fit`; `others` are names that the caller
    knows beside XGBoost's.
    """
    known = known_parameters()
    checked: dict[str, Any] = {}
    for name, value in params.items():
        if name not in known:
            hint = did_you_mean(name, {*known, *others})
            raise TypeError(f"{argument} has an unknown name {name!r}.{hint}")
        if name in elsewhere:
            raise ParameterError(f"Pass {elsewhere[name]}= to fit(), not {name!r} in {argument}.")
        if ALIASES.get(name, name) in checked:
            raise ParameterError(f"{argument} has {ALIASES.get(name, name)!r} under two names.")
        checked[ALIASES.get(name, name)] = value
    return checked


def metric_of(eval_metric: str | Metric | None, params: Mapping[str, Any]) -> Metric:
    if eval_metric is not None:
        return get_metric(eval_metric)
    return default_metric(
        params["objective"],
        tweedie_variance_power=float(params.get("tweedie_variance_power", 1.5)),
        huber_slope=float(params.get("huber_slope", 1.0)),
    )


def at_least(least: int, value: Any, name: str) -> int:
    is_number = isinstance(value, int | float | np.number)
    if not (is_number and value >= least and float(value).is_integer()):
        raise ParameterError(f"{name} must be an integer >= {least}, found {value!r}.")
    return int(value)
