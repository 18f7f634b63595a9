# SPDX-License-Identifier: Apache-2.0
"""Leaf values of nested tasks against the linear equations of their random effects."""

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost

import mtboost
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.metrics import task_scorer
from mtboost.model.parts import task_trees
from mtboost.model.stages import common_trees, linear_effects
from mtboost.trees import task_values
from mtboost.trees.nesting import Nesting, with_groups
from mtboost.trees.pooled_leaves import pool_leaves
from mtboost.trees.pooling import RelativePooling, between_task_pooling

# Regions of 1 to 4 stores, each of 1 to 3 counters.
DEEP = [
    (region, store, counter)
    for region in range(4)
    for store in range(region + 1)
    for counter in range((region + store) % 3 + 1)
]
STORES = sorted({name[:2] for name in DEEP})
N_NODES, RATE = 6, 0.3


def rows(n_tasks, seed, n_rows=300):
    rng = np.random.default_rng(seed)
    leaves = rng.integers(2, N_NODES, n_rows).astype(np.int32)
    leaves[:30] = ~leaves[:30]  # rows that took no part
    codes = rng.integers(0, n_tasks, n_rows).astype(np.int32)
    pairs = np.stack([rng.normal(size=n_rows), rng.random(n_rows)], 1).astype(np.float32)
    pairs[60:70] = 0.0  # rows without weight
    return rng.normal(size=N_NODES), leaves, codes, pairs


def values(names, kappas, seed=0):
    data = rows(len(names), seed)
    nesting = Nesting.of(with_groups(names)) if isinstance(kappas, tuple) else None
    options = {"n_tasks": len(names), "pooling": kappas, "learning_rate": RATE}
    found = pool_leaves(*data, **options, nesting=nesting)
    return data, found.table(data[0], len(names), nesting), found


def naive_values(names, kappas, data):
    """Values by task or group in each leaf: the effects that minimise

    Σ_t H_t (w_t - w - effects of t and its groups)² + Σ κ effect².
    """
    pooled, leaves, codes, pairs = data
    every = with_groups(names)
    groups_of = [[each for each in every if name[: len(each)] == each] for name in every]
    table = np.empty((len(pooled), len(every)))
    for leaf in range(len(pooled)):
        A = np.diag([kappas[len(name) - 1] for name in every])
        b = np.zeros(len(every))
        for code, name in enumerate(names):
            G, H = pairs[(leaves == leaf) & (codes == code)].astype(float).sum(axis=0)
            own = [every.index(each) for each in groups_of[every.index(name)]]
            A[np.ix_(own, own)] += H
            b[own] -= G + H * pooled[leaf] / RATE
        effects = RATE * np.linalg.solve(A, b)
        for column, groups in enumerate(groups_of):
            table[leaf, column] = pooled[leaf] + sum(effects[every.index(each)] for each in groups)
    return table


@pytest.mark.parametrize(
    ("names", "kappas"),
    [(STORES, (2.0, 5.0)), (STORES, (50.0, 0.1)), (DEEP, (2.0, 1.0, 3.0)), (DEEP, (0.1, 9.0, 0.5))],
    ids=["stores", "different stores", "counters", "different regions"],
)
def test_values_solve_the_equations_of_the_random_effects(names, kappas):
    data, table, _ = values(names, kappas)
    np.testing.assert_allclose(table[:, :-1], naive_values(names, kappas, data), atol=1e-10)
    np.testing.assert_array_equal(table[:, -1], data[0])  # tasks that are not known


def test_values_of_one_task_are_a_column_of_those_of_all():
    data, table, found = values(DEEP, (2.0, 1.0, 3.0))
    nesting = Nesting.of(with_groups(DEEP))
    for code in range(nesting.n_names):
        own = found.of_task(data[0], *nesting.path(code))
        np.testing.assert_array_equal(own, table[:, code])


def test_without_effects_of_groups_tasks_have_the_values_of_flat_pooling():
    _, nested, _ = values(STORES, (np.inf, 3.0))
    _, flat, _ = values(STORES, 3.0)
    n_tasks = len(STORES)
    np.testing.assert_array_equal(nested[:, :n_tasks], flat[:, :n_tasks])


