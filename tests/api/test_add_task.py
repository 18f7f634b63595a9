# SPDX-License-Identifier: Apache-2.0
"""A new task joins a finished model."""

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import scipy.sparse

import mtboost
from mtboost.errors import DataError, ParameterError
from mtboost.metrics import Metric

_rng = np.random.default_rng(0)
N_ROWS = 400


def scene(n_rows: int, effect: float) -> tuple[np.ndarray, np.ndarray]:
    X = _rng.normal(size=(n_rows, 4))
    return X, X[:, 0] + effect * X[:, 1] + 0.3 * _rng.normal(size=n_rows)


X, y = map(np.concatenate, zip(scene(N_ROWS, 1.0), scene(N_ROWS, 2.0), strict=True))
TASK = np.repeat(["a", "b"], N_ROWS)
NEW, NEW_Y = scene(150, 3.0)
VALID = scene(100, 3.0)
OPTIONS = {
    "strategy": "two-stage",
    "num_boost_round": 25,
    "specific_rounds": 20,
    "early_stopping_rounds": 5,
}


def fitted(library, **options):
    return mtboost.fit(X, y, task=TASK, backend=library.name, **{**OPTIONS, **options})


def rmse(y, prediction):
    return float(np.sqrt(np.mean((y - prediction) ** 2)))


def test_a_new_task_is_learnt_and_the_others_stay_as_they_are(library):
    model = fitted(library)
    before = model.predict_margin(X, task=TASK)
    common = model.predict(VALID[0], task=np.full(100, "new"), unknown_task="common")
    model.add_task("new", NEW, NEW_Y)
    np.testing.assert_array_equal(model.predict_margin(X, task=TASK), before)
    found = model.predict(VALID[0], task=np.full(100, "new"))
    assert rmse(VALID[1], found) < 0.8 * rmse(VALID[1], common)
    assert model.report().loc["new", "rows"] + model.report().loc["new", "valid_rows"] == 150


def test_numpys_scalars_are_names(library):
    """As a loop over the unique values of a column has them."""
    few = {"num_boost_round": 3, "specific_rounds": 0}
    numbers = np.where(TASK == "a", 4, 7)
    model = mtboost.fit(X, y, task=numbers, backend=library.name, **OPTIONS | few)
    model.add_task(np.int64(9), NEW, NEW_Y, specific_rounds=0)
    assert model.replace_task(np.int32(4), NEW, NEW_Y, specific_rounds=0).tasks == (7, 9, 4)
    texts = fitted(library, **few)
    texts.add_task(np.str_("c"), NEW, NEW_Y, specific_rounds=0)
    nested = [(name, number) for name, number in zip(TASK.tolist(), numbers.tolist(), strict=True)]
    stores = mtboost.fit(X, y, task=nested, backend=library.name, **OPTIONS | few)
    stores.add_task(("a", np.int64(9)), NEW, NEW_Y, specific_rounds=0)
    names = [*model.tasks, *texts.tasks, *stores.tasks]
    assert names == [4, 7, 9, "a", "b", "c", ("a", 4), ("b", 7), ("a", 9)]
    assert {type(name) for name in names} == {int, str, tuple}


def test_it_follows_the_common_model_to_its_best_round(library):
    model = fitted(library)
    model.add_task("new", NEW, NEW_Y, eval_set=VALID, specific_rounds=0)
    n_rounds = len(model.history["new"]["common"]) - 1
    slices = [library.first_rounds(model.common, n + 1) for n in range(n_rounds)]
    scores = [rmse(VALID[1], library.margins(part, VALID[0])) for part in slices]
    assert model.quit_round["new"] == 1 + int(np.argmin(scores))
    np.testing.assert_allclose(model.history["new"]["common"][1:], scores, rtol=1e-5)


def test_its_booster_has_its_margins_and_a_saved_model_knows_it(library, tmp_path):
    model = fitted(library)
    model.add_task("new", NEW, NEW_Y)
    margins = model.predict_margin(VALID[0], task=np.full(100, "new"))
    assert model.report().loc["new", "specific_rounds"] > 0
    own = library.margins(model.booster("new"), VALID[0])
    np.testing.assert_allclose(own, margins, rtol=0, atol=library.atol)
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    assert loaded.tasks == ("a", "b", "new")
    np.testing.assert_array_equal(
        loaded.predict_margin(VALID[0], task=np.full(100, "new")), margins
    )


