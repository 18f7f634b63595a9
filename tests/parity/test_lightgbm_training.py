# SPDX-License-Identifier: Apache-2.0
"""The training loop stays LightGBM's: objectives, callbacks, metrics and wrappers behave as ever.

With the plain score the whole text of the model and the whole history of metrics equal those of
stock training to the last bit; with the other scores the finished booster is an ordinary one.
LightGBM runs with one thread. docs/limits.md lists what cannot be the same.
"""

import copy
import gc
import itertools
import json
import pickle
import weakref

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn.base
from lightgbm.callback import EarlyStopException
from processes import run_script
from stock_training import LIGHTGBM, N_TRAIN, TASK, X, Y, make_labels, make_rows

from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.lightgbm import TaskQuitting, TaskSplit, library
from mtboost.lightgbm.library import version
from mtboost.lightgbm.sampling import sample_by_gradient

# LightGBM sums metrics with the threads of the newest data set or booster that it has made.
pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

PARAMS, train, datasets, text = LIGHTGBM.params, LIGHTGBM.train, LIGHTGBM.data, LIGHTGBM.text
task_split, assert_same = LIGHTGBM.task_split, LIGHTGBM.assert_same
assert_parity, assert_same_training = LIGHTGBM.assert_parity, LIGHTGBM.assert_same_training
WEIGHT = np.random.default_rng(1).uniform(0.1, 3.0, len(Y))
WEIGHTED = {"weight": WEIGHT}
SCORE = np.random.default_rng(2).normal(size=(len(Y), 3))


def trees(booster):
    return [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]


# ---- objectives -----------------------------------------------------------------------------

OBJECTIVES = {
    "regression": ["l2", "l1", "rmse", "mape"],
    "regression_l1": ["l1"],
    "huber": ["huber"],
    "fair": ["fair"],
    "poisson": ["poisson"],
    "quantile": ["quantile"],
    "mape": ["mape"],
    "gamma": ["gamma", "gamma_deviance"],
    "tweedie": ["tweedie"],
    "binary": ["binary_logloss", "auc", "binary_error", "average_precision"],
    "cross_entropy": ["cross_entropy", "kullback_leibler"],
    "multiclass": ["multi_logloss", "multi_error", "auc_mu"],
    "multiclassova": ["multi_logloss", "multi_error"],
}
RATES = {"bagging_fraction": 0.6, "bagging_freq": 2, "feature_fraction": 0.6}


def settings_of(objective, **others):
    n_classes = {"num_class": 3} if objective.startswith("multi") else {}
    return {"objective": objective, "metric": OBJECTIVES[objective], **n_classes, **others}


PARAMETERS = [{}, {"boost_from_average": False}, RATES]


@pytest.mark.parametrize(
    ("fields", "params"),
    [*itertools.product([(), ("weight",)], PARAMETERS), (("init_score",), RATES)],
    ids=repr,
)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives(objective, fields, params):
    if objective == "mape" and "weight" in fields:
        # Otherwise LightGBM may take all rows' hessians for that of the first.
        params = {"force_row_wise": True, **params}
    score = SCORE if objective.startswith("multi") else SCORE[:, 0]
    fields = {name: {"weight": WEIGHT, "init_score": score}[name] for name in fields}
    assert_parity(params=settings_of(objective, **params), fields=fields, places=["first"])


@pytest.mark.parametrize("where", ["train", "valid"])
def test_start_scores_of_one_data_set_alone(where):
    def make_data():
        train_set, valid = datasets("binary")
        own = {"train": train_set, "valid": valid}[where]
        own.set_init_score(SCORE[: own.construct().num_data(), 0].copy())
        return train_set, valid

    assert_parity(params=settings_of("binary"), data=make_data)


@pytest.mark.parametrize(
    "params",
    [
        settings_of("binary", is_unbalance=True),
        settings_of("binary", scale_pos_weight=3.0),
        settings_of("binary", sigmoid=2.0),
        settings_of("multiclassova", is_unbalance=True),
        settings_of("multiclassova", scale_pos_weight=3.0, sigmoid=0.7),
        settings_of("huber", alpha=0.3),
        settings_of("fair", fair_c=0.3),
        settings_of("quantile", alpha=0.2),
        settings_of("poisson", poisson_max_delta_step=0.2),
        settings_of("tweedie", tweedie_variance_power=1.2),
    ],
    ids=repr,
)
def test_parameters_of_objectives(params):
    assert_parity(params=params, fields=WEIGHTED, places=["first"])


# ---- trees without a split ------------------------------------------------------------------


@pytest.mark.parametrize("boosts", [True, False])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_first_round_without_a_split(objective, boosts):
    stock = assert_parity(
        params=settings_of(objective, boost_from_average=boosts, min_gain_to_split=1e6),
        fields=WEIGHTED,
        places=["first"],
        n_rounds=3,
    )
    assert stock.current_iteration() == 1
    assert max(tree["num_leaves"] for tree in stock.dump_model()["tree_info"]) == 1


