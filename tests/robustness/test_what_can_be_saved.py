# SPDX-License-Identifier: Apache-2.0
"""What can be trained can be saved: names, labels and parameters work, or fit refuses them."""

import datetime
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from libraries import LIBRARIES

import mtboost
from mtboost.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
N = 80
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(size=N)
IS_FIRST = np.arange(N) % 2 == 0
LONGEST = 10**4300 - 1  # that Python writes as text


def labels(first, second):
    return [first if is_first else second for is_first in IS_FIRST]


def fit(task, X=X, y=Y, **options):
    few = {"num_boost_round": 2, "specific_rounds": 2, "n_threads": 1}
    return mtboost.fit(X, y, task=task, **few, **options, strategy="two-stage")


def copy_of(model, tmp_path):
    model.save(tmp_path / "model.mtb")
    return mtboost.load_model(tmp_path / "model.mtb")


# ---- tasks ----------------------------------------------------------------------------------

NAMES = {
    "NumPy integers": (np.int64(3), np.uint8(4)),
    "NumPy strings": (np.str_("a"), np.str_("b")),
    "NumPy bools": (np.True_, np.False_),
    "whole floats": (1.0, 1e300),
    "more than 64 bits": (2**64, -(10**100)),
    "all digits there may be": (LONGEST, -LONGEST),
    "lone surrogates": ("\ud800", "\udfff"),
    "NUL characters": ("a\0", "a\0b"),
    "an empty name": ("", " "),
    "line breaks": ("a\nb", "\u2028"),
    "quotes": ('"', "\\"),
    "a very long name": ("a" * 10**6, "b"),
}


@pytest.mark.parametrize(("first", "second"), NAMES.values(), ids=NAMES)
def test_names_of_tasks_come_back(tmp_path, first, second):
    task = labels(first, second)
    for model in (fit(task), mtboost.MTExtraTreesRegressor(2).fit(X, Y, task=task)):
        names = model.tasks if hasattr(model, "tasks") else model.tasks_
        found = copy_of(model, tmp_path)
        assert (found.tasks if hasattr(found, "tasks") else found.tasks_) == names
        np.testing.assert_array_equal(found.predict(X, task=task), model.predict(X, task=task))


@pytest.mark.parametrize("name", [10**4300, -(10**5000)], ids=["large", "small"])
def test_an_integer_that_python_does_not_write_as_text_is_no_name(name):
    refused = pytest.raises(DataError, match="integer of more than 4300 digits")
    task = labels(name, 1)
    with refused:
        fit(task)
    with refused:
        fit(None, {name: X, 1: X}, y={name: Y, 1: Y})
    with refused:
        mtboost.MTExtraTreesRegressor(2).fit(X, Y, task=task)
    model = fit(labels(1, 2))
    with refused:
        model.add_task(name, X, Y)
    with refused:
        model.predict(X, task=task)


# ---- columns --------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_a_column_name_that_the_libraries_cut_off_is_refused(library):
    table = pd.DataFrame(X, columns=["a\0b", "a", "c"])
    with pytest.raises(DataError, match="'a.x00b'.*cuts them off at a NUL"):
        fit(labels(1, 2), table, backend=library.name)


# ---- labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [mtboost.MTDecisionTreeClassifier, mtboost.MTAdaBoostClassifier])
def test_classes_of_an_array_of_objects_are_numbers_or_strings(tmp_path, make):
    days = np.array(labels("2020-01-01", "2021-01-01"), "datetime64[D]")
    model = make().fit(X, days)
    found = copy_of(model, tmp_path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    objects = np.array(labels(*map(np.datetime64, ("2020-01-01", "2021-01-01"))), object)
    with pytest.raises(DataError, match=r"label datetime.date.*datetime64, or as strings"):
        make().fit(X, objects)
    with pytest.raises(DataError, match="label datetime.date"):
        make().fit(X, np.array(labels(np.datetime64("2020-01-01"), "a"), object))
    assert isinstance(model.classes_[0].item(), datetime.date)


# ---- parameters -----------------------------------------------------------------------------

ESTIMATORS = {
    "forest": (mtboost.MTExtraTreesRegressor, "bootstrap"),
    "projected forest": (mtboost.ProjectedForestRegressor, "shared"),
    "boosting": (mtboost.ProjectedBoostingRegressor, "shared"),
    "prior sampling": (mtboost.PriorSamplingRegressor, "dynamic"),
}


@pytest.mark.parametrize(("make", "name"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_a_parameter_that_cannot_be_saved_is_refused_by_fit(make, name):
    for value in (lambda: True, np.random.default_rng(0), {1: 2.0}, 10**5000):
        with pytest.raises(
            ParameterError, match=rf"^{name} (must be True or False, found|is of type .*save)"
        ):
            make(n_estimators=2, **{name: value}).fit(X, Y)


def test_a_fraction_is_saved_as_a_number(tmp_path):
    task = labels("a", "b")
    forest = mtboost.MTExtraTreesRegressor(2, task_split_prob=Fraction(1, 2), random_state=0)
    found = copy_of(forest.fit(X, Y, task=task), tmp_path)
    assert (type(found.task_split_prob), found.task_split_prob) == (float, 0.5)
    np.testing.assert_array_equal(found.predict(X, task=task), forest.predict(X, task=task))


def test_a_function_that_scores_is_left_out_with_a_warning(tmp_path):
    def score(estimator, X, y):
        return 0.0

    model = mtboost.PriorSamplingRegressor(3, scoring=score, early_stopping_rounds=2).fit(X, Y)
    with pytest.warns(UserWarning, match="scoring is a function.*scoring='loss'"):
        model.save(tmp_path / "model.mtb")
    found = mtboost.load_model(tmp_path / "model.mtb")
    assert (found.scoring, model.scoring) == ("loss", score)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.save(tmp_path / "model.mtb")


OF_NUMPY = {
    "xgboost": {
        "max_bin": np.int32(32),
        "huber_slope": np.float32(0.4),
        "objective": "reg:pseudohubererror",
        "monotone_constraints": np.array([0, 1, 0]),
        "interaction_constraints": [{"f0", "f1"}, ("f1", "f2")],
    },
    "lightgbm": {
        "num_leaves": np.int64(4),
        "learning_rate": np.float32(0.3),
        "alpha": np.float32(0.4),
        "objective": "huber",
        "monotone_constraints": (np.int64(0), np.int64(1), np.int64(0)),
    },
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_parameters_of_numpy_and_sets_come_back(library, tmp_path):
    """Changes of the model use them; without, even the loss was not that of training."""
    params, task = dict(OF_NUMPY[library]), labels("a", "b")
    options = {"backend": library, "objective": params.pop("objective"), "split_score": "plain"}
    table = pd.DataFrame(X, columns=["f0", "f1", "f2"])
    model = fit(task, table, params=params, **options)
    found = copy_of(model, tmp_path)
    assert found.params.keys() == model.params.keys() >= params.keys()
    few = {"validation_fraction": 0.0, "n_threads": 1}
    for change in (
        lambda model: model.update(table, Y, task=task, rounds=3, **few),
        lambda model: model.replace_task("a", table[IS_FIRST], Y[IS_FIRST], n_threads=1),
    ):
        before, after = (change(each).predict(table, task=task) for each in (model, found))
        np.testing.assert_array_equal(after, before)
