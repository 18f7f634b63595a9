# SPDX-License-Identifier: Apache-2.0
"""Margins of validation rows in a QuantileDMatrix, found by its bins, are those of the booster."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import xgboost
from numpy.testing import assert_array_equal

from mtboost.xgboost import TaskSplit

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(700, 5)), 1).astype(np.float32)
X[:, 4] = RNG.integers(0, 9, 700)
Y = X[:, 0] + (X[:, 4] % 3) + RNG.normal(size=700)
TASK = RNG.integers(0, 4, 700)
FIT, VALID = np.arange(500), np.arange(500, 700)

MISSING = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
BEYOND = X.copy()
BEYOND[VALID, :2] *= 3  # most of them outside what was seen in training
TABLES = {"dense": X, "missing": MISSING, "beyond": BEYOND}


class Margins(xgboost.callback.TrainingCallback):
    """Margins of a matrix after each round, as the model tells them on the way."""

    def __init__(self, matrix: xgboost.DMatrix) -> None:
        super().__init__()
        self.matrix = matrix
        self.of_round: list[np.ndarray] = []

    def after_iteration(self, model, epoch, evals_log):
        self.of_round.append(model.predict(self.matrix, output_margin=True))
        return False


def matrices(table, label=Y, types=None, **of_valid):
    options = {"feature_types": types, "enable_categorical": types is not None, "max_bin": 16}
    train = xgboost.QuantileDMatrix(table[FIT], label[FIT], **options)
    valid = xgboost.QuantileDMatrix(table[VALID], label[VALID], ref=train, **options, **of_valid)
    return train, valid


def assert_margins_are_the_boosters(train, valid, **options):
    params = {"max_depth": 4, "max_bin": 16, "nthread": 1, **options.pop("params", {})}
    split = TaskSplit(TASK[FIT], valid_tasks=[(valid, TASK[VALID])], **options)
    found = Margins(valid)
    booster = xgboost.train(params, train, 6, callbacks=[split, found])
    for n_rounds, margins in enumerate(found.of_round, 1):
        first = booster[:n_rounds]
        if split.pooled.pooling is None:
            assert_array_equal(margins, first.predict(valid, output_margin=True))
            continue
        for task in np.unique(TASK):
            own = split.booster(first, task).predict(valid, output_margin=True)
            assert_array_equal(margins[TASK[VALID] == task], own[TASK[VALID] == task])


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("types", [None, ["q", "q", "q", "q", "c"]], ids=["numbers", "category"])
def test_tables(name, types):
    train, valid = matrices(TABLES[name], types=types)
    assert_margins_are_the_boosters(train, valid)


@pytest.mark.parametrize(
    "options", [{"pooling": 5.0}, {"split_score": "plain", "symmetric_trees": True}]
)
def test_other_trees(options):
    assert_margins_are_the_boosters(*matrices(MISSING), **options)


def test_several_outputs():
    classes = RNG.integers(0, 3, len(Y))
    params = {"objective": "multi:softprob", "num_class": 3}
    assert_margins_are_the_boosters(*matrices(X, classes), params=params, pooling=5.0)


def test_base_margins():
    train, valid = matrices(X, base_margin=RNG.normal(size=len(VALID)))
    assert_margins_are_the_boosters(train, valid)


def test_a_sparse_table():
    table = scipy.sparse.csr_array(np.where(np.abs(X) < 1, 0, X))
    assert_margins_are_the_boosters(*matrices(table))


def test_other_cuts():
    train, _ = matrices(X)
    valid = xgboost.QuantileDMatrix(X[VALID], Y[VALID], max_bin=16)
    assert_margins_are_the_boosters(train, valid)


def test_a_continued_model():
    train, valid = matrices(X)
    before = xgboost.train({"max_depth": 3, "max_bin": 16, "nthread": 1}, train, 4)
    found = Margins(valid)
    booster = xgboost.train(
        {"max_depth": 3, "max_bin": 16, "nthread": 1},
        train,
        3,
        xgb_model=before,
        callbacks=[TaskSplit(TASK[FIT]), found],
    )
    for n_rounds, margins in enumerate(found.of_round, 5):
        assert_array_equal(margins, booster[:n_rounds].predict(valid, output_margin=True))
