# SPDX-License-Identifier: Apache-2.0
"""Several machines are refused, by whatever is given to the libraries and by what trains itself.

A collective of XGBoost, and LightGBM's network, belong to a thread. Objects may be made before it
is set up, without being notified: each must check.
"""

import inspect
import json
import socket
import subprocess
import sys

import lightgbm
import numpy as np
import pytest
import xgboost
from xgboost.tracker import RabitTracker

import mtboost
import mtboost.lightgbm
import mtboost.xgboost
from mtboost.errors import UnsupportedError
from mtboost.lightgbm import library

TIMEOUT = 120  # seconds; a hang is one of the failures looked for


def xgboost_cases():
    """Name of each thing that XGBoost is given, and a training with it; the things are made now."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y, task = X[:, 0] + rng.normal(size=100), rng.integers(0, 2, 100)
    Y = np.column_stack([y, y])
    params = {"nthread": 1}
    vector = {**params, "multi_strategy": "multi_output_tree", "min_child_weight": 0}
    ours = mtboost.xgboost
    objective = ours.TaskObjective("reg:squarederror", task)
    wrapped = ours.TaskObjective("reg:squarederror", task)
    split = ours.TaskSplit(task)
    metrics = {}

    def train(label=y, params=params, **options):
        xgboost.train(params, xgboost.DMatrix(X, label), 1, **options)

    def watch():
        data = xgboost.DMatrix(X, y)
        train(callbacks=[ours.TaskQuitting(data)])

    def evaluate():
        data = xgboost.DMatrix(X, y)
        metrics[0] = ours.task_metric("rmse", [(data, task)])
        xgboost.train(params, data, 1, evals=[(data, "")], custom_metric=metrics[0])

    cases = {
        "TaskSplit": lambda: train(callbacks=[split]),
        "TaskObjective": lambda: train(obj=objective),
        "TaskObjective, XGBRegressor": lambda: xgboost.XGBRegressor(
            n_estimators=1, objective=wrapped, n_jobs=1
        ).fit(X, y),
        "TaskQuitting": watch,
        "task_metric": evaluate,
        "mtboost.fit": lambda: mtboost.fit(X, y, task=task, strategy="two-stage"),
        "mtboost.fit, auto": lambda: mtboost.fit(X, y, task=task, strategy="auto"),
        "mtboost.train": lambda: mtboost.train({}, mtboost.Dataset(X, y, task=task), 1),
        "mtboost.feature_prior": lambda: mtboost.feature_prior([(X, y)]),
        "MultiTaskRegressor": lambda: mtboost.MultiTaskRegressor(strategy="two-stage").fit(
            X, y, task=task
        ),
        "ProjectedBoostingRegressor": lambda: mtboost.ProjectedBoostingRegressor().fit(X, y),
        "PriorSamplingClassifier": lambda: mtboost.PriorSamplingClassifier().fit(X, y > 0),
    }
    if hasattr(xgboost, "objective"):  # from XGBoost 3.2 on
        projected = ours.ProjectedObjective(n_components=1)
        cases |= {"ProjectedObjective": lambda: train(Y, vector, callbacks=[projected])}
    return cases


def lightgbm_cases(**network):
    """The same for LightGBM, with parameters that name the machines, or without."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y, task = X[:, 0] + rng.normal(size=100), rng.integers(0, 2, 100)
    Y = np.column_stack([y, y])
    params = {"num_threads": 1, "verbosity": -1, **network}
    ours = mtboost.lightgbm
    objective, split = ours.TaskObjective("regression", task), ours.TaskSplit(task)
    projected = ours.ProjectedObjective(Y)

    def train(objective="regression", callbacks=()):
        data = lightgbm.Dataset(X, y)
        given = {**params, "objective": objective}
        lightgbm.train(given, data, 1, valid_sets=[data], callbacks=list(callbacks))

    def evaluate():
        data = lightgbm.Dataset(X, y)
        metric = ours.task_metric("rmse", [(data, task)])
        lightgbm.train(params, data, 1, valid_sets=[data], feval=metric)

    def fit(**options):
        given = {"strategy": "two-stage", "backend": "lightgbm", "params": network, **options}
        mtboost.fit(X, y, task=task, **given)

    return {
        "TaskSplit": lambda: train(callbacks=[split]),
        "TaskObjective": lambda: train(objective),
        "TaskObjective, LGBMRegressor": lambda: lightgbm.LGBMRegressor(
            n_estimators=1, objective=objective, n_jobs=1, **network
        ).fit(X, y),
        "TaskQuitting": lambda: train(callbacks=[ours.TaskQuitting("training")]),
        "task_metric": evaluate,
        "ProjectedObjective": lambda: train(callbacks=[projected]),
        "mtboost.fit": fit,
        "mtboost.fit, auto": lambda: fit(strategy="auto"),
    }


