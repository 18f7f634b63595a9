# SPDX-License-Identifier: Apache-2.0
"""Validation rows by time and by splitters, and validation rows of tasks without training rows."""

import datetime

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from sklearn.model_selection import KFold, LeaveOneGroupOut, ShuffleSplit, cross_validate

import mtboost
from mtboost import Dataset
from mtboost.base.times import split_time
from mtboost.base.validation import hold_out_last, split_by
from mtboost.errors import DataError, ParameterError, ParameterTypeError

TWO_STAGE = {"strategy": "two-stage", "num_boost_round": 8, "early_stopping_rounds": 3}


def table(n_rows=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    task = np.array(["a", "b"])[rng.integers(0, 2, n_rows)]
    return X, X[:, 0] + (task == "b") * X[:, 1] + 0.3 * rng.normal(size=n_rows), task


def test_the_last_rows_of_each_task_are_held_out():
    X, _, task = table()
    times = np.random.default_rng(1).permutation(240)
    train, valid = hold_out_last(Dataset(X, times.astype(float), task=task), 0.25, times)
    for name in "ab":
        own = np.sort(times[task == name])
        n_valid = round(0.25 * len(own))
        last, first = (np.sort(part.y[part.tasks.rows(name)]) for part in (valid, train))
        np.testing.assert_array_equal(last, own[-n_valid:])
        np.testing.assert_array_equal(first, own[:-n_valid])


def test_rows_of_one_time_stay_together_at_the_nearest_boundary():
    months = np.repeat([1, 2, 3, 4], [40, 30, 20, 10])
    data = Dataset(np.zeros((100, 1)), months.astype(float))
    for fraction, first in ((0.1, 4), (0.19, 4), (0.21, 3), (0.9, 2)):
        assert hold_out_last(data, fraction, months)[1].y.min() == first
    assert hold_out_last(data, 0.3, np.zeros(100, int))[1] is None


def test_fit_is_judged_by_the_rows_that_come_last(library):
    X, y, task = table()
    day = np.random.default_rng(2).permutation(240)
    is_last = np.zeros(240, bool)
    for name in "ab":
        rows = np.flatnonzero(task == name)
        is_last[rows[np.argsort(day[rows])[-round(0.2 * len(rows)) :]]] = True
    options = {**TWO_STAGE, "backend": library.name, "refit": False}
    by_time = mtboost.fit(X, y, task=task, validation="last", time=day, **options)
    valid = (X[is_last], y[is_last], task[is_last])
    by_hand = mtboost.fit(X[~is_last], y[~is_last], task=task[~is_last], eval_set=valid, **options)
    np.testing.assert_array_equal(by_time.predict(X, task=task), by_hand.predict(X, task=task))


@pytest.mark.parametrize(
    ("effort", "n_rows", "n_valid"),
    [
        ("fast", 1500, 1500),
        ("fast", 2000, 400),
        ("balanced", 2500, 2000),
        ("balanced", 6000, 2400),
        ("thorough", 9990, 3996),
        ("balanced", 10_000, 2000),
    ],
)
def test_the_search_holds_out_fifths_until_two_thousand_rows_are(effort, n_rows, n_valid):
    X, y, _ = table(n_rows)
    task = np.arange(n_rows) % 2
    options = {"effort": effort, "num_boost_round": 2, "params": {"max_depth": 1}, "n_threads": 1}
    model = mtboost.fit(X, y, task=task, **options)
    assert model.report()["valid_rows"].sum() == n_valid
    once = mtboost.fit(X, y, task=task, validation_fraction=0.2, **options)
    assert once.report()["valid_rows"].sum() == n_rows / 5


def test_the_search_with_few_rows_holds_out_the_last_ones_once():
    X, y, task = table(120)
    model = mtboost.fit(
        X, y, task=task, validation="last", time=np.arange(120), effort="fast", num_boost_round=20
    )
    report = model.report()
    assert (report["rows"] + report["valid_rows"]).sum() == 120
    assert report["valid_rows"].sum() == pytest.approx(0.2 * 120, abs=1)


def frames(X, task, time):
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(task=task, time=time)
    arrow = pyarrow.Table.from_pandas(frame.assign(task=frame["task"].astype("category")))
    return {"pandas": frame, "polars": polars.from_pandas(frame), "pyarrow": arrow}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_the_time_may_be_a_column_of_dates_which_is_no_feature(kind):
    X, y, task = table()
    day = np.random.default_rng(2).permutation(240)
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")
    frame = frames(X, task, dates)[kind]
    rest, times = split_time(frame, "time")
    np.testing.assert_array_equal(times, day)
    assert "time" not in (rest.column_names if kind == "pyarrow" else rest.columns)
    if kind != "pandas":
        return
    model = mtboost.fit(frame, y, task="task", validation="last", time="time", **TWO_STAGE)
    by_array = mtboost.fit(X, y, task=task, validation="last", time=day, **TWO_STAGE)
    assert model.common_columns.names == ("u", "v", "w")
    np.testing.assert_array_equal(model.predict(frame), by_array.predict(X, task=task))


def test_ordered_categories_are_times_in_their_order():
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun"]
    X, _, _ = table()
    codes = np.random.default_rng(3).integers(0, 6, 240)
    when = pd.Categorical.from_codes(codes, months, ordered=True)
    series = polars.Series(np.array(months)[codes], dtype=polars.Enum(months))
    for time in (when, pd.Series(when), series):
        np.testing.assert_array_equal(split_time(X, time)[1], codes)
    frame = pd.DataFrame({"x": X[:, 0], "month": when})
    np.testing.assert_array_equal(split_time(frame, "month")[1], codes)
    when[7] = None
    with pytest.raises(DataError, match="time is missing at row 7"):
        split_time(X, when)


def test_tables_by_task_have_their_times_by_task():
    X, y, task = table()
    day = np.random.default_rng(2).permutation(240)
    by_task = [{n: part[task == n] for n in "ab"} for part in (X, y, day)]
    model = mtboost.fit(*by_task[:2], validation="last", time=by_task[2], **TWO_STAGE)
    together = mtboost.fit(X, y, task=task, validation="last", time=day, **TWO_STAGE)
    assert model.report()["valid_rows"].to_dict() == together.report()["valid_rows"].to_dict()
    np.testing.assert_allclose(
        model.predict(by_task[0])["a"], together.predict(X, task=task)[task == "a"], rtol=1e-5
    )


def test_a_splitter_names_the_rows_to_judge_by():
    X, y, task = table()
    splitter = ShuffleSplit(n_splits=1, test_size=0.3, random_state=0)
    model = mtboost.fit(X, y, task=task, validation=splitter, **TWO_STAGE)
    assert model.report()["valid_rows"].sum() == 72
    by_fold = mtboost.fit(X, y, task=task, validation=KFold(3), effort="fast", num_boost_round=10)
    assert by_fold.report()["valid_rows"].sum() == 240


@pytest.mark.parametrize("strategy", ["auto", "two-stage"])
def test_times_that_are_the_same_hold_out_nothing(strategy):
    X, y, task = table()
    options = {"task": task, "validation": "last", "strategy": strategy}
    for time in (np.zeros(240), task == "b"):
        with pytest.raises(DataError, match="in each task the time of all rows is the same"):
            mtboost.fit(X, y, time=time, **options)


def test_tasks_without_later_rows_are_judged_by_those_of_others():
    X, y, task = table()
    day = np.where(task == "a", np.arange(240), 7)
    model = mtboost.fit(X, y, task=task, validation="last", time=day, **TWO_STAGE)
    assert model.report()["valid_rows"].gt(0).to_dict() == {"a": True, "b": False}
    alone = mtboost.fit(X, y, validation="last", time=np.zeros(240), **TWO_STAGE)
    assert alone.report()["valid_rows"].sum() == 0  # a single task holds out nothing by default


def test_masks_are_the_rows_where_they_are_true():
    X, y, task = table()
    is_valid = np.arange(240) % 4 == 0
    masks = (~is_valid, pd.Series(is_valid, index=np.arange(240)[::-1]))
    by_number = (np.flatnonzero(~is_valid), np.flatnonzero(is_valid).tolist())
    models = [
        mtboost.fit(X, y, task=task, validation=[pair], **TWO_STAGE, refit=False)
        for pair in (masks, by_number)
    ]
    of_masks, of_numbers = (model.report() for model in models)
    assert (of_masks["rows"].sum(), of_masks["valid_rows"].sum()) == (180, 60)
    pd.testing.assert_frame_equal(of_masks, of_numbers)


def test_masks_of_rows_with_several_labels():
    X, y, _ = table()
    labels = pd.DataFrame({"u": y, "v": np.where(np.arange(240) % 3 == 0, np.nan, -y)})
    is_valid = np.arange(240) % 4 == 0
    split = split_by(Dataset(X, labels), [(~is_valid, is_valid)], False)
    assert [part.n_rows for part in split.pairs[0]] == [180 + 120, 60 + 40]
    unknown = labels.assign(u=labels["u"].where(~is_valid), v=labels["v"].where(~is_valid))
    with pytest.raises(DataError, match="no row of the validation part of split 0 has a known"):
        split_by(Dataset(X, unknown), [(~is_valid, is_valid)], False)


FIRST, LAST = np.arange(200), np.arange(200, 240)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ([], "gives no split"),
        ([(FIRST, np.arange(190, 240))], "split 0 has rows 190, 191.* in both parts"),
        ([(FIRST, LAST), (FIRST, [200, 200])], "validation part of split 1 has row 200 more than"),
        ([(FIRST, [])], "the validation part of split 0 has no rows"),
        ([(np.zeros(240, bool), LAST)], "the training part of split 0 has no rows"),
        ([(FIRST, np.ones(40, bool))], "mask of 40 values, but there are 240 rows"),
        ([(FIRST, [240])], "has row 240, but rows are numbered from 0 to 239"),
        ([(FIRST, [-1])], "has row -1, but"),
        ([(FIRST, LAST.astype(float))], "values of type float64"),
        ([(FIRST, ["a"])], "values of type <U1"),
        ([(FIRST, [LAST])], r"has shape \(1, 40\)"),
        ((FIRST, LAST), r"pass a list of splits.*validation=\[\(train, valid\)\]"),
        (([0, 1], [2, 3]), "split 0 is not a pair"),
        ([FIRST, LAST], "split 0 is not a pair"),
        ([(FIRST, LAST, LAST)], "split 0 is not a pair"),
        ([5], "split 0 is not a pair"),
    ],
)
def test_rows_that_cannot_be_held_out_are_refused(validation, message):
    X, y, task = table()
    with pytest.raises(DataError, match=f"(?i){message}"):
        mtboost.fit(X, y, task=task, validation=validation)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (5, r"found 5\. For 5 folds pass KFold\(5, shuffle=True\)"),
        (0.3, r"found 0\.3\. For a fraction of the rows pass validation_fraction=0\.3"),
        (None, "a list of pairs .* found None"),
        (True, "found True"),
        ({"a": 1}, "a splitter of scikit-learn, or a list"),
        (lambda X: X, "found <function"),
        (KFold, r"Pass an instance: KFold\(\)"),
        (np.arange(240) < 200, r"Pass \[\(train, valid\)\]"),
        (pd.Series(np.arange(240) < 200), r"Pass \[\(train, valid\)\]"),
    ],
)
def test_validation_of_another_type_is_refused(validation, message):
    X, y, task = table()
    with pytest.raises(ParameterTypeError, match=f"validation must be 'random', .*{message}"):
        mtboost.fit(X, y, task=task, validation=validation)
    if not isinstance(validation, np.ndarray | pd.Series):
        with pytest.raises(ParameterTypeError, match=message):
            mtboost.MultiTaskRegressor(task=2, validation=validation).fit(X, y)


