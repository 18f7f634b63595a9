# SPDX-License-Identifier: Apache-2.0
"""Where the system refuses threads or memory, calls go on with fewer threads or raise MemoryError.

None may hang, or end the process. Each runs in a child: see limits.py. docs/limits.md says what
XGBoost and LightGBM do not survive, and why their OpenMP threads are kept to one there.
"""

import re
import signal

import lightgbm
import pytest

TIMEOUT = 60.0  # seconds; a hang is the failure looked for

TABLES = """
import numpy as np
import lightgbm, optuna, scipy.sparse, sklearn.ensemble, xgboost
import mtboost
optuna.logging.set_verbosity(optuna.logging.ERROR)
rng = np.random.default_rng(0)
n, d = globals().get('N_ROWS', 600), 12
X = rng.normal(size=(n, d))
task = np.arange(n) % 3
y = X[:, 0] + task * X[:, 1] + rng.normal(size=n)
Y = y[:, None] + X[:, :5]
sparse = scipy.sparse.csr_matrix(np.where(X < 1.0, 0.0, X))
classes = np.digitize(y, [-1, 1])
sparse_labels = scipy.sparse.csr_matrix((Y > 0).astype(int))
few = dict(num_boost_round=3, specific_rounds=2, n_threads=4)
few_trees = dict(n_estimators=3, n_jobs=4, random_state=0)
quiet = dict(verbosity=-1, num_threads=4, min_data_in_leaf=5)
short_search = dict(strategy='auto', effort='fast', validation_fraction=0.25)
short_search |= dict(params={'max_depth': 2}, early_stopping_rounds=1)
two_trials = dict(task=task, n_trials=2, early_stopping_rounds=2, strategy='two-stage', **few)
def fit(y=y, **options):
    return mtboost.fit(X, y, **dict(task=task, strategy='two-stage', **few) | options)
def predicted(model, table=X): return model.predict(table, task=task)
def boosted(table=X, **options):
    rows = xgboost.QuantileDMatrix(table, y, nthread=1)
    booster = xgboost.train({'nthread': 4}, rows, 3, **options)
    return booster.predict(xgboost.DMatrix(table, nthread=1))
def split(**options): return dict(callbacks=[mtboost.xgboost.TaskSplit(task, **options)])
"""

# Expressions whose value must not depend on the limit.
CALLS = {
    "fit": "predicted(fit())",
    "fit_lightgbm": "predicted(fit(backend='lightgbm'))",
    "fit_auto": "predicted(fit(**short_search))",
    "fit_auto_lightgbm": "predicted(fit(backend='lightgbm', **short_search))",
    "fit_with_everything": (
        "predicted(fit(split_score='plain', pooling=1.0, task_splits=True, baselines=True, "
        "refit=True))"
    ),
    "fit_symmetric": (
        "predicted(fit(split_score='plain', symmetric_trees=True, random_strength=1.0))"
    ),
    "fit_of_mixed_objectives": (
        "mtboost.fit(X, np.where(task == 0, y > 0, y), task=task, objective={0: 'binary:logistic', "
        "1: 'reg:squarederror', 2: 'reg:squarederror'}, **few, **short_search)"
        ".predict_margin(X, task=task)"
    ),
    "add_task": (
        "(model := fit()).add_task(3, X[:99], y[:99]) or model.predict(X, task=np.full(n, 3))"
    ),
    "booster": "[*fit().booster(1).save_raw()]",
    "train": (
        "mtboost.train({'nthread': 4}, mtboost.Dataset(X, y, task=task), 3)"
        ".predict(xgboost.DMatrix(X, nthread=1))"
    ),
    "MultiTaskRegressor": (
        "predicted(mtboost.MultiTaskRegressor(specific_rounds=2, effort='fast', "
        "validation_fraction=0.25, **few_trees).fit(X, y, task=task))"
    ),
    "TaskSplit": "boosted(**split())",
    "TaskSplit_of_a_function": "boosted(**split(split_score=lambda s, of_tasks: s))",
    "TaskSplit_of_a_sparse_table": "boosted(sparse, **split())",
    "TaskSplit_lightgbm": (
        "lightgbm.train(quiet, lightgbm.Dataset(X, y), 3, "
        "callbacks=[mtboost.lightgbm.TaskSplit(task)]).predict(X)"
    ),
    "TaskObjective": (
        "boosted(obj=mtboost.xgboost.TaskObjective('reg:squarederror', task, n_threads=4))"
    ),
    "MTExtraTreesRegressor": (
        "predicted(mtboost.MTExtraTreesRegressor(bootstrap=True, oob_score=True, **few_trees)"
        ".fit(X, y, task=task))"
    ),
    **{
        name: (
            f"mtboost.{name}({options}).fit({table}, classes, task=task)"
            f".predict_proba({table}, task=task)"
        )
        for name, options, table in [
            ("MTExtraTreesClassifier", "**few_trees", "sparse"),
            ("MTDecisionTreeClassifier", "n_jobs=4, random_state=0", "X"),
            ("MTAdaBoostClassifier", "**few_trees", "X"),
        ]
    },
    **{
        name: f"mtboost.{name}({options}**few_trees).fit(X, {labels}).{method}(X)"
        for name, options, labels, method in [
            ("ProjectedForestRegressor", "", "Y", "predict"),
            ("ProjectedForestClassifier", "", "sparse_labels", "predict_proba"),
            ("ProjectedBoostingRegressor", "", "Y", "predict"),
            ("ProjectedBoostingClassifier", "projection='variance', ", "classes", "predict_proba"),
            ("PriorSamplingRegressor", "prior=np.ones(d), ", "y", "predict"),
            (
                "PriorSamplingClassifier",
                "prior=np.ones(d), dynamic=True, ",
                "classes",
                "predict_proba",
            ),
        ]
    },
    "compress": (
        "mtboost.compress(mtboost.MTExtraTreesRegressor(**few_trees), X, y, cv=3, max_steps=20, "
        "epsilon=0.1, random_state=0, n_jobs=4).predict(X)"
    ),
    "feature_prior": "mtboost.feature_prior([(X, y), (X, -y)], n_threads=4)",
    "tune": "predicted(mtboost.tune(X, y, **two_trials).model)",
    "tune_lightgbm": "predicted(mtboost.tune(X, y, backend='lightgbm', **two_trials).model)",
}

