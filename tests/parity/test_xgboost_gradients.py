# SPDX-License-Identifier: Apache-2.0
"""The losses' gradients and refitted leaves are XGBoost's, bit for bit.

Compared: every objective of ``_core.Loss`` on the CPU, with and without weights, for one output and
for several. Both libraries call the expf of the system's libm, and XGBoost's x86-64 wheels use no
fused multiply-add; those for other processors may, so that bits are compared on x86-64 only.
Not compared: the sign of zero; GPU gradients (another expf); leaves without a row of weight > 0
(XGBoost multiplies their value by the learning rate once more, but on one machine it grows none).
"""

import json
import platform

import numpy as np
import pytest
import xgboost as xgb

from mtboost import _core
from mtboost.trees.losses import row_groups
from mtboost.xgboost.library import arithmetic, version

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="XGBoost's wheel fuses multiply and add"
)

ELEMENTWISE = [
    ("reg:squarederror", {}),
    ("reg:squarederror", {"scale_pos_weight": 3.7}),
    ("reg:squaredlogerror", {}),
    ("reg:squaredlogerror", {"scale_pos_weight": 3.7}),
    ("reg:absoluteerror", {}),
    ("reg:pseudohubererror", {}),
    ("reg:pseudohubererror", {"huber_slope": 0.3}),
    ("binary:logistic", {}),
    ("binary:logistic", {"scale_pos_weight": 3.7}),
    ("reg:logistic", {}),
    ("binary:logitraw", {}),
    ("binary:hinge", {}),
    ("count:poisson", {}),
    ("count:poisson", {"max_delta_step": 0.2}),
    ("reg:gamma", {}),
    ("reg:gamma", {"scale_pos_weight": 2.3}),
    ("reg:tweedie", {}),
    ("reg:tweedie", {"tweedie_variance_power": 1.23}),
]
# XGBoost 3.0 and 3.1 refuse label matrices for some objectives, and parallel trees for one.
IS_OLD = version() < (3, 2)
SINGLE_OUTPUT = ("count:poisson", "reg:pseudohubererror", "reg:tweedie") if IS_OLD else ()
N_PARALLEL = (1,) if IS_OLD else (1, 3)
N_OUTPUTS = 3
LEVELS = [0.9, 0.1, 0.5] if version() < (3, 4) else [0.1, 0.5, 0.9]  # which are in order since
CASES = (
    [(name, options, 1) for name, options in ELEMENTWISE]
    + [(name, options, N_OUTPUTS) for name, options in ELEMENTWISE if name not in SINGLE_OUTPUT]
    + [("multi:softprob", {}, N_OUTPUTS), ("multi:softmax", {}, N_OUTPUTS)]
    + [("reg:quantileerror", {"quantile_alpha": [0.3]}, 1)]
    + [("reg:quantileerror", {"quantile_alpha": LEVELS}, N_OUTPUTS)]
)


def case_id(value):
    return "-".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def labels_for(rng, name, shape):
    """Labels in the objective's domain, 1 among them where ``scale_pos_weight`` looks for it."""
    if name.startswith("multi:"):
        return rng.integers(0, shape[1], size=shape[0]).astype(np.float32)
    if name in ("binary:logistic", "binary:logitraw", "binary:hinge"):
        return rng.integers(0, 2, size=shape).astype(np.float32)
    if name == "reg:logistic":
        return rng.choice([0.0, 1.0, 0.3, 0.8], size=shape).astype(np.float32)
    if name in ("count:poisson", "reg:tweedie", "reg:squaredlogerror"):
        return rng.poisson(2.0, size=shape).astype(np.float32)
    if name == "reg:gamma":
        return (0.5 + rng.poisson(2.0, size=shape) / 2).astype(np.float32)
    if name == "reg:quantileerror":
        shape = (shape[0], 1)
    return np.round(rng.normal(size=shape), 1).astype(np.float32)  # some labels are 1


def xgboost_params(name, options, n_outputs):
    params = {"objective": name, "nthread": 1, **options}
    return {**params, "num_class": n_outputs} if name.startswith("multi:") else params


def trees_of(booster):
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    return model["trees"], model["tree_info"]


