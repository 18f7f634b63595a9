# SPDX-License-Identifier: Apache-2.0
"""Both stages by hand, with stock LightGBM: TaskQuitting, residual_margin, combine, task_metric."""

import itertools

import lightgbm
import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from scipy.special import expit, softmax
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error

from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, ParameterError, TrainingError, UnsupportedError
from mtboost.lightgbm import TaskObjective, TaskQuitting, combine, residual_margin, task_metric
from mtboost.lightgbm.library import version
from mtboost.lightgbm.quitting import QuitAt

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
    """A specific model, and the scores of its training rows at its end."""
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


def test_a_common_model_of_a_function_takes_the_objective_of_the_specific_one():
    common = train({**QUIET, "objective": TaskObjective("binary", TASK)}, X, Y)
    specific, seen = trained_from(common, X[OWN], Y[OWN], BINARY, 4)
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
        with pytest.raises(ParameterError, match="an integer from 0 to 9, found 10"):
            combine(common, specific, 10)


def test_other_outputs_are_refused():
    with pytest.raises(DataError, match="1 trees a round.* 3"):
        combine(train(BINARY, X, Y), train(MULTICLASS, X, CLASSES), 1)


def test_objectives_with_other_links_are_refused():
    common = train(BINARY, X, Y)
    with pytest.raises(DataError, match="objective 'binary', the specific one 'regression'"):
        combine(common, train(REGRESSION, X, Y), 1)
    huber = train({**REGRESSION, "objective": "huber"}, X, Y)
    assert combine(train(REGRESSION, X, Y), huber, 1).num_trees() == 10


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


# ---- residual_margin -------------------------------------------------------------------------


TABLES = {
    "numpy": X,
    "float32": X.astype(np.float32),
    "csr": scipy.sparse.csr_matrix(X),
    "csc": scipy.sparse.csc_matrix(X),
    "pandas": pd.DataFrame(X, columns=list("abcd")),
}
if version() >= (4, 7):  # those before need another package for it
    TABLES["pyarrow"] = pyarrow.table(dict(zip("abcd", X.T, strict=True)))


@pytest.mark.parametrize(("params", "y"), [(BINARY, Y), (MULTICLASS, CLASSES)])
@pytest.mark.parametrize("kind", TABLES)
def test_each_row_has_the_margin_of_its_tasks_rounds(params, y, kind):
    booster = train(params, X, y)
    table = TABLES[kind]
    quit_round = {"new york": 9, "b:1": 4, "unused": 2}  # c is missing: all rounds
    found = residual_margin(booster, table, quit_round, TASK)
    assert found.dtype == np.float64
    assert_array_equal(residual_margin(booster, table, {**quit_round, "c": 9}, TASK), found)
    for rounds, rows in ((9, ~OWN), (4, OWN)):
        expected = raw(booster, table, num_iteration=rounds)
        assert_array_equal(found[rows], expected[rows])
        assert_array_equal(residual_margin(booster, table, rounds), expected)


def test_margins_are_sums_in_tree_order():
    booster = train(BINARY, X, Y)
    parts = [raw(booster, X, start_iteration=r, num_iteration=1) for r in range(9)]
    sums = np.add.accumulate(parts)
    for rounds in (1, 5, 9):
        assert_array_equal(residual_margin(booster, X, rounds), sums[rounds - 1])


@pytest.mark.parametrize(("params", "y"), [(BINARY, Y), (MULTICLASS, CLASSES)])
def test_no_round_is_0(params, y):
    booster = train(params, X, y)
    expected = np.zeros((N, 3)) if params is MULTICLASS else np.zeros(N)
    assert_array_equal(residual_margin(booster, X, 0), expected)
    mixed = residual_margin(booster, X, {"c": 0}, TASK)
    assert_array_equal(mixed[TASK == "c"], expected[TASK == "c"])
    assert (mixed[TASK != "c"] != 0).all()


def test_best_iteration_does_not_limit_the_rounds():
    booster = train(BINARY, X, Y, keep_training_booster=True)
    booster.best_iteration = 2
    assert_array_equal(residual_margin(booster, X, 9), raw(booster, X, num_iteration=9))


