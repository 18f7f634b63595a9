# SPDX-License-Identifier: Apache-2.0
"""mtboost.dask trains the model of one machine; TaskSplit in xgboost.dask.train: test_dask.py."""

import os
import pickle
import re
import signal
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import scipy.sparse
from collective_workers import (
    InRound,
    end_one,
    end_process,
    raise_on_one,
    raise_on_one_while_one_waits,
    signal_from_one,
)

import mtboost
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, ParameterError, TrainingError, UnsupportedError

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")
pytest.importorskip("xgboost.dask")

import mtboost.dask  # noqa: E402
from mtboost.dask import fitting as dask_fitting  # noqa: E402
from mtboost.dask.chunks import Chunk  # noqa: E402
from mtboost.dask.placing import Placement, place_tasks, rows_before  # noqa: E402
from mtboost.dask.searching import Found, Sample, sample_of, sampled  # noqa: E402
from mtboost.model import fitting  # noqa: E402
from mtboost.model.inputs.checked_rows import Units  # noqa: E402
from mtboost.model.sharing.plan import fit_plan  # noqa: E402

N_ROWS = 1500
RNG = np.random.default_rng(0)
X = RNG.integers(0, 40, (N_ROWS, 4)).astype(np.float32)  # few values: the same bins everywhere
TASK = RNG.choice([2, 3, 5, 7, 11], N_ROWS, p=[0.4, 0.3, 0.15, 0.1, 0.05])
Y = np.sin(X[:, 0] / 6) + (TASK % 3) * X[:, 1] / 40 + RNG.normal(0, 0.2, N_ROWS)
WEIGHT = RNG.uniform(0.5, 2.0, N_ROWS)
X[:, 2][RNG.random(N_ROWS) < 0.1] = np.nan
X[:, 3][(TASK == 11) & (X[:, 3] > 20)] = np.nan  # on one worker only
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    shop=TASK, kind=pd.Categorical(np.array(["x", "y", "z"])[TASK % 3]), day=np.arange(N_ROWS) // 50
)
IS_VALID = RNG.random(N_ROWS) < 0.25
ROUNDS = {
    **{"num_boost_round": 12, "specific_rounds": 12, "params": {"learning_rate": 0.3}},
    "strategy": "two-stage",
}


def cluster_of(n_workers):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def client():
    with cluster_of(3) as cluster, distributed.Client(cluster) as made:
        yield made


