# SPDX-License-Identifier: Apache-2.0
"""The losses' gradients and refitted leaves are LightGBM's, bit for bit.

Compared: every objective of ``_core.LightgbmLoss`` on the CPU, with and without weights. LightGBM
has no getter for gradients: a training with a built-in objective is compared with one that is
handed ours, whose trees show any difference in a sum of gradients or hessians.
Both libraries call the exp of the system's libm, and LightGBM's x86-64 wheels use no fused
multiply-add; those for other processors may, so that bits are compared on x86-64 only.
Not compared: labels of one class alone, for which LightGBM asks for no gradients; refitted leaves
with bagging, of whose rows LightGBM does not tell.
"""

import platform

import lightgbm as lgb
import numpy as np
import pytest

from mtboost.lightgbm.library import arithmetic
from mtboost.trees.losses import (
    LIGHTGBM_ALIASES,
    inverse_link,
    is_multiclass,
    main_name,
    make_lightgbm_loss,
)

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="LightGBM may fuse multiply and add"
)

N_ROWS = 2000
N_CLASSES = 3
NEWTON = [
    ("regression", {}),
    ("huber", {"alpha": 0.7}),
    ("fair", {"fair_c": 0.6}),
    ("poisson", {}),
    ("poisson", {"poisson_max_delta_step": 0.2}),
    ("gamma", {}),
    ("tweedie", {}),
    ("tweedie", {"tweedie_variance_power": 1.23}),
    ("binary", {}),
    ("binary", {"sigmoid": 0.7}),
    ("binary", {"is_unbalance": True}),
    ("binary", {"scale_pos_weight": 3.7, "sigmoid": 1.3}),
    ("cross_entropy", {}),
    ("multiclass", {}),
    ("multiclassova", {}),
    ("multiclassova", {"is_unbalance": True, "sigmoid": 1.3}),
    ("multiclassova", {"scale_pos_weight": 3.7}),
]
PERCENTILE = [("regression_l1", {}), ("quantile", {"alpha": 0.3}), ("quantile", {}), ("mape", {})]


def case_id(value):
    return "-".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def n_outputs_of(name):
    return N_CLASSES if name.startswith("multi") else 1


def labels_for(rng, name, signal):
    """Labels in the objective's domain that depend on a feature."""
    if name.startswith("multi"):
        return np.digitize(signal + rng.normal(size=N_ROWS), [-0.3, 1.2]).astype(np.float32)
    if name == "binary":
        return (signal + rng.normal(size=N_ROWS) > 0.5).astype(np.float32)
    if name == "cross_entropy":
        return rng.choice([0.0, 1.0, 0.3, 0.8], size=N_ROWS).astype(np.float32)
    if name in ("poisson", "tweedie", "gamma"):
        return rng.poisson(np.exp(signal / 2)).astype(np.float32)
    return (3 * signal + rng.standard_cauchy(N_ROWS)).astype(np.float32)