@pytest.mark.parametrize(
    ("objective", "gain"),
    [("regression", 20.0), ("quantile", 1.0), ("poisson", 2.0), ("multiclass", 15.0)],
)
def test_later_rounds_without_a_split_are_dropped(objective, gain):
    sampling = {"bagging_fraction": 0.7, "bagging_freq": 1}  # so that a later round may have one
    stock = assert_parity(
        params=settings_of(objective, min_gain_to_split=gain, **sampling),
        places=["first"],
        n_rounds=20,
    )
    assert 1 < stock.current_iteration() < 20


def test_a_model_continued_without_a_split():
    start, _ = train(n_rounds=3)
    assert_parity(params={"min_gain_to_split": 1e6}, init_model=start, n_rounds=3)


@pytest.mark.parametrize("boosts", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_rounds_in_which_only_some_classes_split(objective, weight, boosts):
    labels = np.digitize(Y, [-1, 1, 2.6])  # few rows have the last class
    params = {"num_class": 4, "min_gain_to_split": 15.0, "boost_from_average": boosts}
    stock = assert_parity(
        params=settings_of(objective) | params,
        fields={"labels": labels, **({} if weight is None else {"weight": weight})},
        places=["first"],
    )
    n_leaves = [tree["num_leaves"] for tree in stock.dump_model()["tree_info"]]
    splits = np.reshape(n_leaves, (-1, 4)) > 1
    assert any(0 < of_round.sum() < 4 for of_round in splits)


@pytest.mark.parametrize("boosts", [True, False])
@pytest.mark.parametrize("labels", [np.digitize(Y, [-1, 1]), np.full(len(Y), 1)], ids=["3", "1"])
@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_classes_without_rows_get_no_trees(objective, labels, boosts):
    # Columns are drawn for trees that are grown only.
    options = {"boost_from_average": boosts, "feature_fraction": 0.6}
    params = {"objective": objective, "num_class": 4, **options}
    stock = assert_parity(params=params, fields={"labels": labels}, places=["first"])
    grown = {i % 4 for i, t in enumerate(stock.dump_model()["tree_info"]) if t["num_leaves"] > 1}
    assert grown == ({0, 1, 2} if labels.max() == 2 else set())


LABELS_OF_ONE_CLASS = [
    ({"objective": "binary", "boost_from_average": boosts}, {"labels": np.full(len(Y), label)})
    for boosts in (True, False)
    for label in (0, 1)
]


@pytest.mark.parametrize(
    ("params", "fields"), [*LABELS_OF_ONE_CLASS, ({}, {"table": np.ones((len(Y), 2))})]
)
def test_labels_of_one_class_and_constant_columns_give_one_tree(params, fields):
    assert assert_parity(params=params, fields=fields, n_rounds=3).num_trees() == 1


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_a_class_whose_rows_all_weigh_nothing(objective):
    labels = make_labels("multiclass")
    weight = np.where(labels == 2, 0.0, WEIGHT)
    params = {"objective": objective, "num_class": 3, "feature_fraction": 0.6}
    assert_parity(params=params, fields={"labels": labels, "weight": weight})


# ---- objectives and metrics of a user -------------------------------------------------------


def logistic(margins, data):
    p = 1 / (1 + np.exp(-margins))
    return p - data.get_label(), p * (1 - p)


def softmax(margins, data):
    p = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
    return p - np.eye(3)[data.get_label().astype(int)], 2 * p * (1 - p)


def softmax_class_by_class(margins, data):
    return tuple(part.ravel(order="F") for part in softmax(margins, data))


def as_lists(margins, data):
    return tuple(part.tolist() for part in logistic(margins, data))


def as_series(margins, data):
    return tuple(map(pd.Series, logistic(margins, data)))


@pytest.mark.parametrize("params", [{}, RATES], ids=repr)
@pytest.mark.parametrize("objective", [logistic, as_lists, as_series])
def test_a_users_objective(objective, params):
    params = {"objective": objective, "metric": "auc", **params}
    fields = {"objective": "binary", "init_score": SCORE[:, 0]}
    assert_parity(params=params, fields=fields, places=["first"])


@pytest.mark.parametrize("objective", [softmax, softmax_class_by_class])
def test_a_users_objective_of_several_classes(objective):
    params = {"objective": objective, "num_class": 3, "metric": "multi_logloss", **RATES}
    stock = assert_parity(params=params, fields={"objective": "multiclass"})
    assert stock.num_trees() == 24


def test_labels_of_one_class_are_nothing_to_a_users_objective():
    def squared(margins, data):
        return margins - Y[:N_TRAIN], np.ones(N_TRAIN)

    stock = assert_parity(params={"objective": squared}, fields={"labels": np.ones(len(Y))})
    assert stock.current_iteration() == 8


def largest(predictions, data):
    return "largest", float(predictions.max()), True


def several(predictions, data):
    error = np.abs(predictions.reshape(len(data.get_label()), -1)[:, 0] - data.get_label())
    return [("mean", float(error.mean()), False), ("worst", float(error.max()), False)]


def of_fields(predictions, data):
    """Tells if data are handed over with fields that are not the user's."""
    start = data.get_init_score()
    return "fields", float(data.get_weight().sum() + (0 if start is None else start.sum())), False


@pytest.mark.parametrize("feval", [largest, several, [largest, several, None], of_fields])
@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass", "poisson", logistic])
def test_a_users_metrics(objective, feval):
    name = "binary" if objective is logistic else objective
    params = settings_of(name) | {"objective": objective}
    fields = {"objective": name, **WEIGHTED}
    assert_parity(params=params, feval=feval, fields=fields, n_rounds=4)


def test_a_users_metric_alone():
    assert_parity(params={"metric": "None"}, feval=largest)


def test_evaluation_leaves_the_data_as_it_was():
    score = SCORE[:, 0].tolist()
    train_set, valid = data = datasets(init_score=score, weight=WEIGHT)
    versions = []

    def note_versions(env):
        versions.append((train_set.version, valid.version))

    train([task_split(), note_versions], data=data)
    assert len(set(versions)) == 1
    assert train_set.init_score is not None
    np.testing.assert_array_equal(train_set.get_field("init_score"), score[:N_TRAIN])
    np.testing.assert_array_equal(valid.get_field("init_score"), score[N_TRAIN:])


# ---- callbacks of LightGBM ------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"first_metric_only": True}, {"min_delta": 0.01}, {"min_delta": [0.01, 0.2]}],
    ids=repr,
)
@pytest.mark.parametrize("metric", [["binary_logloss", "auc"], ["auc", "binary_logloss"]])
def test_early_stopping_stops_at_the_same_round(metric, options):
    stock = assert_parity(
        lambda: [lgb.early_stopping(3, verbose=False, **options)],
        params={"objective": "binary", "metric": metric, "learning_rate": 1.0},
        n_rounds=40,
    )
    assert 0 < stock.best_iteration == stock.current_iteration() < 40


