# SPDX-License-Identifier: Apache-2.0
"""fit(calibrate=True): probabilities by held-out rows, in predictions, boosters and files."""

import numpy as np
import pytest

import mtboost
from mtboost import MultiTaskClassifier
from mtboost.errors import ModelFormatError, ParameterError, UnsupportedError

RNG = np.random.default_rng(3)
N = 900
X = RNG.normal(size=(N, 3))
TASK = np.resize(["a", "b", "c"], N)
Y = (X[:, 0] + (TASK == "b") * X[:, 1] + RNG.logistic(size=N) > 0).astype(float)
# Boosted for long, which makes probabilities extreme.
LONG = {
    "strategy": "two-stage",
    "early_stopping_rounds": None,
    "num_boost_round": 40,
    "specific_rounds": 0,
    "params": {"learning_rate": 0.5},
    "n_threads": 1,
}


@pytest.fixture(scope="module")
def long():
    return mtboost.fit(X, Y, task=TASK, calibrate=True, **LONG)


def log_loss(model, X, y, task):
    p = np.clip(model.predict(X, task=task).astype(float), 1e-6, 1 - 1e-6)
    return -np.mean(y * np.log(p) + (1 - y) * np.log1p(-p))


def test_overconfident_margins_are_shrunk_and_probabilities_are_better(long):
    plain = mtboost.fit(X, Y, task=TASK, **LONG)
    X2 = RNG.normal(size=(3000, 3))
    task = np.resize(["a", "b", "c"], 3000)
    y = (X2[:, 0] + (task == "b") * X2[:, 1] + RNG.logistic(size=3000) > 0).astype(float)
    assert all(0 < long.calibration.of(name)[0] < 0.6 for name in long.tasks)
    assert log_loss(long, X2, y, task) < log_loss(plain, X2, y, task) - 0.02
    raw = plain.predict_margin(X2, task=task).astype(float)
    slopes, intercepts = np.array([long.calibration.of(name) for name in task]).T
    np.testing.assert_allclose(
        long.predict_margin(X2, task=task), slopes * raw + intercepts, atol=1e-5
    )
    unknown = long.predict_margin(X2[:5], task=["z"] * 5, unknown_task="common")
    raw = plain.predict_margin(X2[:5], task=["z"] * 5, unknown_task="common")
    slope, intercept = long.calibration.pooled
    np.testing.assert_allclose(unknown, slope * raw + intercept, atol=1e-5)


def test_tables_per_task_and_one_table_have_the_same_probabilities(long):
    rows = {name: np.flatnonzero(name == TASK) for name in long.tasks}
    by_row = long.predict(X, task=TASK)
    by_task = long.predict({name: X[own] for name, own in rows.items()})
    assert all(np.array_equal(by_row[own], by_task[name]) for name, own in rows.items())


@pytest.mark.parametrize("rounds", [1, 20])
def test_boosters_contain_the_calibration(library, rounds, tmp_path):
    """Up to the rounding of float32 leaves."""
    options = {"strategy": "two-stage", "num_boost_round": rounds, "n_threads": 1}
    model = mtboost.fit(X, Y, task=TASK, backend=library.name, calibrate=True, **options)
    margins = model.predict_margin(dict.fromkeys(model.tasks, X))
    for name in model.tasks:
        slope, intercept = model.calibration.of(name)
        assert (slope, intercept) != (1.0, 0.0)
        document = model._library.document(model.booster(name))
        found = model._library.predict_margin(
            document.load(),
            model.task_columns[name].align(mtboost.base.checked_tables.as_table(X)),
            None,
        )
        np.testing.assert_allclose(found, margins[name], atol=1e-5)
        sums = model.contributions({name: X})[name].sum(axis=1)
        np.testing.assert_allclose(sums, margins[name], atol=1e-4)
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    assert loaded.calibration == model.calibration
    np.testing.assert_array_equal(loaded.predict(X, task=TASK), model.predict(X, task=TASK))


def test_auto_calibrates_without_the_weight_of_positives():
    """Probabilities of a loss that counts positives ten times are those of the rows again."""
    fixed = {"max_depth": 2, "subsample": 1.0, "scale_pos_weight": 10.0}
    auto = {"effort": "fast", "symmetric_trees": False, "num_boost_round": 60, "n_threads": 1}
    auto |= {"linear_effects": False, "specific_rounds": 20}
    model = mtboost.fit(X, Y, task=TASK, calibrate=True, params=fixed, **auto)
    assert abs(model.predict(X, task=TASK).mean() - Y.mean()) < 0.05
    model.calibration = None
    assert model.predict(X, task=TASK).mean() > Y.mean() + 0.2


def test_changes_of_a_calibrated_model(long):
    smaller = long.remove_task("b")
    assert set(smaller.calibration.by_task) == {"a", "c"}
    np.testing.assert_array_equal(smaller.predict({"a": X})["a"], long.predict({"a": X})["a"])
    for change in (
        lambda: long.update(X, Y, task=TASK, rounds=1, validation_fraction=0),
        lambda: long.refresh(X, Y, task=TASK),
    ):
        with pytest.warns(UserWarning, match="is calibrated, and the one that update") as found:
            assert change().calibration is None
        assert found[0].filename == __file__
    with pytest.raises(UnsupportedError, match=r"models\[0\] is calibrated"):
        mtboost.average_models([long])


def test_a_classifier_calibrates():
    options = {"strategy": "two-stage", "n_estimators": 10, "random_state": 0}
    classifier = MultiTaskClassifier(calibrate=True, **options).fit(X, Y, task=TASK)
    p = classifier.predict_proba(X, task=TASK)
    np.testing.assert_array_equal(p[:, 1], classifier.model_.predict(X, task=TASK))


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "reg:squarederror"},
        {"objective": "multi:softprob", "y": np.resize([0, 1, 2], N)},
        {"objective": "binary:hinge"},
        {"objective": dict.fromkeys("abc", "binary:logistic")},
        {"base_margin": np.zeros(N)},
        {"n_ensemble": 2},
    ],
)
def test_what_cannot_be_calibrated_is_refused(options):
    with pytest.raises(ParameterError, match="calibrate=True"):
        mtboost.fit(**{"X": X, "y": Y, "task": TASK, "calibrate": True, **options})


def test_files_with_another_calibration_are_refused(long):
    metadata, members = mtboost.model.parts.model_file.to_parts(long.__getstate__())
    for change in ({"pooled": [1.0]}, {"slopes": [1.0]}, {"tasks": ["a", "a", "b"]}):
        forged = {**metadata, "format": 7, "calibration": {**metadata["calibration"], **change}}
        with pytest.raises(ModelFormatError, match="calibration"):
            mtboost.model.parts.model_file.from_parts(forged, members)
