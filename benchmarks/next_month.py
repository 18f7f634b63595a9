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

Mean test log loss over the seeds with its standard error, the difference from the best possible log
loss, the standard error of the paired difference from the kept model, and seconds.

    python benchmarks/next_month.py [--seeds 10] [--rows 2000] [--strategy two-stage] [--threads 2]
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from sklearn.metrics import log_loss

import mtboost

SHARES = np.array([0.70, 0.15, 0.08, 0.04, 0.02, 0.01])
DRIFTS = ("none", "level", "common", "channel")
N_COLUMNS = 10
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2000, help="of a month")
    parser.add_argument("--strategy", default="two-stage")
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    options = {"n_threads": asked.threads, "strategy": asked.strategy, "effort": asked.effort}

    def fit(rows: Rows) -> mtboost.MultiTaskModel:
        return mtboost.fit(rows[0], rows[1], task=rows[2], **options)

    heads = ("log loss", "± se", "excess", "gain", "± se", "s")
    print(f"{'drift':9}{'way':22}" + "".join(f"{head:>9}" for head in heads))
    for drift in DRIFTS:
        losses, seconds = defaultdict(list), defaultdict(list)
        for seed in range(asked.seeds):
            world = World(drift, seed)
            past = stacked(*(world.month(asked.rows, is_late=False) for _ in range(6)))
            new, test = (world.month(asked.rows, is_late=True) for _ in range(2))
            # A test set that says more than one month would.
            test = stacked(test, *(world.month(asked.rows, is_late=True) for _ in range(9)))
            model = fit(past)
            own = {"task": new[2], "n_threads": asked.threads}
            ways: dict[str, Callable[[], mtboost.MultiTaskModel]] = {
                "keep": lambda model=model: model,
                "refresh(shrink=1)": lambda model=model, new=new, own=own: model.refresh(
                    *new[:2], **own
                ),
                "refresh(shrink=0.1)": lambda model=model, new=new, own=own: model.refresh(
                    *new[:2], shrink=0.1, **own
                ),
                "refresh(shrink=0)": lambda model=model, new=new, own=own: model.refresh(
                    *new[:2], shrink=0.0, **own
                ),
                "update": lambda model=model, new=new, own=own: model.update(*new[:2], **own),
                "fit on all months": lambda past=past, new=new: fit(stacked(past, new)),
                "fit on the new month": lambda new=new: fit(new),
            }
            best = log_loss(test[1], test[3])
            for way, make in ways.items():
                begin = time.perf_counter()
                found = make()
                seconds[way].append(time.perf_counter() - begin)
                p = np.asarray(found.predict(test[0], task=test[2], unknown_task="common"), float)
                losses[way].append((log_loss(test[1], p), best))
        kept = np.array(losses["keep"])[:, 0]
        for way, pairs in losses.items():
            loss, best = np.array(pairs).T
            gain = kept - loss
            errors = [np.std(each, ddof=1) / np.sqrt(len(loss)) for each in (loss, gain)]
            print(
                f"{drift:9}{way:22}{loss.mean():9.4f}{errors[0]:9.4f}{(loss - best).mean():9.4f}"
                f"{gain.mean():9.4f}{errors[1]:9.4f}{np.median(seconds[way]):9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
