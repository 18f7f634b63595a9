# SPDX-License-Identifier: Apache-2.0
"""Training on each kind of table that LightGBM reads: equal boosters with and without TaskSplit."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from lightgbm_training import (
    PARAMS,
    RATES,
    WEIGHT,
    assert_parity,
    assert_same_training,
    task_split,
    train,
    trees,
)
from stock_training import N_TRAIN, TASK, X, Y

from mtboost.lightgbm import TaskSplit
from mtboost.lightgbm.library import version

# LightGBM sums metrics with the threads of the newest data set or booster that it has made.
pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


CODES = np.random.default_rng(3).integers(0, 4, len(Y))
FRAME = pd.DataFrame(X[:, :3], columns=["first", "second", "third"]).assign(
    colour=pd.Categorical.from_codes(CODES, ["red", "green", "blue", "grey"]),
    size=pd.Categorical.from_codes((CODES * 7 + np.arange(len(Y))) % 3, [10, 20, 30]),
)
SPARSE = np.where(np.random.default_rng(4).random(X.shape) < 0.7, 0.0, np.nan_to_num(X))
TABLES = {
    "array": (X, {}),
    "float32, column by column": (np.asfortranarray(X, np.float32), {}),
    "csr": (scipy.sparse.csr_matrix(SPARSE), {}),
    "csc": (scipy.sparse.csc_matrix(SPARSE), {}),
    "frame": (FRAME, {}),
    "arrow": (pa.Table.from_pandas(FRAME[["first", "third"]]), {}),
    "categories": (np.column_stack([X[:, :2], CODES]), {"categorical_feature": [2]}),
    "names": (X, {"feature_name": list("abcde")}),
}


def rows(table, part):
    if isinstance(table, pa.Table):
        return table.slice(part.start, len(Y[part]))
    return table[part]


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(("table", "options"), TABLES.values(), ids=TABLES)
def test_kinds_of_tables(table, options, free):
    if isinstance(table, pa.Table) and version() < (4, 7):
        pytest.importorskip("cffi", reason="LightGBM reads Arrow's tables with it until 4.6")

    def make_data():
        kept = {"free_raw_data": free}
        train_set = lgb.Dataset(rows(table, slice(0, N_TRAIN)), Y[:N_TRAIN], **kept, **options)
        valid_rows = rows(table, slice(N_TRAIN, None))
        return train_set, lgb.Dataset(valid_rows, Y[N_TRAIN:], reference=train_set, **kept)

    stock = assert_parity(data=make_data)
    assert len(stock.feature_name()) == table.shape[1]


def test_a_frame_is_predicted_by_its_labels():
    def run(callbacks):
        data = lgb.Dataset(FRAME[:N_TRAIN], Y[:N_TRAIN])
        return lgb.train(PARAMS, data, 5, callbacks=callbacks)

    ours, stock = run([task_split("entropy")]), run([])
    assert ours.pandas_categorical == stock.pandas_categorical
    assert ours.pandas_categorical == [["red", "green", "blue", "grey"], [10, 20, 30]]
    other_codes = FRAME.assign(colour=FRAME["colour"].cat.reorder_categories(
        ["grey", "blue", "green", "red"]
    ))  # fmt: skip
    assert ours.predict(other_codes).tolist() == ours.predict(FRAME).tolist()
    assert len(np.unique(ours.predict(FRAME))) > 10
    assert any(node["decision_type"] == "==" for node in nodes_of(ours)), "categories are used"


def nodes_of(booster):
    found, todo = [], trees(booster)
    while todo:
        node = todo.pop()
        if "split_feature" in node:
            found.append(node)
            todo += [node["left_child"], node["right_child"]]
    return found


def test_a_subset_of_a_data_set():
    whole = lgb.Dataset(X, Y, weight=WEIGHT, free_raw_data=False)
    chosen = np.sort(np.random.default_rng(0).choice(len(Y), N_TRAIN, replace=False))
    others = np.setdiff1d(np.arange(len(Y)), chosen)

    def run(callbacks):
        train_set, valid = whole.subset(chosen), whole.subset(others)
        return train(callbacks, data=(train_set, valid), params=RATES)

    assert_same_training(run([TaskSplit(TASK[chosen], split_score="plain")]), run([]))
