# SPDX-License-Identifier: Apache-2.0
"""ProjectedObjective: XGBoost's own vector trees, cut by components of the gradients.

The twin below finds the cut of a stump in plain NumPy, in double precision, from the margins that
XGBoost had: structures are exact unless two cuts tie to seven digits, leaf values as near as
float32 allows. Not compared: sampling of rows and columns, and cuts below the root, which are
XGBoost's own affair.
"""

import copy
import json
import pickle

import numpy as np
import pytest
import xgboost
from model_documents import document, trees
from numpy.testing import assert_allclose, assert_array_equal
from oracle.naive import bin_matrix, read_cuts
from scipy.special import expit

from mtboost._core import ForestProjection, ResidualProjection
from mtboost.datasets import make_friedman1_group
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.xgboost import ProjectedObjective, TaskSplit
from mtboost.xgboost.library import version

pytestmark = [
    pytest.mark.usefixtures("one_thread_unless_asked"),
    pytest.mark.skipif(version() < (3, 2), reason="XGBoost has a split gradient from 3.2 on"),
]

N, D = 300, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5)).astype(np.float32)
SIGNAL = np.column_stack([X, X[:, 0] * X[:, 1]]) @ RNG.normal(size=(6, D))
Y = {
    "reg:squarederror": (SIGNAL + RNG.normal(size=(N, D)) + 3).astype(np.float32),
    "binary:logistic": (SIGNAL + RNG.logistic(size=(N, D)) > 1).astype(np.float32),
}
SQUARED, LOGISTIC = Y
IS_UNKNOWN = RNG.random((N, D)) < 0.3
WEIGHT = RNG.integers(1, 4, N).astype(np.float32)
PARAMS = {
    "multi_strategy": "multi_output_tree",
    "nthread": 1,
    "max_depth": 3,
    "min_child_weight": 0,  # above 0 needs XGBoost 3.4
    "max_bin": 32,
}
ROUNDS = 5
KINDS = ["gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "subsample"]


def with_unknown(y):
    return np.where(IS_UNKNOWN, np.float32(np.nan), y)


def matrix_of(y, rows=slice(None), **options):
    return xgboost.QuantileDMatrix(X[rows], np.nan_to_num(y[rows]), max_bin=32, **options)


def train(projected, y=Y[SQUARED], rounds=ROUNDS, *, matrix=None, obj=None, callbacks=(), **params):
    return xgboost.train(
        {**PARAMS, **params},
        matrix_of(y) if matrix is None else matrix,
        rounds,
        obj=obj,
        callbacks=[projected, *callbacks],
    )


def structure(booster):
    names = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    return [{name: tree[name] for name in names} for tree in trees(booster)]


def start_of(booster):
    model = document(booster)["learner"]["learner_model_param"]
    return np.array(json.loads(model["base_score"]))


# ---- against stock XGBoost and a naive twin ------------------------------------------------------


@pytest.mark.parametrize("objective", Y)
def test_without_a_projection_models_are_stock_byte_for_byte(objective):
    y, params = Y[objective], {"objective": objective, "base_score": 0.4}
    stock = xgboost.train({**PARAMS, **params}, matrix_of(y), ROUNDS)
    booster = train(ProjectedObjective(projection=None), y, **params)
    assert bytes(booster.save_raw()) == bytes(stock.save_raw())


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_the_identity_finds_the_cuts_of_stock(weight):
    matrix = matrix_of(Y[SQUARED], weight=weight)
    stock = xgboost.train({**PARAMS, "base_score": 3.0}, matrix, ROUNDS)
    booster = train(ProjectedObjective(projection=np.eye(D)), matrix=matrix, base_score=3.0)
    assert structure(booster) == structure(stock)
    # Leaves are summed row by row here, and from histograms there: other roundings of 300 terms.
    assert_allclose(booster.predict(matrix), stock.predict(matrix), rtol=1e-5, atol=1e-6)


class Margins(xgboost.callback.TrainingCallback):
    """Margins of the training rows before each round."""

    def __init__(self, matrix):
        super().__init__()
        self._matrix, self.before = matrix, []

    def before_iteration(self, model, epoch, evals_log):
        # The first round sets the start, which is then part of the first margins.
        self.before.append(None if epoch == 0 else model.predict(self._matrix, output_margin=True))
        return False


def naive_stump(bins, cuts, G, H, reg_lambda):
    """(feature, threshold) of the largest gain; G and H of shape (n_rows, n_components)."""
    best = (-np.inf, None, None)
    for feature, cut in enumerate(cuts):
        for b in range(cut.n_bins - 1):
            left = bins[:, feature] <= b
            gain = sum(
                (G[side].sum(axis=0) ** 2 / (H[side].sum(axis=0) + reg_lambda)).sum()
                for side in (left, ~left)
            )
            best = max(best, (gain, feature, cut.edges[b]))
    return best[1:]


@pytest.mark.parametrize("are_unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("objective", Y)
@pytest.mark.parametrize("kind", [*KINDS, "pca"])
def test_stumps_are_those_of_the_naive_twin(kind, objective, are_unknown):
    y = with_unknown(Y[objective]) if are_unknown else Y[objective]
    matrix = matrix_of(y, weight=WEIGHT)
    margins = Margins(matrix)
    projected = ProjectedObjective(y, projection=kind, n_components=2, seed=7)
    booster = train(
        projected, matrix=matrix, callbacks=[margins], objective=objective, max_depth=1, eta=1.0
    )
    cuts = read_cuts(matrix)
    bins = bin_matrix(X, cuts)
    is_known = ~np.isnan(y)
    weight = WEIGHT[:, None] * is_known

    start = np.average(np.nan_to_num(y), axis=0, weights=weight)
    start = np.log(start / (1 - start)) if objective == LOGISTIC else start
    margins.before[0] = np.broadcast_to(start, (N, D))
    for number, (F, tree) in enumerate(zip(margins.before, trees(booster), strict=True)):
        mean = expit(F) if objective == LOGISTIC else F
        g = weight * (mean - np.nan_to_num(y))
        h = weight * (mean * (1 - mean) if objective == LOGISTIC else 1)
        if kind == "pca":
            projection = ResidualProjection("singular", n_components=2)
            phi = projection.matrix(g.astype(np.float32), seed=7, tree=number).astype(float)
        else:
            projection = ForestProjection(kind, n_components=2)
            phi = projection.matrix(n_outputs=D, seed=7, tree=number).astype(float)
        counts = weight @ (phi**2).T / np.maximum((phi**2).sum(axis=1), 1e-9)
        feature, threshold = naive_stump(bins, cuts, g @ phi.T, counts, reg_lambda=1.0)
        assert tree["split_indices"][0] == feature
        assert np.float32(tree["split_conditions"][0]) == threshold
        goes_left = X[:, feature] < threshold
        leaves = np.reshape(tree["leaf_weights"], (2, D))
        for leaf, side in zip(leaves, (goes_left, ~goes_left), strict=True):
            newton = -g[side].sum(axis=0) / (h[side].sum(axis=0) + 1)
            # float32 gradients of margins that were rounded to float32
            assert_allclose(leaf, newton, rtol=1e-4, atol=1e-5)


# ---- labels that are unknown, and weights --------------------------------------------------------


@pytest.mark.parametrize("objective", Y)
def test_a_row_without_known_labels_is_a_row_that_is_not_there(objective):
    is_there = ~IS_UNKNOWN[:, 0]
    y = np.where(is_there[:, None], Y[objective], np.float32(np.nan))
    full = matrix_of(y)
    options = {"projection": "gaussian", "n_components": 2}
    booster = train(ProjectedObjective(y, **options), matrix=full, objective=objective)
    present = matrix_of(y, is_there, ref=full)
    other = train(ProjectedObjective(**options), matrix=present, objective=objective)
    assert trees(booster) == trees(other)
    assert_array_equal(start_of(booster), start_of(other))


@pytest.mark.parametrize("objective", Y)
def test_weight_0_is_as_good_as_an_unknown_label(objective):
    y = Y[objective]
    unknown = train(ProjectedObjective(with_unknown(y)), y, objective=objective)
    zero = train(ProjectedObjective(weight=~IS_UNKNOWN * 1.0), y, objective=objective)
    assert trees(unknown) == trees(zero)
    assert trees(unknown) != trees(train(ProjectedObjective(), y, objective=objective))


def test_weights_of_rows_are_those_of_the_matrix():
    y = Y[SQUARED]
    matrix = matrix_of(y)
    matrix.set_info(weight=WEIGHT)  # after its bins are made
    of_matrix = train(ProjectedObjective(), matrix=matrix)
    of_rows = train(ProjectedObjective(weight=WEIGHT), y)
    of_labels = train(ProjectedObjective(weight=np.tile(WEIGHT[:, None], D)), y)
    assert trees(of_matrix) == trees(of_rows)
    # As weights of labels they are multiplied by squared entries of Φ and divided by their sum.
    assert structure(of_matrix) == structure(of_labels)


def test_rows_stay_in_the_sample_of_leaves_where_no_component_knows_them():
    # XGBoost 3.2 and 3.3 take a row without a hessian for one that was not sampled.
    y = Y[SQUARED].copy()
    y[::2, 0] = np.nan
    first_output = np.eye(1, D)
    booster = train(
        ProjectedObjective(y, projection=first_output),
        np.nan_to_num(y),
        1,
        gamma=1e9,
        subsample=0.999999,  # all rows, but XGBoost samples
        base_score=0.0,
        eta=1.0,
        reg_lambda=0.0,
    )
    assert_allclose(booster.predict(xgboost.DMatrix(X[:1]))[0], np.nanmean(y, axis=0), rtol=1e-5)


def test_outputs_start_from_the_mean_of_their_known_labels():
    y = with_unknown(Y[SQUARED])
    assert_allclose(start_of(train(ProjectedObjective(y), y)), np.nanmean(y, axis=0), rtol=1e-5)
    given = train(ProjectedObjective(y), y, base_score=0.25)
    assert_array_equal(start_of(given), np.full(D, 0.25))
    margin = np.ones((N, D), np.float32)
    assert_array_equal(
        start_of(train(ProjectedObjective(), matrix=matrix_of(y, base_margin=margin))), 0.5
    )


def test_an_output_whose_labels_are_all_alike_starts_from_no_infinity():
    y = Y[LOGISTIC].copy()
    y[:, 0], y[:, 1] = 0, 1
    start = start_of(train(ProjectedObjective(), y, objective=LOGISTIC))
    assert_allclose(start[:2], [0.5 / N, 1 - 0.5 / N], rtol=1e-5)


def test_counts_start_from_their_mean():
    y = RNG.poisson(np.exp(X[:, :3]))
    booster = train(ProjectedObjective(), y.astype(np.float32), objective="count:poisson")
    assert_allclose(start_of(booster), y.mean(axis=0), rtol=1e-5)


def test_classes_are_outputs_too():
    y = (X[:, 0] > 0) + (X[:, 1] > 1.0)
    params = {"objective": "multi:softprob", "num_class": 3}
    labels = np.where(IS_UNKNOWN[:, 0], np.nan, y)
    matrix = xgboost.QuantileDMatrix(X, y, max_bin=32)
    booster = train(ProjectedObjective(labels, n_components=2), matrix=matrix, rounds=20, **params)
    probability = booster.predict(matrix)
    assert probability.shape == (N, 3)
    assert (probability.argmax(axis=1) == y).mean() > 0.95


# ---- the training --------------------------------------------------------------------------------


def test_the_returned_booster_is_an_ordinary_one():
    matrix, valid = matrix_of(Y[SQUARED], slice(200)), xgboost.DMatrix(X[200:], Y[SQUARED][200:])
    booster = xgboost.train(
        {**PARAMS, "max_depth": 4, "eta": 0.5},
        matrix,
        100,
        evals=[(valid, "valid")],
        callbacks=[ProjectedObjective()],
        early_stopping_rounds=3,
        verbose_eval=False,
    )
    assert type(booster) is xgboost.Booster
    assert not vars(booster).keys() & {"gradients"}
    assert booster.best_iteration < booster.num_boosted_rounds() - 1
    loaded = xgboost.Booster(model_file=bytearray(booster.save_raw()))
    assert_array_equal(loaded.predict(valid), booster.predict(valid))


@pytest.mark.parametrize("is_first", [True, False])
def test_the_best_rounds_may_be_cut_out_before_or_after_it(is_first):
    matrix, valid = matrix_of(Y[SQUARED], slice(200)), xgboost.DMatrix(X[200:], Y[SQUARED][200:])
    stopping = xgboost.callback.EarlyStopping(rounds=3, save_best=True)
    callbacks = [ProjectedObjective(), stopping]
    booster = xgboost.train(
        {**PARAMS, "max_depth": 4, "eta": 0.5},
        matrix,
        100,
        evals=[(valid, "valid")],
        callbacks=callbacks if is_first else callbacks[::-1],
        verbose_eval=False,
    )
    assert type(booster) is xgboost.Booster
    assert booster.num_boosted_rounds() == booster.best_iteration + 1 < 97


def test_a_model_that_is_continued_is_the_one_that_was_not_interrupted():
    matrix = matrix_of(Y[SQUARED])
    whole = train(ProjectedObjective(), matrix=matrix, rounds=6)
    half = train(ProjectedObjective(), matrix=matrix, rounds=2)
    rest = xgboost.train(PARAMS, matrix, 4, xgb_model=half, callbacks=[ProjectedObjective()])
    assert trees(rest) == trees(whole)


def test_threads_do_not_change_a_bit():
    y = np.tile(with_unknown(Y[SQUARED]), (8, 1))  # several blocks of rows
    matrix = xgboost.QuantileDMatrix(np.tile(X, (8, 1)), np.nan_to_num(y), max_bin=32)
    first, *others = (
        bytes(train(ProjectedObjective(y, n_threads=n), matrix=matrix).save_raw())
        for n in (1, 2, 7)
    )
    assert others == [first, first]


def test_seeds_and_rounds_have_their_own_projections_unless_they_are_shared():
    def of(**options):
        options = {"n_components": 1, **options}
        return trees(train(ProjectedObjective(**options), gamma=0.0, max_depth=1))

    assert of(seed=1) == of(seed=1) != of(seed=2)
    assert of(seed=1, shared=True) != of(seed=1)
    matrix = ForestProjection("gaussian", n_components=1).matrix(n_outputs=D, seed=1, tree=0)
    assert of(seed=1, shared=True) == of(projection=matrix)
    assert of(projection="pca", shared=True) != of(projection="pca")


def test_scikit_learns_wrappers_train_the_same_trees():
    for y, wrapper in ((Y[SQUARED], xgboost.XGBRegressor), (Y[LOGISTIC], xgboost.XGBClassifier)):
        projected = ProjectedObjective(n_components=2)
        model = wrapper(n_estimators=ROUNDS, n_jobs=1, callbacks=[projected], **PARAMS).fit(X, y)
        booster = train(projected, y, objective=model.objective)
        assert trees(model.get_booster()) == trees(booster)


def test_a_users_function_gives_the_gradients():
    y = with_unknown(Y[SQUARED])

    def squared_error(margins, matrix):
        residual = margins - y  # NaN where it is unknown
        return residual, np.ones_like(residual)

    own = train(ProjectedObjective(y), y, obj=squared_error, base_score=1.0)
    built_in = train(ProjectedObjective(y), y, base_score=1.0)
    assert trees(own) == trees(built_in)


def test_it_may_be_obj_as_well():
    projected = ProjectedObjective()
    assert trees(train(projected, obj=projected)) == trees(train(projected))


def test_it_survives_pickling_and_copies():
    projected = ProjectedObjective(with_unknown(Y[SQUARED]), seed=3)
    expected = trees(train(projected))
    for again in (pickle.loads(pickle.dumps(projected)), copy.deepcopy(projected)):
        assert trees(train(again)) == expected


def test_a_model_pickled_during_training_is_an_ordinary_booster():
    class Pickling(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            self.found = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.copy()]

    pickling = Pickling()
    booster = train(ProjectedObjective(), callbacks=[pickling])
    for found in pickling.found:
        assert type(found) is xgboost.Booster
        assert trees(found) == trees(booster)


def test_one_output_has_nothing_to_project():
    y = Y[SQUARED][:, :1]
    booster = train(ProjectedObjective(), y, base_score=0.5)
    stock = xgboost.train({**PARAMS, "base_score": 0.5}, matrix_of(y), ROUNDS)
    assert bytes(booster.save_raw()) == bytes(stock.save_raw())


def test_one_component_predicts_related_outputs_better_than_a_model_of_each():
    # joly2016, figure 6.1b: outputs that differ by noise alone, here after as many trees in all.
    data = make_friedman1_group(1300, seed=1)
    train_rows, test_rows = slice(300), slice(300, None)
    matrix = xgboost.QuantileDMatrix(data.X[train_rows], data.y[train_rows], max_bin=32)
    test, expected = xgboost.DMatrix(data.X[test_rows]), data.expected_y[test_rows]
    params = {**PARAMS, "max_depth": 2, "eta": 0.1}

    def error(booster):
        return np.mean((booster.predict(test) - expected) ** 2)

    alone = {**params, "multi_strategy": "one_output_per_tree"}
    one_each = xgboost.train(alone, matrix, 200)
    all_outputs = xgboost.train(params, matrix, 200)
    projected = xgboost.train(params, matrix, 200, callbacks=[ProjectedObjective(n_components=1)])
    # Measured: 1.5, 1.7 and 2.0.
    assert error(projected) < error(all_outputs) < error(one_each)


# ---- wrong use -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"multi_strategy": "one_output_per_tree"}, ParameterError, "multi_output_tree"),
        (
            {"tree_method": "approx"},
            UnsupportedError,
            "tree_method cannot .* use mtboost.ProjectedBoostingRegressor",
        ),
        (
            {"booster": "dart", "rate_drop": 0.5, "verbosity": 0},
            UnsupportedError,
            "(booster|rate_drop) cannot be combined",
        ),
        ({"monotone_constraints": "(1,0,0,0,0)"}, UnsupportedError, "monotone_constraints"),
        ({"num_parallel_tree": 2}, UnsupportedError, "num_parallel_tree"),
    ],
)
def test_parameters_that_do_not_go_with_it_are_refused(params, error, message):
    with pytest.raises(error, match=message):
        train(ProjectedObjective(), **params)


