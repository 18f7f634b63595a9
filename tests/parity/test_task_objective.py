# SPDX-License-Identifier: Apache-2.0
"""TaskObjective: XGBoost and LightGBM grow the trees themselves from our gradients.

Without weights of tasks they are the trees of the library's own objective from the same start; a
task of weight 0, or one that has quit, is to the trees as if its rows were not there, with LightGBM
as far as it counts hessians and not rows.
"""

import copy
import pickle

import lightgbm as lgb
import numpy as np
import pytest
import xgboost
from libraries import LIBRARIES
from model_documents import assert_same_model
from model_documents import trees as xgboost_trees
from numpy.testing import assert_array_equal

from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.lightgbm.library import version
from mtboost.xgboost import TaskQuitting, TaskSplit

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")
needs_estimators = pytest.mark.skipif(
    version() < (4, 6), reason="estimators of LightGBM 4.5 do not work with scikit-learn 1.8"
)
weighted_or_not = pytest.mark.parametrize("has_weight", [False, True])

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5)).astype(np.float32)
Y = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
TASK = RNG.choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1])
WEIGHT = RNG.integers(1, 4, N).astype(np.float32)
MARGINS = RNG.normal(size=N).astype(np.float32)
XGBOOST, LIGHTGBM = LIBRARIES.values()
LABELS = {
    XGBOOST: {
        "reg:squarederror": Y,
        "reg:pseudohubererror": Y,
        "binary:logistic": (Y > 0).astype(float),
        "count:poisson": np.round(np.abs(Y)),
        "reg:tweedie": np.abs(Y),
        "multi:softprob": np.digitize(Y, [-1, 1]).astype(float),
    },
    LIGHTGBM: {
        "regression": Y,
        "huber": Y,
        "binary": (Y > 0).astype(float),
        "poisson": np.round(np.abs(Y)),
        "tweedie": np.abs(Y),
        "multiclass": np.digitize(Y, [-1, 1]).astype(float),
        "multiclassova": np.digitize(Y, [-1, 1]).astype(float),
    },
}
EACH_OBJECTIVE = [(library, name) for library, labels in LABELS.items() for name in labels]
# The start of LightGBM's own objective is 0, as that of any other.
PARAMS = {
    XGBOOST: {"max_depth": 3, "base_score": 0.5},
    LIGHTGBM: {"num_leaves": 8, "boost_from_average": False, "metric": "none"},
}


def matrix_of(library, objective, rows=slice(None), weight=None, **fields):
    weight = None if weight is None else weight[rows]
    return library.matrix(X[rows], LABELS[library][objective][rows], weight=weight, **fields)


def params_of(library, objective, **others):
    name = getattr(objective, "objective", objective)
    return {**PARAMS[library], **({"num_class": 3} if name.startswith("multi") else {}), **others}


def train(library, objective, matrix, n_rounds=5, *, callbacks=None, **params):
    params = params_of(library, objective, **params)
    # A booster of LightGBM's that is not kept is written and read, with gains of six digits.
    kept = {"keep_training_booster": True} if library is LIGHTGBM else {}
    return library.boost(objective, params, matrix, n_rounds, callbacks=callbacks, **kept)


def trees(booster):
    if isinstance(booster, xgboost.Booster):
        return xgboost_trees(booster)
    return [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]


def assert_same(found, expected):
    if isinstance(found, xgboost.Booster):
        assert_same_model(found, expected)
    assert trees(found) == trees(expected)


@weighted_or_not
@pytest.mark.parametrize(("library", "objective"), EACH_OBJECTIVE)
def test_without_task_weights_the_trees_are_those_of_the_built_in_objective(
    library, objective, has_weight
):
    matrix = matrix_of(library, objective, weight=WEIGHT if has_weight else None)
    stock = train(library, objective, matrix)
    ours = train(library, library.plugin.TaskObjective(objective, TASK), matrix)
    assert_same(ours, stock)
    if library is LIGHTGBM:
        assert all("split_feature" in tree for tree in trees(ours))