def test_a_new_task_may_have_columns_of_its_own(library):
    names = ["p", "q", "r", "s"]
    tables = {t: pd.DataFrame(X[t == TASK], columns=names) for t in ("a", "b")}
    labels = {t: y[t == TASK] for t in ("a", "b")}
    model = mtboost.fit(tables, labels, backend=library.name, **OPTIONS)
    own = pd.DataFrame(NEW, columns=names).assign(extra=_rng.normal(size=150))
    model.add_task("new", own, NEW_Y + 2 * own["extra"])
    assert library.feature_names(model.booster("new")) == [*names, "extra"]
    assert "extra" in model.importance("new")


def test_a_new_task_may_code_the_categories_otherwise(library):
    def table(numbers, kinds):
        frame = pd.DataFrame(numbers, columns=list("pqrs"))
        codes = np.digitize(numbers[:, 1], [-0.5, 0.5])
        return frame.drop(columns="q").assign(
            kind=pd.Categorical(np.array(["low", "mid", "high"])[codes], categories=kinds)
        )

    trained, other = ["low", "mid", "high"], ["high", "low", "mid", "none"]
    options = {**OPTIONS, "backend": library.name, "n_threads": 1}
    one, two = (mtboost.fit(table(X, trained), y, task=TASK, **options) for _ in range(2))
    one.add_task("new", table(NEW, trained), NEW_Y, eval_set=(table(VALID[0], trained), VALID[1]))
    two.add_task("new", table(NEW, other), NEW_Y, eval_set=(table(VALID[0], other), VALID[1]))
    assert one.report().loc["new", "specific_rounds"] > 0
    assert library.raw(one.booster("new")) == library.raw(two.booster("new"))


def test_classes_and_weights_are_those_of_the_model(library):
    labels = (y > 0).astype(int) + (y > 1)
    model = mtboost.fit(
        X, labels, task=TASK, backend=library.name, objective=library.multiclass, **OPTIONS
    )
    few = 2 * (NEW_Y > 0)  # the new task lacks class 1
    model.add_task("new", NEW, few, weight=np.ones(150))
    assert model.predict_proba(VALID[0], task=np.full(100, "new")).shape == (100, 3)


def test_without_early_stopping_rounds_it_has_all_rounds(library):
    model = fitted(library, early_stopping_rounds=None)
    model.add_task("new", NEW, NEW_Y, early_stopping_rounds=None, specific_rounds=7)
    assert model.quit_round["new"] == OPTIONS["num_boost_round"]
    assert library.n_rounds(model.specific["new"]) == 7


@pytest.mark.parametrize(
    ("valid", "message"),
    [((NEW,), "eval_set has 1 parts"), ((*VALID, None, np.ones(100)), "base_margin must be given")],
)
def test_validation_rows_that_do_not_fit_are_refused(library, valid, message):
    with pytest.raises(DataError, match=message):
        fitted(library).add_task("new", NEW, NEW_Y, eval_set=valid)