def test_what_is_no_booster_is_refused():
    booster = lightgbm.train({"verbosity": -1}, lightgbm.Dataset(X, Y), 3)
    with pytest.raises(TypeError, match="specific must be None or a lightgbm.Booster, found 'x'"):
        combine(booster, "x", 1)
    for rounds in (4, -1, "all", 10**400):
        with pytest.raises(ParameterError, match="n_common_rounds must be an integer from 0 to 3"):
            combine(booster, booster, rounds)
    with pytest.raises(TypeError, match="booster must be a lightgbm.Booster, found None"):
        residual_margin(None, X, 1)
    with pytest.raises(TypeError, match="objective must be None or a TaskObjective, found 1"):
        TaskQuitting("valid_0", objective=1)


@pytest.mark.parametrize("n_common_rounds", [0, 4])
def test_a_model_continued_from_the_margins_is_the_combined_booster(n_common_rounds):
    common = train(REGRESSION, X, Y + 3)
    start = residual_margin(common, X[OWN], n_common_rounds)
    data = lightgbm.Dataset(X[OWN], Y[OWN] + 3, init_score=start)
    seen = SeenScores()
    specific = lightgbm.train(REGRESSION, data, 5, valid_sets=[data], feval=seen)
    assert_array_equal(combine(common, specific, n_common_rounds).predict(X[OWN]), seen.scores)


@pytest.mark.parametrize("rounds", [-1, 4, {"b:1": 4}])
def test_rounds_that_are_not_there_are_refused(rounds):
    with pytest.raises(ParameterError, match="an integer from 0 to 3, found"):
        residual_margin(train(BINARY, X, Y, 3), X, rounds, TASK)


def test_rounds_by_task_need_the_tasks():
    with pytest.raises(DataError, match="give task="):
        residual_margin(train(BINARY, X, Y, 3), X, {"b:1": 1})


def test_what_has_no_margins_is_refused():
    booster = train(BINARY, X, Y, 3)
    with pytest.raises(DataError, match="give the table"):
        residual_margin(booster, lightgbm.Dataset(X), 1)
    forest = train({**BINARY, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, X, Y)
    with pytest.raises(UnsupportedError, match="rf"):
        residual_margin(forest, X, 1)


# ---- TaskQuitting ----------------------------------------------------------------------------


class Objective(TaskObjective):
    """Writes down who takes part, round by round."""

    def __init__(self, objective, task, **options):
        super().__init__(objective, task, **options)
        self.log = []

    def __call__(self, margins, data):
        gradient, hessian = super().__call__(margins, data)
        self.log.append({name for name in self.tasks if hessian[self.tasks.rows(name)].any()})
        return gradient, hessian


TRAIN, VALID = slice(300), slice(300, None)
VALID_TASK = TASK[VALID]
OBJECTIVES = {
    "regression": (Y + 5, lambda margin: margin, root_mean_squared_error),
    "binary": (Y, expit, log_loss),
    "multiclass": (CLASSES, lambda margin: softmax(margin, axis=1), log_loss),
    "poisson": (Y, np.exp, None),
}


def datasets(y=Y, **options):
    train = lightgbm.Dataset(X[TRAIN], y[TRAIN], **{k: v[TRAIN] for k, v in options.items()})
    valid = {k: v[VALID] for k, v in options.items()}
    return train, lightgbm.Dataset(X[VALID], y[VALID], reference=train, **valid)


def watched(quitting, params, train, valid, n_rounds=60, callbacks=(), **options):
    return lightgbm.train(
        params, train, n_rounds, valid_sets=[valid], callbacks=[quitting, *callbacks], **options
    )


@pytest.mark.parametrize("start", [None, 0.4], ids=["boost_from_average", "init_score"])
@pytest.mark.parametrize("name", ["regression", "binary", "multiclass"])
def test_history_is_the_metric_of_the_rounds_so_far(name, start):
    y, link, metric = OBJECTIVES[name]
    shape = (N, 3) if name == "multiclass" else N
    scores = {} if start is None else {"init_score": np.full(shape, start) * RNG.random(shape)}
    dtrain, valid = datasets(y, **scores)
    quitting = TaskQuitting(valid, early_stopping_rounds=None)
    params = {**(MULTICLASS if name == "multiclass" else QUIET), "objective": name}
    booster = watched(quitting, params, dtrain, valid, 6)
    offset = scores.get("init_score", np.zeros(shape))[VALID]
    for rounds in range(7):
        margin = offset + (raw(booster, X[VALID], num_iteration=rounds) if rounds else 0)
        expected = metric(y[VALID], link(margin))
        # sums in another order, and float32 labels
        assert quitting.history["all"][rounds] == pytest.approx(expected, rel=1e-6)
    assert quitting.quit_round == {"all": 6}
    assert quitting.left_after == {}


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"objective": "l2"}, "rmse"),
        ({"objective": "mae"}, "mae"),
        ({"objective": "poisson"}, "poisson-nloglik"),
        ({"objective": "gamma"}, "gamma-deviance"),
        ({"objective": "tweedie", "tweedie_variance_power": 1.3}, "tweedie-nloglik@1.3"),
        ({"objective": "xentropy"}, "logloss"),
        ({"objective": "ova", "num_class": 3}, "mlogloss"),
    ],
)
def test_the_metric_follows_lightgbms_objective(params, name):
    dtrain, valid = datasets(CLASSES + 1.0 if params["objective"] == "gamma" else CLASSES % 2)
    quitting = TaskQuitting(valid)
    watched(quitting, {**QUIET, **params}, dtrain, valid, 2)
    assert quitting.metric.name == name


