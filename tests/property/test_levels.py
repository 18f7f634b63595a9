# SPDX-License-Identifier: Apache-2.0
"""Levels of tasks that are estimated again after the trees of the common model."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import xgboost
from numpy.testing import assert_allclose, assert_array_equal

import mtboost
from mtboost.model.sharing import plan, planning
from mtboost.model.stages.levels import may_have_levels
from mtboost.model.stages.linear_effects import LinearDesign

BACKENDS = ["xgboost", "lightgbm"]
N_TASKS = 15


def rows_of_tasks(seed, spread=0.0):
    """Rows of tasks of 8 to 80 rows: their slopes differ, their levels by `spread`."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(N_TASKS), np.linspace(8, 80, N_TASKS).astype(int))
    X = rng.normal(size=(len(task), 3))
    slopes = rng.normal(1.0, 0.7, N_TASKS)
    expected = (
        np.sin(2 * X[:, 0]) * slopes[task] + X[:, 1] + spread * rng.normal(size=N_TASKS)[task]
    )
    return X, expected + rng.normal(size=len(task)), task, expected


@pytest.fixture
def estimated(monkeypatch):
    """Calls that estimate levels: settings, rows, and the model before and after."""
    calls, with_levels = [], plan.with_levels

    def spied(settings, data, common):
        after = with_levels(settings, data, common)
        calls.append((settings, data, common, after))
        return after

    monkeypatch.setattr(plan, "with_levels", spied)
    return calls


@pytest.fixture
def always(monkeypatch):
    """Levels are estimated whatever the validation rows say, and no task has another model."""
    monkeypatch.setattr(planning, "_with_levels", lambda common: common.with_levels())
    monkeypatch.setattr(
        planning, "_ways", lambda evidence, _: dict.fromkeys(evidence.ways(), "common")
    )


def fit(X, y, task, **others):
    fixed = {"pooling": 5.0, "effort": "fast", "num_boost_round": 60, "shrink_to_constant": False}
    fixed |= {"params": {"max_depth": 3, "learning_rate": 0.1}, "validation_fraction": 0.2}
    return mtboost.fit(X, y, task=task, **{**fixed, **others})


def margins(common, data, codes=None):
    """Margins of the rows as those of their tasks, or of others."""
    trees = common.trees
    own = trees.codes_of(data.tasks.names)[data.tasks.codes] if codes is None else codes
    rounds = np.array([common.quit_round[name] for name in data.tasks])[data.tasks.codes]
    return trees.margins(data.common, own, rounds, data.base_margin)[:, 0].astype(float)


def levels_of(common, data):
    """Mean of what each task adds, by definition."""
    own, unknown = margins(common, data), margins(common, data, np.full(data.n_rows, -1, np.int32))
    return np.array([(own - unknown)[data.tasks.rows(name)].mean() for name in data.tasks])


def random_intercepts(left, codes):
    """Means of the tasks that maximise the restricted likelihood, shrunk: a slow twin."""
    counts = np.bincount(codes)
    means = np.bincount(codes, left) / counts
    within = np.sum((left - means[codes]) ** 2)

    def shares(log_variances):
        between, noise = np.exp(log_variances)
        precision = 1.0 / (between + noise / counts)
        return noise, precision, between * precision, precision @ means / precision.sum()

    def loss(log_variances):
        noise, precision, _, mean = shares(log_variances)
        of_rows = within / noise + (len(codes) - N_TASKS) * np.log(noise)
        of_means = precision @ (means - mean) ** 2 - np.log(precision).sum()
        return of_rows + of_means + np.log(precision.sum())

    found = scipy.optimize.minimize(loss, np.log([0.1, 1.0]), method="Nelder-Mead").x
    _, _, share, mean = shares(found)
    return mean + share * (means - mean)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("linear", [False, True], ids=["trees", "linear effects"])