@pytest.mark.parametrize(
    ("library", "options"),
    [(XGBOOST, {"scale_pos_weight": 3.0}), (LIGHTGBM, {"scale_pos_weight": 3.0, "sigmoid": 0.7})],
)
def test_options_are_those_of_the_loss(library, options):
    name = library.own("binary:logistic")
    matrix = matrix_of(library, name)
    stock = train(library, name, matrix, **options)
    ours = train(library, library.plugin.TaskObjective(name, TASK, **options), matrix)
    assert trees(ours) == trees(stock)


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize(
    ("library", "objective", "margins"),
    [
        (XGBOOST, "binary:logistic", MARGINS),
        (LIGHTGBM, "multiclass", np.asfortranarray(RNG.normal(size=(N, 3)))),
    ],
)
def test_threads_change_nothing(library, objective, margins, n_threads):
    matrix = matrix_of(library, objective)
    found, expected = (
        library.plugin.TaskObjective(objective, TASK, n_threads=n)(margins, matrix)
        for n in (n_threads, 1)
    )
    assert_array_equal(found, expected)


def test_the_weight_of_a_task_multiplies_that_of_its_rows(library):
    factor = {"a": 1.0, "b": 2.0, "c": 0.5}
    name = library.own("binary:logistic")
    by_row = WEIGHT * np.array([factor[task] for task in TASK], np.float32)
    matrix = matrix_of(library, name, weight=WEIGHT)
    bins = {"ref": matrix} if library is XGBOOST else {}  # they depend on weights
    stock = train(library, name, matrix_of(library, name, weight=by_row, **bins))
    objective = library.plugin.TaskObjective(name, TASK, task_weight=factor)
    assert_same(train(library, objective, matrix), stock)


def test_balanced_tasks_have_the_same_total_hessian(library):
    name = library.squared_error
    objective = library.plugin.TaskObjective(name, TASK, task_weight="balanced")
    margins = np.zeros(N, np.float32)
    _, hessian = objective(margins, matrix_of(library, name, weight=WEIGHT))
    totals = [hessian[task == TASK].sum(dtype=float) for task in "abc"]
    # each term is rounded to float32 once: 2**-24 of it
    np.testing.assert_allclose(totals, WEIGHT.sum(dtype=float) / 3, rtol=2**-23)


def logistic(margins, matrix):
    probability = 1 / (1 + np.exp(-margins))
    return probability - matrix.get_label(), np.maximum(probability * (1 - probability), 1e-16)


@pytest.mark.parametrize("options", [{}, {"metric": "logloss"}])
@pytest.mark.parametrize("is_given", [True, False])
def test_metrics_beside_our_trees_are_those_of_predictions(library, is_given, options):
    name = library.own("binary:logistic")
    matrix = matrix_of(library, name)
    history = []
    for objective in (name, library.plugin.TaskObjective(name, TASK)):
        given = {"objective": objective} if is_given and objective is not name else {}
        quitting = library.plugin.TaskQuitting(matrix, TASK, **given, **options)
        callbacks = [library.plugin.TaskSplit(TASK, split_score="plain"), quitting]
        train(library, objective, matrix, callbacks=callbacks)
        assert quitting.metric.name == "logloss"
        history.append(quitting.history)
    for task in "abc":
        assert_array_equal(history[1][task], history[0][task])


def test_a_users_function_is_weighted_by_task(library):
    matrix = matrix_of(library, library.own("binary:logistic"), weight=WEIGHT)
    weights = {"a": 1.0, "b": 0.0, "c": 4.0}
    pair = library.plugin.TaskObjective(logistic, TASK, task_weight=weights)(MARGINS, matrix)
    factor = np.array([weights[task] for task in TASK])
    for ours, own in zip(pair, logistic(MARGINS, matrix), strict=True):
        assert_array_equal(ours, own.astype(np.float32) * factor)  # powers of two: no rounding


def softmax(margins, matrix):
    probability = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
    label = matrix.get_label().astype(int)
    return probability - np.eye(3)[label], 2 * probability * (1 - probability)


