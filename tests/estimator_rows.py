# SPDX-License-Identifier: Apache-2.0
"""One table of three shops, and the estimators that the tests of estimators fit to it."""

import numpy as np
import pandas as pd
import pytest
from libraries import LIBRARIES

from mtboost import MultiTaskClassifier, MultiTaskRegressor

N_ROWS = 240
_rng = np.random.default_rng(0)
NUMBERS = _rng.normal(size=(N_ROWS, 3))
SHOP = np.array(["x", "y", "z"])[np.arange(N_ROWS) % 3]
COLOR = _rng.choice(["red", "green", "blue"], N_ROWS)
VALUES = NUMBERS[:, 0] + (SHOP == "x") * NUMBERS[:, 1] + (COLOR == "red") + _rng.normal(size=N_ROWS)
CLASSES = np.where(VALUES > 0.3, "fraud", "ok")
THREE_CLASSES = np.digitize(VALUES, [-0.5, 0.8])
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b", "c"]).assign(
    shop=SHOP, color=pd.Categorical(COLOR)
)
FAST = {"strategy": "two-stage", "n_estimators": 10, "specific_rounds": 5, "random_state": 0}
FAST_FIT = {"strategy": "two-stage", "num_boost_round": 10, "specific_rounds": 5, "seed": 0}
COLUMN = np.arange(N_ROWS) % 3
ROWS = {task: np.flatnonzero(task == SHOP) for task in "xyz"}
TABLES = {"x": FRAME.loc[SHOP == "x", ["a", "b", "c"]], "y": FRAME.loc[SHOP == "y", ["c", "a"]]}

every_estimator = pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (MultiTaskClassifier(**FAST), CLASSES),
        (MultiTaskClassifier(**FAST), THREE_CLASSES),
        (MultiTaskRegressor(**FAST), VALUES),
        (MultiTaskClassifier(backend="lightgbm", **FAST), THREE_CLASSES),
    ],
    ids=["two classes", "three classes", "regressor", "lightgbm"],
)


def boosters(model):
    model = getattr(model, "model_", model)
    raw = LIBRARIES[model.backend].raw
    return {task: raw(model.booster(task)) for task in model.tasks}