def test_levels_are_random_intercepts_given_the_rest(
    backend, linear, estimated, always, monkeypatch
):
    X, y, task, _ = rows_of_tasks(0, spread=1.0)
    given = {"linear_effects": True} if linear else {}
    if not linear:
        monkeypatch.setattr(planning, "with_linear_effects", lambda *_: None)
    model = fit(X, y, task, backend=backend, **given)
    _, data, before, after = estimated[-1]
    left = margins(before, data) - levels_of(before, data)[data.tasks.codes]
    expected = random_intercepts(data.labels().ravel() - left, data.tasks.codes)
    found = margins(after, data) - left
    assert_allclose(found, expected[data.tasks.codes], atol=0.03)  # EM ends near the maximum
    assert before.trees.n_linear == (4 if linear else 0)
    assert after.trees.n_linear == (4 if linear else 1)
    assert_allclose(model.predict(X, task=task), margins(after, data), rtol=1e-5)


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson"])
def test_levels_of_other_losses_leave_shrunken_gradients(objective, estimated, always):
    X, y, task, _ = rows_of_tasks(1, spread=0.5)
    labels = y > 0 if objective.startswith("binary") else np.floor(np.exp(np.clip(y, -3, 2)))
    fit(X, labels.astype(float), task, objective=objective)
    _, data, before, after = estimated[-1]
    link = (lambda m: 1 / (1 + np.exp(-m))) if objective.startswith("binary") else np.exp
    sums = np.bincount(data.tasks.codes, data.labels().ravel() - link(margins(after, data)))
    found = margins(after, data) - margins(before, data) + levels_of(before, data)[data.tasks.codes]
    intercepts = np.array([found[data.tasks.rows(name)].mean() for name in data.tasks])
    of_rest = intercepts - intercepts.mean()
    # Gradients of tasks are proportional to their distances from the mean: those of a normal prior.
    assert np.corrcoef(sums, of_rest)[0, 1] > 0.95


def test_noise_of_levels_is_not_learned(estimated, always):
    """Of tasks with equal levels; the mean of five draws fails with a probability below .001."""
    errors = np.zeros(2)
    for seed in range(5):
        X, y, task, expected = rows_of_tasks(seed)
        fit(X, y, task, pooling=0.5)
        _, data, *models = estimated[-1]
        for place, each in enumerate(models):
            of_rows = margins(each, data) - expected
            means = [of_rows[data.tasks.rows(name)].mean() for name in data.tasks]
            errors[place] += np.mean(np.square(means))
    before, after = errors
    assert after < 0.7 * before


def test_levels_that_differ_much_are_those_of_each_task_alone(estimated, always):
    X, y, task, _ = rows_of_tasks(3, spread=20.0)
    fit(X, y, task)
    _, data, _, after = estimated[-1]
    left = data.labels().ravel() - margins(after, data)
    means = [left[data.tasks.rows(name)].mean() for name in data.tasks]
    assert_allclose(means, 0.0, atol=0.05)


def test_groups_of_nested_tasks_have_levels(estimated, always):
    X, y, task, _ = rows_of_tasks(4)
    region = np.array(["east", "west", "south"])[task % 3]
    y = y + (region == "east")
    fit(X, y, list(zip(region.tolist(), task.tolist(), strict=True)), pooling=(5.0, 5.0))
    settings, data, before, after = estimated[-1]
    trees = before.trees
    codes = np.full(data.n_rows, trees.code_of(("east",)), np.int32)
    rows = np.array([name[0] == "east" for name in data.tasks])[data.tasks.codes]
    unknown = margins(before, data, np.full_like(codes, -1))
    level = (margins(before, data, codes) - unknown)[rows].mean()
    left = margins(before, data) - levels_of(before, data)[data.tasks.codes]
    settings = replace(settings, linear_effects="intercepts")
    data_left = data.with_base_margin(left.astype(np.float32))
    own = LinearDesign.of(settings, data_left).effects(settings, data_left)
    effect = own.by_task[0][0, own.tasks.index(("east",))]
    changed = margins(after, data, codes) - margins(before, data, codes)
    assert_allclose(changed, effect - level, atol=1e-4)


def test_boosters_and_files_have_the_levels(estimated, always, tmp_path):
    X, y, task, _ = rows_of_tasks(5)
    model = fit(X, y, task)
    assert estimated
    for own in (3, 14):
        rows = task == own
        booster = model.booster(own)
        assert_allclose(
            booster.predict(xgboost.DMatrix(X[rows])), model.predict({own: X[rows]})[own], rtol=1e-5
        )
    model.save(tmp_path / "model.mtb")
    loaded = mtboost.load_model(tmp_path / "model.mtb")
    assert_array_equal(loaded.predict(X, task=task), model.predict(X, task=task))


