# SPDX-License-Identifier: Apache-2.0
"""Importances of features in other problems, as a prior (eruhimov2007, section 4)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets

from mtboost.base.arrays import Float64Array, as_array
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_choice, check_count, did_you_mean, listed
from mtboost.base.labels import as_labels
from mtboost.base.tables import Table
from mtboost.base.threads import default_n_threads, openmp_threads
from mtboost.errors import DataError, ParameterError
from mtboost.estimators.boosting.prior_sampling import BasePriorSampling
from mtboost.estimators.boosting.tree_importances import model_importances
from mtboost.estimators.importances import ImportanceType, Names, importances_of
from mtboost.trees.feature_weights import read_importances
from mtboost.xgboost.backend import XgboostBackend
from mtboost.xgboost.matrices import quantile_matrix

Labels: TypeAlias = Literal["auto", "classes", "numbers"]

#: The model of a pair (X, y): the source's 200 rounds of 0.1, trees of depth 3.
_PARAMS = {"learning_rate": 0.1, "max_depth": 3}
_N_ROUNDS = 200


def feature_prior(
    problems: Sequence[Any] | Mapping[Any, Any],
    *,
    leave_out: Any = None,
    importance_type: ImportanceType = "gain",
    labels: Labels = "auto",
    series_length: int | None = None,
    n_threads: int | None = None,
) -> dict[str, float] | Float64Array:
    """Mean importance of each feature over several problems, as a prior for another one.

    Features are matched by name, or by position if the problems have no names.

    Parameters
    ----------
    problems : sequence, or mapping of name to problem
        A problem is one of

        - a pair ``(X, y)``, a tuple: stock XGBoost is fitted to it, 200 rounds of learning rate 0.1
          with trees of depth 3, its other parameters as they are by default;
        - a fitted model: a booster or estimator of XGBoost or LightGBM, ``PriorSampling*``, or an
          estimator that has ``feature_importances_`` in the manner of scikit-learn's trees;
        - importances: a mapping of feature name to number, a pandas Series, or a list or array
          of shape (n_features,). They are taken as they are.
    leave_out : name or int, optional
        Name of a problem in the mapping, or its position in the sequence: the prior for it, from
        all the others.
    importance_type : {"gain", "impurity"}, default="gain"
        What a split adds to the importance of its feature. ``"gain"``: what it gains in loss, so
        that splits of many rows count most; of estimators of scikit-learn,
        ``feature_importances_``. ``"impurity"``: the drop in impurity within its node, however few
        rows that has (the source's rule, by which splits of small nodes, often of noise, count as
        much as the first).
    labels : {"auto", "classes", "numbers"}, default="auto"
        What y is in pairs. ``"auto"``: numbers, unless it holds strings, booleans or categories.
    series_length : int, optional
        Columns of pairs are time series, which are resampled to this length before a model is
        fitted, linearly between their points; of other problems the importances are resampled.
    n_threads : int, optional
        By default the cores this process may use. The result does not depend on it.

    Returns
    -------
    dict of str to float, or ndarray of float64 of shape (n_features,)
        By name, in the order in which the problems first name them; an array if they have no names.
        The sum is 1. A problem counts as much as any other, as its importances are scaled to sum 1
        before the mean is taken; it has 0 for features that it lacks. A problem to which all
        features are equally useless (a model without a split) says nothing and is left out.

    Raises
    ------
    DataError
        Some problems have names and others not, lengths differ, a problem's rows cannot be used, or
        no problem says anything.
    ParameterError
        `leave_out` is not a problem, or a parameter has an unknown value.
    UnsupportedError
        A model does not hold what `importance_type` needs.
    TypeError
        A problem is none of the above.

    Notes
    -----
    With XGBoost and LightGBM, ``"impurity"`` is gain divided by the sum of hessians in the node:
    the drop in variance for squared error without penalties, and that of a weighted variance
    otherwise. Of trees of scikit-learn it is exact for whatever criterion they were grown by.

    Trees name a feature of several equally good ones by chance or by position. Of correlated
    features the prior may thus have one where another problem needs the other.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import feature_prior
    >>> feature_prior([{"age": 3.0, "sex": 1.0}, {"age": 1.0, "town": 1.0}])
    {'age': 0.625, 'sex': 0.125, 'town': 0.25}
    >>> feature_prior({"a": [4, 0], "b": [1, 1], "c": [0, 1]}, leave_out="c")
    array([0.75, 0.25])

    References
    ----------
    eruhimov2007, section 4 (key in docs/papers.md).
    """
    for name, value, kind in (
        ("importance_type", importance_type, ImportanceType),
        ("labels", labels, Labels),
    ):
        check_choice(name, value, get_args(kind))
    if series_length is not None:
        series_length = check_count("series_length", series_length, low=1)
    found: dict[str, tuple[Names, Float64Array]] = {}
    for key, problem in _others(problems, leave_out).items():
        argument = f"problems[{key!r}]"
        if isinstance(problem, tuple) and len(problem) == 2:
            problem = _fitted(*problem, labels, series_length, n_threads, argument)
        if _holds_importances(problem):
            names, importance = read_importances(problem, argument)
        else:
            names, importance = _importances_of(problem, importance_type, argument)
        if series_length is not None and len(importance) != series_length:
            if names is not None:
                raise DataError(
                    f"{argument} has names, by which features of series of another length cannot "
                    "be matched: leave out series_length, or give positions."
                )
            importance = _stretched(importance, series_length)
        found[argument] = names, importance
    return _mean(found)


def _importances_of(
    model: Any, importance_type: ImportanceType, argument: str
) -> tuple[Names, Float64Array]:
    """Those of a fitted model; prior sampling's attribute has the type that it was made with."""
    if isinstance(model, BasePriorSampling) and hasattr(model, "models_"):
        names = getattr(model, "feature_names_in_", None)
        own_names = None if names is None else tuple(names.tolist())
        return own_names, model_importances(model.models_[0], importance_type)
    return importances_of(model, importance_type, argument)


