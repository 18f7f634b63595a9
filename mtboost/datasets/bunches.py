# SPDX-License-Identifier: Apache-2.0
"""Data sets in the form that scikit-learn's functions return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from mtboost.base.arrays import Float64Array
from mtboost.errors import MissingDependencyError


def as_bunch(
    X: Float64Array,
    targets: Mapping[str, npt.NDArray[Any]],
    task: npt.NDArray[Any] | None,
    feature_names: Sequence[str],
    description: str,
    *,
    task_name: str = "task",
    target_names: Sequence[str] | None = None,
    as_frame: bool,
    return_X_y_task: bool = False,
) -> Any:
    """Return a Bunch, or the table, the labels and the task of each row.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    targets : mapping of name to ndarray of shape (n_rows,)
        Several are the columns of one matrix.
    task : ndarray of shape (n_rows,), optional
    feature_names : sequence of str
    description : str
    task_name : str
        Name of the tasks as a column.
    target_names : sequence of str, optional
        Names of the classes, or of several outputs.
    as_frame, return_X_y_task : bool
        As the public functions describe them.
    """
    data: Any = X
    target: Any = np.column_stack(list(targets.values()))
    target = target[:, 0] if len(targets) == 1 else target
    frame: Any = None
    if as_frame:
        pandas = _import_pandas()
        tasks = {} if task is None else {task_name: task}
        features = dict(zip(feature_names, X.T, strict=True))
        frame = pandas.DataFrame({**features, **tasks, **targets})
        data = frame[list(feature_names)]
        target = frame[next(iter(targets)) if len(targets) == 1 else list(targets)]
        task = None if task is None else frame[task_name]
    if return_X_y_task:
        return data, target, task
    optional = {"task": task, "target_names": target_names}
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=list(feature_names),
        DESCR=description,
        **{
            name: list(value) if name == "target_names" else value
            for name, value in optional.items()
            if value is not None
        },
    )


def description_of(function: Callable[..., Any], url: str | None = None) -> str:
    """Return the docstring of a function up to its parameters, and the address of the data."""
    text = (inspect.getdoc(function) or "").split("\nParameters\n")[0].strip()
    return text + ("" if url is None else f"\n\nPublished at {url}")


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingDependencyError(
            "as_frame=True needs pandas: pip install 'mtboost[report]'. Without it the same data "
            "are NumPy arrays."
        ) from error
    return pandas
