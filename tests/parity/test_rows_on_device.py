# SPDX-License-Identifier: Apache-2.0
"""Trees that XGBoost grows on a GPU, with the rows of the tasks there: the host's margins.

On a machine without a GPU a stand-in for CuPy has the arrays (device_stand_in.py), and XGBoost
grows on the CPU.
"""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xgboost
from device_stand_in import HAS_GPU, cupy_or_stand_in

import mtboost
from mtboost.errors import TrainingError
from mtboost.xgboost import TaskObjective, TaskQuitting, TaskSplit, assemble
from mtboost.xgboost import growth as growing
from mtboost.xgboost.device_rows import DeviceRows
from mtboost.xgboost.library import version

DEVICE = "cuda" if HAS_GPU else "cpu"
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs CuPy and a GPU of NVIDIA")

N_ROWS, N_TASKS, N_ROUNDS = 4000, 7, 18
# Sums in another order, and the exponential of another library, in float32.
NEARLY = {"rtol": 1e-5, "atol": 1e-5}
rng = np.random.default_rng(0)
X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
TASK = rng.integers(0, N_TASKS, N_ROWS)
F = X[:, 0] * rng.normal(1.0, 0.8, N_TASKS)[TASK] + np.sin(2 * X[:, 1])
NOISY = F + rng.normal(0, 0.5, N_ROWS)
WEIGHT = rng.uniform(0.5, 2.0, N_ROWS)
LABELS = {
    "reg:squarederror": NOISY,
    "reg:pseudohubererror": NOISY,
    "reg:absoluteerror": NOISY,
    "binary:logistic": (NOISY > 0.5).astype(float),
    "count:poisson": rng.poisson(np.exp(F)).astype(float),
    "reg:gamma": np.exp(NOISY),
    "reg:tweedie": rng.poisson(np.exp(F)).astype(float),
    "reg:squaredlogerror": np.exp(NOISY),
    "multi:softprob": np.digitize(NOISY, [0.0, 0.8]).astype(float),
    "survival:cox": np.exp(NOISY),
}


@pytest.fixture(autouse=True)
def library(monkeypatch):
    """CuPy, or the stand-in."""
    if not HAS_GPU:
        monkeypatch.setattr(growing, "why_library_grows", lambda *_: "this test")
    return cupy_or_stand_in(monkeypatch)


MISSING = np.where(rng.random(X.shape) < 0.1, np.float32(np.nan), X)
CATEGORIES = pd.DataFrame({"a": pd.Categorical((4 * X[:, 0]).astype(int)), "b": X[:, 1]})


def train(
    params=(),
    objective="reg:squarederror",
    *,
    table=X,
    given="table",
    callbacks=(),
    evals=(),
    obj=None,
    task=TASK,
    make=xgboost.QuantileDMatrix,
    start=None,
    xgb_model=None,
    **options,
):
    """Margins of the training rows, each by the booster of its task."""
    options = {"split_score": "plain", "pooling": 10.0, **options}
    is_on_device = given == "on the device"
    values = table if given else None
    if is_on_device:
        values = sys.modules["cupy"].asarray(table)
    split = TaskSplit(task, table=values, **options)
    matrix = make(
        table, LABELS[objective], weight=WEIGHT, base_margin=start, enable_categorical=True
    )
    classes = {"num_class": 3} if objective.startswith("multi") else {}
    params = {"device": DEVICE, "max_depth": 4, "objective": objective, **classes, **dict(params)}
    booster = xgboost.train(
        params,
        matrix,
        N_ROUNDS,
        callbacks=[split, *callbacks],
        evals=[(matrix, "train")] if evals is None else evals,
        obj=obj,
        xgb_model=xgb_model,
        verbose_eval=False,
    )
    result = None
    for number, name in enumerate(split.tasks.names):
        own = split.booster(booster, name)
        own.set_param({"device": "cpu"})
        rows = np.flatnonzero(split.tasks.codes == number)
        part = table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]
        margin = own.predict(xgboost.DMatrix(part, enable_categorical=True), output_margin=True)
        if result is None:
            result = np.empty((N_ROWS, *margin.shape[1:]))
        result[rows] = margin
    return result


