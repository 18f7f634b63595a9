# SPDX-License-Identifier: Apache-2.0
"""Boosting of many outputs as scikit-learn's estimators: labels, scores, files, errors."""

import logging
import pickle
import sys

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss, make_scorer, mean_absolute_error, r2_score
from sklearn.model_selection import train_test_split

import mtboost
from mtboost import ProjectedBoostingClassifier, ProjectedBoostingRegressor
from mtboost.errors import DataError, ParameterError, ParameterTypeError
from mtboost.estimators.boosting.scoring import label_ranking_average_precision, mean_r2

STRATEGIES = ["gbrt-relabel-rpo", "gbrt-rpo", "gbmort", "single-target"]
LOSSES = ["squared_error", "absolute_error", "huber"]
PROJECTIONS = [None, "gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "subsample"]
PROJECTIONS += ["pca", "variance"]
X, LABELS = make_multilabel_classification(
    400, 12, n_classes=10, n_labels=4, allow_unlabeled=True, random_state=0
)
OUTPUTS = np.column_stack([np.sin(X[:, k] / 3 + k) + X[:, k + 1] / 5 for k in range(6)])
CLASSES = np.array(["a", "b", "c", "d"])[np.digitize(OUTPUTS[:, 0], [0.6, 1.0, 1.4])]
TRAIN, TEST = slice(0, 300), slice(300, None)
FAST = {"n_estimators": 20, "max_depth": 3, "random_state": 0}

each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def with_unknown(labels, part=0.3, seed=1):
    labels = np.array(labels, float)
    labels[np.random.default_rng(seed).random(labels.shape) < part] = np.nan
    return labels


KINDS = {
    "numbers": (ProjectedBoostingRegressor, OUTPUTS),
    "a vector": (ProjectedBoostingRegressor, OUTPUTS[:, 0]),
    "labels": (ProjectedBoostingClassifier, LABELS),
    "unknown labels": (ProjectedBoostingClassifier, with_unknown(LABELS)),
    "classes": (ProjectedBoostingClassifier, CLASSES),
    "two classes": (ProjectedBoostingClassifier, CLASSES < "b"),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def margins(model, X):
    """What the model adds up, before it becomes predictions."""
    if isinstance(model, ProjectedBoostingRegressor):
        return model.predict(X)
    return model.decision_function(X)


# Tables -------------------------------------------------------------------------------------------


def test_importances_find_the_columns_that_count():
    model = ProjectedBoostingRegressor(**FAST).fit(X, OUTPUTS[:, :2])
    assert model.feature_importances_.shape == (12,)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[:3].sum() > 0.9
    lost = permutation_importance(model, X, OUTPUTS[:, :2], n_repeats=2, random_state=0)
    assert set(np.argsort(lost["importances_mean"])[-3:]) == {0, 1, 2}


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@each_strategy
def test_numbers_are_learned(strategy, loss):
    model = ProjectedBoostingRegressor(strategy=strategy, loss=loss, **FAST | {"n_estimators": 80})
    model.fit(X[TRAIN], with_unknown(OUTPUTS[TRAIN]))
    assert model.predict(X).shape == OUTPUTS.shape
    assert model.score(X[TEST], OUTPUTS[TEST]) > 0.4


@each_strategy
def test_labels_are_learned(strategy):
    model = ProjectedBoostingClassifier(strategy=strategy, **FAST | {"n_estimators": 30})
    model.fit(X[TRAIN], with_unknown(LABELS[TRAIN]))
    found = model.predict_proba(X[TEST])
    chance = np.tile(LABELS[TRAIN].mean(axis=0), (100, 1))
    losses = [
        np.mean([log_loss(LABELS[TEST, k], own[:, k], labels=[0, 1]) for k in range(10)])
        for own in (found, chance)
    ]
    assert losses[0] < 0.96 * losses[1]
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)
    np.testing.assert_array_equal(model.classes_, np.arange(10))


@pytest.mark.parametrize("strategy", ["gbrt-relabel-rpo", "gbrt-rpo", "gbmort"])
def test_classes_are_learned(strategy):
    model = ProjectedBoostingClassifier(strategy=strategy, **FAST | {"n_estimators": 80})
    model.fit(X[TRAIN], CLASSES[TRAIN])
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(400), abs=1e-12)
    assert list(model.classes_) == ["a", "b", "c", "d"]
    assert model.score(X[TEST], CLASSES[TEST]) > 0.5 > np.mean(CLASSES[TEST] == "a")


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("shared", [True, False])
def test_every_projection_learns(projection, shared):
    model = ProjectedBoostingRegressor(projection=projection, n_components=3, shared=shared, **FAST)
    assert model.fit(X[TRAIN], OUTPUTS[TRAIN]).score(X[TEST], OUTPUTS[TEST]) > 0.3


