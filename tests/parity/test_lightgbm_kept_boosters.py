# SPDX-License-Identifier: Apache-2.0
"""A booster that stays in training goes on, is evaluated and is freed like LightGBM's own."""

import copy
import gc
import pickle
import weakref

import lightgbm as lgb
import pytest
from lightgbm_training import (
    SCORE,
    assert_same_training,
    datasets,
    largest,
    logistic,
    task_split,
    train,
)
from processes import run_script
from stock_training import X, Y

from mtboost.errors import DataError, ParameterError, UnsupportedError

# LightGBM sums metrics with the threads of the newest data set or booster that it has made.
pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


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
