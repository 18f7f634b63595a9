# SPDX-License-Identifier: Apache-2.0
"""LightGBM's losses against their definitions in NumPy float64, and the rules every loss keeps.

Bits are compared with LightGBM's in tests/parity/test_lightgbm_gradients.py; what the losses share
with XGBoost's (messages, arrays) is tested in test_losses.py.
"""

import numpy as np
import pytest

from mtboost import _core
from mtboost.errors import UnsupportedError
from mtboost.trees.losses import is_classification, make_lightgbm_loss

ALPHA, FAIR_C, STEP, POWER, SIGMOID = 0.7, 0.6, 0.2, 1.23, 1.7


def naive_huber(margin, label):
    z = np.abs(margin - label)
    return np.where(z <= ALPHA, z**2 / 2, ALPHA * (z - ALPHA / 2))


def naive_fair(margin, label):
    z = np.abs(margin - label) / FAIR_C
    return FAIR_C**2 * (z - np.log1p(z))


def naive_tweedie(margin, label):
    mean = np.exp(margin)
    return mean ** (2 - POWER) / (2 - POWER) - label * mean ** (1 - POWER) / (1 - POWER)


# name: options, loss of one row, range of labels, hessian as a multiple of the second derivative
# (None where it is the weight)
DEFINITIONS = {
    "regression": ({}, lambda m, y: (m - y) ** 2 / 2, (-3, 3), 1.0),
    "huber": ({"alpha": ALPHA}, naive_huber, (-3, 3), None),
    "fair": ({"fair_c": FAIR_C}, naive_fair, (-3, 3), 1.0),
    "poisson": (
        {"poisson_max_delta_step": STEP},
        lambda m, y: np.exp(m) - y * m,
        (0, 4),
        np.exp(STEP),
    ),
    "gamma": ({}, lambda m, y: y * np.exp(-m) + m, (0.2, 4), 1.0),
    "tweedie": ({"tweedie_variance_power": POWER}, naive_tweedie, (0, 4), 1.0),
    "cross_entropy": ({}, lambda m, y: np.logaddexp(0.0, m) - y * m, (0, 1), 1.0),
    "regression_l1": ({}, lambda m, y: np.abs(m - y), (-3, 3), None),
    "quantile": (
        {"alpha": ALPHA},
        lambda m, y: np.maximum((1 - ALPHA) * (m - y), -ALPHA * (m - y)),
        (-3, 3),
        None,
    ),
    "mape": ({}, lambda m, y: np.abs(m - y) / np.maximum(1, np.abs(y)), (-3, 3), None),
}
PERCENTILES = ("regression_l1", "quantile", "mape")
CLASSES = {"binary": 1, "multiclass": 3, "multiclassova": 3}  # n_outputs
ALL = [(name, 1) for name in DEFINITIONS] + list(CLASSES.items())
each_loss = pytest.mark.parametrize(("name", "n_outputs"), ALL)


def float32(*values):
    return np.array(values, dtype=np.float32)


def make_rows(name, n_outputs, n_rows, seed=0):
    """Margins, and labels in the loss's domain."""
    rng = np.random.default_rng(seed)
    margins = rng.uniform(-3, 3, size=(n_rows, n_outputs))
    if name in CLASSES:
        return margins, rng.integers(0, max(2, n_outputs), size=n_rows).astype(np.float32)
    return margins, rng.uniform(*DEFINITIONS[name][2], size=n_rows).astype(np.float32)


def derivatives(loss_of_margin, margins):
    """Central differences of a float64 function.

    Away from kinks the losses and their first four derivatives stay below 1e2 here. So, with steps
    of 1e-3, the formulas are off by less than 1e-6 · 1e2 / 6, and rounding adds 4 · 1e-16 · 1e2 /
    1e-6 at most: 5e-5 bounds the sum.
    """
    step = 1e-3
    below, at, above = (loss_of_margin(margins + shift) for shift in (-step, 0.0, step))
    return (above - below) / (2 * step), (above - 2 * at + below) / step**2


