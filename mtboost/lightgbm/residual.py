# SPDX-License-Identifier: Apache-2.0
"""Start margins of the specific models (zhang2019, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_type
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.tables import Table
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError, UnsupportedError
from mtboost.lightgbm.library import read_parameters
from mtboost.lightgbm.matrices import predict_margin
from mtboost.trees.task_quitting import rounds_of_rows


@shares_docstring_of(rounds_of_rows)
def residual_margin(
    booster: lightgbm.Booster, data: Any, quit_round: int | Mapping[TaskName, int], task: Any = None
) -> npt.NDArray[np.float64]:
    """Margins of a common model up to the round at which each task leaves it.

    A specific model continues from them: ``lightgbm.Dataset(..., init_score=...)`` and train.
    :func:`combine` then makes one booster of both.

    Parameters
    ----------
    booster : lightgbm.Booster
        The common model.
    data : table of shape (n_rows, n_features)
        Rows to predict, in the columns of the common model: NumPy, SciPy CSR or CSC, pandas,
        pyarrow.

    Returns
    -------
    ndarray of float64, shape (n_rows,) or (n_rows, n_outputs)
        Sums in tree order, beginning with 0: the numbers from which the combined booster goes on,
        bit for bit. No rounds at all are 0, because LightGBM adds its start score
        (``boost_from_average``) to the leaves of the first tree. The ``init_score`` of a common
        model that had one is not in its trees: add it.

    Raises
    ------
    ParameterError
        A task uses more rounds than there are.
    DataError
        A mapping comes without `task`.
    UnsupportedError
        The booster is a random forest, the mean of its trees.

    Examples
    --------
    >>> import numpy as np
    >>> import lightgbm
    >>> from mtboost.lightgbm import residual_margin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> params = {"num_leaves": 7, "verbosity": -1}
    >>> common = lightgbm.train(params, lightgbm.Dataset(X, y), 10)
    >>> margin = residual_margin(common, X, {"a": 10, "b": 4}, task)
    >>> margin.shape
    (200,)

    References
    ----------
    zhang2019, section 3.4, eq. 7 (key in docs/papers.md).
    """
    check_type("booster", booster, lightgbm.Booster, "a lightgbm.Booster")
    if isinstance(data, lightgbm.Dataset):
        raise DataError(
            "data is a lightgbm.Dataset, which LightGBM cannot predict: give the table."
        )
    if read_parameters(booster).get("boosting") == "rf":
        raise UnsupportedError(
            "A booster of boosting='rf' is the mean of its trees, not a sum that another model can "
            "continue: use boosting='gbdt'."
        )
    table = as_table(data, argument="data")
    rounds = rounds_of_rows(quit_round, task, table.n_rows, booster.current_iteration())
    margins = margins_of_rounds(booster, table, rounds)
    return margins[:, 0] if margins.shape[1] == 1 else margins


def margins_of_rounds(
    booster: lightgbm.Booster, table: Table, rounds: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.float64]:
    """Return the margins of each row after its number of rounds, shape (n_rows, n_outputs)."""
    margins = np.zeros((table.n_rows, booster.num_model_per_iteration()))
    for end in np.unique(rounds[rounds > 0]).tolist():
        rows = np.flatnonzero(rounds == end)
        own = table if len(rows) == table.n_rows else table.take(rows)
        margins[rows] = predict_margin(booster, own, n_rounds=end).reshape(len(rows), -1)
    return margins
