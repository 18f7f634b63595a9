# SPDX-License-Identifier: Apache-2.0
"""Tables of split scores, task splits and symmetric trees for published.py."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from common_stage import SHAPES
from markdown_tables import gain, plain, results, table
from symmetric_trees import LEAVES, TREES
from task_comparison import scores_of


def split_scores() -> str:
    """School and Landmine: each method, and the gains of two stages over two others."""
    found = results("real_data")
    bases = ("pooled", "pooled + categorical")

    def rows() -> Iterator[list[str]]:
        for method in found["method"].unique():
            cells = [method]
            for data, metric, sign in (("school", "rmse", -1), ("landmine", "auc", 1)):
                own = found[found["data"] == data]
                scores = own.pivot(index="seed", columns="method", values=metric)
                cells.append(plain(scores[method].mean()))
                for base in bases:
                    difference = gain(sign * (scores[method] - scores[base]), 3)
                    cells.append(difference if method.startswith("mtboost") else "")
            yield cells

    over = ["over pooled", "over categorical"]
    n_seeds = found["seed"].nunique()
    return table([f"{n_seeds} splits", "School, RMSE", *over, "Landmine, AUC", *over], rows())


def routes() -> str:
    """Area under the curve of both stages by each way, and the gain over pooled training."""
    found = results("routes")
    titles = {
        "pooled": "pooled",
        "plain trees + quitting": "own trees, `TaskObjective` and `TaskQuitting`",
        "TaskSplit entropy": '`TaskSplit("entropy")`',
        "TaskSplit variance": '`TaskSplit("variance")`',
    }
    found = found.pivot(index="seed", columns=["route", "stage"], values=["task1", "task2"])

    def rows() -> Iterator[list[str]]:
        for library, name in (("xgboost", "XGBoost"), ("lightgbm", "LightGBM")):
            for route, title in titles.items():
                cells = [f"{name}, {title}"]
                for task in ("task1", "task2"):
                    own = found[task][f"{library}: {route}"]
                    base = found[task][f"{library}: pooled"]["both stages"]
                    mean, common = own["both stages"].mean(), own["common"].mean()
                    cells.append(f"{plain(mean)} ({plain(common)})")
                    cells.append(gain(own["both stages"] - base) if route != "pooled" else "")
                yield cells

    head = [f"{len(found)} seeds", "task1 (small)", "gain over pooled", "task2"]
    return table([*head, "gain over pooled"], rows())


def common_stage() -> str:
    """Time and memory relative to the library that trains: medians; of time least and most."""
    titles = {
        "lightgbm": ("LightGBM", "xgboost"),
        "plain": ("mtboost in XGBoost, plain", "xgboost"),
        "entropy": ("mtboost in XGBoost, entropy", "xgboost"),
        "variance": ("mtboost in XGBoost, variance", "xgboost"),
        "lightgbm_plain": ("mtboost in LightGBM, plain", "lightgbm"),
        "lightgbm_entropy": ("mtboost in LightGBM, entropy", "lightgbm"),
        "lightgbm_variance": ("mtboost in LightGBM, variance", "lightgbm"),
    }
    shapes = _by_shape("common_stage")

    def rows() -> Iterator[list[str]]:
        for method, (title, base) in titles.items():
            cells = [title, {"xgboost": "XGBoost", "lightgbm": "LightGBM"}[base]]
            for own in shapes.values():
                cells.append(_spread(own["train"], method, base))
                cells += [_median(own[figure], method, base) for figure in ("processor", "memory")]
            yield cells

    head = ["", "relative to"]
    for shape, own in shapes.items():
        head += [f"{_title(shape, own)}: time", "processor", "memory"]
    return table(head, rows())


def wide_and_tall() -> str:
    """Tables of other shapes: time relative to each library, memory relative to XGBoost."""
    titles = {
        "lightgbm": "LightGBM",
        "plain": "plain",
        "plain_quantized": "plain, quantized gradients",
        "entropy": "entropy",
        "variance": "variance",
    }
    shapes = _by_shape("common_stage_shapes")

    def rows() -> Iterator[list[str]]:
        for method, title in titles.items():
            cells = [title]
            for own in shapes.values():
                cells.append(_spread(own["train"], method, "xgboost"))
                is_peer = method == "lightgbm"
                cells.append("" if is_peer else _spread(own["train"], method, "lightgbm"))
                cells.append(_median(own["memory"], method, "xgboost"))
            yield cells

    head = [""]
    for shape, own in shapes.items():
        columns = f"{SHAPES[shape][1]:,} columns"
        title = _title(shape, own).replace(", ", f", {columns}, ", 1)
        head += [f"{title}: time of XGBoost's", "of LightGBM's", "memory of XGBoost's"]
    return table(head, rows())


def _by_shape(file: str) -> dict[str, pd.DataFrame]:
    """Return the runs of each shape: a line per turn, columns of figures by method."""
    found = results(file)
    return {
        str(shape): own.pivot(index="turn", columns="method")
        for shape, own in found.groupby("shape")
    }


def _title(shape: str, own: pd.DataFrame) -> str:
    return f"{own['rows'].iloc[0, 0]:,} rows, {SHAPES[shape][2]} tasks"


def _median(figures: pd.DataFrame, method: str, base: str) -> str:
    """Ratio of two methods, paired by turn."""
    return f"{(figures[method] / figures[base]).median():.2f}"


def _spread(figures: pd.DataFrame, method: str, base: str) -> str:
    """The same with the least and the most."""
    ratio = figures[method] / figures[base]
    return f"{_median(figures, method, base)} ({ratio.min():.2f}–{ratio.max():.2f})"


def quantized_gradients() -> str:
    """Time and memory relative to runs without rounding: medians; of time least and most."""
    shapes = _by_shape("quantized_gradients")

    def rows() -> Iterator[list[str]]:
        for score in ("plain", "entropy", "variance"):
            cells = [score]
            for own in shapes.values():
                processor, memory = (
                    own[figure][f"{score}_quantized"] / own[figure][score]
                    for figure in ("processor", "memory")
                )
                cells.append(f"{processor.median():.2f}")
                cells += [f"{processor.min():.2f}–{processor.max():.2f}", f"{memory.median():.2f}"]
            yield cells

    head = ["split score"]
    for shape, own in shapes.items():
        head += [f"{_title(shape, own)}: processor time", "least and most", "memory"]
    return table(head, rows())


def task_splits() -> str:
    """Scores by the penalty, and the standard error of the difference to no task column."""
    found = results("task_splits")
    methods = list(dict.fromkeys(found["method"]))
    names = {"xgboost": "XGBoost", "lightgbm": "LightGBM"}

    def rows() -> Iterator[list[str]]:
        for (data, library), own in found.groupby(["data", "library"], sort=False):
            scores = own.pivot(index="seed", columns="method", values="score")
            cells = [f"{data.title()}, {names[library]}", plain(scores["-"].mean())]
            for method in methods[1:]:
                error = (scores[method] - scores["-"]).sem()
                cells.append(f"{plain(scores[method].mean())} ({plain(error)})")
            yield cells

    heads = [f"c = {float(name):g}" if name[0].isdigit() else name for name in methods[1:]]
    return table([f"{found['seed'].nunique()} splits", "no task column", *heads], rows())


def symmetric_trees() -> str:
    """Score of ordinary and symmetric trees, and of those with noise, by how leaves are shared."""
    found = results("symmetric_trees")
    methods = [f"{leaves}, {trees}" for leaves in LEAVES for trees in TREES] + ["CatBoost"]

    def rows() -> Iterator[list[str]]:
        for data, own in found.groupby("data", sort=False):
            means = scores_of(own, methods)[0].by_seed.mean()
            cells = [
                " → ".join(plain(means[f"{leaves}, {trees}"]).replace("-", "−") for trees in TREES)
                for leaves in LEAVES
            ]
            yield [str(data), *cells, plain(means["CatBoost"])]

    titles = {"pooled": "pooled leaves", "descriptors": "task splits by descriptors"}
    heads = [titles.get(leaves, leaves) for leaves in LEAVES]
    return table([f"seeds: {found['seed'].nunique()}", *heads, "CatBoost"], rows())


TABLES = (
    split_scores,
    routes,
    common_stage,
    wide_and_tall,
    quantized_gradients,
    task_splits,
    symmetric_trees,
)
