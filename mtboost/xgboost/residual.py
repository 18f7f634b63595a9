"""Where the specific models start (zhang2019, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.errors import DataError
from mtboost.tasks import TaskName, TaskSet
from mtboost.xgboost import assemble
from mtboost.xgboost.matrices import starting_from


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
        Rows to predict; its base margin is heeded.
    quit_round : int, or mapping of task name to int
        Rounds that each task uses, such as :attr:`TaskQuitting.quit_round`; all rounds if a task
        is missing.
    task : array-like of shape (n_rows,), optional
        Task of each row; needed for a mapping.

    Returns
    -------
    ndarray of float32, shape (n_rows,) or (n_rows, n_outputs)
        Sums in tree order: bit for bit those of the combined booster.

    Raises
    ------
    DataError
        A task uses more rounds than there are, or a mapping comes without `task`.

    References
    ----------
    zhang2019, section 3.4, eq. 7 (key in docs/papers.md).
    """
    n_rounds = booster.num_boosted_rounds()
    rounds_of_row = _rounds_of_rows(quit_round, task, matrix.num_row(), n_rounds)
    wanted = np.unique(rounds_of_row)
    if len(wanted) and not 0 <= wanted[0] <= wanted[-1] <= n_rounds:
        raise DataError(
            f"quit_round must lie between 0 and the {n_rounds} rounds of the booster, found "
            f"{wanted[0] if wanted[0] < 0 else wanted[-1]}."
        )
    document = assemble.read_document(booster)
    margins = assemble.first_rounds(document, 0).predict(matrix, output_margin=True)
    found = np.empty_like(margins)
    n_done = 0
    for end in wanted.tolist():
        if end > n_done:
            with starting_from(matrix, margins):
                margins = assemble.rounds(document, n_done, end).predict(matrix, output_margin=True)
            n_done = end
        rows = rounds_of_row == end
        found[rows] = margins[rows]
    return found


def _rounds_of_rows(
    quit_round: int | Mapping[TaskName, int], task: Any, n_rows: int, n_rounds: int
) -> npt.NDArray[np.int64]:
    if not isinstance(quit_round, Mapping):
        return np.full(n_rows, quit_round, np.int64)
    if task is None:
        raise DataError("quit_round is a mapping: give task=, one label per row.")
    tasks = task if isinstance(task, TaskSet) else TaskSet.from_labels(task, n_rows)
    return np.array([quit_round.get(name, n_rounds) for name in tasks], np.int64)[tasks.codes]
