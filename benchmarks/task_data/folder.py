# SPDX-License-Identifier: Apache-2.0
"""Tables of a folder: `*.npz`, `*.csv` and `*.parquet`.

An `npz` file contains a table `X` (or the parts `X_data`, `X_indices`, `X_indptr`, `X_shape` of a
sparse one) and either a label `y` and a code `task` for each row, or several outputs `Y`. Every
output becomes a task: the rows are repeated for each, as one group. Of more than 40 outputs those
with the largest sums are used (of labels: with the most positives), with 1500 rows drawn at random.

A `csv` or `parquet` file has columns `task`, `y`, and if rows are to be split in time `time`; all
others are features. Text is numbered in alphabetical order. A `y` of 0 and 1 is a class.

Rows whose label or task is missing are left out. A file with another content is skipped: reading it
raises SkippedError, with its name and the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from task_methods.rows import Rows, SkippedError

from task_data.task_set import TaskSet, task_set

SUFFIXES = (".npz", ".csv", ".parquet")
MAX_OUTPUTS, ROWS_OF_MANY_OUTPUTS = 40, 1500


def names_in(folder: Path) -> dict[str, Path]:
    """Tables of a folder by name, sorted; files that cannot be read are among them."""
    if not Path(folder).is_dir():
        raise SystemExit(f"--data must name a folder of tables, found {str(folder)!r}.")
    paths = sorted(path for path in Path(folder).iterdir() if path.suffix in SUFFIXES)
    names = [path.stem for path in paths]
    return {
        path.stem if names.count(path.stem) == 1 else path.name: path
        for path in paths
        if path.suffix != ".npz" or _may_have_tasks(path)
    }


def read_task_set(path: Path, seed: int, part: float = 1.0) -> TaskSet:
    """Training rows of a table, or a part of them, and what scores a model on test rows."""
    return task_set(read_rows(path, seed), seed, part)


def read_rows(path: Path, seed: int) -> Rows:
    """All rows of a table; the seed only draws rows of many outputs."""
    try:
        rows = _read(path, seed)
    except SkippedError as reason:
        raise SkippedError(f"{path.name} {reason}") from None
    except Exception as error:  # of NumPy, pandas and zipfile, each for what it cannot read
        reason = " ".join(str(error).split())
        raise SkippedError(
            f"{path.name} cannot be read: {type(error).__name__}: {reason}"
        ) from error
    return rows


def _read(path: Path, seed: int) -> Rows:
    if path.suffix != ".npz":
        frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
        return _rows_of_frame(frame)
    with np.load(path, allow_pickle=False) as file:
        if "Y" in file.files:
            return _rows_of_outputs(_table(file), file["Y"], seed)
        if "task" not in file.files:
            raise SkippedError("has neither tasks nor several outputs")
        return _rows(_table(file), file["y"], file["task"])


def _may_have_tasks(path: Path) -> bool:
    try:
        with np.load(path, allow_pickle=False) as file:
            return "Y" in file.files or "task" in file.files
    except Exception:  # read_rows names it
        return True


def _table(file: Any) -> Any:
    if "X" in file.files:
        return file["X"]
    from scipy.sparse import csr_matrix

    parts = (file["X_data"], file["X_indices"], file["X_indptr"])
    return csr_matrix(parts, shape=tuple(file["X_shape"]))


def _rows_of_outputs(X: Any, Y: Any, seed: int) -> Rows:
    if Y.shape[1] > MAX_OUTPUTS:
        outputs = np.sort(np.argsort(-Y.sum(axis=0, dtype=np.float64))[:MAX_OUTPUTS])
        draw = np.random.default_rng(seed).permutation(len(Y))[:ROWS_OF_MANY_OUTPUTS]
        X, Y = X[draw], Y[draw][:, outputs]
    X = X if isinstance(X, np.ndarray) else X.toarray()
    n_rows, n_outputs = Y.shape
    group = np.tile(np.arange(n_rows), n_outputs)
    return _rows(X[group], Y.T.ravel(), np.repeat(np.arange(n_outputs), n_rows), group=group)


def _rows_of_frame(frame: pd.DataFrame) -> Rows:
    if missing := {"task", "y"} - set(frame.columns):
        raise SkippedError(
            f"has no column {' and no column '.join(sorted(missing))}: its columns are "
            f"{', '.join(map(str, frame.columns[:20]))}"
        )
    features = frame.drop(columns=["task", "y", "time"], errors="ignore")
    if features.empty:
        raise SkippedError(f"has {len(frame)} rows and {features.shape[1]} columns of features")
    X = np.column_stack([_numbers(features[name]) for name in features])
    time = _numbers(_as_dates(frame["time"])) if "time" in frame else None
    return _rows(X, frame["y"], frame["task"], time=time)


def _rows(X: Any, y: Any, task: Any, **more: Any) -> Rows:
    """Rows with a label and a task; tasks are numbered in their order."""
    try:
        y = np.asarray(y, np.float64)
    except (TypeError, ValueError) as error:
        raise SkippedError(f"has labels that are no numbers: {error}") from None
    has_label = ~np.isnan(y) & ~pd.isna(np.asarray(task))
    if not has_label.any():
        raise SkippedError("has no row with a label and a task")
    names, codes = np.unique(np.asarray(task)[has_label], return_inverse=True)
    return Rows(
        np.asarray(X, np.float32)[has_label],
        y[has_label],
        codes.astype(np.int64),
        len(names),
        is_binary=bool(np.isin(y[has_label], (0, 1)).all()),
        **{name: values[has_label] for name, values in more.items() if values is not None},
    )


def _as_dates(column: pd.Series) -> pd.Series:
    return column if pd.api.types.is_numeric_dtype(column) else pd.to_datetime(column)


def _numbers(column: pd.Series) -> Any:
    """Numbers as they are, dates as seconds, and codes of text in alphabetical order."""
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column.to_numpy(np.float64, na_value=np.nan)
    if pd.api.types.is_datetime64_any_dtype(column):
        return (column - pd.Timestamp(0, tz=column.dt.tz)).dt.total_seconds().to_numpy()
    codes, _ = pd.factorize(column.astype("string"), sort=True)
    return np.where(codes < 0, np.nan, codes)
