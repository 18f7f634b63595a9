# SPDX-License-Identifier: Apache-2.0
"""Tables without rows: predictions are empty arrays; fit and evaluate refuse them."""

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse

import mtboost
from mtboost.errors import DataError

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(240, 3)), columns=["a", "b", "c"])
TASK = np.resize(["u", "v", "w"], 240)
Y = X["a"] + (TASK == "v") * X["b"]
LABELS = {"numbers": Y, "classes": np.digitize(Y, [-0.5, 0.5]), "pairs": {"p": Y, "q": -Y}}


def fitted(library, kind, **options):
    y = pd.DataFrame(LABELS[kind]) if kind == "pairs" else LABELS[kind]
    options |= {"objective": library.multiclass} if kind == "classes" else {}
    options |= {} if kind == "pairs" else {"task": TASK}
    return mtboost.fit(
        X, y, strategy="two-stage", num_boost_round=4, backend=library.name, **options
    )


@pytest.mark.parametrize("kind", LABELS)
def test_predictions_of_no_rows_are_empty_arrays_of_the_usual_shape(library, kind):
    model = fitted(library, kind, intervals=kind != "classes")
    names = ["predict", "predict_margin", "contributions"]
    names.append("predict_proba" if kind == "classes" else "predict_interval")
    for name in names:
        call = getattr(model, name)
        task = {} if kind == "pairs" else {"task": TASK[:3]}
        none = {} if kind == "pairs" else {"task": TASK[:0]}
        expected, found = call(X[:3], **task), call(X[:0], **none)
        assert (found.shape, found.dtype) == ((0, *expected.shape[1:]), expected.dtype)
        if kind != "pairs":
            by_task = call({"u": X[:0], "v": X[TASK == "v"]})
            assert by_task["u"].shape == found.shape
            np.testing.assert_array_equal(
                by_task["v"], call(X[TASK == "v"], task=TASK[TASK == "v"])
            )
    frame = model.predict(X[:0], **none, output="pandas")
    assert frame.shape == model.predict(X[:0], **none).shape


def test_tasks_of_a_column_and_mixed_objectives(library):
    rows, binary = X.assign(task=TASK), library.own("binary:logistic")
    objective = {"u": library.squared_error, "v": binary, "w": binary}
    y = np.where(TASK == "u", Y, Y > 0)
    options = {"strategy": "two-stage", "num_boost_round": 4, "backend": library.name}
    model = mtboost.fit(rows, y, task="task", objective=objective, **options)
    for table in (rows[:0], polars.from_pandas(rows[:0]), pd.DataFrame(columns=rows.columns)):
        assert model.predict(table).shape == (0,)
        assert model.predict_proba(table).shape == (0, 2)
    assert model.predict_proba({"v": X[:0]})["v"].shape == (0, 2)
    with pytest.raises(DataError, match="X lacks column 'a' of the model"):
        model.predict(rows[:0].drop(columns="a"))


def test_arrays_without_rows(library):
    options = {"strategy": "two-stage", "num_boost_round": 4, "backend": library.name}
    model = mtboost.fit(X.to_numpy(), Y, task=TASK, **options)
    for table in (X.to_numpy(), scipy.sparse.csr_array(X.to_numpy())):
        assert model.predict(table[:0], task=[]).shape == (0,)
    with pytest.raises(DataError, match="X has 2 columns, but the model was trained on 3"):
        model.predict(X.to_numpy()[:0, :2], task=[])


def test_fit_and_changes_and_evaluation_need_rows(library):
    model = fitted(library, "numbers")
    calls = [
        lambda: mtboost.fit(X[:0], Y[:0], task=TASK[:0]),
        lambda: mtboost.fit({"u": X[:0], "v": X}, {"u": Y[:0], "v": Y}),
        lambda: model.evaluate(X[:0], Y[:0], task=TASK[:0]),
        lambda: model.evaluate({"u": X[:0], "v": X}, {"u": Y[:0], "v": Y}),
        lambda: model.update(X[:0], Y[:0], task=TASK[:0]),
        lambda: model.refresh(X[:0], Y[:0], task=TASK[:0]),
        lambda: model.importance("u", X=X[:0]),
    ]
    for call in calls:
        with pytest.raises(DataError, match="has no rows"):
            call()