@pytest.mark.parametrize("is_taken", [True, False])
def test_models_say_whether_levels_were_estimated_again(is_taken, monkeypatch, tmp_path):
    X, y, task, _ = rows_of_tasks(5)
    chosen = (lambda common: common.with_levels()) if is_taken else (lambda common: common)
    monkeypatch.setattr(planning, "_with_levels", chosen)
    fit(X, y, task, num_boost_round=10).save(tmp_path / "model.mtb")
    model = mtboost.load_model(tmp_path / "model.mtb")
    assert model.has_task_levels is is_taken
    assert model.report().attrs["has_task_levels"] is is_taken
    model.report_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert ("the levels of the tasks were estimated again" in page) == is_taken
    found = re.search("levels of tasks estimated again</th>\\s*<td[^>]*>([^<]*)</td>", page)
    assert found.group(1) == ("yes" if is_taken else "no")


def test_models_without_a_search_say_nothing_of_levels(tmp_path):
    X, y, task, _ = rows_of_tasks(5)
    model = fit(X, y, task, strategy="two-stage", num_boost_round=10, effort="balanced")
    model.save(tmp_path / "model.mtb")
    for own in (model, mtboost.load_model(tmp_path / "model.mtb")):
        assert own.has_task_levels is None
        assert own.report().attrs["has_task_levels"] is None


def test_validation_rows_decide(estimated, monkeypatch):
    """Trees with values of single tasks need no gain, others need one; users can refuse both."""
    X, y, task, _ = rows_of_tasks(6)

    def n_estimated(is_better, **given):
        estimated.clear()
        monkeypatch.setattr(planning, "is_better", lambda *_: is_better)
        fit(X, y, task, num_boost_round=10, **given)
        return len(estimated)

    kept = {"linear_effects": True}
    assert n_estimated(False, **kept) == 1
    assert n_estimated(True, **kept) == 0  # the model before is better
    assert n_estimated(False, pooling=np.inf, **kept) == 0
    assert n_estimated(True, pooling=np.inf, **kept) == 1
    assert n_estimated(False, linear_effects=False) == 0


def test_nested_tasks_whose_groups_have_no_values_keep_their_levels(estimated, monkeypatch):
    X, y, task, _ = rows_of_tasks(8)
    nested = [(number % 3, number) for number in task.tolist()]
    monkeypatch.setattr(planning, "with_linear_effects", lambda *_: None)
    monkeypatch.setattr(planning, "is_better", lambda *_: True)
    fit(X, y, nested, pooling=np.inf, num_boost_round=5)
    assert not estimated


def test_strata_of_hazards_have_no_levels(estimated, monkeypatch):
    monkeypatch.setattr(planning, "is_better", lambda *_: False)
    X, y, task, _ = rows_of_tasks(7)
    fit(X, y, task, num_boost_round=5)
    settings, data, *_ = estimated[-1]
    params = {**settings.params, "objective": "survival:cox"}
    for one_stratum in (False, True):
        options = replace(settings.options, one_stratum=one_stratum)
        of_hazards = replace(settings, params=params, options=options)
        assert may_have_levels(of_hazards, data) == one_stratum


def test_levels_need_intercepts(estimated, monkeypatch):
    monkeypatch.setattr(planning, "is_better", lambda *_: False)
    X, y, task, _ = rows_of_tasks(7)
    fit(X, y, task, num_boost_round=5)
    settings, data, *_ = estimated[-1]
    assert may_have_levels(settings, data)
    assert not may_have_levels(
        replace(settings, given={"linear_effects"}, linear_effects=False), data
    )
    classes = np.digitize(y, [-1.0, 1.0])
    fit(X, classes.astype(str), task, num_boost_round=5)
    fit(
        X, y, task, objective="reg:quantileerror", params={"quantile_alpha": 0.5}, num_boost_round=5
    )
    assert len(estimated) == 1
