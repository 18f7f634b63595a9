# SPDX-License-Identifier: Apache-2.0
"""Tables of single methods for published.py: each function makes one of ``results/*.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pandas as pd
from intervals import row_of as interval_cells
from markdown_tables import gain, plain, results, table
from next_month import table as gains_of_ways
from scipy.stats import ttest_1samp, wilcoxon
from task_comparison import scores_of

# ---- docs/results.md -----------------------------------------------------------------------------


def school_landmine() -> str:
    """Two public data sets: each tuned method, and the gain of fit over it."""
    methods = ["pooled", "independent", "one-hot", "category", "LightGBM category"]
    methods += ["CatBoost category", "MT extra trees", "two-stage rounds", "auto", "auto thorough"]
    found = results("never_worse")
    scores = {
        (data, score.metric): score
        for data in ("school", "landmine")
        for score in scores_of(found[found["data"] == data], methods)
    }
    chosen = [scores["school", "rmse"], scores["school", "explained"], scores["landmine", "auc"]]

    def rows() -> Iterator[list[str]]:
        for method in methods:
            cells = [method]
            for score in chosen:
                by_seed = score.by_seed
                difference = score.sign * (by_seed["auto"] - by_seed[method])
                cells.append(plain(by_seed[method].mean()))
                if score is not chosen[1]:
                    cells.append(gain(difference) if method != "auto" else "")
            yield cells

    head = ["", "School, RMSE", "gain of auto", "School, explained", "Landmine, AUC"]
    return table([*head, "gain of auto"], rows())


def scenes() -> str:
    """Area under the curve of two tasks, and gains over two alternatives."""
    found = results("scenes")
    tasks = {"task1": "task1 (small)", "task2": "task2"}
    wide = found.pivot(index="seed", columns="method", values=[*tasks])

    def rows() -> Iterator[list[str]]:
        for method in found["method"].unique():
            cells = [method]
            for task in tasks:
                own = wide[task]
                cells.append(plain(own[method].mean()))
                for base in ("pooled", "independent"):
                    is_gain = method.startswith("mtboost")
                    cells.append(gain(own[method] - own[base]) if is_gain else "")
            yield cells

    head = [cell for title in tasks.values() for cell in (title, "over pooled", "over independent")]
    return table([f"{len(wide)} seeds", *head], rows())


# ---- pages of the methods ------------------------------------------------------------------------


def intervals_auto() -> str:
    """Coverage, spread and width of intervals by rows of a task, of the default strategy."""
    return _intervals("auto")


def intervals_two_stage() -> str:
    """The same of two stages."""
    return _intervals("two-stage")


def _intervals(strategy: str) -> str:
    methods = ("mtboost", "mtboost, own rows", "MAPIE pooled", "MAPIE per task")
    found = results("intervals")
    found = found[found["strategy"] == strategy]
    columns = ["seed", "rows", "test_rows", "inside", "width"]

    def rows() -> Iterator[list[str]]:
        for data in ("heavy tails", "panel", "school", "wq"):
            tasks = found[found["data"] == data].explode(columns[1:])
            parts = {
                method: tasks.loc[tasks["method"] == method, columns].to_numpy(np.float64)
                for method in methods
            }
            for low, high in ((0, 50), (50, 200), (200, np.inf)):
                cells = []
                for part in parts.values():
                    is_of_size = (low < part[:, 1]) & (part[:, 1] <= high) & (part[:, 2] > 0)
                    if is_of_size.any():
                        ours = parts["mtboost"][is_of_size, 4]
                        size, mean, error, spread, width = interval_cells(part[is_of_size], ours)
                        error = "" if error == "nan" else f" ± {error}"
                        cells.append(f"{mean}{error}; {spread}; {width}".replace("0.", "."))
                if cells:
                    yield [data, " to ".join(dict.fromkeys(size.split(" to "))), *cells]

    titles = ["`fit(intervals=True)`", "`conformalize`", "MAPIE, pooled", "MAPIE, per task"]
    return table(["data", "rows of a task", *titles], rows())


def nested_tasks() -> str:
    """RMSE of fit with nested and with flat tasks, and of random intercepts."""
    return _nested("fit nested", "fit flat")


def nested_leaves() -> str:
    """The same of nested and of flat leaf values alone."""
    return _nested("nested leaves", "flat leaves")


def nested_by_tasks() -> str:
    """RMSE of new tasks where whole tasks choose the settings, and of rows that choose them."""
    nested, flat, peer = (
        f"{name}, by tasks" for name in ("fit nested", "fit flat", "GPBoost nested")
    )
    methods = (nested, flat, "fit nested", peer, "GPBoost nested")

    def rows() -> Iterator[list[str]]:
        for data, by_seed in _rmse_by_seed(methods):
            means = [f"{by_seed[method].mean():.3f}" for method in methods]
            others = (flat, "fit nested", peer, "GPBoost nested")
            gains = [gain(by_seed[other] - by_seed[nested], 3) for other in others]
            yield [data, str(len(by_seed)), *means, *gains]

    head = ["data", "seeds", *methods]
    return table(
        [*head, "gain over flat", "over rows", "over GPBoost", "over GPBoost by rows"], rows()
    )


def nested_signs() -> str:
    """In how many seeds nested tasks are better than flat ones and than random intercepts."""
    methods = ("fit nested", "fit flat", "GPBoost nested")

    def rows() -> Iterator[list[str]]:
        for data, by_seed in _rmse_by_seed(methods):
            cells = []
            for other in methods[1:]:
                gains = by_seed[other] - by_seed[methods[0]]
                p = wilcoxon(gains).pvalue
                cells.append(f"{(gains > 0).sum()} of {len(gains)} (p = {plain(p)})")
            yield [data, *cells]

    return table(["seeds with nested tasks ahead of", "flat ones", "GPBoost"], rows())


def _nested(nested: str, flat: str) -> str:
    methods = (nested, flat, "GPBoost nested")

    def rows() -> Iterator[list[str]]:
        for data, by_seed in _rmse_by_seed(methods):
            gains = [gain(by_seed[other] - by_seed[nested], 3) for other in methods[1:]]
            means = [f"{by_seed[method].mean():.3f}" for method in methods]
            yield [data, str(len(by_seed)), *means, *gains]

    head = ["data", "seeds", nested, flat, "GPBoost nested"]
    return table([*head, "gain over flat", "gain over GPBoost"], rows())


def _rmse_by_seed(methods: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield sets of nested tasks, and RMSE of methods, where two seeds have all of them."""
    found = results("nested_tasks")
    found = found[found["method"].isin(methods)]
    for data, own in found.groupby("data", sort=False):
        rmse = own["scores"].map(lambda scores: scores.get("rmse", np.nan))
        by_seed = rmse.groupby([own["seed"], own["method"]]).first().unstack()
        by_seed = by_seed.reindex(columns=list(methods)).dropna()
        if len(by_seed) >= 2:
            yield str(data), by_seed