def test_a_shared_projection_is_the_one_of_all_rounds():
    """With all outputs but one in its null space, no cut depends on those."""
    matrix = np.eye(6)[[2]]
    model = ProjectedBoostingRegressor(projection=matrix, **FAST).fit(X, OUTPUTS)
    alone = ProjectedBoostingRegressor(**FAST).fit(X, OUTPUTS[:, 2])
    np.testing.assert_array_equal(model.predict(X)[:, 2], alone.predict(X))


def test_unknown_labels_are_as_good_as_rows_that_are_not_there():
    labels = with_unknown(OUTPUTS)
    model = ProjectedBoostingRegressor(strategy="single-target", **FAST).fit(X, labels)
    for output, own in enumerate(labels.T):
        is_known = ~np.isnan(own)
        alone = ProjectedBoostingRegressor(**FAST, max_bin=1000).fit(X[is_known], own[is_known])
        # The bins differ, which does not change which training rows are separated.
        np.testing.assert_array_equal(
            model.predict(X[is_known])[:, output], alone.predict(X[is_known])
        )


@each_strategy
def test_a_label_of_weight_0_is_an_unknown_one(strategy):
    unknown = with_unknown(LABELS)
    model = ProjectedBoostingClassifier(strategy=strategy, **FAST)
    found = clone(model).fit(X, LABELS, sample_weight=~np.isnan(unknown))
    np.testing.assert_array_equal(
        found.decision_function(X), clone(model).fit(X, unknown).decision_function(X)
    )


def test_rows_without_a_known_label_are_left_out():
    labels = LABELS.astype(float)
    labels[::3] = np.nan
    kept = np.arange(400) % 3 > 0
    model = ProjectedBoostingClassifier(**FAST)
    unknown_classes = np.where(kept, OUTPUTS[:, 0] > 1, np.nan)
    for y, known in ((labels, LABELS[kept]), (unknown_classes, OUTPUTS[kept, 0] > 1)):
        np.testing.assert_array_equal(
            clone(model).fit(X, y).predict_proba(X),
            clone(model).fit(X[kept], known).predict_proba(X),
        )


@pytest.mark.parametrize("weigh", [False, True], ids=["unknown", "without weight"])
def test_labels_that_no_row_knows_are_warned_of(weigh):
    unknown = LABELS.astype(float)
    unknown[:, [1, 3]] = np.nan
    y, weight = (LABELS, ~np.isnan(unknown)) if weigh else (unknown, None)
    model = ProjectedBoostingClassifier(**FAST)
    with pytest.warns(UserWarning, match=r"y has no known label .* in columns 1, 3 \(of "):
        model.fit(X, y, sample_weight=weight)
    assert (model.predict_proba(X)[:, [1, 3]] == 0.5).all()
    unknown[0, 1] = unknown[1, 3] = 1.0
    model.fit(X, unknown)


def test_score_leaves_unknown_labels_out():
    weights = np.random.default_rng(0).random(400)
    numbers, labels = with_unknown(OUTPUTS), with_unknown(LABELS)
    labels[:5] = np.nan
    regressor = ProjectedBoostingRegressor(**FAST).fit(X, numbers)
    predicted = regressor.predict(X)
    of_outputs = [
        r2_score(own[known], found[known], sample_weight=weights[known])
        for own, found in zip(numbers.T, predicted.T, strict=True)
        for known in [~np.isnan(own)]
    ]
    assert regressor.score(X, numbers, weights) == pytest.approx(np.mean(of_outputs))
    classifier = ProjectedBoostingClassifier(**FAST).fit(X, labels)
    is_right = ((classifier.predict(X) == labels) | np.isnan(labels)).all(axis=1)
    of_rows = np.average(is_right[5:], weights=weights[5:])
    assert classifier.score(X, labels, weights) == pytest.approx(of_rows)
    classes = np.where(np.arange(400) % 3 > 0, CLASSES, None)
    classifier = ProjectedBoostingClassifier(**FAST).fit(X, classes)
    known = np.arange(400) % 3 > 0
    assert classifier.score(X, classes) == classifier.score(X[known], CLASSES[known])