def spread(values, n_rows=200):
    """Rows as a collection of Dask."""
    if isinstance(values, pd.DataFrame | pd.Series):
        return dd.from_pandas(values, npartitions=-(-len(values) // n_rows))
    return da.from_array(values, chunks=(n_rows, *values.shape[1:]))


def fit_both(client, X, y, *, task, eval_set=None, rows=None, large_task_rows=100_000, **options):
    """Fit on the cluster, and on one machine."""
    options = {**ROUNDS, **options}
    collections = {name: spread(own) for name, own in (rows or {}).items()}
    own_task = task if isinstance(task, str | int) else spread(task)
    own_set = eval_set and tuple(None if own is None else spread(own) for own in eval_set)
    found = mtboost.dask.fit(
        client,
        spread(X),
        spread(y),
        task=own_task,
        eval_set=own_set,
        large_task_rows=large_task_rows,
        **collections,
        **options,
    )
    alone = {"eval_set": eval_set, **(rows or {}), **options}
    return found, mtboost.fit(X, y, task=task, **alone)


def assert_same_model(found, expected, X, task=None, *, rtol_of_errors=1e-5):
    assert found.tasks == expected.tasks
    assert found.quit_round == expected.quit_round
    structure = [
        own.common.trees_to_dataframe()[["Tree", "Node", "Feature"]] for own in (found, expected)
    ]
    pd.testing.assert_frame_equal(*structure)
    margins = (own.predict_margin(X, task=task) for own in (found, expected))
    np.testing.assert_allclose(*margins, rtol=1e-6, atol=1e-6)
    reports = [own.report() for own in (found, expected)]
    errors = [own.filter(like=" se") for own in reports]
    pd.testing.assert_frame_equal(*errors, rtol=rtol_of_errors)
    values = (own.drop(columns=own.filter(like=" se")) for own in reports)
    pd.testing.assert_frame_equal(*values, rtol=1e-5)
    assert type(found) is mtboost.MultiTaskModel


# ---- the model of one machine --------------------------------------------------------------------


@pytest.mark.parametrize("n_tasks", [5, 2, 1])
def test_workers_train_the_model_of_one_machine(client, n_tasks):
    """With fewer tasks than workers the others have no rows."""
    task = np.unique(TASK, return_inverse=True)[1] % n_tasks
    train, valid = ~IS_VALID, IS_VALID
    eval_set = X[valid], Y[valid], task[valid]
    models = fit_both(client, X[train], Y[train], task=task[train], eval_set=eval_set)
    assert_same_model(*models, X, task)
    if n_tasks > 1:
        assert len(set(models[0].quit_round.values())) > 1
        assert any(models[0].specific.values())


def test_the_warning_of_tasks_without_training_rows_names_the_line_of_the_user(client):
    train = spread(X), spread(Y)
    valid = spread(X), spread(Y), spread(np.where(np.arange(N_ROWS) < 100, 12, TASK))

    def fit():
        mtboost.dask.fit(client, *train, task=spread(TASK), eval_set=valid, **ROUNDS)

    with pytest.warns(UserWarning, match="task 12, without training rows") as found:
        fit()
    (warning,) = found
    assert warning.filename == __file__
    assert warning.lineno in {line for *_, line in fit.__code__.co_lines()}


OPTIONS = {
    "pooling": {"split_score": "plain", "pooling": "auto"},
    "variance": {"split_score": "variance", "refit": True},
    "symmetric": {"split_score": "plain", "symmetric_trees": True, "random_strength": 1.0},
    "without early stopping": {"early_stopping_rounds": None, "num_boost_round": 5},
    "features drawn": {"feature_prior": "auto"},
    "balanced tasks": {"task_weight": "balanced", "refit": True},
    "weights of tasks": {"task_weight": {2: 1.0, 3: 2.0, 5: 1.0, 7: 0.5, 11: 3.0}},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_fit_work_on_several_workers(client, name):
    eval_set = X[IS_VALID], Y[IS_VALID], TASK[IS_VALID]
    models = fit_both(
        client, X[~IS_VALID], Y[~IS_VALID], task=TASK[~IS_VALID], eval_set=eval_set, **OPTIONS[name]
    )
    assert_same_model(*models, X, TASK)


# ---- tasks that are larger than a worker --------------------------------------------------------

# With three workers, 150 rows divide the largest task, 2 (40 % of the rows); 300 rows of two tasks
# divide both.
LARGE = {"large_task_rows": 150}
#: Errors of the workers' parts, some 50 rows each, are put together: they are those of all rows but
#: for how much the parts differ by chance.
ROUGHLY = 0.2


@pytest.mark.parametrize("n_tasks", [5, 2, 1])
def test_workers_divide_the_rows_of_large_tasks(client, n_tasks):
    task = np.unique(TASK, return_inverse=True)[1] % n_tasks
    train, valid = ~IS_VALID, IS_VALID
    eval_set = X[valid], Y[valid], task[valid]
    models = fit_both(
        client, X[train], Y[train], task=task[train], eval_set=eval_set, refit=True, **LARGE
    )
    assert_same_model(*models, X, task, rtol_of_errors=ROUGHLY)
    assert any(models[0].specific.values()) or n_tasks == 1


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "features drawn"])
def test_options_of_fit_work_with_large_tasks(client, name):
    eval_set = X[IS_VALID], Y[IS_VALID], TASK[IS_VALID]
    rows = X[~IS_VALID], Y[~IS_VALID]
    options = {"task": TASK[~IS_VALID], "eval_set": eval_set, **OPTIONS[name], **LARGE}
    models = fit_both(client, *rows, **options)
    assert_same_model(*models, X, TASK, rtol_of_errors=ROUGHLY)


def test_classes_and_weights_of_large_tasks(client):
    classes = np.digitize(Y, [0.3, 0.9])
    train, valid = ~IS_VALID, IS_VALID
    options = {"objective": "multi:softprob", "rows": {"weight": WEIGHT[train]}, **LARGE}
    eval_set = X[valid], classes[valid], TASK[valid], WEIGHT[valid]
    models = fit_both(
        client, X[train], classes[train], task=TASK[train], eval_set=eval_set, **options
    )
    assert_same_model(*models, X, TASK, rtol_of_errors=ROUGHLY)


def test_auto_divides_large_tasks(client):
    options = {"task": spread(TASK), "search_rows": 800, **QUICK, **LARGE}
    report = mtboost.dask.fit(client, spread(X), spread(Y), **options).report()
    assert report["sharing"].all()
    assert report["rows"].to_dict() == dict(zip(*np.unique(TASK, return_counts=True), strict=True))


def test_a_large_task_whose_validation_rows_are_on_one_worker(client):
    is_valid = np.flatnonzero(IS_VALID & (TASK == 2))[:1]
    eval_set = X[is_valid], Y[is_valid], TASK[is_valid]
    options = {"eval_set": eval_set, "num_boost_round": 10, **LARGE}
    models = fit_both(client, X[~IS_VALID], Y[~IS_VALID], task=TASK[~IS_VALID], **options)
    assert_same_model(*models, X, TASK)


def test_rows_of_large_tasks_are_dealt_out_in_turn():
    counts = [{"a": 5, "b": 3}, {}, {"a": 4, "c": 1}]
    found = place_tasks({"a": 9, "b": 3, "c": 1}, 2, large_task_rows=4)
    assert found == Placement(2, {"b": 0, "c": 1}, ("a",))
    before = rows_before(counts)
    assert before == [{"a": 0, "b": 0}, {}, {"a": 5, "c": 0}]
    tasks = TaskSet.from_labels(["c", "a", "a", "a", "a"], 5)
    assert found.workers_of(tasks, before[2]).tolist() == [1, 1, 0, 1, 0]
    unknown = TaskSet.from_labels(["b", "z"], 2)
    assert found.workers_of(unknown, {}).tolist() == [0, -1]


@pytest.mark.parametrize(
    ("n_workers", "large_task_rows", "divided"),
    [(1, 1, ()), (2, 1, ("a",)), (4, 1, ("a", "b")), (4, 50, ("a",)), (200, 1, ())],
)
def test_which_tasks_are_divided(n_workers, large_task_rows, divided):
    """Those above the limit and above an equal part, if each worker has a row."""
    found = place_tasks({"a": 60, "b": 30, "c": 10}, n_workers, large_task_rows)
    assert found.divided == divided
    assert found.owner.keys() == set("abc") - set(divided)
    assert found.n_workers == (n_workers if divided else min(n_workers, 3))


def test_nodes_may_split_tasks_of_different_workers(client):
    options = {"split_score": "plain", "task_splits": True, "validation_fraction": 0}
    models = fit_both(client, X, Y, task=TASK, num_boost_round=10, **options)
    assert_same_model(*models, X, TASK)


def test_frames_with_categories_and_the_last_rows_held_out(client):
    labels = pd.Series((Y > 0.8).astype(int))
    options = {"validation": "last", "time": "day", "validation_fraction": 0.3}
    models = fit_both(
        client, FRAME, labels, task="shop", rows={"weight": pd.Series(WEIGHT)}, **options
    )
    assert models[0].objective == "binary:logistic"
    assert_same_model(*models, FRAME)


def test_weights_may_be_zero_in_all_rows_of_a_worker(client):
    weight = np.where(TASK == 2, 0.0, WEIGHT)  # the largest task is alone on its worker
    train, valid = ~IS_VALID, IS_VALID
    eval_set = X[valid], Y[valid], TASK[valid], weight[valid]
    options = {"rows": {"weight": weight[train]}, "num_boost_round": 10, "eval_set": eval_set}
    models = fit_both(client, X[train], Y[train], task=TASK[train], **options)
    assert_same_model(*models, X, TASK)


@pytest.mark.parametrize("strategy", ["two-stage", "auto"])
@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        (Y, np.full(N_ROWS, 1.0 / N_ROWS), r"weight adds up to 1, .*by their mean \(0.000667\)"),
        (1e-6 * Y + 7.0, None, "y has standard deviation .*e-07, and trees have no split"),
        (np.digitize(Y, [0, 1]), None, "All labels are whole numbers from 0 to 2, and are learned"),
    ],
)
def test_labels_and_weights_warn_as_on_one_machine(client, y, weight, message, strategy):
    rows = {} if weight is None else {"weight": weight}
    options = {**ROUNDS, "strategy": strategy, "effort": "fast", "num_boost_round": 2}
    collections = {name: spread(own) for name, own in rows.items()}
    with pytest.warns(UserWarning, match=message) as found:
        mtboost.dask.fit(client, spread(X), spread(y), task=spread(TASK), **collections, **options)
    with pytest.warns(UserWarning, match=message) as expected:
        mtboost.fit(X, y, task=TASK, **rows, **options)
    texts = [[str(each.message) for each in own] for own in (found, expected)]
    assert texts[0] == texts[1]
    assert found[0].filename == __file__


