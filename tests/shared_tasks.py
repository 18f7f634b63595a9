# SPDX-License-Identifier: Apache-2.0
"""Tasks that share much, little or nothing, for tests of strategy="auto"."""

from dataclasses import replace

import numpy as np

import mtboost
from mtboost.model.sharing.effort import EFFORTS

N_TASKS, N_EACH = 6, 150
# One size of trees, and one part of the rows held out: the search is then much shorter.
OPTIONS = {
    "validation_fraction": 0.2,
    "num_boost_round": 60,
    "specific_rounds": 40,
    "early_stopping_rounds": 10,
    "params": {"max_depth": 3, "learning_rate": 0.2},
}


def tasks_of(functions, seed=0, n_each=N_EACH, noise=0.2):
    """Rows of one task after the other; each function takes the columns."""
    rng = np.random.default_rng(seed)
    X = rng.random((len(functions) * n_each, 3))
    task = np.repeat(np.arange(len(functions)), n_each)
    clean = np.concatenate([f(*X[task == code].T) for code, f in enumerate(functions)])
    return X, clean + noise * rng.normal(size=len(X)), task


def wave(a, b, c):
    return np.sin(6 * a) + b


def other(a, b, c):
    return 3 * np.cos(7 * c) - 2 * b


def limit(monkeypatch, **limits):
    """Let a search of either effort cost less."""
    for name in ("balanced", "thorough"):
        monkeypatch.setitem(EFFORTS, name, replace(EFFORTS[name], **limits))


SAMPLING = {
    "xgboost": {"subsample": 1.0},
    "lightgbm": {"bagging_fraction": 1.0, "bagging_freq": 1},
}
SAME = [wave] * N_TASKS
OUTLIER = [wave] * (N_TASKS - 1) + [other]
UNRELATED = [
    lambda a, b, c, s=s, k=k: s * np.sin((3 + k) * (a, b, c)[k % 3])
    for k, s in enumerate([2, -3, 4, -2, 3, -4])
]


def fitted(library, data, **options):
    X, y, task = data
    options = {"strategy": "auto", **OPTIONS, **options}
    return mtboost.fit(X, y, task=task, backend=library.name, **options)


def rmse(model, functions):
    X, y, task = tasks_of(functions, seed=9, n_each=400, noise=0.0)
    found = model.predict(X, task=task)
    return np.array([np.sqrt(np.mean((found - y)[task == t] ** 2)) for t in np.unique(task)])


def rmse_of(prediction, y):
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


# One size and one part of the rows, few rounds: what is tested is which settings are tried.
QUICK = {"num_boost_round": 8, "specific_rounds": 4, "early_stopping_rounds": 4}


def tried(library, data=None, **options):
    """Names of the common models that were tried."""
    params = {**OPTIONS["params"], **SAMPLING[library.name]}
    model = fitted(library, data or tasks_of(SAME), **{"params": params, **QUICK, **options})
    return model, [*model.common_losses]


def task_of_rows(data):
    return np.array(data.tasks.names)[data.tasks.codes]
