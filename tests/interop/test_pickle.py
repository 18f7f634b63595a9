# SPDX-License-Identifier: Apache-2.0
"""Our boosters, models and callbacks are copied and pickled like XGBoost's.

Models and estimators of mtboost are in tests/robustness/test_save.py and
tests/api/test_estimators.py.
"""

import copy
import pickle

import pytest
import sklearn.base
import xgboost
from interop.backends import LABELS, NUMBERS, TASK

from mtboost.xgboost import TaskSplit


def unpickled(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, unpickled])
def test_a_copy_of_a_booster_predicts_the_same(example_with_categories, backend, make_copy):
    booster, table = example_with_categories.booster, example_with_categories.table
    found = make_copy(booster)
    assert type(found) is type(booster)
    expected = backend.predictions(booster, table)
    assert backend.predictions(found, table).tolist() == expected.tolist()


def test_the_pickle_of_a_booster_needs_no_mtboost(example_with_categories):
    assert b"mtboost" not in pickle.dumps(example_with_categories.booster)


@pytest.mark.parametrize("make_copy", [sklearn.base.clone, copy.deepcopy, unpickled])
@pytest.mark.parametrize("score", ["plain", "entropy", "variance"])
def test_an_estimator_of_xgboost_is_copied_with_its_task_split(make_copy, score):
    estimator = xgboost.XGBClassifier(
        n_estimators=5, n_jobs=1, callbacks=[TaskSplit(TASK, split_score=score)]
    )
    X, y = NUMBERS.to_numpy(), LABELS["yes or no"]
    expected = estimator.fit(X, y).predict_proba(X)
    found = make_copy(estimator)
    if make_copy is not sklearn.base.clone:
        assert found.predict_proba(X).tolist() == expected.tolist()
    assert found.fit(X, y).predict_proba(X).tolist() == expected.tolist()