def test_tasks_that_hardly_count_beside_others_warn(client):
    y = Y * np.where(TASK == 2, 1000.0, 1.0)
    options = {"effort": "fast", "num_boost_round": 2, "specific_rounds": 0}
    with pytest.warns(UserWarning, match="vary much less .* call mtboost.fit on a sample") as found:
        mtboost.dask.fit(client, spread(X), spread(y), task=spread(TASK), **options)
    assert found[0].filename == __file__


def test_sums_of_parts_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    y, weight = 1e3 + rng.normal(size=60), rng.uniform(0, 2, 60) * (np.arange(60) >= 30)
    weight[-1] = 0.0
    whole = Units.of(y, weight)
    parts = [Units.of(y[rows], weight[rows]) for rows in np.split(np.arange(60), [10, 25, 41])]
    both = sum(parts, Units())
    assert (whole.n_rows, both.n_rows) == (29, 29)
    for found in (whole, both):
        assert found.weight == pytest.approx(weight.sum())
        assert found.mean == pytest.approx(np.average(y, weights=weight))
        variance = np.cov(y, aweights=weight, ddof=0)
        assert found.squares == pytest.approx(variance * weight.sum(), rel=1e-9)


def test_classes_and_base_margins(client):
    classes = np.digitize(Y, [0.3, 0.9])
    margins = np.stack([np.zeros(N_ROWS), Y / 2, Y], axis=1)
    train, valid = ~IS_VALID, IS_VALID
    options = {"objective": "multi:softprob", "rows": {"base_margin": margins[train]}}
    eval_set = X[valid], classes[valid], TASK[valid], None, margins[valid]
    models = fit_both(
        client, X[train], classes[train], task=TASK[train], eval_set=eval_set, **options
    )
    found, expected = (own.predict_margin(X, task=TASK, base_margin=margins) for own in models)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_tasks_without_validation_rows_on_any_worker_but_one(client):
    is_valid = IS_VALID & (TASK == 3)
    eval_set = X[is_valid], Y[is_valid], TASK[is_valid]
    options = {"eval_set": eval_set, "num_boost_round": 10}
    models = fit_both(client, X[~IS_VALID], Y[~IS_VALID], task=TASK[~IS_VALID], **options)
    assert_same_model(*models, X, TASK)