def test_the_metric_of_a_task_objective_has_its_parameters():
    dtrain, valid = datasets()
    objective = TaskObjective("tweedie", TASK[TRAIN], tweedie_variance_power=1.2)
    quitting = TaskQuitting(valid, VALID_TASK, objective=objective)
    watched(quitting, {**QUIET, "objective": objective}, dtrain, valid, 1)
    assert quitting.metric.name == "tweedie-nloglik@1.2"


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"objective": "huber", "alpha": 0.7}, "huber@0.7"),
        ({"objective": "fair", "fair_c": 2.0}, "fair@2"),
        ({"objective": "mape"}, "mape@1"),
    ],
)
def test_the_default_metric_has_the_parameters_of_the_loss(params, name):
    dtrain, valid = datasets()
    quitting = TaskQuitting(valid)
    watched(quitting, {**QUIET, **params}, dtrain, valid, 2)
    assert quitting.metric.name == name


@pytest.mark.parametrize(
    ("params", "value"),
    [
        ({"objective": "regression", "reg_sqrt": True}, 2.0),
        ({"objective": "cross_entropy_lambda"}, np.log1p(np.exp(np.sqrt(2)))),
    ],
)
def test_the_start_score_has_lightgbms_own_link(params, value):
    dtrain, valid = datasets(init_score=np.full(N, np.sqrt(2)))
    quitting = TaskQuitting(valid, metric="rmse", early_stopping_rounds=None)
    seen = SeenScores()
    watched(quitting, {**QUIET, **params, "learning_rate": 1e-9}, dtrain, valid, 1, feval=seen)
    np.testing.assert_allclose(seen.scores, value, rtol=1e-7)  # a tree of nothing
    expected = root_mean_squared_error(Y[VALID], np.full(len(Y[VALID]), value))
    assert quitting.history["all"][0] == pytest.approx(expected)


def test_training_ends_when_the_task_has_quit():
    dtrain, valid = datasets()
    quitting = TaskQuitting(valid, early_stopping_rounds=3)
    booster = watched(quitting, BINARY, dtrain, valid)
    best = int(np.argmin(quitting.history["all"]))
    assert 0 < best < 50
    assert quitting.quit_round == {"all": best}
    assert quitting.left_after == {"all": best + 3}
    # No round is dropped: the trees after the best one are somebody else's affair.
    assert booster.current_iteration() == best + 3 == len(quitting.history["all"]) - 1


def test_small_improvements_do_not_count():
    dtrain, valid = datasets()
    quitting = TaskQuitting(valid, early_stopping_rounds=3, min_delta=10.0)
    watched(quitting, BINARY, dtrain, valid)
    assert quitting.quit_round == {"all": 0}
    assert quitting.left_after == {"all": 3}


def by_task(metric, y, prediction, task):
    return {name: metric(y[task == name], prediction[task == name]) for name in np.unique(task)}


