# SPDX-License-Identifier: Apache-2.0
"""tune() searches over the settings of fit() and fits the best."""

import sys
from functools import partial

import numpy as np
import optuna
import pytest
from optuna.pruners import NopPruner

import mtboost
from mtboost.errors import DataError, ParameterError, TrainingError, UnsupportedError

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

_rng = np.random.default_rng(0)
N_ROWS = 400
X = _rng.normal(size=(N_ROWS, 4))
TASK = np.tile(["a", "a", "a", "b"], N_ROWS // 4)
Y = X[:, 0] + X[:, 1] + (TASK == "b") * X[:, 2] + _rng.normal(size=N_ROWS)  # stumps are enough
FEW_ROUNDS = {
    "num_boost_round": 15,
    "strategy": "two-stage",
    "specific_rounds": 5,
    "early_stopping_rounds": 5,
    "n_threads": 1,
}
DEPTHS = {"max_depth": (1, 6)}


def run(function, X=X, y=Y, **options):
    return function(X, y, **{"task": TASK, **FEW_ROUNDS, **options})


tune_xgboost = partial(run, mtboost.tune, n_trials=4)


@pytest.fixture
def tune(library):
    return partial(tune_xgboost, backend=library.name)


@pytest.fixture
def fit(library):
    return partial(run, mtboost.fit, backend=library.name)


def mean_score(model):
    return np.mean([report.scores["final"] for report in model.reports.values()])


def states(study):
    return [trial.state.name for trial in study.trials]


# What is found ------------------------------------------------------------------------------------


def test_the_first_trial_is_what_fit_does_by_default(tune, fit):
    assert tune(n_trials=1).best_score == mean_score(fit())


@pytest.mark.parametrize(
    ("name", "highest"), [("reg_lambda", 9.0), ("max_delta_step", 0.1), ("colsample_bynode", 1.0)]
)
def test_the_first_trial_has_the_default_of_a_parameter_in_the_space(tune, fit, name, highest):
    assert tune(n_trials=1, space={name: (0.0, highest)}).best_score == mean_score(fit())


def test_the_first_trial_keeps_what_all_trials_have(tune, fit):
    params = {"eta": 0.2, "max_depth": 3}
    found = tune(n_trials=1, params=params)
    assert found.best_score == mean_score(fit(params=params))
    assert not {"learning_rate", "max_depth"} & found.best_params.keys()


def test_trials_are_scored_on_the_rows_that_fit_holds_out(tune, fit):
    found = tune(space={**DEPTHS, "min_delta": (0.0, 0.01)})
    for trial in found.study.trials:
        own = {k: v for k, v in trial.params.items() if k not in ("split_score", "min_delta")}
        specific = {k.removeprefix("specific_"): own.pop(k) for k in [*own] if "specific" in k}
        if found.model.backend == "lightgbm":
            own["bagging_freq"] = 1
        again = fit(
            params=own,
            specific_params=specific,
            split_score=trial.params["split_score"],
            min_delta=trial.params["min_delta"],
        )
        assert trial.value == mean_score(again)
        assert list(trial.user_attrs["scores"]) == ["a", "b"]


def test_a_better_depth_than_the_default_is_found_where_depth_matters(tune, fit, library):
    params = {"learning_rate": 0.5}
    if library.name == "lightgbm":
        params["min_child_samples"] = 1  # as XGBoost

    def space(trial):
        return {"max_depth": trial.suggest_int("max_depth", 1, 6)}

    found = tune(space=space, params=params, n_trials=6, seed=1)
    assert found.best_params["max_depth"] <= 2
    assert found.best_score < mean_score(fit(params=params, seed=1))


def test_the_model_is_fitted_on_all_rows_with_the_best_settings(tune, fit, library):
    found = tune()
    assert found.best_score == min(trial.value for trial in found.study.trials)
    again = fit(**{**found.fit_arguments, "refit": True})
    assert (again.predict(X, task=TASK) == found.model.predict(X, task=TASK)).all()
    without = fit(**{**found.fit_arguments, "refit": False})
    assert mean_score(without) == found.best_score
    assert (without.predict(X, task=TASK) != found.model.predict(X, task=TASK)).any()


def test_a_seed_decides_everything(tune):
    one, same, other = (tune(seed=seed) for seed in (0, 0, 1))
    for name in ("params", "value", "intermediate_values"):
        found = [
            [getattr(trial, name) for trial in each.study.trials] for each in (one, same, other)
        ]
        assert found[0] == found[1] != found[2]
    assert (one.model.predict(X, task=TASK) == same.model.predict(X, task=TASK)).all()


def test_a_metric_of_which_more_is_better_is_maximised(tune, fit, library):
    options = {"objective": library.own("binary:logistic"), "eval_metric": "auc", "y": Y > 0}
    found = tune(**options)
    assert found.metric == "auc"
    values = [trial.value for trial in found.study.trials]
    assert found.best_score == max(values) > min(values)
    assert values[0] == mean_score(fit(**options))


def test_rows_to_validate_on_may_be_given_and_are_not_fitted():
    own = X[:300], Y[:300]
    found = tune_xgboost(*own, task=TASK[:300], eval_set=(X[300:], Y[300:], TASK[300:]))
    assert found.model.report()["rows"].sum() == 300
    assert found.model.report()["valid_rows"].sum() == 100
    assert found.best_score == mean_score(found.model)


QUICK_AUTO = {"strategy": "auto", "params": {"max_depth": 2}, "n_trials": 2}


def test_what_auto_leaves_open_is_searched(tune, fit):
    found = tune(**QUICK_AUTO)
    assert len(found.best_params) == 2  # least data in a leaf, columns
    assert set(states(found.study)) == {"COMPLETE"}
    options = {name: value for name, value in QUICK_AUTO.items() if name != "n_trials"}
    assert found.study.trials[0].value == mean_score(fit(**options, refit=False))
    assert found.model.common_losses
    assert found.model.report()["rows"].sum() < N_ROWS  # by which its settings were chosen
    assert (
        found.model.predict(X, task=TASK) == fit(**found.fit_arguments).predict(X, task=TASK)
    ).all()


def test_what_a_trial_sets_auto_keeps(tune):
    space = {"split_score": ["entropy"], "pooling": [0.5], "learning_rate": (0.1, 0.3)}
    found = tune(**{**QUICK_AUTO, "space": space, "n_trials": 1})
    assert all("given pooling" in name for name in found.model.common_losses)
    assert found.model.common_trees.pooled.pooling == 0.5
    steps = [len(trial.intermediate_values) for trial in found.study.trials]
    assert min(steps) > 0


def test_tasks_may_have_tables_of_their_own():
    tables = {name: X[name == TASK] for name in ("a", "b")}
    labels = {name: Y[name == TASK] for name in ("a", "b")}
    found = tune_xgboost(tables, labels, task=None, n_trials=2)
    assert set(found.model.predict(tables)) == {"a", "b"}


def test_a_single_task_has_validation_rows_too():
    found = tune_xgboost(task=None, n_trials=2)
    assert found.model.report()["valid_rows"].tolist() == [N_ROWS / 5]


def test_a_task_without_usable_validation_rows_does_not_count():
    one_class = (Y > 0) | (TASK == "b")
    found = tune_xgboost(y=one_class, objective="binary:logistic", eval_metric="auc", n_trials=2)
    assert found.best_score == max(trial.user_attrs["scores"]["a"] for trial in found.study.trials)


def test_the_table_of_trials_has_settings_and_scores():
    found = tune_xgboost(space=DEPTHS)
    table = found.trials()
    assert table["score"].tolist() == [trial.value for trial in found.study.trials]
    assert table["max_depth"].tolist() == [t.params["max_depth"] for t in found.study.trials]
    np.testing.assert_allclose(table[["rmse a", "rmse b"]].mean(axis=1), table["score"], rtol=1e-15)
    assert (table["state"] == "complete").all()
    assert table["score"].min() == found.best_score


# The space ----------------------------------------------------------------------------------------


def test_settings_lie_in_the_space():
    space = {
        "max_depth": (2, 4),
        "reg_lambda": (0.5, 8.0, "log"),
        "split_score": ["plain", "variance"],
        "beta": (1e-4, 1e-2, "log"),
        "specific_learning_rate": [0.1, 0.2],
        "subsample": None,
    }
    found = tune_xgboost(n_trials=6, space=space)
    for trial in found.study.trials:
        own = trial.params
        assert own.keys() >= space.keys() - {"subsample"}
        assert "subsample" not in own
        assert isinstance(own["max_depth"], int)
        assert 2 <= own["max_depth"] <= 4
        assert 0.5 <= own["reg_lambda"] <= 8
        assert own["split_score"] in space["split_score"]
        assert 1e-4 <= own["beta"] <= 1e-2
        assert own["specific_learning_rate"] in (0.1, 0.2)
        assert 0.02 <= own["learning_rate"] <= 0.3  # of the default space
    assert {trial.params["split_score"] for trial in found.study.trials} == {"plain", "variance"}


def test_an_alias_replaces_the_default_of_its_parameter():
    assert "learning_rate" not in tune_xgboost(space={"eta": (0.1, 0.2)}, n_trials=1).best_params


def test_without_specific_models_their_settings_are_not_searched():
    names = tune_xgboost(specific_rounds=0, n_trials=1).best_params
    assert not [name for name in names if name.startswith("specific")]


def test_a_function_stands_for_the_whole_space(tune, fit):
    def space(trial):
        rate = trial.suggest_float("rate", 0.1, 0.4)
        return {"learning_rate": rate, "specific_learning_rate": rate / 2, "min_delta": 0.001}

    found = tune(space=space)
    rate = found.study.best_params["rate"]
    assert found.best_params == {
        "learning_rate": rate,
        "specific_learning_rate": rate / 2,
        "min_delta": 0.001,
    }
    own = {"params": {"eta": rate}, "specific_params": {"eta": rate / 2}, "min_delta": 0.001}
    assert found.best_score == mean_score(fit(**own))


# Trials that are given up -------------------------------------------------------------------------


def metrics_by_round(model):
    """Mean over tasks of the best metric so far, after 0, 1, ... rounds of the common model."""
    histories = [report.common_history for report in model.reports.values()]
    return np.mean([np.minimum.accumulate(own[1:]) for own in histories], axis=0)


def test_trials_report_where_as_much_has_been_learnt(tune, fit):
    found = tune(space=lambda trial: {"eta": trial.suggest_categorical("eta", [0.05, 0.2])})
    steps = {}
    for trial in found.study.trials:
        rate = trial.params["eta"]
        history = metrics_by_round(fit(params={"eta": rate}))
        rounds = [int(np.ceil(step * 0.5 / rate)) for step in trial.intermediate_values]
        assert list(trial.intermediate_values.values()) == [history[n - 1] for n in rounds]
        steps[rate] = list(trial.intermediate_values)
    assert steps[0.05] == [1]
    assert steps[0.2] == [1, 2, 3, 4, 5, 6][: len(steps[0.2])]  # of at most 15 rounds
    assert len(steps[0.2]) > 2


def hopeless_at_last(trial):
    """Five trials that learn, then one whose leaves are next to nothing."""
    return {"reg_lambda": 1e9 if trial.number == 5 else 1.0, "learning_rate": 0.2}


def test_a_trial_that_is_behind_is_given_up(tune):
    options = {
        "space": hopeless_at_last,
        "n_trials": 6,
        "num_boost_round": 60,
        "early_stopping_rounds": 60,
    }
    found = tune(**options)
    assert states(found.study) == ["COMPLETE"] * 5 + ["PRUNED"]
    n_reports = [len(trial.intermediate_values) for trial in found.study.trials]
    assert n_reports == [24] * 5 + [10]  # after 60 and 25 rounds of 0.2
    assert found.best_params["reg_lambda"] == 1.0
    assert found.trials().loc[5, ["score", "rmse a"]].isna().all()
    assert found.trials()["state"].tolist() == ["complete"] * 5 + ["pruned"]


def test_a_study_may_have_its_own_pruner_and_go_on():
    study = optuna.create_study(pruner=NopPruner())
    options = {"space": hopeless_at_last, "n_trials": 3}
    assert tune_xgboost(**options, study=study).study is study
    tune_xgboost(**options, study=study)
    assert states(study) == ["COMPLETE"] * 6
    assert study.trials[5].value > study.trials[0].value


# Trials that fail, and Ctrl-C ---------------------------------------------------------------------


def raise_in(number, error):
    def space(trial):
        if trial.number == number:
            raise error
        return {"max_depth": trial.suggest_int("max_depth", 1, 4)}

    return space


def test_trials_without_finite_gradients_fail_and_others_count():
    found = tune_xgboost(space=raise_in(0, TrainingError("not finite")))
    assert states(found.study) == ["FAIL"] + ["COMPLETE"] * 3
    assert found.trials()["state"][0] == "fail"


def test_it_is_an_error_if_no_trial_is_finished():
    with pytest.raises(TrainingError, match="No trial came to its end"):
        tune_xgboost(space=raise_in(0, TrainingError("not finite")), n_trials=1)


def test_ctrl_c_keeps_the_best_trial_so_far():
    whole = tune_xgboost(space=raise_in(4, KeyboardInterrupt()), n_trials=3)
    with pytest.warns(UserWarning, match="the best of 3 finished trials is fitted now"):
        found = tune_xgboost(space=raise_in(3, KeyboardInterrupt()), n_trials=20)
    assert found.best_params == whole.best_params
    assert (found.model.predict(X, task=TASK) == whole.model.predict(X, task=TASK)).all()


def test_ctrl_c_in_the_first_trial_ends_the_search():
    with pytest.raises(KeyboardInterrupt):
        tune_xgboost(space=raise_in(0, KeyboardInterrupt()))


def test_no_trial_begins_after_the_timeout():
    assert len(tune_xgboost(n_trials=100, timeout=1e-3).study.trials) == 1
    with pytest.raises(TrainingError, match="timeout ended the search"):
        tune_xgboost(n_trials=100, timeout=1e-9)


def test_trials_train_one_model_where_the_last_fit_averages_several(tune, fit):
    alone, averaged = tune(n_trials=2), tune(n_trials=2, n_ensemble=2)
    assert averaged.best_score == alone.best_score
    expected = fit(**averaged.fit_arguments)
    np.testing.assert_array_equal(
        averaged.model.predict(X, task=TASK), expected.predict(X, task=TASK)
    )
    assert averaged.fit_arguments["n_ensemble"] == 2


# Silence and errors -------------------------------------------------------------------------------


def test_optuna_is_silent_unless_asked(caplog):
    before = optuna.logging.get_verbosity()
    tune_xgboost(n_trials=1)
    assert not caplog.records
    tune_xgboost(n_trials=1, verbose=2)
    assert any("Trial 0 finished" in message for message in caplog.messages)
    assert optuna.logging.get_verbosity() == before


def test_progress_counts_the_trials_and_shows_the_best(caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    result = tune_xgboost(n_trials=2, verbose=True)
    assert [message.split(":")[0] for message in caplog.messages] == [
        "1 of at most 2",
        "2 of at most 2",
    ]
    assert caplog.messages[-1].endswith(f"best {result.best_score:.5g}")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_trials": 0}, ParameterError, "n_trials must be an integer >= 1, found 0"),
        ({"timeout": "1 h"}, ParameterError, "timeout must be None or a finite number > 0"),
        ({"specific_round": 3}, TypeError, "unknown argument 'specific_round'. Did you mean"),
        ({"on_round": print}, TypeError, "unknown argument 'on_round'"),
        ({"study": "x"}, TypeError, "study must be None or an optuna.Study, found 'x'"),
        ({"objective": "rank:map"}, UnsupportedError, "objective='rank:map' is not supported"),
        ({"objective": "rank:ndcg"}, DataError, "ranks the rows of each query: pass qid"),
        ({"validation_fraction": 0}, ParameterError, "validation_fraction is 0"),
        ({"eval_set": (X, Y, TASK), "refit": True}, ParameterError, "refit=True cannot go with"),
        ({"backend": "catboost"}, ParameterError, "backend must be"),
        ({"space": 3}, TypeError, "space is a int"),
        ({"space": {"max_dept": (1, 3)}}, TypeError, "space has an unknown name 'max_dept'. Did"),
        (
            {"space": {"specific_max_dept": (1, 3)}},
            TypeError,
            "space, after 'specific_', has an unknown name 'max_dept'",
        ),
        ({"space": {"seed": (1, 3)}}, ParameterError, "space has 'seed', which must be the same"),
        ({"space": {"eval_metric": ["auc"]}}, ParameterError, "'eval_metric', which must be"),
        (
            {"space": {"early_stopping_rounds": (1, 3)}, "early_stopping_rounds": 2},
            ParameterError,
            "space has 'early_stopping_rounds', and tune() got early_stopping_rounds=: leave one "
            "of them out",
        ),
        (
            {"space": {"eta": (0.1, 0.3)}, "params": {"learning_rate": 0.1}},
            ParameterError,
            "space has 'eta', and tune() got params={'learning_rate': ...}",
        ),
        ({"space": {"max_depth": (3, 1)}}, ParameterError, "space['max_depth'] is (3, 1): it must"),
        ({"space": {"max_depth": (0, 3, "log")}}, ParameterError, "it must be a tuple (low, high)"),
        ({"space": {"max_depth": (1, 3, "linear")}}, ParameterError, "it must be a tuple"),
        ({"space": {"max_depth": []}}, ParameterError, "it must be a tuple"),
        ({"space": {"split_score": [len]}}, ParameterError, "it must be a tuple"),
        ({"space": {"max_depth": "deep"}}, ParameterError, "it must be a tuple"),
        ({"space": lambda trial: 3}, TypeError, "space(trial) returned a int"),
        ({"space": lambda trial: {"seed": 3}}, ParameterError, "'seed', which must be the same"),
        ({"y": Y[:-1]}, DataError, "y has"),
        ({"y": np.where(Y > 0, b"yes", b"no")}, DataError, "y has dtype |S3"),
        ({"init_model": "a.mtboost"}, TypeError, "'init_model'. New rounds have the settings of"),
        ({"effort": "slow"}, ParameterError, "effort must be a number of seconds"),
        ({"y": Y > 0, "intervals": True}, ParameterError, "intervals=True is for labels that are"),
        ({"calibrate": True}, ParameterError, "calibrate=True is for one objective of two classes"),
        ({"intervals": True, "n_ensemble": 2}, ParameterError, "intervals=True is for one model"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_any_training(
    options, error, message, monkeypatch
):
    monkeypatch.setattr("mtboost.model.fitting.fit_common", partial(pytest.fail, "training"))
    with pytest.raises(error) as caught:
        tune_xgboost(**{"space": DEPTHS, **options})
    assert message in str(caught.value)


def test_what_rows_and_arguments_lack_is_no_failed_trial_of_the_study():
    study = optuna.create_study()
    with pytest.raises(DataError, match="y has"):
        tune_xgboost(y=Y[:-1], study=study)
    assert study.trials == []


def test_labels_of_nullable_columns_may_be_unknown():
    pandas = pytest.importorskip("pandas")
    labels = pandas.DataFrame({"size": Y, "weight": np.where(X[:, 3] > 0, -Y, np.nan)})
    found = [
        run(mtboost.tune, y=y, task=None, n_trials=1) for y in (labels, labels.astype("Float64"))
    ]
    assert found[0].best_score == found[1].best_score


def test_an_empty_space_is_refused():
    names = tune_xgboost(n_trials=1).best_params
    with pytest.raises(ParameterError, match="nothing to search"):
        tune_xgboost(space=dict.fromkeys(names))


def test_a_study_must_have_the_direction_of_the_metric():
    study = optuna.create_study(direction="maximize")
    with pytest.raises(ParameterError, match="study has the direction maximize, but rmse is to"):
        tune_xgboost(study=study)


def test_a_metric_that_is_defined_nowhere_is_an_error():
    with pytest.raises(DataError, match="auc is undefined on the validation rows of every task"):
        tune_xgboost(y=np.ones(N_ROWS), objective="binary:logistic", eval_metric="auc")


# fit(on_round=...) --------------------------------------------------------------------------------


def test_fit_tells_of_each_round_of_the_common_model(fit):
    told = []
    model = fit(on_round=lambda *of_round: told.append(of_round), refit=True)
    assert [n_rounds for n_rounds, _ in told] == list(range(1, len(told) + 1))
    for name, report in model.reports.items():
        assert [scores[name] for _, scores in told] == report.common_history[1:].tolist()


def test_what_on_round_raises_ends_the_training(fit):
    class EnoughError(Exception):
        pass

    def stop(n_rounds, scores):
        told.append(n_rounds)
        if n_rounds == 3:
            raise EnoughError

    told = []
    with pytest.raises(EnoughError):
        fit(on_round=stop)
    assert told == [1, 2, 3]