@pytest.mark.parametrize("name", DEFINITIONS)
def test_gradient_and_hessian_are_the_derivatives_of_the_loss(name):
    options, loss_of_row, _, hessian_factor = DEFINITIONS[name]
    margins, labels = make_rows(name, 1, n_rows=500)
    margins = margins[:, 0]
    difference = np.abs(margins - labels)
    is_smooth = (difference > 2e-3) & (np.abs(difference - ALPHA) > 2e-3)
    margins, labels = margins[is_smooth], labels[is_smooth]
    slope, curvature = derivatives(lambda m: loss_of_row(m, labels.astype(np.float64)), margins)

    pairs = _core.LightgbmLoss(name, **options).gradients(margins, labels)

    np.testing.assert_allclose(pairs[:, 0, 0], slope, atol=5e-5)
    if hessian_factor is None:
        assert (pairs[:, 0, 1] == 1).all()
    else:
        np.testing.assert_allclose(pairs[:, 0, 1], curvature * hessian_factor, atol=7e-5)


@pytest.mark.parametrize(("name", "n_outputs"), [("binary", 1), ("multiclassova", 3)])
def test_logistic_losses_tell_one_class_from_all_others(name, n_outputs):
    margins, labels = make_rows(name, n_outputs, n_rows=500)
    pairs = _core.LightgbmLoss(name, n_outputs, sigmoid=SIGMOID).gradients(margins, labels)
    for output in range(n_outputs):
        sign = np.where(labels == (1 if name == "binary" else output), 1, -1)
        slope, curvature = derivatives(
            lambda m, sign=sign: np.logaddexp(0.0, -sign * SIGMOID * m), margins[:, output]
        )
        np.testing.assert_allclose(pairs[:, output, 0], slope, atol=5e-5)
        np.testing.assert_allclose(pairs[:, output, 1], curvature, atol=5e-5)


def test_softmax_hessian_is_the_second_derivative_times_k_over_k_minus_1():
    n_classes = 3
    margins, labels = make_rows("multiclass", n_classes, n_rows=300)
    classes = labels.astype(int)

    def cross_entropy(shifted):
        return np.logaddexp.reduce(shifted, axis=1) - shifted[np.arange(len(classes)), classes]

    pairs = _core.LightgbmLoss("multiclass", n_classes).gradients(margins, labels)
    for k in range(n_classes):
        along_k = np.eye(n_classes)[k]
        slope, curvature = derivatives(
            lambda shift, along_k=along_k: cross_entropy(margins + shift * along_k), 0.0
        )
        np.testing.assert_allclose(pairs[:, k, 0], slope, atol=5e-5)
        np.testing.assert_allclose(pairs[:, k, 1], 3 / 2 * curvature, atol=8e-5)  # 1.5 · 5e-5


def test_is_unbalance_gives_the_rarer_side_the_weight_of_the_other():
    labels = float32(0, 0, 0, 1)
    margins = np.zeros(4)
    for flipped in (labels, 1 - labels):
        pairs = _core.LightgbmLoss("binary", is_unbalance=True).gradients(margins, flipped)
        rarer = 1 if flipped is labels else 0
        np.testing.assert_array_equal(
            pairs[:, 0, 1], np.where(flipped == rarer, 3, 1) / np.float32(4)
        )


# Rules of every loss


@each_loss
def test_pairs_are_proportional_to_the_weight(name, n_outputs):
    margins, labels = make_rows(name, n_outputs, n_rows=100)
    loss = _core.LightgbmLoss(name, n_outputs)
    weights = np.full(100, 4, dtype=np.float32)  # a power of two: products are exact
    np.testing.assert_array_equal(
        loss.gradients(margins, labels, weights), 4 * loss.gradients(margins, labels)
    )
    assert (loss.gradients(margins, labels, np.zeros(100, np.float32)) == 0).all()


@each_loss
def test_bits_do_not_depend_on_the_number_of_threads(name, n_outputs):
    margins, labels = make_rows(name, n_outputs, n_rows=20_000)
    loss = _core.LightgbmLoss(name, n_outputs)
    one = loss.gradients(margins, labels)
    for n_threads in (2, 7):
        np.testing.assert_array_equal(loss.gradients(margins, labels, n_threads=n_threads), one)


