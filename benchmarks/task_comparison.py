# SPDX-License-Identifier: Apache-2.0
"""Comparison of methods on data sets: runs, appended to a file of JSON lines, and their tables.

A line is one data set, seed and method; a line that is in the file is not computed again. Seconds
are of processor time, with all that a method tries; they were not always taken down.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from task_data import IS_HIGHER_BETTER, TaskSet, names_in, read_task_set
from task_methods import Budget, Method, SkippedError

SEVERAL_ERRORS = 2  # standard errors that a difference must exceed to count
RANKED_BY = ("AUC or explained variance", "log loss or RMSE")  # the first two scores of a set

MakeTaskSet = Callable[[int, float], TaskSet]  # by seed and part of the training rows


# ---- command line --------------------------------------------------------------------------------


def main(
    arguments: Sequence[str] | None,
    description: str | None,
    generated: Mapping[str, MakeTaskSet],
    methods: Mapping[str, Method],
    references: Sequence[str],
    peers: Sequence[str],
    rows: Sequence[float] = (1.0,),
    seeds: int = 10,
) -> None:
    """Run what is missing, and print the tables of all that the file contains."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="data",
        help=f"tables of the folder, or of: {', '.join(generated)}; by default all",
    )
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    parser.add_argument("--table", action="store_true", help="only print what the file contains")
    parser.add_argument("--method", nargs="+", choices=methods, default=list(methods))
    parser.add_argument("--reference", nargs="+", choices=methods, default=references)
    parser.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    parser.add_argument(
        "--rows", nargs="+", type=float, default=rows, help="parts of the training rows to use"
    )
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args(arguments)
    if not all(0 < part <= 1 for part in args.rows):
        parser.error(f"--rows are parts of the training rows, above 0 and up to 1: {args.rows}")
    n_failures = 0
    if not args.table:
        tables = {} if args.data is None else names_in(Path(args.data))
        known = {name: partial(read_task_set, path) for name, path in tables.items()} | dict(
            generated
        )
        if unknown := set(args.names) - set(known):
            parser.error(
                f"unknown data: {', '.join(sorted(unknown))}; known are {', '.join(known)} "
                "(--data names a folder of tables)"
            )
        sets = {
            name if part == 1 else f"{name} {part:.3g}": partial(known[name], part=part)
            for name in args.names or known
            for part in args.rows
        }
        n_failures = run(
            sets,
            {name: methods[name] for name in args.method},
            range(args.first, args.first + args.seeds),
            Budget(threads=args.threads),
            args.out,
        )
    if not args.out.exists():
        raise SystemExit(f"There are no results: {args.out} does not exist.")
    print_tables(args.out, list(methods), args.reference, peers)
    if n_failures:
        raise SystemExit(f"{n_failures} runs failed; see above")


# ---- runs ----------------------------------------------------------------------------------------


def run(
    sets: Mapping[str, Callable[[int], TaskSet]],
    methods: Mapping[str, Method],
    seeds: range,
    budget: Budget,
    path: Path,
) -> int:
    """Append what is missing, all sets and methods of a seed before the next; count failures.

    A method that fails is printed with its traceback, and the others go on. Sets that are left out
    are printed once.
    """
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    done = {(entry["data"], entry["seed"], entry["method"]) for entry in map(json.loads, lines)}
    n_failures = 0
    left_out = set()
    for seed in seeds:
        for name, make in sets.items():
            missing = [method for method in methods if (name, seed, method) not in done]
            if not missing:
                continue
            try:
                train, judge = make(seed)
            except SkippedError as reason:
                if name not in left_out:
                    print(f"{name}: left out: {reason}", flush=True)
                left_out.add(name)
                continue
            for method in missing:
                start = time.process_time()
                try:
                    fitted = methods[method](train, seed, budget)
                    seconds = time.process_time() - start
                    scores = judge(fitted.predict)
                except SkippedError as reason:
                    print(f"{name}, {method}: left out: {reason}", flush=True)
                    continue
                except Exception:
                    print(f"{name}, seed {seed}, {method} failed:\n{traceback.format_exc()}")
                    n_failures += 1
                    continue
                entry = {
                    "data": name,
                    "seed": seed,
                    "method": method,
                    "scores": scores,
                    "seconds": round(seconds, 2),
                    "chosen": fitted.chosen,
                }
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
                print(entry, flush=True)
    return n_failures


# ---- tables --------------------------------------------------------------------------------------


