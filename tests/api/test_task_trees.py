# SPDX-License-Identifier: Apache-2.0
"""Predictions by the core: bits of the library, trees laid out once, bounded memory."""

import copy
import pickle
import threading

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
import xgboost
from libraries import LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal

import mtboost
from mtboost.base.latest import Latest
from mtboost.errors import DataError
from mtboost.model.parts import common_stage, task_trees
from mtboost.model.parts.task_trees import TaskTrees
from mtboost.model.stages import adding, common_trees
from mtboost.trees.nodes import Nodes

N = 330
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 4))
X[::9, 1] = np.nan
TASK = RNG.choice([3, 5, 11], N, p=[0.5, 0.3, 0.2])
MARGIN = np.nan_to_num(X[:, 0] + X[:, 1]) + (TASK == 5) * X[:, 2]
Y = MARGIN + 0.3 * RNG.normal(size=N)
BINARY = (Y > 0).astype(float)
OPTIONS = {"num_boost_round": 12, "specific_rounds": 6, "n_threads": 1}
KINDS = {
    "same trees": {},
    "pooled leaves": {"pooling": 2.0},
    "task splits": {"task_splits": True, "split_score": "plain"},
    "descriptors": {"task_splits": "descriptors", "split_score": "plain"},
    "pooled leaves and task splits": {"pooling": 2.0, "task_splits": True, "split_score": "plain"},
    "no specific": {"specific_rounds": 0},
}


def fit(library, y=Y, *, table=X, **options):
    given = {"strategy": "two-stage", "objective": library.squared_error, "backend": library.name}
    return mtboost.fit(table, y, task=TASK, **{**given, **OPTIONS, **options})


def by_library(model, monkeypatch, method, *args, **kwargs):
    """A prediction without the core's trees."""
    with monkeypatch.context() as patch:
        patch.setattr(TaskTrees, "margins", lambda *_: None)
        return getattr(model, method)(*args, **kwargs)


def check_bits(model, monkeypatch, method, *args, **kwargs):
    found = getattr(model, method)(*args, **kwargs)
    expected = by_library(model, monkeypatch, method, *args, **kwargs)
    assert found.dtype == expected.dtype
    assert_array_equal(found, expected)


@pytest.fixture
def of_core(monkeypatch):
    """Fails unless the core predicts."""
    own = TaskTrees.margins

    def margins(*args):
        found = own(*args)
        assert found is not None
        return found

    monkeypatch.setattr(TaskTrees, "margins", margins)


NEW = RNG.normal(size=(N, 4))
NEW[::5, 0] = np.nan  # a column that has no missing value in training
NEW[::11, 1] = np.nan
NEW[:3, 2] = [0.0, 1e-40, -1e-36]


@pytest.mark.usefixtures("of_core")
@pytest.mark.parametrize("kind", KINDS)
def test_margins_have_the_bits_of_the_library(library, kind, monkeypatch):
    model = fit(library, **KINDS[kind])
    start = RNG.normal(size=N)
    for table in (
        NEW,
        NEW.astype(np.float32),
        np.asfortranarray(NEW),
        NEW[:, ::-1][:, ::-1],
        np.nan_to_num(100 * NEW).astype(np.int64),
        pd.DataFrame(NEW),
        pd.DataFrame(NEW)
        .assign(**{"2": np.arange(N)})
        .set_axis(list("abcde"), axis=1)[list("abcd")],
    ):
        check_bits(model, monkeypatch, "predict_margin", table, task=TASK)
    check_bits(model, monkeypatch, "predict_margin", NEW, task=TASK, base_margin=start)
    check_bits(model, monkeypatch, "predict", NEW[:13], task=TASK[:13])
    for task in model.tasks:
        check_bits(model, monkeypatch, "predict_margin", NEW[:9], task=[task] * 9)
        check_bits(model, monkeypatch, "predict_margin", NEW[:1], task=[task])
    unknown = np.where(TASK == 5, 4, TASK)
    check_bits(model, monkeypatch, "predict", NEW, task=unknown, unknown_task="common")


