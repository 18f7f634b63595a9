# SPDX-License-Identifier: Apache-2.0
"""Built-in metrics by name, and those that objectives have by default."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from mtboost.base.checks import did_you_mean
from mtboost.errors import ParameterError
from mtboost.metrics.means import (
    error,
    fair,
    gamma_deviance,
    huber,
    logloss,
    mae,
    mape,
    merror,
    mlogloss,
    mphe,
    pinball,
    poisson_nloglik,
    relative_error,
    rmse,
    rmsle,
    tweedie_nloglik,
    wape,
)
from mtboost.metrics.metric import BuiltIn, Metric
from mtboost.metrics.rankings import auc, aucpr, average_precision, ndcg
from mtboost.metrics.survival import DISTRIBUTIONS, aft_nloglik, concordance, cox_nloglik

BUILT_IN = {
    metric.name: metric
    for metric in (
        BuiltIn("rmse", rmse, False),
        BuiltIn("rmsle", rmsle, False),
        BuiltIn("mae", mae, False),
        BuiltIn("mphe", mphe, False),
        BuiltIn("logloss", logloss, False),
        BuiltIn("error", error, False),
        BuiltIn("auc", auc, True),
        BuiltIn("aucpr", aucpr, True),
        BuiltIn("merror", merror, False),
        BuiltIn("mlogloss", mlogloss, False),
        BuiltIn("poisson-nloglik", poisson_nloglik, False),
        BuiltIn("gamma-deviance", gamma_deviance, False),
        BuiltIn("ndcg", ndcg, True),
        BuiltIn("cox-nloglik", cox_nloglik, False),
        BuiltIn("concordance", concordance, True),
        BuiltIn("average_precision", average_precision, True),
        BuiltIn("mape", relative_error, False),
        BuiltIn("wape", wape, False),
    )
}


def _aft(distribution: str, scale: float) -> BuiltIn:
    if distribution not in DISTRIBUTIONS or not 0.0 < scale < math.inf:
        raise ParameterError(
            f"aft-nloglik needs a distribution, {', '.join(DISTRIBUTIONS)}, and a positive scale, "
            f"as in 'aft-nloglik@logistic,0.5', found {distribution!r} and {scale:g}."
        )
    function = partial(aft_nloglik, distribution=distribution, scale=scale)
    is_default = (distribution, scale) == ("normal", 1.0)
    name = "aft-nloglik" if is_default else f"aft-nloglik@{distribution},{scale:g}"
    return BuiltIn(name, function, False)


BUILT_IN["aft-nloglik"] = _aft("normal", 1.0)
_DEFAULT_METRIC = {
    "reg:squarederror": "rmse",
    "reg:squaredlogerror": "rmsle",
    "reg:absoluteerror": "mae",
    "reg:pseudohubererror": "mphe",
    "reg:logistic": "rmse",
    "reg:gamma": "gamma-deviance",
    "reg:tweedie": "tweedie-nloglik",
    "reg:quantileerror": "quantile",
    "binary:logistic": "logloss",
    "binary:logitraw": "logloss",
    "binary:hinge": "error",
    "count:poisson": "poisson-nloglik",
    "multi:softprob": "mlogloss",
    "multi:softmax": "mlogloss",
    "rank:ndcg": "ndcg",
    "rank:pairwise": "ndcg",
    "survival:cox": "cox-nloglik",
    "survival:aft": "aft-nloglik",
    # LightGBM's objectives:
    "regression": "rmse",
    "regression_l1": "mae",
    "huber": "huber",
    "fair": "fair",
    "mape": "mape@1",
    "poisson": "poisson-nloglik",
    "gamma": "gamma-deviance",
    "tweedie": "tweedie-nloglik",
    "quantile": "quantile",
    "binary": "logloss",
    "cross_entropy": "logloss",
    "multiclass": "mlogloss",
    "multiclassova": "mlogloss",
    "lambdarank": "ndcg",
}
#: Names of metrics here, by those that LightGBM, CatBoost and scikit-learn have for them.
_HERE = {
    **dict.fromkeys(("binary", "binary_logloss", "log_loss", "cross_entropy"), "logloss"),
    **dict.fromkeys(("xentropy", "crossentropy"), "logloss"),
    "binary_error": "error",
    **dict.fromkeys(("multi_logloss", "multiclass", "softmax"), "mlogloss"),
    "multi_error": "merror",
    **dict.fromkeys(("l1", "regression_l1", "mean_absolute_error"), "mae"),
    **dict.fromkeys(("l2_root", "root_mean_squared_error"), "rmse"),
    "mean_absolute_percentage_error": "mape",
    "roc_auc": "auc",
    **dict.fromkeys(("pr_auc", "prauc", "auprc"), "aucpr"),
    **dict.fromkeys(("pinball", "mean_pinball_loss"), "quantile@a"),
    "gamma_deviance": "gamma-deviance",
    "tweedie": "tweedie-nloglik@p",
}
#: What to choose in place of metrics that are functions of one here.
_INSTEAD = {
    "poisson": "Choose 'poisson-nloglik', which orders models as it does.",
    **dict.fromkeys(
        ("l2", "mse", "regression", "mean_squared_error"), "Choose 'rmse', its square root."
    ),
    **dict.fromkeys(("gini", "normalizedgini"), "Choose 'auc': gini is 2 auc - 1."),
    **dict.fromkeys(
        ("gamma", "gamma-nloglik"), "Choose 'gamma-deviance', which orders models as it does."
    ),
}


def get_metric(metric: str | Metric) -> Metric:
    """Return the metric of a name, with its direction.

    Parameters
    ----------
    metric : str or Metric
        ``rmse``, ``rmsle``, ``mae``, ``mphe``, ``logloss``, ``error``, ``error@t`` (another
        threshold than 0.5), ``auc``, ``aucpr``, ``merror``, ``mlogloss``, ``poisson-nloglik``,
        ``gamma-deviance``, ``tweedie-nloglik@p`` (variance power), ``mphe@a`` (another
        ``huber_slope`` than 1), ``huber@a`` and ``fair@c`` (LightGBM's losses with ``alpha`` and
        ``fair_c``), ``mape@c`` (absolute error relative to
        the label, or to c where that is larger; LightGBM's has 1), ``mape`` (undefined for a task
        with a label of 0), ``wape`` (the sum of absolute errors over that of absolute labels),
        ``average_precision`` (scikit-learn's), ``quantile@a`` (the pinball loss of a level; of
        several, as in ``quantile@0.1,0.5,0.9``, the mean of the losses of the columns of the
        predictions), ``ndcg`` or ``ndcg@k`` (of the first k positions), ``ndcg@k,linear`` (the
        gain of a label is the label; docs/ranking.md), ``cox-nloglik`` of hazards,
        ``aft-nloglik`` of times, or ``aft-nloglik@d,s`` with distribution and scale, and
        ``concordance`` of either (docs/survival.md). A Metric is returned as it is.

    Returns
    -------
    Metric
        Named as in `metric`.

    Raises
    ------
    ParameterError
        The name is unknown, or the number after ``@`` is out of range. Where LightGBM, CatBoost or
        scikit-learn have the name, the message says what the metric is called here.
    TypeError
        A bare function: nothing says whether greater is better.

    Examples
    --------
    >>> from mtboost.metrics import get_metric
    >>> get_metric("auc").greater_is_better
    True
    >>> get_metric("rmse").greater_is_better
    False
    """
    if isinstance(metric, Metric):
        return metric
    if not isinstance(metric, str):
        raise TypeError(
            f"metric is {metric!r}; pass the name of a metric, or mtboost.metrics.Metric(name, "
            f"function, greater_is_better) for your own function."
        )
    if metric in BUILT_IN:
        return BUILT_IN[metric]
    name, _, number = metric.partition("@")
    if name == "error":
        # A prediction of float32 0.3 is not above 0.3, as it would be if 0.3 were not rounded
        # alike.
        threshold = float(np.float32(_number_in(metric, number)))
        return BuiltIn(metric, partial(error, threshold=threshold), False)
    if name == "tweedie-nloglik":
        return _tweedie(metric, _number_in(metric, number, 1.0, 2.0))
    if name in ("mphe", "huber", "fair", "mape"):
        return _of_error(name, _number_in(metric, number, 0.0))
    if name == "aft-nloglik":
        distribution, _, scale = number.partition(",")
        return _aft(distribution, _number_in(metric, scale, 0.0))
    if name == "quantile":
        return quantile([_number_in(metric, level, 0.0, 1.0) for level in number.split(",")])
    if name == "ndcg":
        positions, _, gain = number.partition(",")
        if not positions.isdigit() or int(positions) < 1 or gain not in ("", "linear"):
            raise ParameterError(
                f"metric {metric!r} needs a number of positions of at least 1 after '@', and may "
                f"have ',linear' behind it, found {number!r}."
            )
        return _ndcg(int(positions), exp_gain=not gain)
    known = [*BUILT_IN, "error@t", "tweedie-nloglik@p", "mphe@a", "huber@a", "fair@c", "mape@c"]
    known += ["quantile@a", "ndcg@k", "ndcg@k,linear", "aft-nloglik@d,s"]
    raise ParameterError(
        f"metric {metric!r} is unknown.{name_here(metric) or did_you_mean(metric, known)} Choose "
        f"one of {', '.join(known)}, or pass a Metric."
    )


def name_here(metric: str) -> str:
    """Return a sentence that says which metric another library's is here; empty if unknown."""
    name = metric.lower()
    if name in BUILT_IN or name in _HERE:
        return f" It is {_HERE.get(name, name)!r} here."
    return f" {_INSTEAD[name]}" if name in _INSTEAD else ""


