# SPDX-License-Identifier: Apache-2.0
"""TaskObjective: LightGBM grows its own trees from our gradients.

Without weights of tasks they are the trees of LightGBM's own objective from the same start; a task
of weight 0, or one that has quit, is to the trees as if its rows were not there, as far as LightGBM
counts hessians and not rows.
"""

import copy
import pickle

import lightgbm as lgb
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.lightgbm import TaskObjective
from mtboost.lightgbm.library import version

needs_estimators = pytest.mark.skipif(
    version() < (4, 6), reason="estimators of LightGBM 4.5 do not work with scikit-learn 1.8"
)
N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5))
Y = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
TASK = RNG.choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1])
WEIGHT = RNG.integers(1, 4, N).astype(np.float32)
LABELS = {
    "regression": Y,
    "huber": Y,
    "binary": (Y > 0).astype(float),
    "poisson": np.round(np.abs(Y)),
    "tweedie": np.abs(Y),
    "multiclass": np.digitize(Y, [-1, 1]).astype(float),
    "multiclassova": np.digitize(Y, [-1, 1]).astype(float),
}


def params_of(objective, **others):
    """Parameters with which LightGBM's own objective starts at 0, as any other does."""
    name = objective.objective if isinstance(objective, TaskObjective) else objective
    classes = {"num_class": 3} if str(name).startswith("multi") else {}
    return {
        "objective": objective, "boost_from_average": False, "num_threads": 1, "num_leaves": 8,
        "verbosity": -1, "metric": "none", **classes, **others,
    }  # fmt: skip


def data_of(objective, weight=None, **options):
    return lgb.Dataset(X, LABELS[objective], weight=weight, free_raw_data=False, **options)


def train(objective, data, n_rounds=5, *, callbacks=None, **params):
    # A booster that is not kept is written and read, with gains of six digits.
    return lgb.train(
        params_of(objective, **params), data, n_rounds,
        keep_training_booster=True, callbacks=callbacks,
    )  # fmt: skip


def trees(booster):
    return [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]


def cuts(node):
    """Columns and thresholds of a dumped tree."""
    if "leaf_index" in node or "split_feature" not in node:
        return None
    children = cuts(node["left_child"]), cuts(node["right_child"])
    return node["split_feature"], node["threshold"], *children


def assert_same_but_for_rounding(ours, other):
    """Equal cuts, and margins in which gradients that are rounded to float32 may differ."""
    assert list(map(cuts, trees(ours))) == list(map(cuts, trees(other)))
    margins = [booster.predict(X, raw_score=True) for booster in (ours, other)]
    np.testing.assert_allclose(*margins, atol=2**-20)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("objective", LABELS)
def test_without_task_weights_the_trees_are_those_of_the_built_in_objective(objective, weight):
    stock = train(objective, data_of(objective, weight))
    ours = train(TaskObjective(objective, TASK), data_of(objective, weight))
    assert trees(ours) == trees(stock)
    assert all("split_feature" in tree for tree in trees(ours))


def test_it_starts_from_the_init_score_of_the_data():
    start = RNG.normal(size=N)
    data = data_of("binary", WEIGHT, init_score=start)
    assert trees(train(TaskObjective("binary", TASK), data)) == trees(train("binary", data))


def test_it_continues_a_model():
    first = train("binary", data_of("binary"))
    models = [
        lgb.train(params_of(objective), data_of("binary"), 3, init_model=first)
        for objective in ("binary", TaskObjective("binary", TASK))
    ]
    assert trees(models[0]) == trees(models[1])
    assert models[0].num_trees() == 8


def test_options_are_those_of_the_loss():
    options = {"scale_pos_weight": 3.0, "sigmoid": 0.7}
    stock = train("binary", data_of("binary"), **options)
    ours = train(TaskObjective("binary", TASK, **options), data_of("binary"))
    assert trees(ours) == trees(stock)


def test_lightgbms_other_names_are_known():
    stock = train("regression", data_of("regression"))
    assert trees(train(TaskObjective("mse", TASK), data_of("regression"))) == trees(stock)