VALUE = """
def value():
    found = {call}
    return np.asarray(list(found.values()) if isinstance(found, dict) else found).tobytes()

expected = value()
"""

FEWER_THREADS = """
refuse_threads(2)
assert value() == expected
limit_memory(None)
refuse_processes()
assert value() == expected
"""


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_go_on_with_the_threads_that_can_be_started(children, call):
    outcome = children.run(TABLES + VALUE.format(call=call) + FEWER_THREADS, timeout=TIMEOUT)
    assert outcome.exit_code == 0, outcome


SHORT = """
import errno
for n_bytes in (0, 2**18):
    limit_memory(n_bytes)
    try:
        found = value()
    except (MemoryError, xgboost.core.XGBoostError, lightgbm.basic.LightGBMError):
        found = expected
    except OSError as error:  # a file that LightGBM wrote is read as a map of memory
        assert error.errno == errno.ENOMEM
        found = expected
    limit_memory(None)
    assert found == expected
assert value() == expected
"""


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_raise_memory_error_and_the_process_goes_on(children, call):
    script = "N_ROWS = 4000" + TABLES + VALUE.format(call=call) + SHORT
    outcome = children.run(script, timeout=TIMEOUT)
    assert outcome.exit_code == 0 or is_of_another_library(outcome), str(outcome)


def is_of_another_library(outcome):
    """Whether LightGBM or NumPy has used memory that it did not get: docs/limits.md."""
    file, line = outcome.crash
    of_numpy = re.search(r"\] [-+*/]?= ", line) and "_core" not in line  # assigns by index
    return file == lightgbm.basic.__file__ or bool(of_numpy)


def test_the_limits_are_felt(children):
    """Without this the tests above could pass because nothing is refused."""
    use_threads = """
import threading
is_over = threading.Event()
try:
    for number in range(9):
        threading.Thread(target=is_over.wait, daemon=True).start()
except RuntimeError:
    print(number)
is_over.set()
"""
    for limit, n_started in (
        ("refuse_threads(0)", 0),
        ("refuse_threads(2)", 2),
        ("refuse_processes()", 0),
    ):
        outcome = children.run(limit + use_threads)
        assert (outcome.exit_code, outcome.output) == (0, f"{n_started}\n"), outcome
    outcome = children.run("limit_memory(2**20); bytearray(2**26)")
    assert outcome.exit_code == 1
    assert "MemoryError" in outcome.errors
    assert children.run("limit_memory(2**20); limit_memory(None); bytearray(2**26)").exit_code == 0


def test_an_end_by_a_signal_and_a_hang_are_reported(children):
    outcome = children.run("import os; os.abort()")
    assert (outcome.exit_code, outcome.signal) == (None, signal.SIGABRT)
    assert outcome.crash == ("<script>", "")
    assert not is_of_another_library(outcome)
    assert children.run("1 / 0").crash == ("", "")
    outcome = children.run("import signal; signal.pause()", timeout=0.2)
    assert outcome.timed_out
    assert outcome.exit_code is None
    assert children.run("raise SystemExit(3)").exit_code == 3
