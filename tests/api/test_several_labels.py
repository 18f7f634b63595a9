# SPDX-License-Identifier: Apache-2.0
"""Several labels a row: each label, in each task, is a task, whose unknown labels are left out."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold

import mtboost
from mtboost import MultiTaskClassifier, MultiTaskRegressor
from mtboost.base.dataset import Dataset
from mtboost.base.shared_rows import shared_rows
from mtboost.errors import DataError, ParameterError

RNG = np.random.default_rng(7)
N = 240
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["p", "q", "r"])
STORE = np.resize(["south", "north", "west"], N)
Y = pd.DataFrame(
    {
        "late": X["p"] + 0.3 * RNG.normal(size=N),
        "cost": X["p"] - X["q"] + (STORE == "west") + 0.3 * RNG.normal(size=N),
        "hours": 2.0 * X["r"] + 0.3 * RNG.normal(size=N),
    }
)
Y = Y.mask(RNG.random(Y.shape) < [[0.0, 0.4, 0.7]])
FEW = {"num_boost_round": 8, "specific_rounds": 5, "n_threads": 1}


def repeated(stores=None, start=0, end=N):
    """Rows of X, known labels and tasks, label after label, put together by hand."""
    rows, labels, names = [], [], []
    for label in Y:
        for row in range(start, end):
            if not np.isnan(Y[label][row]):
                rows.append(row)
                labels.append(Y[label][row])
                names.append(label if stores is None else (label, stores[row]))
    return rows, np.array(labels), names


@pytest.mark.parametrize("stores", [None, STORE], ids=["labels", "labels x stores"])
def test_several_labels_are_rows_repeated_by_hand_without_unknown_ones(library, stores):
    """Margins, the file, and what is evaluated are those of one label a row."""
    options = {**FEW, "backend": library.name, "strategy": "two-stage"}
    own = [None, None] if stores is None else [stores[:160], stores[160:]]
    weight, start = RNG.uniform(1, 2, N), RNG.normal(size=(N, 3))
    model = mtboost.fit(
        X[:160],
        Y[:160],
        task=own[0],
        weight=weight[:160],
        base_margin=start[:160],
        eval_set=(X[160:], Y[160:], own[1], weight[160:], start[160:]),
        **options,
    )
    rows, y, task = repeated(stores, 0, 160)
    new, new_y, new_task = repeated(stores, 160)
    start_of = {name: start[:, place] for place, name in enumerate(Y)}

    def starts(rows, tasks):
        names = [task if stores is None else task[0] for task in tasks]
        return np.array([start_of[name][row] for name, row in zip(names, rows, strict=True)])

    by_hand = mtboost.fit(
        X.iloc[rows],
        y,
        task=task,
        weight=weight[rows],
        base_margin=starts(rows, task),
        eval_set=(X.iloc[new], new_y, new_task, weight[new], starts(new, new_task)),
        **options,
    )
    assert model.tasks == by_hand.tasks
    assert model.report().equals(by_hand.report())
    found = model.predict(X, task=stores, base_margin=start)
    assert found.shape == (N, 3)
    for place, label in enumerate(Y):
        names = [label] * N if stores is None else [(label, store) for store in stores]
        own_start = start[:, place]
        expected = by_hand.predict(X, task=np.fromiter(names, object, N), base_margin=own_start)
        np.testing.assert_array_equal(found[:, place], expected)
    pd.testing.assert_frame_equal(
        model.evaluate(X, Y, task=stores, base_margin=start),
        by_hand.evaluate(
            X.iloc[rows + new],
            np.concatenate([y, new_y]),
            task=np.fromiter(task + new_task, object),
            base_margin=starts(rows + new, task + new_task),
        ),
    )


@pytest.mark.parametrize("stores", [None, STORE], ids=["labels", "labels x stores"])
def test_all_labels_of_a_row_are_explained_compared_and_reported(library, stores, tmp_path):
    """Each label has the contributions of its task, and other models predict labels by columns."""
    options = {**FEW, "backend": library.name, "strategy": "two-stage"}
    model = mtboost.fit(X, Y, task=stores, **options)
    found = model.contributions(X, task=stores)
    assert found.shape == (N, 3, 4)
    margins = model.predict_margin(X, task=stores)
    np.testing.assert_allclose(found.sum(axis=2), margins, rtol=0, atol=1e-5)
    late = ["late"] * N if stores is None else [("late", store) for store in stores]
    of_label = np.fromiter(late, object, N)
    np.testing.assert_array_equal(found[:, 0], model.contributions(X, task=of_label))
    with pytest.raises(ParameterError, match="one label a row"):
        model.contributions(X, task=stores, output="pandas")

    forest = RandomForestRegressor(5, random_state=0).fit(X, Y.fillna(0.0))
    of_known_rows, y, tasks = repeated(stores)
    columns = [list(Y).index(task if stores is None else task[0]) for task in tasks]
    of_forest = forest.predict(X)[of_known_rows, columns]
    others = {
        "model": model,
        "array": model.predict(X, task=stores),
        "forest": forest,
        "its frame": pd.DataFrame(forest.predict(X)),
        "one a label": of_forest,
    }
    table = model.evaluate(X, Y, task=stores, metrics="rmse", against=others)
    assert (table[["rmse gain over model", "rmse gain over array"]] == 0.0).all(axis=None)
    gain = np.sqrt(np.mean((y - of_forest) ** 2)) - table["rmse"]["all tasks"]
    for name in ("forest", "its frame", "one a label"):
        assert table[f"rmse gain over {name}"]["all tasks"] == pytest.approx(gain)
    with pytest.raises(DataError, match=r"one prediction a label, of shape \(240, 3\)"):
        model.evaluate(X, Y, task=stores, against={"other": np.zeros((N, 2))})
    model.report_html(tmp_path / "report.html", X, Y, task=stores, against={"forest": forest})
    assert "gain over forest" in (tmp_path / "report.html").read_text()


def test_auto_predicts_a_table_with_the_columns_of_the_labels(tmp_path):
    """Also from a file, without a removed task, and with one label a row."""
    table, two = X.assign(store=STORE), Y[["late", "cost"]]
    fixed = {"params": {"max_depth": 2, "subsample": 1.0}, "symmetric_trees": False}
    fixed |= {"linear_effects": False}
    model = mtboost.fit(table, two, task="store", effort="fast", intervals=True, **fixed, **FEW)
    frame = model.predict(table[:5], output="pandas")
    assert frame.columns.tolist() == list(two)
    assert model.predict(table[:5], output="polars").columns == list(two)
    np.testing.assert_array_equal(frame, model.predict(table[:5]))
    assert model.predict_interval(table).shape == (N, 2, 2)
    new_store = table[:2].assign(store="east")
    with pytest.raises(DataError, match=r"unknown tasks? \('late', 'east'\)"):
        model.predict(new_store)
    assert model.predict(new_store, unknown_task="common").shape == (2, 2)
    one = model.predict(table[:1], task=np.fromiter([("cost", "south")], object, 1))
    np.testing.assert_array_equal(one, frame["cost"][:1])
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    small = mtboost.fit(X, two, strategy="two-stage", **FEW)
    alone = small.remove_task("late")
    assert alone.predict(X, output="pandas").columns.tolist() == ["cost"]
    expected = small.evaluate(X, two).loc["cost"]
    for own in (two[["cost"]], two["cost"]):
        pd.testing.assert_series_equal(alone.evaluate(X, own).loc["cost"], expected)
    assert small.update(X, two, rounds=2).predict(X).shape == (N, 2)


def test_labels_of_a_row_are_held_out_together():
    """Whether validation rows are drawn, the last ones, or those of a splitter."""
    data = Dataset(X, Y)
    np.testing.assert_array_equal(shared_rows(data), data.row_numbers)
    held_out = []
    day = np.arange(N)[::-1]

    class LastFold(KFold):
        def split(self, X, y, groups):
            assert len(X) == len(y) == N
            yield list(super().split(X, y, groups))[-1]

    for options in (
        {"validation": "last", "time": day},
        {"validation": LastFold(4)},
        {"validation": [(np.arange(60, N), np.arange(60))]},
    ):
        model = mtboost.fit(X, Y, **options, strategy="two-stage", **FEW)
        held_out.append(model.report()["valid_rows"].to_dict())
    assert held_out[0]["late"] == N // 5
    assert held_out[1] == {label: int(Y[label][180:].notna().sum()) for label in sorted(Y)}
    assert held_out[2] == {label: int(Y[label][:60].notna().sum()) for label in sorted(Y)}


@pytest.mark.parametrize("kind", ["numpy", "list", "polars", "pyarrow", "masked", "nullable"])
def test_labels_of_any_kind_of_table(kind):
    """Arrays have no names of labels: positions stand for them."""
    pair = Y[["late", "cost"]]
    as_kind = {
        "numpy": lambda: pair.to_numpy(),
        "list": lambda: pair.to_numpy().tolist(),
        "polars": lambda: pl.from_pandas(pair),
        "pyarrow": lambda: pa.Table.from_pandas(pair, preserve_index=False),
        "masked": lambda: np.ma.masked_invalid(pair.to_numpy()),
        "nullable": lambda: pair.astype("Float64"),
    }
    expected = mtboost.fit(X, pair, strategy="two-stage", **FEW)
    model = mtboost.fit(X, as_kind[kind](), strategy="two-stage", **FEW)
    are_named = kind in ("polars", "pyarrow", "nullable")
    assert model.label_names == (("late", "cost") if are_named else (0, 1))
    if are_named:  # the draw of validation rows depends on the order of the tasks
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_objectives_metrics_and_weights_by_label():
    """Of labels in stores each holds for all stores."""
    labels = pd.DataFrame({"is_late": (Y["late"] > 0) * 1.0, "cost": Y["cost"]})
    model = mtboost.fit(
        X,
        labels,
        task=STORE,
        objective={"is_late": "binary:logistic", "cost": "reg:squarederror"},
        eval_metric={"is_late": "auc"},
        task_weight={"is_late": 1.0, "cost": 2.0},
        **FEW,
    )
    assert model.metric["is_late", "west"] == "auc"
    assert model.objective["cost", "north"] == "reg:squarederror"
    found = model.predict(X, task=STORE)
    assert 0 < found[:, 0].min() < found[:, 0].max() < 1
    # Where all labels are 0 or 1 the loss is logistic by default.
    are_zero_one = mtboost.fit(X, labels.gt(0), strategy="two-stage", **FEW)
    assert are_zero_one.objective == "binary:logistic"


def test_estimators_fit_and_score_several_labels():
    """A classifier has classes of any type; unknown labels count in no score."""
    names = pd.DataFrame(
        {"late": np.where(Y["late"] > 0, "yes", "no"), "cost": np.where(Y["cost"] > 0, "yes", "no")}
    ).astype(object)
    names["cost"] = names["cost"].mask(Y["cost"].isna())
    few = {"n_estimators": 8, "strategy": "two-stage", "random_state": 0}
    classifier = MultiTaskClassifier(**few).fit(X, names, eval_set=(X, names))
    found = classifier.predict(X)
    assert classifier.predict_proba(X).shape == (N, 2, 2)
    is_known = names.notna().to_numpy()
    right = (found == names.to_numpy())[is_known]
    assert classifier.score(X, names) == pytest.approx(right.mean())
    with pytest.raises(ParameterError, match="class_weight is for one label"):
        MultiTaskClassifier(class_weight="balanced").fit(X, names)
    regressor = MultiTaskRegressor(**few).fit(X, Y, sample_weight=np.ones(Y.shape))
    residuals = (Y - regressor.predict(X)) ** 2
    r2 = 1 - residuals.mean() / Y.var(ddof=0)
    assert regressor.score(X, Y) == pytest.approx(r2.mean())
    assert regressor.score(X, Y, sample_weight=np.ones(N)) == pytest.approx(r2.mean())


@pytest.mark.parametrize("estimator", [MultiTaskClassifier, MultiTaskRegressor])
def test_scores_compare_labels_with_predictions_of_their_name(estimator):
    few = {"n_estimators": 8, "strategy": "two-stage", "random_state": 0}
    labels = (Y[["late", "cost"]].fillna(0.0) > 0).astype(int)
    of_two = estimator(**few).fit(X, labels)
    late, cost = labels
    score = of_two.score(X, labels)
    assert of_two.score(X, labels.to_numpy()) == of_two.score(X, labels[[cost, late]]) == score
    assert of_two.score(X, labels.to_numpy()[:, ::-1]) < score
    weight = pd.DataFrame({late: np.linspace(0.1, 1.0, N), cost: np.linspace(2.0, 1.0, N)})
    weighted = of_two.score(X, labels, sample_weight=weight)
    assert weighted == of_two.score(X, labels, sample_weight=weight[[cost, late]])
    assert weighted != of_two.score(X, labels, sample_weight=weight.to_numpy()[:, ::-1])
    with pytest.raises(DataError, match="y has columns 'a', 'b', but there are labels 'late', 'co"):
        of_two.score(X, labels.set_axis(["a", "b"], axis=1))
    with pytest.raises(DataError, match="y has one label a row, but the model predicts 2 labels"):
        of_two.score(X, labels[late])
    of_one = estimator(**few).fit(X, labels[late])
    with pytest.raises(DataError, match="y has 2 labels a row, but the model predicts one label"):
        of_one.score(X, labels)


@pytest.mark.parametrize("dtype", ["object", "boolean", "Int64"])
def test_a_classifier_takes_labels_of_pandas_with_unknown_ones(dtype):
    """``(Y > 0).where(Y.notna())`` is a table of objects: True, False and NaN."""
    labels = (Y > 0).where(Y.notna()).astype("boolean").astype(dtype)
    few = {"n_estimators": 8, "strategy": "two-stage", "random_state": 0}
    expected = MultiTaskClassifier(**few).fit(X, (Y > 0).where(Y.notna()).astype(float))
    MultiTaskClassifier(**few).fit(X, labels, eval_set=(X, labels))
    found = MultiTaskClassifier(**few).fit(X, labels)
    assert found.classes_.dtype == (np.int64 if dtype == "Int64" else np.bool_)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    is_right = found.predict(X) == (Y > 0).to_numpy()
    assert found.score(X, labels) == pytest.approx(is_right[Y.notna()].mean())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": Y.assign(cost=np.nan)}, r"y has the label 'cost' that no row knows"),
        ({"y": Y.assign(cost=np.inf)}, r"y is inf at row 0, column 1"),
        ({"y": Y.assign(cost="low")}, "y is 'low' at row 0, column 1: it must .* use an estimator"),
        ({"y": Y.set_axis(["a", "b", "a"], axis=1)}, "y has two columns 'a'"),
        ({"y": Y.set_axis(["a", 1, "b"], axis=1)}, "must be named by str, or all by int"),
        ({"y": scipy.sparse.csr_array(np.ones((N, 3)))}, r"y is a csr_array: .*Pass y.toarray"),
        ({"y": Y[:10]}, r"y has shape \(10, 3\)"),
        ({"weight": np.ones((N, 2))}, r"weight has shape \(240, 2\)"),
        ({"base_margin": np.ones(N)}, r"base_margin has shape \(240,\)"),
        ({"qid": np.arange(N)}, "rows of queries have one"),
        ({"task_weight": {"late": 1.0}}, "task_weight lacks"),
        ({"time": np.arange(3), "validation": "last"}, "time has 3 values, but X has 240 rows"),
        ({"eval_set": (X, Y.rename(columns={"late": "soon"})[["soon", "cost"]][:0])}, "eval_set"),
    ],
)
def test_labels_that_do_not_fit_are_refused_before_training(change, message):
    arguments = {"X": X, "y": Y, **change}
    with pytest.raises(DataError, match=message):
        mtboost.fit(**arguments, **FEW)


def test_a_model_of_one_label_refuses_several():
    model = mtboost.fit(X, Y["late"], task=STORE, strategy="two-stage", **FEW)
    with pytest.raises(DataError, match="fitted with one"):
        model.evaluate(X, Y, task=STORE)


def test_weights_margins_and_predictions_have_their_labels_by_name():
    rng = np.random.default_rng(5)
    names, turned = ["cost", "delay"], ["delay", "cost"]
    table = rng.normal(size=(120, 2))
    labels = pd.DataFrame(table + rng.normal(size=(120, 2)), columns=names)
    weight = pd.DataFrame({"cost": (np.arange(120) < 60) * 1.0, "delay": np.ones(120)})
    start = pd.DataFrame(5.0 * rng.normal(size=(120, 2)), columns=names)
    options = {"strategy": "two-stage", "num_boost_round": 5, "validation_fraction": 0}
    model = mtboost.fit(table, labels, weight=weight, base_margin=start, **options)
    other = mtboost.fit(table, labels, weight=weight[turned], base_margin=start[turned], **options)
    expected = model.predict(table, base_margin=start)
    for each in (model, other):
        found = each.predict(table, base_margin=start[turned])
        np.testing.assert_array_equal(found, expected)
    own = pd.DataFrame(expected, columns=names)
    judged = model.evaluate(
        table,
        labels[turned],
        weight=weight,
        base_margin=start,
        metrics="rmse",
        against={"itself": own[turned], "as an array": own[turned].to_numpy()},
    )
    for name in ("itself", "as an array"):
        np.testing.assert_allclose(judged[f"rmse gain over {name}"], 0.0, atol=1e-12)
    by_array = mtboost.fit(table, labels.to_numpy(), weight=weight.to_numpy(), **options)
    named = mtboost.fit(table, labels.to_numpy(), weight=weight, **options)  # labels have no names
    np.testing.assert_array_equal(by_array.predict(table), named.predict(table))
    wrong = weight.rename(columns={"cost": "price"})
    with pytest.raises(
        DataError, match="weight has columns 'price', 'delay', but there are labels"
    ):
        mtboost.fit(table, labels, weight=wrong, **options)
    with pytest.raises(DataError, match="base_margin has columns"):
        model.predict(table, base_margin=start.rename(columns={"cost": "price"}))
    of_others = own.rename(columns={"cost": "price"})
    with pytest.raises(DataError, match=r"against\['other'\] has columns"):
        model.evaluate(table, labels, against={"other": of_others}, base_margin=start)


@pytest.mark.parametrize("task", ["store", ["region", "store"]])
def test_a_task_is_learned_anew_from_a_table_with_the_column_of_the_stores(task):
    levels = {"region": np.where(STORE == "west", "left", "right"), "store": STORE}
    table = X.assign(**{name: levels[name] for name in np.atleast_1d(task)})
    model = mtboost.fit(table, Y, task=task, strategy="two-stage", **FEW)
    own = (STORE == "west") & Y["cost"].notna()
    name = next(name for name in model.tasks if name[0] == "cost" and name[-1] == "west")
    found = model.replace_task(name, table[own], Y["cost"][own] + 9.0, n_threads=1)
    assert found.tasks[-1] == name
    alone = model.replace_task(name, X[own], Y["cost"][own] + 9.0, n_threads=1)
    np.testing.assert_array_equal(found.predict(table), alone.predict(table))
    with pytest.raises(DataError, match="of X holds .*north.*: correct one"):
        model.replace_task(name, table[STORE == "north"], Y["cost"][STORE == "north"])
