# SPDX-License-Identifier: Apache-2.0
"""Models of small tasks, trained side by side, are those that XGBoost trains one by one."""

import json

import numpy as np
import pandas
import pytest
import xgboost
from model_archives import forged, unpacked
from numpy.testing import assert_array_equal

import mtboost
from mtboost.base.archive import array_from_bytes, array_to_bytes
from mtboost.base.checked_tables import as_table
from mtboost.errors import ModelFormatError
from mtboost.model.parts import model_file
from mtboost.model.sharing.evidence import Evidence
from mtboost.model.stages import small_models, specific
from mtboost.trees.backend import Rows
from mtboost.xgboost import assemble
from mtboost.xgboost.backend import XgboostBackend
from mtboost.xgboost.library import version
from mtboost.xgboost.small_models import XgboostSmallTrainer

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

N_TASKS = 12
RNG = np.random.default_rng(8)
# From one row to about a hundred.
TASK = np.sort(np.append(RNG.choice(N_TASKS, 600, p=np.arange(1, 13) / 78), np.arange(N_TASKS)))
N = len(TASK)
X = RNG.normal(size=(N, 5))
X[:, 1] = np.round(X[:, 1])
X[:, 4] = TASK  # a constant in each task
WITH_MISSING = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
WITH_CATEGORIES = pandas.DataFrame(WITH_MISSING, columns=[*"abcde"])
for name, n_categories in (("few", 3), ("some", 6), ("many", 40)):
    codes = RNG.integers(-1, n_categories, N)  # -1 is missing
    WITH_CATEGORIES[name] = pandas.Categorical.from_codes(codes, [*range(n_categories)])
Y = X[:, 0] + RNG.normal(size=N_TASKS)[TASK] * X[:, 2] + 0.3 * RNG.normal(size=N)
POSITIVE = (Y > 0).astype(float)
CLASSES = np.digitize(Y, [-1.0, 0.0, 1.5]).astype(float)
WIDE = Y * 10.0 ** RNG.uniform(-12, 2, N)  # sums of such gradients round


def fit(X=X, y=Y, **arguments):
    own = {"num_boost_round": 6, "specific_rounds": 12, "early_stopping_rounds": 3}
    return mtboost.fit(X, y, task=TASK, **{"strategy": "two-stage", **own, **arguments})


SEARCHED = {"strategy": "auto", "effort": "fast", "validation_fraction": 0.25}
SEARCHED |= {"early_stopping_rounds": 20}