CATEGORIES = pd.DataFrame(X, columns=[*"abcd"])
for name, n_categories in (
    ("few", 3),
    ("some", 20),
    ("many", 70),
):  # `many` takes two words of bits
    codes = RNG.integers(-1, n_categories, N)  # -1 is missing
    CATEGORIES[name] = pd.Categorical.from_codes(
        codes, [f"{name} {i}" for i in range(n_categories)]
    )
Y_OF_CATEGORIES = Y + CATEGORIES["some"].cat.codes % 3 + CATEGORIES["many"].cat.codes % 2
NEW_CATEGORIES = CATEGORIES.sample(frac=1.0, random_state=0)
NEW_CATEGORIES[[*"abcd"]] = NEW
# Other labels in another order, some of them unknown.
NEW_CATEGORIES["some"] = NEW_CATEGORIES["some"].cat.set_categories(
    ["new", *(f"some {i}" for i in range(18, -1, -2))]
)


@pytest.mark.usefixtures("of_core")
@pytest.mark.parametrize("params", [{}, {"max_cat_to_onehot": 100}], ids=["sets", "one-hot"])
@pytest.mark.parametrize("kind", ["same trees", "pooled leaves", "no specific"])
def test_margins_of_categories_have_the_bits_of_the_library(library, kind, params, monkeypatch):
    if library.name == "lightgbm":
        params = {**params, "min_data_per_group": 1, "cat_smooth": 1.0}
    model = fit(library, Y_OF_CATEGORIES, table=CATEGORIES, params=params, **KINDS[kind])
    nodes = model._library.document(model.common).nodes()
    assert len(nodes.category_nodes.nodes) > 0
    check_bits(model, monkeypatch, "predict_margin", NEW_CATEGORIES, task=TASK)
    for task in model.tasks:
        check_bits(model, monkeypatch, "predict_margin", NEW_CATEGORIES[:9], task=[task] * 9)
        own = model.booster(task)
        if library.name == "xgboost":
            matrix = xgboost.DMatrix(CATEGORIES[own.feature_names], enable_categorical=True)
            expected = own.predict(matrix, output_margin=True)
        else:
            expected = own.predict(CATEGORIES, raw_score=True)
        found = model.predict_margin(CATEGORIES, task=[task] * N)
        # LightGBM's booster of a task adds the specific trees one by one to the common ones.
        tolerance = 0 if library.name == "xgboost" else 1e-13
        assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("of_core")
@pytest.mark.parametrize("lookups", [0, 10**9])
@pytest.mark.parametrize("kind", KINDS)
def test_margins_of_many_tasks_have_the_bits_of_the_library(library, kind, lookups, monkeypatch):
    monkeypatch.setattr(task_trees, "_FEW_TASKS", 1)
    monkeypatch.setattr(common_trees, "_LOOK_UPS_PER_NODE", lookups)
    monkeypatch.setattr(common_trees, "_BYTES_OF_VALUES", 1)  # one task at a time
    model = fit(library, **KINDS[kind])
    check_bits(model, monkeypatch, "predict_margin", NEW, task=TASK)
    check_bits(model, monkeypatch, "predict_margin", NEW, task=TASK, base_margin=RNG.normal(size=N))
    unknown = np.where(TASK == 5, 4, TASK)
    check_bits(model, monkeypatch, "predict", NEW, task=unknown, unknown_task="common")


@pytest.mark.usefixtures("of_core")
def test_predictions_of_classes_have_the_bits_of_the_library(library, monkeypatch):
    model = fit(library, BINARY, objective=library.own("binary:logistic"))
    check_bits(model, monkeypatch, "predict", NEW, task=TASK)
    check_bits(model, monkeypatch, "predict_proba", NEW, task=TASK)
    model = fit(library, np.digitize(Y, [-1, 1]), objective=library.multiclass)
    start = RNG.normal(size=(N, 3))
    check_bits(model, monkeypatch, "predict", NEW, task=TASK)
    check_bits(model, monkeypatch, "predict_margin", NEW, task=TASK, base_margin=start)


