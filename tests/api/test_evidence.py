# SPDX-License-Identifier: Apache-2.0
"""fit(strategy="auto"): how validation rows decide."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from shared_tasks import N_TASKS, OPTIONS, OUTLIER, UNRELATED, fitted, task_of_rows, tasks_of, wave

import mtboost
from mtboost.base.dataset import Dataset
from mtboost.base.validation import hold_out
from mtboost.metrics import get_metric
from mtboost.model.sharing import common_by_fold
from mtboost.model.sharing.curves import extended_curves, mean_curves, mean_histories
from mtboost.model.sharing.evidence import Evidence, _shared_rounds, pays_for_all
from mtboost.model.stages.common import followed_margins
from mtboost.model.stages.mean_watch import MeanWatch
from mtboost.model.stages.task_losses import TaskLosses, from_loss
from mtboost.trees.shrinkage import shrunk_means

# Each row held out in turn ------------------------------------------------------------------------


def test_each_of_few_rows_is_judged_once(library):
    data = tasks_of(OUTLIER, n_each=60)
    in_turn = {"validation_fraction": "auto", "effort": "fast", "linear_effects": False}
    report = fitted(library, data, baselines=True, **in_turn).report()
    assert report["rows"].tolist() == report["valid_rows"].tolist() == [60] * N_TASKS
    assert report.filter(like="rmse").notna().all(axis=None)
    by_part = fitted(library, data, refit=False, **in_turn).report()
    assert (by_part["rows"] + by_part["valid_rows"]).tolist() == [60] * N_TASKS


def test_one_fold_is_the_held_out_part(library):
    X, y, task = tasks_of(UNRELATED)
    data = Dataset(X, y, task=task)
    train, valid = hold_out(data, 0.2, False, 0)
    settings = {"objective": library.own("reg:squarederror"), **OPTIONS}
    one = fitted(library, (X, y, task), **settings)
    own = [(part.common.native, part.labels(), task_of_rows(part)) for part in (train, valid)]
    same = fitted(library, own[0], eval_set=own[1], objective=settings["objective"])
    assert one.common_losses == same.common_losses
    for name in one.tasks:
        np.testing.assert_array_equal(one.history[name]["common"], same.history[name]["common"])


def test_a_mean_of_curves_counts_the_rows_of_each_fold():
    mae = TaskLosses.of_one_metric(get_metric("mae"), 2)
    folds = [[np.array([4.0, 2.0]), np.empty(0)], [np.array([1.0, 1.0]), np.array([3.0, 2.0, 2.5])]]
    n_rows = np.array([[30.0, 0.0], [10.0, 5.0]])
    curves = mean_curves(mae, folds, n_rows)
    np.testing.assert_allclose(curves, [[3.25, 1.75, 1.75], [3.0, 2.0, 2.5]])
    named = [dict(zip("ab", own, strict=True)) for own in folds]
    means = mean_histories(mae, named, "ab", n_rows)
    np.testing.assert_allclose(means["a"], [3.25, 1.75])
    np.testing.assert_allclose(means["b"], [3.0, 2.0, 2.5])
    # Squares are averaged, not roots.
    squares = TaskLosses.of_one_metric(get_metric("rmse"), 1)
    rmse = mean_curves(squares, [[np.array([3.0])], [np.array([1.0])]], np.ones((2, 1)))
    np.testing.assert_allclose(rmse, [[5.0]])


def test_tiny_tasks_are_not_worse_than_a_constant(library):
    """40 tasks of 2 to 5 rows whose labels hardly depend on the columns: what auto must not do is
    to learn tasks by heart. With one held-out row of each class in a task it lost .3 here, two
    overfitted stages lose .107. This draw loses nothing, and of five others the worst .064."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(40), rng.integers(2, 6, 40))
    X = rng.normal(size=(len(task), 5))
    y = rng.random(len(task)) < 1.0 / (1.0 + np.exp(-0.3 * X[:, 0]))
    model = mtboost.fit(
        X,
        y.astype(float),
        task=task,
        objective=library.own("binary:logistic"),
        strategy="auto",
        backend=library.name,
        params={"max_depth": 2},
        n_threads=1,
        seed=1,
    )
    X = rng.normal(size=(4000, 5))
    found = model.predict(X, task=rng.integers(0, 40, 4000))
    truth = 1.0 / (1.0 + np.exp(-0.3 * X[:, 0]))
    log_loss = -(truth * np.log(found) + (1 - truth) * np.log(1 - found)).mean()
    constant = -(truth * np.log(y.mean()) + (1 - truth) * np.log(1 - y.mean())).mean()
    assert log_loss - constant < 0.05


# The evidence -------------------------------------------------------------------------------------