def check_outputs(metric: Metric, *, has_classes: bool, levels: Sequence[float] = ()) -> Metric:
    """Return the metric if it is of what an objective predicts for a row.

    That is a probability for each class, a quantile for each of several `levels`, or one number.

    Raises
    ------
    ParameterError
        A built-in metric takes predictions of the other kind.
    """
    if isinstance(metric, BuiltIn) and metric.is_of_classes != has_classes:
        found = "a probability for each class" if has_classes else "one number per row"
        known = [each.name for each in BUILT_IN.values() if each.is_of_classes == has_classes]
        raise ParameterError(
            f"eval_metric {metric.name!r} does not fit the objective, which predicts {found}: "
            f"choose one of {', '.join(known)}, or pass a Metric."
        )
    n_columns = len(metric.levels) if isinstance(metric, BuiltIn) else 0
    if isinstance(metric, BuiltIn) and max(n_columns, 1) != max(len(levels), 1):
        raise ParameterError(
            f"eval_metric {metric.name!r} does not fit the objective, which predicts "
            f"{'one number' if len(levels) < 2 else f'{len(levels)} quantiles'} per row: choose "
            f"{repr(quantile(levels).name) if levels else 'rmse'}, or pass a Metric."
        )
    return metric


def default_metric(
    objective: str,
    *,
    tweedie_variance_power: float = 1.5,
    huber_slope: float = 1.0,
    fair_c: float = 1.0,
    quantile_alpha: Sequence[float] = (0.5,),
    n_ranked: int = 32,
    exp_gain: bool = True,
    aft_loss_distribution: str = "normal",
    aft_loss_distribution_scale: float = 1.0,
) -> Metric:
    """Return the metric that XGBoost reports for an objective by default.

    An objective of LightGBM has the metric of its counterpart. One difference: for
    ``binary:logitraw`` XGBoost takes margins for probabilities in its log loss; here predictions
    are probabilities for every metric.

    Parameters
    ----------
    objective : str
        Name of a supported objective, such as ``"binary:logistic"`` or LightGBM's ``"binary"``.
    tweedie_variance_power : float, default=1.5
        Parameter of ``reg:tweedie``.
    huber_slope : float, default=1.0
        Parameter of ``reg:pseudohubererror``, or ``alpha`` of LightGBM's ``huber``.
    fair_c : float, default=1.0
        Parameter of LightGBM's ``fair``.
    quantile_alpha : sequence of float, default=(0.5,)
        Levels of ``reg:quantileerror``, or that of LightGBM's ``quantile``.
    n_ranked : int, default=32
        Positions that count for a ranking objective.
    exp_gain : bool, default=True
        Whether the gain of a label is 2^label - 1 for a ranking objective, and not the label.
    aft_loss_distribution : {"normal", "logistic", "extreme"}, default="normal"
        Parameter of ``survival:aft``.
    aft_loss_distribution_scale : float, default=1.0
        The same.

    Returns
    -------
    Metric
        A built-in metric.

    Raises
    ------
    ParameterError
        The objective is not supported.

    Examples
    --------
    >>> from mtboost.metrics import default_metric
    >>> default_metric("binary:logistic").name
    'logloss'
    """
    if objective not in _DEFAULT_METRIC:
        raise ParameterError(
            f"objective {objective!r} has no default "
            f"metric.{did_you_mean(objective, _DEFAULT_METRIC)} Name the metric, or choose one of "
            f"{', '.join(_DEFAULT_METRIC)}."
        )
    name = _DEFAULT_METRIC[objective]
    if name == "tweedie-nloglik":
        return _tweedie(f"{name}@{tweedie_variance_power:g}", tweedie_variance_power)
    if name == "ndcg":
        return _ndcg(n_ranked, exp_gain=exp_gain)
    if name in ("huber", "fair"):
        return _of_error(name, huber_slope if name == "huber" else fair_c)
    if name == "mape@1":
        return _of_error("mape", 1.0)
    if name == "mphe" and huber_slope != 1.0:
        return _of_error(name, huber_slope)
    if name == "quantile":
        return quantile(quantile_alpha)
    if name == "aft-nloglik":
        return _aft(aft_loss_distribution, aft_loss_distribution_scale)
    return BUILT_IN[name]


