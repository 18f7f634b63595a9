# SPDX-License-Identifier: Apache-2.0
"""Fuzz mtboost for as long as you like, and report what should not have happened.

    python tests/fuzz/run.py --hours 2 --jobs 2 --out results.jsonl --resume
    python tests/fuzz/run.py --seconds 60 --only sparse,parameters
    python tests/fuzz/run.py --only sparse --seed 1234 --calls 1     # one case again
    python tests/fuzz/run.py --table results.jsonl                   # what all runs have found

The exit code is 1 if there is a finding. A finding is printed with the line that reproduces it.
What subjects are there, and how to add one: protocol.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the folder of this file is first: its modules would hide others
    sys.path[0] = str(Path(__file__).parents[1])
    # Read when the libraries are imported. Tables are small, and waiting threads spin.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from fuzz.protocol import FINDINGS, Subject, load_subject, subject_names
from fuzz.workers import Result, Tally, run_cases

_LIBRARIES = ("xgboost", "lightgbm", "numpy", "scipy")


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.table:
        print(markdown_table(read_results(options.table)))
        return 0
    # Workers are forked before anything here has started threads that they would miss.
    warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
    subjects = _subjects(options.only)
    n_calls, seconds = options.calls, options.seconds
    if options.hours is not None:
        seconds = 3600 * options.hours
    tallies = []
    try:
        for subject in subjects:
            first = options.seed
            if options.resume and Path(options.out).exists():
                first = max(first, _next_seed(read_results(options.out), subject.name))
            tally = run_cases(
                subject,
                first,
                n_calls=subject.test_calls if options.test else n_calls,
                seconds=None if seconds is None else seconds / len(subjects),
                n_jobs=options.jobs,
                on_finding=lambda found, subject=subject: _report(subject, found),
            )
            tallies.append(tally)
            if options.out:
                _append(options.out, tally)
    except KeyboardInterrupt:
        print("interrupted: the subject that was running is left out", file=sys.stderr)
    print(_summary(tallies))
    return int(any(tally.n_findings for tally in tallies))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--hours", type=float, help="divided among the subjects")
    length.add_argument("--seconds", type=float, help="divided among the subjects; default 60")
    length.add_argument("--calls", type=int, help="cases of each subject")
    length.add_argument("--test", action="store_true", help="as many cases as test_fuzz.py tries")
    length.add_argument("--table", metavar="FILE", help="print the table of FILE, run nothing")
    parser.add_argument("--only", help="subjects, separated by commas; default all")
    parser.add_argument("--seed", type=int, default=0, help="of the first case; default 0")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes; default 1")
    parser.add_argument("--out", metavar="FILE", help="append a line of JSON for each subject")
    parser.add_argument("--resume", action="store_true", help="begin after the seeds in --out")
    options = parser.parse_args(arguments)
    if options.resume and not options.out:
        parser.error("--resume needs --out")
    if all(getattr(options, name) is None for name in ("hours", "seconds", "calls")):
        options.seconds = None if options.test else 60.0
    return options


def _subjects(only: str | None) -> list[Subject]:
    if only is None:
        return [subject for subject in map(load_subject, subject_names()) if subject is not None]
    subjects = []
    for name in only.split(","):
        is_there = (Path(__file__).parent / f"{name}.py").exists()
        subject = load_subject(name) if is_there else None
        if subject is None:
            sys.exit(f"unknown subject {name!r}. Known: {', '.join(subject_names())}")
        subjects.append(subject)
    return subjects


# Reports -----------------------------------------------------------------------------------------


def _report(subject: Subject, found: Result) -> None:
    """Print the first finding of a kind, and whether it comes back in a new process."""
    (again,) = (run_cases(subject, found.seed, n_calls=1).findings or {"": []}).values()
    print(f"\n--- {subject.name}: {found.outcome}: {found.signature}")
    print(f"    python tests/fuzz/run.py --only {subject.name} --seed {found.seed} --calls 1")
    if not again:
        print("    does not come back alone: an earlier case of the same worker takes part")
    if found.text:
        print(f"    {found.text}")
    print(found.detail, flush=True)


def _summary(tallies: Iterable[Tally]) -> str:
    head = ("subject", "seeds", "calls", "passed", "refused", "skipped", "findings", "calls/s")
    rows = [head]
    kinds = []
    for tally in tallies:
        outcomes = tally.outcomes
        rows.append(
            (
                tally.subject,
                f"{tally.first_seed}-{tally.next_seed - 1}",
                *(str(n) for n in (tally.n_calls, outcomes["passed"], outcomes["refused"])),
                str(outcomes["skipped"]),
                str(tally.n_findings),
                f"{tally.n_calls / max(tally.seconds, 1e-9):.0f}",
            )
        )
        for signature, found in tally.findings.items():
            seeds = ", ".join(str(each.seed) for each in found[:5])
            kinds.append(f"{tally.subject}: {found[0].outcome}: {signature} (seeds {seeds})")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            value.ljust(width) if place == 0 else value.rjust(width)
            for place, (value, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(["", *lines, *(["", "Findings:", *kinds] if kinds else [])])


# Results of many runs ----------------------------------------------------------------------------


def _append(path: str, tally: Tally) -> None:
    line = {
        "subject": tally.subject,
        "first_seed": tally.first_seed,
        "next_seed": tally.next_seed,
        "calls": tally.n_calls,
        "outcomes": dict(tally.outcomes),
        "refusals": dict(tally.refusals),
        "findings": {name: [r.seed for r in found] for name, found in tally.findings.items()},
        "seconds": round(tally.seconds, 1),
        "slowest": round(tally.slowest, 2),
        "versions": {
            "python": platform.python_version(),
            **{library: version(library) for library in _LIBRARIES},
        },
        "system": f"{platform.system()} {platform.machine()}",
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_results(path: str) -> list[dict[str, Any]]:
    """Lines that runs with ``--out`` have written."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def _next_seed(results: list[dict[str, Any]], subject: str) -> int:
    return max((line["next_seed"] for line in results if line["subject"] == subject), default=0)


def markdown_table(results: list[dict[str, Any]]) -> str:
    """One row for each subject: all runs added up."""
    lines = [
        "| subject | calls | hours | passed | refused | findings | slowest call |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(line["subject"] for line in results):
        own = [line for line in results if line["subject"] == name]
        outcomes: Counter[str] = sum((Counter(line["outcomes"]) for line in own), Counter())
        hours = sum(line["seconds"] for line in own) / 3600
        findings = sum(outcomes[kind] for kind in FINDINGS)
        lines.append(
            f"| {name} | {sum(line['calls'] for line in own):,} | {hours:.2f} "
            f"| {outcomes['passed']:,} | {outcomes['refused']:,} | {findings:,} "
            f"| {max(line['slowest'] for line in own):.1f} s |"
        )
    systems = {
        f"{line['system']}, "
        + ", ".join(f"{name} {number}" for name, number in line["versions"].items())
        for line in results
    }
    return "\n".join([*lines, "", *sorted(systems)])


if __name__ == "__main__":
    sys.exit(main())