@pytest.mark.parametrize("labels", [LABELS, with_unknown(LABELS)], ids=["known", "unknown"])
def test_score_reads_frames_of_types_of_pandas(labels):
    frame = pandas.DataFrame(labels).convert_dtypes()
    model = ProjectedBoostingClassifier(**FAST).fit(X, frame)
    assert model.score(X, frame) == model.score(X, labels)


def test_score_reads_the_numbers_that_fit_reads():
    codes = (CLASSES < "b").astype(object)
    model = ProjectedBoostingClassifier(**FAST).fit(X, codes)
    assert model.score(X, codes) == model.score(X, CLASSES < "b")


@pytest.mark.parametrize("missing", [None, np.nan, pandas.NA])
@pytest.mark.parametrize("convert", [list, np.array, pandas.Series, lambda y: y[:, np.newaxis]])
@pytest.mark.parametrize("classes", [CLASSES.tolist(), (CLASSES > "b").tolist()])
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_classes_beside_missing_values_are_known_ones(classes, convert, missing):
    if missing is pandas.NA and convert is list:
        pytest.skip("scikit-learn makes an array of numbers of it")
    kept, classes = np.arange(400) % 3 > 0, np.array(classes, dtype=object)
    y = convert(np.where(kept, classes, missing))
    known = classes[kept].tolist()
    for make in (ProjectedBoostingClassifier, mtboost.PriorSamplingClassifier):
        found = make(**FAST).fit(X, y, eval_set=(X, y))
        expected = make(**FAST).fit(X[kept], known, eval_set=(X[kept], known))
        assert found.classes_.tolist() == expected.classes_.tolist()
        np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
        np.testing.assert_array_equal(found.validation_scores_, expected.validation_scores_)


def test_sparse_labels_give_the_model_of_dense_ones():
    dense = ProjectedBoostingClassifier(**FAST).fit(X, LABELS)
    sparse = ProjectedBoostingClassifier(**FAST).fit(X, scipy.sparse.csr_array(LABELS))
    predicted = sparse.predict(X)
    assert scipy.sparse.issparse(predicted)
    np.testing.assert_array_equal(predicted.toarray(), dense.predict(X))


def test_single_targets_are_models_of_their_own():
    model = ProjectedBoostingRegressor(strategy="single-target", **FAST).fit(X, OUTPUTS)
    alone = [ProjectedBoostingRegressor(**FAST).fit(X, own).predict(X) for own in OUTPUTS.T]
    np.testing.assert_array_equal(model.predict(X), np.column_stack(alone))


def test_one_output_has_no_components():
    """Special cases equal general ones: with a single output all strategies are one."""
    first, *others = (
        ProjectedBoostingRegressor(strategy=strategy, **FAST).fit(X, OUTPUTS[:, 0]).predict(X)
        for strategy in ("gbmort", "gbrt-relabel-rpo", "single-target")
    )
    for other in others:
        np.testing.assert_array_equal(first, other)


# Rounds -------------------------------------------------------------------------------------------


@each_kind
def test_stages_lead_to_the_prediction(kind):
    make, y = KINDS[kind]
    model = make(**FAST).fit(X, y)
    *_, last = stages = list(model.staged_predict(X))
    assert len(stages) == model.n_estimators_ == 20
    np.testing.assert_array_equal(last, model.predict(X))
    if hasattr(model, "predict_proba"):
        *_, last = model.staged_predict_proba(X)
        np.testing.assert_array_equal(last, model.predict_proba(X))
        *_, last = model.staged_decision_function(X)
        np.testing.assert_array_equal(last, model.decision_function(X))


def test_training_losses_are_those_of_the_stages():
    model = ProjectedBoostingRegressor(**FAST).fit(X, OUTPUTS)
    expected = [np.mean((OUTPUTS - found) ** 2) / 2 for found in model.staged_predict(X)]
    np.testing.assert_allclose(model.train_losses_, expected, rtol=1e-5)  # margins are float32
    assert (np.diff(model.train_losses_) <= 0).all()