def test_tasks_quit_one_by_one():
    objective = Objective("binary", TASK[TRAIN], sigmoid=0.5)
    params = {**QUIET, "objective": objective}
    found = []
    quitting = None
    for is_new in (True, True, False):  # each training begins with all tasks
        dtrain, valid = datasets()
        if is_new:
            quitting = TaskQuitting("v", VALID_TASK, early_stopping_rounds=3, objective=objective)
        objective.log.clear()
        booster = watched(quitting, params, dtrain, valid, valid_names=["v"])
        found.append((booster.model_to_string(), quitting.quit_round, quitting.left_after))
        for done, active in enumerate(objective.log):
            left = {name for name, after in quitting.left_after.items() if after <= done}
            assert active == {"b:1", "c", "new york"} - left
    assert found[0] == found[1] == found[2]
    assert len(set(quitting.left_after.values())) == 3  # or nothing was put to the test
    assert booster.current_iteration() == max(quitting.left_after.values())
    probability = expit(0.5 * raw(booster, X[VALID]))
    for name, value in by_task(log_loss, Y[VALID], probability, VALID_TASK).items():
        assert quitting.history[name][0] == pytest.approx(np.log(2))
        assert quitting.history[name][-1] == pytest.approx(value)
        best = np.argmin(quitting.history[name][: quitting.left_after[name] + 1])
        assert quitting.quit_round[name] == best


def test_tasks_that_had_quit_are_told_when_another_callback_ended_training():
    def stop(env):
        if env.iteration == env.begin_iteration + 2:
            raise lightgbm.callback.EarlyStopException(env.iteration, [])

    stop.order = 99
    objective = Objective("regression", ["no validation rows", *TASK[1:300]])
    dtrain, valid = datasets()
    options = {"min_delta": 10.0, "early_stopping_rounds": 2, "objective": objective}
    quitting = TaskQuitting("valid_0", VALID_TASK, **options)
    params = {**QUIET, "objective": objective}
    watched(quitting, params, dtrain, valid, callbacks=[stop])
    assert quitting.left_after == {"b:1": 2, "c": 2, "new york": 2}
    with pytest.raises(TrainingError, match="make a new TaskQuitting"):
        watched(quitting, params, *datasets())
    objective.log.clear()
    watched(TaskQuitting("valid_0", VALID_TASK, **options), params, *datasets(), 1)
    assert objective.log == [set(objective.tasks)]


def test_rounds_of_a_continued_model_count():
    dtrain, valid = datasets()
    common = lightgbm.train(BINARY, dtrain, 3)
    dtrain, valid = datasets()
    quitting = TaskQuitting(valid, early_stopping_rounds=None)
    booster = watched(quitting, BINARY, dtrain, valid, 2, init_model=common)
    expected = [log_loss(Y[VALID], booster.predict(X[VALID], num_iteration=r)) for r in (3, 4, 5)]
    np.testing.assert_allclose(quitting.history["all"], expected)
    assert quitting.quit_round == {"all": 5}


def test_rounds_that_grew_nothing_do_not_count():
    dtrain, valid = datasets()
    quitting = TaskQuitting(valid, early_stopping_rounds=None)
    params = {**BINARY, "min_gain_to_split": 1e9}
    booster = watched(quitting, params, dtrain, valid, 5)
    assert len(quitting.history["all"]) == 1 + 5
    assert quitting.quit_round == {"all": booster.current_iteration()} == {"all": 1}


ORDERS = list(itertools.permutations(range(4)))


@pytest.mark.parametrize("order", ORDERS[::5])
def test_lightgbms_callbacks_work_beside_it_in_any_order(order):
    def run(with_quitting):
        dtrain, valid = datasets()
        quitting, record = TaskQuitting(valid, early_stopping_rounds=25), {}
        callbacks = [
            quitting,
            lightgbm.early_stopping(20, verbose=False),
            lightgbm.record_evaluation(record),
            lightgbm.log_evaluation(0),
        ]
        callbacks = [callbacks[place] for place in order]
        if not with_quitting:
            callbacks.remove(quitting)
        booster = lightgbm.train(BINARY, dtrain, 30, valid_sets=[valid], callbacks=callbacks)
        return booster, record, quitting

    booster, record, quitting = run(True)
    expected, expected_record, _ = run(False)
    assert booster.model_to_string() == expected.model_to_string()
    assert booster.best_iteration == expected.best_iteration < 30
    assert record == expected_record
    np.testing.assert_allclose(
        quitting.history["all"][1:], record["valid_0"]["binary_logloss"], rtol=1e-6
    )