@pytest.mark.parametrize("n_threads", [1, 2, 7])
def test_threads_change_nothing(n_threads):
    data = data_of("multiclass").construct()
    margins = np.asfortranarray(RNG.normal(size=(N, 3)))
    expected = TaskObjective("multiclass", TASK, n_threads=1)(margins, data)
    found = TaskObjective("multiclass", TASK, n_threads=n_threads)(margins, data)
    assert_array_equal(found, expected)


def test_the_weight_of_a_task_multiplies_that_of_its_rows():
    factor = {"a": 1.0, "b": 2.0, "c": 0.5}
    by_row = WEIGHT * np.array([factor[task] for task in TASK], np.float32)
    stock = train("binary", data_of("binary", by_row))
    objective = TaskObjective("binary", TASK, task_weight=factor)
    assert trees(train(objective, data_of("binary", WEIGHT))) == trees(stock)


def test_balanced_tasks_have_the_same_total_hessian():
    objective = TaskObjective("regression", TASK, task_weight="balanced")
    _, hessian = objective(np.zeros(N), data_of("regression", WEIGHT).construct())
    totals = [hessian[task == TASK].sum(dtype=float) for task in "abc"]
    # each term is rounded to float32 once: 2**-24 of it
    np.testing.assert_allclose(totals, WEIGHT.sum(dtype=float) / 3, rtol=2**-23)


def logistic(margins, data):
    probability = 1 / (1 + np.exp(-margins))
    return probability - data.get_label(), probability * (1 - probability)


def test_a_users_function_is_weighted_by_task():
    data = data_of("binary", WEIGHT).construct()
    margins = RNG.normal(size=N)
    weights = {"a": 1.0, "b": 0.0, "c": 4.0}
    pair = TaskObjective(logistic, TASK, task_weight=weights)(margins, data)
    factor = np.array([weights[task] for task in TASK])
    for ours, own in zip(pair, logistic(margins, data), strict=True):
        assert_array_equal(ours, own.astype(np.float32) * factor)  # powers of two: no rounding


# LightGBM counts rows by their hessians: in few bins it does not err too much. The bound is not met
# exactly by a number of rows, nor by weights.
LEAVES = {
    "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 4.6, "max_bin": 15,
    "feature_pre_filter": False,
}  # fmt: skip


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_rows_of_a_task_that_has_quit_are_as_if_they_were_not_there(objective):
    data = data_of(objective, WEIGHT)
    function = TaskObjective(objective, TASK)
    function.quit("a")
    ours = train(function, data, **LEAVES)
    stays = np.flatnonzero(TASK != "a")
    rest = train(TaskObjective(objective, TASK[stays]), data.subset(stays), **LEAVES)
    assert_same_but_for_rounding(ours, rest)
    function.start()
    assert trees(train(function, data, **LEAVES)) == trees(train(objective, data, **LEAVES))


def test_a_task_may_quit_between_two_rounds():
    objective = TaskObjective("binary", TASK)

    def quit_after_three_rounds(env):
        if env.iteration == 2:
            objective.quit("a")

    data = data_of("binary")
    ours = train(objective, data, 6, callbacks=[quit_after_three_rounds], **LEAVES)
    together = train("binary", data, 3, **LEAVES)
    assert trees(ours)[:3] == trees(together)

    stays = np.flatnonzero(TASK != "a")
    start = together.predict(X[stays], raw_score=True)
    rest = data.subset(stays).construct().set_init_score(start)
    alone = train(TaskObjective("binary", TASK[stays]), rest, 3, **LEAVES)
    assert list(map(cuts, trees(ours)[3:])) == list(map(cuts, trees(alone)))


@needs_estimators
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_the_estimators_of_lightgbm_take_it(objective, weight):
    estimator = lgb.LGBMRegressor if objective == "regression" else lgb.LGBMClassifier
    options = {"n_estimators": 5, "num_leaves": 8, "n_jobs": 1, "boost_from_average": False}
    own = estimator(objective=objective, verbosity=-1, **options)
    ours = estimator(objective=TaskObjective(objective, TASK), verbosity=-1, **options)
    own.fit(X, LABELS[objective], sample_weight=weight)
    ours.fit(X, LABELS[objective], sample_weight=weight)
    assert trees(ours.booster_) == trees(own.booster_)