@each_strategy
def test_training_loss_counts_known_labels_alone(strategy):
    labels, weights = with_unknown(OUTPUTS), np.random.default_rng(0).random(OUTPUTS.shape)
    model = ProjectedBoostingRegressor(strategy=strategy, **FAST)
    model.fit(X, labels, sample_weight=weights)
    errors = (labels - model.predict(X)) ** 2 / 2
    expected = np.nansum(weights * errors) / weights[~np.isnan(labels)].sum()
    assert model.train_losses_[-1] == pytest.approx(expected, rel=1e-5)  # margins are float32


@each_strategy
def test_early_stopping_keeps_the_best_trees(strategy):
    model = ProjectedBoostingRegressor(
        400, strategy=strategy, learning_rate=0.5, early_stopping_rounds=5, random_state=0
    )
    model.fit(X[TRAIN], OUTPUTS[TRAIN], eval_set=(X[TEST], OUTPUTS[TEST]))
    scores = model.validation_scores_
    assert len(scores) < 400
    assert model.n_estimators_ == scores.argmax() + 1 == len(scores) - 5
    loss = np.mean((OUTPUTS[TEST] - model.predict(X[TEST])) ** 2) / 2
    assert -scores.max() == pytest.approx(loss, rel=1e-5)  # margins are float32


@each_kind
def test_rows_are_held_out_for_early_stopping(kind):
    make, y = KINDS[kind]
    model = make(early_stopping_rounds=3, validation_fraction=0.25, **FAST).fit(X, y)
    again = make(early_stopping_rounds=3, validation_fraction=0.25, **FAST).fit(X, y)
    np.testing.assert_array_equal(model.validation_scores_, again.validation_scores_)
    np.testing.assert_array_equal(margins(model, X), margins(again, X))
    assert model.n_estimators_ == model.validation_scores_.argmax() + 1


def test_a_validation_set_alone_stops_nothing():
    model = ProjectedBoostingRegressor(**FAST, learning_rate=1.0)
    model.fit(X[TRAIN], OUTPUTS[TRAIN], eval_set=(X[TEST], OUTPUTS[TEST]))
    assert model.n_estimators_ == len(model.validation_scores_) == 20
    assert model.validation_scores_.argmax() < 19
    assert ProjectedBoostingRegressor(**FAST).fit(X, OUTPUTS).validation_scores_ is None


@pytest.mark.parametrize(
    ("kind", "scoring", "expected"),
    [
        ("numbers", "r2", lambda model: model.score(X[TEST], OUTPUTS[TEST])),
        (
            "numbers",
            "neg_mean_absolute_error",
            lambda model: -mean_absolute_error(OUTPUTS[TEST], model.predict(X[TEST])),
        ),
        (
            "a vector",
            make_scorer(mean_absolute_error),
            lambda model: mean_absolute_error(OUTPUTS[TEST, 0], model.predict(X[TEST])),
        ),
        ("classes", "accuracy", lambda model: model.score(X[TEST], CLASSES[TEST])),
        (
            "classes",
            "neg_log_loss",
            lambda model: -log_loss(CLASSES[TEST], model.predict_proba(X[TEST])),
        ),
        (
            "two classes",
            lambda model, X, y: float((model.decision_function(X) > 0).mean() + y.mean()),
            lambda model: model.predict(X[TEST]).mean() + (CLASSES[TEST] < "b").mean(),
        ),
        (
            "two classes",
            "r2",
            lambda model: r2_score(CLASSES[TEST] < "b", model.predict_proba(X[TEST])[:, 1]),
        ),
        (
            "labels",
            "r2",
            lambda model: r2_score(LABELS[TEST], model.predict_proba(X[TEST])),
        ),
        (
            "labels",
            "label_ranking_average_precision",
            lambda model: label_ranking_average_precision(
                LABELS[TEST].astype(np.float32), model.predict_proba(X[TEST])
            ),
        ),
    ],
)
def test_any_score_may_be_watched(kind, scoring, expected):
    make, y = KINDS[kind]
    model = make(scoring=scoring, **FAST).fit(X[TRAIN], y[TRAIN], eval_set=(X[TEST], y[TEST]))
    assert model.validation_scores_[-1] == pytest.approx(expected(model), rel=1e-6)


