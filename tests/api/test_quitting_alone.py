# SPDX-License-Identifier: Apache-2.0
"""``TaskQuitting`` and ``task_metric`` in the user's own training."""

import lightgbm
import numpy as np
import pytest
import xgboost

import mtboost.lightgbm
import mtboost.xgboost
from mtboost.errors import DataError, ParameterError, UnsupportedError

LIBRARIES = ["xgboost", "lightgbm"]
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
TASK = rng.choice(["a", "b"], 400)
Y = X[:, 0] + (TASK == "a") * X[:, 1] + 0.1 * rng.normal(size=400)
PART = {"train": np.arange(400) % 4 > 0, "valid": np.arange(400) % 4 == 0}
SPLIT = {
    "xgboost": mtboost.xgboost.TaskSplit(TASK[PART["train"]], split_score="plain"),
    "lightgbm": mtboost.lightgbm.TaskSplit(TASK[PART["train"]], split_score="plain"),
}
PARAMS = {
    "xgboost": {"max_depth": 2, "nthread": 1},
    "lightgbm": {"num_leaves": 4, "num_threads": 1, "verbosity": -1},
}


def matrix(library, part="train", y=Y):
    rows = PART[part]
    label = None if y is None else y[rows]
    kind = {"xgboost": xgboost.DMatrix, "lightgbm": lightgbm.Dataset}[library]
    return kind(X[rows], label=label)


def quitting(library, valid, task=TASK[PART["valid"]], **options):
    return {"xgboost": mtboost.xgboost, "lightgbm": mtboost.lightgbm}[library].TaskQuitting(
        valid, task, **options
    )


def train(library, callbacks, valid, *, y=Y, obj=None, n_rounds=5, **params):
    params = {**PARAMS[library], **params}
    if library == "xgboost":
        evals = [(valid, "valid")] if valid.get_label().size else []
        return xgboost.train(
            params,
            matrix(library, y=y),
            n_rounds,
            evals=evals,
            obj=obj,
            callbacks=callbacks,
            verbose_eval=False,
        )
    if obj is not None:
        params["objective"] = obj
    data = matrix(library, y=y)
    return lightgbm.train(
        params, data, n_rounds, valid_sets=[valid], valid_names=["valid"], callbacks=callbacks
    )


@pytest.mark.parametrize(
    ("objective", "option", "metric", "of_library"),
    [
        ("reg:tweedie", {"tweedie_variance_power": 1.2}, "tweedie-nloglik@1.2", None),
        ("reg:pseudohubererror", {"huber_slope": 0.2}, "mphe@0.2", "mphe"),
    ],
)
@pytest.mark.parametrize("has_own_trees", [True, False])
def test_the_default_metric_has_the_parameters_of_the_objective(
    objective, option, metric, of_library, has_own_trees
):
    y = np.abs(Y)
    valid = matrix("xgboost", "valid", y)
    task_a = TASK[PART["valid"]] == "a"
    loss, callbacks = None, [SPLIT["xgboost"]]
    if has_own_trees:
        loss = mtboost.xgboost.TaskObjective(objective, TASK[PART["train"]], **option)
        callbacks = []
    watch = quitting("xgboost", valid, objective=loss, early_stopping_rounds=None)
    booster = train(
        "xgboost", [*callbacks, watch], valid, y=y, obj=loss, objective=objective, **option
    )
    of_a = valid.slice(np.flatnonzero(task_a))
    of_xgboost = float(booster.eval_set([(of_a, "a")]).split(f"a-{of_library or metric}:")[1])
    assert watch.metric.name == metric
    assert watch.history["a"][-1] == pytest.approx(of_xgboost, abs=2e-6)  # XGBoost sums floats


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_default_metric_is_that_of_the_last_training(library):
    y = (Y > 0).astype(float)
    valid = matrix(library, "valid", y)
    watch = quitting(library, valid if library == "xgboost" else "valid")
    names = {
        "xgboost": ["reg:squarederror", "binary:logistic"],
        "lightgbm": ["regression", "binary"],
    }
    found = []
    for objective in names[library]:
        train(
            library,
            [SPLIT[library], watch],
            matrix(library, "valid", y) if library == "lightgbm" else valid,
            y=y,
            objective=objective,
        )
        found.append(watch.metric.name)
    assert found == ["rmse", "logloss"]


def test_cross_validation_with_xgboost_is_refused():
    valid = matrix("xgboost", "valid")
    for given in (
        quitting("xgboost", valid),
        quitting("xgboost", "test"),
        quitting("xgboost", valid, None),
    ):
        with pytest.raises(UnsupportedError, match="train each fold with xgboost.train"):
            xgboost.cv(PARAMS["xgboost"], matrix("xgboost"), 2, callbacks=[given])