@pytest.mark.parametrize(
    "params", [{}, {"first_metric_only": True}, {"early_stopping_min_delta": 0.1}], ids=repr
)
def test_early_stopping_by_parameters(params):
    params = {"metric": ["l2", "l1"], "early_stopping_round": 2, "learning_rate": 1.0, **params}
    stock = assert_parity(params=params, n_rounds=40)
    assert stock.current_iteration() < 40


def test_early_stopping_that_does_not_stop():
    stock = assert_parity(lambda: [lgb.early_stopping(30, verbose=False)])
    assert stock.best_iteration > 0


def test_the_same_lines_are_printed(capfd):
    def printed(split):
        callbacks = [lgb.log_evaluation(2, show_stdv=False), lgb.early_stopping(2, min_delta=0.1)]
        train(split + callbacks, params={"metric": ["l2", "l1"], "learning_rate": 1.0}, n_rounds=20)
        return capfd.readouterr()

    expected = printed([])
    assert "[2]\ttrain's l2: " in expected.out
    assert "Early stopping, best iteration is" in expected.out
    assert printed([task_split()]) == expected


SCHEDULES = {
    "learning_rate": [0.5 * 0.9**i for i in range(8)],
    "num_leaves": [4, 4, 8, 8, 2, 16, 31, 3],
    "bagging_fraction": [0.5, 0.5, 0.7, 0.7, 0.3, 0.3, 0.9, 0.8],
    "feature_fraction": [0.6, 0.6, 0.4, 1.0, 0.8, 0.8, 0.2, 0.6],
    # More often, LightGBM would change from a copy of the bag to a list of its rows, and fail.
    "bagging_freq": [2, 2, 3, 2, 2, 4, 3, 2],
    "feature_fraction_seed": [2, 2, 9, 9, 9, 2, 1, 1],
    "min_gain_to_split": [0.0, 1.0, 2.0, 3.0, 1e6, 2.0, 1.0, 0.0],
    "lambda_l2": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
}


@pytest.mark.parametrize("schedules", [*([name] for name in SCHEDULES), list(SCHEDULES)], ids=str)
@pytest.mark.parametrize("params", [{}, RATES], ids=["all rows", "sampled"])
def test_parameters_that_change_from_round_to_round(schedules, params):
    stock = assert_parity(
        lambda: [lgb.reset_parameter(**{name: SCHEDULES[name] for name in schedules})],
        params=params,
    )
    idle = ["bagging_fraction"], ["bagging_freq"], ["feature_fraction_seed"]  # nothing is drawn
    is_idle = params == {} and schedules in idle
    assert (trees(stock) == trees(train(params=params)[0])) == is_idle


def test_a_learning_rate_given_by_a_function():
    assert_parity(lambda: [lgb.reset_parameter(learning_rate=lambda i: 0.8**i)])


# ---- callbacks of a user --------------------------------------------------------------------


def six_digits(values):
    """Gains and inner values are read from the model's text in training, which has six digits."""
    if isinstance(values, dict):
        return {name: six_digits(value) for name, value in values.items()}
    if isinstance(values, list):
        return [six_digits(value) for value in values]
    return f"{values:.6g}" if isinstance(values, float) else values


