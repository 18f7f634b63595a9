# SPDX-License-Identifier: Apache-2.0
"""Calls that generated input has found to end in errors that were not meant for the user.

tests/fuzz/calls.py generates more; each case here once ended in an error of a library below, or in
a number that was not finite.
"""

import decimal

import lightgbm
import numpy as np
import optuna
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost
from sklearn.ensemble import RandomForestRegressor

import mtboost
import mtboost.spark
from mtboost.errors import (
    DataError,
    ModelFormatError,
    MtboostError,
    ParameterError,
    TrainingError,
    UnsupportedError,
)

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] - X[:, 1]
CLASSES = (Y > 0).astype(int)
OUTPUTS = np.column_stack([Y, -Y, X[:, 0]])
TASK = np.arange(N) % 2
FRAME = pd.DataFrame(X, columns=list("pqr"))
FEW = {"n_estimators": 2, "n_jobs": 1}
SMALL = {"strategy": "two-stage", "num_boost_round": 2, "specific_rounds": 2, "n_threads": 1}


def planted(values, *odd):
    values = np.array(values, dtype=object)
    values.flat[1 : 1 + len(odd)] = odd
    return values


HUGE = 10**400
SIGNALLING = decimal.Decimal("sNaN")
TWICE = FRAME.set_axis(["p", "p", "r"], axis=1)
LONG = X.astype(np.longdouble) * np.longdouble("1e4000")

# ---- estimators ----------------------------------------------------------------------------------

