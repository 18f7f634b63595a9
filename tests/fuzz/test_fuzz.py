# SPDX-License-Identifier: Apache-2.0
"""A second or two of each subject with fixed seeds, and the runner itself."""

import json
import subprocess
import sys

import pytest
from fuzz import run
from fuzz.protocol import OUTCOMES, load_subject, subject_names

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked")

SUBJECTS = [
    name for name in subject_names() if (subject := load_subject(name)) and subject.test_calls
]


def fuzz(*arguments):
    """Run the command in a new process, in which no library has started threads."""
    return subprocess.run(
        [sys.executable, run.__file__, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", SUBJECTS)
def test_some_cases_of_a_subject_end_as_they_should(name):
    done = fuzz("--only", name, "--test")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """One case of each outcome: what was printed, and the file of results."""
    path = tmp_path_factory.mktemp("fuzz") / "results.jsonl"
    done = fuzz("--only", "_examples", "--calls", len(OUTCOMES), "--out", path)
    return done, path


def test_every_outcome_is_counted_and_findings_make_the_command_fail(examples):
    done, path = examples
    (line,) = run.read_results(path)
    assert line["outcomes"] == dict.fromkeys(OUTCOMES, 1)
    assert line["refusals"] == {"ValueError": 1}
    assert done.returncode == 1, done.stderr


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        ("wrong", "AssertionError: not what was expected"),
        ("accepted", "example"),
        ("crashed", "last words"),
        ("hung", "threading.py"),
    ],
)
def test_a_finding_comes_with_the_line_that_reproduces_it(examples, outcome, shown):
    done, _ = examples
    seed = OUTCOMES.index(outcome)
    _, _, report = done.stdout.partition(f"--- _examples: {outcome}: ")
    report, _, _ = report.partition("\n---")
    assert f"run.py --only _examples --seed {seed} --calls 1\n" in report
    assert shown in report
    assert "does not come back" not in report


def test_a_run_goes_on_after_the_seeds_of_earlier_runs(tmp_path):
    path = tmp_path / "results.jsonl"
    for _ in range(2):
        done = fuzz("--only", "_examples", "--calls", 3, "--out", path, "--resume")
    first, second = run.read_results(path)
    assert (first["first_seed"], first["next_seed"]) == (0, 3)
    assert (second["first_seed"], second["next_seed"]) == (3, 6)
    assert done.returncode == 1


def test_the_table_adds_up_all_runs_of_a_subject(examples, tmp_path):
    _, path = examples
    twice = tmp_path / "results.jsonl"
    twice.write_bytes(2 * path.read_bytes())
    line = json.loads(path.read_text())
    n_calls, n_findings = 2 * line["calls"], 2 * 4
    table = run.markdown_table(run.read_results(twice))
    (row,) = [row for row in table.splitlines() if row.startswith("| _examples ")]
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[1] == str(n_calls)
    assert cells[3:6] == ["2", "2", str(n_findings)]
