# SPDX-License-Identifier: Apache-2.0
"""Classes with names: a model of texts is the model of their numbers, and knows the names."""

import copy
from contextlib import nullcontext

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest

import mtboost
from mtboost.errors import DataError, ParameterError

NAMES = {2: ["no", "yes"], 3: ["fraud", "legal", "unsure"]}
FORMS = {
    "list": list,
    "array": lambda y: y,
    "object": lambda y: y.astype(object),
    "category": lambda y: pd.Series(pd.Categorical(y, categories=sorted(set(y))[::-1])),
    "polars": polars.Series,
    "pyarrow": lambda y: pyarrow.array(y.tolist()).dictionary_encode(),
}


def rows(n_classes):
    rng = np.random.default_rng(n_classes)
    X = pd.DataFrame(rng.normal(size=(240, 2)), columns=["a", "b"])
    numbers = np.digitize(X["a"] + 0.5 * rng.normal(size=240), [0.0, 0.8][: n_classes - 1])
    return X, numbers, np.array(NAMES[n_classes])[numbers], np.repeat(["u", "v", "w"], 80)


def options(library, task):
    return {
        "task": task,
        "strategy": "two-stage",
        "backend": library.name,
        "num_boost_round": 5,
        "specific_rounds": 3,
    }


@pytest.mark.parametrize(("form", "n_classes"), [*zip(FORMS, [2, 3, 3, 2, 3, 2], strict=True)])
def test_a_model_of_texts_is_that_of_their_numbers(library, n_classes, form, tmp_path):
    X, numbers, texts, task = rows(n_classes)
    y = FORMS[form](texts)
    own = options(library, task)
    objective = None if n_classes == 2 else library.multiclass
    expected = mtboost.fit(X, numbers, objective=objective, **own)
    model = mtboost.fit(X, y, **own)
    assert (model.objective, model.classes) == (expected.objective, tuple(NAMES[n_classes]))
    model.save(tmp_path / "model")
    for each in (model, mtboost.load_model(tmp_path / "model"), copy.deepcopy(model)):
        found = each.predict_proba(X, task=task, output="pandas")
        assert found.columns.tolist() == NAMES[n_classes]
        np.testing.assert_array_equal(found, expected.predict_proba(X, task=task))
        assert each.predict_proba(X, task=task, output="polars").columns == NAMES[n_classes]


def test_later_labels_have_names_too(library):
    X, numbers, texts, task = rows(2)
    of_texts, of_numbers = (mtboost.fit(X, y, **options(library, task)) for y in (texts, numbers))
    for name in ("evaluate", "refresh", "update"):
        found, expected = (
            getattr(model, name)(X, y, task=task)
            for model, y in ((of_texts, texts), (of_numbers, numbers))
        )
        if name == "evaluate":
            pd.testing.assert_frame_equal(found, expected)
        else:
            assert found.classes == of_texts.classes
            np.testing.assert_array_equal(
                found.predict(X, task=task), expected.predict(X, task=task)
            )
    few = {"validation_fraction": 0.2, "specific_rounds": 5}
    of_texts.add_task("new", X[:80], texts[:80], **few)
    of_numbers.add_task("new", X[:80], numbers[:80], **few)
    np.testing.assert_array_equal(*(m.predict({"new": X})["new"] for m in (of_texts, of_numbers)))
    with pytest.raises(DataError, match="y is 'maybe' at row 3, which is not a class of"):
        of_texts.evaluate(X, np.where(np.arange(240) == 3, "maybe", texts), task=task)


def test_numbers_are_refused_where_classes_have_names():
    """1 may mean either class to the user: by the order of names it is often the wrong one."""
    X, numbers, _, task = rows(2)
    model = mtboost.fit(X, np.where(numbers, "fraud", "no"), task=task, num_boost_round=3)
    calls = [
        lambda y: model.evaluate(X, y, task=task),
        lambda y: model.update(X, y, task=task),
        lambda y: model.refresh(X, y, task=task),
        lambda y: model.add_task("new", X, y),
        lambda y: mtboost.plotting.plot_calibration(model, X, y, task=task),
    ]
    for call in calls:
        for y in (numbers, numbers == 1):
            with pytest.raises(DataError, match="classes are 'fraud', 'no': give texts, the name"):
                call(y)
    with pytest.raises(DataError, match="^eval_set: y is 0 at row 0, but .* 'fraud', 'no'"):
        model.add_task("new", X, np.where(numbers, "fraud", "no"), eval_set=(X, numbers * 0))


