# SPDX-License-Identifier: Apache-2.0
"""Predictions for the partitions of Dask collections, computed when they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
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
from mtboost.dask.chunks import delayed_partitions
from mtboost.dask.workers import client_of, threads_of, threads_of_worker
from mtboost.model.model import MultiTaskModel
from mtboost.model.prediction.predictions import UnknownTask

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
        Of :func:`mtboost.dask.fit` or :func:`mtboost.fit`.
    X : dask DataFrame or Array of shape (n_rows, n_features)
        Columns as in training, by name if they have names.
    task : str or int, or dask Series or Array of shape (n_rows,), optional
        Task of each row, with the partitions of `X`, or the column of `X` that contains it; by
        default as in training.
    base_margin : dask Series or Array of shape (n_rows,) or (n_rows, n_classes), optional
        Margin that each row starts from.
    unknown_task : {"error", "common"}, default="error"
        See :meth:`.MultiTaskModel.predict`. An error is raised when the result is computed.
    method : {"predict", "predict_proba", "predict_margin"}, default="predict"
        Method of the model that is called with each partition.

    Returns
    -------
    dask Series, DataFrame or Array
        For a DataFrame a Series with its index, or with several classes a DataFrame; for an Array
        an Array.
    """
    check_type("model", model, MultiTaskModel, "a MultiTaskModel")
    check_choice("method", method, ("predict", "predict_proba", "predict_margin"))
    options = {"unknown_task": unknown_task, **({"task": task} if is_column(task) else {})}
    rows = {"base_margin": base_margin, "task": None if is_column(task) else task}
    return predict_with(client_of(client), model, model, method, X, rows, options)


def predict_with(
    client: distributed.Client,
    predictor: Any,
    model: MultiTaskModel,
    method: str,
    X: Any,
    rows: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    """Return a collection of what a method returns for each partition.

    Parameters
    ----------
    predictor : object
        Whose method is called: the model, or an estimator with it.
    rows : mapping of str to collection, or None
        Arguments that belong to the rows.
    options : mapping
        Other arguments.
    """
    partitions = delayed_partitions(X, rows)
    like = _predicted_sample(predictor, model, method, X, rows, options)
    call = dask.delayed(predict_partition, pure=False)
    shared = dask.delayed(client.scatter(predictor, hash=False))
    parts = [call(shared, own, method, like, dict(options), **given) for own, given in partitions]
    if isinstance(X, dask.dataframe.DataFrame):
        return dask.dataframe.from_delayed(
            parts, meta=like, divisions=X.divisions, verify_meta=False
        )
    blocks = [
        dask.array.from_delayed(part, (n_rows, *like.shape[1:]), meta=like)
        for part, n_rows in zip(parts, X.chunks[0], strict=True)
    ]
    return dask.array.concatenate(blocks, allow_unknown_chunksizes=True)


def predict_partition(
    predictor: Any,
    X: Any,
    method: str,
    like: Any,
    options: dict[str, Any],
    **rows: npt.NDArray[Any],
) -> Any:
    """Return the predictions of one partition; `like` are those of no rows."""
    if not len(X):
        return like
    with ExitStack() as stack:
        with suppress(ValueError):  # computed without workers
            stack.enter_context(threads_of_worker(threads_of(None)))
        found = getattr(predictor, method)(X, **options, **rows)
    return _as_frame(found, X.index) if hasattr(X, "iloc") else found


def _predicted_sample(
    predictor: Any,
    model: MultiTaskModel,
    method: str,
    X: Any,
    rows: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    """Return predictions of no rows, of the type of those of many."""
    task: Any = model.tasks[0]
    column: Any = options.get("task", model.task_column)
    own: dict[str, Any] = {}
    sample: Any
    if isinstance(X, dask.dataframe.DataFrame):
        sample = meta_nonempty(X._meta).iloc[:1].copy()
    else:
        sample = np.zeros((1, X.shape[1]), X.dtype)
    if rows["task"] is not None:
        own["task"] = [task]
    elif column is not None and hasattr(sample, "iloc"):
        is_nested = isinstance(column, tuple)
        for name, label in zip(column, task, strict=True) if is_nested else [(column, task)]:
            sample[name] = [label]
    elif column is not None:
        place = column if isinstance(column, int) else model.task_position
        sample[0, place] = task
    if rows["base_margin"] is not None:
        own["base_margin"] = np.zeros((1, *rows["base_margin"].shape[1:]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the categories that Dask invents
        found = getattr(predictor, method)(sample, **options, **own)[:0]
    return _as_frame(found, sample.index[:0]) if hasattr(sample, "iloc") else found


def _as_frame(values: npt.NDArray[Any], index: Any) -> Any:
    import pandas

    return (pandas.Series if values.ndim == 1 else pandas.DataFrame)(values, index=index)