@each_loss
def test_no_rows_give_no_pairs(name, n_outputs):
    margins, labels = make_rows(name, n_outputs, n_rows=0)
    loss = _core.LightgbmLoss(name, n_outputs)
    loss.check_labels(labels)
    assert loss.gradients(margins, labels).shape == (0, n_outputs, 2)


@pytest.mark.parametrize(
    ("name", "good", "bad", "domain"),
    [
        ("regression", [-1e30, 0], [np.nan, np.inf], "finite labels"),
        ("quantile", [-1e30, 0], [np.nan, -np.inf], "finite labels"),
        ("poisson", [0, 0.5, 7], [np.nan, np.inf, -0.1], "labels that are 0 or positive"),
        ("gamma", [0, 0.5, 7], [np.nan, np.inf, -0.1], "labels that are 0 or positive"),
        ("tweedie", [0, 0.5, 7], [np.nan, np.inf, -0.1], "labels that are 0 or positive"),
        ("cross_entropy", [0, 0.5, 1], [np.nan, -0.1, 1.1], "labels from 0 to 1"),
        ("binary", [0, 1], [np.nan, -1, 0.5, 2], "labels that are classes, 0 to 1"),
        ("multiclass", [0, 1, 2], [np.nan, -1, 0.5, 3], "labels that are classes, 0 to 2"),
        ("multiclassova", [0, 1, 2], [np.nan, -1, 0.5, 3], "labels that are classes, 0 to 2"),
    ],
)
def test_labels_outside_the_domain_are_refused_and_labels_at_its_edge_are_not(
    name, good, bad, domain
):
    loss = _core.LightgbmLoss(name, CLASSES.get(name, 1))
    loss.check_labels(float32(*good))
    for label in bad:
        with pytest.raises(ValueError, match=f"^{name} needs {domain}, but 1 label is not: row 1 "):
            loss.check_labels(float32(good[0], label, good[-1]))


def test_a_gradient_beyond_float_is_named_and_the_start_score_by_lightgbms_word():
    margins = np.array([0.0, 89.0])  # exp(88.73) is beyond float
    with pytest.raises(
        RuntimeError, match=r"poisson is not finite at row 1 \(margin 89.*init_score"
    ):
        _core.LightgbmLoss("poisson").gradients(margins, float32(1, 1))


# Leaf values after a tree


def refit(name, labels, weights=None, *, margins=None, learning_rate=1.0, **options):
    """Value of a leaf that holds all rows."""
    labels = np.asarray(labels, np.float32)
    return _core.LightgbmLoss(name, **options).refit_leaf_values(
        np.zeros(1), np.zeros(len(labels), np.int32),
        np.zeros(len(labels)) if margins is None else margins, labels,
        None if weights is None else np.asarray(weights, np.float32),
        learning_rate=learning_rate,
    )[0]  # fmt: skip


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 8, 101])
def test_an_unweighted_leaf_takes_numpys_quantile_of_the_residuals(n_rows, alpha):
    rng = np.random.default_rng(n_rows)
    labels = rng.normal(size=n_rows).astype(np.float32)
    margins = rng.normal(size=n_rows)
    value = refit("quantile", labels, margins=margins, learning_rate=0.25, alpha=alpha)
    # positions and steps between residuals of a few units are rounded to 2**-52 of them
    expected = np.quantile(labels - margins, np.float64(np.float32(alpha))) / 4
    np.testing.assert_allclose(value, expected, atol=1e-13)


def test_the_leaf_of_absolute_error_is_the_median():
    assert refit("regression_l1", [5, 1, 3, 2]) == 2.5


def test_a_weighted_leaf_is_interpolated_where_the_weight_between_two_rows_is_one_or_more():
    # Half of the weight is reached 3/4 of the way through the second row.
    assert refit("regression_l1", [10, 20, 30], [1, 2, 2]) == 10 + 10 * 1.5 / 2
    # LightGBM 4.5 and 4.6 measured from the second row on, through the third
    old = refit("regression_l1", [10, 20, 30], [1, 2, 2], arithmetic="lightgbm-4.5")
    assert old == 10 + 10 * -0.5 / 2
    light = [0.5, 0.75, 0.5]
    assert refit("regression_l1", [10, 20, 30], light) == 10
    assert refit("regression_l1", [10, 20, 30], light, arithmetic="lightgbm-4.5") == 20