def test_what_all_tasks_gain_pays_for_all():
    known, n_rows = np.ones(6, bool), np.full(6, 40.0)
    variances = np.full(6, 0.01)
    # The mean of five has the standard error √(.01 / 5) = .045.
    assert pays_for_all(np.full(6, 0.05), variances, known, n_rows)
    assert not pays_for_all(np.full(6, 0.04), variances, known, n_rows)


def test_one_task_that_gains_much_does_not_decide_for_all():
    gains = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.0])
    assert not pays_for_all(gains, np.full(6, 0.01), np.ones(6, bool), np.full(6, 40.0))
    assert not pays_for_all(gains[-1:], np.full(1, 0.01), np.ones(1, bool), np.full(1, 40.0))


def test_unknown_gains_do_not_count():
    gains = np.array([0.1, 0.1, 0.1, np.nan])
    known, n_rows = np.isfinite(gains), np.array([40.0, 40.0, 40.0, 0.0])
    assert pays_for_all(gains, np.array([0.001, 0.001, 0.001, np.inf]), known, n_rows)
    assert not pays_for_all(gains, np.full(4, 0.001), np.zeros(4, bool), n_rows)


def evidence_of(losses, codes, n_tasks):
    """That of losses of rows of tasks, by way."""
    found = object.__new__(Evidence)
    found._tasks, found._codes, found._groups = list(range(n_tasks)), codes, None
    found._weights = np.ones(len(codes))
    found._n_rows = np.bincount(codes, minlength=n_tasks).astype(float)
    found._of_rows = losses
    found._means = {way: found._task_means(own) for way, own in losses.items()}
    found._rounds = {way: np.ones(n_tasks, int) for way in losses}
    found._are_compared = dict.fromkeys(losses, found._n_rows > 0)
    return found


