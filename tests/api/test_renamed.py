# SPDX-License-Identifier: Apache-2.0
"""Old names of parameters work with a warning for one release."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone

import mtboost
from mtboost.base.renamed import renamed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0]
TASK = np.arange(60) % 2
FEW = {"num_boost_round": 3, "specific_rounds": 2, "n_threads": 1}


@renamed(old="new")
def shown(first, *, new=1):
    """Text."""
    return first, new


def test_the_old_name_warns_and_means_the_new_one():
    with pytest.warns(FutureWarning, match="old is now called new; the old name ends"):
        assert shown(5, old=2) == (5, 2)
    assert shown(5, new=3) == (5, 3)
    assert list(inspect.signature(shown).parameters) == ["first", "new"]
    assert shown.__doc__ == "Text."


def test_both_names_are_refused():
    with pytest.raises(TypeError, match="new is given twice, once by its old name old"):
        shown(5, old=2, new=3)


def test_patience_is_early_stopping_rounds(library):
    options = {"task": TASK, "backend": library.name, **FEW}
    expected = mtboost.fit(X, Y, early_stopping_rounds=1, **{"strategy": "two-stage", **options})
    with pytest.warns(FutureWarning, match="patience is now called early_stopping_rounds"):
        found = mtboost.fit(X, Y, patience=1, **{"strategy": "two-stage", **options})
    np.testing.assert_array_equal(found.predict(X, task=TASK), expected.predict(X, task=TASK))


@pytest.mark.parametrize(
    "package", [mtboost.xgboost, mtboost.lightgbm], ids=["xgboost", "lightgbm"]
)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"score": "variance"}, {"split_score": "variance"}),
        (
            {"split_score": "plain", "task_column": 0, "task_penalty": 2.0},
            {"split_score": "plain", "task_column": 0, "task_splits": 2.0},
        ),
    ],
)
def test_parameters_of_task_split_have_the_names_of_fit(package, old, new):
    with pytest.warns(FutureWarning, match="is now called"):
        found = package.TaskSplit(TASK, **old)
    expected = package.TaskSplit(TASK, **new)
    assert found.options == expected.options


@pytest.mark.parametrize("estimator", [mtboost.MultiTaskRegressor, mtboost.MultiTaskRanker])
def test_the_warning_names_the_line_of_the_call(estimator):
    with pytest.warns(FutureWarning, match="patience is now called") as found:
        estimator(patience=5)
    assert [own.filename for own in found] == [__file__]


def test_n_features_is_max_features(tmp_path):
    with pytest.warns(FutureWarning, match="n_features is now called max_features"):
        model = mtboost.PriorSamplingRegressor(2, n_features=1, random_state=0)
    assert clone(model).get_params()["max_features"] == 1
    with pytest.raises(ValueError, match="n_features"):
        model.set_params(n_features=2)