@pytest.mark.skipif(version() >= (3, 3), reason="vector trees have categories from XGBoost 3.3 on")
def test_categories_are_refused_where_vector_trees_have_none():
    table = np.column_stack([np.arange(N) % 3, X])
    matrix = xgboost.QuantileDMatrix(
        table, Y[SQUARED], feature_types=["c"] + ["q"] * 5, enable_categorical=True, max_bin=32
    )
    with pytest.raises(UnsupportedError, match="category columns.* use mtboost.lightgbm"):
        train(ProjectedObjective(), matrix=matrix)


@pytest.mark.skipif(version() < (3, 3), reason="vector trees have categories from XGBoost 3.3 on")
def test_categories_are_split():
    code = RNG.integers(0, 12, N)
    y = np.outer(np.sin(3 * code), np.arange(1, D + 1)) + 0.1 * Y[SQUARED]
    matrix = xgboost.QuantileDMatrix(
        np.column_stack([code, X]),
        y,
        feature_types=["c"] + ["q"] * 5,
        enable_categorical=True,
        max_bin=32,
    )
    booster = train(ProjectedObjective(), matrix=matrix, rounds=20)
    assert np.mean((booster.predict(matrix) - y) ** 2) < 0.05 * y.var(axis=0).mean()


@pytest.mark.skipif(version() >= (3, 4), reason="vector trees heed it from XGBoost 3.4 on")
def test_min_child_weight_is_refused_where_it_sets_leaves_to_0():
    with pytest.raises(UnsupportedError, match="min_child_weight is 1"):
        train(ProjectedObjective(), min_child_weight=1)


