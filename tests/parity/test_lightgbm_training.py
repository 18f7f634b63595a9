# SPDX-License-Identifier: Apache-2.0
"""The training loop stays LightGBM's: objectives, sampling, continuation, cross-validation.

With the plain score the whole text of the model and the whole history of metrics equal those of
stock training to the last bit; with the other scores the finished booster is an ordinary one.
LightGBM runs with one thread. docs/limits.md lists what cannot be the same.
"""

import itertools
import json

import lightgbm as lgb
import numpy as np
import pytest
from lightgbm_training import (
    OBJECTIVES,
    PARAMS,
    RATES,
    SCORE,
    WEIGHT,
    WEIGHTED,
    assert_parity,
    assert_same_training,
    datasets,
    settings_of,
    task_split,
    text,
    train,
    trees,
)
from stock_training import N_TRAIN, TASK, X, Y, make_labels, make_rows

from mtboost.errors import DataError, UnsupportedError
from mtboost.lightgbm import TaskQuitting, TaskSplit, library
from mtboost.lightgbm.sampling import sample_by_gradient

# LightGBM sums metrics with the threads of the newest data set or booster that it has made.
pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


# ---- objectives -----------------------------------------------------------------------------

PARAMETERS = [{}, {"boost_from_average": False}, RATES]


@pytest.mark.parametrize(
    ("fields", "params"),
    [*itertools.product([(), ("weight",)], PARAMETERS), (("init_score",), RATES)],
    ids=repr,
)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives(objective, fields, params):
    if objective == "mape" and "weight" in fields:
        # Otherwise LightGBM may take all rows' hessians for that of the first.
        params = {"force_row_wise": True, **params}
    score = SCORE if objective.startswith("multi") else SCORE[:, 0]
    fields = {name: {"weight": WEIGHT, "init_score": score}[name] for name in fields}
    assert_parity(params=settings_of(objective, **params), fields=fields, places=["first"])


@pytest.mark.parametrize("where", ["train", "valid"])
def test_start_scores_of_one_data_set_alone(where):
    def make_data():
        train_set, valid = datasets("binary")
        own = {"train": train_set, "valid": valid}[where]
        own.set_init_score(SCORE[: own.construct().num_data(), 0].copy())
        return train_set, valid

    assert_parity(params=settings_of("binary"), data=make_data)


@pytest.mark.parametrize(
    "params",
    [
        settings_of("binary", is_unbalance=True),
        settings_of("binary", scale_pos_weight=3.0),
        settings_of("binary", sigmoid=2.0),
        settings_of("multiclassova", is_unbalance=True),
        settings_of("multiclassova", scale_pos_weight=3.0, sigmoid=0.7),
        settings_of("huber", alpha=0.3),
        settings_of("fair", fair_c=0.3),
        settings_of("quantile", alpha=0.2),
        settings_of("poisson", poisson_max_delta_step=0.2),
        settings_of("tweedie", tweedie_variance_power=1.2),
    ],
    ids=repr,
)
def test_parameters_of_objectives(params):
    assert_parity(params=params, fields=WEIGHTED, places=["first"])


# ---- trees without a split ------------------------------------------------------------------


@pytest.mark.parametrize("boosts", [True, False])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_first_round_without_a_split(objective, boosts):
    stock = assert_parity(
        params=settings_of(objective, boost_from_average=boosts, min_gain_to_split=1e6),
        fields=WEIGHTED,
        places=["first"],
        n_rounds=3,
    )
    assert stock.current_iteration() == 1
    assert max(tree["num_leaves"] for tree in stock.dump_model()["tree_info"]) == 1


@pytest.mark.parametrize(
    ("objective", "gain"),
    [("regression", 20.0), ("quantile", 1.0), ("poisson", 2.0), ("multiclass", 15.0)],
)
def test_later_rounds_without_a_split_are_dropped(objective, gain):
    sampling = {"bagging_fraction": 0.7, "bagging_freq": 1}  # so that a later round may have one
    stock = assert_parity(
        params=settings_of(objective, min_gain_to_split=gain, **sampling),
        places=["first"],
        n_rounds=20,
    )
    assert 1 < stock.current_iteration() < 20


