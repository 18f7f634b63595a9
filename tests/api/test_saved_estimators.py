# SPDX-License-Identifier: Apache-2.0
"""Files of the estimators of related tasks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mtboost
from mtboost.errors import ModelFormatError

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(120, 2)), columns=["x", "objects"])
FRAME["shop"] = np.tile(["a", "b"], 60)
Y = FRAME["x"].to_numpy() + (FRAME["shop"] == "b")
OPTIONS = {"task": "shop", "strategy": "two-stage", "n_estimators": 5, "random_state": 0}


@pytest.mark.parametrize("classes", [None, ["no", "yes"], [3, 7, 9]])
def test_a_loaded_estimator_predicts_the_same_and_can_be_fitted_again(library, classes, tmp_path):
    options = {**OPTIONS, "backend": library.name}
    if classes is None:
        estimator, y = mtboost.MultiTaskRegressor(**options), Y
    else:
        estimator = mtboost.MultiTaskClassifier(**options)
        y = np.array(classes)[np.digitize(Y, [0.0, 1.0][: len(classes) - 1])]
    estimator.fit(FRAME, y)
    estimator.save(tmp_path / "estimator")
    found = mtboost.load_model(tmp_path / "estimator")
    assert type(found) is type(estimator)
    assert found.get_params() == estimator.get_params()
    np.testing.assert_array_equal(found.predict(FRAME), estimator.predict(FRAME))
    np.testing.assert_array_equal(found.feature_importances_, estimator.feature_importances_)
    np.testing.assert_array_equal(found.feature_names_in_, estimator.feature_names_in_)
    assert found.tasks_ == estimator.tasks_
    assert found.score(FRAME, y) == estimator.score(FRAME, y)
    again = clone(found).fit(FRAME, y)
    np.testing.assert_array_equal(again.predict(FRAME), estimator.predict(FRAME))


def test_what_a_file_cannot_hold_is_named(tmp_path):
    with pytest.raises(NotFittedError):
        mtboost.MultiTaskRegressor().save(tmp_path / "file")
    metric = mtboost.metrics.Metric("own", lambda y, p, sample_weight=None: 0.0, True)
    estimator = mtboost.MultiTaskRegressor(eval_metric=metric, **OPTIONS).fit(FRAME, Y)
    with pytest.raises(ModelFormatError, match="eval_metric holds a Metric"):
        estimator.save(tmp_path / "file")
    assert not (tmp_path / "file").exists()