@pytest.mark.skipif(version() < (3, 4), reason="vector trees heed it from XGBoost 3.4 on")
def test_min_child_weight_counts_rows_of_a_logistic_objective():
    booster = train(ProjectedObjective(), Y[LOGISTIC], objective=LOGISTIC, min_child_weight=40)
    leaves = booster.predict(xgboost.DMatrix(X), pred_leaf=True)
    for of_tree in leaves.reshape(N, -1).T:
        assert np.unique(of_tree, return_counts=True)[1].min() >= 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": Y[SQUARED][:, :2]}, r"labels has shape \(300, 2\).*shape \(300, 6\)"),
        ({"labels": Y[SQUARED][:9]}, r"labels has shape \(9, 6\)"),
        ({"labels": np.full((N, D), np.inf)}, "labels is inf at row 0, column 0"),
        ({"weight": np.ones(9)}, r"weight has shape \(9,\)"),
        ({"weight": -np.ones((N, D))}, "weight is -1 at row 0, column 0"),
        ({"weight": np.zeros(N)}, "weight is zero in every row"),
        ({"weight": np.eye(N, D) * np.arange(D)}, "output '0' are unknown"),
    ],
)
def test_labels_and_weights_that_do_not_fit_are_refused(given, message):
    with pytest.raises(DataError, match=message):
        train(ProjectedObjective(**given))