def test_without_effects_of_tasks_they_have_the_values_of_their_pooled_groups():
    (pooled, leaves, codes, pairs), nested, _ = values(STORES, (3.0, np.inf))
    regions = np.array([region for region, _ in STORES], np.int32)
    options = {"n_tasks": 4, "pooling": 3.0, "learning_rate": RATE}
    flat = pool_leaves(pooled, leaves, regions[codes], pairs, **options).table(pooled, 4)
    np.testing.assert_allclose(nested[:, : len(STORES)], flat[:, regions], atol=1e-12)
    np.testing.assert_allclose(nested[:, len(STORES) : -1], flat[:, :4], atol=1e-12)


def test_one_task_in_each_group_is_flat_pooling_with_both_variances():
    names = [(region, 0) for region in range(5)]
    _, nested, _ = values(names, (2.0, 6.0))
    _, flat, _ = values(names, 1 / (1 / 2.0 + 1 / 6.0))
    np.testing.assert_allclose(nested[:, :5], flat[:, :5], atol=1e-12)


@pytest.mark.parametrize("kappas", [(0.0, 0.0), (0.0, 2.0), (2.0, 0.0), (0.0, np.inf)])
def test_no_shrinkage_at_a_level_gives_finite_values(kappas):
    _, table, _ = values(STORES, kappas)
    assert np.isfinite(table).all()


def test_estimated_pooling_is_the_ratio_of_the_variances_at_each_level():
    # 30 leaves with 10 regions of 4 stores: 270 degrees of freedom between regions, 900 between
    # stores. The estimates of τ² have a standard deviation of 10% and 8%, the mean of 40 draws of
    # less than 2%; 10% is five of them.
    rng = np.random.default_rng(0)
    n_leaves, n_regions, n_stores, n_each = 30, 10, 4, 8
    tau, sigma = (0.8, 0.5), 1.0
    names = [(region, store) for region in range(n_regions) for store in range(n_stores)]
    nesting = Nesting.of(with_groups(names))
    leaves = np.repeat(np.arange(n_leaves), len(names) * n_each).astype(np.int32)
    codes = np.tile(np.repeat(np.arange(len(names)), n_each), n_leaves).astype(np.int32)
    kept = rng.random(len(codes)) < 0.2 + 0.2 * (codes % 4)  # stores of different sizes
    leaves, codes = leaves[kept], codes[kept]
    found = []
    for _ in range(40):
        effect = tau[0] * rng.normal(size=(n_leaves, n_regions)).repeat(n_stores, axis=1)
        effect += tau[1] * rng.normal(size=effect.shape)
        g = effect[leaves, codes] + sigma * rng.normal(size=len(codes))
        pairs = np.stack([g, np.ones(len(g))], axis=1).astype(np.float32)
        data = np.zeros(n_leaves), leaves, codes, pairs
        found.append(between_task_pooling(*data, n_tasks=len(names), nesting=nesting))
    expected = sigma**2 / np.array(tau) ** 2
    np.testing.assert_allclose(1 / np.mean(1 / np.array(found), axis=0), expected, rtol=0.1)


def test_groups_that_are_equal_are_estimated_to_be():
    names = [(0, 0), (0, 1)]  # one group
    data = rows(2, 3)
    found = between_task_pooling(*data, n_tasks=2, nesting=Nesting.of(with_groups(names)))
    assert found == (np.inf, between_task_pooling(*data, n_tasks=2))


def test_relative_pooling_divides_the_variance_of_the_values_among_the_levels():
    of_levels = RelativePooling(2.0, 0.75).of_levels
    for n_levels in (2, 3):
        variances = 1.0 / np.array(of_levels(10.0, n_levels))
        assert variances.sum() == pytest.approx(1 / 20.0)
        assert variances[:-1].sum() == pytest.approx(0.75 / 20.0)
    assert of_levels(10.0, 1) == RelativePooling(2.0).of_levels(10.0, 2) == 20.0


# Whole models -------------------------------------------------------------------------------------


