# SPDX-License-Identifier: Apache-2.0
"""Weekly sales of 30 generated stores, as a file that comes with mtboost."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.datasets.bunches import as_bunch, description_of

STORES = files("mtboost.datasets") / "stores.csv"
COLUMNS = ("store", "week", "price", "promotion", "holiday", "temperature", "units")
_FEATURES = COLUMNS[1:-1]
_N_STORES, _N_WEEKS = 30, 52


def load_stores(*, return_X_y_task: bool = False, as_frame: bool = False) -> Any:
    """Weekly units sold in 30 stores, one task per store (regression): 1298 generated rows.

    Stores belong to one of three formats, which decides what promotions, holidays and warm weather
    do, and differ in size and around their format. A third of them opened during the year, so that
    the smallest tasks have few rows. The labels are counts.

    Parameters
    ----------
    return_X_y_task : bool
        Return ``(data, target, task)`` instead of a Bunch.
    as_frame : bool
        Whether the data are a pandas DataFrame, the labels and the tasks Series.

    Returns
    -------
    sklearn.utils.Bunch, or tuple
        ``data`` (1298, 5): week of the year, price relative to the usual one, and whether there was
        a promotion or a holiday, and the temperature in degrees Celsius; ``target``, ``task``
        ("store01" to "store30"), ``feature_names``, ``DESCR``, and ``frame``: all in one table if
        `as_frame`, else None.

    Raises
    ------
    MissingDependencyError
        `as_frame` needs pandas.

    Notes
    -----
    ``generate_stores(seed=0)`` in the same module has written the file. It belongs to mtboost
    and has its licence.

    Examples
    --------
    >>> import mtboost
    >>> X, y, store = mtboost.datasets.load_stores(return_X_y_task=True)
    >>> model = mtboost.fit(X, y, task=store, strategy="two-stage", num_boost_round=20)
    >>> len(model.tasks)
    30
    """
    head, *rows = csv.reader(STORES.read_text(encoding="utf-8").splitlines())
    columns = dict(zip(head, np.array(rows).T, strict=True))
    return as_bunch(
        np.column_stack([columns[name].astype(np.float64) for name in _FEATURES]),
        {"units": columns["units"].astype(np.float64)},
        columns["store"],
        _FEATURES,
        description_of(load_stores),
        task_name="store",
        as_frame=as_frame,
        return_X_y_task=return_X_y_task,
    )


def generate_stores(seed: int = 0) -> list[tuple[str, ...]]:
    """Return the rows of the file, as text.

    They come from ``numpy.random.RandomState``, whose numbers no version of NumPy will change.
    """
    rng = np.random.RandomState(seed)
    n_formats = 3
    format_ = rng.randint(n_formats, size=_N_STORES)
    size = np.exp(rng.normal(3.5, 0.5, _N_STORES))
    of_format = np.array([[0.9, 0.1, 0.0], [0.3, 0.6, 0.2], [0.1, -0.3, 0.4]])
    effects = of_format[format_] + rng.normal(0.0, 0.1, (_N_STORES, 3))
    elasticity = rng.normal(-1.0, 0.2, _N_STORES)
    opening = np.where(rng.uniform(size=_N_STORES) < 2 / 3, 1, rng.randint(10, 48, _N_STORES))
    rows = []
    for store in range(_N_STORES):
        week = np.arange(opening[store], _N_WEEKS + 1)
        price = np.round(np.exp(rng.normal(0.0, 0.1, len(week))), 2)
        promotion = rng.uniform(size=len(week)) < 0.2
        holiday = np.isin(week, (1, 14, 18, 35, 47, 52))
        temperature = np.round(11 - 9 * np.cos(2 * np.pi * (week - 3) / 52), 1)
        temperature = np.round(temperature + rng.normal(0.0, 2.0, len(week)), 1)
        causes: npt.NDArray[np.float64] = np.column_stack(
            [promotion, holiday, np.maximum(temperature - 15, 0) / 5]
        )
        log_units = np.log(size[store]) + elasticity[store] * np.log(price)
        units = rng.poisson(np.exp(log_units + causes @ effects[store]))
        rows += [
            (f"store{store + 1:02}", str(week), f"{price:.2f}", *map(str, flags), f"{warm:.1f}", n)
            for week, price, flags, warm, n in zip(
                week,
                price,
                zip(promotion.astype(int), holiday.astype(int), strict=True),
                temperature,
                units.astype(str),
                strict=True,
            )
        ]
    return rows