def quantiles() -> str:
    """Pinball losses relative to mtboost, for the smallest and the largest tasks."""
    found = results("quantiles")

    def rows() -> Iterator[list[str]]:
        for data, of_data in found.groupby("data", sort=False):
            tasks = of_data.explode(["rows", "loss", "below"])
            edges = tasks["rows"].astype(int).quantile([0.25, 0.75])
            for own in (tasks[tasks["rows"] <= edges[0.25]], tasks[tasks["rows"] > edges[0.75]]):
                part = own if len(own) else tasks[tasks["rows"] == edges[0.75]]
                ends = f"{part['rows'].min()} to {part['rows'].max()}"
                size = " to ".join(dict.fromkeys(ends.split(" to ")))
                means = {
                    method: [np.mean(values[name].tolist(), axis=0) for name in ("loss", "below")]
                    for method, values in part.groupby("method", sort=False)
                }
                base = means["mtboost two-stage"][0]
                for method, (loss, below) in means.items():
                    cells = [f"{value:.2f}" for value in loss / base]
                    yield [str(data), size, method, *cells, plain(below[-1])]

    head = ["data", "rows of a task", "", "loss .1", "loss .5", "loss .9", "below .9"]
    return table(head, rows())


def ranking() -> str:
    """NDCG of markets that differ, and of markets that are alike; small ones in brackets."""
    found = results("ranking")
    means = found.groupby(["method", "data"], sort=False)[["all tasks", "small tasks"]].mean()

    def rows() -> Iterator[list[str]]:
        for method in found["method"].unique():
            pairs = [means.loc[(method, data)] for data in ("markets", "alike")]
            yield [method, *(f"{plain(first)} ({plain(second)})" for first, second in pairs)]

    return table(["method", "markets that differ", "markets that are alike"], rows())


def machines_megabytes() -> str:
    """What a worker sends for each tree."""
    found = _machines()
    found["sent"] = found["megabytes"].map(lambda parts: sum(parts.values()))
    return _of_machines(found, "sent", "{:.3g}")


