# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of different units, new tasks and nearly certain classes."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("lightgbm")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("a source distribution has no benchmarks", allow_module_level=True)
sys.path.append(str(BENCHMARKS))  # last: tests/ has modules of the same names as some scripts

import certain_classes  # noqa: E402
import different_units  # noqa: E402
import new_tasks  # noqa: E402
from task_methods import Budget, Fitted, Rows  # noqa: E402

import mtboost  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")
BUDGET = Budget(threads=1)


def test_units_and_noise_differ_by_their_factor() -> None:
    equal, units, noise = (
        different_units.generated(f"8 tasks, {kind}", 0).train
        for kind in ("x 1", "x 5", "noise x 5")
    )
    for task in range(8):
        own = equal.task == task
        np.testing.assert_allclose(
            np.corrcoef(equal.y[own], units.y[own])[0, 1], 1.0
        )  # a multiple of it
    deviations = [
        np.log([each.of_task(t).y.std() for t in range(8)]).std() for each in (equal, units)
    ]
    assert deviations[0] < 0.3 < 0.8 < deviations[1]
    assert not np.allclose(noise.y, equal.y)


def test_standardised_labels_are_learned_and_predictions_are_in_units_again() -> None:
    seen = []

    def learn(train: Rows, seed: int, budget: Budget) -> Fitted:
        seen.append(train.y)
        return Fitted(lambda rows: np.ones(len(rows.y)), {})

    rows = Rows(
        np.zeros((4, 1)), np.array([1.0, 3.0, 20.0, 20.0]), np.array([0, 0, 1, 1]), 2, False
    )
    fitted = different_units.standardised(learn)(rows, 0, BUDGET)
    np.testing.assert_array_equal(seen[0], [-1.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(fitted.predict(rows), [3.0, 3.0, 21.0, 21.0])


def test_scores_count_small_tasks_as_much_as_large_ones() -> None:
    rows = Rows(
        np.zeros((4, 1)), np.array([1.0, 3.0, 100.0, 300.0]), np.array([0, 0, 1, 1]), 2, False
    )
    judge = different_units.judge_of(rows, np.array([1.0, 100.0]))
    scores = judge(lambda rows: np.array([2.0, 2.0, 100.0, 300.0]))
    assert scores["explained"] == 0.5
    assert scores["rmse"] == pytest.approx(np.sqrt(2 / 4))


def test_one_squared_error_is_left_out_where_fit_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    train, _ = different_units.generated("8 tasks, x 1", 0)
    with pytest.raises(different_units.SkippedError, match="the same as fit"):
        different_units.one_squared_error(train, 0, BUDGET)


def test_tables_of_packages_have_tasks_or_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"city": ["u", "v"] * 3, "sales": [1.0, 2.0, np.nan, 4.0, 5.0, 6.0]})
    frame = frame.assign(volume=0.0, date=0.0, month=range(6), kind=list("aabbab"))
    monkeypatch.setattr(different_units, "r_table", lambda package, item: frame)
    monkeypatch.setattr(different_units, "find_spec", lambda name: True)
    rows = different_units.real_rows("housing")
    assert (rows.n_tasks, len(rows.y), rows.group) == (2, 5, None)
    np.testing.assert_array_equal(rows.X, [[0, 0], [1, 0], [3, 1], [4, 0], [5, 1]])
    frame = pd.DataFrame({name: np.arange(4.0) for name in ("wgt", "hgt", "age", "che_gi")})
    frame = frame.assign(wai_gi=1.0, hip_gi=2.0, thi_gi=3.0)
    rows = different_units.real_rows("body")
    assert (rows.n_tasks, len(rows.y)) == (5, 20)
    np.testing.assert_array_equal(rows.X[:, 0], rows.group)


def test_scripts_of_generated_sets_append_and_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for script, name in ((different_units, "8 tasks, x 5"), (certain_classes, "steep")):
        out = tmp_path / f"{script.__name__}.jsonl"
        command = [name, "--out", str(out), "--seeds", "2", "--threads", "1"]
        script.main([*command, "--method", "LightGBM", "LightGBM, one each"])
        entries = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        assert [entry["data"] for entry in entries] == [name] * 4
        assert "LightGBM, one each" in capsys.readouterr().out


@pytest.mark.parametrize("kind", new_tasks.KINDS)
def test_new_tasks_are_no_known_ones_and_have_few_rows(kind: str) -> None:
    case = new_tasks.generated(kind, 0)
    counts = np.bincount(case.train.task)
    assert counts.tolist() == [120] * 8 + [20, 60, 200]
    assert not set(case.known().task) & set(case.new)
    assert np.bincount(case.test.task).tolist() == [400] * 11


def test_new_tasks_of_tables_are_tested_on_all_other_rows() -> None:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(20), 50)
    rows = Rows(np.arange(1000.0)[:, None], rng.normal(size=1000), task, 20, False)
    case = new_tasks.real(rows, 0)
    assert (len(case.new), case.train.n_tasks) == (4, 16)
    assert set(np.bincount(case.train.task)[list(case.new)]) == {20}
    assert set(np.bincount(case.test.task, minlength=16)[list(case.new)]) == {30}
    assert not set(case.train.X[:, 0]) & set(case.test.X[:, 0])
    assert set(case.test.task) == set(case.new)


def test_each_way_predicts_new_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(train: Rows, seed: int) -> mtboost.MultiTaskModel:
        options = {"strategy": "two-stage", "num_boost_round": 20, "n_threads": 1}
        return mtboost.fit(train.X, train.y, task=train.task, **options)

    monkeypatch.setattr(new_tasks, "fit", fit)
    peers = {name: way for name, way in new_tasks.PEERS.items() if "LightGBM" in name}
    monkeypatch.setattr(new_tasks, "PEERS", peers)
    lines = list(new_tasks.run("linear", new_tasks.generated("linear", 0), 0))
    assert [line["way"] for line in lines[:3]] == ["add_task", "fit again", "replace_task"]
    assert len(lines) == 5
    assert all(0.0 < line["score"] < 1.2 for line in lines)  # of a constant about 1
