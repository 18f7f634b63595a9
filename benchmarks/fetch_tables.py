# SPDX-License-Identifier: Apache-2.0
"""Write the public data sets of the benchmarks to a folder, for their `--data`.

School, Landmine, `atp1d` and `wq` (mtboost.datasets), and `emotions` and `yeast` (OpenML). Files
that are downloaded stay in the data home (`MTBOOST_DATA`, else `~/mtboost_data`).

    python benchmarks/fetch_tables.py FOLDER [NAME ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml

from mtboost.datasets import fetch_landmine, fetch_mulan, fetch_school, get_data_home

Arrays = dict[str, Any]


def of_tasks(fetch: Callable[..., Any]) -> Arrays:
    X, y, task = fetch(return_X_y_task=True)
    return {"X": X, "y": y, "task": task}


def of_outputs(name: str) -> Arrays:
    X, Y = fetch_mulan(name, return_X_y=True)
    return {"X": X, "Y": Y}


def of_labels(name: str) -> Arrays:
    found = fetch_openml(name, version=4, as_frame=False, data_home=get_data_home())
    return {"X": found.data, "Y": (found.target == "TRUE").astype(np.uint8)}


TABLES: dict[str, Callable[[], Arrays]] = {
    "school": partial(of_tasks, fetch_school),
    "landmine": partial(of_tasks, fetch_landmine),
    **{name: partial(of_outputs, name) for name in ("atp1d", "wq")},
    **{name: partial(of_labels, name) for name in ("emotions", "yeast")},
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TABLES)}")
    args = parser.parse_args(arguments)
    if unknown := set(args.names) - set(TABLES):
        parser.error(f"unknown data: {', '.join(sorted(unknown))}; known are {', '.join(TABLES)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or TABLES:
        arrays = TABLES[name]()
        path = args.folder / f"{name}.npz"
        np.savez_compressed(path, **{**arrays, "X": np.asarray(arrays["X"], np.float32)})
        print(f"{path}: {arrays['X'].shape[0]} rows, {arrays['X'].shape[1]} columns")


if __name__ == "__main__":
    main()
