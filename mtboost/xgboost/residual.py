# SPDX-License-Identifier: Apache-2.0
"""Start margins of the specific models (zhang2019, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.checks import check_type
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.tasks import TaskName
from mtboost.trees.task_quitting import rounds_of_rows
from mtboost.xgboost import assemble
from mtboost.xgboost.matrices import starting_from


@shares_docstring_of(rounds_of_rows, sections=["Raises"])
def residual_margin(
    booster: xgboost.Booster,
    matrix: xgboost.DMatrix,
    quit_round: int | Mapping[TaskName, int],
    task: Any = None,
) -> npt.NDArray[np.float32]:
    """Margins of a common model up to the round at which each task leaves it.

    A specific model continues from them: ``matrix.set_base_margin(...)`` and train.
    :func:`combine` then makes one booster of both.

    Parameters
    ----------
    booster : xgboost.Booster
        The common model.
    matrix : DMatrix
        Rows to predict, with their base margin if they have one.

    Returns
    -------
    ndarray of float32, shape (n_rows,) or (n_rows, n_outputs)
        Sums in tree order: bit for bit those of the combined booster.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import residual_margin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> dtrain = xgboost.DMatrix(X, y)
    >>> common = xgboost.train({"max_depth": 3}, dtrain, 10)
    >>> margin = residual_margin(common, dtrain, {"a": 10, "b": 4}, task)
    >>> margin.shape
    (200,)

    References
    ----------
    zhang2019, section 3.4, eq. 7 (key in docs/papers.md).
    """
    check_type("booster", booster, xgboost.Booster, "an xgboost.Booster")
    check_type("matrix", matrix, xgboost.DMatrix, "an xgboost.DMatrix")
    rounds = rounds_of_rows(quit_round, task, matrix.num_row(), booster.num_boosted_rounds())
    document = assemble.read_document(booster)
    margins = assemble.first_rounds(document, 0).predict(matrix, output_margin=True)
    found = np.empty_like(margins)
    n_done = 0
    for end in np.unique(rounds).tolist():
        if end > n_done:
            with starting_from(matrix, margins):
                later = assemble.load_document(assemble.rounds(document, n_done, end))
                margins = later.predict(matrix, output_margin=True)
            n_done = end
        rows = rounds == end
        found[rows] = margins[rows]
    return found