def test_a_part_of_each_task_is_held_out_and_trained_on_in_the_end(client):
    model = mtboost.dask.fit(client, spread(X), spread(Y), task=spread(TASK), **ROUNDS)
    report = model.report()
    counts = dict(zip(*np.unique(TASK, return_counts=True), strict=True))
    assert (report["rows"] + report["valid_rows"]).to_dict() == counts
    assert report["valid_rows"].sum() == pytest.approx(0.2 * N_ROWS, rel=0.05)
    rest = mtboost.dask.fit(client, spread(X), spread(Y), task=spread(TASK), **ROUNDS, refit=False)
    assert rest.quit_round == model.quit_round
    assert not np.array_equal(rest.predict(X, task=TASK), model.predict(X, task=TASK))


@pytest.mark.parametrize("strategy", ["two-stage", "auto"])
def test_progress_names_the_steps(client, strategy, capsys):
    options = {"strategy": strategy, "effort": "fast", "num_boost_round": 10, "verbose": True}
    mtboost.dask.fit(client, spread(X), spread(Y), task=spread(TASK), **options)
    shown = capsys.readouterr().err
    assert "rows to their workers" in shown
    assert ("search on a sample" in shown) == (strategy == "auto")
    assert "training on all workers" in shown


def test_a_task_joins_the_model_as_on_one_machine(client):
    known = TASK != 11
    model = mtboost.dask.fit(
        client, spread(X[known]), spread(Y[known]), task=spread(TASK[known]), **ROUNDS
    )
    model.add_task(11, X[~known], Y[~known])
    assert model.tasks == (2, 3, 5, 7, 11)
    assert np.isfinite(model.predict(X, task=TASK)).all()


# ---- how much to share ---------------------------------------------------------------------------

QUICK = {"effort": "fast", "params": {"learning_rate": 0.3, "max_depth": 3}, "num_boost_round": 15}


def squared_error(model):
    return np.mean((model.predict(X, task=TASK) - Y) ** 2)


@pytest.mark.parametrize("search_rows", [N_ROWS, 800])
def test_auto_finds_how_much_to_share_on_a_sample_and_trains_it_on_all_rows(client, search_rows):
    options = {"task": spread(TASK), "search_rows": search_rows, **QUICK}
    model = mtboost.dask.fit(client, spread(X), spread(Y), **options)
    report = model.report()
    assert model.tasks == (2, 3, 5, 7, 11)
    assert report["sharing"].all()
    assert model.common_losses
    assert report["rows"].sum() == N_ROWS
    is_searched = report["valid_rows"] > 0
    assert is_searched.sum() == (5 if search_rows == N_ROWS else 3)
    if search_rows == N_ROWS:
        alone = mtboost.fit(X, Y, task=TASK, **QUICK)
        assert squared_error(model) < 1.2 * squared_error(alone)