@pytest.mark.parametrize("labels", ["numbers", "texts"])
def test_eval_sets_that_are_no_tuple_are_refused(labels):
    X, y, task = table()
    if labels == "texts":
        y = np.where(y > 0, "yes", "no")
    estimator = mtboost.MultiTaskRegressor if labels == "numbers" else mtboost.MultiTaskClassifier
    numbers = (y == "yes") if labels == "texts" else y
    for eval_set, message in (
        (Dataset(X, numbers, task=task), r"Dataset: pass eval_set=\(X, y, task\)"),
        (X, "ndarray: pass"),
        ({"X": X, "y": y}, "dict: pass"),
        ([(X, y, task)], "list of 1 tuples: there is one set .* Pass eval_set="),
        ([(X, y, task), (X, y, task)], "list of 2 tuples"),
    ):
        with pytest.raises(ParameterTypeError, match=f"eval_set is a {message}"):
            mtboost.fit(X, y, task=task, eval_set=eval_set)
        with pytest.raises(ParameterTypeError, match="eval_set is a"):
            estimator().fit(X, y, task=task, eval_set=eval_set)


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame])
def test_changes_of_a_model_take_a_tuple_of_validation_rows(form):
    X, y, task = table()
    X = form(X)
    model = mtboost.fit(X, y, task=task, **TWO_STAGE, validation_fraction=0.0)
    with pytest.raises(ParameterTypeError, match=r"is a Dataset: pass eval_set=\(X, y\)"):
        model.add_task("c", X, y, eval_set=Dataset(X, y))
    with pytest.raises(ParameterTypeError, match=r"is a Dataset: pass eval_set=\(X, y, task\)"):
        model.update(X, y, task=task, eval_set=Dataset(X, y, task=task))