def machines_time() -> str:
    """Processor time of a round, as a multiple of stock XGBoost's."""
    found = _machines()
    found["ratio"] = found["of stock"].map(lambda parts: parts[0])
    return _of_machines(found, "ratio", "{:.2f}")


def _machines() -> pd.DataFrame:
    found = results("several_machines")
    return found[found["pooling"].isna()].copy()


def _of_machines(found: pd.DataFrame, column: str, form: str) -> str:
    scores: Sequence[str] = ("plain", "entropy", "variance")
    values = found.set_index(["tasks", "whole", "score"])[column]

    def rows() -> Iterator[list[str]]:
        for n_tasks in sorted(found["tasks"].unique()):
            cells = [
                form.format(values[key]) if (key := (n_tasks, whole, score)) in values else ""
                for whole, score in product((False, True), scores)
            ]
            yield [f"{n_tasks:,}", *cells]

    return table(["tasks", *scores, *(f"{score}, each on one worker" for score in scores)], rows())


def fraud_scenes() -> str:
    """Rows and columns of each task of the scenes, and the AUC that no model exceeds."""
    found = results("fraud_scene_shapes")
    n_seeds = found["seed"].nunique()
    head = ["scene", "task", "negative", "positive (expected)", "features", "in common"]

    def rows() -> Iterator[list[str]]:
        for (scene, task), own in found.groupby(["scene", "task"]):
            counts = own[["negative", "positive", "features", "common"]].iloc[0]
            auc = f"{own['auc'].mean():.3f} ± {own['auc'].std():.3f}"
            yield [scene, task, *(f"{count:,}".replace(",", " ") for count in counts), auc]

    return table([*head, f"Bayes AUC ({n_seeds} seeds)"], rows())


def feature_priors() -> str:
    """Error of stock XGBoost by how features are sampled, as a part of the variance of y."""
    found = results("feature_priors")
    methods = list(dict.fromkeys(found["method"]))
    means = found.groupby(["data", "rows", "method"])["error"].mean()
    n_problems = found["problem"].nunique()

    def rows() -> Iterator[list[str]]:
        for data in found["data"].unique():
            for n_rows in found["rows"].unique():
                errors = means[data, n_rows]
                yield [data, str(n_rows), *(plain(errors.get(m, np.nan)) for m in methods)]

    head = [f"{n_problems} problems of", "rows", *methods]
    return table(head, rows()).replace(" nan |", " |")


def signum() -> str:
    """MSE of all features, and of each way of sampling them divided by that."""
    found = results("signum")
    titles = {
        "PFS": "prior",
        "by gain": "by gain",
        "PFS1": "max_features=1",
        "even": "uniform",
        "DFS": "dynamic",
        "known": "known c²",
        "known, no floor": "known c², floor=0",
    }

    def rows() -> Iterator[list[str]]:
        for n_rows, own in found.groupby("rows"):
            squares = own.pivot(index="problem", columns="method", values="mse")
            base = squares["GBT"].str[0]
            cells = []
            for method in titles:
                ratios = np.array(squares[method].tolist()) / base.to_numpy()[:, None]
                is_clear = ttest_1samp(ratios, 1, axis=1).pvalue < 0.05
                is_better = ratios.mean(axis=1) < 1
                counts = (is_clear & is_better).sum(), (is_clear & ~is_better).sum()
                cells.append(f"{plain(ratios.mean())} ({counts[0]}, {counts[1]})")
            yield [str(n_rows), plain(base.mean()), *cells]

    return table(["rows", "MSE of all features", *titles.values()], rows())


def linear_effects() -> str:
    """Explained part of the signal without linear effects, and with those of the search."""
    found = results("linear_effects")
    titles = {
        "without": "`linear_effects=False`",
        "searched": "searched (default)",
    }

    def rows() -> Iterator[list[str]]:
        for data, own in found.groupby("data", sort=False):
            scores = own.pivot(index="seed", columns="method", values="explained")
            cells = [", ".join(map(plain, scores[method])) for method in titles]
            yield [data, *cells, gain(scores["searched"] - scores["without"], 3)]

    return table(["", *titles.values(), "gain of the search"], rows())


def prior_linear() -> str:
    """Error of linear problems by how features are drawn, divided by the variance."""
    titles = {
        "GBT": "GBT",
        "filtered": "GBT, features by Pearson's test",
        "PFS": "prior",
        "by gain": "by gain",
        "even": "uniform",
    }
    found = _prior_errors("prior_linear", "rows")
    rows = ([str(n_rows), *_best_bold(own[list(titles)])] for n_rows, own in found.iterrows())
    return table(["rows", *titles.values()], rows)