def softmax_class_by_class(margins, matrix):
    return tuple(part.ravel(order="F") for part in softmax(margins, matrix))


def test_gradients_of_a_function_may_come_class_by_class_as_in_lightgbm():
    matrix = matrix_of(LIGHTGBM, "multiclass")
    params = {**PARAMS[LIGHTGBM], "num_class": 3}
    stock, ours = (
        LIGHTGBM.boost(each, params, matrix, 5, keep_training_booster=True)
        for each in (
            softmax_class_by_class,
            LIGHTGBM.plugin.TaskObjective(softmax_class_by_class, TASK),
        )
    )
    assert_same(ours, stock)


WRAPPERS = {
    XGBOOST: ({"base_score": 0.5, "max_depth": 3}, ["reg:squarederror"]),
    LIGHTGBM: (
        {"boost_from_average": False, "num_leaves": 8, "verbosity": -1},
        ["regression", "binary", "multiclass"],
    ),
}


def estimator_of(objective, name, **options):
    if name.startswith("reg:"):
        return xgboost.XGBRegressor(objective=objective, n_jobs=1, **options)
    estimator = lgb.LGBMRegressor if name == "regression" else lgb.LGBMClassifier
    return estimator(objective=objective, n_jobs=1, **options)


@needs_estimators
@weighted_or_not
@pytest.mark.parametrize(
    ("library", "objective"),
    [(library, name) for library, (_, names) in WRAPPERS.items() for name in names],
)
def test_the_wrappers_of_scikit_learn_take_it(library, objective, has_weight):
    options = {"n_estimators": 5, **WRAPPERS[library][0]}
    own, ours = (
        estimator_of(each, objective, **options).fit(
            X, LABELS[library][objective], sample_weight=WEIGHT if has_weight else None
        )
        for each in (objective, library.plugin.TaskObjective(objective, TASK))
    )
    if library is XGBOOST:
        assert trees(ours.get_booster()) == trees(own.get_booster())
    else:
        assert trees(ours.booster_) == trees(own.booster_)


def test_a_copy_of_the_parameters_keeps_the_same_object(library):
    objective = library.plugin.TaskObjective(library.own("binary:logistic"), TASK)
    assert copy.deepcopy({"objective": objective})["objective"] is objective


def test_it_can_be_pickled_with_what_it_knows_of_its_tasks(library):
    name = library.own("binary:logistic")
    objective, matrix = library.plugin.TaskObjective(name, TASK), matrix_of(library, name)
    objective(MARGINS, matrix)
    objective.quit("a")
    expected = objective(MARGINS, matrix)
    assert_array_equal(pickle.loads(pickle.dumps(objective))(MARGINS, matrix), expected)


# ---- XGBoost -------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_rows_of_a_task_that_has_quit_are_to_xgboost_as_if_they_were_not_there(objective):
    matrix = matrix_of(XGBOOST, objective)
    function = XGBOOST.plugin.TaskObjective(objective, TASK)
    function.quit("a")
    ours = train(XGBOOST, function, matrix)
    rest = matrix_of(XGBOOST, objective, np.flatnonzero(TASK != "a"), ref=matrix)
    assert trees(ours) == trees(train(XGBOOST, objective, rest))


def quitting(objective=None):
    valid = matrix_of(XGBOOST, "binary:logistic", slice(400, None))
    return TaskQuitting(valid, TASK[400:], early_stopping_rounds=3, objective=objective)


def test_tasks_quit_as_they_do_with_trees_of_ours():
    matrix = matrix_of(XGBOOST, "binary:logistic", slice(400))
    ours = quitting()
    split = TaskSplit(TASK[:400], split_score="plain")
    expected = train(XGBOOST, "binary:logistic", matrix, 60, callbacks=[split, ours])
    objective = XGBOOST.plugin.TaskObjective("binary:logistic", TASK[:400])
    for _ in range(2):  # a second training starts with all tasks again
        stock = quitting(objective)
        booster = train(XGBOOST, objective, matrix, 60, callbacks=[stock])
        assert trees(booster) == trees(expected)
        assert stock.quit_round == ours.quit_round
        assert stock.left_after == ours.left_after
    new = XGBOOST.plugin.TaskObjective("binary:logistic", TASK[:400])
    expected, found = (train(XGBOOST, each, matrix) for each in (new, objective))
    assert trees(found) == trees(expected)
    assert len(set(ours.left_after.values())) > 1  # or nothing was put to the test
    for task in "abc":
        assert_array_equal(stock.history[task], ours.history[task])