def table_of(n_rows, seed):
    rng = np.random.default_rng(seed)
    slopes = np.random.default_rng(0).normal(1.0, 0.7, (6, 1)) + np.random.default_rng(1).normal(
        0.0, 0.2, (6, 5)
    )
    region, store = rng.integers(0, 6, n_rows), rng.integers(0, 5, n_rows)
    X = pd.DataFrame(rng.random((n_rows, 3)), columns=list("abc"))
    y = np.sin(4 * X["a"]) + slopes[region, store] * X["b"] + 0.3 * rng.normal(size=n_rows)
    return X.assign(region=[f"r{each}" for each in region], store=store), y.to_numpy()


TABLE, Y = table_of(900, 1)
NEW, Y_NEW = table_of(400, 2)
FEATURES = NEW.drop(columns=["region", "store"])
LEVELS = ["region", "store"]


def fitted(library, table=TABLE, **options):
    return mtboost.fit(
        table,
        Y,
        backend=library.name,
        **{
            "task": LEVELS,
            "strategy": "two-stage",
            "split_score": "plain",
            "pooling": (2.0, 10.0),
            "num_boost_round": 10,
            "specific_rounds": 0,
            "validation_fraction": 0,
            "params": {"learning_rate": 0.3, "max_depth": 3},
            **options,
        },
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pooling": "auto"},
        {"pooling": (3.0, np.inf)},
        {"split_score": "entropy"},
        {"task_splits": "descriptors"},
        {"task_splits": True},
        {"linear_effects": True},
        {"linear_effects": True, "task_splits": "descriptors"},
        {"validation_fraction": 0.3, "specific_rounds": 5, "early_stopping_rounds": 3},
    ],
    ids=str,
)
def test_a_tasks_booster_gives_its_margins(library, options, tmp_path):
    model = fitted(library, **options)
    margins = model.predict_margin(NEW)
    assert isinstance(model.common_trees.pooled.pooling, tuple)
    for task in [("r0", 1), ("r5", 4)]:
        own = ((NEW["region"] == task[0]) & (NEW["store"] == task[1])).to_numpy()
        found = library.margins(model.booster(task), FEATURES[own])
        np.testing.assert_allclose(found, margins[own], atol=library.atol)
    elsewhere = {"unknown_task": "common"}
    unknown = model.predict_margin(NEW.assign(store=99), **elsewhere)
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    assert again.tasks == model.tasks
    assert again.common_trees.pooled.pooling == model.common_trees.pooled.pooling
    np.testing.assert_array_equal(again.predict_margin(NEW), margins)
    np.testing.assert_array_equal(again.predict_margin(NEW.assign(store=99), **elsewhere), unknown)


@pytest.mark.parametrize(
    ("places", "constants"),
    [
        (task_trees, {"_FEW_TASKS": 100}),  # the trees of each task, one by one
        (common_trees, {"_LOOK_UPS_PER_NODE": 100, "_BYTES_OF_VALUES": 1}),
        (common_trees, {"_LOOK_UPS_PER_NODE": 100}),  # of many tasks at once
        (common_trees, {"_LOOK_UPS_PER_NODE": 0}),  # leaf values by row
        (task_values, {"_CELLS_PER_ROW": 0}),
    ],
    ids=["each", "blocks of a task", "blocks", "table of values", "search of values"],
)
@pytest.mark.parametrize("options", [{}, {"linear_effects": True}], ids=["plain", "linear effects"])
def test_margins_do_not_depend_on_how_leaf_values_are_found(
    library, options, places, constants, monkeypatch
):
    model = fitted(library, **options)
    unknown = np.arange(len(NEW)) % 7 == 0
    table = NEW.assign(store=np.where(unknown, 99, NEW["store"]))
    rows = [table[row : row + 1] for row in range(30)]
    single = np.concatenate([model.predict_margin(row, unknown_task="common") for row in rows])
    if places is task_values:
        monkeypatch.setattr(common_trees, "_LOOK_UPS_PER_NODE", 0)
    for name, value in constants.items():
        monkeypatch.setattr(places, name, value)
    found = model._copy().predict_margin(table, unknown_task="common")
    np.testing.assert_array_equal(found[:30], single)
    for task in [("r0", 1), ("r5", 4)]:
        own = ((table["region"] == task[0]) & (table["store"] == task[1])).to_numpy()
        expected = library.margins(model.booster(task), FEATURES[own])
        np.testing.assert_allclose(found[own], expected, atol=library.atol)