def prior_ucr() -> str:
    """Error of time series by how features are drawn, and that of the paper."""
    titles = {
        "GBT": "GBT",
        "PFS": "prior",
        "by gain": "by gain",
        "PFS1": "max_features=1",
        "even": "uniform",
    }
    of_paper = {  # eruhimov2007, table 2
        "coffee": ("Coffee", "0, .168"),
        "gunpoint": ("GunPoint", ".087, .087"),
        "cbf": ("CBF", ".029, .001"),
        "trace": ("Trace", "0, 0"),
    }
    found = _prior_errors("prior_ucr", "data")
    rows = (
        [title, *map(plain, found.loc[name, list(titles)]), paper]
        for name, (title, paper) in of_paper.items()
    )
    return table(["", *titles.values(), "paper: GBT, prior"], rows)


def _prior_errors(file: str, key: str) -> pd.DataFrame:
    found = results(file)
    mean = found["error"].map(np.mean)
    return mean.groupby([found[key], found["method"]]).mean().unstack()


def _best_bold(errors: pd.Series) -> list[str]:
    best = errors.idxmin()
    return [f"**{plain(own)}**" if name == best else plain(own) for name, own in errors.items()]


def machine_faults() -> str:
    """Seconds from the kill of a worker to the error."""
    found = results("machine_faults")
    found = found[found["error"] != "finished"]
    titles = {
        "collective": "`TaskSplit` in a collective",
        "dask": "`mtboost.dask.fit`",
        "divided": "`mtboost.dask.fit`, a divided task",
    }
    by_engine = found.groupby("engine")["error after"]
    rows = (
        [title, str(len(own)), f"{own.median():.1f}", f"{own.max():.1f}"]
        for engine, title in titles.items()
        for own in [by_engine.get_group(engine)]
    )
    return table(["training", "kills", "median", "most"], rows)


def survival() -> str:
    """Table of docs/survival.md: concordance of all tasks (of the small ones), mean of seeds."""
    found = results("survival")
    found = found.drop_duplicates(["set", "seed", "method"], keep="last")
    names = list(dict.fromkeys(found["set"]))
    means = found.groupby(["method", "set"])[["all", "small"]].mean()
    rows = [f"| method | {' | '.join(f'`{name}`' for name in names)} |", "|---" * 4 + "|"]
    for method in dict.fromkeys(found["method"]):
        cells = [
            f"{values['all']:.3f} ({values['small']:.3f})"
            for values in (means.loc[(method, name)] for name in names)
        ]
        rows.append(f"| {method} | {' | '.join(cells)} |")
    n_seeds = found["seed"].nunique()
    rows.append(f"\nNumber of seeds: {n_seeds}.")
    return "\n".join(rows) + "\n"


def calibrated() -> str:
    """Scores without calibration, and their gains by it."""
    found = results("calibration")
    titles = ("log loss", "Brier score", "calibration error")

    def rows() -> Iterator[list[str]]:
        for (data, strategy), own in found.groupby(["data", "strategy"], sort=False):
            plain_scores = np.array(own["without"].tolist())
            gains = plain_scores - np.array(own["with"].tolist())
            cells = [f"{data}, {strategy}", str(len(own))]
            for before, gained in zip(plain_scores.T, gains.T, strict=True):
                cells += [plain(before.mean()), gain(pd.Series(gained))]
            yield cells

    heads = [cell for title in titles for cell in (title, "gain")]
    return table(["data, strategy", "seeds", *heads], rows())


def next_month() -> str:
    """Gains of what can be done with a month of new labels over keeping the model."""
    titles = {
        "none": "nothing",
        "level": "fraud more frequent",
        "common": "effects, all channels",
        "channel": "effects, two channels",
        "seconds": "seconds",
    }
    cells = gains_of_ways(results("next_month"))[list(titles)]
    rows = (
        [f"`{way}`" if "fit" not in way and "model" not in way else way, *own]
        for way, own in cells.iterrows()
    )
    return table(["", *titles.values()], rows)


TABLES = (
    school_landmine,
    scenes,
    intervals_auto,
    intervals_two_stage,
    nested_tasks,
    nested_leaves,
    nested_by_tasks,
    nested_signs,
    quantiles,
    ranking,
    machines_megabytes,
    machines_time,
    fraud_scenes,
    feature_priors,
    signum,
    linear_effects,
    prior_linear,
    prior_ucr,
    machine_faults,
    survival,
    calibrated,
    next_month,
)
