# SPDX-License-Identifier: Apache-2.0
"""What does a prior on features give, and what does drawing by it cost? (eruhimov2007)

Boosting with all features (GBT), with features drawn by the importances of the other problems
(PFS, or by their gains), one of them a node (PFS1), evenly, or by the importances so far (DFS): 200
trees of depth 3, learning rate 0.1. Priors are leave-one-out: of models of the other problems, none
of whose rows are this one's.

    python benchmarks/prior_sampling.py signum   section 4.1, figure 2: MSE
    python benchmarks/prior_sampling.py linear   figure 5: MSE / variance; GBT by a Pearson filter
    python benchmarks/prior_sampling.py ucr --data FOLDER   table 2: raw series, at most 50 rows
    python benchmarks/prior_sampling.py digits   table 1, with scikit-learn's 8 x 8 digits
    python benchmarks/prior_sampling.py speed    time of a tree with 10,000 features

The first three write their results anew, to results/signum.jsonl, prior_linear.jsonl and
prior_ucr.jsonl, or to --out FILE.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.feature_selection import f_regression

from mtboost import PriorSamplingClassifier, PriorSamplingRegressor
from mtboost.datasets import make_shared_linear, make_signum

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from plot_time_series_prior import resample_series

N_PROBLEMS, N_REPEATS = 10, 10
Problem = tuple[np.ndarray, np.ndarray]
Metric = Callable[[Any, np.ndarray, np.ndarray], float]
Priors = dict[str, np.ndarray]  # by the kind of importance
KINDS: dict[str, dict[str, Any]] = {
    "PFS": {"prior": "impurity"},
    "by gain": {"prior": "gain"},
    "PFS1": {"prior": "impurity", "max_features": 1},
    "even": {"prior": None},
    "DFS": {"prior": None, "dynamic": True},
}
KNOWN: dict[str, dict[str, Any]] = {
    "known": {"prior": "known"},
    "known, no floor": {"prior": "known", "floor": 0.0},
}


def mse(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((y - model.predict(X)) ** 2))


def error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(model.predict(X) != y))


def importances(make: Callable[..., Any], problems: Sequence[Problem]) -> list[Priors]:
    found = []
    for X, y in problems:
        model = make(max_features=None).fit(X, y)
        own = {"impurity": model.feature_importances_}
        found.append(own | {"gain": model.set_params(importance_type="gain").feature_importances_})
    return found


def mean_of(found: Sequence[Priors]) -> Priors:
    return {kind: np.mean([own[kind] for own in found], axis=0) for kind in found[0]}


def errors(
    make: Callable[..., Any],
    priors: Priors,
    train: Problem,
    test: Problem,
    metric: Metric,
    kinds: dict[str, dict[str, Any]] = KINDS,
) -> dict[str, np.ndarray]:
    """Of GBT, and of each kind of draws N_REPEATS times."""
    found = {"GBT": np.array([metric(make(max_features=None).fit(*train), *test)])}
    for kind, options in kinds.items():
        prior = priors.get(options["prior"])
        models = [
            make(random_state=seed, **options | {"prior": prior}) for seed in range(N_REPEATS)
        ]
        found[kind] = np.array([metric(model.fit(*train), *test) for model in models])
    return found


Entries = Iterator[dict[str, Any]]
RESULTS = Path(__file__).parent / "results"


def rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in np.atleast_1d(values)]


def signum(_: argparse.Namespace) -> Entries:
    rng = np.random.default_rng(0)
    gammas = 1 - rng.random(N_PROBLEMS)
    for n_rows in (20, 100, 500):
        data = [
            make_signum(n_rows + 10_000, gamma=float(gamma), seed=seed)
            for seed, gamma in enumerate(gammas)
        ]
        trains = [(own.X[:n_rows], own.y[:n_rows]) for own in data]
        found = importances(PriorSamplingRegressor, trains)
        for k, own in enumerate(data):
            priors = mean_of([found[other] for other in range(N_PROBLEMS) if other != k])
            priors["known"] = own.importance
            test = own.X[n_rows:], own.y[n_rows:]
            kinds = KINDS | KNOWN
            squares = errors(PriorSamplingRegressor, priors, trains[k], test, mse, kinds)
            for method, values in squares.items():
                yield {"rows": n_rows, "problem": k, "method": method, "mse": rounded(values)}


def linear(_: argparse.Namespace) -> Entries:
    for n_rows in (20, 50, 100, 200):
        data = make_shared_linear(N_PROBLEMS, n_rows=n_rows + 1000, seed=0)
        trains = [(X[:n_rows], y[:n_rows]) for X, y in data.problems]
        known = importances(PriorSamplingRegressor, trains)
        for k, (X, y) in enumerate(data.problems):
            priors = mean_of([known[other] for other in range(N_PROBLEMS) if other != k])
            test = X[n_rows:], y[n_rows:]
            found = errors(PriorSamplingRegressor, priors, trains[k], test, mse)
            kept = f_regression(*trains[k])[1] < 0.05
            filtered = PriorSamplingRegressor(max_features=None).fit(
                X[:n_rows][:, kept], y[:n_rows]
            )
            found["filtered"] = np.array(mse(filtered, test[0][:, kept], test[1]))
            for method, values in found.items():
                own = rounded(values / test[1].var())
                yield {"rows": n_rows, "problem": k, "method": method, "error": own}


def digits(_: argparse.Namespace) -> None:
    print("Digits, 5 rows a class: mean error over 10 draws of the rows; p of a paired t-test")
    X, y = load_digits(return_X_y=True)

    def pair(a: int, b: int) -> Problem:
        rows = np.isin(y, (a, b))
        return X[rows], y[rows]

    even = [pair(a, b) for a, b in itertools.combinations(range(0, 10, 2), 2)]
    priors = mean_of(importances(PriorSamplingClassifier, even))
    print(f"{'':8}{'GBT':>8}" + "".join(f"{kind:>8}" for kind in KINDS) + f"{'p of PFS':>10}")
    for a, b in itertools.combinations(range(1, 10, 2), 2):
        found = []
        for seed in range(N_REPEATS):
            X_pair, y_pair = pair(a, b)
            order = np.random.default_rng(seed).permutation(len(y_pair))
            train = np.concatenate([order[y_pair[order] == label][:5] for label in (a, b)])
            test = np.setdiff1d(order, train)
            own = errors(
                PriorSamplingClassifier,
                priors,
                (X_pair[train], y_pair[train]),
                (X_pair[test], y_pair[test]),
                error,
            )
            found.append([values.mean() for values in own.values()])
        means = np.mean(found, axis=0)
        p = stats.ttest_rel(*np.array(found).T[:2]).pvalue
        print(
            f"{a} vs {b}  " + "".join(f"{mean:8.3f}" for mean in means) + f"{p:10.2g}", flush=True
        )


def ucr(args: argparse.Namespace) -> Entries:
    names = ("coffee", "gunpoint", "cbf", "trace")
    data = {}
    for name in names:
        with np.load(Path(args.data, f"{name}.npz"), allow_pickle=False) as file:
            X, y, is_test = file["X"].astype(np.float32), file["y"], file["split"] == 1
        data[name] = (X[~is_test][:50], y[~is_test][:50]), (X[is_test], y[is_test])
    for name in names:
        train, test = data[name]
        others = [
            (resample_series(X, train[0].shape[1]), y)
            for other, ((X, y), _) in data.items()
            if other != name
        ]
        priors = mean_of(importances(PriorSamplingClassifier, others))
        found = errors(PriorSamplingClassifier, priors, train, test, error)
        for method, values in found.items():
            yield {"data": name, "method": method, "error": rounded(values)}


def speed(_: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10_000)).astype(np.float32)
    y = X[:, :3].sum(axis=1)
    priors = {
        "even, without weights": None,
        "equal weights": np.ones(10_000),
        "like those of a model": np.exp(3 * rng.normal(size=10_000)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in priors}
    for _turn in range(5):
        for name, prior in priors.items():
            model = PriorSamplingRegressor(400, prior=prior, random_state=0, n_jobs=1)
            times: list[float] = []
            model.fit(X, y, callbacks=[lambda _, own=times: own.append(time.perf_counter())])
            seconds[name].append((times[-1] - times[0]) / (len(times) - 1))
    base = np.array(seconds["even, without weights"])
    print("200 rows, 10,000 features, 100 a node, depth 3: ms a tree, ratio (medians, paired)")
    for name, own in seconds.items():
        print(f"{name:24}{1e3 * np.median(own):8.2f}{np.median(np.array(own) / base):8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kept = {"signum": signum, "linear": linear, "ucr": ucr}
    printed = {"digits": digits, "speed": speed}
    parser.add_argument("question", choices=[*kept, *printed])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, help="file of results, written anew")
    args = parser.parse_args()
    if args.question in printed:
        printed[args.question](args)
        return
    name = args.question if args.question == "signum" else f"prior_{args.question}"
    with (args.out or RESULTS / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        for entry in kept[args.question](args):
            file.write(json.dumps(entry) + "\n")
            print(entry, flush=True)


if __name__ == "__main__":
    main()