def test_a_model_continued_without_a_split():
    start, _ = train(n_rounds=3)
    assert_parity(params={"min_gain_to_split": 1e6}, init_model=start, n_rounds=3)


@pytest.mark.parametrize("boosts", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_rounds_in_which_only_some_classes_split(objective, weight, boosts):
    labels = np.digitize(Y, [-1, 1, 2.6])  # few rows have the last class
    params = {"num_class": 4, "min_gain_to_split": 15.0, "boost_from_average": boosts}
    stock = assert_parity(
        params=settings_of(objective) | params,
        fields={"labels": labels, **({} if weight is None else {"weight": weight})},
        places=["first"],
    )
    n_leaves = [tree["num_leaves"] for tree in stock.dump_model()["tree_info"]]
    splits = np.reshape(n_leaves, (-1, 4)) > 1
    assert any(0 < of_round.sum() < 4 for of_round in splits)


@pytest.mark.parametrize("boosts", [True, False])
@pytest.mark.parametrize("labels", [np.digitize(Y, [-1, 1]), np.full(len(Y), 1)], ids=["3", "1"])
@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_classes_without_rows_get_no_trees(objective, labels, boosts):
    # Columns are drawn for trees that are grown only.
    options = {"boost_from_average": boosts, "feature_fraction": 0.6}
    params = {"objective": objective, "num_class": 4, **options}
    stock = assert_parity(params=params, fields={"labels": labels}, places=["first"])
    grown = {i % 4 for i, t in enumerate(stock.dump_model()["tree_info"]) if t["num_leaves"] > 1}
    assert grown == ({0, 1, 2} if labels.max() == 2 else set())


LABELS_OF_ONE_CLASS = [
    ({"objective": "binary", "boost_from_average": boosts}, {"labels": np.full(len(Y), label)})
    for boosts in (True, False)
    for label in (0, 1)
]


@pytest.mark.parametrize(
    ("params", "fields"), [*LABELS_OF_ONE_CLASS, ({}, {"table": np.ones((len(Y), 2))})]
)
def test_labels_of_one_class_and_constant_columns_give_one_tree(params, fields):
    assert assert_parity(params=params, fields=fields, n_rounds=3).num_trees() == 1


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_a_class_whose_rows_all_weigh_nothing(objective):
    labels = make_labels("multiclass")
    weight = np.where(labels == 2, 0.0, WEIGHT)
    params = {"objective": objective, "num_class": 3, "feature_fraction": 0.6}
    assert_parity(params=params, fields={"labels": labels, "weight": weight})


# ---- validation sets ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choose",
    [
        lambda train_set, valid: {"valid_sets": None, "valid_names": None},
        lambda train_set, valid: {"valid_sets": [valid], "valid_names": None},
        lambda train_set, valid: {"valid_sets": valid, "valid_names": "one"},
        lambda train_set, valid: {"valid_sets": [train_set], "valid_names": None},
        lambda train_set, valid: {"valid_sets": [valid, train_set], "valid_names": ["v", "t"]},
        lambda train_set, valid: {"valid_sets": [valid, valid], "valid_names": ["v", "w"]},
    ],
)
def test_choices_of_validation_sets(choose):
    def run(callbacks):
        data = datasets(weight=WEIGHT)
        return train(callbacks, data=data, params={"metric": ["l2", "l1"]}, **choose(*data))

    assert_same_training(run([task_split()]), run([]))