class Observer:
    """Asks the model for everything it can tell, before and after each round."""

    def __init__(self, is_before, tmp_path):
        self.before_iteration = is_before
        self.path = tmp_path / "model.txt"
        self.seen = []
        self.gains = []

    def __call__(self, env):
        model = env.model
        assert isinstance(model, lgb.Booster)
        model.save_model(self.path)
        copies = [
            copy.copy(model),
            copy.deepcopy(model),
            pickle.loads(pickle.dumps(model)),
            lgb.Booster(model_file=self.path),
        ]
        assert [type(each) for each in copies] == [lgb.Booster] * len(copies)
        assert copies[2].best_iteration == model.best_iteration
        assert copies[2].params == model.params
        if model.num_trees():
            self.seen += [each.predict(X).tolist() for each in [model, *copies]]
            self.seen += [
                model.predict(X, raw_score=True).tolist(),
                model.predict(X, pred_leaf=True).tolist(),
                # Not pred_contrib: in training, stock LightGBM ends the process the second time.
                model.predict(X, start_iteration=1, num_iteration=1).tolist(),
                six_digits(model.trees_to_dataframe().to_dict()),
                model.get_leaf_output(0, 1),
            ]
        if model.num_trees() > 1:  # with one tree LightGBM 4.5 fails
            self.seen.append(model.refit(X, Y > 0).model_to_string())
        self.gains.append(model.feature_importance("gain"))
        self.seen += [
            (env.iteration, env.begin_iteration, env.end_iteration, env.params),
            env.evaluation_result_list,
            self.path.read_text(),
            model.model_to_string(),
            model.model_to_string(1, importance_type="gain"),
            six_digits(model.dump_model()),
            model.feature_importance().tolist(),
            model.current_iteration(),
            model.num_trees(),
            model.num_model_per_iteration(),
            model.num_feature(),
            model.feature_name(),
            model.lower_bound(),
            model.upper_bound(),
            model.eval_train(),
            model.eval_valid(feval=largest),
            model.eval(model.train_set, "again"),
        ]


@pytest.mark.parametrize("is_before", [True, False])
def test_a_users_callback_sees_the_model_of_every_round(tmp_path, is_before):
    observers = []

    def make_callbacks():
        observers.append(Observer(is_before, tmp_path))
        return observers[-1:]

    assert_parity(make_callbacks, params={"objective": "binary"}, n_rounds=4)
    stock, *others = observers
    assert len(stock.seen) > 4 * 15
    for ours in others:
        assert ours.seen == stock.seen
        np.testing.assert_allclose(ours.gains, stock.gains, rtol=1e-5)  # sums of six digits each


def test_parameters_that_a_users_callback_changes():
    def change(env):
        env.model.reset_parameter({"num_leaves": 3 + env.iteration, "lambda_l2": 0.1})

    def make_callbacks():
        change.before_iteration = True
        return [change]

    stock = assert_parity(make_callbacks, params={"feature_fraction": 0.6})
    assert "[num_leaves: 10]" in stock.model_to_string()


def test_labels_that_a_users_callback_changes():
    def change(env):
        if env.iteration == 2:
            env.model.train_set.set_label(Y[:N_TRAIN] ** 2)

    stock = assert_parity(lambda: [change], data=datasets)
    assert trees(stock)[3] != trees(train()[0])[3]


def test_weights_that_a_users_callback_changes():
    def change(env):
        rng = np.random.default_rng(env.iteration)
        env.model.train_set.set_weight(rng.uniform(0.1, 2, N_TRAIN))

    stock, ours = (train([*split, change], fields=WEIGHTED)[0] for split in ([], [task_split()]))
    # LightGBM's metrics divide by the sum of the first weights.
    assert text(ours) == text(stock)
    assert trees(stock)[1] != trees(train(fields=WEIGHTED)[0])[1]


def test_a_users_callback_may_end_training():
    def end(env):
        if env.iteration == 4:
            raise EarlyStopException(2, env.evaluation_result_list)

    stock = assert_parity(lambda: [end])
    assert (stock.best_iteration, stock.current_iteration()) == (3, 3)


def test_another_data_set_may_be_evaluated(kept):
    def evaluate(booster):
        other = lgb.Dataset(X[::3], Y[::3] > 0, reference=booster.train_set)
        seen = booster.eval(other, "other", feval=largest)
        booster.update()
        return [*seen, booster.eval(other, "once more"), booster.eval_valid()]

    expected, found = map(evaluate, kept)
    assert found == expected


def test_data_of_other_bins_cannot_be_evaluated():
    booster, _ = train([task_split()], keep_training_booster=True)
    with pytest.raises(lgb.basic.LightGBMError, match="different bin mappers"):
        booster.eval(lgb.Dataset(X[::3] ** 3, Y[::3]), "other")


# ---- validation sets ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choose",
    [
        lambda train_set, valid: {"valid_sets": None, "valid_names": None},
        lambda train_set, valid: {"valid_sets": [valid], "valid_names": None},
        lambda train_set, valid: {"valid_sets": valid, "valid_names": "one"},
        lambda train_set, valid: {"valid_sets": [train_set], "valid_names": None},
        lambda train_set, valid: {"valid_sets": [valid, train_set], "valid_names": ["v", "t"]},
        lambda train_set, valid: {"valid_sets": [valid, valid], "valid_names": ["v", "w"]},
    ],
)
def test_choices_of_validation_sets(choose):
    def run(callbacks):
        data = datasets(weight=WEIGHT)
        return train(callbacks, data=data, params={"metric": ["l2", "l1"]}, **choose(*data))

    assert_same_training(run([task_split()]), run([]))


# ---- a booster that stays in training -------------------------------------------------------