def test_a_splitter_that_validates_on_training_rows_is_refused():
    class Careless:
        def split(self, X, y, groups):
            yield np.arange(len(X)), np.arange(len(X)) % 2 == 0

    X, y, task = table()
    with pytest.raises(DataError, match="in both parts"):
        mtboost.fit(X, y, task=task, validation=Careless())


def test_wrong_times_and_splitters_are_refused():
    X, y, task = table()
    of_a = np.flatnonzero(task == "a")
    for error, text, options in (
        (ParameterError, "pass time=", {"validation": "last"}),
        (ParameterError, "validation is not 'last'", {"time": np.arange(240)}),
        (ParameterError, "validation must be", {"validation": "latest"}),
        (DataError, "time has 3 values", {"validation": "last", "time": [1, 2, 3]}),
        (DataError, "missing at row 0", {"validation": "last", "time": np.full(240, np.nan)}),
        (DataError, "no names", {"validation": "last", "time": "day"}),
        (ParameterError, "n_splits=1", {"validation": KFold(3), "strategy": "two-stage"}),
        (DataError, "without training rows", {"validation": [(of_a[1:], of_a[:1])]}),
        (ParameterError, "both given", {"validation": KFold(3), "eval_set": (X, y, task)}),
        (
            ParameterError,
            "validation_fraction is 0.3, but eval_set has the validation rows: leave one",
            {"validation_fraction": 0.3, "eval_set": (X, y, task)},
        ),
    ):
        with pytest.raises(error, match=text):
            mtboost.fit(X, y, task=task, **options)
    mixed = [datetime.date(2024, 1, 1), "2024"] * 120
    with pytest.raises(DataError, match="cannot be sorted"):
        mtboost.fit(X, y, task=task, validation="last", time=np.array(mixed, dtype=object))