@pytest.mark.parametrize("pooling", [None, 10.0, (2.0, 10.0)], ids=str)
def test_regions_have_linear_effects_too(library, pooling):
    model = fitted(library, linear_effects=True, pooling=pooling)
    trees = model.common_trees
    assert trees.n_linear > 1
    for own in trees.pooled.values[: trees.n_linear]:
        assert set(own.task) == set(range(len(trees.tasks)))
    options = {"unknown_task": "common"}
    of_region = model.predict_margin(NEW.assign(store=99), **options)
    elsewhere = model.predict_margin(NEW.assign(region="r9"), **options)
    np.testing.assert_allclose(
        library.margins(model.common, FEATURES), elsewhere, atol=library.atol
    )
    assert np.mean((of_region - Y_NEW) ** 2) < np.mean((elsewhere - Y_NEW) ** 2)
    model.add_task(("r0", 99), FEATURES[:5], of_region[:5] + 5, validation_fraction=0)
    own = model.predict_margin(NEW[:5].assign(region="r0", store=99))
    assert np.mean(own - of_region[:5]) > 0.5  # it differs from its region, as other stores do


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_regions_of_one_store_leave_its_linear_effects_about_as_they_are(objective):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 2))
    store = np.repeat(np.arange(20), 60)
    y = X @ [1.0, 0.5] + 1.5 * rng.normal(size=20)[store] * X[:, 0] + 0.5 * rng.normal(size=1200)
    y = y if objective == "reg:squarederror" else y > 0
    margins = []
    for task in (store, [(each, 0) for each in store.tolist()]):
        model = mtboost.fit(
            X,
            y,
            task=task,
            objective=objective,
            strategy="two-stage",
            linear_effects=True,
            split_score="plain",
            num_boost_round=1,
            specific_rounds=0,
            validation_fraction=0,
            params={"learning_rate": 1e-6},
        )
        margins.append(model.predict_margin(X, task=task))
    assert np.std(margins[1] - margins[0]) < 0.05 * np.std(margins[0])


def test_linear_effects_are_limited_by_the_number_of_stores(library, monkeypatch):
    monkeypatch.setattr(linear_effects, "_MOST_NUMBERS", 10 * 3 * 32)  # enough for the 6 regions
    with pytest.raises(ParameterError, match="30 tasks of 3 columns are too many"):
        fitted(library, linear_effects=True)


def test_an_unknown_store_has_the_values_of_its_region_and_an_unknown_region_the_pooled(library):
    model = fitted(library)
    options = {"unknown_task": "common"}
    of_region = model.predict_margin(NEW.assign(store=99), **options)
    elsewhere = model.predict_margin(NEW.assign(region="r9"), **options)
    np.testing.assert_allclose(
        library.margins(model.common, FEATURES), elsewhere, atol=library.atol
    )
    assert np.mean((of_region - Y_NEW) ** 2) < np.mean((elsewhere - Y_NEW) ** 2)
    regions = NEW["region"].to_numpy()
    by_key = model.predict_margin({("r0", 99): FEATURES}, **options)[("r0", 99)]
    np.testing.assert_allclose(by_key[regions == "r0"], of_region[regions == "r0"], atol=1e-12)
    with pytest.raises(DataError, match=r"\('r\d', 99\) at row 0 is unknown"):
        model.predict_margin(NEW.assign(store=99))


def test_a_new_store_is_shrunk_towards_its_region(library):
    model = fitted(library)
    before = model.predict_margin(NEW)
    own = (NEW["region"] == "r0").to_numpy()
    few, y = NEW[own][:2].assign(store=9), Y_NEW[own][:2] + 100.0
    model.add_task(("r0", 9), few, y, validation_fraction=0, specific_rounds=0)
    np.testing.assert_array_equal(model.predict_margin(NEW), before)
    far = model.predict_margin(few)
    of_region = model.predict_margin(few.assign(store=99), unknown_task="common")
    # Of a residual of about 100, a round of rate .3 takes at most 2 / (2 + 10) in a leaf.
    assert (far > of_region).all()
    assert (far - of_region < 101.0 * (1 - (1 - 0.3 * 2 / 12) ** 10)).all()


