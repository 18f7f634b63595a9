# SPDX-License-Identifier: Apache-2.0
"""Tasks in ``xgboost.dask.train``; more of its options: parity/test_collective_training.py."""

import functools
import json

import numpy as np
import pytest
import xgboost

from mtboost.errors import UnsupportedError
from mtboost.xgboost import TaskObjective, TaskQuitting, TaskSplit, task_metric

dask_array = pytest.importorskip("dask.array")
dask_frame = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")
xgboost_dask = pytest.importorskip("xgboost.dask")

PARAMS = {"max_depth": 4, "objective": "reg:squarederror"}
N_ROUNDS = 5
RNG = np.random.default_rng(0)
X = RNG.integers(0, 40, (2000, 4)).astype(np.float32)  # few values: the same bins everywhere
TASK = RNG.integers(0, 4, 2000)
Y = np.sin(X[:, 0] / 6) + (TASK % 2) * X[:, 1] / 40 + RNG.normal(0, 0.2, 2000)


@pytest.fixture(scope="module", params=[True, False], ids=["processes", "threads"])
def client(request):
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=request.param, **options) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


def matrix_of_dask(client, kind="DaskQuantileDMatrix"):
    chunks = {
        name: dask_array.from_array(values, chunks=(500, *values.shape[1:]))
        for name, values in (("data", X), ("label", Y), ("label_lower_bound", TASK))
    }
    return getattr(xgboost_dask, kind)(client, **chunks)


def train_on_dask(client, callbacks, matrix=None):
    matrix = matrix or matrix_of_dask(client)
    found = xgboost_dask.train(
        client, PARAMS, matrix, N_ROUNDS, evals=[(matrix, "train")], callbacks=callbacks
    )
    return found["booster"], found["history"]["train"]["rmse"]


def train_alone(callbacks):
    matrix = xgboost.QuantileDMatrix(X, Y, label_lower_bound=TASK)
    return xgboost.train(PARAMS, matrix, N_ROUNDS, callbacks=callbacks)


def trees_of(booster):
    document = json.loads(bytes(booster.save_raw("json")))
    return document["learner"]["gradient_booster"]["model"]["trees"]


def assert_same_trees(found, expected):
    for tree, other in zip(trees_of(found), trees_of(expected), strict=True):
        assert tree["split_indices"] == other["split_indices"]
        conditions = tree["split_conditions"], other["split_conditions"]
        np.testing.assert_allclose(*conditions, rtol=1e-6, atol=1e-6)


def test_a_split_score_on_dask_trains_the_model_of_one_machine(client):
    booster, rmse = train_on_dask(client, [TaskSplit("label_lower_bound")])
    assert type(booster) is xgboost.Booster
    assert_same_trees(booster, train_alone([TaskSplit(TASK)]))
    assert rmse[-1] < rmse[0]


def test_the_plain_score_on_dask_is_stock_training(client):
    plain = TaskSplit("label_lower_bound", split_score="plain")
    found, history = train_on_dask(client, [plain])
    stock, history_of_stock = train_on_dask(client, None)
    assert trees_of(found) == trees_of(stock)
    # Which worker holds which rows differs between runs, and with it the order of the sums.
    np.testing.assert_allclose(history, history_of_stock, rtol=1e-12)


def test_pooled_leaves_return_with_the_booster(client):
    split, alone = TaskSplit("label_lower_bound", pooling=2.0), TaskSplit(TASK, pooling=2.0)
    trained, expected = train_on_dask(client, [split])[0], train_alone([alone])
    rows = xgboost.DMatrix(X)
    for task in range(4):
        of_task = split.booster(trained, task).predict(rows)
        expected_of_task = alone.booster(expected, task).predict(rows)
        np.testing.assert_allclose(of_task, expected_of_task, rtol=1e-5, atol=1e-6)
        assert not np.allclose(of_task, trained.predict(rows), atol=1e-3)
    assert split.tasks.names == (0, 1, 2, 3)
    np.testing.assert_allclose(
        split.booster(trained).predict(rows), alone.booster(expected).predict(rows), atol=1e-5
    )


def test_pooled_leaves_of_xgboosts_own_trees_return_with_the_booster(client):
    options = {"split_score": "plain", "pooling": 2.0}
    split, alone = TaskSplit("label_lower_bound", **options), TaskSplit(TASK, **options)
    params = {**PARAMS, "tree_method": "approx", "nthread": 1}
    matrix = matrix_of_dask(client, "DaskDMatrix")
    trained = xgboost_dask.train(client, params, matrix, N_ROUNDS, callbacks=[split])["booster"]
    expected = xgboost.train(params, xgboost.DMatrix(X, Y), N_ROUNDS, callbacks=[alone])
    rows = xgboost.DMatrix(X)
    for task in range(4):
        of_task = split.booster(trained, task).predict(rows)
        expected_of_task = alone.booster(expected, task).predict(rows)
        np.testing.assert_allclose(of_task, expected_of_task, rtol=0, atol=1e-6)
        assert not np.allclose(of_task, trained.predict(rows), atol=1e-3)


def test_tasks_weigh_and_quit_on_dask_as_on_one_machine(client):
    def train(matrix, call, tasks, of_evals):
        objective = TaskObjective("reg:squarederror", tasks, task_weight="balanced")
        quitting = TaskQuitting("rows", tasks, objective=objective, early_stopping_rounds=1)
        found = call(
            {**PARAMS, "base_score": float(Y.mean()), "learning_rate": 0.9},
            matrix,
            20,
            obj=objective,
            evals=[(matrix, "rows")],
            callbacks=[quitting],
            custom_metric=task_metric("mae", of_evals, objective=objective),
        )
        return found, quitting

    alone = xgboost.QuantileDMatrix(X, Y)
    history = {}
    call = functools.partial(xgboost.train, evals_result=history, verbose_eval=False)
    booster, quitting = train(alone, call, TASK, [(alone, TASK)])
    call = functools.partial(xgboost_dask.train, client)
    found, _ = train(matrix_of_dask(client), call, "label_lower_bound", "label_lower_bound")
    assert_same_trees(found["booster"], booster)
    assert TaskQuitting.quit_round_of(found["booster"]) == quitting.quit_round
    for metric, values in history["rows"].items():
        np.testing.assert_allclose(found["history"]["rows"][metric], values, rtol=1e-5)


def test_tasks_of_a_frame_are_one_of_its_columns(client):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(shop=TASK, y=Y)
    parts = dask_frame.from_pandas(frame, npartitions=4)
    matrix = xgboost_dask.DaskQuantileDMatrix(
        client, parts[list("abcd")], parts["y"], label_lower_bound=parts["shop"]
    )
    found, _ = train_on_dask(client, [TaskSplit("label_lower_bound")], matrix)
    assert_same_trees(found, train_alone([TaskSplit(TASK)]))


def test_labels_of_rows_are_refused_on_dask(client):
    with pytest.raises(UnsupportedError, match="or give it 'label_lower_bound' as task"):
        train_on_dask(client, [TaskSplit(TASK)])
