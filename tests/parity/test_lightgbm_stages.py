# SPDX-License-Identifier: Apache-2.0
"""The second stage by hand, with stock LightGBM: combine."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from mtboost.errors import DataError, UnsupportedError
from mtboost.lightgbm import combine

N = 500
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 4))
Y = (X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N) > 0).astype(float)
CLASSES = np.digitize(X[:, 0] + RNG.normal(size=N), [-1, 1])
TASK = RNG.choice(["new york", "b:1", "c"], N, p=[0.6, 0.3, 0.1])
OWN = TASK == "b:1"
QUIET = {"verbosity": -1, "num_threads": 1, "num_leaves": 7, "min_data_in_leaf": 5}
REGRESSION = {**QUIET, "objective": "regression"}
BINARY = {**QUIET, "objective": "binary"}
MULTICLASS = {**QUIET, "objective": "multiclass", "num_class": 3}


def train(params, table, y, n_rounds=9, *, feature_name="auto", init_score=None, **options):
    data = lightgbm.Dataset(table, y, feature_name=feature_name, init_score=init_score)
    return lightgbm.train(params, data, n_rounds, **options)


def raw(booster, table, **rounds):
    return booster.predict(table, raw_score=True, **rounds)


class SeenScores:
    """A metric that keeps the scores LightGBM itself trains with, after the last round."""

    def __call__(self, scores, data):
        self.scores = scores.copy()
        return "none", 0.0, True


# ---- combine ---------------------------------------------------------------------------------


def trained_from(common, table, y, params, n_common_rounds, names="auto"):
    """A specific model, and the scores of its own training rows at its end."""
    start = raw(common, table[:, :4], num_iteration=n_common_rounds)
    data = lightgbm.Dataset(table, y, init_score=start, feature_name=names)
    seen = SeenScores()
    specific = lightgbm.train(params, data, 5, valid_sets=[data], feval=seen)
    return specific, seen.scores


def test_a_combined_booster_has_the_scores_that_training_saw_bit_for_bit():
    common = train(REGRESSION, X, Y)
    specific, seen = trained_from(common, X[OWN], Y[OWN], REGRESSION, 4)
    both = combine(common, specific, 4)
    assert type(both) is lightgbm.Booster
    assert both.current_iteration() == 4 + 5
    assert_array_equal(both.predict(X[OWN]), seen)


@pytest.mark.parametrize(("params", "y"), [(BINARY, Y), (MULTICLASS, CLASSES)])
def test_objective_and_outputs_are_those_of_the_common_model(params, y):
    common = train(params, X, y)
    specific, seen = trained_from(common, X[OWN], y[OWN], params, 4)
    assert_array_equal(combine(common, specific, 4).predict(X[OWN]), seen)  # probabilities


def test_features_are_matched_by_name():
    extra = RNG.normal(size=(N, 2))
    common = train(REGRESSION, X, Y, feature_name=list("abcd"))
    start = raw(common, X[OWN], num_iteration=6)
    columns = {"x": extra[:, 0], "d": X[:, 3], "a": X[:, 0], "y": extra[:, 1]}
    table = np.column_stack(list(columns.values()))
    specific = train(
        REGRESSION, table[OWN], Y[OWN], 5, feature_name=list(columns), init_score=start
    )
    both = combine(common, specific, 6)
    assert both.feature_name() == ["x", "d", "a", "y", "b", "c"]
    union = np.column_stack([table, X[:, 1], X[:, 2]])
    parts = [raw(common, X, start_iteration=r, num_iteration=1) for r in range(6)]
    parts += [raw(specific, table, start_iteration=r, num_iteration=1) for r in range(5)]
    assert_array_equal(both.predict(union), np.add.accumulate(parts)[-1])
    ranges = both.dump_model()["feature_infos"]
    assert ranges["a"]["min_value"] == X[:, 0].min()  # of all rows, not of the task's
    assert ranges["x"]["max_value"] == extra[OWN, 0].max()


def test_constraints_stay_with_their_features():
    common = train({**REGRESSION, "monotone_constraints": [1, 0, 0, -1]}, X, Y)
    plain = train(REGRESSION, X, Y)
    for pair in ((common, plain), (plain, common)):
        assert "\nmonotone_constraints=1 0 0 -1\n" in combine(*pair, 2).model_to_string()


def test_without_a_specific_model_the_common_rounds_are_all():
    common = train(REGRESSION, X, Y)
    assert_array_equal(combine(common, None, 4).predict(X), common.predict(X, num_iteration=4))


def test_of_an_early_stopped_model_the_best_rounds_are_taken():
    common = train(REGRESSION, X, Y)
    specific = train(REGRESSION, X, Y, keep_training_booster=True)
    specific.best_iteration = 2
    assert combine(common, specific, 4).current_iteration() == 4 + 2


def test_more_rounds_than_there_are_are_refused():
    common = train(REGRESSION, X, Y)
    for specific in (None, common):
        with pytest.raises(DataError, match="between 0 and the 9 rounds.*found 10"):
            combine(common, specific, 10)


def test_other_outputs_are_refused():
    with pytest.raises(DataError, match="1 trees a round.* 3"):
        combine(train(BINARY, X, Y), train(MULTICLASS, X, CLASSES), 1)


def test_boosters_that_cannot_be_matched_are_refused():
    common = train(REGRESSION, X, Y)
    with pytest.raises(DataError, match="name both or neither"):
        combine(common, train(REGRESSION, X, Y, feature_name=list("abcd")), 1)
    with pytest.raises(DataError, match="4 and 3 features"):
        combine(common, train(REGRESSION, X[:, :3], Y), 1)


def test_random_forests_are_refused():
    forest = train(
        {**REGRESSION, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, X, Y
    )
    with pytest.raises(UnsupportedError, match="rf"):
        combine(forest, None, 1)


# ---- categories ------------------------------------------------------------------------------


SHOP = pd.Categorical(RNG.choice(["p", "q", "r"], N), categories=["p", "q", "r"])
SIZE = pd.Categorical(RNG.choice(["s", "m", "l"], N), categories=["s", "m", "l"])


def frame(**columns):
    return pd.DataFrame(columns)


def test_category_columns_are_matched_by_name():
    table = frame(a=X[:, 0], size=SIZE, shop=SHOP, b=X[:, 1], e=X[:, 2])
    y = X[:, 0] + 2 * (SHOP == "q") - 3 * (SIZE == "l")
    common_columns, own_columns = ["a", "size", "b"], ["shop", "e", "size", "a"]
    common = train(REGRESSION, table[common_columns], y)
    start = raw(common, table[common_columns])
    specific = train(REGRESSION, table[own_columns], y, init_score=start)
    both = combine(common, specific, 9)
    assert both.feature_name() == [*own_columns, "b"]
    assert both.pandas_categorical == [["p", "q", "r"], ["s", "m", "l"]]
    found = both.predict(table[both.feature_name()])
    expected = start + raw(specific, table[own_columns])
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # another order of addition


@pytest.mark.parametrize("order", [["a", "shop"], ["shop", "a"]])
def test_categories_of_a_common_feature_must_be_the_same(order):
    table = frame(a=X[:, 0], shop=SHOP)
    other = frame(a=X[:, 0], shop=SHOP.set_categories(["q", "p", "r"]))
    y = X[:, 0] + 2.0 * (SHOP == "q")
    with pytest.raises(DataError, match="'shop' has other categories"):
        combine(train(REGRESSION, table, y), train(REGRESSION, other[order], y), 1)


def test_category_columns_that_the_model_does_not_tell_are_refused():
    table = frame(a=X[:, 0], size=SIZE.set_categories(SIZE.categories, ordered=True), b=X[:, 1])
    common = train(REGRESSION, table, Y)
    assert combine(common, common, 1).pandas_categorical == [["s", "m", "l"]]
    with pytest.raises(DataError, match="ordered"):
        combine(common, train(REGRESSION, table[["b", "size", "a"]], Y), 1)


def test_the_specific_model_alone_may_have_categories():
    table = frame(a=X[:, 0], shop=SHOP)
    common = train(REGRESSION, table[["a"]], Y)
    specific = train(REGRESSION, table[["shop", "a"]], Y)
    assert combine(common, specific, 1).pandas_categorical == [["p", "q", "r"]]