def test_tasks_without_validation_rows_follow_the_others():
    """Also where the mean of tasks gains, because a few rows of one gain very much."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(20), [2, *(19 * [30])])
    common = 1.0 + 0.1 * rng.random(len(codes))
    alone = np.where(codes == 0, common - 100.0, common + 0.05)
    found = evidence_of({"common": common, "independent": alone}, codes, 22)
    ways = found.ways()
    assert ways == {task: "independent" if task == 0 else "common" for task in range(22)}
    assert found.better_alone(ways) == [0]


def test_a_task_that_is_better_continued_is_not_better_alone():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(20), 30)
    common = 1.0 + 0.1 * rng.random(len(codes))
    gains = {"common": 0.0, "common + specific": 0.3, "independent": 0.2}
    losses = {way: common - gain + 0.01 * rng.random(len(codes)) for way, gain in gains.items()}
    found = evidence_of(losses, codes, 20)
    ways = found.ways()
    assert set(ways.values()) == {"common + specific"}
    assert found.better_alone(ways) == []
    assert found.better_alone(dict.fromkeys(ways, "common")) == [*range(20)]


def test_nothing_gained_rarely_pays():
    # Normal gains of mean 0: one standard error is exceeded with probability .159, and less if it
    # must be whichever task is left out. 4000 draws: .159 + 4 standard errors of .0058.
    rng = np.random.default_rng(0)
    known, n_rows = np.ones(20, bool), np.full(20, 40.0)
    found = [
        pays_for_all(rng.normal(0, 0.1, 20), np.full(20, 0.01), known, n_rows) for _ in range(4000)
    ]
    assert 0.05 < np.mean(found) < 0.182


def test_values_that_vary_by_chance_are_their_mean():
    values, variances = np.array([1.0, 1.2, 0.8, 5.0]), np.array([1.0, 1.0, 1.0, 4.0])
    known = np.array([True, True, True, False])
    found, error = shrunk_means(values, variances, known)
    np.testing.assert_allclose(found, 1.0)
    np.testing.assert_allclose(error, 1 / np.sqrt(3))


def test_values_that_vary_by_more_are_shrunk_by_the_formula():
    values, variances = np.array([0.0, 10.0, 2.0]), np.array([1.0, 2.0, 0.5])
    w = 1 / variances
    mean = (w * values).sum() / w.sum()
    tau2 = ((w * (values - mean) ** 2).sum() - 2) / (w.sum() - (w**2).sum() / w.sum())
    mean = (values / (variances + tau2)).sum() / (1 / (variances + tau2)).sum()
    expected = [
        (v / s + mean / tau2) / (1 / s + 1 / tau2) for v, s in zip(values, variances, strict=True)
    ]
    found, error = shrunk_means(values, variances, np.ones(3, bool))
    np.testing.assert_allclose(found, expected)
    # By sampling alone: own * value + (1 - own) * mean, the mean as if it were of other values.
    u = 1 / (variances + tau2)
    own = tau2 * u
    of_mean = (u**2 * variances).sum() / u.sum() ** 2
    np.testing.assert_allclose(error**2, own**2 * variances + (1 - own) ** 2 * of_mean)


def test_shrunk_values_are_nearer_to_the_truth():
    # 200 draws of 30 values with τ = σ = 1: shrinking halves the mean squared error, whose standard
    # deviation over the draws is below 2%.
    rng = np.random.default_rng(0)
    raw, shrunk = [], []
    for _ in range(200):
        truth = rng.normal(size=30)
        values = truth + rng.normal(size=30)
        found, _ = shrunk_means(values, np.ones(30), np.ones(30, bool))
        raw.append(((values - truth) ** 2).mean())
        shrunk.append(((found - truth) ** 2).mean())
    assert np.mean(shrunk) < 0.6 * np.mean(raw)


def test_nothing_known_is_no_gain():
    found, error = shrunk_means(np.ones(2), np.ones(2), np.zeros(2, bool))
    assert (found == 0).all()
    assert (error == np.inf).all()


def test_rounds_come_from_the_others_where_a_task_has_few_rows():
    own = np.array([5.0, 1.0, 3.0, 4.0])
    others = np.array([5.0, 4.0, 3.0, 1.0])
    curves = np.array([own, others, others])
    many = np.full(3, True)
    assert _shared_rounds(curves, np.array([5.0, 100.0, 100.0]), many).tolist() == [3, 3, 3]
    assert _shared_rounds(curves, np.array([1e5, 100.0, 100.0]), many)[0] == 1
    unknown = np.array([False, True, True])
    assert _shared_rounds(curves, np.array([1e5, 100.0, 100.0]), unknown)[0] == 3


def test_a_curve_that_ended_early_rises_on():
    histories = [np.array([5.0, 1.0, 2.0, 3.0, 4.0]), np.full(7, 2.0), np.empty(0)]
    curves = extended_curves(histories, 7)
    # Since the best round it has risen by one a round: from 1.5 to 3.5 between two halves.
    np.testing.assert_array_equal(curves[0], [5, 1, 2, 3, 4, 5, 6])
    assert np.isnan(curves[2]).all()
    falls = [np.array([5.0, 4.0, 3.0]), np.full(5, 2.0)]
    np.testing.assert_array_equal(extended_curves(falls, 5)[0], [5, 4, 3, 3, 3])


def test_models_that_gain_nothing_are_not_flattered_by_when_they_ended():
    """Curves are random walks that end 20 rounds after their best one: no rounds gain anything.

    What the shared rounds of 100 tasks seem to gain has the deviation .0186 and, over 60
    simulations, the mean .0013; with curves that stay level where they ended it was .026.
    """
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(40):
        curves = 10.0 + np.cumsum(rng.normal(0.0, 0.03, (100, 150)), axis=1)
        curves[:, 0] = 10.0
        histories = []
        for curve in curves:
            since_best = np.arange(150) - [curve[: end + 1].argmin() for end in range(150)]
            is_over = since_best >= 20
            histories.append(curve[: 1 + is_over.argmax()] if is_over.any() else curve)
        found = extended_curves(histories, 150)
        rounds = _shared_rounds(found, np.full(100, 17.0), np.full(100, True))
        gains.append(10.0 - found[np.arange(100), rounds].mean())
    assert np.mean(gains) < 4 * 0.0186 / np.sqrt(40)  # four standard errors: 1 in 30,000


def task_means_of(evidence, way):
    """Mean loss of each task at the shared rounds, and that of its rows at its own rounds."""
    shared, own = evidence._means[way], evidence._task_means(evidence.losses_of_rows(way))
    known = np.isfinite(shared)
    return shared[known], own[known]


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
@pytest.mark.parametrize("n_each", [4, 40])  # trained one by one, or all at once
def test_averages_do_not_gain_by_shared_rounds(objective, n_each, monkeypatch):
    """A task's own model that has no round predicts the mean of its rows, not that of all."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(15), n_each)
    X = rng.normal(size=(len(task), 2))
    y = 3.0 * rng.normal(size=15)[task] + 0.1 * X[:, 0] + rng.normal(size=len(task))
    is_number = objective == "reg:squarederror"
    y = y if is_number else (y > 0).astype(float)
    seen = []

    def recorded(evidence):
        share = add_average(evidence)
        for way in ("averaged", "independent") if is_number else ("averaged",):
            shared, own = task_means_of(evidence, way)
            assert np.all(own <= shared * (1.0 + 1e-5))
            seen.append(len(shared))
        return share

    add_average = Evidence.add_average
    monkeypatch.setattr(Evidence, "add_average", recorded)
    weight = rng.integers(1, 3, len(task))
    options = {"objective": objective, "effort": "fast", "linear_effects": False}
    mtboost.fit(X, y, task=task, weight=weight, params={"max_depth": 2}, **options)
    assert min(seen) > 3