def on_the_host(monkeypatch, *args, **kwargs):
    """The same training, with the arrays of the rows on the host."""
    with monkeypatch.context() as patch:
        patch.setattr(DeviceRows, "of", lambda _: None)
        return train(*args, **kwargs)


VARIANTS = {
    **{name: ({}, name, {}) for name in LABELS},
    "missing values": ({}, "reg:squarederror", {"table": MISSING}),
    "categories": ({}, "reg:squarederror", {"table": CATEGORIES}),
    "a matrix of values": ({}, "binary:logistic", {"make": xgboost.DMatrix}),
    "base margins": ({}, "reg:squarederror", {"start": X[:, 3]}),
    "sampled rows": ({"subsample": 0.6}, "reg:squarederror", {}),
    "sampled rows of classes": ({"subsample": 0.6}, "multi:softprob", {}),
    "loss-guided": ({"grow_policy": "lossguide", "max_leaves": 9}, "count:poisson", {}),
    "monotone": ({"monotone_constraints": (1, 0, -1, 0, 0)}, "binary:logistic", {}),
    "weights of positives": ({"scale_pos_weight": 3.0}, "binary:logistic", {}),
    "estimated": ({}, "binary:logistic", {"pooling": "auto"}),
    "pooled": ({}, "count:poisson", {"pooling": None}),
    "separate": ({}, "reg:squarederror", {"pooling": 0.0}),
    "vector leaves": ({"multi_strategy": "multi_output_tree"}, "multi:softprob", {}),
    "values on the GPU": ({}, "reg:squarederror", {"given": "on the device"}),
    "no values": ({}, "reg:squarederror", {"given": None}),
    "metrics of the training rows": ({}, "multi:softprob", {"evals": None}),
    "nested tasks": (
        {},
        "reg:squarederror",
        {
            "task": list(zip((TASK // 3).tolist(), TASK.tolist(), strict=True)),
            "pooling": (9.0, 5.0),
        },
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_margins_are_those_of_rows_on_the_host(variant, library, monkeypatch):
    params, objective, options = VARIANTS[variant]
    found = train(params, objective, **options)
    if not HAS_GPU:
        # Leaves that are medians, before XGBoost 3.4, need labels and margins: the core finds them.
        are_medians = objective == "reg:absoluteerror" and version() < (3, 4)
        assert (library.n_trees > 0) == (not are_medians)
    expected = on_the_host(monkeypatch, params, objective, **options)
    np.testing.assert_allclose(found, expected, **NEARLY)
    assert np.std(found) > 0.1


def test_a_model_is_continued(monkeypatch):
    first = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, NOISY), 4)
    found, expected = train(xgb_model=first), on_the_host(monkeypatch, xgb_model=first)
    np.testing.assert_allclose(found, expected, **NEARLY)


@needs_gpu
def test_margins_are_nearly_those_of_the_cpu():
    # The cuts of a GPU's bins and the rounding of its gradients are others.
    found, expected = train(), train({"device": "cpu"})
    assert np.corrcoef(found, expected)[0, 1] > 0.99


def test_two_trainings_have_the_same_bits():
    np.testing.assert_array_equal(train(), train())


@pytest.mark.parametrize("is_on_device", [False, True])
def test_an_objective_of_the_user(is_on_device, library, monkeypatch):
    xp = library if is_on_device else np
    label = xp.asarray(NOISY.astype(np.float32))

    def squared(margins, _):
        return xp.asarray(margins) - label, xp.ones(N_ROWS, np.float32)

    found = train(obj=squared)
    np.testing.assert_allclose(found, on_the_host(monkeypatch, obj=squared), **NEARLY)


def test_an_objective_that_is_not_finite_is_refused():
    with pytest.raises(TrainingError, match="not finite in round 0, first at row 3"):
        train(obj=lambda margins, _: (np.where(np.arange(N_ROWS) == 3, np.nan, 1.0), 1.0 + 0 * F))


def test_the_loss_names_a_margin_that_is_not_finite():
    with pytest.raises(TrainingError, match="row 3"):
        train({"base_score": 1.0}, "reg:gamma", start=np.where(np.arange(N_ROWS) == 3, -200.0, 0.0))


def test_an_objective_for_each_task(monkeypatch):
    params = {"disable_default_eval_metric": 1, "base_score": 0.0}
    objective = TaskObjective("binary:logistic", TASK, task_weight="balanced")
    found = train(params, "binary:logistic", obj=objective)
    expected = on_the_host(monkeypatch, params, "binary:logistic", obj=objective)
    np.testing.assert_allclose(found, expected, **NEARLY)


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:squaredlogerror"])
def test_tasks_that_quit(objective, monkeypatch):
    def trained(train, *args):
        label = np.where(TASK % 2 == 0, LABELS[objective], LABELS[objective][::-1])
        quitting = TaskQuitting(xgboost.DMatrix(X, label), TASK, early_stopping_rounds=1)
        found = train(*args, {"subsample": 0.7}, objective, callbacks=[quitting])
        return quitting.quit_round, found

    rounds, found = trained(train)
    expected_rounds, expected = trained(on_the_host, monkeypatch)
    assert rounds == expected_rounds
    assert min(rounds.values()) < N_ROUNDS
    np.testing.assert_allclose(found, expected, **NEARLY)


def test_the_training_rows_are_watched_by_their_name(monkeypatch):
    def trained(train, *args):
        quitting = TaskQuitting("train", TASK, early_stopping_rounds=1)
        return train(*args, callbacks=[quitting], evals=None)

    expected = trained(on_the_host, monkeypatch)
    np.testing.assert_allclose(trained(train), expected, **NEARLY)


@pytest.mark.parametrize("table", [X, MISSING, X.astype(np.float64), np.asfortranarray(X)])
def test_leaves_are_those_of_xgboost(table):
    matrix = xgboost.QuantileDMatrix(table, NOISY)
    booster = xgboost.train({"device": DEVICE, "max_depth": 6}, matrix, 3)
    device = DeviceRows.of("cuda:0")
    device.keep_values(table, matrix)
    expected = booster.predict(matrix, pred_leaf=True)
    for number, tree in enumerate(assemble.trees_of(assemble.read_document(booster))):
        assert device.finds_leaves(tree)
        np.testing.assert_array_equal(device.leaves(tree).get(), expected[:, number])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(X),
        X[1:],
        X[:, 1:],
        X.astype(object),
        np.where(X > 1.0, np.float32(np.nan), X),
        None,
    ],
)
def test_other_tables_are_left_to_xgboost(table):
    device = DeviceRows.of("cuda:0")
    device.keep_values(table, xgboost.QuantileDMatrix(X, NOISY))
    assert device._values is None


def test_a_training_without_cupy_is_warned_of(monkeypatch):
    monkeypatch.undo()  # the stand-in
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert DeviceRows.of("cpu") is None
    with pytest.warns(UserWarning, match="CuPy is not installed.*Install CuPy"):
        assert DeviceRows.of("cuda:0") is None


def test_a_cupy_that_does_not_work_is_warned_of(monkeypatch):
    def fails(values):
        raise RuntimeError("failed to load libnvrtc.so.12")

    monkeypatch.undo()  # the stand-in
    device = SimpleNamespace(Device=lambda number: nullcontext())
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=fails, cuda=device))
    with pytest.warns(UserWarning, match=r"CuPy fails \(failed to load libnvrtc.*Install CuPy"):
        assert DeviceRows.of("cuda:0") is None


@needs_gpu
@pytest.mark.parametrize("strategy", ["two-stage", "auto"])
def test_fit(strategy):
    options = {"effort": "fast"} if strategy == "auto" else {"pooling": 10.0, "num_boost_round": 20}
    params = {"device": DEVICE, "max_depth": 4}
    model = mtboost.fit(X, NOISY, task=TASK, strategy=strategy, params=params, **options)
    predicted = model.predict(X, task=TASK)
    assert np.mean((predicted - NOISY) ** 2) < 0.6 * np.var(NOISY)
    own = model.booster(3).predict(xgboost.DMatrix(X[TASK == 3]), output_margin=True)
    np.testing.assert_allclose(own, predicted[TASK == 3], rtol=1e-4, atol=1e-4)