def test_rows_of_new_tasks_in_an_update_have_names():
    X, _, texts, task = rows(3)
    known = task != "w"
    own = {"task": task[known], "strategy": "two-stage", "num_boost_round": 5}
    model = mtboost.fit(X[known], texts[known], **own)
    by_update = model.update(X[~known], texts[~known], task=task[~known])
    model.add_task("w", X[~known], texts[~known])
    assert by_update.classes == model.classes
    np.testing.assert_array_equal(*(m.predict({"w": X})["w"] for m in (by_update, model)))


def test_auto_and_tasks_that_lack_a_class():
    X, _, texts, task = rows(3)
    tables = {name: X[task == name] for name in ("u", "v", "w")}
    y = {name: texts[task == name] for name in tables}
    y["w"][:] = "legal"
    valid = (tables, {**y, "u": y["u"].tolist()})
    options = {"effort": "fast", "num_boost_round": 8, "specific_rounds": 8, "n_ensemble": 2}
    model = mtboost.fit(tables, y, eval_set=valid, **options)
    assert model.classes == ("fraud", "legal", "unsure")
    found = model.predict(tables, output="pandas")["w"]
    assert found.idxmax(axis=1).eq("legal").mean() > 0.9


@pytest.mark.parametrize(
    ("y", "arguments", "message"),
    [
        (["a", "b", None] * 80, {}, "y is 'a' at row 0 and None at row 2"),
        (["a"] * 240, {}, "y has one class only, 'a'"),
        (["a", "b", "c"] * 80, {"objective": "binary:logistic"}, "y has the classes 'a', 'b', 'c'"),
        (["a", "b"] * 120, {"objective": "reg:squarederror"}, "is not for them: leave it out"),
        (["a", "b"] * 120, {"objective": lambda m, d: None}, "is not for them"),
        (["a", "b", "c"] * 80, {"params": {"num_class": 5}}, "= 5, but y has 3 classes"),
    ],
)
def test_labels_that_are_refused(y, arguments, message):
    with pytest.raises((DataError, ParameterError), match=message):
        mtboost.fit(rows(2)[0], y, task=rows(2)[3], **arguments)


def test_integers_of_many_values_are_numbers():
    X, numbers, _, task = rows(3)
    with pytest.warns(UserWarning, match="If they are classes, give objective='multi:softprob'"):
        model = mtboost.fit(X, numbers, task=task, strategy="two-stage", num_boost_round=2)
    assert (model.objective, model.classes) == ("reg:squarederror", None)
    of_bools = mtboost.fit(X, numbers > 0, task=task, strategy="two-stage", num_boost_round=2)
    assert of_bools.objective == "binary:logistic"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([-1, 1], "All labels are -1 or 1, and .* make them 0 and 1, and give .*'binary:logistic'"),
        ([2.0, 4.0], "All labels are 2 or 4, .* if not, objective='reg:squarederror'"),
        ([0], "All labels are 0, .* classes, give objective='binary:logistic'"),
        ([False], "All labels are 0, "),
        ([0.5, 1.5], None),
        ([1.0], None),
    ],
)
def test_two_values_that_are_not_0_and_1_are_numbers_with_a_warning(values, message):
    X, _, _, task = rows(2)
    y = np.resize(values, len(X))
    quick = {"task": task, "strategy": "two-stage", "num_boost_round": 2}
    expected = nullcontext() if message is None else pytest.warns(UserWarning, match=message)
    with expected:
        assert mtboost.fit(X, y, **quick).objective == "reg:squarederror"
    mtboost.fit(X, y, objective="reg:squarederror", **quick)


def test_quantities_as_text_are_no_classes(library):
    """Whole numbers that repeat may be names of classes."""
    X, numbers, _, task = rows(3)
    own = options(library, task)
    for y in (X["a"].map("{:.3f}".format), X["a"].map("{:.1f}".format), X.index.map(str)):
        for fit in (mtboost.fit, mtboost.tune):
            with pytest.raises(DataError, match=r"numbers as text, .*by y.astype\(float\)"):
                fit(X, y, **own)
    model = mtboost.fit(X, numbers.astype(str), **own)
    assert model.classes == ("0", "1", "2")
    regressor = mtboost.MultiTaskRegressor(backend=library.name)
    with pytest.raises(DataError, match="MultiTaskClassifier is for classes"):
        regressor.fit(X, rows(2)[2], task=task)