@cache
def planned(own_pool, way_of_largest):
    """A plan, the model that one machine trains by it, and the labels and options of both."""
    sign = np.select([TASK == 2, TASK == 3, TASK == 5], [1.0, 5.0, -3.0], -1.0)
    y = (
        sign * (X[:, 0] > 20)
        + sign**2 * (X[:, 1] > 10)
        + np.random.default_rng(1).normal(0, 0.1, N_ROWS)
    )
    plans = []

    def train(plan, data, callbacks=(), pool=None):
        ways = dict.fromkeys(plan.sharing, "common")  # on one worker only a task goes alone
        ways |= {2: way_of_largest, 5: "independent", 7: "common + specific"}
        rounds = {task: max(5, n) for task, n in plan.own_rounds.items()}
        if way_of_largest == "common":
            rounds[2] = 0
        chosen = [3, 5] if own_pool else plan.pool
        plan = replace(plan, sharing=ways, own_rounds=rounds, pool=chosen, common=None)
        plans.append(plan)
        return fit_plan(plan, data, callbacks)

    options = {**QUICK, "linear_effects": False, "task_splits": False}
    options["objective"] = "reg:squarederror"  # the labels of tasks have other units
    options["params"] = {**QUICK["params"], "subsample": 1.0}  # draws of workers differ
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "fit_plan", train)
        expected = mtboost.fit(X, y, task=TASK, **options)
    return plans[0], expected, y, options


@pytest.mark.parametrize("way_of_largest", ["averaged", "common + specific", "common"])
@pytest.mark.parametrize("large_task_rows", [N_ROWS, 100])
@pytest.mark.parametrize("own_pool", [False, True])
def test_what_was_found_is_trained_as_on_one_machine(
    client, own_pool, large_task_rows, way_of_largest, monkeypatch
):
    """Tasks average or go alone; those that do not train the common model may be a worker's all."""
    plan, expected, y, options = planned(own_pool, way_of_largest)
    monkeypatch.setattr(dask_fitting, "search", lambda *_, **__: Found(plan, {}))
    options = {**options, "task": spread(TASK), "large_task_rows": large_task_rows}
    model = mtboost.dask.fit(client, spread(X), spread(y), **options)
    averaged = {2} if way_of_largest == "averaged" else set()
    assert set(model.common_trees.shares) == set(expected.common_trees.shares) == averaged
    margins = (own.predict_margin(X, task=TASK) for own in (model, expected))
    np.testing.assert_allclose(*margins, rtol=1e-5, atol=1e-5)


def test_a_column_of_tasks_that_is_missing_is_named_before_others(client):
    frame = pd.DataFrame({"x": np.arange(20.0), "shop": ["a", "b"] * 10, "y": np.arange(20.0)})
    frame = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(DataError, match=r"task is 'shops', but X has no.*Did you mean 'shop'"):
        mtboost.dask.fit(client, frame[["x", "shop"]], frame["y"], task="shops")


def test_all_rows_are_trained_on_with_more_rounds_than_the_sample_has_found(client, monkeypatch):
    plan, _, y, options = planned(False, "common")
    found = replace(plan, common_rounds=4, n_rows=0.8 * N_ROWS)
    monkeypatch.setattr(dask_fitting, "search", lambda *_, **__: Found(found, {}))
    model = mtboost.dask.fit(client, spread(X), spread(y), **options, task=spread(TASK))
    alone = {task for task, way in plan.sharing.items() if way == "independent"}
    assert model.quit_round == {task: 0 if task in alone else 5 for task in plan.sharing}


def test_rows_of_the_sample_are_whole_small_tasks_of_all_sizes_or_a_part_of_each():
    small = {name: 10 + name for name in range(100)}
    assert sample_of(small, 10_000).tasks == set(small)
    assert sample_of(small, 2000).tasks == set(range(0, 100, 3))
    large = dict.fromkeys("ab", 50_000)
    assert sample_of(large, 25_000) == Sample({"a", "b"}, 4)
    labels = np.array(["a", "b", "a", "c", "a", "a", "b", "a"])
    chunk = Chunk(np.arange(8.0)[:, None], {"task": labels})
    found = sampled(chunk, Sample({"a", "b"}, 2), None)
    assert found.X[:, 0].tolist() == [0, 1, 4, 7]
    assert sampled(chunk, Sample({"d"}, 1), None) is None


# ---- predictions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model_of_frame():
    return mtboost.fit(FRAME, Y, task="shop", **ROUNDS)