def test_the_round_that_ends_training_is_seen():
    dtrain, valid = datasets()
    quitting = TaskQuitting(valid)
    early = lightgbm.early_stopping(50, verbose=False)  # ends the last round, always
    watched(quitting, BINARY, dtrain, valid, 4, callbacks=[early])
    assert len(quitting.history["all"]) == 1 + 4


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")  # by 4.7
@pytest.mark.skipif(version() < (4, 6), reason="LightGBM 4.5 needs an older scikit-learn")
def test_estimators_take_it():
    y = np.array(["no", "yes"])[Y.astype(int)]
    quitting = TaskQuitting("valid_0", early_stopping_rounds=3)
    model = lightgbm.LGBMClassifier(**QUIET, n_estimators=60)
    model.fit(X[TRAIN], y[TRAIN], eval_set=[(X[VALID], y[VALID])], callbacks=[quitting])
    assert quitting.left_after["all"] == model.booster_.current_iteration() < 60
    expected = log_loss(y[VALID], model.booster_.predict(X[VALID]))
    assert quitting.history["all"][-1] == pytest.approx(expected, rel=1e-6)


def test_weights_count():
    weight = RNG.random(N) + 0.5
    dtrain, valid = datasets(weight=weight)
    quitting = TaskQuitting(valid, early_stopping_rounds=None)
    booster = watched(quitting, BINARY, dtrain, valid, 3)
    expected = log_loss(Y[VALID], booster.predict(X[VALID]), sample_weight=weight[VALID])
    assert quitting.history["all"][-1] == pytest.approx(expected, rel=1e-6)  # float32 weights


def test_progress_is_printed_every_so_many_rounds(capsys):
    dtrain, valid = datasets()
    quitting = TaskQuitting(valid, verbose=2)
    watched(quitting, BINARY, dtrain, valid, 5)
    values = [f"{quitting.history['all'][rounds]:.5f}" for rounds in (2, 4)]
    assert capsys.readouterr().out.splitlines() == [
        f"[2]\tall-logloss:{values[0]}\tactive 1/1: all",
        f"[4]\tall-logloss:{values[1]}\tactive 1/1: all",
    ]


# What cannot be watched


def test_several_tasks_need_somebody_who_leaves_them_out():
    dtrain, valid = datasets()
    with pytest.raises(UnsupportedError, match="TaskObjective"):
        watched(TaskQuitting(valid, VALID_TASK), BINARY, dtrain, valid)


@pytest.mark.parametrize(
    "params", [{"boosting": "dart"}, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}]
)
def test_boosting_that_changes_earlier_trees_is_refused(params):
    dtrain, valid = datasets()
    with pytest.raises(UnsupportedError, match=params["boosting"]):
        watched(TaskQuitting(valid), {**BINARY, **params}, dtrain, valid)


def test_goss_is_watched_like_gbdt():
    dtrain, valid = datasets()
    quitting = TaskQuitting(valid, early_stopping_rounds=None)
    booster = watched(quitting, {**BINARY, "data_sample_strategy": "goss"}, dtrain, valid, 4)
    expected = log_loss(Y[VALID], booster.predict(X[VALID]))
    assert quitting.history["all"][-1] == pytest.approx(expected, rel=1e-6)


def test_cv_is_refused():
    dtrain, valid = datasets()
    with pytest.raises(UnsupportedError, match="lightgbm.cv"):
        lightgbm.cv(BINARY, dtrain, 2, nfold=2, callbacks=[TaskQuitting(valid)])


@pytest.mark.parametrize(
    ("valid", "task", "message"),
    [
        (lightgbm.Dataset(X[VALID], Y[VALID]), None, "valid_sets"),
        ("vaild_0", None, "Known: name 'valid_0'. Did you mean 'valid_0'?"),
        ("valid_0", TASK[:7], "7 labels"),
    ],
)
def test_rows_that_cannot_be_found_are_refused(valid, task, message):
    with pytest.raises(DataError, match=message):
        watched(TaskQuitting(valid, task), BINARY, *datasets())


def test_a_training_without_validation_sets_knows_no_name():
    with pytest.raises(DataError, match="Known: none"):
        lightgbm.train(BINARY, datasets()[0], 2, callbacks=[TaskQuitting("valid_0")])


def test_what_is_neither_a_data_set_nor_a_name_is_refused():
    with pytest.raises(DataError, match="tuple"):
        TaskQuitting((X, Y))


