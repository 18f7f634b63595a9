# SPDX-License-Identifier: Apache-2.0
"""What scripts that append to files share: settings of the peers, columns, the file of results."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

N_THREADS, PATIENCE = 1, 20
Array = np.ndarray[Any, np.dtype[Any]]


def as_frame(X: Array, task: Array, tasks: Array | None) -> pd.DataFrame:
    """The columns, and with the names of tasks that of each row as a category."""
    frame = pd.DataFrame(X, columns=[f"x{n}" for n in range(X.shape[1])])
    if tasks is not None:
        frame["task"] = pd.Categorical(task, categories=tasks)
    return frame


def parser(description: str | None) -> argparse.ArgumentParser:
    """Arguments of a run over seeds, or with ``--table`` of the table of its results."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("--out", type=Path, required=True)
    found.add_argument("--seeds", type=int, default=3)
    found.add_argument("--table", action="store_true")
    return found


def append(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write each result as soon as it is known."""
    for line in lines:
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def read(path: Path) -> pd.DataFrame:
    return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
