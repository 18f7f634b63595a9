# SPDX-License-Identifier: Apache-2.0
"""Callbacks, objectives and metrics see what they see in LightGBM's own training."""

import copy
import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from lightgbm.callback import EarlyStopException
from lightgbm_training import (
    RATES,
    SCORE,
    WEIGHT,
    WEIGHTED,
    assert_parity,
    datasets,
    largest,
    logistic,
    settings_of,
    task_split,
    text,
    train,
    trees,
)
from stock_training import N_TRAIN, X, Y

# LightGBM sums metrics with the threads of the newest data set or booster that it has made.
pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


# ---- objectives and metrics of a user -------------------------------------------------------


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