@pytest.mark.parametrize("options", [{"early_stopping_rounds": 0}, {"min_delta": -1}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        TaskQuitting("valid_0", **options)


# With trees of ours: the seam


class FakeGrowth:
    """Scores of the stock booster, as if its trees were ours."""

    objective = "binary"

    def __init__(self, model, task):
        self.model, self.tasks = model, TaskSet.from_labels(task, len(task))
        self.has_quit = []

    def know_tasks(self, data, tasks):
        assert list(tasks.names) == list(self.tasks.names)

    def quit(self, task):
        self.has_quit.append((self.model.current_iteration(), task))

    def margins(self, data):
        return raw(self.model, X[VALID])[:, None]

    def start_margins(self, data):
        return np.zeros((len(X[VALID]), 1))


class Grow:
    before_iteration = True

    def __call__(self, env):
        if env.iteration == env.begin_iteration:
            env.model.growth = self.growth = FakeGrowth(env.model, TASK[TRAIN])


def test_tasks_of_a_growing_booster_quit():
    dtrain, valid = datasets()
    quitting, grow = TaskQuitting(valid, VALID_TASK, early_stopping_rounds=3), Grow()
    booster = watched(quitting, BINARY, dtrain, valid, callbacks=[grow])
    expected = by_task(log_loss, Y[VALID], booster.predict(X[VALID]), VALID_TASK)
    for name, value in expected.items():
        assert quitting.history[name][0] == pytest.approx(np.log(2))
        assert quitting.history[name][-1] == pytest.approx(value)
    codes = {"b:1": 0, "c": 1, "new york": 2}
    left = sorted((after, codes[name]) for name, after in quitting.left_after.items())
    assert grow.growth.has_quit == left
    again = Grow()
    lightgbm.train(BINARY, datasets()[0], 60, callbacks=[QuitAt(quitting.left_after), again])
    assert again.growth.has_quit == left


# ---- task_metric -----------------------------------------------------------------------------


def expected_auc(prediction):
    task = VALID_TASK
    return {f"auc-{k}": v for k, v in by_task(roc_auc_score, Y[VALID], prediction, task).items()}


@pytest.mark.parametrize("kind", ["built-in", "TaskObjective"])
def test_each_task_has_its_metric_in_the_evaluation(kind):
    dtrain, valid = datasets()
    objective = None if kind == "built-in" else TaskObjective("binary", TASK[TRAIN])
    results = {}
    booster = lightgbm.train(
        {**BINARY, "objective": objective or "binary", "metric": "None"},
        dtrain,
        4,
        valid_sets=[dtrain, valid],
        valid_names=["train", "valid"],
        feval=task_metric("auc", [(valid, VALID_TASK)], objective=objective),
        callbacks=[lightgbm.record_evaluation(results)],
    )
    assert "train" not in results
    expected = expected_auc(raw(booster, X[VALID]))
    assert set(results["valid"]) == set(expected)
    for name, value in expected.items():
        assert results["valid"][name][-1] == pytest.approx(value)


def test_logloss_of_a_task_is_of_probabilities_whatever_the_library_hands_over():
    data = lightgbm.Dataset(X, Y).construct()
    margins = RNG.normal(size=N)
    objective = TaskObjective("binary", TASK, sigmoid=0.5)
    from_margins = task_metric("logloss", [(data, TASK)], objective=objective)(margins, data)
    assert from_margins == task_metric("logloss", [(data, TASK)])(expit(0.5 * margins), data)


def test_the_direction_of_the_metric_is_told():
    data = lightgbm.Dataset(X, Y).construct()
    for metric, is_greater_better in (("auc", True), ("logloss", False)):
        scores = task_metric(metric, [(data, TASK)])(expit(X[:, 0]), data)
        assert [direction for *_, direction in scores] == [is_greater_better] * 3


def test_a_task_without_a_metric_is_left_out():
    data = lightgbm.Dataset(X, Y).construct()
    lonely = TASK.copy()
    lonely[0] = "a"
    names = [name for name, *_ in task_metric("auc", [(data, lonely)])(X[:, 0], data)]
    assert names == ["auc-b:1", "auc-c", "auc-new york"]


def test_another_number_of_tasks_is_refused():
    data = lightgbm.Dataset(X, Y).construct()
    with pytest.raises(DataError, match="10 tasks for a data set of 500 rows"):
        task_metric("auc", [(data, TASK[:10])])(X[:, 0], data)


def test_something_else_than_a_data_set_is_refused():
    with pytest.raises(TypeError, match=r"tasks\[0\] must be a pair \(Dataset"):
        task_metric("auc", [(X, TASK)])