def test_labels_outside_the_domain_are_refused_before_a_tree_grows():
    y = np.where(IS_UNKNOWN, np.nan, 2.0)
    with pytest.raises(DataError, match="binary:logistic needs"):
        train(ProjectedObjective(y), Y[LOGISTIC], objective=LOGISTIC)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"projection": "random"}, "projection must be .*'gaussian'.*found 'random'"),
        ({"n_components": 0}, "n_components must be 'log' or an integer from 1 to 65536, found 0"),
        ({"n_components": True}, "n_components must be .*found True"),
        ({"seed": -1}, "seed must be an integer .*found -1"),
    ],
)
def test_projections_that_make_no_sense_are_refused_at_once(wrong, message):
    with pytest.raises(ParameterError, match=message):
        ProjectedObjective(**wrong)


def test_a_matrix_of_other_outputs_is_refused():
    with pytest.raises(ParameterError, match=r"must have \(n_components, 6\)"):
        train(ProjectedObjective(projection=np.eye(4)))


@pytest.mark.skipif(version() >= (3, 4), reason="absolute error has Newton steps from 3.4 on")
def test_an_objective_that_refits_its_leaves_is_refused():
    with pytest.raises(UnsupportedError, match="reg:absoluteerror.*another rule"):
        train(ProjectedObjective(), objective="reg:absoluteerror")


