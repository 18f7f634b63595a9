# SPDX-License-Identifier: Apache-2.0
"""``mtboost.spark.train`` on local executors of Spark."""

import os
import shutil
import sys
import warnings

import numpy as np
import pytest
import xgboost

import mtboost.spark
from mtboost.errors import DataError, ParameterError
from mtboost.xgboost import TaskSplit

pd = pytest.importorskip("pandas")
sql = pytest.importorskip("pyspark.sql")
if shutil.which("java") is None:
    pytest.skip("Spark needs java", allow_module_level=True)

PARAMS = {"max_depth": 4, "objective": "reg:squarederror"}
N_ROUNDS = 4
FEATURES = list("abcd")
RNG = np.random.default_rng(0)
X = RNG.integers(0, 40, (1200, 4)).astype(np.float32)  # few values: the same bins everywhere
TASK = RNG.integers(0, 4, 1200)
Y = np.sin(X[:, 0] / 6) + (TASK % 2) * X[:, 1] / 40 + RNG.normal(0, 0.2, 1200)
IS_VALID = RNG.random(1200) < 0.25
FIELDS = {"features": FEATURES, "label": "y", "task": "shop", "is_valid": "held_out"}


@pytest.fixture(scope="module")
def session():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Spark about Python's and pandas' versions
        made = (
            sql.SparkSession.builder.master("local[3]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        made.sparkContext.setLogLevel("OFF")
        yield made
        made.stop()


@pytest.fixture(scope="module")
def rows(session):
    frame = pd.DataFrame(X, columns=FEATURES).assign(shop=TASK, y=Y, held_out=IS_VALID)
    return session.createDataFrame(frame)


def train(rows, callbacks, **changed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of Spark about pandas' versions
        return mtboost.spark.train(
            PARAMS, rows, N_ROUNDS, **{**FIELDS, **changed}, callbacks=callbacks
        )


def train_alone(split):
    rows = [
        {"data": X[own], "label": Y[own], "feature_names": FEATURES}
        for own in (~IS_VALID, IS_VALID)
    ]
    matrices = [xgboost.QuantileDMatrix(**rows[0])]
    matrices.append(xgboost.QuantileDMatrix(**rows[1], ref=matrices[0]))
    history = {}
    evals = list(zip(matrices, ("train", "valid"), strict=True))
    booster = xgboost.train(
        PARAMS,
        matrices[0],
        N_ROUNDS,
        evals=evals,
        evals_result=history,
        verbose_eval=False,
        callbacks=[split],
    )
    return booster, history


def test_workers_of_spark_train_the_model_of_one_machine(rows):
    split = TaskSplit("label_lower_bound")
    found = train(rows, [split], n_workers=2)
    expected, history = train_alone(TaskSplit(TASK[~IS_VALID]))
    assert type(found["booster"]) is xgboost.Booster
    matrix = xgboost.DMatrix(X, feature_names=FEATURES)
    np.testing.assert_allclose(
        found["booster"].predict(matrix), expected.predict(matrix), rtol=1e-5, atol=1e-6
    )
    for name in ("train", "valid"):
        np.testing.assert_allclose(found["history"][name]["rmse"], history[name]["rmse"], rtol=1e-5)


def test_pooled_leaves_return_from_spark_though_a_worker_has_no_rows(rows):
    split = TaskSplit("label_lower_bound", split_score="plain", pooling=2.0)
    booster = train(rows.filter("shop < 2"), [split], n_workers=3)["booster"]
    own, other = (split.booster(booster, task) for task in (0, 1))
    matrix = xgboost.DMatrix(X, feature_names=FEATURES)
    assert split.tasks.names == (0, 1)
    assert not np.allclose(own.predict(matrix), other.predict(matrix), atol=1e-3)


def test_an_error_of_the_workers_is_raised_with_its_message(rows):
    with pytest.raises(Exception, match="or give it 'label_lower_bound' as task"):
        train(rows, [TaskSplit(TASK)], n_workers=2)


@pytest.mark.parametrize("column", ["shop", "held_out", FEATURES[0]])
def test_columns_of_text_are_refused(rows, column):
    text = rows.withColumn(column, rows[column].cast("string"))
    with pytest.raises(
        ParameterError, match=f"rows hold string in column '{column}'.*StringIndexer"
    ):
        train(text, [])


def test_no_rows_are_an_error(rows):
    with pytest.raises(DataError, match="rows has no rows"):
        train(rows.filter("shop > 99"), [])


def test_columns_that_rows_lack_are_refused(rows):
    with pytest.raises(ParameterError, match="rows have no columns 'store', 'price'"):
        train(rows, [], task="store", weight="price")