def trees(booster):
    """All of a model but its start score: it continues other margins."""
    if booster is None:
        return None
    learner = json.loads(booster.save_raw("json"))["learner"]
    del learner["learner_model_param"]["base_score"]
    return learner


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"X": WITH_MISSING},
        {"y": POSITIVE},
        {"y": POSITIVE, "objective": "count:poisson", "refit": False},
        {"y": WIDE},
        {"weight": 1.0 + TASK % 3},
        {"params": {"subsample": 0.6}, "X": WITH_MISSING, "seed": 3},
        {"params": {"subsample": 0.6}, "y": POSITIVE, "weight": 0.1 + TASK % 3},
        {"params": {"gamma": 0.4, "alpha": 0.3, "max_delta_step": 0.4, "eta": 0.5}},
        {"params": {"min_child_weight": 0, "lambda": 0, "max_depth": 9}, "y": POSITIVE},
        {"params": {"grow_policy": "lossguide", "max_leaves": 5, "max_depth": 0}},
        {"params": {"monotone_constraints": (1, 0, -1, 0, 0)}, "X": WITH_MISSING},
        {"params": {"max_bin": 8}},
        {"params": {"max_bin": 8}, "y": WIDE},
        {"params": {"max_bin": 8}, "X": WITH_MISSING},
        {"params": {"max_bin": 20, "max_depth": 8, "min_child_weight": 0}, "y": POSITIVE},
        {"params": {"max_bin": 8, "subsample": 0.6}, "weight": 1.0 + TASK % 3},
        {"params": {"max_bin": 8}, "weight": 0.1 + np.abs(X[:, 3])},
        {"params": {"max_bin": 8}, "symmetric_trees": True, "split_score": "plain"},
        {"symmetric_trees": True, "split_score": "plain", "params": {"subsample": 0.8}},
        {"y": CLASSES, "objective": "multi:softprob"},
        {"y": CLASSES, "objective": "multi:softmax", "X": WITH_MISSING, "weight": 1.0 + TASK % 3},
        {"y": CLASSES, "objective": "multi:softprob", "params": {"subsample": 0.6}, "seed": 3},
        {
            "y": CLASSES,
            "objective": "multi:softprob",
            "params": {"subsample": 0.7},
            "symmetric_trees": True,
            "split_score": "plain",
        },
        {"X": WITH_CATEGORIES, "y": Y + WITH_CATEGORIES["some"].cat.codes},
        {"X": WITH_CATEGORIES, "params": {"max_bin": 8}},
        {"X": WITH_CATEGORIES.drop(columns=[*"abcd"]), "params": {"max_bin": 8, "max_depth": 9}},
        {"X": WITH_CATEGORIES, "params": {"max_cat_to_onehot": 50, "subsample": 0.7}},
        {"X": WITH_CATEGORIES, "params": {"max_cat_threshold": 3}, "weight": 1.0 + TASK % 3},
        {"X": WITH_CATEGORIES, "y": CLASSES, "objective": "multi:softprob"},
        {"X": WITH_CATEGORIES, "symmetric_trees": True, "split_score": "plain"},
        {"unseen_at_random": True},
        {"unseen_at_random": True, "X": WITH_MISSING, "y": POSITIVE},
        {"unseen_at_random": True, "X": WITH_MISSING, "params": {"max_bin": 8}},
        {
            "unseen_at_random": True,
            "X": WITH_CATEGORIES,
            "y": Y + WITH_CATEGORIES["some"].cat.codes,
        },
        {"early_stopping_rounds": None},
        {"eval_metric": "mae", "min_delta": 0.01},
    ],
    ids=lambda arguments: ",".join(arguments),
)
def test_models_of_small_tasks_are_those_of_the_library(arguments, monkeypatch):
    found = []
    monkeypatch.setattr(
        specific,
        "fit_small_models",
        lambda *args, **options: (
            found.append(small_models.fit_small_models(*args, **options)) or found[-1]
        ),
    )
    side_by_side = fit(**arguments)
    assert any(found)
    monkeypatch.setattr(specific, "fit_small_models", lambda *args, **options: {})
    one_by_one = fit(**arguments)
    assert any(one_by_one.specific.values())
    for task in range(N_TASKS):
        assert trees(side_by_side.specific[task]) == trees(one_by_one.specific[task])
        own, expected = (model.history[task]["specific"] for model in (side_by_side, one_by_one))
        assert_array_equal(own, expected)
    assert side_by_side.report().equals(one_by_one.report())
    table = arguments.get("X", X)
    assert_array_equal(side_by_side.predict(table, task=TASK), one_by_one.predict(table, task=TASK))


@pytest.mark.parametrize(
    ("y", "objective"),
    [
        (10.0 * TASK * X[:, 0] + Y, "reg:squarederror"),  # given: tasks have other units
        (POSITIVE, None),
        ((CLASSES + TASK % 2) % 4, "multi:softprob"),
    ],
    ids=["values", "two classes", "classes"],
)
def test_independent_models_of_small_tasks_are_those_of_the_library(y, objective, monkeypatch):
    alone = []

    def watched(*args, are_alone):
        found = small_models.fit_small_models(*args, are_alone=are_alone)
        alone.extend(found if are_alone else ())
        return found

    arguments = {"objective": objective, **SEARCHED}
    monkeypatch.setattr(specific, "fit_small_models", watched)
    side_by_side = fit(y=y, **arguments)
    assert alone
    monkeypatch.setattr(specific, "fit_small_models", lambda *args, **options: {})
    one_by_one = fit(y=y, **arguments)
    assert side_by_side.report().equals(one_by_one.report())
    for task in range(N_TASKS):
        assert trees(side_by_side.specific[task]) == trees(one_by_one.specific[task])
    assert_array_equal(side_by_side.predict(X, task=TASK), one_by_one.predict(X, task=TASK))


def test_more_values_than_bins_are_no_obstacle_without_missing_values(monkeypatch):
    counts = []
    own = XgboostSmallTrainer.bin_rows

    def watched(trainer, rows):
        are_trained = own(trainer, rows)
        counts.append((np.diff(rows.first_rows.astype(int)).max(), are_trained.all()))
        return are_trained

    monkeypatch.setattr(XgboostSmallTrainer, "bin_rows", watched)
    fit(params={"max_bin": 8})
    assert all(most > 8 and are_trained for most, are_trained in counts)
    counts.clear()
    fit(WITH_MISSING, params={"max_bin": 8})
    assert counts
    assert not any(are_trained for _, are_trained in counts)