def test_the_leaf_of_mape_weighs_rows_by_the_size_of_their_labels():
    assert refit("mape", [1, 10, 10]) == 1
    assert refit("regression_l1", [1, 10, 10]) == 10


def test_rows_that_took_no_part_do_not_move_a_leaf_but_rows_of_weight_zero_do():
    leaves = np.array([1, 1, 1, -1, -2], np.int32)
    labels = float32(1, 2, 3, 100, 100)
    loss = _core.LightgbmLoss("regression_l1")
    values = loss.refit_leaf_values(
        np.array([10.0, 11.0, 12.0]), leaves, np.zeros(5), labels, learning_rate=1
    )
    np.testing.assert_array_equal(values, [10, 2, 12])
    assert refit("regression_l1", [1, 2], [0, 0]) == 2


def test_a_value_that_a_tree_of_lightgbm_cannot_hold_is_zero():
    assert refit("regression_l1", [9e-36], learning_rate=0.5) == 0
    assert refit("regression_l1", [2e-35], learning_rate=0.25) == 0
    assert refit("regression_l1", [9e-36], learning_rate=10.0) == 0
    assert refit("regression_l1", [4e-35], learning_rate=0.5) > 0


@each_loss
def test_only_percentile_losses_refit_leaves(name, n_outputs):
    loss = _core.LightgbmLoss(name, n_outputs)
    margins, labels = make_rows(name, n_outputs, n_rows=20)
    values = loss.refit_leaf_values(
        np.array([9.0, 10.0]), np.ones(20, np.int32), margins, labels, learning_rate=1
    )
    assert loss.refits_leaves == (values[1] != 10) == (name in PERCENTILES)
    assert values[0] == 9


# Names and parameters


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'regresion'; known are regression, .*multiclassova"):
        _core.LightgbmLoss("regresion", 3)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("huber", "alpha", 0),
        ("quantile", "alpha", 1),
        ("quantile", "alpha", 1e-60),  # 0 as a float
        ("fair", "fair_c", 0),
        ("poisson", "poisson_max_delta_step", 0),
        ("tweedie", "tweedie_variance_power", 2),
        ("tweedie", "tweedie_variance_power", 0.9),
        ("binary", "sigmoid", 0),
        ("binary", "scale_pos_weight", 0),
        ("binary", "scale_pos_weight", np.nan),
        ("binary", "n_outputs", 2),
        ("regression", "n_outputs", 2),
        ("quantile", "n_outputs", 0),
        ("multiclass", "n_outputs", 1),
        ("multiclassova", "n_outputs", 1),
        ("regression", "arithmetic", "xgboost-3.0"),
    ],
)
def test_a_parameter_outside_its_range_is_named(name, option, value):
    with pytest.raises(ValueError, match=option):
        _core.LightgbmLoss(name, **{option: value})


def test_two_ways_to_weigh_classes_exclude_each_other():
    with pytest.raises(ValueError, match="is_unbalance and scale_pos_weight"):
        _core.LightgbmLoss("binary", is_unbalance=True, scale_pos_weight=2)


@pytest.mark.parametrize("objective", ["lambdarank", "cross_entropy_lambda", "no_such"])
def test_an_objective_without_gradients_in_the_core_is_unsupported(objective):
    with pytest.raises(UnsupportedError, match=objective):
        make_lightgbm_loss(objective)


def test_square_roots_of_labels_are_unsupported():
    make_lightgbm_loss("regression", reg_sqrt=False)
    with pytest.raises(UnsupportedError, match="reg_sqrt"):
        make_lightgbm_loss("regression", reg_sqrt=True)


@pytest.mark.parametrize(
    ("objective", "expected"),
    [("binary", True), ("softmax", True), ("ova", True), ("xentropy", False), ("l2", False)],
)
def test_labels_of_classifiers_are_classes(objective, expected):
    assert is_classification(objective) == expected