@pytest.mark.parametrize(
    ("task", "columns", "labels", "message"),
    [
        ("a", NEW, NEW_Y, "known already"),
        (3, NEW, NEW_Y, "use one type"),
        ("new", NEW[:, :2], NEW_Y, "has 2 columns, but the model was trained on 4"),
        ("new", NEW, NEW_Y[:-1], "must have"),
        ("new", NEW, np.full(150, np.nan), "must be finite"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(library, task, columns, labels, message):
    model = fitted(library)
    before = model.predict_margin(X, task=TASK)
    with pytest.raises(DataError, match=message):
        model.add_task(task, columns, labels)
    assert model.tasks == ("a", "b")
    assert set(model.reports) == {"a", "b"}
    np.testing.assert_array_equal(model.predict_margin(X, task=TASK), before)


# ---- the column of the tasks --------------------------------------------------------------------


def frame(rows: np.ndarray, shop: object) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list("pqrs")).assign(shop=shop)


@pytest.mark.parametrize("name", ["new", "shop"])
def test_a_new_tasks_table_may_hold_the_column_of_the_tasks(library, name):
    # The column may be named, as in fit.
    options = {**OPTIONS, "backend": library.name}
    found, expected = (mtboost.fit(frame(X, TASK), y, task="shop", **options) for _ in range(2))
    valid = (frame(VALID[0], "new"), VALID[1])
    found.add_task(name, frame(NEW, "new"), NEW_Y, eval_set=valid)
    plain, plain_valid = frame(NEW, "new").drop(columns="shop"), valid[0].drop(columns="shop")
    expected.add_task("new", plain, NEW_Y, eval_set=(plain_valid, VALID[1]))
    assert found.tasks == ("a", "b", "new")
    np.testing.assert_array_equal(
        found.predict(valid[0]), expected.predict(plain_valid, task=np.full(100, "new"))
    )


TABLES = {
    "pandas": lambda table: table,
    "polars": polars.from_pandas,
    "pyarrow": lambda table: pyarrow.Table.from_pandas(table, preserve_index=False),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_the_column_of_times_may_stay(make):
    def dated(rows, shop):
        days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(rows)), "D")
        return make(frame(rows, shop).assign(date=days))

    def plain(rows, shop):
        return make(frame(rows, shop))

    options = {"task": "shop", "time": "date", "validation": "last", **OPTIONS}
    found, expected = (mtboost.fit(dated(X, TASK), y, **options) for _ in range(2))
    for model, table in ((found, dated), (expected, plain)):
        valid = (table(VALID[0], "new"), VALID[1])
        model.add_task("new", table(NEW, "new"), NEW_Y, eval_set=valid)
    asked = plain(VALID[0], "new")
    np.testing.assert_array_equal(found.predict(asked), expected.predict(asked))
    assert found.replace_task("new", dated(NEW, "new"), NEW_Y).tasks == ("a", "b", "new")
    newer = make(frame(NEW, "newer").drop(columns="shop").assign(date=pd.Timestamp("2024-01-01")))
    assert "newer" in found.update({"newer": newer}, {"newer": NEW_Y}).tasks


def test_the_column_of_the_tasks_may_be_given_by_position(library):
    codes = np.repeat([3.0, 5.0], N_ROWS)
    model = mtboost.fit(np.column_stack([codes, X]), y, task=0, backend=library.name, **OPTIONS)
    model.add_task(7, np.column_stack([np.full(150, 7.0), NEW]), NEW_Y)
    model.add_task(8, NEW, NEW_Y)
    assert model.tasks == (3, 5, 7, 8)
    assert model.task_columns[7].n == model.task_columns[8].n == 4


def test_a_column_of_other_tasks_is_refused():
    model = mtboost.fit(frame(X, TASK), y, task="shop", **OPTIONS)
    with pytest.raises(DataError, match="task is 'new', but column 'shop' of X holds 'old'"):
        model.add_task("new", frame(NEW, "old"), NEW_Y)
    with pytest.raises(DataError, match="rows of tasks 'c', 'd' in column 'shop': add one task"):
        model.add_task(
            "shop", frame(NEW, np.arange(150) % 2).replace({"shop": {0: "c", 1: "d"}}), NEW_Y
        )
    assert model.tasks == ("a", "b")


def test_a_task_with_too_few_rows_for_a_split_says_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    options = {"strategy": "two-stage", "num_boost_round": 5, "backend": "lightgbm"}
    model = mtboost.fit(X, X[:, 0], task=np.arange(400) % 3, **options)
    model.add_task(9, X[:39], np.full(39, 10.0))
    assert "smaller min_data_in_leaf" in model.report().loc[9, "why_no_specific"]
    model.add_task(10, X[:39], np.full(39, 10.0), params={"min_data_in_leaf": 5})
    assert model.predict(X[:39], task=[10] * 39).mean() > 5.0


PARAMS = {"learning_rate": 0.3, "monotone_constraints": (-1, 0, 0, 0)}
LOSSES = {
    "xgboost": ("reg:pseudohubererror", {"huber_slope": 5.0, "max_depth": 2, **PARAMS}),
    "lightgbm": ("huber", {"alpha": 5.0, "num_leaves": 4, **PARAMS}),
}


@pytest.mark.parametrize("pooling", [None, 10.0])
def test_it_has_the_parameters_of_the_model_unless_others_are_given(library, pooling):
    objective, params = LOSSES[library.name]
    options = {"objective": objective, "split_score": "plain", "pooling": pooling}
    model = fitted(library, params=params, **options)
    rows = {"X": NEW, "y": 10.0 * NEW_Y, "early_stopping_rounds": None, "specific_rounds": 20}
    model.add_task("new", **rows)
    model.add_task("same", **rows, params=params)
    model.add_task("other", **rows, params={"learning_rate": 0.01})
    new, same, other = (model.predict(NEW, task=[task] * 150) for task in ("new", "same", "other"))
    np.testing.assert_array_equal(new, same)
    assert np.abs(new - other).max() > 1.0
    assert model.specific_params["other"] == {**model.specific_params["new"], "learning_rate": 0.01}


def test_it_keeps_monotone_constraints_of_the_model(library):
    constrained = {"monotone_constraints": (-1, 0, 0, 0)}  # labels rise with the column
    model = fitted(library, params=constrained)
    model.add_task("new", NEW, NEW_Y)
    model = model.replace_task("a", X[:N_ROWS], y[:N_ROWS])
    model = model.update(NEW, NEW_Y, task=np.full(150, "newer"))
    line = np.zeros((50, 4))
    line[:, 0] = np.linspace(-3, 3, 50)
    for task in model.tasks:
        assert np.diff(model.predict(line, task=[task] * 50)).max() <= 0.0


def test_a_metric_of_the_users_is_given_again(library):
    def largest_error(y, prediction):
        return float(np.abs(y - prediction).max())

    metric = Metric("largest error", largest_error, greater_is_better=False)
    model = fitted(library, eval_metric=metric)
    with pytest.raises(ParameterError, match="'largest error', a metric.*pass it as eval_metric"):
        model.add_task("new", NEW, NEW_Y)
    with pytest.raises(DataError, match="'largest error', a metric.*add_task.*eval_metric"):
        model.update(NEW, NEW_Y, task=np.full(150, "new"))
    with pytest.raises(ParameterError, match="'rmse', but the tasks.*by 'largest error'"):
        model.add_task("new", NEW, NEW_Y, eval_metric="rmse")
    model.add_task("new", NEW, NEW_Y, eval_metric=metric, eval_set=VALID)
    found = model.predict(VALID[0], task=["new"] * 100)
    score = model.report().loc["new", "largest error final"]
    assert score == pytest.approx(largest_error(VALID[1], found), 1e-6)
    again = model.replace_task("a", NEW, NEW_Y, eval_metric=metric)
    assert again.metric == "largest error"


def test_a_task_that_is_replaced_keeps_its_metric(library):
    objective = {"a": library.own("reg:squarederror"), "b": library.own("count:poisson")}
    labels = np.where(TASK == "a", y, np.round(np.exp(np.minimum(y, 3))))
    options = {"objective": objective, "eval_metric": {"b": "mae"}, "backend": library.name}
    model = mtboost.fit(X, labels, task=TASK, **options, **OPTIONS)
    counts = np.round(np.exp(np.minimum(NEW_Y, 3)))
    assert model.replace_task("b", NEW, counts).metric == model.metric
    model.add_task("c", NEW, NEW_Y, objective=objective["a"], eval_metric="mae")
    assert model.metric["c"] == "mae"


def common_values(model, task):
    """Leaf values of a task in the common trees."""
    code = model.common_trees.tasks.index(task)
    return [own.value[own.task == code] for own in model.common_trees.pooled.values]


@pytest.mark.parametrize("effort", ["fast", None])
def test_it_learns_from_all_rows_in_the_end(library, effort):
    auto = {"strategy": "auto", "effort": effort, "linear_effects": False}
    model = fitted(library, pooling=5.0, **(auto if effort else {}))
    none = {"validation_fraction": 0, "specific_rounds": 0}
    model.add_task("all", NEW, NEW_Y, **none)
    model.add_task("new", NEW, NEW_Y, specific_rounds=7, early_stopping_rounds=None)
    model.add_task("part", NEW, NEW_Y, refit=False)
    np.testing.assert_array_equal(*(common_values(model, task)[-1] for task in ("all", "new")))
    assert len(common_values(model, "part")[-1])
    assert not np.array_equal(*(common_values(model, task)[-1] for task in ("all", "part")))
    counts = model.report()["rows"] + model.report()["valid_rows"]
    assert counts[["all", "new", "part"]].tolist() == [150] * 3


@pytest.mark.parametrize("features", [None, "all"])
def test_validation_rows_may_be_learned_from_too(library, features):
    tables = {"a": named(X[:N_ROWS]), "b": named(X[N_ROWS:])}
    tables["b"] = tables["b"].drop(columns=["x3"]) if features else tables["b"]
    labels = {"a": y[:N_ROWS], "b": y[N_ROWS:]}
    options = {"backend": library.name, "common_features": features, "pooling": 5.0, **OPTIONS}
    model = mtboost.fit(tables, labels, **options)
    table, valid = named(NEW).assign(extra=NEW_Y), named(VALID[0]).assign(extra=VALID[1])
    shuffled = valid[valid.columns[::-1]]
    both = pd.concat([table, valid]), np.r_[NEW_Y, VALID[1]]
    model.add_task("all", *both, validation_fraction=0, specific_rounds=0)
    model.add_task("new", table, NEW_Y, eval_set=(shuffled, VALID[1]), refit=True)
    model.add_task("part", table, NEW_Y, eval_set=(shuffled, VALID[1]))
    np.testing.assert_array_equal(*(common_values(model, task)[-1] for task in ("all", "new")))
    assert not np.array_equal(*(common_values(model, task)[-1] for task in ("new", "part")))
    with pytest.raises(TypeError, match="refit"):
        model.add_task("other", table, NEW_Y, refit="yes")


def named(columns):
    return pd.DataFrame(columns, columns=[f"x{place}" for place in range(columns.shape[1])])


def test_positive_validation_rows_have_the_weight_of_positives(library):
    """As those of fit and update have."""
    objective = {"xgboost": "binary:logistic", "lightgbm": "binary"}[library.name]
    options = {"backend": library.name, "params": {"scale_pos_weight": 5.0}, **OPTIONS}
    model = mtboost.fit(X, y > 0.0, task=TASK, objective=objective, **options)
    labels = VALID[1] > 0.0
    model.add_task("new", NEW, NEW_Y > 0.0, eval_set=(VALID[0], labels))
    chance = model.predict(VALID[0], task=["new"] * 100)
    losses = -np.log(np.where(labels, chance, 1.0 - chance))
    expected = np.average(losses, weights=np.where(labels, 5.0, 1.0))
    metric = model.metric
    assert model.report().loc["new", f"{metric} final"] == pytest.approx(expected, 1e-4)


def test_models_that_have_been_searched_share_more_unless_it_is_significant(library):
    rng = np.random.default_rng(5)
    options = {"effort": "fast", "pooling": 5.0, "validation_fraction": 0.25}
    model = fitted(library, strategy="auto", **options)
    n_rounds = max(model.quit_round.values())
    for seed in range(5):
        rows = rng.normal(size=(40, 4))
        signal = rows[:, 0] + 1.5 * rows[:, 1]
        model.add_task(f"alike {seed}", rows, signal + rng.normal(size=40), seed=seed)
    rows = rng.normal(size=(600, 4))
    model.add_task("other", rows, 5.0 * np.sin(3.0 * rows[:, 3]))
    report = model.report()
    alike = report.loc[[f"alike {seed}" for seed in range(5)]]
    assert (alike["quit_round"] == n_rounds).sum() >= 4  # 1 have their best round there
    assert report.loc["other", "specific_rounds"] > 0


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_matrix, np.ndarray.tolist])
def test_columns_of_an_array_are_found_by_position(library, make):
    """As `predict` finds them."""
    model = mtboost.fit(named(X), y, task=TASK, backend=library.name, **OPTIONS)
    model.add_task("table", named(NEW), NEW_Y, eval_set=(named(VALID[0]), VALID[1]))
    model.add_task("array", make(NEW), NEW_Y, eval_set=(make(VALID[0]), VALID[1]))
    found = [model.predict(NEW, task=[task] * 150) for task in ("table", "array")]
    np.testing.assert_allclose(*found, rtol=1e-6)
    for rows in ((NEW[:, :3], NEW_Y), (NEW, NEW_Y, (VALID[0][:, :3], VALID[1]))):
        few, labels, *valid = rows
        options = {"eval_set": valid[0]} if valid else {}
        with pytest.raises(DataError, match="3 columns without names.*feature_names"):
            model.add_task("other", few, labels, **options)


def test_a_fraction_beside_validation_rows_is_refused():
    X = np.random.default_rng(0).normal(size=(60, 2))
    task = np.repeat(["a", "b"], 30)
    model = mtboost.fit(X, X[:, 0], task=task, strategy="two-stage", num_boost_round=3)
    valid = (X, X[:, 0])
    with pytest.raises(ParameterError, match="validation_fraction is 0.3, but eval_set has the"):
        model.add_task("c", *valid, eval_set=valid, validation_fraction=0.3)
    with pytest.raises(ParameterError, match="validation_fraction is 0.3, but eval_set has the"):
        model.update(*valid, task=task, eval_set=(*valid, task), validation_fraction=0.3)
    for fraction in (0, 0.2):
        model.update(*valid, task=task, eval_set=(*valid, task), validation_fraction=fraction)
    new = np.where(task == "b", "c", task)
    model.update(*valid, task=new, eval_set=(*valid, task), validation_fraction=0.3)