def stock_gradients(name, options, margins, labels, weights):
    """Gradient pairs of stock XGBoost, which has no getter for them, exactly.

    A tree with one leaf per row is grown, and its leaves are refreshed with the objective's own
    gradients: then sum_hessian of a leaf is h, and its value, computed in double, is -g / (h + λ).
    With λ a power of two and h / λ < 2⁻²⁷, h is lost when the quotient is rounded to float, and the
    value is -g / λ exactly. λ must not be so large that this is a denormal number: hence several λ,
    the smallest that will do for each row.
    """
    n_rows, n_outputs = margins.shape
    rows = np.arange(n_rows, dtype=np.float32)
    given = {"label": labels}
    if name == "survival:aft":
        given = {"label_lower_bound": labels[:, 0], "label_upper_bound": labels[:, 1]}
    data = xgb.DMatrix(rows[:, None], weight=weights, base_margin=margins, **given)
    separate = {
        "max_leaves": n_rows, "max_bin": n_rows, "grow_policy": "lossguide", "max_depth": 0,
        "reg_lambda": 0.0, "min_child_weight": 0.0, "max_delta_step": 0.0, "learning_rate": 1.0,
    }  # fmt: skip
    distinct = np.tile((rows - n_rows / 2)[:, None], n_outputs)
    grower = xgboost_params(name, options, n_outputs)
    if not name.startswith("multi:") and name != "reg:quantileerror":
        grower = {"objective": "reg:squarederror", "nthread": 1}
    one_leaf_per_row = xgb.train(
        {**grower, **separate}, data, 1, obj=lambda predt, d: (distinct, np.ones_like(distinct))
    )
    leaves = one_leaf_per_row.predict(data, pred_leaf=True).astype(int).reshape(n_rows, n_outputs)
    assert all(np.unique(leaf).size == n_rows for leaf in leaves.T)

    refresh = {"process_type": "update", "updater": "refresh", "refresh_leaf": True}
    pairs = np.full((n_rows, n_outputs, 2), np.nan, dtype=np.float32)
    for reg_lambda in (2.0**80, 2.0**40, 1.0):
        params = xgboost_params(name, options, n_outputs) | refresh
        refreshed = xgb.train(
            {**params, "reg_lambda": reg_lambda, "learning_rate": 1.0, "verbosity": 0},
            data, 1, xgb_model=one_leaf_per_row.copy(),
        )  # fmt: skip
        for output, tree in enumerate(trees_of(refreshed)[0]):
            values = np.float32(tree["split_conditions"])[leaves[:, output]]
            hessians = np.float32(tree["sum_hessian"])[leaves[:, output]]
            exact = hessians < reg_lambda * 2.0**-27
            pairs[exact, output, 0] = -values[exact] * np.float32(reg_lambda)
            pairs[:, output, 1] = hessians
    return pairs


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize(("name", "options", "n_outputs"), CASES, ids=case_id)
def test_gradient_pairs_are_those_of_xgboost(name, options, n_outputs, has_weights):
    rng = np.random.default_rng(11)
    n_rows = 600
    largest = 100.0 if "logi" in name or name.startswith("multi:") else 10.0
    spread = rng.choice([0.1, 1.0, largest], size=(n_rows, 1))
    margins = (spread * rng.uniform(-1, 1, size=(n_rows, n_outputs))).astype(np.float32)
    labels = labels_for(rng, name, (n_rows, n_outputs))
    weights = rng.uniform(0.0, 3.0, size=n_rows).astype(np.float32) if has_weights else None

    ours = _core.Loss(name, n_outputs, arithmetic=arithmetic(), **options).gradients(
        margins, labels, weights
    )

    stock = stock_gradients(name, options, margins, labels, weights)
    np.testing.assert_array_equal(ours, stock)


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("decimals", [0, 1, 9])
def test_gradient_pairs_of_cox_are_those_of_xgboost(decimals, has_weights):
    """With one group; `decimals` of times make ties, and some at time 0."""
    rng = np.random.default_rng(12)
    n_rows = 600
    margins = rng.uniform(-2, 2, size=(n_rows, 1)).astype(np.float32)
    times = rng.exponential(3.0, size=n_rows).round(decimals)
    labels = np.where(rng.random(n_rows) < 0.6, times, -times).astype(np.float32)[:, None]
    weights = rng.uniform(0.0, 3.0, size=n_rows).astype(np.float32) if has_weights else None

    loss = _core.Loss("survival:cox")
    groups = row_groups(loss, labels, None)
    ours = loss.gradients(margins, labels, weights, groups=groups.begins, order=groups.order)

    stock = stock_gradients("survival:cox", {}, margins, labels, weights)
    np.testing.assert_array_equal(ours, stock)


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_gradient_pairs_of_aft_are_those_of_xgboost(distribution, scale, has_weights):
    """All kinds of intervals, at margins near and far, where XGBoost takes limits."""
    rng = np.random.default_rng(13)
    n_rows = 600
    spread = rng.choice([1.0, 10.0, 100.0], size=n_rows)
    margins = (spread * rng.uniform(-1, 1, size=n_rows)).astype(np.float32)[:, None]
    lower = rng.exponential(3.0, size=n_rows)
    upper = lower + rng.exponential(1.0, size=n_rows)
    kind = rng.integers(0, 4, size=n_rows)  # event, right-, left-censored, interval
    upper = np.select([kind == 0, kind == 1], [lower, np.inf], upper)
    lower[kind == 2] = 0.0
    labels = np.stack([lower, upper], axis=1).astype(np.float32)
    weights = rng.uniform(0.0, 3.0, size=n_rows).astype(np.float32) if has_weights else None
    options = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": scale}

    ours = _core.Loss("survival:aft", **options).gradients(margins, labels, weights)

    stock = stock_gradients("survival:aft", options, margins, labels, weights)
    np.testing.assert_array_equal(ours, stock)