def refusal(train):
    """What is said of several machines; another exception is raised."""
    try:
        train()
    except UnsupportedError as error:
        return str(error)
    return "nothing is refused"


def assert_refused(name, said):
    user = name.partition(",")[0].rpartition(".")[2]
    by_mtboost = user in ("fit", "train", "feature_prior") or hasattr(mtboost, user)
    assert f"{'mtboost' if by_mtboost else user} does not train on several machines" in said


@pytest.mark.parametrize("name", xgboost_cases())
def test_xgboost_with_several_workers_is_refused(name, monkeypatch):
    train = xgboost_cases()[name]
    monkeypatch.setattr(xgboost.collective, "get_world_size", lambda: 2)
    assert_refused(name, refusal(train))


@pytest.mark.parametrize("name", lightgbm_cases())
def test_lightgbm_with_a_network_is_refused(name, monkeypatch):
    train = lightgbm_cases()[name]
    monkeypatch.setattr(library, "_network_size", lambda: 2)
    assert_refused(name, refusal(train))


@pytest.mark.parametrize("alias", ["machines", "workers", "nodes"])
@pytest.mark.parametrize("machines", ["10.0.0.1:1,10.0.0.2:1", ["10.0.0.1:1", "10.0.0.2:1"]])
def test_machines_named_in_parameters_are_refused(alias, machines):
    X, y = np.random.default_rng(0).normal(size=(9, 1)), np.arange(9.0)
    options = {"backend": "lightgbm", "strategy": "two-stage", "params": {alias: machines}}
    with pytest.raises(UnsupportedError, match="network has 2: train on one"):
        mtboost.fit(X, y, **options)


def test_one_machine_is_not_refused():
    for network in ({}, {"machines": ""}, {"machines": "127.0.0.1:12400"}, {"num_machines": 1}):
        library.check_one_machine("A test", network)
    library.check_one_machine("A test")


SCRIPT = f"""
import ctypes, json, sys
import lightgbm, numpy as np, xgboost
import mtboost, mtboost.lightgbm, mtboost.xgboost
from mtboost.errors import UnsupportedError

{inspect.getsource(refusal)}
{inspect.getsource(xgboost_cases)}
{inspect.getsource(lightgbm_cases)}

arguments, machines, port = json.loads(sys.argv[1])
cases = xgboost_cases()
with xgboost.collective.CommunicatorContext(**arguments):
    said = {{f"xgboost/{{name}}": refusal(train) for name, train in cases.items()}}
    assert xgboost.collective.get_world_size() == 2
cases = lightgbm_cases()
lightgbm.basic._safe_call(
    lightgbm.basic._LIB.LGBM_NetworkInit(machines.encode(), port, ctypes.c_int(1), 2)
)
said |= {{f"lightgbm/{{name}}": refusal(train) for name, train in cases.items()}}
lightgbm.basic._LIB.LGBM_NetworkFree()
print(json.dumps(said))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="LightGBM does not export its network there")
def test_two_workers_are_refused_and_neither_waits_for_the_other():
    tracker = RabitTracker(host_ip="127.0.0.1", n_workers=2)
    tracker.start()
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    machines = ",".join(f"127.0.0.1:{port}" for port in ports)
    workers = [
        subprocess.Popen(
            [
                *(sys.executable, "-P", "-W", "ignore", "-c", SCRIPT),
                json.dumps([tracker.worker_args(), machines, port]),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for port in ports
    ]
    try:
        # The libraries print lines before the last one.
        printed = [worker.communicate(timeout=TIMEOUT)[0].splitlines() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    tracker.wait_for()
    for lines in printed:
        of_worker = json.loads(lines[-1])
        assert of_worker.keys() == {
            *(f"xgboost/{name}" for name in xgboost_cases()),
            *(f"lightgbm/{name}" for name in lightgbm_cases()),
        }
        for name, text in of_worker.items():
            assert_refused(name.partition("/")[2], text)