def test_a_new_store_without_rows_of_weight_has_the_values_of_its_region(library):
    model = fitted(library)
    own = (NEW["region"] == "r1").to_numpy()
    row, y = NEW[own][:1].assign(store=9), Y_NEW[own][:1]
    options = {"validation_fraction": 0, "specific_rounds": 0}
    model.add_task(("r1", 9), row, y, weight=[1e-12], **options)
    np.testing.assert_allclose(
        model.predict_margin(NEW[own].assign(store=9)),
        model.predict_margin(NEW[own].assign(store=99), unknown_task="common"),
        atol=1e-5,
    )


def test_a_new_store_of_a_new_region_starts_that_region(library):
    model = fitted(library)
    own = (NEW["region"] == "r2").to_numpy()
    options = {"validation_fraction": 0, "specific_rounds": 0}
    model.add_task(("r9", 0), NEW[own].assign(region="r9", store=0), Y_NEW[own], **options)
    other = FEATURES.assign(region="r9", store=1)
    of_region = model.predict_margin(other, unknown_task="common")
    of_all = model.predict_margin(other.assign(region="r8"), unknown_task="common")
    of_store = model.predict_margin(other.assign(store=0))
    assert np.abs(of_store - of_region).mean() < np.abs(of_store - of_all).mean()
    assert np.abs(of_region - of_all).mean() > 0.01


def test_columns_name_a_new_store_as_a_list_as_in_fit(library):
    own = (NEW["region"] == "r2").to_numpy()
    rows = NEW[own].assign(region="r9", store=0)
    options = {"validation_fraction": 0, "specific_rounds": 0}
    found = []
    for task in (("r9", 0), LEVELS, tuple(LEVELS)):
        model = fitted(library)
        model.add_task(task, rows, Y_NEW[own], **options)
        assert model.tasks[-1] == ("r9", 0)
        found.append(model.predict(rows))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_the_only_store_of_a_region_may_leave(library):
    model = fitted(library)
    margins = model.predict_margin(NEW)
    kept = ~((NEW["region"] == "r0") & (NEW["store"] == 1)).to_numpy()
    less = model.remove_task(("r0", 1)) or model
    np.testing.assert_array_equal(less.predict_margin(NEW[kept]), margins[kept])


def test_training_evaluates_each_task_by_its_own_values(library):
    train, history, callbacks = library.matrix(TABLE[["a", "b", "c"]], Y), {}, []
    labels, new = (list(zip(t["region"], t["store"], strict=True)) for t in (TABLE, NEW))
    if library.name == "xgboost":
        valid = xgboost.DMatrix(FEATURES, Y_NEW)
        options = {"evals": [(valid, "valid")], "evals_result": history, "verbose_eval": False}
    else:
        valid = library.matrix(FEATURES, Y_NEW, reference=train)
        options = {"valid_sets": [valid], "valid_names": ["valid"]}
        callbacks = [lightgbm.record_evaluation(history)]
    split = library.plugin.TaskSplit(
        labels, split_score="plain", pooling=(2.0, 10.0), valid_tasks=[(valid, new)]
    )
    params = {"max_depth": 3, "eval_metric" if library.name == "xgboost" else "metric": "rmse"}
    options["callbacks"] = [split, *callbacks]
    booster = library.boost(library.squared_error, params, train, 8, **options)
    found = np.empty(len(new))
    for task in dict.fromkeys(new):
        own = [label == task for label in new]
        found[own] = library.margins(split.booster(booster, task), FEATURES[own])
    expected = np.sqrt(np.mean((found - Y_NEW) ** 2))
    assert history["valid"]["rmse"][-1] == pytest.approx(expected, rel=1e-5)


# Names and columns --------------------------------------------------------------------------------


def test_a_flat_label_is_told_the_form_of_nested_ones(library):
    model = fitted(library)
    with pytest.raises(DataError, match=r"'r0' is not nested.* such as \('r0', 0\)"):
        model.predict(FEATURES[:2], task=["r0", "r0"], unknown_task="common")


