# SPDX-License-Identifier: Apache-2.0
""":func:`train`: ``xgboost.train`` with callbacks on the executors of Spark.

``xgboost.spark`` passes callbacks on, but no column beside features, labels, weights and margins,
so that the tasks of the rows cannot reach :class:`mtboost.xgboost.TaskSplit` there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xgboost
from xgboost.tracker import RabitTracker

from mtboost.base.checks import check_count, listed
from mtboost.errors import DataError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    import pandas
    import pyspark.sql

__all__ = ["train"]

#: Field of a matrix that contains the tasks, and the name of that argument of a DMatrix.
_TASKS = "label_lower_bound"
#: What Spark's names of numeric types begin with.
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")


def train(
    params: Mapping[str, Any],
    rows: pyspark.sql.DataFrame,
    num_boost_round: int = 10,
    *,
    features: Sequence[str],
    label: str,
    task: str,
    weight: str | None = None,
    base_margin: str | None = None,
    is_valid: str | None = None,
    feature_types: Sequence[str] | None = None,
    n_workers: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Train a booster by ``xgboost.train`` on the executors of Spark.

    All rows of a task are sent to one worker, where ``TaskSplit("label_lower_bound")`` finds their
    tasks. The stage is a barrier stage: Spark runs all workers at once, or none.

    Parameters
    ----------
    params : mapping
        Parameters of XGBoost. ``nthread`` is ``spark.task.cpus`` unless it is given.
    rows : pyspark.sql.DataFrame
    num_boost_round : int, default=10
    features, label : sequence of str, and str
        Columns of numbers. Null is a missing value in features.
    task : str
        Column of whole numbers between -2**24 and 2**24, such as of a StringIndexer.
    weight, base_margin : str, optional
        Columns of numbers.
    is_valid : str, optional
        Column that is true for validation rows; they are evaluated as ``"valid"``.
    feature_types : sequence of str, optional
        Types of the features as in ``xgboost.DMatrix``: "c" for numbers of categories.
    n_workers : int, optional
        By default as many as Spark has slots for tasks.
    **options
        Further arguments of ``xgboost.train``, such as `callbacks`, `obj`, `custom_metric` and
        `early_stopping_rounds`. Spark pickles them.

    Returns
    -------
    dict
        ``"booster"``, and ``"history"``: metrics of the training and validation rows by round.

    Raises
    ------
    DataError
        There are no rows.
    ParameterError
        A column is not in `rows` or holds no numbers, or `n_workers` is not a positive number.
    TypeError
        `rows` is not a Spark DataFrame.
    py4j.protocol.Py4JJavaError
        Of Spark, with what a worker has raised in its message.

    Examples
    --------
    >>> import mtboost.spark
    >>> from mtboost.xgboost import TaskSplit
    >>> found = mtboost.spark.train(  # doctest: +SKIP
    ...     {"max_depth": 6}, sales, 100, features=["price", "weekday"], label="sold", task="shop",
    ...     callbacks=[TaskSplit("label_lower_bound")],
    ... )
    """
    if not hasattr(rows, "sparkSession"):
        raise ParameterTypeError(
            f"rows is a {type(rows).__module__}.{type(rows).__name__}: give a "
            "pyspark.sql.DataFrame, for example spark.createDataFrame(rows). For a table on one "
            "machine, such as a pandas DataFrame, use mtboost.fit."
        )
    session = rows.sparkSession
    fields = {"label": label, _TASKS: task, "weight": weight, "base_margin": base_margin}
    columns = {name: column for name, column in fields.items() if column is not None}
    marks = [] if is_valid is None else [is_valid]
    used = list(dict.fromkeys([*features, *columns.values(), *marks]))
    unknown = [column for column in used if column not in rows.columns]
    if unknown:
        raise ParameterError(f"rows have no {listed(unknown, 'column')}.")
    types = dict(rows.dtypes)
    others = [column for column in used if not types[column].startswith(_NUMBERS)]
    if others:
        raise ParameterError(
            f"rows hold {types[others[0]]} in {listed(others, 'column')}: numbers are needed. Make "
            "them of names with pyspark.ml.feature.StringIndexer."
        )
    if rows.isEmpty():  # Spark would start no worker
        raise DataError("rows has no rows: check the filters that it was made with.")
    if n_workers is None:
        n_workers = session.sparkContext.defaultParallelism
    check_count("n_workers", n_workers, low=1)
    params = {"nthread": int(session.conf.get("spark.task.cpus", "1") or 1), **params}
    tracker = RabitTracker(
        n_workers=n_workers, host_ip=session.conf.get("spark.driver.host"), sortby="task"
    )
    tracker.start()
    arguments = tracker.worker_args()
    arguments_of_matrix = {"feature_names": list(features), "feature_types": feature_types}
    call = {"num_boost_round": num_boost_round, "verbose_eval": False, **options}

    def work(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
        import pandas
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        parts = list(frames)
        frame = pandas.concat(parts) if parts else pandas.DataFrame(columns=used)
        own = {**arguments, "dmlc_task_id": f"{context.partitionId():09d}"}
        with xgboost.collective.CommunicatorContext(**own):
            booster, history = _train(frame, columns, is_valid, params, arguments_of_matrix, call)
        if context.partitionId() == 0:
            raw = bytes(booster.save_raw("ubj"))
            yield pandas.DataFrame({"booster": [raw], "history": [json.dumps(history)]})

    shuffled = rows.select(*used).repartition(n_workers, task)
    (found,) = shuffled.mapInPandas(work, "booster binary, history string", barrier=True).collect()
    return {
        "booster": xgboost.Booster(model_file=bytearray(found["booster"])),
        "history": json.loads(found["history"]),
    }


def _train(
    frame: pandas.DataFrame,
    columns: Mapping[str, str],
    is_valid: str | None,
    params: Mapping[str, Any],
    arguments_of_matrix: Mapping[str, Any],
    call: Mapping[str, Any],
) -> tuple[xgboost.Booster, dict[str, Any]]:
    """Train on one worker, in a collective."""

    def matrix_of(rows: pandas.DataFrame, **ref: Any) -> xgboost.QuantileDMatrix:
        return xgboost.QuantileDMatrix(
            rows[arguments_of_matrix["feature_names"]].to_numpy(np.float32),
            **{name: rows[column].to_numpy(np.float32) for name, column in columns.items()},
            **arguments_of_matrix,
            enable_categorical=True,
            nthread=params["nthread"],
            **ref,
        )

    chosen = np.zeros(len(frame), bool)
    if is_valid is not None:
        chosen = frame[is_valid].to_numpy(bool)
    train = matrix_of(frame[~chosen])
    evals = [(train, "train")]
    if is_valid is not None:
        evals.append((matrix_of(frame[chosen], ref=train), "valid"))
    history: dict[str, Any] = {}
    booster = xgboost.train(dict(params), train, evals=evals, evals_result=history, **call)
    return booster, history