# ---- LightGBM ------------------------------------------------------------------------------------


def columns_and_thresholds(node):
    """Splits of a dumped tree of LightGBM's."""
    if "split_feature" not in node:
        return None
    children = (columns_and_thresholds(node[f"{side}_child"]) for side in ("left", "right"))
    return node["split_feature"], node["threshold"], *children


def assert_same_splits(found, expected):
    assert list(map(columns_and_thresholds, found)) == list(map(columns_and_thresholds, expected))


# LightGBM counts rows by their hessians: in few bins it does not err too much. The bound is not met
# exactly by a number of rows, nor by weights.
LEAVES = {
    "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 4.6, "max_bin": 15,
    "feature_pre_filter": False,
}  # fmt: skip


def lightgbm_data(objective, weight=None, **fields):
    """Rows of which the first training makes bins, by its parameters."""
    labels = LABELS[LIGHTGBM][objective]
    return lgb.Dataset(X, labels, weight=weight, free_raw_data=False, **fields)


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_rows_of_a_task_that_has_quit_are_to_lightgbm_as_if_they_were_not_there(objective):
    data = lightgbm_data(objective, WEIGHT)
    function = LIGHTGBM.plugin.TaskObjective(objective, TASK)
    function.quit("a")
    ours = train(LIGHTGBM, function, data, **LEAVES)
    stays = np.flatnonzero(TASK != "a")
    staying = LIGHTGBM.plugin.TaskObjective(objective, TASK[stays])
    rest = train(LIGHTGBM, staying, data.subset(stays), **LEAVES)
    assert_same_splits(trees(ours), trees(rest))
    margins = [booster.predict(X, raw_score=True) for booster in (ours, rest)]
    np.testing.assert_allclose(*margins, atol=2**-20)  # gradients are rounded to float32
    function.start()
    again, stock = (train(LIGHTGBM, each, data, **LEAVES) for each in (function, objective))
    assert trees(again) == trees(stock)


def test_a_task_may_quit_between_two_rounds():
    objective = LIGHTGBM.plugin.TaskObjective("binary", TASK)

    def quit_after_three_rounds(env):
        if env.iteration == 2:
            objective.quit("a")

    data = lightgbm_data("binary")
    ours = train(LIGHTGBM, objective, data, 6, callbacks=[quit_after_three_rounds], **LEAVES)
    together = train(LIGHTGBM, "binary", data, 3, **LEAVES)
    assert trees(ours)[:3] == trees(together)

    stays = np.flatnonzero(TASK != "a")
    start = together.predict(X[stays], raw_score=True)
    rest = data.subset(stays).construct().set_init_score(start)
    staying = LIGHTGBM.plugin.TaskObjective("binary", TASK[stays])
    assert_same_splits(trees(ours)[3:], trees(train(LIGHTGBM, staying, rest, 3, **LEAVES)))


def test_it_starts_from_the_init_score_of_the_data():
    data = matrix_of(LIGHTGBM, "binary", weight=WEIGHT, init_score=RNG.normal(size=N))
    ours = train(LIGHTGBM, LIGHTGBM.plugin.TaskObjective("binary", TASK), data)
    assert trees(ours) == trees(train(LIGHTGBM, "binary", data))


def test_it_continues_a_model():
    first = train(LIGHTGBM, "binary", lightgbm_data("binary"))
    params = params_of(LIGHTGBM, "binary")
    models = [
        LIGHTGBM.boost(objective, params, lightgbm_data("binary"), 3, init_model=first)
        for objective in ("binary", LIGHTGBM.plugin.TaskObjective("binary", TASK))
    ]
    assert trees(models[0]) == trees(models[1])
    assert models[0].num_trees() == 8


