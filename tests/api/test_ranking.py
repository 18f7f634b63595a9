# SPDX-License-Identifier: Apache-2.0
"""Learning to rank with tasks: ``fit`` and ``MultiTaskRanker`` with queries."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GroupKFold, GroupShuffleSplit

import mtboost
from mtboost.base.validation import cross_validation, hold_out, hold_out_last, split_by
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.metrics import Metric, evaluate_by_task

RNG = np.random.default_rng(0)
SIZES = RNG.integers(3, 16, 60)
QUERIES = np.repeat(np.arange(len(SIZES)), SIZES)
N_ROWS = len(QUERIES)
TASK = np.array(["a", "b", "c"])[QUERIES % 3]
X = RNG.normal(size=(N_ROWS, 4))
SCORE = X[:, 0] + (TASK == "b") * X[:, 1] + 0.3 * RNG.normal(size=N_ROWS)
Y = np.digitize(SCORE, [-0.5, 0.5, 1.5])
QUICK = {"strategy": "two-stage", "num_boost_round": 10, "specific_rounds": 5}
BACKENDS = {"xgboost": "rank:ndcg", "lightgbm": "lambdarank"}
BOTH = pytest.mark.parametrize("backend", BACKENDS)


def fit(backend="xgboost", *, rows=slice(None), **options):
    options = {"objective": BACKENDS[backend], "backend": backend, "n_threads": 1} | options
    return mtboost.fit(X[rows], Y[rows], task=TASK[rows], qid=QUERIES[rows], **options)


def ndcg(prediction, rows=slice(None)):
    codes = np.zeros(len(prediction), np.int64)
    (found,) = evaluate_by_task("ndcg", Y[rows], prediction, codes, 1, queries=QUERIES[rows])
    return found


# ---- rows -----------------------------------------------------------------------------------


def test_rows_of_queries_are_brought_together():
    order = RNG.permutation(N_ROWS)
    data = mtboost.Dataset(X[order], Y[order], task=TASK[order], qid=QUERIES[order])
    assert (np.diff(data.queries) >= 0).all()
    assert (np.bincount(data.queries) == SIZES[list(dict.fromkeys(QUERIES[order].tolist()))]).all()
    np.testing.assert_array_equal(data.y, Y[order][data.row_numbers])
    np.testing.assert_array_equal(data.common.native, X[order][data.row_numbers])


def test_rows_of_queries_are_brought_together_in_the_table_of_each_task():
    order = RNG.permutation(N_ROWS)
    rows = {task: order[TASK[order] == task] for task in "abc"}
    tables = {task: X[own] for task, own in rows.items()}
    labels, qid = ({task: each[own] for task, own in rows.items()} for each in (Y, QUERIES))
    data = mtboost.Dataset(tables, labels, qid=qid)
    for task, own in rows.items():
        table, codes = data.task_table(task).native, data.tasks.rows(task)
        sorted_rows = own[data.row_numbers[codes] - data.row_numbers[codes].min()]
        np.testing.assert_array_equal(table, X[sorted_rows])
        np.testing.assert_array_equal(data.y[codes], Y[sorted_rows])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qid": QUERIES[:-1]}, r"qid has shape \(\d+,\), but there are"),
        ({"qid": "query"}, "qid is a str: pass the query of each row"),
        ({"qid": np.where(QUERIES == 0, np.nan, QUERIES)}, "qid is missing in row 0"),
        ({"task": np.arange(N_ROWS) % 2}, "belong to one query, but have different tasks"),
        ({"weight": 1.0 + np.arange(N_ROWS)}, "belong to one query, but have different weights"),
    ],
)
def test_queries_that_do_not_fit_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        mtboost.Dataset(X, Y, **{"task": TASK, "qid": QUERIES, **options})


@pytest.mark.parametrize("options", [{}, {"validation_fraction": 0.3}, {"validation": "last"}])
def test_a_query_of_each_task_must_stay_to_train_on(options):
    if "validation" in options:
        options = {**options, "time": np.arange(20)}
    rows, queries = slice(20), np.arange(20) // 5
    with pytest.raises(ParameterError, match="each task has one query only. Give more queries"):
        mtboost.fit(X[rows], Y[rows], task=queries, qid=queries, objective="rank:ndcg", **options)


@pytest.mark.parametrize("how", ["hold-out", "folds", "last", "splitter"])
def test_whole_queries_are_held_out(how):
    data = mtboost.Dataset(X, Y, task=TASK, qid=QUERIES)
    if how == "hold-out":
        pairs = [hold_out(data, 0.3, False, 0)]
    elif how == "folds":
        pairs = cross_validation(data, 5, False, 0).pairs
    elif how == "last":
        pairs = [hold_out_last(data, 0.3, RNG.integers(0, 20, N_ROWS))]
    else:
        pairs = split_by(data, GroupKFold(4), False).pairs
    for train, valid in pairs:
        for task in "abc":
            n_queries = len(np.unique(QUERIES[task == TASK]))
            found = sum(
                len(np.unique(part.queries[part.tasks.rows(task)])) for part in (train, valid)
            )
            assert found == n_queries
            assert task in valid.tasks


def test_a_splitter_that_separates_a_query_is_refused():
    rows = np.arange(N_ROWS)
    with pytest.raises(DataError, match="validation separates the rows of"):
        fit(**QUICK, validation=[(rows[rows % 2 == 0], rows[rows % 2 == 1])])


# ---- fit ------------------------------------------------------------------------------------


@BOTH
def test_two_stages_rank_better_than_chance(backend):
    model = fit(backend, **QUICK)
    assert model.metric == "ndcg@32"
    assert ndcg(model.predict(X, task=TASK)) > ndcg(RNG.normal(size=N_ROWS)) + 0.1
    for curves in model.history.values():
        for curve in curves.values():
            assert ((curve > 0.0) & (curve <= 1.0)).all()


@BOTH
def test_the_order_of_the_rows_changes_nothing(backend):
    # First the first row of each query, then the second of each, ...
    mixed = np.argsort(np.concatenate([np.arange(n) for n in SIZES]), kind="stable")
    sorted_model, mixed_model = (fit(backend, rows=rows, **QUICK) for rows in (..., mixed))
    np.testing.assert_array_equal(
        sorted_model.predict(X, task=TASK), mixed_model.predict(X, task=TASK)
    )


@BOTH
@pytest.mark.parametrize("pooling", [None, 10.0])
@pytest.mark.parametrize("score", ["entropy", "variance", "plain"])
def test_split_scores_and_pooled_leaves(backend, score, pooling):
    model = fit(backend, **QUICK, split_score=score, pooling=pooling)
    assert ndcg(model.predict(X, task=TASK)) > 0.85


@BOTH
def test_the_search_judges_by_queries(backend):
    model = fit(backend, effort="fast", num_boost_round=60, validation_fraction=0.25)
    for loss in model.common_losses.values():
        assert np.isnan(loss) or -1.0 <= loss <= -0.5  # minus NDCG
    assert ndcg(model.predict(X, task=TASK)) > 0.85
    assert set(model.report()["sharing"]) <= {
        "common",
        "common + specific",
        "averaged",
        "independent",
    }


def test_the_user_may_give_validation_queries():
    rows = np.flatnonzero(QUERIES % 5 > 0)
    others = np.flatnonzero(QUERIES % 5 == 0)
    eval_set = (X[others], Y[others], TASK[others], None, None, QUERIES[others])
    model = fit(rows=rows, eval_set=eval_set, eval_metric="ndcg@3", **QUICK)
    assert model.metric == "ndcg@3"
    with pytest.raises(DataError, match="qid must be given for training and validation rows"):
        fit(rows=rows, eval_set=eval_set[:3], **QUICK)


def test_weights_of_queries_count():
    weight = np.where(TASK == "a", 1.0, 1e-3)
    plain, weighted = fit(**QUICK), fit(**QUICK, weight=weight)
    assert not np.array_equal(plain.predict(X, task=TASK), weighted.predict(X, task=TASK))


def test_baselines_and_an_ensemble():
    model = fit(**QUICK, baselines=True)
    names = {f"ndcg@32 {name}" for name in ("pooled", "pooled + task", "independent")}
    assert names <= set(model.report().columns)
    assert (model.report()[sorted(names)] > 0.6).all(axis=None)
    mean = fit(**QUICK, n_ensemble=2)
    assert ndcg(mean.predict(X, task=TASK)) > 0.85


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"objective": "reg:squarederror"}, ParameterError, "does not rank the rows of queries"),
        ({"eval_metric": "rmse"}, ParameterError, "'rmse' does not fit objective='rank:ndcg'"),
        ({"intervals": True}, ParameterError, "whose predictions are not on the scale of labels"),
        ({"linear_effects": True}, ParameterError, "linear_effects=True is not possible"),
        ({"params": {"lambdarank_pair_method": "mean"}}, UnsupportedError, "draws pairs at random"),
        ({"params": {"lambdarank_unbiased": True}}, UnsupportedError, "position biases"),
    ],
)
def test_what_ranking_cannot_have_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        fit(**{**QUICK, **options})


def test_ranking_without_queries_is_refused():
    with pytest.raises(DataError, match="pass qid, the query of each row"):
        mtboost.fit(X, Y, task=TASK, objective="rank:ndcg")


def test_the_metric_of_queries_is_not_for_rows():
    with pytest.raises(ParameterError, match="'ndcg' does not fit"):
        mtboost.fit(X, Y, task=TASK, objective="reg:squarederror", eval_metric="ndcg")


def test_labels_that_are_no_relevance_are_refused():
    with pytest.raises(DataError, match="whole numbers from 0 to 31"):
        mtboost.fit(X, SCORE, task=TASK, qid=QUERIES, objective="rank:ndcg")


def test_tune_holds_out_whole_queries():
    rows = {"task": TASK, "qid": QUERIES, "objective": "rank:ndcg"}
    fixed = {"num_boost_round": 10, "specific_rounds": 5, "n_threads": 1}
    found = mtboost.tune(X, Y, n_trials=1, strategy="two-stage", **rows, **fixed)
    assert found.metric == "ndcg@32"
    assert 0.5 < found.best_score < 1
    model = mtboost.fit(X, Y, task=TASK, **found.fit_arguments)
    np.testing.assert_array_equal(found.model.predict(X, task=TASK), model.predict(X, task=TASK))


@pytest.mark.parametrize("change", ["update", "refresh", "add_task"])
def test_changes_of_a_ranking_model_are_refused(change):
    model = fit(**QUICK)
    arguments = ("d",) if change == "add_task" else ()
    options = {} if change == "add_task" else {"task": TASK}
    with pytest.raises(UnsupportedError, match=rf"^{change}\(\) takes no queries"):
        getattr(model, change)(*arguments, X, Y, **options)


def test_more_rounds_of_a_ranking_model_are_refused():
    with pytest.raises(UnsupportedError, match="^init_model takes no queries.*fit a new model"):
        fit(init_model=fit(**QUICK))


def test_a_metric_of_the_user_is_reported():
    metric = Metric("top", lambda y, prediction: float(y[prediction.argmax()]), True)
    model = fit(effort="fast", validation_fraction=0.25, num_boost_round=20, eval_metric=metric)
    assert model.metric == "top"


def test_evaluate_has_ndcg_with_the_error_of_queries():
    model = fit(**QUICK)
    order = RNG.permutation(N_ROWS)
    rows = {"task": TASK[order], "qid": QUERIES[order], "metrics": ["ndcg@5"]}
    against = {"noise": RNG.normal(size=N_ROWS)}
    table = model.evaluate(X[order], Y[order], **rows, against=against)
    found = evaluate_by_task(
        "ndcg@5", Y, model.predict(X, task=TASK), QUERIES % 3, 3, queries=QUERIES
    )
    np.testing.assert_allclose(table["ndcg@5"].to_numpy()[:3], found)
    assert (table["ndcg@5 se"] > 0).all()
    assert (table["ndcg@5 gain over noise"] > 0).all()
    with pytest.raises(DataError, match="ndcg@32 ranks the rows of each query: pass qid"):
        model.evaluate(X, Y, task=TASK)


def test_gains_may_be_the_labels_whatever_their_size():
    y = np.round(40.0 * (SCORE - SCORE.min()))
    train, valid = QUERIES < 45, QUERIES >= 45
    model = mtboost.fit(
        X[train],
        y[train],
        task=TASK[train],
        qid=QUERIES[train],
        eval_set=(X[valid], y[valid], TASK[valid], None, None, QUERIES[valid]),
        objective="rank:ndcg",
        params={"ndcg_exp_gain": False},
        refit=False,
        **QUICK,
    )
    table = model.evaluate(X[valid], y[valid], task=TASK[valid], qid=QUERIES[valid])
    prediction = model.predict(X, task=TASK)
    for task in model.tasks:
        own = np.unique(QUERIES[valid & (task == TASK)])
        scores = [ndcg_score([y[q == QUERIES]], [prediction[q == QUERIES]], k=32) for q in own]
        assert table.loc[task, "ndcg@32,linear"] == pytest.approx(np.mean(scores))
        assert model.report().loc[task, "ndcg@32,linear final"] == pytest.approx(np.mean(scores))


@BOTH
def test_a_model_is_read_from_its_file(tmp_path, backend):
    model = fit(backend, **QUICK)
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X, task=TASK), model.predict(X, task=TASK))
    assert loaded.objective == BACKENDS[backend]


# ---- the estimator --------------------------------------------------------------------------


@BOTH
def test_the_ranker_fits_as_fit_does(tmp_path, backend):
    ranker = mtboost.MultiTaskRanker(
        backend=backend, strategy="two-stage", n_estimators=10, specific_rounds=5, random_state=0
    )
    ranker = clone(ranker).fit(X, Y, task=TASK, qid=QUERIES)
    model = fit(backend, **QUICK)
    np.testing.assert_array_equal(ranker.predict(X, task=TASK), model.predict(X, task=TASK))
    score = ranker.score(X, Y, task=TASK, qid=QUERIES)
    assert score == pytest.approx(ndcg(model.predict(X, task=TASK)))
    tables, labels, queries = ({t: own[t == TASK] for t in "abc"} for own in (X, Y, QUERIES))
    queries = {t: own - own.min() for t, own in queries.items()}  # the same names in all tasks
    assert ranker.score(tables, labels, qid=queries) == pytest.approx(score)
    ranker.save(tmp_path / "ranker")
    loaded = mtboost.load_model(tmp_path / "ranker")
    assert isinstance(loaded, mtboost.MultiTaskRanker)
    np.testing.assert_array_equal(loaded.predict(X, task=TASK), ranker.predict(X, task=TASK))


def test_the_ranker_validates_by_a_splitter():
    splitter = GroupShuffleSplit(1, test_size=0.3, random_state=0)
    ranker = mtboost.MultiTaskRanker(strategy="two-stage", n_estimators=5, validation=splitter)
    assert ranker.fit(X, Y, task=TASK, qid=QUERIES).model_.history


def test_the_ranker_needs_queries_and_an_objective_that_ranks():
    with pytest.raises(DataError, match="qid is missing"):
        mtboost.MultiTaskRanker().fit(X, Y, task=TASK)
    with pytest.raises(ParameterError, match="does not rank rows"):
        mtboost.MultiTaskRanker(objective="reg:squarederror").fit(X, Y, task=TASK, qid=QUERIES)
