# SPDX-License-Identifier: Apache-2.0
"""BalancedSplit: XGBoost's own trees, split by weighted rows, with leaves of unweighted rows.

The twin below grows both models in plain NumPy. Gains are compared in double precision, which is
enough to find the same splits unless two candidates tie to seven digits; so structures are exact,
leaf values as near as float32 allows. Not compared: sampling of rows and columns, which is
XGBoost's.
"""

import json

import numpy as np
import pytest
import xgboost
from model_documents import document, trees
from numpy.testing import assert_allclose, assert_array_equal
from oracle.naive import bin_matrix, read_cuts

from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.metrics import evaluate_by_task
from mtboost.xgboost import BalancedSplit, TaskObjective, TaskQuitting
from mtboost.xgboost.library import version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")
needs_split_gradient = pytest.mark.skipif(
    version() < (3, 2), reason="XGBoost has a split gradient from 3.2 on"
)

N = 900
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5)).astype(np.float32)
TASK = RNG.choice(["a", "b", "c"], N, p=[0.75, 0.2, 0.05])
SLOPE = np.select([TASK == "a", TASK == "b"], [1.0, -0.5], 3.0)
SIGNAL = X[:, 0] + SLOPE * X[:, 1] * X[:, 2] + RNG.normal(size=N)
LABELS = {
    "reg:squarederror": SIGNAL.astype(np.float32),
    "binary:logistic": (SIGNAL > 0).astype(np.float32),
}
WEIGHT = RNG.integers(1, 4, N).astype(np.float32)
MISSING = np.where(RNG.random((N, 5)) < 0.15, np.float32(np.nan), X)
# min_child_weight above 0 needs XGBoost 3.4.
PARAMS = {"nthread": 1, "max_depth": 3, "base_score": 0.5, "min_child_weight": 0.0, "max_bin": 32}
VECTOR = {"multi_strategy": "multi_output_tree"}
ROUNDS = 5


def twice(y):
    return np.column_stack([y, y])


def matrix_of(objective, rows=slice(None), *, table=X, copies=2, weight=None, **options):
    label = LABELS[objective][rows]
    return xgboost.QuantileDMatrix(
        table[rows],
        twice(label) if copies == 2 else label,
        weight=None if weight is None else weight[rows],
        max_bin=32,
        nthread=1,
        **options,
    )


def train(split, matrix, rounds=ROUNDS, callbacks=(), **params):
    name = split.objective if isinstance(split.objective, str) else "reg:squarederror"
    params = {**PARAMS, **VECTOR, "objective": name, **params}
    return xgboost.train(params, matrix, rounds, obj=split, callbacks=[split, *callbacks])


def structure(booster):
    names = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    result = []
    for tree in trees(booster):
        is_leaf = np.array(tree["left_children"]) < 0
        arrays = {name: np.array(tree[name]) for name in names}
        arrays["split_conditions"][is_leaf] = 0  # leaf values
        result.append({name: values.tolist() for name, values in arrays.items()})
    return result


def leaf_values(booster):
    return np.concatenate(
        [
            np.array(tree["split_conditions"])[np.array(tree["left_children"]) < 0]
            for tree in trees(booster)
        ]
    )


# ---- the twin ------------------------------------------------------------------------------------


def gain(G, H, reg_lambda):
    with np.errstate(invalid="ignore"):
        return np.where(H > 0, G**2 / (H + reg_lambda), 0.0)