@pytest.fixture
def kept():
    """Stock and our booster in training, of the same rounds."""
    params = {"objective": "binary", "metric": ["binary_logloss", "auc"]}
    return [
        train(split, params, 4, keep_training_booster=True)[0] for split in ([], [task_split()])
    ]


def test_a_booster_that_is_kept_goes_on(kept, tmp_path):
    def go_on(booster):
        seen = [booster.update() for _ in range(3)]
        booster.reset_parameter({"learning_rate": 0.05})
        seen.append(booster.update())
        booster.save_model(tmp_path / "model.txt")
        return [
            *seen,
            booster.eval_train(),
            booster.eval_valid(),
            booster.current_iteration(),
            booster.predict(X).tolist(),
            booster.model_to_string(),
            (tmp_path / "model.txt").read_text(),
            pickle.loads(pickle.dumps(booster)).predict(X).tolist(),
            copy.copy(booster).predict(X).tolist(),
            copy.deepcopy(booster).model_to_string(),
        ]

    expected, found = map(go_on, kept)
    assert found == expected


def test_a_booster_without_its_data_is_a_genuine_one(kept):
    stock, ours = kept
    data = weakref.ref(ours.train_set)
    assert ours.free_dataset() is ours
    assert type(ours) is lgb.Booster
    assert ours.model_to_string() == stock.model_to_string()
    assert ours.predict(X).tolist() == stock.predict(X).tolist()
    gc.collect()
    assert data() is None
    with pytest.raises(AttributeError):
        ours.update()


def test_a_pickle_needs_no_mtboost(kept):
    assert b"mtboost" not in pickle.dumps(kept[1])


def test_a_function_may_take_the_place_of_the_objective(kept):
    for booster in kept:
        booster.update(fobj=logistic)
        booster.update(fobj=logistic)
    stock, ours = kept
    assert ours.model_to_string() == stock.model_to_string()
    assert ours.eval_train(feval=largest) == stock.eval_train(feval=largest)
    with pytest.raises(lgb.basic.LightGBMError, match="null objective"):
        stock.update()
    with pytest.raises(ParameterError, match=r"update\(fobj="):
        ours.update()


def test_trees_cannot_be_changed_in_training(kept):
    for change in (
        lambda booster: booster.shuffle_models(),
        lambda booster: booster.set_leaf_output(0, 0, 1.0),
        lambda booster: booster.rollback_one_iter(),
    ):
        with pytest.raises(UnsupportedError, match="TaskSplit"):
            change(kept[1])


def test_another_data_set_cannot_be_trained_on(kept):
    with pytest.raises(DataError, match="one data set"):
        kept[1].update(train_set=datasets()[0])


def test_a_new_model_may_be_read_into_a_booster_in_training(kept):
    other, _ = train(n_rounds=2)
    stock, ours = kept
    for booster in kept:
        booster.model_from_string(other.model_to_string())
    assert type(ours) is lgb.Booster
    assert ours.model_to_string() == stock.model_to_string()


def test_memory_is_freed_once():
    # A second call of LightGBM's for the same booster would end the process.
    booster, _ = train([task_split()], keep_training_booster=True)
    growth, data = weakref.ref(booster.growth), weakref.ref(booster.train_set)
    inner = weakref.ref(booster.trained())
    copied = copy.copy(booster)
    expected = copied.predict(X).tolist()
    del booster
    gc.collect()
    assert growth() is data() is inner() is None
    assert copied.predict(X).tolist() == expected


def test_a_process_ends_well_with_boosters_in_training():
    script = """
import lightgbm, numpy
from mtboost.lightgbm import TaskSplit
X = numpy.random.default_rng(0).normal(size=(200, 3))
kept = [
    lightgbm.train(
        {"verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X, X[:, 0]), 3,
        callbacks=[TaskSplit(numpy.arange(200) % 2)], keep_training_booster=True,
    )
    for _ in range(2)
]
kept[1].predict(X)
cycle = kept
cycle.append(cycle)
"""
    assert run_script(script).stderr == ""


class BrokenError(Exception):
    pass