def test_columns_of_any_data_frame_and_tuples_name_the_same_tasks(library):
    expected = fitted(library)
    tuples = list(zip(TABLE["region"], TABLE["store"], strict=True))
    features = TABLE[["a", "b", "c"]]
    others = [
        (
            fitted(library, features, task=tuples),
            FEATURES,
            list(zip(NEW["region"], NEW["store"], strict=True)),
        ),
        (fitted(library, pl.from_pandas(TABLE)), pl.from_pandas(NEW), None),
        (fitted(library, task=("region", "store")), NEW, LEVELS),
    ]
    for model, table, task in others:
        assert model.tasks == expected.tasks
        assert model.tasks[0] == ("r0", 0)
        np.testing.assert_allclose(
            model.predict_margin(table, task=task), expected.predict_margin(NEW), atol=1e-6
        )


def test_a_table_without_names_has_the_columns_of_the_tasks_where_training_had_them(
    library, tmp_path
):
    order = ["store", "a", "region", "b", "c"]
    codes = TABLE["region"].str[1:].astype(int)
    model = fitted(library, TABLE.assign(region=codes)[order])
    assert model.task_column == ("region", "store")
    assert model.task_position == (2, 0)
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    table = NEW.assign(region=NEW["region"].str[1:].astype(int))[order]
    for own in (model, again):
        for task in (None, LEVELS, ("region", "store")):
            np.testing.assert_array_equal(
                own.predict_margin(table.to_numpy(), task=task), own.predict_margin(table)
            )


def test_training_continues_with_the_columns_of_the_tasks(library):
    model = fitted(library, linear_effects=True)
    options = {"backend": library.name, "num_boost_round": 3, "validation_fraction": 0}
    longer = mtboost.fit(NEW, Y_NEW, task=LEVELS, init_model=model, **options)
    same = model.update(NEW, Y_NEW, rounds=3, validation_fraction=0)
    np.testing.assert_array_equal(longer.predict_margin(NEW), same.predict_margin(NEW))
    assert longer.common_trees.n_linear == model.common_trees.n_linear
    own = ((NEW["region"] == "r2") & (NEW["store"] == 3)).to_numpy()
    found = library.margins(longer.booster(("r2", 3)), FEATURES[own])
    np.testing.assert_allclose(found, longer.predict_margin(NEW)[own], atol=library.atol)


def test_tables_and_notebooks_name_nested_tasks():
    model = mtboost.fit(TABLE, Y, **FEW_ROUNDS)
    names = list(model.tasks)
    assert model.report().index.to_list() == names
    assert model.importance(output="pandas").columns.to_list() == names
    assert model.importance(output="polars").columns == ["feature", *map(str, names)]
    assert model.curves()["task"].drop_duplicates().to_list() == names
    texts = model.curves(output="polars")["task"].unique(maintain_order=True)
    assert texts.to_list() == list(map(str, names))
    assert "<td" in model._repr_html_()
    assert "(&#x27;r0&#x27;, 0)" in model._repr_html_()


def test_a_scorer_evaluates_nested_tasks():
    model = mtboost.MultiTaskRegressor(
        task=LEVELS, strategy="two-stage", pooling=(2.0, 10.0), n_estimators=3
    ).fit(TABLE, Y)
    own = ((NEW["region"] == "r0") & (NEW["store"] == 1)).to_numpy()
    rmse = np.sqrt(np.mean((model.predict(NEW)[own] - Y_NEW[own]) ** 2))
    scorer = task_scorer("rmse", task=LEVELS, only=("r0", 1))
    assert scorer(model, NEW, Y_NEW) == pytest.approx(-rmse)


def test_validation_rows_have_the_columns_of_the_tasks():
    model = mtboost.fit(
        TABLE,
        Y,
        task=LEVELS,
        eval_set=(NEW, Y_NEW),
        strategy="two-stage",
        pooling=(2.0, 10.0),
        num_boost_round=5,
    )
    assert model.task_column == ("region", "store")
    assert set(model.report().index) == set(model.tasks)