def _stretched(series: npt.NDArray[Any], length: int) -> Float64Array:
    """Series along the last axis, interpolated linearly at another number of points."""
    old, new = np.linspace(0, 1, series.shape[-1]), np.linspace(0, 1, length)
    found: Float64Array = np.apply_along_axis(lambda own: np.interp(new, old, own), -1, series)
    return found


def _others(problems: Any, leave_out: Any) -> dict[Hashable, Any]:
    """The problems by name or position, without the one to be left out."""
    if isinstance(problems, Mapping):
        others = dict(problems)
    elif isinstance(problems, Sequence) and not isinstance(problems, str):
        others = dict(enumerate(problems))
    else:
        raise TypeError(
            f"problems is a {type(problems).__name__}: give a list of problems, or a mapping "
            "{name: problem}."
        )
    if leave_out is not None:
        if leave_out not in others:
            raise ParameterError(
                f"leave_out={leave_out!r} is none of the problems, {listed(others, 'key')}."
                f"{did_you_mean(leave_out, others)}"
            )
        del others[leave_out]
    if not others:
        raise DataError("There is no other problem to take a prior from: give at least one.")
    return others


def _holds_importances(problem: Any) -> bool:
    is_series = hasattr(problem, "index") and hasattr(problem, "items")
    return isinstance(problem, Mapping | list | np.ndarray) or is_series


def _mean(found: dict[str, tuple[Names, Float64Array]]) -> dict[str, float] | Float64Array:
    """Mean of the shares of each problem that has any."""
    kinds = {names is not None: argument for argument, (names, _) in found.items()}
    if len(kinds) == 2:
        raise DataError(
            f"{kinds[True]} has names of features, {kinds[False]} has none: they cannot be "
            "matched. Give tables with names, or positions, in all problems."
        )
    shares = [(names, own / own.sum()) for names, own in found.values() if own.any()]
    if not shares:
        raise DataError("No problem finds any feature important: all importances are 0.")
    if True not in kinds:
        lengths = {len(own): argument for argument, (_, own) in found.items()}
        if len(lengths) > 1:
            (one, first), (other, second), *_ = lengths.items()
            raise DataError(
                f"{first} has {one} features, {second} has {other}: without names they must have "
                "equally many. Time series can be stretched: series_length=."
            )
        mean: Float64Array = np.mean([own for _, own in shares], axis=0)
        return mean
    by_name = {name: 0.0 for names, _ in found.values() for name in names or ()}
    for names, own in shares:
        for name, share in zip(names or (), own.tolist(), strict=True):
            by_name[name] += share / len(shares)
    return by_name


# ---- a model of a pair -----------------------------------------------------------------------


def _fitted(
    X: Any, y: Any, labels: Labels, length: int | None, n_threads: int | None, argument: str
) -> Any:
    """Stock XGBoost's booster of a pair."""
    table = as_table(X, argument=f"X of {argument}", has_time=False)
    if length is not None:
        if table.library != "numpy":
            raise DataError(
                f"X of {argument} comes from {table.library}: series_length needs series as rows "
                "of a NumPy array."
            )
        table = Table(_stretched(table.native, length), "numpy", None)
    objective, numbers = _labels(y, table.n_rows, labels, f"y of {argument}")
    n_threads = default_n_threads(n_threads, table.n_rows * table.n_features)
    params = {**_PARAMS, **objective, "nthread": n_threads}
    with openmp_threads(n_threads):
        matrix = quantile_matrix(table, label=numbers, n_threads=n_threads)
        return XgboostBackend().train_plain(params, matrix, _N_ROUNDS, table=table)


def _labels(y: Any, n_rows: int, labels: Labels, argument: str) -> tuple[dict[str, Any], Any]:
    """Parameters of the objective that suits the labels, and their numbers."""
    values = as_array(y)
    is_category = str(getattr(y, "dtype", "")) == "category"
    has_strings = values.dtype.kind == "O" and any(isinstance(value, str) for value in values.flat)
    if labels == "numbers" or (
        labels == "auto" and values.dtype.kind not in "bUT" and not is_category and not has_strings
    ):
        return {"objective": "reg:squarederror"}, as_labels(y, n_rows, argument=argument)
    values = values.reshape(len(values), -1)
    if values.shape != (n_rows, 1):
        raise DataError(f"{argument} has shape {np.shape(y)}: it needs {n_rows} labels, one a row.")
    try:
        check_classification_targets(values[:, 0])
        codes = LabelEncoder().fit_transform(values[:, 0])
    except (TypeError, ValueError) as error:
        raise DataError(f"{argument} holds no classes: {error}") from None
    n_classes = int(codes.max()) + 1
    if n_classes == 1:
        raise DataError(f"{argument} has one class only: leave the problem out.")
    if n_classes == 2:
        return {"objective": "binary:logistic"}, codes
    return {"objective": "multi:softprob", "num_class": n_classes}, codes
