# SPDX-License-Identifier: Apache-2.0
"""A model that was trained with base margins asks for those of other rows."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import mtboost

N_ROWS = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 2))
TASK = np.resize(["a", "b"], N_ROWS)
START = RNG.normal(size=N_ROWS)
CLASSES = (X[:, 0] + START > 0.0).astype(int)
OPTIONS = {"task": TASK, "strategy": "two-stage", "num_boost_round": 3}
OBJECTIVES = {"xgboost": "binary:logistic", "lightgbm": "binary"}
METHODS = ["predict", "predict_proba", "predict_margin", "evaluate", "update", "refresh"]


def call(model, method, start):
    if method == "add_task":
        model.add_task("c", X, CLASSES, base_margin=start)
        return
    labels = () if method.startswith("predict") else (CLASSES,)
    getattr(model, method)(X, *labels, task=TASK, base_margin=start)


@pytest.mark.parametrize("start", [START, np.zeros(N_ROWS), None], ids=["own", "zeros", "none"])
@pytest.mark.parametrize("method", [*METHODS, "add_task"])
def test_a_call_without_base_margin_warns_once(library, method, start, tmp_path):
    options = {"objective": OBJECTIVES[library.name], "backend": library.name, **OPTIONS}
    mtboost.fit(X, CLASSES, base_margin=START, **options).save(tmp_path / "model")
    model = mtboost.load_model(tmp_path / "model")
    assert model.has_base_margin
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(model, method, start)
    texts = [
        str(own.message) for own in found if "was trained with base_margin" in str(own.message)
    ]
    assert len(texts) == (start is None)


def test_models_that_are_made_of_others_warn_as_they_do():
    models = [mtboost.fit(X, CLASSES, base_margin=start, **OPTIONS) for start in (START, None)]
    of_both = mtboost.average_models(models)
    updated = models[0].update(X, CLASSES, task=TASK, base_margin=START, rounds=2)
    for model, warns in ((models[1], False), (of_both, True), (updated, True)):
        assert model.has_base_margin is warns
        with pytest.warns(UserWarning, match="base_margin") if warns else nullcontext():
            model.predict(X, task=TASK)


def test_estimators_warn_where_their_models_do():
    estimator = mtboost.MultiTaskClassifier(strategy="two-stage", n_estimators=3)
    estimator.fit(X, CLASSES, task=TASK, base_margin=START)
    with pytest.warns(UserWarning, match="was trained with base_margin"):
        estimator.score(X, CLASSES, task=TASK)
