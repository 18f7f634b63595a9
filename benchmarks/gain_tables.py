# SPDX-License-Identifier: Apache-2.0
"""Gains, paired over seeds, for published.py: functions make blocks of ``results/*.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from markdown_tables import gain, plain, results, seconds, table
from task_comparison import scores_of, verdict


def survival_gains() -> str:
    """Gains of concordance of the search with Cox's likelihood over each other method."""
    found = results("survival").drop_duplicates(["set", "seed", "method"], keep="last")
    names = list(dict.fromkeys(found["set"]))
    others = [method for method in dict.fromkeys(found["method"]) if method != "mtboost"]
    titles = [f"`{name}`" for name in names]
    return _gains(found, "set", names, ("all", "small"), "mtboost", others, titles)


def ranking_gains() -> str:
    """Gains of NDCG of the search over each other method."""
    found = results("ranking")
    others = [method for method in found["method"].unique() if method != "mtboost, auto"]
    titles = ["markets that differ", "markets that are alike"]
    sizes = ("all tasks", "small tasks")
    return _gains(found, "data", ["markets", "alike"], sizes, "mtboost, auto", others, titles)


def _gains(
    found: pd.DataFrame,
    key: str,
    names: list[str],
    sizes: tuple[str, str],
    reference: str,
    others: list[str],
    titles: list[str],
) -> str:
    """Return a table of gains over other methods: of all tasks (of the small ones)."""
    wide = found.pivot(index="seed", columns=[key, "method"], values=list(sizes))

    def rows() -> Iterator[list[str]]:
        for method in others:
            cells = []
            for name in names:
                both = [
                    gain(wide[size, name, reference] - wide[size, name, method], 3)
                    for size in sizes
                ]
                cells.append(f"{both[0]} ({both[1]})")
            yield [method, *cells]

    return table(["gain over", *titles], rows())


def quantile_gains() -> str:
    """Percentages by which the search has a smaller pinball loss than each other method."""
    found = results("quantiles")
    found["mean loss"] = found["loss"].map(lambda losses: float(np.mean(losses)))
    names, reference = list(dict.fromkeys(found["data"])), "mtboost auto"
    wide = found.pivot(index="seed", columns=["data", "method"], values="mean loss")

    def rows() -> Iterator[list[str]]:
        for method in found["method"].unique():
            if method == reference:
                continue
            cells = []
            for name in names:
                percent = 100 * (1 - wide[name, reference] / wide[name, method])
                cells.append(f"{percent.mean():+.1f}\u00a0±\u00a0{percent.sem():.1f}")
            yield [method, *(cell.replace("-", "−") for cell in cells)]

    return table(["loss in % below that of", *names], rows())


def prior_ratio() -> str:
    """Error with the prior, divided by that without sampling."""
    found = results("feature_priors")
    errors = found.pivot_table(index=["data", "rows", "problem"], columns="method", values="error")
    ratios = (errors["prior"] / errors["all features"]).groupby(["data", "rows"]).mean()
    shown = ", ".join(f"{plain(ratio)} for {n:,}" for n, ratio in ratios["signum"].items())
    return (
        "Over Signum problems the mean ratio of the error with the prior to that without sampling, "
        f"by the number of rows:\n{shown} (the paper: .87 for 100).\n"
    )


def default_gains() -> str:
    """Data sets on which the default is better or worse than what needs no tuning."""
    methods = ["XGBoost default", "LightGBM default", "CatBoost default", "linear"]
    titles = {method: method.replace(" default", ", defaults") for method in methods[:3]}
    titles["linear"] = "shrunken linear effects"
    found = results("never_worse")
    found = found[found["method"].isin(["auto", *methods])]
    counts = {method: {"better": 0, "tied": 0, "worse": 0} for method in methods}
    for _, own in found.groupby("data"):
        score = scores_of(own, ["auto", *methods])[0]
        difference, error = score.difference("auto")
        for method in methods:
            if method in difference and not np.isnan(error[method]):
                counts[method][verdict(score.sign * difference[method], error[method])] += 1
    rows = ([titles[name], *map(str, own.values())] for name, own in counts.items())
    return table(["default of `fit` against", "better", "tied", "worse"], rows)


def grouped() -> str:
    """The default of fit against other methods on grouped tables, by log loss or RMSE."""
    methods, means = ["auto", *GROUPED], grouped_means()
    excess, ranks = 100.0 * (means.div(means["auto"], axis=0) - 1.0), means.rank(axis=1).mean()
    used = results("grouped").groupby("method")["seconds"].mean()

    def rows() -> Iterator[list[str]]:
        for method in methods:
            own, title = excess[method], GROUPED.get(method, "default of `fit`")
            compared = (str((own > 0.0).sum()), str((own < 0.0).sum()), gain(own, 1))
            is_fit = method == "auto"
            cells = ("", "", "") if is_fit else compared
            yield [title, f"{ranks[method]:.1f}", *cells, seconds(used[method])]

    head = ["", "mean rank", "`fit` better", "`fit` worse", "its loss above that of `fit`, %"]
    return table([*head, "processor seconds"], rows())


def grouped_means() -> pd.DataFrame:
    """Return the log loss or RMSE of each table and method, the mean over seeds."""
    found = results("grouped")
    second = {
        name: scores_of(own, ["auto", *GROUPED])[1].by_seed.mean()
        for name, own in found.groupby("data")
    }
    return pd.DataFrame(second).T


GROUPED = {
    "CatBoost default": "CatBoost, defaults",
    "LightGBM default": "LightGBM, defaults",
    "one-hot": "XGBoost, tuned, one-hot tasks",
    "linear": "shrunken linear effects, tuned",
}
TABLES = (
    grouped,
    survival_gains,
    ranking_gains,
    quantile_gains,
    prior_ratio,
    default_gains,
)
