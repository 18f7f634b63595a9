# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/projected_boosting.md for published.py: each makes one of ``results/*.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_tables import gain, plain, results, seconds, table


def many_outputs_speed() -> str:
    """Seconds of a round, its ratio, memory, and the error after all rounds."""
    found = results("many_outputs_speed")
    titles = {
        "relabel": "`gbrt-relabel-rpo`, five components",
        "gbmort": "`gbmort`",
        "split_gradient": "XGBoost with `ProjectedObjective`",
        "xgboost": "XGBoost, vector leaf",
        "catboost": "CatBoost, MultiRMSE",
    }

    def rows() -> Iterator[list[str]]:
        for method, title in titles.items():
            cells = [title]
            for _, own in found.groupby("outputs"):
                by_turn = own.pivot(index="turn", columns="method")
                ours, theirs = (
                    by_turn.xs("relabel", axis=1, level=1),
                    by_turn.xs(method, axis=1, level=1),
                )
                ratio = (theirs["round"] / ours["round"]).median()
                n_rounds = int(theirs["rounds"].min())
                errors = [frame["errors"].iloc[0] for frame in (theirs, ours)]
                error = plain(errors[0][-1])
                if n_rounds < ours["rounds"].max():
                    error += f" after {n_rounds} ({plain(errors[1][n_rounds - 1])})"
                memory = theirs["memory"].median()
                used = theirs["round"].median()
                cells += [plain(used) if used < 1 else seconds(used), f"{ratio:.2g}"]
                cells += [f"{memory:,.0f}" if memory >= 1 else "not seen", error]
            yield cells

    head = [""]
    for n_outputs in sorted(found["outputs"].unique()):
        head += [f"{n_outputs} outputs: s", "ratio", "MB", "error"]
    return table(head, rows())


def friedman_outputs() -> str:
    """Macro-R² of each strategy, and its gain over single targets."""
    found = results("friedman_outputs")
    methods = list(dict.fromkeys(found["method"]))

    def rows() -> Iterator[list[str]]:
        for (noise, data), own in found.groupby(["noise", "data"], sort=False):
            scores = own.pivot(index="seed", columns="method", values="r2")
            cells = [f"{data} and 16 of noise" if noise else data]
            for method in methods:
                difference = gain(scores[method] - scores[methods[0]], 3)
                cells.append(plain(scores[method].mean()))
                cells[-1] += f" ({difference})" if method != methods[0] else ""
            yield cells

    return table([f"{found['seed'].nunique()} seeds", *methods], rows())


def many_outputs_accuracy() -> str:
    """Score with its standard error, and seconds, of each method; the best is bold."""
    found = results("many_outputs_accuracy")
    titles = {
        "emotions": "emotions (6 labels)",
        "yeast": "yeast (14 labels)",
        "atp1d": "atp1d (6 numbers)",
        "wq": "wq (14 numbers)",
    }
    titles = {data: title for data, title in titles.items() if data in set(found["data"])}
    of_data = found.groupby(["data", "method"])
    scores, used = of_data["score"].agg(["mean", "sem"]), of_data["seconds"].mean()

    def rows() -> Iterator[list[str]]:
        for method in found["method"].unique():
            cells = [method]
            for data in titles:
                mean, error = scores.loc[(data, method)]
                is_best = mean == scores.loc[data]["mean"].max()
                score = f"{plain(mean)} ± {plain(error)}"
                cells += [f"**{score}**" if is_best else score, seconds(used[data, method])]
            yield cells

    return table(["", *(cell for title in titles.values() for cell in (title, "s"))], rows())


TABLES = (many_outputs_speed, friedman_outputs, many_outputs_accuracy)