@pytest.mark.parametrize(
    "arguments",
    [
        {"params": {"colsample_bynode": 0.5}},
        {"specific_params": {"colsample_bytree": 0}},  # one feature, to XGBoost
        {
            "objective": lambda margins, matrix: (
                margins - matrix.get_label(),
                np.ones(N)[: len(margins)],
            )
        },
        pytest.param(
            {"objective": "reg:absoluteerror"},
            marks=pytest.mark.skipif(version() >= (3, 4), reason="its leaves are Newton steps"),
        ),
        {"weight": np.arange(N) % 2.0},
        {"X": np.asfortranarray(X), "feature_prior": [1.0, 2.0, 3.0, 4.0, 5.0]},
    ],
    ids=[
        "features drawn",
        "a share of 0",
        "a function",
        "leaves refitted",
        "rows without weight",
        "prior",
    ],
)
def test_the_library_trains_what_only_it_can(arguments, monkeypatch):
    grown = []
    monkeypatch.setattr(
        "mtboost.trees.small_models.SmallTrainer.train",
        lambda *args: grown.append(args),
    )
    assert any(fit(**arguments).specific.values())
    assert grown == []


def test_no_booster_of_a_task_is_made_before_it_is_asked_for(monkeypatch, tmp_path):
    model = fit()
    made = []
    load = assemble.load_document
    monkeypatch.setattr(assemble, "load_document", lambda each: made.append(each) or load(each))
    expected = model.predict(X, task=TASK)
    model.report()
    model.save(tmp_path / "model")
    n_made = len(made)
    with_rounds = [task for task in model.tasks if model.report().specific_rounds[task]]
    boosters = [model.specific[task] for task in with_rounds]
    assert n_made < len(with_rounds) == len(made) - n_made
    assert model.specific[with_rounds[0]] is boosters[0]
    assert_array_equal(mtboost.load_model(tmp_path / "model").predict(X, task=TASK), expected)


@pytest.mark.parametrize("y", [Y, CLASSES], ids=["values", "classes"])
def test_scaled_models_are_those_of_scaled_documents(y, monkeypatch):
    found = []
    fit_small = small_models.fit_small_models
    monkeypatch.setattr(
        specific,
        "fit_small_models",
        lambda *args, **options: found.append(fit_small(*args, **options)) or found[-1],
    )
    fit(y=y, objective="multi:softprob" if y is CLASSES else None)
    models = [model.trees for own in found for model in own.values()]
    assert any(len(own.nodes().roots) > 1 for own in models)
    for own in models:
        expected = own.document().scaled(0.3)
        assert trees(own.scaled(0.3).document().load()) == trees(expected.load())
    first = np.linspace(-1.0, 1.0, models[0].shared.n_outputs).astype(np.float32)
    continued = models[0].with_first_round(first)
    expected = continued.document().scaled(0.3).leaf_values()
    for own, other in zip(continued.scaled(0.3).document().leaf_values(), expected, strict=True):
        assert_array_equal(own, other)
    assert continued.scaled(0.3).group is models[0].scaled(0.3).group


@pytest.mark.parametrize(
    ("objective", "params"),
    [
        ("reg:squarederror", {}),
        ("reg:absoluteerror", {}),
        ("reg:quantileerror", {"quantile_alpha": 0.3}),
        ("binary:logistic", {}),
        ("count:poisson", {}),
        ("reg:gamma", {}),
        ("reg:tweedie", {"tweedie_variance_power": 1.2}),
        ("multi:softprob", {"num_class": 4}),
    ],
)
@pytest.mark.parametrize("weight", [None, 0.1 + np.abs(X[:, 3])], ids=["", "weights"])
def test_models_begin_where_those_of_the_library_do(objective, params, weight):
    y = {"binary:logistic": POSITIVE, "multi:softprob": CLASSES}.get(objective, np.abs(Y))
    backend, params = XgboostBackend(), {"objective": objective, **params}
    for n in (1, 2, 7, N):
        own = None if weight is None else weight[:n].astype(np.float32)
        rows = Rows(as_table(np.zeros((n, 1), np.float32)), y[:n].astype(np.float32), own)
        matrix = xgboost.QuantileDMatrix(X[:n], y[:n], weight=own)
        trained = xgboost.train(params, matrix, 2)
        assert_array_equal(backend.own_start(params, rows), backend.start_score(trained))


def test_margins_of_the_core_are_those_of_the_library(monkeypatch):
    model = fit()
    data = mtboost.Dataset(WITH_MISSING, Y, task=TASK)
    backend, rounds = XgboostBackend(), {task: task % 7 for task in range(N_TASKS)}
    for start in (None, Y.astype(np.float32)[:, None]):
        arguments = (model.common, data.common, start, rounds, data.tasks)
        assert_array_equal(
            backend.followed_margins(*arguments), backend._followed_margins(*arguments)
        )