def test_validation_rows_without_labels_are_refused():
    valid = matrix("xgboost", "valid", None)
    with pytest.raises(DataError, match="has no labels: give it label="):
        train("xgboost", [SPLIT["xgboost"], quitting("xgboost", valid)], valid)


def test_a_metric_of_tasks_needs_labels():
    valid = matrix("xgboost", "valid", None)
    metric = mtboost.xgboost.task_metric("rmse", [(valid, TASK[PART["valid"]])])
    with pytest.raises(DataError, match="without labels: give it label="):
        metric(np.zeros(100, np.float32), valid)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
@pytest.mark.parametrize("library", LIBRARIES)
def test_estimators_take_a_callback_instead_of_a_metric_of_tasks(library):
    X_train, y_train, X_valid, y_valid = (
        each[PART[part]] for part in ("train", "valid") for each in (X, Y)
    )
    name = {"xgboost": "validation_0", "lightgbm": "valid_0"}[library]
    module = {"xgboost": mtboost.xgboost, "lightgbm": mtboost.lightgbm}[library]
    metric = module.task_metric("mae", [(matrix(library, "valid"), TASK[PART["valid"]])])
    watch = quitting(library, name, metric="mae", early_stopping_rounds=None)
    callbacks = [SPLIT[library], watch]

    def fit(eval_metric, callbacks):
        valid = [(X_valid, y_valid)]
        if library == "xgboost":
            options = {"callbacks": callbacks, "eval_metric": eval_metric}
            estimator = xgboost.XGBRegressor(n_estimators=3, n_jobs=1, **options)
            estimator.fit(X_train, y_train, eval_set=valid, verbose=False)
        else:
            estimator = lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbosity=-1)
            options = {"callbacks": callbacks, "eval_metric": eval_metric}
            estimator.fit(X_train, y_train, eval_set=valid, **options)

    with pytest.raises(UnsupportedError, match=rf"give it the callback TaskQuitting\('{name}'"):
        fit(metric, callbacks)
    fit(None, callbacks)
    assert {task: len(values) for task, values in watch.history.items()} == {"a": 4, "b": 4}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_logger_is_given_lines_without_their_end(library):
    lines = []
    watch = quitting(library, "valid", verbose=True, logger=lines.append)
    train(library, [SPLIT[library], watch], matrix(library, "valid"), n_rounds=2)
    assert len(lines) == 2
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_objective_that_is_not_trained_with_is_refused(library):
    kind = {"xgboost": mtboost.xgboost, "lightgbm": mtboost.lightgbm}[library].TaskObjective
    name = {"xgboost": "reg:squarederror", "lightgbm": "regression"}[library]
    loss = kind(name, TASK[PART["train"]])
    valid = matrix(library, "valid")
    watch = quitting(library, valid, objective=loss)
    with pytest.raises(ParameterError, match="is not what the booster is trained with"):
        train(library, [watch], valid)
    valid = matrix(library, "valid")
    watch = quitting(library, valid, objective=loss)
    train(library, [watch], valid, obj=loss)
    assert sorted(watch.quit_round) == ["a", "b"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_tasks_of_validation_rows_that_are_left_out_are_named(library):
    valid = matrix(library, "valid")
    with pytest.raises(DataError, match=r"tasks 'a', 'b': give it task="):
        train(library, [SPLIT[library], quitting(library, valid, None)], valid)


@pytest.mark.parametrize("metric", ["auc", "logloss", "error@0.3"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_labels_that_are_not_of_two_classes_are_an_error(library, metric):
    data, valid = matrix(library), matrix(library, "valid")
    own = {"xgboost": mtboost.xgboost, "lightgbm": mtboost.lightgbm}[library]
    by_task = own.task_metric(metric, [(valid, TASK[PART["valid"]])])
    watch = quitting(library, valid, metric=metric)
    run, metric_name, evals = {
        "xgboost": (xgboost.train, "custom_metric", {"evals": [(valid, "valid")]}),
        "lightgbm": (lightgbm.train, "feval", {"valid_sets": [valid]}),
    }[library]
    message = f"^{metric.partition('@')[0]}.* needs labels of two classes, from 0 to 1"
    for options in ({"callbacks": [SPLIT[library], watch]}, {metric_name: by_task}):
        with pytest.raises(DataError, match=message):
            run(PARAMS[library], data, 3, **evals, **options)