until_3_3 = pytest.mark.skipif(version() >= (3, 4), reason="XGBoost 3.4 refits no leaves")


@until_3_3
@pytest.mark.parametrize("learning_rate", [1.0, 0.3])
@pytest.mark.parametrize("n_parallel", N_PARALLEL)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("weighting", ["none", "any", "zeros"])
def test_refitted_leaves_are_those_of_absolute_error(
    weighting, n_outputs, n_parallel, learning_rate
):
    rng = np.random.default_rng(23)
    n_rows, n_rounds = 901, 10
    X = rng.normal(size=(n_rows, 4))
    labels = (X[:, :n_outputs] + rng.standard_cauchy(size=(n_rows, n_outputs))).astype(np.float32)
    base = rng.normal(size=(n_rows, n_outputs)).astype(np.float32)
    weights = {
        "none": None,
        "any": rng.uniform(0.1, 2.0, size=n_rows),
        "zeros": rng.integers(0, 3, size=n_rows),  # equal weights meet half of the sum exactly
    }[weighting]
    weights = None if weights is None else weights.astype(np.float32)
    data = xgb.DMatrix(X, labels, weight=weights, base_margin=base)
    params = {
        "objective": "reg:absoluteerror", "max_depth": 3, "learning_rate": learning_rate,
        "num_parallel_tree": n_parallel, "colsample_bynode": 0.6, "seed": 4, "nthread": 1,
    }  # fmt: skip
    booster = xgb.train(params, data, n_rounds)
    trees, outputs = trees_of(booster)
    leaves = booster.predict(data, pred_leaf=True).astype(np.int32).reshape(n_rows, -1)
    loss = _core.Loss("reg:absoluteerror", n_outputs)
    rate = np.float32(learning_rate) / np.float32(n_parallel)  # XGBoost averages parallel trees

    assert len(trees) == n_rounds * n_outputs * n_parallel
    for tree_number, (tree, output) in enumerate(zip(trees, outputs, strict=True)):
        n_rounds_before = tree_number // (n_outputs * n_parallel)
        margins = base
        if n_rounds_before > 0:
            margins = booster.predict(
                data, output_margin=True, iteration_range=(0, n_rounds_before)
            )
        n_nodes = len(tree["left_children"])
        is_leaf = np.array(tree["left_children"]) == -1
        refitted = loss.refit_leaf_values(
            np.zeros(n_nodes, dtype=np.float32), leaves[:, tree_number].copy(),
            margins.reshape(n_rows, n_outputs), labels, weights,
            output=output, learning_rate=rate, n_threads=2,
        )  # fmt: skip
        stock = np.float32(tree["split_conditions"])
        np.testing.assert_array_equal(refitted[is_leaf], stock[is_leaf])
        assert is_leaf.sum() > 1


@until_3_3
def test_weights_of_a_leaf_are_added_in_float_and_in_the_order_of_the_rows():
    # In float 2²⁴ + 1 is 2²⁴, so that the ones get lost, label 1 has less than half of the weight,
    # and the median is 2. Added in double, or from the last row on, label 1 has half and is it.
    labels = np.array([1] * 21 + [2], dtype=np.float32)
    weights = np.array([2**24] + [1] * 20 + [2**24 + 20], dtype=np.float32)
    base = np.zeros(22, dtype=np.float32)
    data = xgb.DMatrix(np.zeros((22, 1)), labels, weight=weights, base_margin=base)
    params = {"objective": "reg:absoluteerror", "learning_rate": 1.0, "nthread": 1}
    (root,), _ = trees_of(xgb.train(params, data, 1))
    refitted = _core.Loss("reg:absoluteerror").refit_leaf_values(
        base[:1], np.zeros(22, dtype=np.int32), base, labels, weights, learning_rate=1.0
    )
    np.testing.assert_array_equal(refitted, np.float32(root["split_conditions"]))
    np.testing.assert_array_equal(refitted, [2])