def best_split(bins, cuts, g, h, reg_lambda):
    """(gain, feature, threshold, missing left, rows that go left) of the best cut of a node."""
    best = (0.0, None, None, None, None)
    for feature, cut in enumerate(cuts):
        bin = bins[:, feature]
        for missing_left in (False, True):
            if missing_left and (bin >= 0).all():
                continue
            # Bins that are empty in the node make equal cuts: XGBoost takes the lowest if missing
            # values go right, else the highest. Beyond the ends all values part from missing ones.
            ascending = range(-1, cut.n_bins)
            for b in reversed(ascending) if missing_left else ascending:
                left = np.where(bin < 0, missing_left, bin <= b)
                if left.all() or not left.any():
                    continue
                s = (
                    gain(g[left].sum(), h[left].sum(), reg_lambda)
                    + gain(g[~left].sum(), h[~left].sum(), reg_lambda)
                    - gain(g.sum(), h.sum(), reg_lambda)
                )
                if s > best[0] * (1 + 1e-9):
                    threshold = cut.edges[b] if b >= 0 else cut.minimum
                    best = (s, feature, threshold, missing_left, left)
    return best


def grow(bins, cuts, g, h, params):
    """Nodes {id: (feature, threshold, missing left, left child)} and the rows of each leaf."""
    nodes, rows_of, level = {}, {0: np.arange(len(bins))}, [0]
    n_nodes = 1
    for _ in range(params["max_depth"]):
        next_level = []
        for node in level:
            rows = rows_of[node]
            s, feature, threshold, missing_left, left = best_split(
                bins[rows], cuts, g[rows], h[rows], params["reg_lambda"]
            )
            if s <= max(1e-6, params["gamma"]):
                continue
            nodes[node] = (feature, threshold, missing_left, n_nodes)
            del rows_of[node]
            rows_of[n_nodes], rows_of[n_nodes + 1] = rows[left], rows[~left]
            next_level += [n_nodes, n_nodes + 1]
            n_nodes += 2
        level = next_level
    return nodes, rows_of


def naive_balanced_split(matrix, table, y, task, params, n_rounds):
    """Squared error. The trees, and their leaf values in the returned model."""
    cuts = read_cuts(matrix)
    bins = bin_matrix(table, cuts)
    sizes = {name: (task == name).sum() for name in set(task)}
    balance = np.array([len(task) / (len(sizes) * sizes[name]) for name in task], np.float32)
    margins = np.full((len(y), 2), 0.5, np.float32)  # of the returned and of the balanced model
    grown = []
    for _ in range(n_rounds):
        g = margins - y[:, np.newaxis]
        g[:, 1] *= balance
        h = np.column_stack([np.ones_like(balance), balance])
        nodes, rows_of = grow(bins, cuts, g[:, 1].astype(float), h[:, 1].astype(float), params)
        values = {}
        for leaf, rows in rows_of.items():
            G, H = g[rows].sum(axis=0, dtype=float), h[rows].sum(axis=0, dtype=float)
            weight = (-G / (H + params["reg_lambda"])).astype(np.float32)
            margins[rows] += weight * np.float32(params["eta"])
            values[leaf] = weight[0] * np.float32(params["eta"])
        grown.append((nodes, values))
    return grown


@needs_split_gradient
@pytest.mark.parametrize("table", [X, MISSING], ids=["dense", "missing"])
@pytest.mark.parametrize(
    "params", [{}, {"reg_lambda": 20.0, "gamma": 8.0}], ids=["plain", "strict"]
)
def test_it_grows_the_trees_of_the_naive_twin(table, params):
    params = {"eta": 0.3, "reg_lambda": 1.0, "gamma": 0.0, "max_depth": 3, **params}
    matrix = matrix_of("reg:squarederror", table=table)
    booster = train(BalancedSplit("reg:squarederror", TASK), matrix, **params)
    y = LABELS["reg:squarederror"]
    expected = naive_balanced_split(matrix, table, y, TASK, params, ROUNDS)
    for tree, (nodes, values) in zip(trees(booster), expected, strict=True):
        left = np.array(tree["left_children"])
        assert set(np.flatnonzero(left >= 0)) == set(nodes)
        assert set(np.flatnonzero(left < 0)) == set(values)
        for node, (feature, threshold, missing_left, child) in nodes.items():
            assert tree["split_indices"][node] == feature
            assert np.float32(tree["split_conditions"][node]) == threshold
            assert tree["default_left"][node] == missing_left
            assert left[node] == child
        for leaf, value in values.items():
            # sums of 900 float32 gradients that are rounded once, and again in each round
            assert tree["split_conditions"][leaf] == pytest.approx(value, rel=1e-5, abs=1e-6)


