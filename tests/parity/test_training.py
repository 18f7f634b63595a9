# SPDX-License-Identifier: Apache-2.0
"""Training with TaskSplit in either library: what stays the library's, and what is refused.

What is peculiar to one of them: test_xgboost_training.py, test_lightgbm_training.py and the like.
"""

import numpy as np
import pytest
from stock_training import LIGHTGBM, N_TRAIN, TASK, XGBOOST, Y, make_labels

from mtboost.errors import DataError, ParameterError, TrainingError, UnsupportedError
from mtboost.lightgbm.library import version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")
TRAININGS = {training.library.name: training for training in (XGBOOST, LIGHTGBM)}


@pytest.fixture(params=TRAININGS.values(), ids=TRAININGS)
def training(request):
    return request.param


def test_stock_training_goes_on_from_our_model(training):
    found, expected = (
        training.train(**{training.first_model: training.train(split, n_rounds=3)[0]}, n_rounds=3)
        for split in ([training.task_split()], [])
    )
    training.assert_same_training(found, expected)


@pytest.mark.parametrize("score", ["plain", "entropy"])
def test_one_callback_and_one_matrix_train_twice(training, score):
    split, data = training.task_split(score), training.data()
    training.assert_same_training(*(training.train([split], data=data) for _ in range(2)))


# ---- refused -------------------------------------------------------------------------------------