def test_predictions_of_a_frame_are_a_series_with_its_index(client, model_of_frame):
    frame = FRAME.set_index(np.arange(N_ROWS) + 7)
    found = mtboost.dask.predict(client, model_of_frame, spread(frame))
    assert isinstance(found, dd.Series)
    computed = found.compute()
    np.testing.assert_array_equal(computed, model_of_frame.predict(frame))
    assert computed.dtype == found.dtype
    assert computed.index.equals(frame.index)


def test_rows_of_nested_tasks_are_predicted(client):
    frame = FRAME.assign(region=np.where(TASK < 6, "north", "south"))
    model = mtboost.fit(frame, Y, task=["region", "shop"], **ROUNDS)
    found = mtboost.dask.predict(client, model, spread(frame))
    np.testing.assert_array_equal(found.compute(), model.predict(frame))


@pytest.mark.filterwarnings("error")
def test_text_of_a_known_category_is_predicted_without_a_warning(client, model_of_frame):
    frame = FRAME.assign(kind=FRAME["kind"].astype(str))
    found = mtboost.dask.predict(client, model_of_frame, spread(frame))
    np.testing.assert_array_equal(found.compute(), model_of_frame.predict(FRAME))


def test_columns_of_small_parquet_files_have_the_same_partitions(client, tmp_path):
    pytest.importorskip("pyarrow")
    for number, begin in enumerate(range(0, N_ROWS, 400)):
        part = FRAME.drop(columns="kind").assign(y=Y)[begin : begin + 400]
        part.to_parquet(tmp_path / f"{number}.parquet")
    read = dd.read_parquet(tmp_path)
    model = mtboost.dask.fit(client, read.drop(columns="y"), read["y"], task="shop", **ROUNDS)
    assert model.tasks == tuple(np.unique(TASK))
    found = mtboost.dask.predict(client, model, read.drop(columns="y")).compute()
    expected = model.predict(read.drop(columns="y").compute())
    np.testing.assert_array_equal(found, expected)


def test_predictions_of_an_array_are_an_array_of_its_chunks(client):
    rows = np.column_stack([X, TASK])
    classes = np.digitize(Y, [0.3, 0.9])
    model = mtboost.fit(rows, classes, task=4, objective="multi:softprob", **ROUNDS)
    found = mtboost.dask.predict(client, model, spread(rows), method="predict_proba")
    assert found.shape == (N_ROWS, 3)
    assert found.chunks[0] == spread(rows).chunks[0]
    np.testing.assert_array_equal(found.compute(), model.predict_proba(rows))
    margins = mtboost.dask.predict(
        client, model, spread(X), task=spread(TASK), method="predict_margin"
    )
    np.testing.assert_array_equal(margins.compute(), model.predict_margin(X, task=TASK))


def test_rows_of_unknown_tasks_are_predicted_if_asked_for(client, model_of_frame):
    rows = spread(FRAME.assign(shop=99))
    with pytest.raises(DataError, match="99"):
        mtboost.dask.predict(client, model_of_frame, rows).compute()
    found = mtboost.dask.predict(client, model_of_frame, rows, unknown_task="common").compute()
    expected = model_of_frame.predict(FRAME.assign(shop=99), unknown_task="common")
    np.testing.assert_array_equal(found, expected)


# ---- estimators ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator", [mtboost.dask.DaskMultiTaskRegressor, mtboost.dask.DaskMultiTaskClassifier]
)
def test_tasks_and_margins_are_routed(estimator):
    requests = estimator().get_metadata_routing()
    assert set(requests.predict.requests) == {"task", "base_margin"}


def test_the_regressor_is_that_of_one_machine(client):
    options = {"n_estimators": 20, "task": "shop", "validation": "last", "time": "day"}
    options |= {"strategy": "two-stage"}
    alone = mtboost.MultiTaskRegressor(**options).fit(FRAME, Y)
    found = mtboost.dask.DaskMultiTaskRegressor(**options)
    found.client = client
    assert found.fit(spread(FRAME), spread(pd.Series(Y))) is found
    predicted = found.predict(spread(FRAME))
    assert isinstance(predicted, dd.Series)
    np.testing.assert_allclose(predicted.compute(), alone.predict(FRAME), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.predict(FRAME), alone.predict(FRAME), rtol=1e-5, atol=1e-6)
    for name in ("tasks_", "quit_round_", "n_features_in_"):
        assert getattr(found, name) == getattr(alone, name)
    of_pandas = found.predict(FRAME, output="pandas")
    pd.testing.assert_series_equal(of_pandas, alone.predict(FRAME, output="pandas"), rtol=1e-5)
    with pytest.raises(UnsupportedError, match="output is for tables that are predicted at once"):
        found.predict(spread(FRAME), output="pandas")
    assert found.feature_names_in_.tolist() == alone.feature_names_in_.tolist()
    np.testing.assert_allclose(found.feature_importances_, alone.feature_importances_, rtol=1e-4)