def test_it_has_to_be_among_the_callbacks():
    with pytest.raises(ParameterError, match="missing among the callbacks"):
        xgboost.train(PARAMS, matrix_of(Y[SQUARED]), 1, obj=ProjectedObjective())


def test_gradients_of_a_function_have_the_shape_of_the_margins():
    with pytest.raises(DataError, match=r"array of shape \(3,\): gradient and hessian must have"):
        train(ProjectedObjective(), obj=lambda margins, matrix: (margins[:3, 0], margins[:3, 0]))


def test_it_is_alone_in_taking_over_a_training():
    tasks = np.zeros(N, int)
    for other in (ProjectedObjective(), TaskSplit(tasks), TaskSplit(tasks, split_score="plain")):
        with pytest.raises(UnsupportedError):
            train(ProjectedObjective(), callbacks=[other])


def test_cross_validation_is_refused():
    with pytest.raises(UnsupportedError, match="xgboost.cv"):
        xgboost.cv(PARAMS, xgboost.DMatrix(X, Y[SQUARED]), 2, callbacks=[ProjectedObjective()])


def test_a_failed_training_leaves_the_next_one_alone():
    projected = ProjectedObjective()
    with pytest.raises(DataError):
        train(projected, Y[SQUARED], objective=LOGISTIC)
    assert trees(train(projected)) == trees(train(ProjectedObjective()))