# ---- continuation ---------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["regression", "regression_l1", "multiclass"])
@pytest.mark.parametrize("how", ["booster", "file", "kept"])
@pytest.mark.parametrize("who", ["stock", "ours"])
def test_training_goes_on_from_a_model(tmp_path, who, how, objective):
    params = settings_of(objective)
    before = [task_split()] if who == "ours" else []
    start, _ = train(before, params=params, n_rounds=3, keep_training_booster=how == "kept")
    start.save_model(tmp_path / "model.txt")
    text_before = start.model_to_string()
    changed = {**params, "learning_rate": 0.1, "num_leaves": 5, **RATES}
    assert_parity(
        lambda: [lgb.early_stopping(2, verbose=False)],
        params=changed,
        init_model=tmp_path / "model.txt" if how == "file" else start,
        n_rounds=4,
    )
    assert start.model_to_string() == text_before, "the model that is continued stays as it was"


# ---- sampling and threads -------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"bagging_fraction": 0.6, "bagging_freq": 1},
        {"bagging_fraction": 0.3, "bagging_freq": 3, "bagging_seed": 9},
        {"bagging_fraction": 0.9995, "bagging_freq": 1},  # the bag of all rows is the last
        {"feature_fraction": 0.5},
        {"feature_fraction": 0.1, "feature_fraction_seed": 4},
        {**RATES, "seed": 7},
        {**RATES, "data_random_seed": 7, "deterministic": True},
        {**RATES, "force_row_wise": True},
        {**RATES, "force_col_wise": True},
        {**RATES, "objective": "quantile"},
        {"objective": "binary", "pos_bagging_fraction": 0.4, "bagging_freq": 1},
        {"objective": "binary", "neg_bagging_fraction": 0.3, "bagging_freq": 2},
        # Rounds before the first sample, and a sample of all rows.
        {"data_sample_strategy": "goss", "learning_rate": 0.05},
        {"data_sample_strategy": "goss", "top_rate": 0.5, "other_rate": 0.5, "learning_rate": 0.9},
    ],
    ids=repr,
)
def test_the_same_rows_and_columns_are_drawn(params):
    def make_data():  # more rows than one of LightGBM's random streams serves
        big, y, _ = make_rows(3000, seed=5)
        is_binary = params.get("objective") == "binary"
        train_set = lgb.Dataset(big, 1.0 * (y > 0) if is_binary else y)
        return train_set, lgb.Dataset(X, 1.0 * (Y > 0) if is_binary else Y, reference=train_set)

    expected, expected_history = train(params=params, data=make_data())
    split = TaskSplit(np.arange(3000) % 3, split_score="plain")
    for n_threads in (1, 2):
        threads = {"num_threads": n_threads}
        found, history = train([split], params={**params, **threads}, data=make_data())
        assert text(found) == text(expected)
        for name, of_metrics in expected_history.items():
            for metric, values in of_metrics.items():
                # Metrics are sums of each thread's: a few of 3000 roundings.
                rtol = 0.0 if n_threads == 1 else 1e-13
                np.testing.assert_allclose(history[name][metric], values, rtol=rtol)


def test_goss_keeps_large_gradients_and_a_weighted_sample_of_others():
    rng = np.random.default_rng(0)
    given = np.stack([rng.normal(size=(1000, 2)), np.ones((1000, 2))], axis=2).astype(np.float32)
    sizes = np.abs(given[:, :, 0]).sum(axis=1)
    is_large = sizes >= np.sort(sizes)[-200]
    counts = np.zeros(1000)
    for number in range(200):
        pairs = given.copy()
        rows = sample_by_gradient(pairs, top_rate=0.2, other_rate=0.1, seed=(3, number)) > 0
        assert rows[is_large].all()
        assert rows.sum() == 200 + 100
        is_other = rows & ~is_large
        np.testing.assert_array_equal(pairs[is_other], given[is_other] * np.float32(800 / 100))
        np.testing.assert_array_equal(pairs[~is_other], given[~is_other])
        counts += rows
    # Each of the 800 others is drawn with probability 1/8: five standard deviations.
    deviation = np.sqrt(200 * 1 / 8 * 7 / 8)
    assert np.abs(counts[~is_large] - 25).max() < 5 * deviation


