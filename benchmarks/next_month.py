# SPDX-License-Identifier: Apache-2.0
"""A month later: keep the model, refresh it, update it, or fit it again?

Fraud in six channels of very different size: 70% of the rows in the largest, 1% in the smallest.
The log-odds are a common function of ten columns and one of each channel. A model is fitted on
months 1 to 6, sees the labels of month 7, and is tested on month 8. The function changes at the
end of month 6 and stays then, in one of four ways:

    none     not at all
    level    fraud becomes more frequent everywhere, and much more in one channel
    common   the effects of some columns change in all channels alike
    channel  they change in two channels only

The results are appended to a file of JSON lines, and what it contains is not computed again. The
table has the mean test log loss of the kept model over the best possible one, the gains of the
others over it with the standard error of the paired differences, and processor seconds.

    python benchmarks/next_month.py --out results.jsonl [--seeds 10] [--threads 1]
    python benchmarks/next_month.py --out results.jsonl --table

results/next_month.jsonl contains the results so far.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.special
from sklearn.metrics import log_loss

import mtboost

SHARES = np.array([0.70, 0.15, 0.08, 0.04, 0.02, 0.01])
DRIFTS = ("none", "level", "common", "channel")
N_COLUMNS = 10
KEPT = "kept model"
Rows = tuple[Any, Any, Any, Any]


class World:
    """The function that labels are drawn from, before and after the change."""

    def __init__(self, drift: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        shape = (len(SHARES), N_COLUMNS)
        before = self.rng.normal(size=N_COLUMNS) + 0.5 * self.rng.normal(size=shape)
        after, level = before.copy(), np.zeros(len(SHARES))
        change = self.rng.normal(size=N_COLUMNS) * (np.arange(N_COLUMNS) < 4)
        if drift == "level":
            level = np.array([0.5, 0.5, 2.0, 0.5, 0.5, 0.5])
        elif drift == "common":
            after += change
        elif drift == "channel":
            after[[1, 3]] += 1.5 * change
        self.effects, self.levels = (before, after), (np.zeros(len(SHARES)), level)

    def month(self, n_rows: int, *, is_late: bool) -> Rows:
        """Columns, labels, channels and the true probabilities of a month."""
        X = self.rng.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
        channel = self.rng.choice(len(SHARES), n_rows, p=SHARES)
        effects, level = self.effects[is_late], self.levels[is_late]
        score = (np.tanh(X) * effects[channel]).sum(axis=1) + X[:, 0] * X[:, 1]
        p = scipy.special.expit(0.8 * score - 3.0 + level[channel])
        return X, (self.rng.random(n_rows) < p).astype(np.int64), channel, p


def stacked(*months: Rows) -> Rows:
    X, y, channel, p = (np.concatenate(parts) for parts in zip(*months, strict=True))
    return X, y, channel, p


def ways(past: Rows, new: Rows, options: dict[str, Any]) -> dict[str, Callable[[Any], Any]]:
    """What can be done with new labels, by name: functions of the model that there is."""
    own = {"task": new[2], "n_threads": options["n_threads"]}

    def fit(rows: Rows) -> mtboost.MultiTaskModel:
        return mtboost.fit(rows[0], rows[1], task=rows[2], **options)

    return {
        KEPT: lambda model: fit(past) if model is None else model,
        "refresh(shrink=1)": lambda model: model.refresh(*new[:2], **own),
        "refresh(shrink=0.1)": lambda model: model.refresh(*new[:2], shrink=0.1, **own),
        "refresh(shrink=0)": lambda model: model.refresh(*new[:2], shrink=0.0, **own),
        "update": lambda model: model.update(*new[:2], **own),
        "fit on all months": lambda _: fit(stacked(past, new)),
        "fit on the new month": lambda _: fit(new),
    }


def run(drift: str, seed: int, n_rows: int, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the loss and the time of each way."""
    world = World(drift, seed)
    past = stacked(*(world.month(n_rows, is_late=False) for _ in range(6)))
    new = world.month(n_rows, is_late=True)
    # A test set that says more than one month would.
    test = stacked(*(world.month(n_rows, is_late=True) for _ in range(10)))
    kept = None
    for way, make in ways(past, new, options).items():
        begin = time.process_time()
        model = make(kept)
        seconds = time.process_time() - begin
        kept = kept or model
        p = np.asarray(model.predict(test[0], task=test[2], unknown_task="common"), float)
        losses = {"loss": log_loss(test[1], p), "best": log_loss(test[1], test[3])}
        yield {"drift": drift, "seed": seed, "way": way, **losses, "seconds": round(seconds, 2)}


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the table of docs/working_week.md: gains over the kept model, by drift."""
    found = results.set_index(["drift", "way", "seed"]).sort_index()
    kept = found.xs(KEPT, level="way")
    cells: dict[str, dict[str, str]] = {}
    for way in dict.fromkeys(results["way"]):
        cells[way] = {}
        for drift in dict.fromkeys(results["drift"]):
            own = found.loc[drift, way]
            gain = kept.loc[drift, "loss"] - own["loss"]
            error = gain.std() / np.sqrt(len(gain))
            cells[way][drift] = f"{gain.mean():+.4f} ± {error:.4f}"
            if way == KEPT:
                cells[way][drift] = (
                    f"{(own['loss'] - own['best']).mean():.4f} above the best possible"
                )
        own = results[results["way"] == way]
        cells[way]["seconds"] = f"{own['seconds'].median():.1f}"
    return pd.DataFrame(cells).T


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    parser.add_argument("--table", action="store_true", help="only print what the file contains")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2000, help="of a month")
    parser.add_argument("--strategy", default="two-stage")
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    options = {"n_threads": asked.threads, "strategy": asked.strategy, "effort": asked.effort}
    lines = asked.out.read_text("utf-8").splitlines() if asked.out.exists() else []
    results = [json.loads(line) for line in lines]
    known = {(each["drift"], each["seed"]) for each in results}
    for seed, drift in [] if asked.table else product(range(asked.seeds), DRIFTS):
        if (drift, seed) not in known:
            found = list(run(drift, seed, asked.rows, options))
            results += found
            with asked.out.open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(each)}\n" for each in found)
    print(table(pd.DataFrame(results)).to_string())


if __name__ == "__main__":
    main()