REFUSED_WITH_XGBOOST = {
    "dart": ({"booster": "dart", "rate_drop": 0.1}, "dart.*use booster='gbtree'"),
    "gblinear": ({"booster": "gblinear"}, "booster='gblinear'.*use booster='gbtree'"),
    "update": ({"process_type": "update", "updater": "refresh"}, "updater='refresh'"),
    "forest": ({"num_parallel_tree": 3}, "num_parallel_tree.*use 1"),
    "no limit of size": ({"max_depth": 0}, "max_depth=0.*max_leaves=0.*set one"),
}
REFUSED_WITH_LIGHTGBM = {
    "dart": ({"boosting": "dart"}, "boosting=dart.*boosting='gbdt'"),
    "rf": (
        {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
        "boosting=rf.*boosting='gbdt'",
    ),
    "by query": pytest.param(
        {"bagging_by_query": True},
        "bagging_by_query=1.*bagging_fraction",
        marks=pytest.mark.skipif(version() < (4, 6), reason="LightGBM 4.6 brought it"),
    ),
    "extra trees": ({"extra_trees": True}, "extra_trees=1.*leave it False"),
    "monotone method": (
        {"monotone_constraints": [1, 0, 0, 0, 0], "monotone_constraints_method": "advanced"},
        "monotone_constraints_method=advanced.*'basic'",
    ),
    "cost": ({"cegb_tradeoff": 2.0, "cegb_penalty_split": 0.1}, "cegb_tradeoff=2.*leave it out"),
    "cost of a split": ({"cegb_penalty_split": 0.1}, "cegb_penalty_split=0.1.*leave it out"),
    "cost of a feature": (
        {"cegb_penalty_feature_coupled": [1, 0, 0, 0, 0]},
        "cegb_penalty_feature_coupled=.*leave it out",
    ),
    "lazy cost": (
        {"cegb_penalty_feature_lazy": [1, 0, 0, 0, 0]},
        "cegb_penalty_feature_lazy=.*leave it out",
    ),
    "quantised": ({"use_quantized_grad": True}, "use_quantized_grad=1.*leave it False"),
    "linear": ({"linear_tree": True}, "linear_tree=1.*leave it False"),
    "objective": (
        {"objective": "cross_entropy_lambda"},
        "objective='cross_entropy_lambda'.*own is",
    ),
    "root": ({"reg_sqrt": True}, "reg_sqrt=True.*square what is predicted"),
    "no objective": ({"objective": "none"}, "objective='custom'.*own is"),
}


class Rounds(list):
    """Rounds that a callback of the user's has seen."""

    def callback(self, training):
        return training.library.callback(self.append)


def assert_refused_before_training(training, error, message, callbacks, params=None, **options):
    """Whatever the place of a user's callback, which sees no round."""
    for place in (0, len(callbacks)):
        rounds = Rounds()
        given = [*callbacks[:place], rounds.callback(training), *callbacks[place:]]
        with pytest.raises(error, match=message):
            training.train(given, params, **options)
        assert rounds == []


@pytest.mark.parametrize(
    ("params", "message"), REFUSED_WITH_XGBOOST.values(), ids=REFUSED_WITH_XGBOOST
)
def test_trees_only_xgboost_grows_are_refused_before_training(params, message):
    params = {"verbosity": 0, **params}
    split = XGBOOST.task_split()
    assert_refused_before_training(XGBOOST, UnsupportedError, message, [split], params)


@pytest.mark.parametrize(
    "params",
    [
        {"tree_method": "exact"},
        {"tree_method": "approx"},
        {"updater": "grow_colmaker,prune"},
        {"multi_strategy": "multi_output_tree"},
    ],
    ids=lambda params: next(iter(params.values())),
)
def test_scores_over_tasks_are_refused_with_trees_only_xgboost_grows(params):
    split = XGBOOST.task_split("entropy")
    (name, value), *_ = params.items()
    message = f"split_score='entropy' needs .*{name}='{value}' the library grows them"
    assert_refused_before_training(
        XGBOOST, UnsupportedError, message, [split], {"verbosity": 0, **params}
    )


@pytest.mark.parametrize(
    ("params", "message"), REFUSED_WITH_LIGHTGBM.values(), ids=REFUSED_WITH_LIGHTGBM
)
def test_trees_only_lightgbm_grows_are_refused_before_training(params, message):
    labels = make_labels("cross_entropy") if "lambda" in message else None
    data = LIGHTGBM.data(params.get("objective", ""), labels)
    split = LIGHTGBM.task_split()
    assert_refused_before_training(LIGHTGBM, UnsupportedError, message, [split], params, data=data)


def test_another_number_of_task_labels_is_refused_before_the_first_tree(training):
    split = training.library.plugin.TaskSplit(TASK[:7])
    message = rf"7 task labels.*{N_TRAIN} rows"
    assert_refused_before_training(training, DataError, message, [split])


def test_two_task_splits_are_refused(training):
    splits = [training.task_split(), training.task_split()]
    message = "one TaskSplit, not two"
    assert_refused_before_training(training, UnsupportedError, message, splits)


def test_an_unknown_score_is_refused_when_it_is_named(training):
    with pytest.raises(ParameterError, match="entropi"):
        training.library.plugin.TaskSplit(TASK, split_score="entropi")


WRONG_GRADIENTS = {
    "not finite": (TrainingError, "round 0.* row 7", np.where(np.arange(N_TRAIN) == 7, np.inf, 1)),
    "too short": (DataError, rf"\(5,\).*\({N_TRAIN},\)", np.ones(5)),
    "two columns": (DataError, rf"\({N_TRAIN}, 2\).*\({N_TRAIN},\)", np.ones((N_TRAIN, 2))),
}


@pytest.mark.parametrize(
    ("error", "message", "gradient"), WRONG_GRADIENTS.values(), ids=WRONG_GRADIENTS
)
def test_unusable_gradients_are_refused(training, error, message, gradient):
    options = training.by(lambda margins, data: (gradient, np.ones(N_TRAIN)))
    with pytest.raises(error, match=message):
        training.train([training.task_split()], **options)


def test_margins_that_lead_to_no_gradient_are_refused(training):
    objective = training.library.own("count:poisson")
    margins = np.where(np.arange(len(Y)) == 7, 1e4, 0.0)  # whose exponential is infinite
    data = training.data(objective, **{training.start: margins})
    with pytest.raises(TrainingError, match=f"Round 0: the gradient of {objective}.*row 7"):
        training.train([training.task_split()], {"objective": objective}, data=data)


def test_a_refused_training_leaves_the_data_usable(training):
    data = training.data()
    with pytest.raises(DataError, match="task labels"):
        training.train([training.library.plugin.TaskSplit(TASK)], data=data)
    training.assert_same(training.train(data=data)[0], training.train()[0])