def test_columns_of_nodes_are_drawn_by_the_same_law():
    # One of two equal columns is seen by each root; the draws are not LightGBM's.
    x = np.random.default_rng(0).normal(size=N_TRAIN)
    data = np.column_stack([x, x])
    params = {**PARAMS, "num_leaves": 2, "feature_fraction_bynode": 0.5, "learning_rate": 0.01}
    for callbacks in ([], [TaskSplit(np.zeros(N_TRAIN), split_score="plain")]):
        booster = lgb.train(params, lgb.Dataset(data, x), 400, callbacks=callbacks)
        share = booster.feature_importance()[0] / 400
        assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(400)  # four standard deviations


# ---- refused --------------------------------------------------------------------------------


def test_forced_splits_are_refused(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"feature": 0, "threshold": 0.0}))
    with pytest.raises(UnsupportedError, match="forcedsplits_filename=.*leave it out"):
        train([task_split()], params={"forcedsplits_filename": str(path)})


@pytest.mark.parametrize(("name", "value"), [("tree_learner", "feature"), ("device_type", "gpu")])
def test_other_learners_and_devices_are_refused(monkeypatch, name, value):
    # LightGBM itself refuses them where there is none, or falls back.
    read = library.read_parameters
    monkeypatch.setattr(library, "read_parameters", lambda booster: {**read(booster), name: value})
    with pytest.raises(UnsupportedError, match=f"{name}={value} is not supported"):
        train([task_split()])


def test_a_parameter_that_becomes_unsupported_on_the_way_is_refused():
    def change(env):
        if env.iteration == 1:
            env.model.reset_parameter({"extra_trees": True})

    with pytest.raises(UnsupportedError, match="extra_trees=1"):
        train([task_split(), change])


@pytest.mark.parametrize(
    ("objective", "label"),
    [("binary", 2), ("poisson", -1), ("gamma", -1), ("multiclass", 3), ("cross_entropy", 1.5)],
)
def test_labels_outside_the_domain_are_refused(objective, label):
    labels = np.where(np.arange(len(Y)) == 7, label, make_labels(objective))
    with pytest.raises((DataError, lgb.basic.LightGBMError), match="(?i)label|outside"):
        train([task_split()], params=settings_of(objective), data=datasets(objective, labels))


# ---- with tasks -----------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression_l1"])
@pytest.mark.parametrize("score", ["entropy", "variance"])
def test_the_number_of_threads_changes_nothing(score, objective):
    params = settings_of(objective, **RATES)

    def model(score, n_threads):
        return text(train([task_split(score)], params={**params, "num_threads": n_threads})[0])

    assert model(score, 1) == model(score, 2) != model("plain", 1)


@pytest.mark.parametrize("score", ["entropy", "variance"])
def test_the_order_of_rows_changes_nothing_if_sums_are_exact(score):
    # Labels are halves, and so are the gradients of the first round. Where a sum has to be rounded,
    # its last bits depend on the order of a task's rows.
    values, labels = np.round(np.nan_to_num(X[:N_TRAIN])), np.round(2 * Y[:N_TRAIN]) / 2

    def run(rows):
        data = lgb.Dataset(values[rows], labels[rows])
        split = TaskSplit(TASK[:N_TRAIN][rows], split_score=score)
        params = {**PARAMS, "boost_from_average": False}
        return text(lgb.train(params, data, 1, callbacks=[split]))

    order = np.random.default_rng(0).permutation(N_TRAIN)
    assert run(order) == run(np.arange(N_TRAIN))