@pytest.mark.parametrize("error", [BrokenError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["before", "after", "objective", "metric"])
def test_an_exception_ends_training_and_frees_memory(where, error):
    watched = []

    def fail(*_):
        raise error

    def watch(env):
        if env.iteration == 1:
            watched.extend([weakref.ref(env.model), weakref.ref(env.model.growth)])
            if where == "after":
                fail()

    def before(env):
        if env.iteration == 2 and where == "before":
            fail()

    def objective(margins, data):
        return fail() if watched and where == "objective" else logistic(margins, data)

    def metric(predictions, data):
        return fail() if watched and where == "metric" else largest(predictions, data)

    before.before_iteration = True
    data = datasets("binary", init_score=SCORE[:, 0])
    with pytest.raises(error):
        train(
            [task_split(), watch, before], params={"objective": objective}, feval=metric, data=data
        )
    gc.collect()
    assert [each() for each in watched] == [None, None]
    # The data can be used again.
    params = {"objective": "binary"}
    new_data = datasets("binary", init_score=SCORE[:, 0])
    assert_same_training(train(params=params, data=data), train(params=params, data=new_data))


# ---- continuation ---------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["regression", "regression_l1", "multiclass"])
@pytest.mark.parametrize("how", ["booster", "file", "kept"])
@pytest.mark.parametrize("who", ["stock", "ours"])
def test_training_goes_on_from_a_model(tmp_path, who, how, objective):
    params = settings_of(objective)
    before = [task_split()] if who == "ours" else []
    start, _ = train(before, params=params, n_rounds=3, keep_training_booster=how == "kept")
    start.save_model(tmp_path / "model.txt")
    text_before = start.model_to_string()
    changed = {**params, "learning_rate": 0.1, "num_leaves": 5, **RATES}
    assert_parity(
        lambda: [lgb.early_stopping(2, verbose=False)],
        params=changed,
        init_model=tmp_path / "model.txt" if how == "file" else start,
        n_rounds=4,
    )
    assert start.model_to_string() == text_before, "the model that is continued stays as it was"


# ---- kinds of data --------------------------------------------------------------------------

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


# ---- sampling and threads -------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"bagging_fraction": 0.6, "bagging_freq": 1},
        {"bagging_fraction": 0.3, "bagging_freq": 3, "bagging_seed": 9},
        {"bagging_fraction": 0.9995, "bagging_freq": 1},  # the bag of all rows is the last
        {"feature_fraction": 0.5},
        {"feature_fraction": 0.1, "feature_fraction_seed": 4},
        {**RATES, "seed": 7},
        {**RATES, "data_random_seed": 7, "deterministic": True},
        {**RATES, "force_row_wise": True},
        {**RATES, "force_col_wise": True},
        {**RATES, "objective": "quantile"},
        {"objective": "binary", "pos_bagging_fraction": 0.4, "bagging_freq": 1},
        {"objective": "binary", "neg_bagging_fraction": 0.3, "bagging_freq": 2},
        # Rounds before the first sample, and a sample of all rows.
        {"data_sample_strategy": "goss", "learning_rate": 0.05},
        {"data_sample_strategy": "goss", "top_rate": 0.5, "other_rate": 0.5, "learning_rate": 0.9},
    ],
    ids=repr,
)
def test_the_same_rows_and_columns_are_drawn(params):
    def make_data():  # more rows than one of LightGBM's random streams serves
        big, y, _ = make_rows(3000, seed=5)
        is_binary = params.get("objective") == "binary"
        train_set = lgb.Dataset(big, 1.0 * (y > 0) if is_binary else y)
        return train_set, lgb.Dataset(X, 1.0 * (Y > 0) if is_binary else Y, reference=train_set)

    expected, expected_history = train(params=params, data=make_data())
    split = TaskSplit(np.arange(3000) % 3, split_score="plain")
    for n_threads in (1, 2):
        threads = {"num_threads": n_threads}
        found, history = train([split], params={**params, **threads}, data=make_data())
        assert text(found) == text(expected)
        for name, of_metrics in expected_history.items():
            for metric, values in of_metrics.items():
                # Metrics are sums of each thread's: a few of 3000 roundings.
                rtol = 0.0 if n_threads == 1 else 1e-13
                np.testing.assert_allclose(history[name][metric], values, rtol=rtol)


def test_goss_keeps_large_gradients_and_a_weighted_sample_of_others():
    rng = np.random.default_rng(0)
    given = np.stack([rng.normal(size=(1000, 2)), np.ones((1000, 2))], axis=2).astype(np.float32)
    sizes = np.abs(given[:, :, 0]).sum(axis=1)
    is_large = sizes >= np.sort(sizes)[-200]
    counts = np.zeros(1000)
    for number in range(200):
        pairs = given.copy()
        rows = sample_by_gradient(pairs, top_rate=0.2, other_rate=0.1, seed=(3, number)) > 0
        assert rows[is_large].all()
        assert rows.sum() == 200 + 100
        is_other = rows & ~is_large
        np.testing.assert_array_equal(pairs[is_other], given[is_other] * np.float32(800 / 100))
        np.testing.assert_array_equal(pairs[~is_other], given[~is_other])
        counts += rows
    # Each of the 800 others is drawn with probability 1/8: five standard deviations.
    deviation = np.sqrt(200 * 1 / 8 * 7 / 8)
    assert np.abs(counts[~is_large] - 25).max() < 5 * deviation


def test_columns_of_nodes_are_drawn_by_the_same_law():
    # One of two equal columns is seen by each root; the draws are not LightGBM's.
    x = np.random.default_rng(0).normal(size=N_TRAIN)
    data = np.column_stack([x, x])
    params = {**PARAMS, "num_leaves": 2, "feature_fraction_bynode": 0.5, "learning_rate": 0.01}
    for callbacks in ([], [TaskSplit(np.zeros(N_TRAIN), split_score="plain")]):
        booster = lgb.train(params, lgb.Dataset(data, x), 400, callbacks=callbacks)
        share = booster.feature_importance()[0] / 400
        assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(400)  # four standard deviations


# ---- scikit-learn wrappers ------------------------------------------------------------------

WRAPPERS = {
    "regressor": (lgb.LGBMRegressor, Y),
    "two classes": (lgb.LGBMClassifier, np.where(Y > 0, "yes", "no")),
    "three classes": (lgb.LGBMClassifier, np.digitize(Y, [-1, 1])),
}