# ---- against stock XGBoost -----------------------------------------------------------------------


@needs_split_gradient
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("objective", LABELS)
def test_the_structure_is_that_of_stock_training_with_balanced_weights(objective, weight):
    balanced = xgboost.train(
        {**PARAMS, "objective": objective},
        matrix_of(objective, copies=1, weight=weight),
        ROUNDS,
        obj=TaskObjective(objective, TASK, task_weight="balanced"),
    )
    split = BalancedSplit(objective, TASK)
    booster = train(split, matrix_of(objective, weight=weight))
    assert structure(booster) == structure(balanced)
    assert not np.allclose(leaf_values(booster), leaf_values(balanced), rtol=1e-3)


@needs_split_gradient
@pytest.mark.parametrize(
    "task",
    [np.full(N, "all"), np.arange(N) % 3],
    ids=["one_task", "tasks_of_one_size"],
)
@pytest.mark.parametrize("objective", LABELS)
def test_where_nothing_needs_balance_the_trees_are_stock(objective, task):
    stock = xgboost.train(
        {**PARAMS, "objective": objective}, matrix_of(objective, copies=1), ROUNDS
    )
    booster = train(BalancedSplit(objective, task), matrix_of(objective))
    assert structure(booster) == structure(stock)
    # Scalar trees have their leaves from histograms, vector trees from rows: other roundings.
    assert_allclose(leaf_values(booster), leaf_values(stock), rtol=1e-5, atol=1e-7)


