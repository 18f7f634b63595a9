# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/forests.md for published.py: each function makes one of ``results/*.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from forest_speed import FIGURES, SHAPES
from markdown_tables import gain, plain, results, seconds, table


def mt_extra_trees() -> str:
    """Score of each probability of task splits, and the gain over pooled trees."""
    found = results("mt_extra_trees")
    scores = found.pivot(index="seed", columns=["data", "method"], values="score")

    def rows() -> Iterator[list[str]]:
        for method in found["method"].unique():
            cells = [f"λ = {method}" if method[0].isdigit() else method]
            for data in ("landmine", "school"):
                own = scores[data]
                difference = gain(own[method] - own["0"])
                cells += [plain(own[method].mean()), difference if method != "0" else ""]
            yield cells

    head = [f"{len(scores)} splits", "Landmine", "gain over λ = 0", "School", "gain over λ = 0"]
    return table(head, rows())


def mt_adaboost() -> str:
    """Accuracy in percent, and in brackets the gain over models of each task."""
    found = results("mt_adaboost")
    found["accuracy"] = found["accuracy"].map(lambda of_tasks: sum(of_tasks) / len(of_tasks))
    titles = {
        "tree": ("one tree per task", "one tree"),
        "boosted": ("AdaBoost per task", "MT-AdaBoost"),
    }
    scores = found.drop_duplicates(["data", "seed", "method"])
    scores = scores.pivot(index="seed", columns=["data", "method"], values="accuracy")

    def rows() -> Iterator[list[str]]:
        for kind, (each, shared) in titles.items():
            n_seeds = str(scores["DS1"][f"{kind} of each"].count())
            names = {"of each": each, "of each, scikit-learn": f"{each}, scikit-learn"}
            names |= {name: f'{shared}, `"{name}"`' for name in ("joint", "sum", "max", "concat")}
            for name, title in names.items():
                cells = [title, n_seeds]
                for data in ("DS1", "DS2", "DS3"):
                    own, base = (scores[data][f"{kind} {way}"] for way in (name, "of each"))
                    difference = f" ({gain(own - base, 1)})" if name != "of each" else ""
                    cells.append(f"{own.mean():.1f}{difference}")
                yield cells
        best = [f"{scores[data]['best possible'].mean():.1f}" for data in ("DS1", "DS2", "DS3")]
        yield ["best possible", str(len(scores)), *best]

    sizes = ["3 and 2; 300 and 200", "4 and 2; 200 and 300", "4 and 3; 300 and 100"]
    return table(["labels; rows to train", "seeds", *sizes], rows())


def forest_speed() -> str:
    """Time and memory as a fraction of scikit-learn's: median, minimum and maximum of turns."""
    found = results("forest_speed")
    titles = {
        "regression": "regression",
        "two": "two classes",
        "three": "three classes",
        "images": "ten classes",
        "sparse": "two classes, .1 % not zero",
    }

    def rows() -> Iterator[list[str]]:
        for shape, title in titles.items():
            own = found[found["shape"] == shape].pivot(index="turn", columns="method")
            n_rows, n_columns = SHAPES[shape]
            cells = [f"{n_rows:,} × {n_columns:,}, {title}"]
            for figure in FIGURES:
                if figure == "memory" and own[figure].max(axis=None) < 1:
                    cells.append("not seen")
                    continue
                ratios = own[figure]["mtboost"] / own[figure]["sklearn"]
                middle, low, high = ratios.median(), ratios.min(), ratios.max()
                cells.append(f"{middle:.2f} ({low:.2f}–{high:.2f})")
            yield cells

    return table(["table", "fit", "predict", "memory"], rows())


def projected_forest() -> str:
    """Seconds to fit, and precision of the test rows."""
    by_method = results("projected_forest").groupby("method", sort=False)
    precision: pd.DataFrame = by_method["precision"].agg(["mean", "std"])
    rows = (
        [
            method,
            seconds(by_method["seconds"].median()[method]),
            f"{plain(own['mean'])} ± {plain(own['std'])}",
        ]
        for method, own in precision.iterrows()
    )
    return table(["", "seconds", "precision"], rows)


TABLES = (mt_extra_trees, mt_adaboost, forest_speed, projected_forest)