def fits_a_wrapper(test):
    """Mark a test of LightGBM's estimators, whose older versions do not suit any scikit-learn."""
    if version() < (4, 6):
        return pytest.mark.skip("LightGBM 4.5 does not work with scikit-learn 1.8 and later")(test)
    for message in (
        "The argument 'eval_set' is deprecated",  # the only name that LightGBM 4.6 knows
        "X does not have valid feature names",  # LightGBM 4.6 gives columns of arrays names
    ):
        test = pytest.mark.filterwarnings(f"ignore:{message}")(test)
    return test


@fits_a_wrapper
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(("wrapper", "labels"), WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers_take_the_callback(wrapper, labels, stops):
    def fit(callbacks):
        estimator = wrapper(
            n_estimators=12, num_leaves=7, learning_rate=0.8, n_jobs=1, verbosity=-1
        )
        if stops:
            callbacks = [*callbacks, lgb.early_stopping(2, verbose=False)]
        return estimator.fit(
            X[:N_TRAIN],
            labels[:N_TRAIN],
            sample_weight=WEIGHT[:N_TRAIN],
            eval_set=[(X[:N_TRAIN], labels[:N_TRAIN]), (X[N_TRAIN:], labels[N_TRAIN:])],
            eval_sample_weight=[WEIGHT[:N_TRAIN], WEIGHT[N_TRAIN:]],
            callbacks=callbacks,
        )

    ours, stock = fit([task_split()]), fit([])
    assert_same(ours.booster_, stock.booster_)
    assert ours.evals_result_ == stock.evals_result_
    assert ours.best_iteration_ == stock.best_iteration_
    np.testing.assert_array_equal(ours.predict(X), stock.predict(X))
    np.testing.assert_array_equal(ours.feature_importances_, stock.feature_importances_)
    if wrapper is lgb.LGBMClassifier:
        np.testing.assert_array_equal(ours.predict_proba(X), stock.predict_proba(X))


@fits_a_wrapper
def test_wrappers_take_a_users_objective_and_metric():
    def squared(y, margins):
        return margins - y, np.ones_like(y)

    def bias(y, predictions):
        return "bias", float(np.mean(predictions - y)), False

    def fit(callbacks):
        estimator = lgb.LGBMRegressor(objective=squared, n_estimators=5, n_jobs=1, verbosity=-1)
        eval_set = [(X[N_TRAIN:], Y[N_TRAIN:])]
        return estimator.fit(
            X[:N_TRAIN], Y[:N_TRAIN], eval_set=eval_set, eval_metric=bias, callbacks=callbacks
        )

    ours, stock = fit([task_split()]), fit(None)
    assert ours.booster_.model_to_string() == stock.booster_.model_to_string()
    assert ours.evals_result_ == stock.evals_result_


def cloned(thing):
    return sklearn.base.clone(thing, safe=False)


def unpickled(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("make_copy", [cloned, copy.copy, copy.deepcopy, unpickled])
@pytest.mark.parametrize("score", ["plain", "entropy", "variance"])
def test_task_split_is_copied_and_pickled(make_copy, score):
    split = task_split(score)
    expected, _ = train([split], n_rounds=3)
    assert_same(train([make_copy(split)], n_rounds=3)[0], expected)


# ---- refused --------------------------------------------------------------------------------


def test_forced_splits_are_refused(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"feature": 0, "threshold": 0.0}))
    with pytest.raises(UnsupportedError, match="forcedsplits_filename=.*leave it out"):
        train([task_split()], params={"forcedsplits_filename": str(path)})


@pytest.mark.parametrize(("name", "value"), [("tree_learner", "feature"), ("device_type", "gpu")])
def test_other_learners_and_devices_are_refused(monkeypatch, name, value):
    # LightGBM itself refuses them where there is none, or falls back.
    read = library.read_parameters
    monkeypatch.setattr(library, "read_parameters", lambda booster: {**read(booster), name: value})
    with pytest.raises(UnsupportedError, match=f"{name}={value} is not supported"):
        train([task_split()])


def test_a_parameter_that_becomes_unsupported_on_the_way_is_refused():
    def change(env):
        if env.iteration == 1:
            env.model.reset_parameter({"extra_trees": True})

    with pytest.raises(UnsupportedError, match="extra_trees=1"):
        train([task_split(), change])


@pytest.mark.parametrize(
    ("objective", "label"),
    [("binary", 2), ("poisson", -1), ("gamma", -1), ("multiclass", 3), ("cross_entropy", 1.5)],
)
def test_labels_outside_the_domain_are_refused(objective, label):
    labels = np.where(np.arange(len(Y)) == 7, label, make_labels(objective))
    with pytest.raises((DataError, lgb.basic.LightGBMError), match="(?i)label|outside"):
        train([task_split()], params=settings_of(objective), data=datasets(objective, labels))


# ---- with tasks -----------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression_l1"])
@pytest.mark.parametrize("score", ["entropy", "variance"])
def test_the_number_of_threads_changes_nothing(score, objective):
    params = settings_of(objective, **RATES)

    def model(score, n_threads):
        return text(train([task_split(score)], params={**params, "num_threads": n_threads})[0])

    assert model(score, 1) == model(score, 2) != model("plain", 1)