def test_validation_rows_of_new_tasks_are_left_out_with_a_warning():
    X, y, task = table()
    other = np.where(np.arange(240) < 40, "new", task)
    with pytest.warns(UserWarning, match="task 'new', without training rows"):
        model = mtboost.fit(X, y, task=task, eval_set=(X, y, other), **TWO_STAGE)
    known = other != "new"
    without = mtboost.fit(X, y, task=task, eval_set=(X[known], y[known], other[known]), **TWO_STAGE)
    np.testing.assert_array_equal(model.predict(X, task=task), without.predict(X, task=task))
    with pytest.raises(DataError, match="eval_set: task 'new' is unknown"):
        mtboost.fit(X, y, task=task, eval_set=(X, y, np.full(240, "new")), **TWO_STAGE)


def by_fit(X, y, task, eval_set):
    mtboost.fit(X, y, task=task, eval_set=eval_set, **TWO_STAGE)


def by_fit_of_several_models(X, y, task, eval_set):
    mtboost.fit(X, y, task=task, eval_set=eval_set, n_ensemble=2, **TWO_STAGE)


def by_an_estimator(X, y, task, eval_set):
    options = {"strategy": "two-stage", "n_estimators": 8, "early_stopping_rounds": 3}
    mtboost.MultiTaskRegressor(**options).fit(X, y, task=task, eval_set=eval_set)


def by_tune(X, y, task, eval_set):
    mtboost.tune(X, y, task=task, eval_set=eval_set, n_trials=1, n_threads=1, **TWO_STAGE)


