# SPDX-License-Identifier: Apache-2.0
"""Optuna searches over our training, and prunes it."""

import pytest
from interop.backends import LABELS, N_TRAIN, NUMBERS, SHOPS, TASK
from sklearn.model_selection import cross_val_score

import mtboost

optuna = pytest.importorskip("optuna", reason="pip install 'mtboost[interop]'")
optuna_integration = pytest.importorskip(
    "optuna_integration", reason="pip install 'mtboost[interop]'"
)

RATES = [0.3, 0.2, 0.001]  # the last is too slow to be let finish


@pytest.fixture(autouse=True)
def quiet():
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(level)


def study_of_rates(train):
    """Study of ``train(learning_rate, trial)`` that prunes what is worse than the median."""
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=2))
    for rate in RATES:
        study.enqueue_trial({"rate": rate})
    study.optimize(lambda trial: train(trial.suggest_float("rate", 0, 1), trial), len(RATES))
    return study


def assert_pruned(study, histories):
    """The first two trials reported all rounds, the third was pruned after its first."""
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "PRUNED"]
    found = [list(trial.intermediate_values.values()) for trial in study.trials]
    assert found == [histories[0], histories[1], histories[2][:1]]
    assert all(len(history) == 8 for history in histories)


def test_trials_report_the_rounds_of_the_library_and_are_pruned(backend):
    def train(rate, trial):
        callback = backend.pruning_callback(optuna_integration, trial)
        return backend.train_watched(rate, [callback])[1][-1]

    assert_pruned(study_of_rates(train), [backend.train_watched(rate)[1] for rate in RATES])


def test_trials_of_mtboost_train_are_pruned():
    y = LABELS["yes or no"]
    data = mtboost.Dataset(NUMBERS[:N_TRAIN], y[:N_TRAIN], task=TASK[:N_TRAIN])
    valid = mtboost.Dataset(NUMBERS[N_TRAIN:], y[N_TRAIN:], task=TASK[N_TRAIN:])

    def history(rate, callbacks=()):
        found = {}
        mtboost.train(
            {"objective": "binary:logistic", "eta": rate, "nthread": 1},
            data,
            8,
            evals=[(valid, "valid")],
            evals_result=found,
            verbose_eval=False,
            callbacks=callbacks,
        )
        return found["valid"]["logloss"]

    def train(rate, trial):
        return history(rate, [optuna_integration.XGBoostPruningCallback(trial, "valid-logloss")])[
            -1
        ]

    assert_pruned(study_of_rates(train), [history(rate) for rate in RATES])


def test_a_study_cross_validates_an_estimator(backend):
    y = LABELS["yes or no"]

    def score(parameters):
        return cross_val_score(backend.estimator().set_params(**parameters), SHOPS, y, cv=2).mean()

    def objective(trial):
        return score(
            {
                "max_depth": trial.suggest_int("max_depth", 1, 4),
                "split_score": trial.suggest_categorical("split_score", ["plain", "entropy"]),
            }
        )

    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=3)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, 4)
    assert study.best_value == score(study.best_params)