def print_tables(
    path: Path, methods: Sequence[str], references: Sequence[str], peers: Sequence[str]
) -> None:
    """Scores and ranks of each data set, and each reference against the peers over all sets.

    Differences are reference - other, paired over seeds, with standard errors. Of each data set and
    score the best peer is the one with the best mean: it is picked after the fact.
    """
    found = pd.read_json(path, lines=True)
    found = found[found["method"].isin(methods)]
    of_sets = {name: scores_of(rows, methods) for name, rows in found.groupby("data", sort=False)}
    for name, scores in of_sets.items():
        table = pd.DataFrame({score.metric: score.by_seed.mean() for score in scores})
        for reference in references[:1]:
            if reference in scores[0].by_seed:
                mean, error = scores[0].difference(reference)
                table.insert(1, f"{reference} -", mean)
                table.insert(2, "error", error)
        for title, score in zip(("rank", "2nd rank"), scores, strict=False):
            table[title] = score.ranks()
        table["seeds"] = scores[0].by_seed.count()
        rows = found[found["data"] == name]
        table["seconds"] = rows.groupby("method")["seconds"].mean()
        print(f"\n{name}\n{table.round(4).to_string()}")
    for place, title in enumerate(RANKED_BY):
        of_place = {name: scores[place] for name, scores in of_sets.items() if len(scores) > place}
        ranks = pd.DataFrame({name: score.ranks() for name, score in of_place.items()}).T
        ranks = ranks.reindex(columns=[method for method in methods if method in ranks])
        print(f"\nRanks by {title}\n{ranks.round(1).to_string()}")
        print(f"\nMean rank by {title}\n{ranks.mean().round(2).to_string()}")
        for reference in references:
            _print_reference(of_place, reference, peers, title)


class Score(NamedTuple):
    """One metric of a data set: a row for each seed, a column for each method."""

    metric: str
    by_seed: pd.DataFrame

    @property
    def sign(self) -> int:
        return 1 if IS_HIGHER_BETTER[self.metric] else -1

    def ranks(self) -> pd.Series:
        """Mean ranks over the seeds that every method has a score of: 1 is best."""
        by_seed = self.by_seed.dropna(axis=1, how="all").dropna()
        return by_seed.rank(axis=1, ascending=self.sign < 0).mean()

    def difference(self, reference: str) -> tuple[pd.Series, pd.Series]:
        """Mean of reference - method over seeds, and its standard error."""
        difference = -self.by_seed.sub(self.by_seed[reference], axis=0)
        return difference.mean(), difference.sem()

    def comparable(self, reference: str) -> Score:
        """The seeds of the reference, and the methods that have all of them."""
        by_seed = self.by_seed[self.by_seed[reference].notna()]
        return self._replace(by_seed=by_seed.dropna(axis=1))


def scores_of(rows: pd.DataFrame, methods: Sequence[str]) -> list[Score]:
    """The scores of a data set, in the order of IS_HIGHER_BETTER."""
    values = pd.DataFrame(rows["scores"].tolist(), index=rows.index)
    scores = []
    for metric in (metric for metric in IS_HIGHER_BETTER if metric in values):
        by_seed = values[metric].groupby([rows["seed"], rows["method"]]).first().unstack()
        columns = [method for method in methods if method in by_seed]
        scores.append(Score(metric, by_seed[columns]))
    return scores


def _print_reference(
    of_sets: Mapping[str, Score], reference: str, peers: Sequence[str], title: str
) -> None:
    """The best peer of each data set, and counts of data sets by method."""
    lines, verdicts = {}, {}
    for name, score in of_sets.items():
        if reference not in score.by_seed or score.by_seed[reference].isna().all():
            continue
        score = score.comparable(reference)
        mean, error = score.difference(reference)
        gain = (score.sign * mean).drop(reference)
        verdicts[name] = gain.combine(error.drop(reference), verdict)
        means = score.sign * score.by_seed.mean()
        if rivals := [peer for peer in peers if peer in means and peer != reference]:
            best = means[rivals].idxmax()
            verdicts[name]["best peer"] = verdicts[name][best]
            lines[name] = {
                "seeds": len(score.by_seed),
                "best peer": best,
                reference: score.by_seed[reference].mean(),
                "difference": mean[best],
                "error": error[best],
                "verdict": verdicts[name][best],
            }
    if not lines:
        return
    table = pd.DataFrame(lines.values(), index=lines)
    print(f"\n{reference} - best peer, {title}\n{table.round(4).to_string()}")
    counts = pd.DataFrame(verdicts).apply(pd.Series.value_counts, axis=1).fillna(0).astype(int)
    counts = counts[[verdict for verdict in VERDICTS if verdict in counts]]
    print(
        f"\n{reference}, data sets by {SEVERAL_ERRORS} standard errors, {title} "
        f"({UNKNOWN}: less than two seeds in common)\n{counts.to_string()}"
    )


UNKNOWN = "?"
VERDICTS = ("better", "tied", "worse", UNKNOWN)


def verdict(gain: float, error: float) -> str:
    if pd.isna(error):
        return UNKNOWN
    if abs(gain) <= SEVERAL_ERRORS * error:
        return "tied"
    return "better" if gain > 0 else "worse"