class Problem:
    """A training table with start scores that reach into the corners of the formulas."""

    def __init__(self, name, options, *, has_weights):
        rng = np.random.default_rng(7)
        self.params = {
            "objective": name, "num_leaves": 15, "learning_rate": 0.3, "num_threads": 1,
            "force_col_wise": True, "verbosity": -1, "metric": "none", **options,
        }  # fmt: skip
        self.n_outputs = n_outputs_of(name)
        if self.n_outputs > 1:
            self.params["num_class"] = self.n_outputs
        self.X = rng.normal(size=(N_ROWS, 6))
        self.labels = labels_for(rng, name, self.X[:, 0])
        self.weights = None
        if has_weights:
            self.weights = rng.uniform(0.0, 3.0, N_ROWS).astype(np.float32)
        if name == "mape" and has_weights:
            # LightGBM takes mape's hessians to be all equal, to the first one, also with weights.
            # These have the mean of the first and sums without rounding: ours can be 1 then.
            pairs = rng.integers(-7, 8, N_ROWS // 2 - 1) / 8
            self.weights = np.concatenate([[1, 1], 1 + pairs, 1 - pairs]).astype(np.float32)
        is_saturating = name in ("binary", "cross_entropy") or self.n_outputs > 1
        spread = rng.choice([0.1, 1.0, 50.0 if is_saturating else 3.0], (N_ROWS, 1))
        self.scores = spread * rng.uniform(-1, 1, (N_ROWS, self.n_outputs))
        self.loss = make_lightgbm_loss(name, self.n_outputs, arithmetic=arithmetic(), **options)

    def dataset(self, scores):
        init = None if scores is None else np.ravel(scores, "F")
        return lgb.Dataset(self.X, self.labels, weight=self.weights, init_score=init)

    def train(self, scores, n_rounds, **params):
        # A booster that is not kept is written and read, with gains of six digits.
        return lgb.train(
            {**self.params, **params}, self.dataset(scores), n_rounds, keep_training_booster=True
        )

    def __deepcopy__(self, memo):
        return self  # LightGBM copies its parameters, one of which is the method below

    def gradients(self, scores, data):
        """As a function that LightGBM takes for an objective."""
        scores = np.ascontiguousarray(scores).reshape(N_ROWS, self.n_outputs)
        pairs = self.loss.gradients(scores, self.labels, self.weights, n_threads=2)
        gradient, hessian = np.ascontiguousarray(np.moveaxis(pairs, -1, 0).squeeze())
        return gradient, np.ones_like(hessian) if self.loss.name == "mape" else hessian


def trees(booster):
    return [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]


def leaves(node):
    """Leaves of a dumped tree, by their numbers."""
    if "leaf_index" not in node:
        return leaves(node["left_child"]) | leaves(node["right_child"])
    return {node["leaf_index"]: node}


def shifted(node, shift):
    """A dumped tree whose values have the start score added."""
    moved = {key: shifted(node[key], shift) for key in ("left_child", "right_child") if key in node}
    value = "leaf_value" if "leaf_value" in node else "internal_value"
    return node | moved | {value: node[value] + shift}


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize(("name", "options"), NEWTON, ids=case_id)
def test_training_with_our_gradients_grows_the_trees_of_the_built_in_objective(
    name, options, has_weights
):
    problem = Problem(name, options, has_weights=has_weights)
    built_in = problem.train(problem.scores, 10)
    ours = problem.train(problem.scores, 10, objective=problem.gradients)
    assert trees(ours) == trees(built_in)
    assert all(len(leaves(tree)) > 1 for tree in trees(ours))


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize(("name", "options"), NEWTON, ids=case_id)
def test_so_it_does_from_the_start_score_of_the_built_in_objective(name, options, has_weights):
    problem = Problem(name, options, has_weights=has_weights)
    built_in = problem.train(None, 5)
    no_cuts = trees(problem.train(None, 1, min_data_in_leaf=N_ROWS))
    start = [tree["leaf_value"] for tree in no_cuts]
    scores = np.tile(start, (N_ROWS, 1))
    ours = trees(problem.train(scores, 5, objective=problem.gradients))
    first = [shifted(tree, value) for tree, value in zip(ours, start, strict=False)]
    assert trees(built_in) == first + ours[problem.n_outputs :]


def without_leaf_values(node):
    if "leaf_value" in node:
        return node | {"leaf_value": None}
    return node | {key: without_leaf_values(node[key]) for key in ("left_child", "right_child")}


@pytest.mark.parametrize("learning_rate", [1.0, 0.3])
@pytest.mark.parametrize("weighting", ["none", "any", "zeros"])
@pytest.mark.parametrize(("name", "options"), PERCENTILE, ids=case_id)
def test_percentile_losses_grow_lightgbms_trees_and_set_its_leaves(
    name, options, weighting, learning_rate
):
    problem = Problem(name, options, has_weights=weighting == "any")
    if weighting == "zeros":  # and weights beyond 1, between which LightGBM interpolates
        problem.weights = np.random.default_rng(3).integers(0, 4, N_ROWS).astype(np.float32)
    n_rounds = 6
    booster = problem.train(problem.scores, n_rounds, learning_rate=learning_rate)
    leaf_of_row = booster.predict(problem.X, pred_leaf=True).reshape(N_ROWS, n_rounds)
    scores = problem.scores
    for tree, rows in zip(trees(booster), leaf_of_row.T.astype(np.int32), strict=True):
        if name != "mape" or weighting != "zeros":
            (ours,) = trees(
                problem.train(scores, 1, objective=problem.gradients, learning_rate=learning_rate)
            )
            assert without_leaf_values(ours) == without_leaf_values(tree)
        by_number = leaves(tree)
        stock = np.array([by_number[leaf]["leaf_value"] for leaf in sorted(by_number)])
        values = problem.loss.refit_leaf_values(
            np.full(len(stock), np.nan), np.ascontiguousarray(rows), scores, problem.labels,
            problem.weights, learning_rate=learning_rate, n_threads=2,
        )  # fmt: skip
        assert len(stock) > 1
        np.testing.assert_array_equal(values, stock)
        scores = scores + values[rows][:, None]


@pytest.mark.parametrize("alias", sorted({*LIGHTGBM_ALIASES, *LIGHTGBM_ALIASES.values()}))
def test_another_name_of_an_objective_means_what_it_means_to_lightgbm(alias):
    n_classes = {"num_class": 3} if is_multiclass(alias) else {}
    params = {"objective": alias, "verbosity": -1, "metric": "none", **n_classes}
    booster = lgb.train(params, lgb.Dataset(np.eye(3), [0, 1, 1]), 1)
    assert booster.dump_model()["objective"].split()[0] == main_name(alias)


@pytest.mark.parametrize(("name", "options"), [*NEWTON, *PERCENTILE], ids=case_id)
def test_predictions_are_margins_behind_the_inverse_link(name, options):
    problem = Problem(name, options, has_weights=False)
    booster = problem.train(None, 3)
    margins = booster.predict(problem.X, raw_score=True)
    ours = inverse_link(name, margins, sigmoid=options.get("sigmoid", 1.0))
    # a handful of roundings
    np.testing.assert_allclose(ours, booster.predict(problem.X), rtol=2**-50)