@pytest.mark.parametrize("call", [by_fit, by_fit_of_several_models, by_an_estimator, by_tune])
def test_the_warning_names_the_line_of_the_user(call):
    X, y, task = table()
    other = np.where(np.arange(240) < 40, "new", task)
    with pytest.warns(UserWarning, match="without training rows") as found:
        call(X, y, task, (X, y, other))
    lines = {line for *_, line in call.__code__.co_lines()}
    for warning in found:
        assert warning.filename == __file__
        assert warning.lineno in lines


@pytest.mark.parametrize("kind", ["table", "mapping"])
def test_refit_trains_on_the_users_validation_rows_too(kind, library):
    X, y, task = table()
    order = np.argsort(task, kind="stable")  # as a mapping has them
    X, y, task = X[order], y[order], task[order]
    first = np.arange(240) % 4 != 0

    def rows(chosen):
        if kind == "table":
            return X[chosen], y[chosen], task[chosen]
        own = [chosen & (task == name) for name in "ab"]
        return tuple(dict(zip("ab", (part[c] for c in own), strict=True)) for part in (X, y))

    def fit(part, **options):
        X1, y1, *task1 = part
        own = {"strategy": "two-stage", "num_boost_round": 8, "early_stopping_rounds": None}
        own |= {"task": task1[0]} if task1 else {}
        return mtboost.fit(X1, y1, backend=library.name, specific_rounds=3, **own, **options)

    model = fit(rows(first), eval_set=rows(~first), refit=True)
    everything = fit(rows(np.ones(240, bool)), validation_fraction=0)
    for name in "ab":
        own = {name: X[task == name]}
        found, expected = (each.predict(own)[name] for each in (model, everything))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert model.report()["valid_rows"].sum() == 60


def test_an_estimator_may_predict_tasks_that_training_lacks():
    X, y, task = table()
    X = np.column_stack([X, task == "b"])
    options = {"n_estimators": 5, "strategy": "two-stage", "task": 3}
    options_of_cv = {"groups": task, "cv": LeaveOneGroupOut(), "error_score": "raise"}
    model = mtboost.MultiTaskRegressor(**options, unknown_task="common")
    found = cross_validate(model, X, y, **options_of_cv)
    assert found["test_score"].shape == (2,)
    with pytest.raises(DataError, match="unknown"):
        cross_validate(mtboost.MultiTaskRegressor(**options), X, y, **options_of_cv)


def test_an_estimator_may_hold_out_by_a_column_of_dates():
    X, y, task = table()
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(240), unit="D")
    frame = frames(X, task, dates)["pandas"]
    model = mtboost.MultiTaskRegressor(
        n_estimators=5, strategy="two-stage", task="task", time="time", validation="last"
    ).fit(frame, y)
    assert model.model_.common_columns.names == ("u", "v", "w")
    assert model.predict(frame).shape == (240,)
    assert len(model.feature_importances_) == 5


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            "%d/%m/%Y",
            "texts such as '01/02/2024', which sort by their first number.*pd.to_datetime",
        ),
        ("%m/%d/%y", "pd.to_datetime"),
        ("%d.%m.%Y %H:%M", "pd.to_datetime"),
        ("%d-%m-%Y", "pd.to_datetime"),
        ("days", "numbers as text, which sort as '109' before '11'.*float.*pd.to_datetime"),
        ("%Y-%m-%d", None),
        ("%Y%m%d", None),
        ("%y-%m-%d", None),
        ("week %W", None),
    ],
)
def test_texts_that_do_not_sort_by_time_are_refused(form, message):
    days = np.arange(10, 130)
    texts = (pd.Timestamp("2024-01-01") + pd.to_timedelta(days, "D")).strftime(form)
    if form == "days":
        texts = pd.Index(days.astype(str))
    X = pd.DataFrame({"a": np.zeros(120), "when": texts})
    for time in ("when", texts, pd.Series(texts, dtype=object), texts.tolist()):
        if message is None:
            ranks = split_time(X, time)[1]
            assert (np.diff(ranks) >= 0).all()
        else:
            with pytest.raises(DataError, match=f"time has {message}|{message}"):
                split_time(X, time)