@pytest.mark.usefixtures("of_core")
def test_tasks_of_different_objectives_have_the_bits_of_the_library(library, monkeypatch):
    objective = dict.fromkeys((3, 5, 11), library.squared_error)
    objective[5] = library.own("binary:logistic")
    model = fit(library, np.where(TASK == 5, BINARY, Y), objective=objective)
    check_bits(model, monkeypatch, "predict", NEW, task=TASK)
    check_bits(model, monkeypatch, "predict_margin", NEW, task=TASK, base_margin=NEW[:, 3])


@pytest.mark.usefixtures("of_core")
@pytest.mark.parametrize("few_tasks", [1, 16])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "descriptors"])
def test_tasks_in_units_have_the_bits_of_their_boosters(library, kind, few_tasks, monkeypatch):
    monkeypatch.setattr(task_trees, "_FEW_TASKS", few_tasks)
    monkeypatch.setattr(common_trees, "_BYTES_OF_VALUES", 1)  # one task at a time
    units = np.select([TASK == 3, TASK == 5], [100.0, 1e-3], 1.0)
    labels, other_way = (units * (2.0 + y) for y in (Y, np.where(TASK == 11, -Y, Y)))
    objective = dict.fromkeys((3, 5, 11), library.squared_error)
    options = {**KINDS[kind], "objective": objective, "early_stopping_rounds": 3}
    model = fit(library, labels, eval_set=(X, other_way, TASK), **options)
    assert model.quit_round[11] == 0 < model.quit_round[5]
    check_bits(model, monkeypatch, "predict_margin", NEW, task=TASK)
    check_bits(model, monkeypatch, "predict_margin", NEW, task=TASK, base_margin=NEW[:, 3])


@pytest.mark.usefixtures("of_core")
def test_columns_of_the_specific_models_alone_are_read(library, monkeypatch):
    table = pd.DataFrame(X, columns=list("abcd"))
    model = fit(library, table=table, common_features=["b", "a"])
    new = pd.DataFrame(NEW, columns=list("abcd"))[list("dcba")]
    check_bits(model, monkeypatch, "predict", new, task=TASK)
    assert_array_equal(
        model.predict({5: new[TASK == 5]})[5], model.predict(new, task=TASK)[TASK == 5]
    )


@pytest.mark.usefixtures("of_core")
def test_small_tables_of_other_libraries_are_copied(library, monkeypatch):
    model = fit(library, pooling=2.0)
    integers = np.nan_to_num(100 * NEW).astype(np.int64)
    integers[:3, 0] = [2**53 + 1, 2**60 + 2**36 + 1, -(2**40) - 1]  # two roundings would show
    floats = polars.DataFrame(NEW, schema=list("abcd"))
    mixed = floats.with_columns(
        polars.Series("a", integers[:, 0]),
        polars.col("b").cast(polars.Float32).fill_nan(None),
        (polars.col("c") > 0).alias("c"),
    )
    sparse = scipy.sparse.csr_array(np.where(np.abs(NEW) < 0.3, 0.0, NEW))
    for table in (floats, mixed, mixed.to_arrow(), sparse, sparse.tocsc(), sparse.tocsr()[:1]):
        own = TASK[: table.shape[0]]
        check_bits(model, monkeypatch, "predict_margin", table, task=own)


@pytest.mark.parametrize("kind", KINDS)
def test_boosters_of_tasks_have_the_bits_of_leaf_values_by_row(library, kind, monkeypatch):
    options = dict(KINDS[kind])
    if "task_splits" in options:
        table = pd.DataFrame(X, columns=list("abcd"))
        monkeypatch.setattr(TaskTrees, "margins", lambda *_: None)
    else:
        table = pd.DataFrame(X, columns=list("abcd")).assign(e=pd.Categorical(np.arange(N) % 3))
    model = fit(library, table=table, **options)
    unknown = np.where(TASK == 5, 4, TASK)
    for task, start in ((TASK, None), (TASK, RNG.normal(size=N)), (unknown, None)):
        own = {"task": task, "base_margin": start, "unknown_task": "common"}
        found = model.predict_margin(table, **own)
        one = model.predict_margin(table[:1], task=task[:1], unknown_task="common")
        with monkeypatch.context() as patch:
            patch.setattr(common_stage, "_FEW_TASKS", 0)
            expected = model.predict_margin(table, **own)
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)
        if start is None:
            assert_array_equal(one, expected[:1])