def test_lightgbms_other_names_are_known():
    matrix = matrix_of(LIGHTGBM, "regression")
    ours = train(LIGHTGBM, LIGHTGBM.plugin.TaskObjective("mse", TASK), matrix)
    assert trees(ours) == trees(train(LIGHTGBM, "regression", matrix))


def squared(labels, margins):
    return margins - labels, np.ones(len(labels))


def weighted_squared(labels, margins, weights):
    return weights * (margins - labels), weights


@needs_estimators
@pytest.mark.parametrize("function", [squared, weighted_squared])
def test_a_users_function_for_estimators_gets_the_arguments_it_takes(function):
    own, ours = (
        estimator_of(each, "regression", n_estimators=3, num_leaves=8, verbosity=-1).fit(
            X, Y, sample_weight=WEIGHT
        )
        for each in (function, LIGHTGBM.plugin.TaskObjective(function, TASK))
    )
    assert trees(ours.booster_) == trees(own.booster_)


@needs_estimators
def test_it_can_be_pickled_in_the_estimator_that_was_fitted_with_it():
    objective = LIGHTGBM.plugin.TaskObjective("binary", TASK)
    objective.quit("a")
    estimator = estimator_of(objective, "binary", n_estimators=3, verbosity=-1)
    estimator.fit(X, LABELS[LIGHTGBM]["binary"])
    again = pickle.loads(pickle.dumps(estimator))
    data = matrix_of(LIGHTGBM, "binary")
    assert_array_equal(again.objective(MARGINS, data), objective(MARGINS, data))