def test_scores_leave_unknown_labels_out():
    rng = np.random.default_rng(0)
    labels = with_unknown(rng.random((50, 6)) < 0.4).astype(np.float32)
    labels[0] = np.nan
    scores = rng.normal(size=labels.shape)
    of_rows = []
    for own, score in zip(labels[1:], scores[1:], strict=True):
        known = ~np.isnan(own)
        relevant = np.flatnonzero(own == 1)
        precisions = [
            (score[relevant] >= score[label]).sum() / (score[known] >= score[label]).sum()
            for label in relevant
        ]
        of_rows.append(np.mean(precisions) if precisions else 1.0)
    assert label_ranking_average_precision(labels, scores) == pytest.approx(np.mean(of_rows))
    expected = [
        1 - np.nansum((own - score) ** 2) / np.nansum((own - np.nanmean(own)) ** 2)
        for own, score in zip(labels.T, scores.T, strict=True)
    ]
    assert mean_r2(labels, scores) == pytest.approx(np.mean(expected), rel=1e-6)
    assert np.isnan(mean_r2(np.full((3, 1), np.nan, np.float32), np.zeros((3, 1))))


@pytest.mark.parametrize("n_rows", [4, 10, 60])
@pytest.mark.parametrize(
    "make", [ProjectedBoostingClassifier, mtboost.PriorSamplingClassifier], ids=lambda m: m.__name__
)
def test_fewer_rows_may_be_held_out_than_there_are_classes(make, n_rows):
    y = np.arange(n_rows) % (n_rows // 2)  # two rows of each class, a tenth of them held out
    model = make(early_stopping_rounds=2, **FAST).fit(X[:n_rows], y)
    assert model.n_estimators_ >= 1


@pytest.mark.parametrize(("n_rows", "fraction"), [(1, 0.1), (60, 0.99)])
def test_rows_held_out_leave_some_to_train_on(n_rows, fraction):
    model = ProjectedBoostingRegressor(
        early_stopping_rounds=2, validation_fraction=fraction, **FAST
    )
    with pytest.raises(DataError, match=f"^validation_fraction={fraction} holds out each of .*"):
        model.fit(X[:n_rows], OUTPUTS[:n_rows])


def test_held_out_rows_of_weight_0_are_as_good_as_absent():
    counts = np.random.default_rng(0).random(400) < 0.5
    wild = np.where(counts[:, None], OUTPUTS, 100 * OUTPUTS[::-1])
    options = {"early_stopping_rounds": 3, "validation_fraction": 0.3, **FAST}
    for make in (ProjectedBoostingRegressor, mtboost.PriorSamplingRegressor):
        found = make(**options).fit(X, wild, sample_weight=counts)
        expected = make(**options).fit(X[counts], OUTPUTS[counts])
        np.testing.assert_array_equal(found.validation_scores_, expected.validation_scores_)
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_weights_count_in_the_score_of_held_out_rows():
    held_out = train_test_split(np.arange(400), test_size=0.25, random_state=0)[1]
    weights = np.random.default_rng(0).integers(1, 4, 400)
    rows = np.repeat(held_out, weights[held_out])
    options = {"early_stopping_rounds": 3, "validation_fraction": 0.25, **FAST}

    def unweighted(model, X, y):
        return -mean_absolute_error(y, model.predict(X))

    for scoring, expected in {
        "loss": lambda model: -np.mean((OUTPUTS - model.predict(X))[rows] ** 2) / 2,
        "r2": lambda model: model.score(X[rows], OUTPUTS[rows]),
        "neg_mean_absolute_error": lambda model: unweighted(model, X[rows], OUTPUTS[rows]),
        unweighted: lambda model: unweighted(model, X[held_out], OUTPUTS[held_out]),
    }.items():
        model = ProjectedBoostingRegressor(scoring=scoring, **options)
        model.fit(X, OUTPUTS, sample_weight=weights)
        assert model.validation_scores_.max() == pytest.approx(expected(model), rel=1e-5)
    of_labels = np.random.default_rng(0).random(OUTPUTS.shape) * (OUTPUTS > 1)
    model = ProjectedBoostingRegressor(**options).fit(X, OUTPUTS, sample_weight=of_labels)
    part = np.flatnonzero(of_labels.any(axis=1))
    part = part[train_test_split(np.arange(len(part)), test_size=0.25, random_state=0)[1]]
    loss = np.average((OUTPUTS - model.predict(X))[part] ** 2 / 2, weights=of_labels[part])
    assert -model.validation_scores_.max() == pytest.approx(loss, rel=1e-5)
    with pytest.raises(DataError, match="cannot weigh the labels of a row"):
        model.set_params(scoring="neg_max_error").fit(X, OUTPUTS, sample_weight=of_labels)


def test_whole_weights_score_as_repeated_rows_and_labels_of_weight_0_as_unknown_ones():
    rng = np.random.default_rng(0)
    labels, scores = with_unknown(rng.random((50, 6)) < 0.4), rng.normal(size=(50, 6))
    weights, of_labels = rng.integers(1, 4, 50), rng.random((50, 6)) < 0.7
    for score in (mean_r2, label_ranking_average_precision):
        expected = score(np.repeat(labels, weights, 0), np.repeat(scores, weights, 0))
        assert score(labels, scores, weights) == pytest.approx(expected)
        expected = score(np.where(of_labels, labels, np.nan), scores)
        assert score(labels, scores, of_labels.astype(np.float32)) == pytest.approx(expected)


def test_callbacks_are_called_every_round_and_may_end_training():
    told = []
    model = ProjectedBoostingRegressor(**FAST)
    model.fit(X, OUTPUTS, callbacks=[told.append, lambda round_: round_.number == 7])
    assert [round_.number for round_ in told] == list(range(1, 8))
    np.testing.assert_array_equal([round_.train_loss for round_ in told], model.train_losses_)
    assert told[0].validation_score is None
    assert model.n_estimators_ == 7


def test_progress_is_shown_on_request(capsys, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "mtboost")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    model = ProjectedBoostingRegressor(**FAST).fit(X, OUTPUTS)
    assert capsys.readouterr() == ("", "")
    assert not caplog.messages
    clone(model).set_params(verbose=8).fit(X, OUTPUTS)
    starts, losses = zip(*(line.split(": ") for line in caplog.messages), strict=True)
    assert starts == ("8 of at most 20", "16 of at most 20", "20 of at most 20")
    assert losses[-1] == f"training loss {model.train_losses_[-1]:.5g}"


@each_strategy
def test_warm_start_grows_the_trees_of_one_go(strategy, tmp_path):
    model = ProjectedBoostingRegressor(strategy=strategy, subsample=0.6, **FAST)
    whole = clone(model).fit(X, OUTPUTS)
    part = clone(model).set_params(n_estimators=8, warm_start=True).fit(X, OUTPUTS)
    part.save(tmp_path / "part")
    for begun in (part, mtboost.load_model(tmp_path / "part")):
        begun.set_params(n_estimators=20).fit(X, OUTPUTS)
        np.testing.assert_array_equal(begun.predict(X), whole.predict(X))
        np.testing.assert_array_equal(begun.train_losses_, whole.train_losses_)


@each_strategy
def test_a_warm_start_keeps_no_trees_worse_than_those_before(strategy):
    options = {"learning_rate": 0.9, "early_stopping_rounds": 2, "strategy": strategy}
    model = ProjectedBoostingRegressor(400, warm_start=True, random_state=0, **options)
    model.fit(X, OUTPUTS + np.random.default_rng(0).normal(size=OUTPUTS.shape))
    for _ in range(3):
        scores, n_trees = model.validation_scores_, model.n_estimators_
        losses = model.train_losses_
        assert len(losses) == len(scores) == n_trees + 2
        assert scores.argmax() == n_trees - 1
        model.fit(X, OUTPUTS + np.random.default_rng(0).normal(size=OUTPUTS.shape))
        assert model.validation_scores_.max() >= scores.max()
        assert model.n_estimators_ >= n_trees
        np.testing.assert_array_equal(model.validation_scores_[:n_trees], scores[:n_trees])
        np.testing.assert_array_equal(model.train_losses_[:n_trees], losses[:n_trees])


@each_strategy
def test_a_warm_start_scores_all_rounds_on_the_rows_held_out_now(strategy):
    model = ProjectedBoostingRegressor(strategy=strategy, **FAST)
    whole = clone(model).fit(X[TRAIN], OUTPUTS[TRAIN], eval_set=(X[TEST], OUTPUTS[TEST]))
    part = clone(model).set_params(n_estimators=8, warm_start=True).fit(X[TRAIN], OUTPUTS[TRAIN])
    for n_trees in (8, 20, 20):
        part.set_params(n_estimators=n_trees)
        part.fit(X[TRAIN], OUTPUTS[TRAIN], eval_set=(X[TEST], OUTPUTS[TEST]))
        np.testing.assert_array_equal(part.validation_scores_, whole.validation_scores_[:n_trees])
        assert len(part.train_losses_) == n_trees


def test_an_interrupted_fit_leaves_nothing_half_made():
    def interrupt(round_):
        if round_.number == 3:
            raise KeyboardInterrupt

    model = ProjectedBoostingRegressor(**FAST).fit(X, OUTPUTS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, OUTPUTS, callbacks=[interrupt])
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(X)


# Files --------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("strategy", ["gbrt-relabel-rpo", "gbrt-rpo"])
def test_saved_and_pickled_models_predict_the_same(kind, strategy, tmp_path):
    make, y = KINDS[kind]
    model = make(strategy=strategy, **FAST).fit(pandas.DataFrame(X).add_prefix("x"), y)
    model.save(tmp_path / "model")
    for again in (mtboost.load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert type(again) is make
        table = pandas.DataFrame(X).add_prefix("x")
        np.testing.assert_array_equal(margins(again, table), margins(model, table))
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(again.train_losses_, model.train_losses_)
        np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
        assert again.validation_scores_ is None


def test_scores_of_held_out_rows_are_saved(tmp_path):
    for make in (ProjectedBoostingRegressor, mtboost.PriorSamplingRegressor):
        for rounds in (None, 3):
            model = make(early_stopping_rounds=rounds, **FAST).fit(X, OUTPUTS)
            model.save(tmp_path / "model")
            found = mtboost.load_model(tmp_path / "model").validation_scores_
            assert (found is None) == (rounds is None)
            np.testing.assert_array_equal(found, model.validation_scores_)


def test_single_targets_are_saved(tmp_path):
    model = ProjectedBoostingClassifier(strategy="single-target", **FAST).fit(X, LABELS)
    model.save(tmp_path / "model")
    again = mtboost.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_scorer_of_ones_own_is_left_out_of_the_file(tmp_path):
    model = ProjectedBoostingRegressor(scoring=make_scorer(mean_absolute_error), **FAST)
    model.fit(X, OUTPUTS)
    with pytest.warns(UserWarning, match="scoring is a function, which a model file cannot hold"):
        model.save(tmp_path / "model")
    again = mtboost.load_model(tmp_path / "model")
    assert again.scoring == "loss"
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# Errors -------------------------------------------------------------------------------------------


BAD_DATA = {
    "numbers": [
        ({"y": np.full(400, np.nan)}, "no known label"),
        ({"sample_weight": np.ones(3)}, "sample_weight has shape"),
        ({"sample_weight": -np.ones(400)}, "weight is -1"),
        ({"eval_set": [X]}, "eval_set must be"),
        ({"eval_set": (X, OUTPUTS[:, :2])}, "y has 2 outputs instead of 6"),
        ({"eval_set": (X, np.full(OUTPUTS.shape, np.nan))}, "validate on have no known label"),
        (
            {"y": np.where(OUTPUTS > 0, 3e38, -3e38)},
            r"y is -?3e\+38 at row 0, column 0: labels beyond 1.7e\+38 overflow",
        ),
    ],
    "labels": [
        ({"y": LABELS + 1}, "labels in several columns must be 0, 1"),
        ({"y": np.tile(CLASSES[:, None], 2)}, "^y is '.' at row 0: labels in several columns must"),
        ({"y": np.ones(400)}, "y has 1 classes"),
        ({"eval_set": (X, CLASSES)}, "as it did in fit"),
        ({"eval_set": (X, LABELS[:, :3])}, "y has 3 labels instead of 10"),
    ],
    "classes": [
        ({"y": np.full(400, None)}, "y has 0 classes"),
        ({"y": np.where(CLASSES == "a", 1, CLASSES.astype(object))}, "y holds labels of types 'in"),
        (
            {"eval_set": (X, np.where(CLASSES == "a", "z", CLASSES))},
            "y contains 'z', which is not a class",
        ),
    ],
}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [(kind, *case) for kind, cases in BAD_DATA.items() for case in cases],
)
def test_data_are_checked_before_trees_grow(kind, changes, message):
    make, y = KINDS[kind]
    with pytest.raises(DataError, match=message):
        make(**FAST).fit(X, **{"y": y, **changes})


def test_scorers_of_scikit_learn_refuse_unknown_labels():
    model = ProjectedBoostingRegressor(scoring="neg_mean_absolute_error", early_stopping_rounds=3)
    with pytest.raises(DataError, match="cannot leave unknown labels out"):
        model.fit(X, with_unknown(OUTPUTS))


@pytest.mark.parametrize(
    ("kind", "scoring", "message"),
    [
        ("numbers", "neg_log_loss", "'neg_log_loss' cannot score .*: it has none of .*_proba"),
        ("numbers", "accuracy", "'accuracy' cannot score .*: continuous-multioutput is not"),
        ("classes", "roc_auc", "'roc_auc' cannot score .*: multi_class must be in"),
        ("numbers", "nothing", "scoring: 'nothing' is not"),
        ("numbers", None, "scoring must be 'loss'.*found None"),
        ("numbers", 5, "scoring must be 'loss'.*found 5"),
    ],
)
def test_a_score_that_does_not_suit_is_named(kind, scoring, message):
    make, y = KINDS[kind]
    with pytest.raises(ParameterError, match=message):
        make(scoring=scoring, early_stopping_rounds=3, **FAST).fit(X, y)


def test_a_misspelt_score_is_refused_where_no_rows_are_held_out():
    with pytest.raises(ParameterError, match="scoring: 'nothing' is not"):
        ProjectedBoostingRegressor(scoring="nothing", **FAST).fit(X, OUTPUTS)


def test_early_stopping_refuses_a_score_of_nan():
    def score(model, X, y):
        return np.nan

    model = ProjectedBoostingRegressor(scoring=score, **FAST)
    model.fit(X, OUTPUTS, eval_set=(X, OUTPUTS))
    assert np.isnan(model.validation_scores_).all()
    with pytest.raises(DataError, match="nan after round 1, and early stopping cannot compare"):
        model.set_params(early_stopping_rounds=3).fit(X, OUTPUTS)


@pytest.mark.parametrize("callbacks", [None, print, "ab", [print, 3]])
def test_callbacks_that_cannot_be_called_are_refused(callbacks):
    with pytest.raises(ParameterTypeError, match=r"^callbacks (must be a sequence|holds 3)"):
        ProjectedBoostingRegressor(**FAST).fit(X, OUTPUTS, callbacks=callbacks)


def test_a_callback_may_return_the_truth_value_of_numpy():
    model = ProjectedBoostingRegressor(**FAST)
    model.fit(X, OUTPUTS, callbacks=(lambda own: np.float32(own.number) >= 3 for _ in range(1)))
    assert model.n_estimators_ == 3


def test_separate_models_of_classes_are_refused():
    with pytest.raises(ParameterError, match="OneVsRestClassifier"):
        ProjectedBoostingClassifier(strategy="single-target").fit(X, CLASSES)


def test_warm_start_refuses_another_kind_of_model():
    model = ProjectedBoostingRegressor(warm_start=True, **FAST).fit(X, OUTPUTS)
    with pytest.raises(ParameterError, match="less than the 20 trees"):
        model.set_params(n_estimators=5).fit(X, OUTPUTS)
    with pytest.raises(ParameterError, match="another strategy"):
        model.set_params(n_estimators=30, strategy="gbrt-rpo").fit(X, OUTPUTS)
    with pytest.raises(ParameterError, match="another strategy"):
        model.set_params(strategy="single-target").fit(X, OUTPUTS)
    with pytest.raises(DataError, match="y has 3 outputs instead of 6"):
        model.set_params(strategy="gbmort").fit(X, OUTPUTS[:, :3])