def test_infinite_values_are_refused_as_before():
    model = fit(LIBRARIES["xgboost"])
    table = NEW.copy()
    table[40, 2] = np.inf
    with pytest.raises(DataError, match="X is inf in column 2"):
        model.predict(table, task=TASK)


# ---- what is kept ------------------------------------------------------------------------------


def count_layouts(monkeypatch):
    """How often trees are laid out for the core."""
    made, own = [], Nodes.trees

    def trees(nodes):
        made.append(nodes)
        return own(nodes)

    monkeypatch.setattr(Nodes, "trees", trees)
    return made


@pytest.mark.parametrize("kind", ["same trees", "pooled leaves and task splits"])
def test_threads_that_predict_at_once_lay_trees_out_once(library, kind, monkeypatch):
    model = fit(library, **KINDS[kind])
    expected = copy.deepcopy(model).predict(NEW, task=TASK)
    made = count_layouts(monkeypatch)
    barrier, found = threading.Barrier(4), [None] * 4

    def predict(place):
        barrier.wait()
        found[place] = model.predict(NEW, task=TASK)

    threads = [threading.Thread(target=predict, args=[place]) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own in found:
        assert_array_equal(own, expected)
    n_common = 1 if kind == "same trees" else len(model.tasks)
    assert len(made) == n_common + sum(own is not None for own in model.specific.values())


@pytest.mark.parametrize("kind", ["same trees", "pooled leaves", "descriptors"])
def test_a_task_that_joins_is_predicted_with_its_own_trees(library, kind, monkeypatch):
    model = fit(library, **KINDS[kind])
    before = model.predict(NEW, task=TASK)
    rows = RNG.normal(size=(90, 4))
    model.add_task(20, rows, rows[:, 3], specific_rounds=4, n_threads=1)
    check_bits(model, monkeypatch, "predict", NEW, task=np.full(N, 20))
    if kind != "descriptors":  # the ranks of the other tasks change
        assert_array_equal(model.predict(NEW, task=TASK), before)


def test_copies_pickles_and_files_hold_no_trees_of_the_core(library, tmp_path):
    model = fit(library)
    size = len(pickle.dumps(model))
    expected = model.predict(NEW, task=TASK)
    assert len(pickle.dumps(model)) == size
    model.save(tmp_path / "model")
    for other in (
        copy.copy(model),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        mtboost.load_model(tmp_path / "model"),
    ):
        assert_array_equal(other.predict(NEW, task=TASK), expected)


def test_memory_is_bounded_and_predictions_do_not_depend_on_it(library, monkeypatch):
    model = fit(library, pooling=2.0)
    expected = model.predict(NEW, task=TASK)
    everything = model._task_trees.n_bytes
    monkeypatch.setattr(task_trees, "MOST_BYTES", everything // 3)
    monkeypatch.setattr(adding, "_BYTES_OF_A_CALL", 1)
    short = copy.deepcopy(model)
    assert_array_equal(short.predict(NEW, task=TASK), expected)
    assert 0 < short._task_trees.n_bytes <= everything // 3


class Sized:
    def __init__(self, n_bytes):
        self.n_bytes = n_bytes


def test_the_values_used_last_are_kept():
    latest, made = Latest(10), []

    def get(key, n_bytes):
        def make():
            made.append(key)
            return Sized(n_bytes)

        return latest.get(key, make)

    first = get("a", 4)
    get("b", 4)
    assert get("a", 4) is first
    get("c", 5)  # b was used before a
    assert latest.n_bytes == 4 + 5
    assert get("a", 4) is first
    get("b", 4)
    assert made == ["a", "b", "c", "b"]
    get("large", 11)
    assert latest.n_bytes == 11
    get("a", 4)
    assert latest.n_bytes == 4
    assert latest.get("none", lambda: None) is None