def test_tasks_that_quit_take_no_part_in_later_rounds():
    """As going on with the rows of the other tasks alone."""
    params = {**PARAMS, "min_data_in_leaf": 5}
    train_set, valid = lgb.Dataset(X[:N_TRAIN], Y[:N_TRAIN], free_raw_data=False), None
    codes = np.searchsorted(["a", "b", "c"], TASK[:N_TRAIN])

    def leave(env):
        if env.iteration == 2:
            env.model.growth.quit(2)

    whole = lgb.train(
        params, train_set, 6, valid_sets=valid, callbacks=[task_split("entropy"), leave]
    )
    first = lgb.train(params, train_set, 3, callbacks=[task_split("entropy")])
    assert trees(whole)[:3] == trees(first)

    staying = np.flatnonzero(codes < 2)
    start = first.predict(X[:N_TRAIN], raw_score=True)[staying]
    rest_set = train_set.subset(staying).construct()
    rest_set.set_init_score(start)
    rest = lgb.train(
        params, rest_set, 3, callbacks=[TaskSplit(TASK[:N_TRAIN][staying], split_score="entropy")]
    )
    assert trees(whole)[3:] == trees(rest)


@pytest.mark.parametrize("score", ["plain", "entropy"])
@pytest.mark.parametrize("objective", ["binary", "regression_l1", "multiclass"])
def test_quitting_stopping_and_recording_together(objective, score):
    quitting = TaskQuitting("valid", TASK[N_TRAIN:], early_stopping_rounds=3)
    stopping = lgb.early_stopping(8, verbose=False)
    params = settings_of(objective, learning_rate=0.8)
    callbacks = [stopping, quitting, task_split(score)]
    booster, history = train(callbacks, params, 60, keep_training_booster=True)
    n_rounds = booster.current_iteration()
    assert n_rounds < 60
    assert len(quitting.left_after) > 0
    assert {len(values) for values in history["valid"].values()} == {n_rounds}
    assert all(len(values) == n_rounds + 1 for values in quitting.history.values())
    for task, n_left in quitting.left_after.items():
        assert n_left == quitting.quit_round[task] + 3
        history = quitting.history[task]
        assert history[quitting.quit_round[task]] == min(history[: n_left + 1])
    # Up to the first round that a task left after, as without it.
    n_common = min(quitting.left_after.values())
    alone, _ = train([task_split(score)], params=params, n_rounds=n_common + 1)
    n_trees = n_common * booster.num_model_per_iteration()
    assert trees(booster)[:n_trees] == trees(alone)[:n_trees]
    assert trees(booster)[n_trees] != trees(alone)[n_trees]


# ---- cross-validation ----------------------------------------------------------------------------


def cross_validate(callbacks, **options):
    data, params = lgb.Dataset(X, Y, weight=WEIGHT), {**PARAMS, "metric": ["l2", "l1"]}
    options = {"nfold": 3, "stratified": False, "return_cvbooster": True, **options}
    return lgb.cv(params, data, 8, callbacks=callbacks, **options)


def test_cross_validation_gives_what_lightgbm_does():
    found = cross_validate([TaskSplit(TASK, split_score="plain")], eval_train_metric=True)
    expected = cross_validate([], eval_train_metric=True)
    ours, boosters = found.pop("cvbooster"), expected.pop("cvbooster")
    assert found == expected
    assert [text(own) for own in ours.boosters] == [text(each) for each in boosters.boosters]


def test_cross_validation_gives_each_fold_the_tasks_of_its_rows():
    folds = [(np.arange(200, 600), np.arange(200)), (np.arange(400), np.arange(400, 600))]
    found = cross_validate([TaskSplit(TASK)], folds=folds)["cvbooster"].boosters
    for booster, (rows, _) in zip(found, folds, strict=True):
        data = lgb.Dataset(X, Y, weight=WEIGHT)
        alone = lgb.train(PARAMS, data.subset(rows), 8, callbacks=[TaskSplit(TASK[rows])])
        assert trees(booster) == trees(alone)
    assert trees(found[0]) != trees(found[1])


def test_early_stopping_cuts_all_folds():
    found = cross_validate([TaskSplit(TASK), lgb.early_stopping(2, verbose=False)])
    n_rounds = len(found["valid l2-mean"])
    assert n_rounds < 8
    assert {booster.best_iteration for booster in found["cvbooster"].boosters} == {n_rounds}
