# SPDX-License-Identifier: Apache-2.0
"""With one task, or the plain score, `TaskSplit` inside ``lightgbm.train`` makes LightGBM's model.

Compared is the whole text of the model and the whole history of metrics. LightGBM's side runs with
one thread, or with what docs/lightgbm_arithmetic.md says is the same; ours with two.
"""

import math
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from twin_tables import (
    EVERY_DATA_SET_UNDER_EVERY_SETTING,
    Gradients,
    Table,
    load,
    random_gradients,
    random_params,
    random_table,
    set_up,
    stock_parameters,
)

from mtboost.lightgbm import TaskSplit, bins


@pytest.fixture(params=["dense", "sparse"], autouse=True)
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our table of bins in either layout, whatever suits it."""
    monkeypatch.setattr(bins, "_SPARSE_BYTES", 0 if request.param == "sparse" else math.inf)


OWN_THREADS = {"two_threads_row_wise", "two_threads"}  # LightGBM's sums depend on its threads


def train(table: Table, params: dict[str, Any], n_rounds: int = 5, **options: Any) -> lgb.Booster:
    data = lgb.Dataset(table.X, table.y, params=params, categorical_feature=list(table.categorical))
    return lgb.train(params, data, n_rounds, **options)


def model(booster: lgb.Booster) -> str:
    """Text of a model, but for the number of threads."""
    return booster.model_to_string().replace("[num_threads: 2]", "[num_threads: 1]")


def assert_same_model(table: Table, params: dict[str, Any], n_rounds: int = 5) -> lgb.Booster:
    stock = train(table, params | {"num_threads": 1}, n_rounds)
    task = np.zeros(len(table.X), int)
    ours = train(
        table,
        params | {"num_threads": 2},
        n_rounds,
        callbacks=[TaskSplit(task, split_score="plain")],
    )
    assert type(ours) is lgb.Booster
    assert model(ours) == model(stock)
    return ours


@pytest.mark.parametrize(
    ("name", "setting"),
    [case for case in EVERY_DATA_SET_UNDER_EVERY_SETTING if case[1] not in OWN_THREADS],
)
def test_models_equal_lightgbms(name: str, setting: str) -> None:
    table = load(name)
    params = stock_parameters(set_up(setting, table.X.shape[1]), table)
    del params["num_threads"]
    assert_same_model(table, params | {"objective": "regression"})


@pytest.mark.parametrize("seed", range(60))
def test_models_equal_lightgbms_whatever_the_table_and_the_settings(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    table = random_table(rng)
    gradient, hessian = random_gradients(len(table.X), rng)
    settings = replace(random_params(table, rng), extra_trees=False, feature_fraction_bynode=1.0)
    params = stock_parameters(settings, table)

    def objective(margin: np.ndarray, data: lgb.Dataset) -> Gradients:
        return gradient + hessian * margin, hessian

    assert_same_model(table, params | {"objective": objective}, 3)