def squared(labels, margins):
    return margins - labels, np.ones(len(labels))


def weighted_squared(labels, margins, weights):
    return weights * (margins - labels), weights


@needs_estimators
@pytest.mark.parametrize("function", [squared, weighted_squared])
def test_a_users_function_for_estimators_gets_the_arguments_it_takes(function):
    options = {"n_estimators": 3, "num_leaves": 8, "n_jobs": 1, "verbosity": -1}
    own = lgb.LGBMRegressor(objective=function, **options)
    ours = lgb.LGBMRegressor(objective=TaskObjective(function, TASK), **options)
    own.fit(X, Y, sample_weight=WEIGHT)
    ours.fit(X, Y, sample_weight=WEIGHT)
    assert trees(ours.booster_) == trees(own.booster_)


def test_a_copy_of_the_parameters_keeps_the_same_object():
    objective = TaskObjective("binary", TASK)
    assert copy.deepcopy({"objective": objective})["objective"] is objective


@needs_estimators
def test_it_can_be_pickled_in_the_estimator_that_was_fitted_with_it():
    objective = TaskObjective("binary", TASK)
    objective.quit("a")
    estimator = lgb.LGBMClassifier(objective=objective, n_estimators=3, n_jobs=1, verbosity=-1)
    estimator.fit(X, LABELS["binary"])
    again = pickle.loads(pickle.dumps(estimator))
    data = data_of("binary").construct()
    assert_array_equal(again.objective(np.zeros(N), data), objective(np.zeros(N), data))


# ---- weird input ---------------------------------------------------------------------------------


def test_another_number_of_rows_is_refused():
    with pytest.raises(DataError, match=r"600 task labels.*400 training rows"):
        train(TaskObjective("binary", TASK), lgb.Dataset(X[:400], LABELS["binary"][:400]))


def test_cross_validation_gives_each_fold_the_tasks_of_its_rows():
    weight = {"a": 1.0, "b": 4.0, "c": 0.5}
    rows = np.array([weight[task] for task in TASK], np.float32)
    folds = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(N // 3, N), np.arange(N // 3))]
    by_task = TaskObjective("binary", TASK, task_weight=weight)
    by_row = TaskObjective("binary", np.zeros(N, int))
    found, expected = (
        lgb.cv(
            params_of(objective) | {"metric": "binary_logloss"},
            lgb.Dataset(X, LABELS["binary"], weight=own, params={"verbosity": -1}),
            5,
            folds=folds,
            return_cvbooster=True,
        )["cvbooster"]
        for objective, own in ((by_task, None), (by_row, rows))
    )
    trees, others = (
        [booster.dump_model()["tree_info"] for booster in each.boosters]
        for each in (found, expected)
    )
    assert trees == others
    assert trees[0] != trees[1]


def test_labels_outside_the_domain_are_refused_whenever_data_is_read():
    objective = TaskObjective("binary", TASK)
    objective(np.zeros(N), data_of("binary").construct())
    with pytest.raises(DataError, match="label"):
        objective(np.zeros(N), lgb.Dataset(X, np.full(N, 2.0)).construct())


@pytest.mark.parametrize("objective", ["lambdarank", "no_such"])
def test_an_objective_without_gradients_in_the_core_is_refused(objective):
    with pytest.raises(UnsupportedError, match=objective):
        TaskObjective(objective, TASK)


@pytest.mark.parametrize("objective", ["regression_l1", "mae", "quantile", "mape"])
def test_an_objective_that_sets_leaves_by_another_rule_is_refused(objective):
    with pytest.raises(UnsupportedError, match=f"{objective}.*LightGBM does for its own"):
        TaskObjective(objective, TASK)


def test_weights_of_tasks_that_are_not_there_are_refused():
    objective = TaskObjective("binary", TASK, task_weight={"a": 1.0, "z": 2.0})
    with pytest.raises((DataError, ParameterError), match="task_weight"):
        objective(np.zeros(N), data_of("binary").construct())