def test_cross_validation_gives_each_fold_the_tasks_of_its_rows():
    weight = {"a": 1.0, "b": 4.0, "c": 0.5}
    rows = np.array([weight[task] for task in TASK], np.float32)
    folds = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(N // 3, N), np.arange(N // 3))]
    by_task = LIGHTGBM.plugin.TaskObjective("binary", TASK, task_weight=weight)
    by_row = LIGHTGBM.plugin.TaskObjective("binary", np.zeros(N, int))
    found, expected = (
        lgb.cv(
            {**params_of(LIGHTGBM, "binary"), "objective": objective, "metric": "binary_logloss"},
            lgb.Dataset(X, LABELS[LIGHTGBM]["binary"], weight=own, params={"verbosity": -1}),
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


# ---- weird input ---------------------------------------------------------------------------------


def test_another_number_of_rows_is_refused(library):
    name = library.own("binary:logistic")
    with pytest.raises(DataError, match=r"600 task labels.*400 training rows"):
        train(
            library, library.plugin.TaskObjective(name, TASK), matrix_of(library, name, slice(400))
        )


def test_several_tasks_cannot_quit_without_an_objective_that_knows_them():
    with pytest.raises(UnsupportedError, match="objective=TaskObjective"):
        train(XGBOOST, "binary:logistic", matrix_of(XGBOOST, "binary:logistic"), 3,
              callbacks=[quitting()])  # fmt: skip


def test_folds_of_cross_validation_with_xgboost_are_refused():
    with pytest.raises(DataError, match="one label per row"):
        xgboost.cv(
            params_of(XGBOOST, "binary:logistic"),
            xgboost.DMatrix(X, LABELS[XGBOOST]["binary:logistic"]),
            2,
            obj=XGBOOST.plugin.TaskObjective("binary:logistic", TASK),
        )


@pytest.mark.parametrize("field", ["label", "weight"])
def test_a_matrix_with_new_labels_or_weights_is_read_again(library, field):
    name = library.squared_error
    objective = library.plugin.TaskObjective(name, TASK)
    matrix = matrix_of(library, name)
    train(library, objective, matrix)
    getattr(matrix, f"set_{field}")(WEIGHT)
    expected = train(library, library.plugin.TaskObjective(name, TASK), matrix)
    assert_same(train(library, objective, matrix), expected)


def test_labels_outside_the_domain_are_refused_whenever_a_matrix_is_read(library):
    name = library.own("binary:logistic")
    objective = library.plugin.TaskObjective(name, TASK)
    objective(MARGINS, matrix_of(library, name))
    with pytest.raises(DataError, match="label"):
        objective(MARGINS, library.matrix(X, np.full(N, 2.0)))


@pytest.mark.parametrize(
    ("library", "objective"),
    [(XGBOOST, "rank:map"), (LIGHTGBM, "rank_xendcg"), (XGBOOST, "no:such"), (LIGHTGBM, "no_such")],
)
def test_an_objective_without_gradients_in_the_core_is_refused(library, objective):
    with pytest.raises(UnsupportedError, match=objective):
        library.plugin.TaskObjective(objective, TASK)


@pytest.mark.parametrize(
    ("library", "objective", "options"),
    [
        *((LIGHTGBM, name, {}) for name in ("regression_l1", "mae", "quantile", "mape")),
        (XGBOOST, "reg:quantileerror", {"quantile_alpha": 0.5}),
        (XGBOOST, "reg:quantileerror", {"quantile_alpha": [0.1, 0.5]}),
    ],
)
def test_an_objective_that_sets_leaves_by_another_rule_is_refused(library, objective, options):
    with pytest.raises(
        UnsupportedError, match=rf"{objective}.*(LightGBM|XGBoost) does for its own"
    ):
        library.plugin.TaskObjective(objective, TASK, **options)


def test_weights_of_tasks_that_are_not_there_are_refused(library):
    name = library.own("binary:logistic")
    objective = library.plugin.TaskObjective(name, TASK, task_weight={"a": 1.0, "z": 2.0})
    with pytest.raises((DataError, ParameterError), match="task_weight"):
        objective(MARGINS, matrix_of(library, name))


def test_unknown_parameters_of_the_loss_are_named(library):
    with pytest.raises(TypeError, match="'scale_pos_weigh'. Did you mean 'scale_pos_weight'?"):
        library.plugin.TaskObjective(library.own("binary:logistic"), TASK, scale_pos_weigh=2.0)


def test_parameters_of_the_loss_are_numbers(library):
    with pytest.raises(TypeError, match="scale_pos_weight must be a finite number, found 'x'"):
        library.plugin.TaskObjective(library.own("binary:logistic"), TASK, scale_pos_weight="x")


@pytest.mark.parametrize(
    ("library", "objective"), [(XGBOOST, "multi:softprob"), (LIGHTGBM, "multiclass")]
)
def test_classes_need_their_number(library, objective):
    with pytest.raises(ParameterError, match=r"set params\['num_class'\]"):
        boost(library, library.plugin.TaskObjective(objective, TASK), matrix_of(library, objective))


def boost(library, function, matrix, callbacks=None):
    if library is XGBOOST:
        return xgboost.train({}, matrix, 2, obj=function, callbacks=callbacks)
    return lgb.train({"objective": function, "verbosity": -1}, matrix, 2, callbacks=callbacks)


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (None, TypeError, "NoneType: it must return gradient, hessian"),
        ((MARGINS, MARGINS, MARGINS), TypeError, "tuple: it must return gradient, hessian"),
        ((MARGINS[:3], MARGINS[:3]), DataError, r"shape \(3,\).*the margins, \(600,\)"),
    ],
)
@pytest.mark.parametrize("plugin", ["TaskObjective", "TaskSplit"])
def test_what_a_function_returns_is_checked(library, plugin, returned, error, message):
    def function(margins, matrix):
        return returned

    matrix = matrix_of(library, library.own("reg:squarederror"))
    is_objective = plugin == "TaskObjective"
    objective = library.plugin.TaskObjective(function, TASK) if is_objective else function
    split = None if is_objective else [library.plugin.TaskSplit(TASK, split_score="plain")]
    with pytest.raises(error, match=message):
        boost(library, objective, matrix, split)