def test_the_classifier_knows_its_classes_and_is_saved_as_that_of_one_machine(client, tmp_path):
    names = np.array(["low", "middle", "high"])[np.digitize(Y, [0.3, 0.9])]
    found = mtboost.dask.DaskMultiTaskClassifier(n_estimators=10, validation_fraction=0)
    found.fit(spread(X), spread(names), task=spread(TASK))  # by the client in use
    assert found.classes_.tolist() == ["high", "low", "middle"]
    probabilities = found.predict_proba(spread(X), task=spread(TASK)).compute()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    predicted = found.predict(spread(X), task=spread(TASK)).compute()
    np.testing.assert_array_equal(predicted, found.classes_[probabilities.argmax(axis=1)])
    found.save(tmp_path / "model.mtboost")
    loaded = mtboost.load_model(tmp_path / "model.mtboost")
    assert type(loaded) is mtboost.MultiTaskClassifier
    assert set(found.get_metadata_routing().predict.requests) == {"task", "base_margin"}
    np.testing.assert_array_equal(loaded.predict(X, task=TASK), predicted)
    assert pickle.loads(pickle.dumps(found)).classes_.tolist() == found.classes_.tolist()


def test_the_classifier_takes_bools_in_arrays_of_objects(client):
    found = mtboost.dask.DaskMultiTaskClassifier(n_estimators=2, strategy="two-stage")
    found.fit(spread(X), spread((Y > 0.5).astype(object)), task=spread(TASK))
    assert found.classes_.dtype == bool


def test_what_the_classifier_cannot_have_on_several_workers_is_refused(client):
    classes = spread((Y > 0.5).astype(int))
    with pytest.raises(UnsupportedError, match="class_weight needs"):
        mtboost.dask.DaskMultiTaskClassifier(class_weight="balanced").fit(
            spread(X), classes, task=spread(TASK)
        )
    unknown = pd.Series(np.where(Y > 0.5, "yes", "no")).astype("string")
    unknown[3] = pd.NA
    frame = spread(FRAME.assign(answer=unknown))
    with pytest.raises(DataError, match="leave out rows without a label"):
        mtboost.dask.DaskMultiTaskClassifier(task="shop").fit(
            frame.drop(columns="answer"), frame["answer"]
        )
    with pytest.raises(DataError, match="one class only, 1"):
        mtboost.dask.DaskMultiTaskClassifier().fit(
            spread(X), spread(np.ones(N_ROWS, int)), task=spread(TASK)
        )


# ---- faults --------------------------------------------------------------------------------------


def fit_rows(client, **changed):
    rows = {"X": spread(X), "y": spread(Y), "task": spread(TASK)}
    return mtboost.dask.fit(client, **{**rows, **ROUNDS, **changed})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"params": {"max_depht": 3}}, TypeError, "max_depth"),
        ({"params": {"max_depth": "deep"}}, ParameterError, "max_depth"),
        ({"num_boost_rounds": 3}, TypeError, "num_boost_round"),
        ({"task": None}, ParameterError, "task is None"),
        ({"task": "shop"}, DataError, "'shop'"),
        ({"X": X}, TypeError, "X is a numpy.ndarray: give a Dask DataFrame or Array"),
        ({"y": Y}, TypeError, "y is a numpy.ndarray: give a Dask Series or Array"),
        ({"y": spread(Y[:800])}, DataError, "y has 4 partitions, and X has 8"),
        ({"strategy": "best"}, ParameterError, "strategy must be"),
        ({"strategy": "auto", "refit": False}, UnsupportedError, "refit=False does not work"),
        ({"strategy": "auto", "min_delta": 0.1}, ParameterError, "min_delta is 0.1"),
        ({"backend": "lightgbm"}, UnsupportedError, "backend='lightgbm' does not work"),
        ({"linear_effects": True}, UnsupportedError, "linear_effects=True does not work"),
        ({"objective": "reg:quantileerror"}, UnsupportedError, "quantileerror' does not work"),
        ({"objective": "reg:absoluteerror"}, UnsupportedError, "absoluteerror' does not work"),
        ({"objective": "survival:cox"}, UnsupportedError, "objective='survival:cox'"),
        ({"objective": "survival:aft"}, UnsupportedError, "objective='survival:aft'"),
        ({"objective": "rank:ndcg"}, UnsupportedError, "ndcg' does not work"),
        ({"qid": [0, 1]}, UnsupportedError, "qid=a list does not work"),
        ({"validation": "first"}, ParameterError, "validation must be"),
        ({"validation": "last"}, ParameterError, "pass time="),
        ({"weight": spread(np.zeros(N_ROWS))}, DataError, "weight is zero in every row"),
        ({"objective": "count:poisson"}, DataError, "Partition . of X, .*needs labels"),
        ({"task_weight": {2: 1.0}}, ValueError, "task_weight"),
    ],
)
def test_what_does_not_fit_together_is_an_error_before_training(client, options, error, message):
    with pytest.raises(error, match=re.compile(message, re.DOTALL)):
        fit_rows(client, callbacks=[InRound(end_process, 0)], **options)


