# SPDX-License-Identifier: Apache-2.0
"""Trees that XGBoost grows itself with the leaf values of tasks: those of mtboost's own growth."""

import numpy as np
import pandas as pd
import pytest
import xgboost

import mtboost
from mtboost.errors import UnsupportedError
from mtboost.xgboost import TaskObjective, TaskQuitting, TaskSplit, assemble
from mtboost.xgboost import growth as growing

N_ROWS, N_TASKS = 1200, 6
rng = np.random.default_rng(0)
# Few distinct values: every tree method then has the same candidate splits.
X = rng.integers(0, 12, (N_ROWS, 4)).astype(np.float32)
TASK = rng.integers(0, N_TASKS, N_ROWS)
F = X[:, 0] / 12 * rng.normal(1.0, 0.8, N_TASKS)[TASK] + np.sin(X[:, 1])
WEIGHT = rng.uniform(0.5, 2.0, N_ROWS)
LABELS = {
    "reg:squarederror": F + rng.normal(0, 0.5, N_ROWS),
    "reg:absoluteerror": F + rng.normal(0, 0.5, N_ROWS),
    "binary:logistic": (F + rng.normal(0, 0.5, N_ROWS) > 0.5).astype(float),
    "count:poisson": rng.poisson(np.exp(F)).astype(float),
    "multi:softprob": np.digitize(F + rng.normal(0, 0.5, N_ROWS), [0.0, 0.8]).astype(float),
}
Y = LABELS["reg:squarederror"]
PARAMS = {"max_depth": 4, "learning_rate": 0.3, "nthread": 1}
SAME = {"rtol": 0, "atol": 1e-6}  # leaves are float32, of sums in another order


@pytest.fixture(autouse=True)
def several_boosters(monkeypatch):
    """Let one booster grow few of the rounds."""
    monkeypatch.setattr(assemble, "FEW_ROUNDS", 2)


@pytest.fixture
def forced(monkeypatch):
    """Let XGBoost grow what mtboost would grow."""
    monkeypatch.setattr(growing, "why_library_grows", lambda *_: "this test")


def params_of(objective, params):
    classes = {"num_class": 3} if objective.startswith("multi") else {}
    return {**PARAMS, "objective": objective, **classes, **params}


def train(
    params=(),
    objective="reg:squarederror",
    *,
    make=xgboost.QuantileDMatrix,
    table=X,
    rounds=6,
    callbacks=(),
    xgb_model=None,
    task=TASK,
    **options,
):
    split = TaskSplit(task, **{"split_score": "plain", "pooling": 10.0, **options})
    matrix = make(table, LABELS[objective], weight=WEIGHT, enable_categorical=True)
    params = params_of(objective, dict(params))
    booster = xgboost.train(
        params, matrix, rounds, callbacks=[split, *callbacks], xgb_model=xgb_model
    )
    return split, booster


def margins(found, table=X, task=TASK):
    """Margins of all rows, each by the booster of its task."""
    split, booster = found
    result = None
    for number, name in enumerate(split.tasks.names):
        own = split.booster(booster, name)
        rows = np.flatnonzero(split.tasks.codes == number)
        part = table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]
        matrix = xgboost.DMatrix(part, enable_categorical=True)
        margin = own.predict(matrix, output_margin=True)
        if result is None:
            result = np.empty((len(table), *margin.shape[1:]))
        result[rows] = margin
    return result


def with_missing(table):
    table = table.copy()
    table[np.random.default_rng(1).random(table.shape) < 0.1] = np.nan
    return table