def _tweedie(name: str, power: float) -> Metric:
    return BuiltIn(name, partial(tweedie_nloglik, power=power), False)


def _of_error(name: str, number: float) -> Metric:
    function = {
        "mphe": partial(mphe, slope=number),
        "huber": partial(huber, slope=number),
        "fair": partial(fair, scale=number),
        "mape": partial(mape, least=number),
    }[name]
    return BuiltIn(f"{name}@{number:g}", function, False)


def _ndcg(n_ranked: int, *, exp_gain: bool) -> Metric:
    name = f"ndcg@{n_ranked}" if exp_gain else f"ndcg@{n_ranked},linear"
    return BuiltIn(name, partial(ndcg, n_ranked=n_ranked, exp_gain=exp_gain), True)


def quantile(levels: Sequence[float]) -> Metric:
    name = f"quantile@{','.join(f'{level:g}' for level in levels)}"
    function = partial(pinball, levels=np.array(levels, np.float64))
    return BuiltIn(name, function, False, tuple(levels))


def _number_in(metric: str, text: str, low: float = -math.inf, high: float = math.inf) -> float:
    """The number after ``@`` in the name of a metric."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low < number < high:
        raise ParameterError(
            f"metric {metric!r} needs a number between {low:g} and {high:g} after '@', found "
            f"{text!r}."
        )
    return number