def test_bad_rows_are_named_by_their_partition(client):
    labels = Y.copy()
    labels[450] = np.nan
    with pytest.raises(DataError, match=r"Partition 2 of X, .*y is nan at row 50"):
        fit_rows(client, y=spread(labels))
    parts = [FRAME[:700], FRAME[700:].rename(columns={"b": "beta"})]
    frame = dd.from_map(lambda number: parts[number], range(2), meta=FRAME[:0])
    y = dd.from_map(
        lambda number: pd.Series(Y).iloc[[slice(700), slice(700, None)][number]], [0, 1]
    )
    with pytest.raises(DataError, match=r"Partition 1 of X, .*without \['b'\] and with \['beta'\]"):
        fit_rows(client, X=frame, y=y, task="shop")


def test_sparse_partitions_are_refused_with_a_remedy(client):
    with pytest.raises(DataError, match=r"X is a SciPy matrix.*toarray"):
        fit_rows(client, X=spread(X).map_blocks(scipy.sparse.csr_matrix))


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        (np.full(N_ROWS, np.nan), TASK, r"y is nan at row 0"),
        (np.full(N_ROWS, 2.0), TASK, r"binary:logistic needs labels from 0 to 1"),
        (np.zeros(N_ROWS), np.full(N_ROWS, 9), r"task 9 is unknown"),
    ],
)
def test_bad_validation_rows_are_named_as_such_once(client, y, task, message):
    eval_set = tuple(map(spread, (X, y, task)))
    labels = spread((Y > 0.5).astype(float))
    with pytest.raises(DataError, match=rf"^eval_set: (?!eval_set).*{message}"):
        fit_rows(client, y=labels, eval_set=eval_set, objective="binary:logistic")


def test_a_frame_of_dask_is_sent_to_mtboost_dask(model_of_frame):
    frame = spread(FRAME)
    with pytest.raises(TypeError, match=r"mtboost\.dask takes"):
        mtboost.fit(frame, Y, task="shop")
    with pytest.raises(TypeError, match=r"mtboost\.dask takes"):
        model_of_frame.predict(frame)


def test_a_closed_client_is_refused(client):
    with distributed.Client(client.scheduler.address, set_as_default=False) as closed:
        pass
    with pytest.raises(ParameterError, match="client is closed"):
        fit_rows(closed)


def test_rows_that_were_cancelled_are_an_error(client):
    rows = spread(X).persist()
    distributed.wait(rows)
    client.cancel(distributed.futures_of(rows), force=True)
    with pytest.raises(TrainingError, match="rows that it kept in memory have been cancelled"):
        fit_rows(client, X=rows)


def test_columns_whose_categories_are_not_known_are_refused(client):
    text = spread(FRAME.assign(kind=FRAME["kind"].astype(str)))
    for frame in (text, text.astype({"kind": "category"})):
        with pytest.raises(DataError, match=r"'kind'.*X.categorize\(columns=\['kind'\]\)"):
            fit_rows(client, X=frame, y=spread(pd.Series(Y)), task="shop")


@pytest.mark.parametrize("happening", [raise_on_one, raise_on_one_while_one_waits])
def test_the_error_of_a_worker_is_that_of_fit(client, happening):
    with pytest.raises(ValueError, match="only this worker"):
        fit_rows(client, callbacks=[InRound(happening)])
    fit_rows(client, num_boost_round=2)  # the workers can be used again


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX defines them")
def test_ctrl_c_frees_the_workers(client):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    press = InRound(partial(signal_from_one, os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt) as _kept:  # as in a notebook
            fit_rows(client, num_boost_round=10_000_000, callbacks=[press])
    finally:
        signal.signal(signal.SIGINT, before)
    fit_rows(client, num_boost_round=2)


def test_a_killed_worker_is_an_error():
    with (
        cluster_of(2) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(TrainingError, match="Worker tcp://.* has ended"),
    ):
        fit_rows(client, callbacks=[InRound(end_one)])