def test_a_task_with_one_positive_is_not_certain_of_the_other_class(library):
    """In the fold that holds the positive out the task has no model, and the share of positives of
    all tasks is predicted, .27: -log .27 and four times -log .73 are .10 for each of the 25 rows.
    By the other folds alone the independent model had .05."""
    rng = np.random.default_rng(2)
    task = np.repeat([*"abcdef", "rare"], [*6 * [60], 25])
    X = rng.normal(size=(len(task), 3))
    y = rng.random(len(task)) < 0.3
    y[task == "rare"] = np.arange(25) == 2
    options = {"effort": "fast", "linear_effects": False, "backend": library.name}
    report = mtboost.fit(X, y.astype(int), task=task, **options).report()
    of_rare = report.filter(like="logloss").drop(columns="logloss final se").loc["rare"]
    assert (of_rare > 0.1).all()
    assert len(set(report["sharing"])) == 1


def test_an_estimated_loss_below_zero_is_no_error():
    assert from_loss(get_metric("rmse"), 4.0) == 2.0
    assert from_loss(get_metric("rmse"), -1e-3) == 0.0
    assert np.isnan(from_loss(get_metric("rmse"), np.nan))
    assert from_loss(get_metric("mae"), -1e-3) == -1e-3


def test_settings_are_compared_by_the_predictions_of_their_best_round(library, monkeypatch):
    seen = []

    def recorded(settings, data, valid, *args, **options):
        common = fit_common(settings, data, valid, *args, **options)
        if common.together is not None:
            margins = followed_margins(settings, common, valid)[:, 0]
            predictions = settings.inverse_link(margins)
            # Linear effects were a base margin, to which the library adds the sum of the trees.
            atol = 1e-5 if settings.linear_effects else library.atol
            assert_allclose(common.together.best_predictions, predictions, rtol=atol, atol=atol)
            seen.append(settings.options.pooling is not None)
        return common

    fit_common = common_by_fold.fit_common
    monkeypatch.setattr(common_by_fold, "fit_common", recorded)
    X, y, task = tasks_of(UNRELATED)
    fitted(library, (X, y > 0, task), objective=library.own("binary:logistic"))
    assert {True, False} <= set(seen)


class Quitting:
    """A library's TaskQuitting that has seen one task's mean squared error."""

    def __init__(self):
        self.last_predictions = np.zeros(2)

    def see(self, loss):
        self.last_values = np.sqrt([loss])
        self.last_predictions[:] = loss


def rounds_until_over(losses, to_beat, early_stopping_rounds=10):
    X, y, task = tasks_of([wave], n_each=2)
    data = mtboost.Dataset(X, y, task=task)
    quitting = Quitting()
    squares = TaskLosses.of_one_metric(get_metric("rmse"), 1)
    watch = MeanWatch(quitting, data, data, squares, early_stopping_rounds, to_beat)
    for n_rounds, loss in enumerate(losses, 1):
        quitting.see(loss)
        if watch.is_over():
            return n_rounds, watch
    return len(losses), watch


def test_a_model_that_cannot_come_near_the_best_is_stopped():
    slow = 2.0 + 1.0 / np.arange(1, 501)
    assert rounds_until_over(slow, to_beat=np.inf)[0] == 500
    assert rounds_until_over(slow, to_beat=1.0)[0] == 20  # twice the early_stopping_rounds
    # After r rounds it has 1/r to go, which is what it came in the second half of them.
    assert rounds_until_over(slow, to_beat=2.0)[0] == 500
    assert rounds_until_over(slow, to_beat=1.9)[0] in range(20, 30)


def test_the_best_round_is_remembered():
    losses = np.array([3.0, 2.0, 1.0, 1.5, *np.full(20, 1.2)])
    n_rounds, watch = rounds_until_over(losses, to_beat=np.inf)
    assert (n_rounds, watch.best_round, watch.best) == (13, 3, pytest.approx(1.0))
    assert watch.best_predictions.tolist() == [1.0, 1.0]


def test_leaves_of_nested_tasks_are_also_shrunk_towards_their_groups(library):
    rng = np.random.default_rng(0)
    region, store = rng.integers(0, 12, 1500), rng.integers(0, 8, 1500)
    X = rng.random((1500, 2))
    effect = rng.normal(size=(12, 1)) + 0.2 * rng.normal(size=(12, 8))
    y = effect[region, store] * np.sign(X[:, 0] - 0.5) + rng.normal(size=1500)
    task = list(zip(region.tolist(), store.tolist(), strict=True))
    model = mtboost.fit(
        X,
        y,
        task=task,
        backend=library.name,
        task_splits=False,
        linear_effects=False,
        specific_rounds=0,
        effort="fast",
    )
    assert "nested pooling" in min(model.common_losses, key=model.common_losses.__getitem__)
    assert isinstance(model.common_trees.pooled.pooling, tuple)
