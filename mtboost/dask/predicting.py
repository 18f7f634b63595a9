# SPDX-License-Identifier: Apache-2.0
"""Predictions for the partitions of Dask collections, computed when they are asked for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Literal

import dask
import dask.array
import dask.dataframe
import distributed
import numpy as np
import numpy.typing as npt
from dask.dataframe.utils import meta_nonempty

from mtboost.base.checks import check_choice, check_type
from mtboost.base.dataset import is_column
from mtboost.base.threads import openmp_threads
from mtboost.dask.chunks import delayed_partitions
from mtboost.dask.workers import client_of
from mtboost.model.model import MultiTaskModel
from mtboost.model.predictions import UnknownTask

Method = Literal["predict", "predict_proba", "predict_margin"]


def predict(
    client: distributed.Client | None,
    model: MultiTaskModel,
    X: Any,
    *,
    task: Any = None,
    base_margin: Any = None,
    unknown_task: UnknownTask = "error",
    method: Method = "predict",
) -> Any:
    """Predict the rows of a Dask collection, partition by partition, when the result is computed.

    Parameters
    ----------
    client : distributed.Client or None
        None is the one in use.
    model : MultiTaskModel
    X : dask DataFrame or Array of shape (n_rows, n_features)
        Columns as in training, by name if they have names.
    task : str or int, or dask Series or Array of shape (n_rows,), optional
        Task of each row, with the partitions of `X`, or the column of `X` that contains it; by
        default as in training.
    base_margin : dask Series or Array of shape (n_rows,) or (n_rows, n_classes), optional
        Margin that each row starts from.
    unknown_task : {"error", "common"}, default="error"
        See :meth:`MultiTaskModel.predict`. An error is raised when the result is computed.
    method : {"predict", "predict_proba", "predict_margin"}, default="predict"
        Method of the model that is called with each partition.

    Returns
    -------
    dask Series, DataFrame or Array
        For a DataFrame a Series with its index, or with several classes a DataFrame; for an Array
        an Array.
    """
    client = client_of(client)
    check_type("model", model, MultiTaskModel, "a MultiTaskModel")
    check_choice("method", method, ("predict", "predict_proba", "predict_margin"))
    rows = {"base_margin": base_margin, "task": None if is_column(task) else task}
    partitions = delayed_partitions(X, rows)
    options = {"unknown_task": unknown_task, **({"task": task} if is_column(task) else {})}
    like = _predicted_sample(model, X, task, base_margin, method)
    call = dask.delayed(predict_partition, pure=False)
    shared = dask.delayed(client.scatter(model, hash=False))
    parts = [call(shared, own, method, like, options, **given) for own, given in partitions]
    if isinstance(X, dask.dataframe.DataFrame):
        found = dask.dataframe.from_delayed(
            parts, meta=like, divisions=X.divisions, verify_meta=False
        )
        return found
    blocks = [
        dask.array.from_delayed(part, (n_rows, *like.shape[1:]), meta=like)
        for part, n_rows in zip(parts, X.chunks[0], strict=True)
    ]
    return dask.array.concatenate(blocks, allow_unknown_chunksizes=True)


def predict_partition(
    model: MultiTaskModel,
    X: Any,
    method: Method,
    like: Any,
    options: dict[str, Any],
    **rows: npt.NDArray[Any],
) -> Any:
    """Return the predictions of one partition; `like` are those of no rows."""
    if not len(X):
        return like
    with ExitStack() as stack:
        try:
            n_threads = distributed.get_worker().state.nthreads
        except ValueError:  # computed without workers
            n_threads = None
        stack.enter_context(openmp_threads(n_threads))
        found = getattr(model, method)(X, **options, **rows)
    return _as_frame(found, X.index) if hasattr(X, "iloc") else found


def _predicted_sample(
    model: MultiTaskModel, X: Any, task: Any, base_margin: Any, method: Method
) -> Any:
    """Return predictions of no rows, of the type of those of many."""
    own: Any = [model.tasks[0]]
    column = task if is_column(task) else model.task_column
    if isinstance(X, dask.dataframe.DataFrame):
        sample = meta_nonempty(X._meta).iloc[:1].drop(columns=str(column), errors="ignore")
    else:
        sample = np.zeros((1, X.shape[1]), X.dtype)
        position = column if isinstance(column, int) else model.task_position
        if position is not None and (task is None or is_column(task)):
            sample = np.delete(sample, position, axis=1)
    margin = None if base_margin is None else np.zeros((1, *base_margin.shape[1:]))
    found = getattr(model, method)(sample, task=own, base_margin=margin)[:0]
    return _as_frame(found, sample.index[:0]) if hasattr(sample, "iloc") else found


def _as_frame(values: npt.NDArray[Any], index: Any) -> Any:
    import pandas

    return (pandas.Series if values.ndim == 1 else pandas.DataFrame)(values, index=index)