@needs_split_gradient
def test_weights_of_tasks_may_be_given_for_splits_and_leaves():
    factor = {"a": 1.0, "b": 2.0, "c": 8.0}
    objective = "binary:logistic"
    matrix = matrix_of(objective, copies=1)
    stock = xgboost.train(
        {**PARAMS, "objective": objective},
        matrix,
        ROUNDS,
        obj=TaskObjective(objective, TASK, task_weight=factor),
    )
    split = BalancedSplit(objective, TASK, split_weight=factor, task_weight=factor)
    booster = train(split, matrix_of(objective))
    assert structure(booster) == structure(stock)
    assert_allclose(leaf_values(booster), leaf_values(stock), rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(version() < (3, 4), reason="vector trees heed it from XGBoost 3.4 on")
def test_min_child_weight_is_that_of_the_balanced_rows():
    objective, params = "reg:squarederror", {**PARAMS, "min_child_weight": 60.0}
    balanced = xgboost.train(
        {**params, "objective": objective},
        matrix_of(objective, copies=1),
        ROUNDS,
        obj=TaskObjective(objective, TASK, task_weight="balanced"),
    )
    booster = train(BalancedSplit(objective, TASK), matrix_of(objective), min_child_weight=60.0)
    assert structure(booster) == structure(balanced)
    free = train(BalancedSplit(objective, TASK), matrix_of(objective))
    assert structure(booster) != structure(free)


# ---- the returned booster ------------------------------------------------------------------------


class Margins(xgboost.callback.TrainingCallback):
    """Margins of both models while they grow."""

    def __init__(self, matrix):
        super().__init__()
        self._matrix = matrix

    def after_iteration(self, model, epoch, evals_log):
        self.last = model.predict(self._matrix, output_margin=True)
        return False


@needs_split_gradient
@pytest.mark.parametrize("n_labels", [1, 2])
def test_the_returned_booster_predicts_what_the_unweighted_model_did(n_labels):
    y = np.column_stack([LABELS["reg:squarederror"], X[:, 1] ** 2])[:, :n_labels]
    matrix = xgboost.QuantileDMatrix(MISSING, np.hstack([y, y]), max_bin=32, nthread=1)
    margins = Margins(matrix)
    booster = train(BalancedSplit("reg:squarederror", TASK), matrix, callbacks=[margins])
    assert margins.last.shape == (N, 2 * n_labels)
    found = booster.predict(matrix, output_margin=True).reshape(N, -1)
    assert_array_equal(found, margins.last[:, :n_labels])
    assert booster.num_boosted_rounds() == ROUNDS
    single = xgboost.DMatrix(MISSING, y)
    contributions = booster.predict(single, pred_contribs=True).reshape(N, n_labels, -1)
    assert_allclose(contributions.sum(axis=-1), found, rtol=1e-4, atol=1e-4)


@needs_split_gradient
def test_the_returned_booster_is_an_ordinary_one(tmp_path):
    objective = "binary:logistic"
    names = list("vwxyz")
    matrix = matrix_of(objective, slice(600), feature_names=names)
    valid = matrix_of(objective, slice(600, None), feature_names=names, ref=matrix)
    split = BalancedSplit(objective, TASK[:600])
    booster = xgboost.train(
        {**PARAMS, **VECTOR, "objective": objective},
        matrix,
        100,
        obj=split,
        evals=[(valid, "valid")],
        callbacks=[split],
        early_stopping_rounds=3,
        verbose_eval=False,
    )
    assert type(booster) is xgboost.Booster
    assert booster.best_iteration < booster.num_boosted_rounds() - 1
    assert booster.feature_names == names
    plain = xgboost.DMatrix(X, feature_names=names)
    prediction = booster.predict(plain)
    assert prediction.shape == (N,)
    assert ((prediction > 0) & (prediction < 1)).all()
    booster.save_model(tmp_path / "model.ubj")
    loaded = xgboost.Booster(model_file=tmp_path / "model.ubj")
    assert_array_equal(loaded.predict(plain), prediction)
    assert booster[:2].num_boosted_rounds() == 2
    config = json.loads(booster.save_config())["learner"]
    assert config["learner_train_param"]["multi_strategy"] == "one_output_per_tree"
    assert config["gradient_booster"]["tree_train_param"]["max_depth"] == "3"


@needs_split_gradient
def test_a_leaf_alone_is_a_tree():
    booster = train(
        BalancedSplit("reg:squarederror", TASK), matrix_of("reg:squarederror"), gamma=1e9
    )
    assert [tree["left_children"] for tree in trees(booster)] == [[-1]] * ROUNDS
    G, H = np.sum(0.5 - LABELS["reg:squarederror"], dtype=float), N
    assert leaf_values(booster)[0] == pytest.approx(-G / (H + 1) * 0.3, rel=1e-5)


@pytest.mark.skipif(version() < (3, 3), reason="vector trees have categories from XGBoost 3.3 on")
def test_categories_are_split_as_in_training():
    table = np.column_stack([RNG.integers(0, 12, N), X]).astype(np.float32)
    y = np.sin(3 * table[:, 0]) + 0.1 * LABELS["reg:squarederror"]
    options = {"feature_types": ["c"] + ["q"] * 5, "enable_categorical": True}
    matrix = xgboost.QuantileDMatrix(table, twice(y), max_bin=32, nthread=1, **options)
    margins = Margins(matrix)
    booster = train(BalancedSplit("reg:squarederror", TASK), matrix, callbacks=[margins])
    assert any(tree["categories"] for tree in trees(booster))
    assert_array_equal(booster.predict(matrix), margins.last[:, 0])


@needs_split_gradient
def test_a_users_function_is_given_both_models():
    def squared_error(margins, matrix):
        assert margins.shape == (N, 2)
        residual = margins - matrix.get_label().reshape(N, 2)
        return residual, np.ones_like(residual)

    ours = train(BalancedSplit(squared_error, TASK), matrix_of("reg:squarederror"))
    named = train(BalancedSplit("reg:squarederror", TASK), matrix_of("reg:squarederror"))
    assert trees(ours) == trees(named)


# ---- quitting ------------------------------------------------------------------------------------


class Quit(xgboost.callback.TrainingCallback):
    def __init__(self, split, task):
        super().__init__()
        self._split, self._task = split, task

    def before_iteration(self, model, epoch, evals_log):
        self._split.quit(self._task)
        return False


@needs_split_gradient
@pytest.mark.parametrize("objective", LABELS)
def test_rows_of_a_task_that_has_quit_are_as_if_they_were_not_there(objective):
    factor = {"a": 1.0, "b": 4.0, "c": 16.0}
    split = BalancedSplit(objective, TASK, split_weight=factor)
    matrix = matrix_of(objective)
    ours = train(split, matrix, callbacks=[Quit(split, "a")])
    stays = np.flatnonzero(TASK != "a")
    del factor["a"]
    rest = BalancedSplit(objective, TASK[stays], split_weight=factor)
    assert trees(ours) == trees(train(rest, matrix_of(objective, stays, ref=matrix)))


@needs_split_gradient
def test_a_second_training_starts_with_all_tasks_again():
    split, matrix = BalancedSplit("binary:logistic", TASK), matrix_of("binary:logistic")
    first = document(train(split, matrix))
    split.quit("a")
    assert document(train(split, matrix)) == first


@needs_split_gradient
@pytest.mark.parametrize("copies", [1, 2])
def test_tasks_quit_by_the_metric_of_the_returned_model(copies):
    objective, rows = "binary:logistic", slice(600, None)
    valid = matrix_of(objective, rows, copies=copies)
    split = BalancedSplit(objective, TASK[:600])
    quitting = TaskQuitting(
        valid, TASK[rows], metric="logloss", early_stopping_rounds=3, objective=split
    )
    booster = train(split, matrix_of(objective, slice(600)), 60, [quitting])
    n_rounds = booster.num_boosted_rounds()
    assert len(set(quitting.left_after.values())) > 1  # or nothing was put to the test
    codes = np.searchsorted(["a", "b", "c"], TASK[rows])
    for done in (1, n_rounds):
        prediction = booster.predict(valid, iteration_range=(0, done))
        expected = evaluate_by_task("logloss", LABELS[objective][rows], prediction, codes, 3)
        found = [quitting.history[task][done] for task in "abc"]
        # XGBoost's sigmoid is float32, ours is not
        assert_allclose(found, expected, rtol=1e-5)
    assert [quitting.history[task][0] for task in "abc"] == pytest.approx([np.log(2)] * 3)


# ---- weird input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("found", ["3.0.5", "3.1.3"])
def test_versions_without_a_split_gradient_are_refused(monkeypatch, found):
    monkeypatch.setattr(xgboost, "__version__", found)
    with pytest.raises(UnsupportedError, match=rf"XGBoost 3.2, found {found}.*TaskSplit"):
        BalancedSplit("binary:logistic", TASK)


REFUSED = [
    ({"monotone_constraints": "(1,0,0,0,0)"}, "monotone_constraints"),
    ({"tree_method": "approx"}, "tree_method"),
    ({"tree_method": "exact"}, "tree_method"),
    pytest.param(
        {"booster": "gblinear"},
        "booster",
        marks=pytest.mark.filterwarnings("ignore::UserWarning"),  # of XGBoost, about gblinear
    ),
    ({"num_parallel_tree": 2}, "num_parallel_tree"),
]
REFUSED_BEFORE_3_4 = [
    ({"interaction_constraints": "[[0,1]]"}, "interaction_constraints"),
    ({"min_child_weight": 1.0}, r"min_child_weight is 1.*sets them to 0.*3\.4"),
]


@needs_split_gradient
@pytest.mark.parametrize(("params", "message"), REFUSED)
def test_parameters_that_vector_trees_do_not_have_are_refused(params, message):
    with pytest.raises(UnsupportedError, match=message):
        train(BalancedSplit("binary:logistic", TASK), matrix_of("binary:logistic"), **params)


@needs_split_gradient
@pytest.mark.parametrize(("params", "message"), REFUSED_BEFORE_3_4)
def test_parameters_that_vector_trees_have_later_are_refused_before(params, message):
    split, matrix = BalancedSplit("binary:logistic", TASK), matrix_of("binary:logistic")
    if version() >= (3, 4):
        assert train(split, matrix, **params).num_boosted_rounds() == ROUNDS
        return
    with pytest.raises(UnsupportedError, match=message):
        train(split, matrix, **params)


@needs_split_gradient
@pytest.mark.parametrize("params", [{}, {"multi_strategy": "one_output_per_tree"}])
def test_trees_of_one_output_are_refused(params):
    split = BalancedSplit("binary:logistic", TASK)
    with pytest.raises(ParameterError, match="multi_output_tree"):
        xgboost.train(
            {**PARAMS, **params}, matrix_of("binary:logistic"), 1, obj=split, callbacks=[split]
        )


@needs_split_gradient
def test_it_must_be_among_the_callbacks():
    split, matrix = BalancedSplit("binary:logistic", TASK), matrix_of("binary:logistic")
    train(split, matrix)  # an earlier training is none of this one
    with pytest.raises(ParameterError, match=r"callbacks=\[split\]"):
        xgboost.train({**PARAMS, **VECTOR}, matrix, 1, obj=split)


@needs_split_gradient
@pytest.mark.parametrize(
    "label",
    [SIGNAL, np.column_stack([SIGNAL, X[:, 0]]), np.column_stack([SIGNAL] * 3)],
    ids=["once", "two_labels", "three_times"],
)
def test_labels_that_are_not_there_twice_are_refused(label):
    matrix = xgboost.QuantileDMatrix(X, label, nthread=1)
    with pytest.raises(DataError, match=r"np.column_stack\(\[y, y\]\)"):
        train(BalancedSplit("reg:squarederror", TASK), matrix)


@pytest.mark.skipif(version() != (3, 2), reason="only XGBoost 3.2 cannot")
def test_categories_are_refused_where_vector_trees_have_none():
    matrix = xgboost.QuantileDMatrix(
        np.abs(X).round(), twice(SIGNAL), feature_types=["c"] * 5, enable_categorical=True
    )
    with pytest.raises(UnsupportedError, match="category columns"):
        train(BalancedSplit("reg:squarederror", TASK), matrix)


@needs_split_gradient
def test_a_model_is_not_continued():
    split, matrix = BalancedSplit("binary:logistic", TASK), matrix_of("binary:logistic")
    params = {**PARAMS, **VECTOR, "objective": "binary:logistic"}
    del params["base_score"]  # XGBoost wants it per output when a model is continued
    vectors = xgboost.train(params, matrix, 2)
    with pytest.raises(UnsupportedError, match="xgb_model"):
        xgboost.train(params, matrix, 2, obj=split, callbacks=[split], xgb_model=vectors)


@needs_split_gradient
def test_folds_of_cross_validation_are_refused():
    split = BalancedSplit("binary:logistic", TASK)
    matrix = xgboost.DMatrix(X, twice(LABELS["binary:logistic"]))
    with pytest.raises(UnsupportedError, match=r"xgboost\.cv"):
        xgboost.cv({**PARAMS, **VECTOR}, matrix, 2, obj=split, callbacks=[split])


@needs_split_gradient
@pytest.mark.parametrize("objective", ["multi:softprob", "rank:ndcg"])
def test_an_objective_without_one_gradient_per_label_is_refused(objective):
    with pytest.raises(UnsupportedError, match=objective):
        BalancedSplit(objective, TASK)


@needs_split_gradient
def test_a_task_without_a_say_in_splits_is_refused():
    with pytest.raises(ParameterError, match="split_weight must be above 0"):
        BalancedSplit("binary:logistic", TASK, split_weight={"a": 0.0, "b": 1.0, "c": 1.0})


@needs_split_gradient
def test_another_number_of_rows_is_refused():
    with pytest.raises(DataError, match=r"900 task labels.*400 training rows"):
        train(BalancedSplit("binary:logistic", TASK), matrix_of("binary:logistic", slice(400)))