@pytest.mark.parametrize("metric", ["rmse", "auc"])
@pytest.mark.parametrize("min_data_in_leaf", [None, 8])
def test_tasks_that_lightgbm_cannot_split_have_what_its_training_gives(
    metric, min_data_in_leaf, monkeypatch
):
    arguments = {"backend": "lightgbm", "eval_metric": metric, "y": POSITIVE}
    if min_data_in_leaf is not None:
        arguments["params"] = {"min_data_in_leaf": min_data_in_leaf}
    without_training = fit(**arguments)
    monkeypatch.setattr(specific, "_without_splits", lambda *args: {})
    trained = fit(**arguments)
    assert without_training.report().equals(trained.report())
    for task in range(N_TASKS):
        own, expected = (model.history[task]["specific"] for model in (without_training, trained))
        assert_array_equal(own, expected)
        assert (without_training.specific[task] is None) == (trained.specific[task] is None)


# ---- files ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone():
    """A model of some independent and some specific models, which no one has made boosters of."""
    return fit(y=10.0 * TASK * X[:, 0] + Y, **SEARCHED)


@pytest.fixture(scope="module")
def of_classes():
    """Independent models of four classes, whatever the validation rows say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evidence, "ways", lambda own: dict.fromkeys(own._tasks, "independent"))
        model = fit(y=(CLASSES + TASK) % 4, objective="multi:softprob", **SEARCHED)
    assert set(model.report()["sharing"].iloc[1:]) == {"independent"}
    return model


@pytest.mark.parametrize("kind", ["alone", "of_classes", "two-stage", "categories"])
def test_a_file_of_many_tasks_has_the_same_model(kind, request, tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "MANY_TASKS", 2)
    fitted = {"two-stage": fit, "categories": lambda: fit(X=WITH_CATEGORIES)}
    model = fitted[kind]() if kind in fitted else request.getfixturevalue(kind)
    table = WITH_CATEGORIES if kind == "categories" else X
    model.save(tmp_path / "model")
    names = unpacked((tmp_path / "model").read_bytes())
    are_boosters = any(name.startswith("specific/") for name in names)
    assert are_boosters == (kind == "categories")  # packed trees have none
    again = mtboost.load_model(tmp_path / "model")
    if not are_boosters:  # XGBoost writes those with their members in another order
        again.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert again.report().equals(model.report())
    assert_array_equal(again.predict(table, task=TASK), model.predict(table, task=TASK))
    for task in model.tasks:
        assert again.booster(task).save_raw() == model.booster(task).save_raw()
        for stage in ("common", "specific"):
            assert_array_equal(again.history[task][stage], model.history[task][stage])
    again.remove_task(model.tasks[0]).save(tmp_path / "less")
    assert mtboost.load_model(tmp_path / "less").tasks == model.tasks[1:]


def set_in(name, place, value):
    def change(members):
        array = array_from_bytes(members[name])
        array[place] = value
        members[name] = array_to_bytes(array)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("packed/0/left.npy", 0, 0), "a child that does not come after"),
        (set_in("packed/0/left.npy", 0, 10**6), "a child that does not come after"),
        (set_in("packed/0/parent.npy", -1, 0), "a node without one parent"),
        (set_in("packed/0/feature.npy", 0, 9), "an unknown feature"),
        (set_in("packed/0/tasks.npy", 0, 99), "of unknown tasks"),
        (set_in("packed/0/tasks.npy", 0, 11), "two packed models"),
        (set_in("packed/0/first_trees.npy", 1, 10**6), "do not fit together"),
        (set_in("packed/0/first_nodes.npy", 1, 0), "do not fit together"),
        (lambda members: members.pop("packed/0/gain.npy"), "packed/0/gain.npy is missing"),
        (set_in("histories/common_history_starts.npy", 1, 10**6), "other histories"),
        (lambda members: members.pop("histories/common_history.npy"), "common_history"),
    ],
)
def test_files_of_many_tasks_that_contradict_themselves_are_refused(
    change, message, tmp_path, monkeypatch
):
    monkeypatch.setattr(model_file, "MANY_TASKS", 2)
    fit(num_boost_round=2).save(tmp_path / "model")
    (tmp_path / "model").write_bytes(forged((tmp_path / "model").read_bytes(), change))
    with pytest.raises(ModelFormatError, match=message):
        mtboost.load_model(tmp_path / "model")