CATEGORIES = pd.DataFrame(
    {"a": pd.Categorical(X[:, 0].astype(int)), "b": X[:, 1], "c": X[:, 2]},
)
VARIANTS = {
    **{name: ({}, name, {}) for name in LABELS},
    "missing values": ({}, "reg:squarederror", {"table": with_missing(X)}),
    "categories": ({}, "reg:squarederror", {"table": CATEGORIES}),
    "sampled rows": ({"subsample": 0.6, "seed": 7}, "reg:squarederror", {}),
    "sampled rows of classes": ({"subsample": 0.6}, "multi:softprob", {}),
    "loss-guided": ({"grow_policy": "lossguide", "max_leaves": 9}, "reg:squarederror", {}),
    "monotone": ({"monotone_constraints": (1, 0, -1, 0)}, "binary:logistic", {}),
    "estimated": ({}, "binary:logistic", {"pooling": "auto"}),
    "pooled": ({}, "count:poisson", {"pooling": None}),
    "separate": ({}, "reg:squarederror", {"pooling": 0.0}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_trees_of_the_library_have_the_margins_of_native_growth(variant, monkeypatch):
    params, objective, options = VARIANTS[variant]
    table = options.get("table", X)
    native = train(params, objective, **options)
    monkeypatch.setattr(growing, "why_library_grows", lambda *_: "this test")
    found = train(params, objective, **options)
    np.testing.assert_allclose(margins(found, table), margins(native, table), **SAME)


@pytest.mark.parametrize("pooling", [(20.0, 10.0), "auto"])
def test_nested_tasks_have_the_margins_of_native_growth(pooling, monkeypatch):
    task = list(zip((TASK // 3).tolist(), TASK.tolist(), strict=True))
    native = train(task=task, pooling=pooling)
    monkeypatch.setattr(growing, "why_library_grows", lambda *_: "this test")
    np.testing.assert_allclose(margins(train(task=task, pooling=pooling)), margins(native), **SAME)


@pytest.mark.parametrize("tree_method", ["approx", "exact"])
@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_other_tree_methods_have_the_margins_of_hist(tree_method, objective):
    found = train({"tree_method": tree_method}, objective, make=xgboost.DMatrix)
    np.testing.assert_allclose(margins(found), margins(train({}, objective)), **SAME)


@pytest.mark.parametrize("params", [{}, {"min_split_loss": 3.0}, {"colsample_bytree": 0.5}])
@pytest.mark.parametrize("tree_method", ["approx", "exact"])
def test_pooled_leaves_are_those_of_stock_training(tree_method, params):
    # tree_method="exact" prunes splits that gain too little, and keeps their nodes in the arrays.
    params = {"tree_method": tree_method, "max_depth": 5, **params}
    _, booster = train(params, make=xgboost.DMatrix, pooling=None)
    stock = xgboost.train({**PARAMS, **params}, xgboost.DMatrix(X, Y, weight=WEIGHT), 6)
    rows = xgboost.DMatrix(X)
    np.testing.assert_allclose(booster.predict(rows), stock.predict(rows), **SAME)
    loaded = xgboost.Booster(model_file=booster.save_raw())
    assert np.array_equal(loaded.predict(rows), booster.predict(rows))


def test_vector_leaves_become_a_tree_for_each_output():
    vectors, objective = {"multi_strategy": "multi_output_tree"}, "multi:softprob"
    _, booster = train(vectors, objective, pooling=None)
    matrix = xgboost.QuantileDMatrix(X, LABELS[objective], weight=WEIGHT)
    stock = xgboost.train(params_of(objective, vectors), matrix, 6)
    rows = xgboost.DMatrix(X)
    np.testing.assert_allclose(booster.predict(rows), stock.predict(rows), **SAME)
    assert len(booster.get_dump()) == 3 * booster.num_boosted_rounds()


def test_vector_leaves_are_shrunk_for_each_task():
    kappa, vectors = 10.0, {"multi_strategy": "multi_output_tree", "base_score": 0.5}
    found = train(vectors, "multi:softprob", rounds=1, pooling=kappa)
    split, booster = found
    start = booster.predict(xgboost.DMatrix(X), output_margin=True, iteration_range=(0, 1))
    leaf = booster.predict(xgboost.DMatrix(X), pred_leaf=True)[:, 0]
    pooled = start - 0.5
    p = 1 / 3  # all margins begin alike
    own = margins(found) - 0.5
    for output in range(3):
        gradient = (p - (LABELS["multi:softprob"] == output)) * WEIGHT
        hessian = 2 * p * (1 - p) * WEIGHT
        for node in np.unique(leaf):
            for task in range(N_TASKS):
                rows = (leaf == node) & (task == TASK)
                if not rows.any():
                    continue
                w = pooled[rows, output][0] / 0.3
                G, H = gradient[rows].sum(), hessian[rows].sum()
                expected = 0.3 * (w - (G + H * w) / (H + kappa))
                np.testing.assert_allclose(own[rows, output], expected, rtol=0, atol=1e-5)
    assert len(split.pooled.values) == 3


class Pages(xgboost.DataIter):
    """The rows in three pages."""

    def __init__(self, path):
        self._page = 0
        super().__init__(cache_prefix=str(path / "pages"))

    def reset(self):
        self._page = 0

    def next(self, input_data):
        if self._page == 3:
            return False
        rows = slice(self._page * N_ROWS // 3, (self._page + 1) * N_ROWS // 3)
        input_data(data=X[rows], label=Y[rows], weight=WEIGHT[rows])
        self._page += 1
        return True


@pytest.mark.parametrize(
    ("make", "tree_method"),
    [
        (xgboost.ExtMemQuantileDMatrix, "hist"),
        (xgboost.DMatrix, "hist"),
        (xgboost.DMatrix, "approx"),
    ],
)
def test_external_memory_has_the_margins_of_memory(make, tree_method, tmp_path):
    found = train(
        {"tree_method": tree_method}, make=lambda *_, **__: make(Pages(tmp_path), nthread=1)
    )
    np.testing.assert_allclose(margins(found), margins(train()), **SAME)


def test_evaluation_and_early_stopping_use_the_values_of_tasks(forced):
    valid = xgboost.DMatrix(X[:300], Y[:300])
    split = TaskSplit(TASK, split_score="plain", pooling=10.0, valid_tasks=[(valid, TASK[:300])])
    results = {}
    booster = xgboost.train(
        PARAMS,
        xgboost.QuantileDMatrix(X, Y, weight=WEIGHT),
        60,
        evals=[(valid, "valid")],
        evals_result=results,
        early_stopping_rounds=3,
        verbose_eval=False,
        callbacks=[split],
    )
    scores = results["valid"]["rmse"]
    assert booster.best_iteration == int(np.argmin(scores))
    own = margins((split, booster))[:300]
    assert scores[-1] == pytest.approx(np.sqrt(np.mean((own - Y[:300]) ** 2)), abs=1e-5)


def test_a_model_is_continued(forced):
    whole = train(rounds=6, pooling=None)[1]
    first = train(rounds=2, pooling=None)[1]
    second = train(rounds=4, pooling=None, xgb_model=first)[1]
    rows = xgboost.DMatrix(X)
    np.testing.assert_allclose(second.predict(rows), whole.predict(rows), **SAME)


def test_a_model_of_vector_leaves_is_continued():
    vectors, objective = {"multi_strategy": "multi_output_tree"}, "multi:softprob"
    matrix = xgboost.QuantileDMatrix(X, LABELS[objective], weight=WEIGHT)
    whole = xgboost.train(params_of(objective, vectors), matrix, 6)
    first = xgboost.train(params_of(objective, vectors), matrix, 2)
    second = train(vectors, objective, rounds=4, pooling=None, xgb_model=first)[1]
    third = train(vectors, objective, rounds=2, pooling=None, xgb_model=second)[1]
    rows = xgboost.DMatrix(X)
    np.testing.assert_allclose(second.predict(rows), whole.predict(rows), **SAME)
    assert third.num_boosted_rounds() == 8


def test_learning_rates_of_a_schedule_are_followed(monkeypatch):
    def trained():
        schedule = xgboost.callback.LearningRateScheduler(lambda epoch: 0.5 / (1 + epoch))
        return margins(train(callbacks=[schedule]))

    native = trained()
    monkeypatch.setattr(growing, "why_library_grows", lambda *_: "this test")
    np.testing.assert_allclose(trained(), native, **SAME)


def test_tasks_quit(monkeypatch):
    def trained():
        quitting = TaskQuitting(xgboost.DMatrix(X, -Y), TASK, early_stopping_rounds=2)
        found = train(callbacks=[quitting], rounds=10)
        return quitting.quit_round, margins(found)

    (native_rounds, native) = trained()
    monkeypatch.setattr(growing, "why_library_grows", lambda *_: "this test")
    rounds, found = trained()
    assert rounds == native_rounds
    np.testing.assert_allclose(found, native, **SAME)


def test_weights_of_tasks_have_the_margins_of_native_growth(monkeypatch):
    def trained():
        split = TaskSplit(TASK, split_score="plain", pooling=10.0)
        objective = TaskObjective("binary:logistic", TASK, task_weight="balanced")
        matrix = xgboost.QuantileDMatrix(X, LABELS["binary:logistic"])
        params = {**PARAMS, "disable_default_eval_metric": 1, "base_score": 0.0}
        booster = xgboost.train(params, matrix, 5, obj=objective, callbacks=[split])
        return margins((split, booster))

    native = trained()
    monkeypatch.setattr(growing, "why_library_grows", lambda *_: "this test")
    np.testing.assert_allclose(trained(), native, **SAME)


class OnDevice:
    """An array of CuPy: NumPy does not convert it, and asks for ``get``."""

    def __init__(self, values):
        self._values = values
        self.__cuda_array_interface__ = {}

    def get(self):
        return self._values

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


def test_an_objective_may_return_arrays_on_a_gpu(forced):
    def gradients(margins, matrix):
        return margins - matrix.get_label(), np.ones_like(margins)

    def trained(objective):
        split = TaskSplit(TASK, split_score="plain", pooling=10.0)
        data = xgboost.QuantileDMatrix(X, Y)
        return margins((split, xgboost.train(PARAMS, data, 4, obj=objective, callbacks=[split])))

    found = trained(lambda *arguments: [*map(OnDevice, gradients(*arguments))])
    assert np.array_equal(found, trained(gradients))


# ---- fit ---------------------------------------------------------------------------------------


def fit(params=(), **options):
    options = {"strategy": "two-stage", "split_score": "plain", "pooling": 10.0, **options}
    size = {"max_depth": 3, "learning_rate": 0.3, **dict(params)}
    return mtboost.fit(X, Y, task=TASK, params=size, num_boost_round=8, n_threads=1, **options)


@pytest.mark.parametrize("tree_method", ["approx", "exact"])
def test_fit_follows_other_tree_methods(tree_method):
    found = fit({"tree_method": tree_method}, specific_rounds=4)
    expected = fit(specific_rounds=4)
    rows = {task: X[task == TASK] for task in range(N_TASKS)}
    predicted, same = found.predict(rows), expected.predict(rows)
    for task in rows:
        np.testing.assert_allclose(predicted[task], same[task], **SAME)
        own = found.booster(task).predict(xgboost.DMatrix(rows[task]))
        assert np.array_equal(own, predicted[task])


def test_fit_saves_and_loads_trees_of_the_library(tmp_path):
    model = fit({"tree_method": "approx"})
    model.save(tmp_path / "model.mtb")
    loaded = mtboost.load_model(tmp_path / "model.mtb")
    rows = {0: X[TASK == 0]}
    assert np.array_equal(loaded.predict(rows)[0], model.predict(rows)[0])


def test_fit_grows_plain_trees_where_the_library_grows_them():
    model = fit({"tree_method": "approx"}, split_score=None)
    same = fit({"tree_method": "approx"})
    rows = {0: X[TASK == 0]}
    assert np.array_equal(model.predict(rows)[0], same.predict(rows)[0])


def test_the_search_keeps_to_what_the_library_can_grow():
    options = {"n_threads": 1, "num_boost_round": 5, "validation_fraction": 0.25}
    model = mtboost.fit(X, Y, task=TASK, params={"tree_method": "approx"}, **options)
    plain = mtboost.fit(X, Y, task=TASK, **options)
    assert any("symmetric" in name for name in plain.common_losses)
    assert not any("symmetric" in name or "split" in name for name in model.common_losses)


# ---- refused -----------------------------------------------------------------------------------

APPROX = {"tree_method": "approx"}
REFUSED = {
    "entropy": ({"split_score": "entropy", "pooling": None}, "split_score='entropy'.*'plain'"),
    "symmetric": ({"symmetric_trees": True}, "symmetric_trees=True.*leave it out"),
    "task column": ({"task_column": 0}, "task_column.*leave it out"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_only_mtboost_grows_is_refused_with_trees_of_the_library(case):
    options, message = REFUSED[case]
    with pytest.raises(UnsupportedError, match=f"{message}.*tree_method='hist'"):
        train(APPROX, make=xgboost.DMatrix, **options)


def test_external_memory_refuses_scores_over_tasks(tmp_path):
    with pytest.raises(UnsupportedError, match="entropy.*external memory.*in memory"):
        train(
            make=lambda *_, **__: xgboost.DMatrix(Pages(tmp_path)),
            split_score="entropy",
            pooling=None,
        )


@pytest.mark.parametrize(
    "options", [{"split_score": "entropy"}, {"task_splits": 1.0}, {"symmetric_trees": True}]
)
def test_fit_refuses_what_only_mtboost_grows(options):
    with pytest.raises(UnsupportedError, match="with tree_method='approx' the library grows"):
        fit(APPROX, **{"pooling": None, **options})


def test_fit_refuses_vector_leaves():
    with pytest.raises(UnsupportedError, match="multi_output_tree.*Leave it out"):
        fit({"multi_strategy": "multi_output_tree"})
