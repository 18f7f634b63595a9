# SPDX-License-Identifier: Apache-2.0
"""Tables of split scores, task splits and symmetric trees for published.py."""

from __future__ import annotations

from collections.abc import Iterator

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
    found = results("common_stage")
    titles = {
        "lightgbm": ("LightGBM", "xgboost"),
        "plain": ("mtboost in XGBoost, plain", "xgboost"),
        "entropy": ("mtboost in XGBoost, entropy", "xgboost"),
        "variance": ("mtboost in XGBoost, variance", "xgboost"),
        "lightgbm_plain": ("mtboost in LightGBM, plain", "lightgbm"),
        "lightgbm_entropy": ("mtboost in LightGBM, entropy", "lightgbm"),
        "lightgbm_variance": ("mtboost in LightGBM, variance", "lightgbm"),
    }
    shapes = {
        shape: own.pivot(index="turn", columns="method") for shape, own in found.groupby("shape")
    }

    def rows() -> Iterator[list[str]]:
        for method, (title, base) in titles.items():
            cells = [title, {"xgboost": "XGBoost", "lightgbm": "LightGBM"}[base]]
            for own in shapes.values():
                time, processor, memory = (
                    own[figure][method] / own[figure][base]
                    for figure in ("train", "processor", "memory")
                )
                cells.append(f"{time.median():.2f} ({time.min():.2f}–{time.max():.2f})")
                cells += [f"{processor.median():.2f}", f"{memory.median():.2f}"]
            yield cells

    head = ["", "relative to"]
    for shape, own in found.groupby("shape"):
        n_tasks = SHAPES[shape][2]
        head += [f"{own['rows'].iloc[0]:,} rows, {n_tasks} tasks: time", "processor", "memory"]
    return table(head, rows())


def quantized_gradients() -> str:
    """Time and memory relative to runs without rounding: medians; of time least and most."""
    found = results("quantized_gradients")
    shapes = {
        shape: own.pivot(index="turn", columns="method") for shape, own in found.groupby("shape")
    }

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
    for shape, own in found.groupby("shape"):
        n_tasks = SHAPES[shape][2]
        head += [f"{own['rows'].iloc[0]:,} rows, {n_tasks} tasks: processor time"]
        head += ["least and most", "memory"]
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


TABLES = (split_scores, routes, common_stage, quantized_gradients, task_splits, symmetric_trees)