def test_an_estimator_takes_the_columns_of_nested_tasks(tmp_path):
    estimator = mtboost.MultiTaskRegressor(
        task=LEVELS, strategy="two-stage", pooling=(2.0, 10.0), n_estimators=5
    ).fit(TABLE, Y)
    assert estimator.tasks_[0] == ("r0", 0)
    assert estimator.score(NEW, Y_NEW) > 0.3
    estimator.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(again.predict(NEW), estimator.predict(NEW))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": ["region", "stroe"]}, "no column 'stroe'. Did you mean 'store'"),
        ({"pooling": (1.0, 2.0, 3.0)}, "pooling has 3 numbers, but the tasks have 2 levels"),
        ({"task": "store"}, "pooling has 2 numbers, but the tasks have 1 level:"),
        ({"pooling": (1.0, -2.0)}, r"pooling\[1\] must be"),
    ],
)
def test_what_does_not_fit_together_is_refused(library, options, message):
    table = TABLE.drop(columns="region") if options.get("task") == "store" else TABLE
    with pytest.raises((DataError, ParameterError), match=message):
        fitted(library, table, **options)


FEW_ROUNDS = {"task": LEVELS, "strategy": "two-stage", "pooling": (2.0, 10.0), "num_boost_round": 3}


@pytest.mark.parametrize("pooling", [(2.0, 10.0), (3.0, np.inf), (0.5, 1.0)], ids=str)
def test_nested_leaves_are_refreshed_by_level(library, pooling):
    model = fitted(library, pooling=pooling)
    again = model.refresh(TABLE, Y, shrink=0)
    for table in (TABLE, NEW.assign(store=99)):  # the values of stores and of regions
        before, found = (
            each.predict_margin(table, unknown_task="common") for each in (model, again)
        )
        np.testing.assert_allclose(found, before, atol=1e-5)
    kept = model.refresh(NEW, Y_NEW + 5, shrink=1e9)
    np.testing.assert_allclose(kept.predict_margin(NEW), model.predict_margin(NEW), atol=1e-4)
    # One region has moved: its stores follow, also those without new rows, and no other region.
    own = ((NEW["region"] == "r0") & (NEW["store"] < 3)).to_numpy()
    moved = model.refresh(NEW[own], Y_NEW[own] + 5, shrink=0.1)
    change = moved.predict_margin(NEW) - model.predict_margin(NEW)
    rest = ((NEW["region"] == "r0") & (NEW["store"] >= 3)).to_numpy()
    assert change[rest].mean() > change[NEW["region"] == "r1"].mean() + 0.2


def test_nested_leaves_are_updated(library):
    model = fitted(library)
    updated = model.update(NEW, Y_NEW, rounds=3, validation_fraction=0) or model
    assert updated.predict_margin(NEW).shape == (len(NEW),)
    of_region = updated.predict_margin(NEW.assign(store=99), unknown_task="common")
    assert np.isfinite(of_region).all()


def test_forests_refuse_nested_tasks():
    features, labels = (
        TABLE[["a", "b", "c"]],
        list(zip(TABLE["region"], TABLE["store"], strict=True)),
    )
    with pytest.raises(UnsupportedError, match="no nested tasks"):
        mtboost.MTExtraTreesRegressor(2).fit(features, Y, task=labels)
    with pytest.raises(UnsupportedError, match="no nested tasks"):
        mtboost.MTExtraTreesRegressor(2, task=LEVELS).fit(TABLE, Y)


@pytest.mark.parametrize("task", [("r0",), ("r0", "x"), "r0", ("r0", 1, 2)])
def test_a_new_task_is_named_as_the_others_are(task):
    with pytest.raises(DataError, match=r"named by tuple \(str, int\)"):
        mtboost.fit(TABLE, Y, **FEW_ROUNDS).add_task(task, FEATURES, Y_NEW)


def test_a_new_store_may_have_as_many_rows_as_there_are_levels():
    model = mtboost.fit(TABLE, Y, **FEW_ROUNDS)
    model.add_task(("r0", 9), FEATURES[:2], Y_NEW[:2], validation_fraction=0, specific_rounds=0)
    assert ("r0", 9) in model.tasks
    with pytest.raises(DataError, match="no column 'region'"):
        model.predict(FEATURES[:2])