@pytest.mark.parametrize("score", ["entropy", "variance"])
def test_the_order_of_rows_changes_nothing_if_sums_are_exact(score):
    # Labels are halves, and so are the gradients of the first round. Where a sum has to be rounded,
    # its last bits depend on the order of a task's rows.
    values, labels = np.round(np.nan_to_num(X[:N_TRAIN])), np.round(2 * Y[:N_TRAIN]) / 2

    def run(rows):
        data = lgb.Dataset(values[rows], labels[rows])
        split = TaskSplit(TASK[:N_TRAIN][rows], split_score=score)
        params = {**PARAMS, "boost_from_average": False}
        return text(lgb.train(params, data, 1, callbacks=[split]))

    order = np.random.default_rng(0).permutation(N_TRAIN)
    assert run(order) == run(np.arange(N_TRAIN))


def test_tasks_that_quit_take_no_part_in_later_rounds():
    """As going on with the rows of the other tasks alone."""
    params = {**PARAMS, "min_data_in_leaf": 5}
    train_set, valid = lgb.Dataset(X[:N_TRAIN], Y[:N_TRAIN], free_raw_data=False), None
    codes = np.searchsorted(["a", "b", "c"], TASK[:N_TRAIN])

    def leave(env):
        if env.iteration == 2:
            env.model.growth.quit(2)

    whole = lgb.train(
        params, train_set, 6, valid_sets=valid, callbacks=[task_split("entropy"), leave]
    )
    first = lgb.train(params, train_set, 3, callbacks=[task_split("entropy")])
    assert trees(whole)[:3] == trees(first)

    staying = np.flatnonzero(codes < 2)
    start = first.predict(X[:N_TRAIN], raw_score=True)[staying]
    rest_set = train_set.subset(staying).construct()
    rest_set.set_init_score(start)
    rest = lgb.train(
        params, rest_set, 3, callbacks=[TaskSplit(TASK[:N_TRAIN][staying], split_score="entropy")]
    )
    assert trees(whole)[3:] == trees(rest)


@pytest.mark.parametrize("score", ["plain", "entropy"])
@pytest.mark.parametrize("objective", ["binary", "regression_l1", "multiclass"])
def test_quitting_stopping_and_recording_together(objective, score):
    quitting = TaskQuitting("valid", TASK[N_TRAIN:], early_stopping_rounds=3)
    stopping = lgb.early_stopping(8, verbose=False)
    params = settings_of(objective, learning_rate=0.8)
    callbacks = [stopping, quitting, task_split(score)]
    booster, history = train(callbacks, params, 60, keep_training_booster=True)
    n_rounds = booster.current_iteration()
    assert n_rounds < 60
    assert len(quitting.left_after) > 0
    assert {len(values) for values in history["valid"].values()} == {n_rounds}
    assert all(len(values) == n_rounds + 1 for values in quitting.history.values())
    for task, n_left in quitting.left_after.items():
        assert n_left == quitting.quit_round[task] + 3
        history = quitting.history[task]
        assert history[quitting.quit_round[task]] == min(history[: n_left + 1])
    # Up to the first round that a task left after, as without it.
    n_common = min(quitting.left_after.values())
    alone, _ = train([task_split(score)], params=params, n_rounds=n_common + 1)
    n_trees = n_common * booster.num_model_per_iteration()
    assert trees(booster)[:n_trees] == trees(alone)[:n_trees]
    assert trees(booster)[n_trees] != trees(alone)[n_trees]


# ---- cross-validation ----------------------------------------------------------------------------


def cross_validate(callbacks, **options):
    data, params = lgb.Dataset(X, Y, weight=WEIGHT), {**PARAMS, "metric": ["l2", "l1"]}
    options = {"nfold": 3, "stratified": False, "return_cvbooster": True, **options}
    return lgb.cv(params, data, 8, callbacks=callbacks, **options)


def test_cross_validation_gives_what_lightgbm_does():
    found = cross_validate([TaskSplit(TASK, split_score="plain")], eval_train_metric=True)
    expected = cross_validate([], eval_train_metric=True)
    ours, boosters = found.pop("cvbooster"), expected.pop("cvbooster")
    assert found == expected
    assert [text(own) for own in ours.boosters] == [text(each) for each in boosters.boosters]


def test_cross_validation_gives_each_fold_the_tasks_of_its_rows():
    folds = [(np.arange(200, 600), np.arange(200)), (np.arange(400), np.arange(400, 600))]
    found = cross_validate([TaskSplit(TASK)], folds=folds)["cvbooster"].boosters
    for booster, (rows, _) in zip(found, folds, strict=True):
        data = lgb.Dataset(X, Y, weight=WEIGHT)
        alone = lgb.train(PARAMS, data.subset(rows), 8, callbacks=[TaskSplit(TASK[rows])])
        assert trees(booster) == trees(alone)
    assert trees(found[0]) != trees(found[1])


def test_early_stopping_cuts_all_folds():
    found = cross_validate([TaskSplit(TASK), lgb.early_stopping(2, verbose=False)])
    n_rounds = len(found["valid l2-mean"])
    assert n_rounds < 8
    assert {booster.best_iteration for booster in found["cvbooster"].boosters} == {n_rounds}