ESTIMATORS = {
    "forest": (mtboost.MTExtraTreesRegressor(**FEW), Y),
    "boosting": (mtboost.ProjectedBoostingRegressor(**FEW), OUTPUTS),
    "multi-task": (mtboost.MultiTaskRegressor(**{"strategy": "two-stage", **FEW}), Y),
}
ODD_TABLES = {
    "names twice": (TWICE, "2 columns named 'p'"),
    "arrow names twice": (pa.table([X[:, 0], X[:, 1]], names=["p", "p"]), "2 columns named 'p'"),
    "huge integer": (planted(X, HUGE), "X: int too large"),
    "strings and numbers": (FRAME.assign(p=["a", 1] * (N // 2)), "column 'p' of dtype"),
    "polars lists": (pl.DataFrame({"p": [[1.0]] * N}), "column 'p' of dtype List"),
    "beyond float64": (LONG, "inf"),
}


@pytest.mark.parametrize(("table", "message"), ODD_TABLES.values(), ids=ODD_TABLES)
@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_estimators_refuse_odd_tables(estimator, y, table, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(table, y)


def test_trees_grow_on_sparse_columns_that_are_filled_by_nan():
    sparse = FRAME.mask(FRAME < 0).astype(pd.SparseDtype(float, np.nan))
    found, expected = (
        mtboost.MTExtraTreesRegressor(**FEW, random_state=0).fit(table, Y)
        for table in (sparse, sparse.sparse.to_dense())
    )
    np.testing.assert_array_equal(found.predict(sparse), expected.predict(FRAME.mask(FRAME < 0)))


CLASSIFIERS = [
    mtboost.MultiTaskClassifier(**{"strategy": "two-stage", **FEW}),
    mtboost.MTExtraTreesClassifier(**FEW),
    mtboost.MTDecisionTreeClassifier(),
    mtboost.MTAdaBoostClassifier(**FEW),
    mtboost.ProjectedForestClassifier(**FEW),
    mtboost.ProjectedBoostingClassifier(**FEW),
    mtboost.PriorSamplingClassifier(**FEW),
]


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("y", [[], planted(CLASSES, [1], {2: 3}), planted(CLASSES, SIGNALLING)])
def test_classifiers_refuse_labels_that_are_none(estimator, y):
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator.fit(X, y)
    assert not isinstance(caught.value, UnboundLocalError)


@pytest.mark.parametrize("estimator", CLASSIFIERS[:2], ids=lambda each: type(each).__name__)
def test_sparse_labels_of_one_column_are_refused_in_any_format(estimator):
    with pytest.raises(TypeError, match="Sparse data was passed for y, but dense data is required"):
        estimator.fit(X, sp.dok_array(CLASSES[:, np.newaxis]))


def test_a_huge_label_among_indicators_is_refused():
    estimator = mtboost.ProjectedBoostingClassifier(**FEW).fit(X, (OUTPUTS > 0).astype(int))
    with pytest.raises(DataError, match="y is 1000.* at row 0"):
        estimator.score(X, planted(np.ones((N, 3), int), HUGE))


@pytest.mark.parametrize("time", [np.inf, 0, np.arange(N)], ids=["infinite", "number", "array"])
def test_the_time_of_an_estimator_is_a_column(time):
    with pytest.raises(TypeError, match="time must be None or the name of a column of X, found"):
        mtboost.MultiTaskRegressor(time=time, validation="last", **FEW).fit(X, Y)


def test_the_column_of_times_needs_a_table_with_names():
    with pytest.raises(DataError, match="time is 'day', but the columns of X have no names"):
        mtboost.MultiTaskRegressor(time="day", validation="last", **FEW).fit(X, Y)


def test_parameters_of_an_estimator_are_a_mapping():
    with pytest.raises(TypeError, match="params must be None or a mapping, found 'x'"):
        mtboost.MultiTaskRegressor(params="x", strategy="two-stage").fit(X, Y)


SCORES = {
    "huge integer": {"y": planted(Y, HUGE)},
    "signalling NaN": {"y": planted(Y, SIGNALLING)},
    "strings": {"y": pd.Categorical(["a", "b"] * 20)},
    "more rows": {"y": np.append(Y, Y)},
    "none": {"y": None},
    "huge weight": {"y": Y, "sample_weight": planted(np.abs(Y), HUGE)},
}


@pytest.mark.parametrize("arguments", SCORES.values(), ids=SCORES)
@pytest.mark.parametrize(
    "estimator",
    [
        mtboost.MTExtraTreesRegressor(**FEW),
        mtboost.MultiTaskRegressor(**{"strategy": "two-stage", **FEW}),
    ],
    ids=["forest", "multi-task"],
)
def test_scores_of_odd_labels_are_refused(estimator, arguments):
    fitted = estimator.fit(X, Y)
    with pytest.raises((MtboostError, ValueError)):
        fitted.score(X, **arguments)


@pytest.mark.parametrize(
    "y", [planted(CLASSES, SIGNALLING), None, np.append(CLASSES, 1), [[1], [2, 3]]]
)
def test_a_multi_task_tree_refuses_to_score_odd_labels(y):
    fitted = mtboost.MTDecisionTreeClassifier().fit(X, CLASSES)
    with pytest.raises((ValueError, TypeError)):
        fitted.score(X, y)


def test_a_score_needs_a_table_of_some_task():
    fitted = mtboost.MultiTaskClassifier(**{"strategy": "two-stage", **FEW}).fit(X, CLASSES)
    with pytest.raises(DataError, match="X is an empty mapping: give a table for each task"):
        fitted.score({}, {})


def test_missing_outputs_are_refused_by_forests():
    with pytest.raises(DataError, match="y is nan at row 0"):
        mtboost.ProjectedForestRegressor(**FEW).fit(X, pa.nulls(N))


def test_a_sparse_vector_of_labels_is_refused():
    for estimator in (
        mtboost.PriorSamplingClassifier(**FEW),
        mtboost.ProjectedForestRegressor(**FEW),
    ):
        with pytest.raises(DataError, match=r"y has shape \(40,\): a matrix has rows and columns"):
            estimator.fit(X, sp.coo_array(Y))


@pytest.mark.parametrize("dtype", [np.float16, ">f8"])
def test_indicators_may_be_of_any_type_of_numbers(dtype):
    indicators = (OUTPUTS > 0).astype(dtype)
    forest = mtboost.ProjectedForestClassifier(**FEW, random_state=0)
    expected = forest.fit(X, (OUTPUTS > 0).astype(int)).predict(X)
    np.testing.assert_array_equal(forest.fit(X, indicators).predict(X), expected)


def test_margins_that_overflow_end_boosting():
    with pytest.raises(TrainingError, match=r"Round [01]: .*(not finite|inf)"):
        mtboost.PriorSamplingRegressor(n_estimators=2, learning_rate=1e38, n_jobs=1).fit(X, Y)


@pytest.mark.parametrize("huber_delta", [1e39, 1e-320])
def test_the_corner_of_huber_fits_in_float32(huber_delta):
    with pytest.raises(ParameterError, match="huber_delta must be a finite number in"):
        mtboost.PriorSamplingRegressor(loss="huber", huber_delta=huber_delta).fit(X, Y)


# ---- fit and the model ---------------------------------------------------------------------------

BAD_FITS = {
    "refit": ({"refit": np.zeros((2, 2))}, TypeError, "refit must be True or False"),
    "baselines": ({"baselines": "no"}, TypeError, "baselines must be True or False"),
    "backend": ({"backend": np.zeros(2)}, TypeError, "backend must be 'xgboost' or 'lightgbm'"),
    "names": ({"feature_names": "pqr"}, TypeError, "feature_names must be None or a sequence"),
    "names, number": ({"feature_names": 3}, TypeError, "feature_names must be None or a sequence"),
    "common": ({"X": FRAME, "common_features": {0: ["p"]}}, TypeError, "common_features must be"),
    "common twice": ({"X": FRAME, "common_features": ["p", "p"]}, DataError, "each once"),
    "common by position": ({"common_features": [0]}, DataError, "its columns have no names"),
    "verbose": ({"verbose": np.nan}, ParameterError, "verbose must be"),
    "score": ({"split_score": np.zeros((2, 2))}, TypeError, "split_score must be a callable"),
    "margins": ({"base_margin": [[1.0], [1.0, 2.0]]}, DataError, "rectangular"),
    "threads": ({"n_threads": 10**6}, ParameterError, "n_threads must be .* to 1024, found"),
    "seed": ({"seed": 2**64}, ParameterError, "seed must be an integer"),
    "symmetric": ({"symmetric_trees": np.empty(0)}, TypeError, "symmetric_trees must be True or"),
    "validation": (
        {"strategy": "auto", "validation_fraction": np.empty(0)},
        TypeError,
        "validation_fraction must be",
    ),
}


@pytest.mark.parametrize(("changes", "error", "message"), BAD_FITS.values(), ids=BAD_FITS)
def test_fit_refuses(library, changes, error, message):
    options = {"X": X, "y": Y, "task": TASK, "backend": library.name, **SMALL, **changes}
    with pytest.raises(error, match=message):
        mtboost.fit(**options)


def test_names_may_be_an_array(library):
    model = mtboost.fit(
        X, Y, task=TASK, feature_names=np.array(list("pqr")), backend=library.name, **SMALL
    )
    assert model.common_columns.names == ("p", "q", "r")


@pytest.mark.parametrize("booster", ["dart", "gblinear"])
def test_other_boosters_of_xgboost_are_refused_for_specific_models(booster):
    params = {"booster": booster}
    with pytest.raises(UnsupportedError, match=f"specific_params: booster='{booster}' trains mode"):
        mtboost.fit(X, Y, task=TASK, specific_params=params, **SMALL)


@pytest.mark.parametrize("boosting", ["dart", "rf"])
def test_other_ways_to_boost_of_lightgbm_are_refused_for_specific_models(boosting):
    params = {"boosting": boosting, "feature_fraction": 0.5}
    with pytest.raises(UnsupportedError, match=f"specific_params: boosting='{boosting}' changes"):
        mtboost.fit(X, Y, task=TASK, backend="lightgbm", specific_params=params, **SMALL)


def test_a_builtin_function_is_no_callback_of_lightgbm():
    with pytest.raises(TypeError, match="callbacks holds <built-in function len>"):
        mtboost.fit(X, Y, task=TASK, backend="lightgbm", callbacks=[len], **SMALL)


def squared(margins, data):
    return margins - data.get_label(), np.ones_like(margins)


@pytest.mark.parametrize("options", [{}, {"baselines": True}])
def test_a_task_whose_columns_cannot_be_split_does_not_end_the_others(options):
    # LightGBM trains nothing on it by a function of gradients.
    task = np.where(np.arange(200) < 30, 7, np.arange(200) % 2)
    table = RNG.normal(size=(200, 3))
    model = mtboost.fit(
        table, table[:, 0], task=task, backend="lightgbm", objective=squared, **SMALL, **options
    )
    assert model.reports[7].why_no_specific == "no column has a split"
    assert np.isfinite(model.predict(table, task=task)).all()


def test_lightgbm_refuses_a_function_where_no_column_can_be_split():
    with pytest.raises(DataError, match="no column can be split"):
        mtboost.fit(np.ones((N, 2)), Y, backend="lightgbm", objective=squared, **SMALL)


def test_a_model_of_numbers_refuses_categories(library):
    model = mtboost.fit(FRAME, Y, task=TASK, backend=library.name, **SMALL)
    table = FRAME.assign(p=pd.Categorical(["a", "b"] * 20))
    for call in (model.predict, model.contributions):
        with pytest.raises(DataError, match="X holds categories in column 'p', which held numbers"):
            call(table, task=TASK)
    with pytest.raises(DataError, match=r"X\[7\] holds categories in column 'p', which held"):
        model.add_task(7, table, Y)


def test_importances_of_no_task_or_kind_are_refused(library):
    model = mtboost.fit(X, Y, task=TASK, backend=library.name, **SMALL)
    with pytest.raises(DataError, match="task 9 is unknown. Known: tasks 0, 1"):
        model.importance(9)
    with pytest.raises(ParameterError, match="importance_type must be"):
        model.importance(0, "x")
    with pytest.raises(TypeError, match="importance_type must be None or a str, found"):
        model.importance(0, pd.Series([1.0, 2.0]))


@pytest.mark.parametrize("argument", ["params", "specific_params"])
def test_lightgbm_refuses_monotone_constraints_on_categories(argument):
    # LightGBM ends the process.
    table = FRAME.assign(q=pd.Categorical(["a", "b"] * 20))
    message = f"{argument}: monotone_constraints must be 0 for column 'q'"
    options = {"task": TASK, "backend": "lightgbm", **SMALL}
    for signs in ([0, 1, 0], "1,-1,0"):
        with pytest.raises(ParameterError, match=message):
            mtboost.fit(
                table,
                Y,
                **options,
                **{argument: {"monotone_constraints": signs}},
            )
    mtboost.fit(
        table,
        Y,
        **options,
        **{argument: {"monotone_constraints": [1, 0, -1]}},
    )


@pytest.mark.filterwarnings("ignore:weight adds up")  # tests/api/test_scales.py
def test_xgboost_refuses_weights_whose_sum_it_cannot_store():
    # Each weight fits in float32, but not their sum.
    weight = np.full(N, 0.1 * np.finfo(np.float32).max)
    with pytest.raises(TrainingError, match=r"add up to 1\.\d+e\+39, .* Rescale weight"):
        mtboost.fit(X, Y, task=TASK, weight=weight, **SMALL)


def test_a_new_task_is_not_named_by_a_table():
    model = mtboost.fit(X, Y, task=TASK, **SMALL)
    with pytest.raises(DataError, match="task is the Series .* are named by int: use one type"):
        model.add_task(pd.Series([1.0, 2.0]), X, Y)


@pytest.mark.parametrize(
    "name", ["subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode"]
)
def test_xgboost_trees_of_several_tasks_need_some_rows_and_columns(name):
    # XGBoost itself allows 0; the core refused it when the first tree was grown.
    message = rf"{name} must be a finite number in \(0, 1], found 0.0"
    with pytest.raises(ParameterError, match=f"params: {message}"):
        mtboost.fit(X, Y, task=TASK, params={name: 0}, **SMALL)
    with pytest.raises(ParameterError, match=message):
        mtboost.train({name: 0}, mtboost.Dataset(X, Y, task=TASK), 1)


def test_the_objective_of_a_new_task_is_a_function_or_none():
    model = mtboost.fit(X, Y, task=TASK, **SMALL)
    with pytest.raises(TypeError, match="objective must be None or a function, found {7: 'x'}"):
        model.add_task(7, X, Y, objective={7: "x"})


def test_numbers_beyond_float64_are_infinite_to_lightgbm():
    model = mtboost.fit(X, Y, task=TASK, backend="lightgbm", **SMALL)
    infinite = np.where(X > 0, np.inf, -np.inf)
    np.testing.assert_array_equal(
        model.predict(LONG, task=TASK), model.predict(infinite, task=TASK)
    )


# ---- train, tune and the plug-ins ----------------------------------------------------------------

BAD_TRAINS = {
    "params": ({"params": [[1, 2], [3]]}, TypeError, "params must be a mapping"),
    "rounds": ({"num_boost_round": "x"}, TypeError, "num_boost_round must be"),
    "stopping": ({"early_stopping_rounds": 1}, ParameterError, "needs evals"),
    "stopping, type": ({"early_stopping_rounds": "x"}, TypeError, "early_stopping_rounds must be"),
    "evals": ({"evals": 3}, TypeError, "evals must be a sequence of pairs"),
    "name of evals": ({"evals": [(mtboost.Dataset(X, Y), 3)]}, TypeError, "name of an evaluation"),
    "model": ({"xgb_model": 3}, TypeError, "xgb_model must be None, a Booster, a path or"),
    "no file": ({"xgb_model": "nowhere.ubj"}, FileNotFoundError, "nowhere.ubj"),
    "no model": ({"xgb_model": bytearray(b"{}")}, ModelFormatError, "xgb_model holds no model"),
}


@pytest.mark.parametrize(("changes", "error", "message"), BAD_TRAINS.values(), ids=BAD_TRAINS)
def test_train_refuses(changes, error, message):
    data = mtboost.Dataset(X, Y, task=TASK)
    options = {"params": {"nthread": 1}, "num_boost_round": 2, "verbose_eval": False, **changes}
    with pytest.raises(error, match=message):
        mtboost.train(options.pop("params"), data, **options)


BAD_TUNES = {
    "seed": ({"seed": -1}, ParameterError, "seed must be"),
    "space": ({"space": {3: [1]}}, TypeError, "a name in space must be a str, found 3"),
    "objective": ({"objective": pd.Series([1.0])}, TypeError, "objective must be None or"),
    "rounds": ({"specific_rounds": np.empty(0)}, TypeError, "specific_rounds must be"),
    "rounds, huge": ({"specific_rounds": -HUGE}, ParameterError, "specific_rounds must be"),
    "validation": ({"validation_fraction": np.empty(0)}, TypeError, "validation_fraction must be"),
    **{
        f"range, {low:g} to {high:g}": (
            {"space": {"reg_lambda": (low, high)}},
            ParameterError,
            r"space\['reg_lambda'\] is .* of finite numbers",
        )
        for low, high in [(0, np.inf), (-np.inf, 1), (-1e308, 1e308)]
    },
    "range, huge": ({"space": {"max_depth": (1, HUGE)}}, ParameterError, "of finite numbers"),
}


@pytest.mark.parametrize(("changes", "error", "message"), BAD_TUNES.values(), ids=BAD_TUNES)
def test_tune_refuses(changes, error, message):
    with pytest.raises(error, match=message):
        mtboost.tune(X, Y, **{"task": TASK, "n_trials": 1, **SMALL, **changes})


@pytest.mark.parametrize("method", ["_set_trial", "_update_cache"])
def test_ctrl_c_while_optuna_stores_a_result_ends_the_search(method, monkeypatch):
    # Optuna turns it into an UnboundLocalError.
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.InMemoryStorage
    own = getattr(storage, method)

    def interrupted(self, trial_id, given):
        trial = given if method == "_set_trial" else self.get_trial(trial_id)
        if trial.state.is_finished():
            raise KeyboardInterrupt
        return own(self, trial_id, given)

    monkeypatch.setattr(storage, method, interrupted)
    arguments = {"task": TASK, "n_trials": 2, "seed": 1, **SMALL}
    if method == "_set_trial":  # nothing is stored
        with pytest.raises(KeyboardInterrupt):
            mtboost.tune(X, Y, **arguments)
    else:
        with pytest.warns(UserWarning, match="interrupted: the best of 1 finished"):
            found = mtboost.tune(X, Y, **arguments)
        assert found.best_score == found.study.trials[0].value


def test_tune_takes_a_seed_beyond_32_bits():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found = mtboost.tune(X, Y, task=TASK, n_trials=1, seed=2**40, **SMALL)
    assert len(found.study.trials) == 1


PLUG_INS = {"xgboost": (mtboost.xgboost, xgboost), "lightgbm": (mtboost.lightgbm, lightgbm)}


@pytest.mark.parametrize("name", PLUG_INS)
def test_pairs_of_plug_ins_are_pairs_of_a_matrix_and_tasks(name):
    module, _ = PLUG_INS[name]
    kind = "DMatrix" if name == "xgboost" else "Dataset"
    for odd in (["a"], [(X, TASK)], [(X, TASK, 1)]):
        with pytest.raises(TypeError, match=rf"valid_tasks\[0\] must be a pair \({kind}, task of"):
            module.TaskSplit(TASK, valid_tasks=odd)
        with pytest.raises(TypeError, match=rf"tasks\[0\] must be a pair \({kind}, task of each"):
            module.task_metric("rmse", odd)
    with pytest.raises(TypeError, match="tasks must be a sequence of pairs"):
        module.task_metric("rmse", 3)
    with pytest.raises(TypeError, match="objective must be a name or a function, found 3"):
        module.TaskObjective(3, TASK)


@pytest.mark.parametrize("name", PLUG_INS)
@pytest.mark.parametrize("penalty", [np.empty(0), np.ones(2), None])
def test_task_splits_without_a_column_are_refused(name, penalty):
    with pytest.raises(ParameterError, match="is about nodes that split the tasks by a column"):
        PLUG_INS[name][0].TaskSplit(TASK, task_splits=penalty)


@pytest.mark.parametrize("name", PLUG_INS)
def test_plug_ins_need_tasks(name):
    module, library = PLUG_INS[name]
    objective = "reg:squarederror" if name == "xgboost" else "regression"
    for make in (
        lambda: module.TaskSplit(None),
        lambda: module.TaskObjective(objective, None),
        lambda: module.task_metric("rmse", [(library.Dataset(X, Y), None)]),
    )[: 2 if name == "xgboost" else 3]:  # None is a single task to that of XGBoost
        with pytest.raises(DataError, match="task must be one label a row, found NoneType"):
            make()


@pytest.mark.parametrize("name", PLUG_INS)
def test_the_booster_of_an_estimator_is_asked_for(name):
    module, library = PLUG_INS[name]
    split = module.TaskSplit(TASK, split_score="plain", pooling=1.0)
    if name == "xgboost":
        estimator = library.XGBRegressor(n_estimators=2, callbacks=[split]).fit(X, Y)
        booster, attribute = estimator.get_booster(), r"get_booster\(\)"
    else:
        estimator = library.LGBMRegressor(n_estimators=2, verbosity=-1)
        booster, attribute = estimator.fit(X, Y, callbacks=[split]).booster_, "booster_"
    with pytest.raises(TypeError, match=rf"that of an estimator is {attribute}\), found"):
        split.booster(estimator, 0)
    assert type(split.booster(booster, 0)) is library.Booster


def test_parts_of_projected_objectives_are_checked_at_once():
    with pytest.raises(TypeError, match="shared must be True or False"):
        mtboost.xgboost.ProjectedObjective(shared=pd.Series([1.0]))
    with pytest.raises(TypeError, match="valid_labels must be None or a mapping"):
        mtboost.lightgbm.ProjectedObjective(OUTPUTS, valid_labels=-0.5)
    with pytest.raises(DataError, match=r"labels has shape \(0,\)"):
        mtboost.lightgbm.ProjectedObjective([])


def test_vector_trees_take_no_more_components_than_outputs():
    params = {"multi_strategy": "multi_output_tree", "min_child_weight": 0, "nthread": 1}
    for components in (4, 1.5):
        projected = mtboost.xgboost.ProjectedObjective(n_components=components)
        with pytest.raises(ParameterError, match="has 4 components, .* outputs at most, 3"):
            xgboost.train(params, xgboost.DMatrix(X, OUTPUTS), 2, callbacks=[projected])


def test_lightgbms_projected_trees_need_a_column_to_split():
    projected = mtboost.lightgbm.ProjectedObjective(OUTPUTS)
    data = lightgbm.Dataset(np.ones((N, 2)), Y, params={"verbosity": -1})
    with pytest.raises(DataError, match="No column can be split"):
        lightgbm.train({"verbosity": -1}, data, 2, callbacks=[projected])


# ---- functions and generated data ----------------------------------------------------------------


def test_compress_refuses():
    forest = RandomForestRegressor(2, random_state=0).fit(X, Y)
    with pytest.raises(DataError, match="column 'p' of dtype List"):
        mtboost.compress(forest, pl.DataFrame({"p": [[1.0]] * N}), Y, n_steps=2)
    with pytest.raises(ParameterError, match="random_state must be .*found -1"):
        mtboost.compress(forest, X, Y, random_state=-1)
    with pytest.raises(DataError, match="y: int too large"):
        mtboost.compress(forest, X, planted(Y, HUGE), n_steps=2)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        ("make_fraud_scenes", {"scale": 1e308}),
        ("make_fraud_scenes", {"scale": 2.0**40}),
        ("make_friedman1_chain", {"noise": 1e308}),
        ("make_signum", {"gamma": 1e308}),
        ("make_task_family", {"kind": "related", "noise": 1e308}),
        ("make_related_tasks", {"n_regions": 2**40}),
    ],
)
def test_generated_data_refuse_numbers_that_overflow(make, arguments):
    with pytest.raises(ParameterError, match=f"{list(arguments)[-1]}.* must be"):
        getattr(mtboost.datasets, make)(**arguments)


def test_generated_data_take_numbers_of_any_type():
    noise = mtboost.datasets.make_friedman1_chain(20, noise=-0.0)
    np.testing.assert_array_equal(noise.y, mtboost.datasets.make_friedman1_chain(20, noise=0).y)
    with pytest.raises(ParameterError, match="each class needs"):
        mtboost.datasets.make_fraud_scenes("scene2", positive_rate=np.uint8(1), scale=0.01)
    mtboost.datasets.make_fraud_scenes(missing=1e-320, scale=0.01)


def test_spark_takes_no_table_of_one_machine():
    with pytest.raises(TypeError, match="rows is a pandas.*createDataFrame.*mtboost.fit"):
        mtboost.spark.train({}, FRAME, 2, features=["p"], label="q", task="r")
