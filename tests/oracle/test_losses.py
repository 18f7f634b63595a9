# SPDX-License-Identifier: Apache-2.0
"""Losses of both libraries against their definitions in NumPy float64, and rules every loss keeps.

Names decide whose loss it is: those of XGBoost contain a colon. Bits are compared with LightGBM's
in tests/parity/test_lightgbm_gradients.py, with XGBoost's in test_xgboost_gradients.py.
"""

import numpy as np
import pytest

from mtboost import _core
from mtboost.errors import UnsupportedError
from mtboost.trees.losses import is_classification, make_lightgbm_loss

SLOPE, STEP, POWER = 0.3, 0.2, 1.23  # XGBoost's and LightGBM's
LEAST = np.finfo(np.float32).tiny  # hessian of binary:hinge beyond the hinge
ALPHA, FAIR_C, SIGMOID = 0.7, 0.6, 1.7  # LightGBM's


def naive_squared(margin, label):
    return (margin - label) ** 2 / 2


def naive_logistic(margin, label):
    return np.logaddexp(0.0, margin) - label * margin


def naive_pseudo_huber(margin, label):
    return SLOPE**2 * (np.sqrt(1 + ((margin - label) / SLOPE) ** 2) - 1)


def naive_huber(margin, label):
    z = np.abs(margin - label)
    return np.where(z <= ALPHA, z**2 / 2, ALPHA * (z - ALPHA / 2))


def naive_fair(margin, label):
    z = np.abs(margin - label) / FAIR_C
    return FAIR_C**2 * (z - np.log1p(z))


def naive_poisson(margin, label):
    return np.exp(margin) - label * margin


def naive_gamma(margin, label):
    return label * np.exp(-margin) + margin


def naive_tweedie(margin, label):
    mean = np.exp(margin)
    return mean ** (2 - POWER) / (2 - POWER) - label * mean ** (1 - POWER) / (1 - POWER)


def naive_absolute(margin, label):
    return np.abs(margin - label)


def naive_quantile(margin, label):
    return np.maximum((1 - ALPHA) * (margin - label), -ALPHA * (margin - label))


def naive_mape(margin, label):
    return np.abs(margin - label) / np.maximum(1, np.abs(label))


# name: options, loss of one row, range of labels, hessian as a multiple of the second derivative
# (None where it is the weight)
DEFINITIONS = {
    "reg:squarederror": ({}, naive_squared, (-3, 3), 1.0),
    "reg:pseudohubererror": ({"huber_slope": SLOPE}, naive_pseudo_huber, (-3, 3), 1.0),
    "binary:logistic": ({}, naive_logistic, (0, 1), 1.0),
    "reg:logistic": ({}, naive_logistic, (0, 1), 1.0),
    "binary:logitraw": ({}, naive_logistic, (0, 1), 1.0),
    "count:poisson": ({"max_delta_step": STEP}, naive_poisson, (0, 4), np.exp(STEP)),
    "reg:gamma": ({}, naive_gamma, (0.2, 4), 1.0),
    "reg:tweedie": ({"tweedie_variance_power": POWER}, naive_tweedie, (0, 4), 1.0),
    "regression": ({}, naive_squared, (-3, 3), 1.0),
    "huber": ({"alpha": ALPHA}, naive_huber, (-3, 3), None),
    "fair": ({"fair_c": FAIR_C}, naive_fair, (-3, 3), 1.0),
    "poisson": ({"poisson_max_delta_step": STEP}, naive_poisson, (0, 4), np.exp(STEP)),
    "gamma": ({}, naive_gamma, (0.2, 4), 1.0),
    "tweedie": ({"tweedie_variance_power": POWER}, naive_tweedie, (0, 4), 1.0),
    "cross_entropy": ({}, naive_logistic, (0, 1), 1.0),
    "regression_l1": ({}, naive_absolute, (-3, 3), None),
    "quantile": ({"alpha": ALPHA}, naive_quantile, (-3, 3), None),
    "mape": ({}, naive_mape, (-3, 3), None),
    "reg:quantileerror": ({"quantile_alpha": [ALPHA]}, naive_quantile, (-3, 3), None),
}
CLASSES = {  # n_outputs
    "binary:hinge": 1, "multi:softprob": 3, "multi:softmax": 3,
    "binary": 1, "multiclass": 3, "multiclassova": 3,
}  # fmt: skip
REFITTED = ("reg:absoluteerror", "reg:quantileerror", "regression_l1", "quantile", "mape")
UNUSUAL = ("reg:absoluteerror", "reg:squaredlogerror")
ALL = {name: CLASSES.get(name, 1) for name in [*DEFINITIONS, *UNUSUAL, *CLASSES]}
each_loss = pytest.mark.parametrize(("name", "n_outputs"), ALL.items())


def is_xgboost(name):
    return ":" in name


def loss_of(name, n_outputs=1, **options):
    kind = _core.Loss if is_xgboost(name) else _core.LightgbmLoss
    return kind(name, n_outputs, **options)


def float32(*values):
    return np.array(values, dtype=np.float32)


def make_rows(name, n_outputs, n_rows, seed=0):
    """Margins, float32 for XGBoost, and labels in the loss's domain."""
    rng = np.random.default_rng(seed)
    margins = rng.uniform(-3, 3, size=(n_rows, n_outputs))
    margins = margins.astype(np.float32 if is_xgboost(name) else np.float64)
    if name in CLASSES:
        return margins, rng.integers(0, max(2, n_outputs), size=n_rows).astype(np.float32)
    low, high = DEFINITIONS[name][2] if name in DEFINITIONS else (-0.9, 3)
    return margins, rng.uniform(low, high, size=(n_rows, n_outputs)).astype(np.float32)


def derivatives(loss_of_margin, margins):
    """Central differences of a float64 function.

    Away from kinks the losses and their first four derivatives stay below 1e2 here. So, with steps
    of 1e-3, the formulas are off by less than 1e-6 · 1e2 / 6, and rounding adds 4 · 1e-16 · 1e2 /
    1e-6 at most: 5e-5 bounds the sum. The float32 kernels add a few units of 6e-8, relative.
    """
    step = 1e-3
    below, at, above = (loss_of_margin(margins + shift) for shift in (-step, 0.0, step))
    return (above - below) / (2 * step), (above - 2 * at + below) / step**2


@pytest.mark.parametrize("name", DEFINITIONS)
def test_gradient_and_hessian_are_the_derivatives_of_the_loss(name):
    options, loss_of_row, _, hessian_factor = DEFINITIONS[name]
    margins, labels = (rows[:, 0] for rows in make_rows(name, 1, n_rows=500))
    difference = np.abs(margins - labels)
    is_smooth = (difference > 2e-3) & (np.abs(difference - ALPHA) > 2e-3)  # kinks of LightGBM's
    margins, labels = margins[is_smooth], labels[is_smooth]
    slope, curvature = derivatives(
        lambda m: loss_of_row(m, labels.astype(np.float64)), margins.astype(np.float64)
    )

    gradient, hessian = loss_of(name, **options).gradients(margins, labels)[:, 0].T

    np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=5e-5)
    if hessian_factor is None:
        assert (hessian == 1).all()
    else:
        np.testing.assert_allclose(hessian, curvature * hessian_factor, rtol=1e-5, atol=5e-5)


def test_squared_log_error_has_a_positive_hessian_and_a_least_margin():
    margins, labels = (rows[:, 0] for rows in make_rows("reg:squaredlogerror", 1, n_rows=500))
    loss = loss_of("reg:squaredlogerror")
    is_inside = margins > -0.9
    margins, labels = margins[is_inside], labels[is_inside]
    slope, curvature = derivatives(
        lambda m: (np.log1p(m) - np.log1p(labels.astype(np.float64))) ** 2 / 2,
        margins.astype(np.float64),
    )
    gradient, hessian = loss.gradients(margins, labels)[:, 0].T
    np.testing.assert_allclose(gradient, slope, rtol=2e-2, atol=2e-4)
    assert 0.1 < (curvature < 0).mean() < 0.9
    np.testing.assert_allclose(hessian, np.maximum(curvature, 1e-6), rtol=2e-2, atol=2e-3)

    below = loss.gradients(float32(-1, -7, -np.inf), float32(2, 2, 2))
    np.testing.assert_array_equal(
        below, loss.gradients(float32(*3 * [-1 + 1e-6]), float32(2, 2, 2))
    )


def test_hinge_has_one_slope_up_to_the_hinge():
    margins = float32(-2, 0, 0.5, 1, 3, -3, -1, -0.5, 0, 2)
    labels = float32(1, 1, 1, 1, 1, 0, 0, 0, 0, 0)
    weights = np.arange(1, 11, dtype=np.float32)
    gradient, hessian = loss_of("binary:hinge").gradients(margins, labels, weights)[:, 0].T
    np.testing.assert_array_equal(gradient, [-1, -2, -3, 0, 0, 0, 0, 8, 9, 10])
    np.testing.assert_array_equal(hessian, [1, 2, 3, *4 * [LEAST], 8, 9, 10])


@pytest.mark.parametrize(("name", "factor"), [("multi:softprob", 2), ("multiclass", 3 / 2)])
def test_softmax_hessian_is_a_multiple_of_the_second_derivative(name, factor):
    """Twice that of XGBoost's, k / (k - 1) times that of LightGBM's."""
    n_classes = 3
    margins, labels = make_rows(name, n_classes, n_rows=300)
    classes = labels.astype(int)

    def cross_entropy(shifted):
        return np.logaddexp.reduce(shifted, axis=1) - shifted[np.arange(len(classes)), classes]

    pairs = loss_of(name, n_classes).gradients(margins, labels)
    for k in range(n_classes):
        along_k = np.eye(n_classes)[k]
        slope, curvature = derivatives(
            lambda shift, along_k=along_k: cross_entropy(margins + shift * along_k), 0.0
        )
        np.testing.assert_allclose(pairs[:, k, 0], slope, atol=5e-5)
        np.testing.assert_allclose(pairs[:, k, 1], factor * curvature, atol=factor * 5e-5)


# XGBoost's


def smooth_absolute_error(margins, labels, weights):
    """XGBoost 3.4's pairs from the definition, in float64."""
    residuals = (margins - labels).astype(np.float64)
    scale = np.average(np.sqrt(np.abs(residuals)), axis=0, weights=weights) ** 2
    curvature = scale / np.sqrt(scale**2 + residuals**2)
    return weights[:, None, None] * np.stack([curvature * residuals, curvature], axis=-1)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [1, 20, 10_000])
def test_smooth_absolute_error_takes_its_scale_from_all_rows(n_rows, n_outputs):
    rng = np.random.default_rng(n_rows)
    margins, labels = rng.standard_cauchy((2, n_rows, n_outputs)).astype(np.float32)
    weights = rng.uniform(0.1, 2.0, size=n_rows).astype(np.float32)
    loss = _core.Loss("reg:absoluteerror", n_outputs, arithmetic="xgboost-3.4")
    for given in (None, weights):
        pairs = loss.gradients(margins, labels, given)
        used = np.ones(n_rows) if given is None else given
        np.testing.assert_allclose(pairs, smooth_absolute_error(margins, labels, used), rtol=2e-6)
        for n_threads in (2, 7):
            again = loss.gradients(margins, labels, given, n_threads=n_threads)
            np.testing.assert_array_equal(again, pairs)
    assert not loss.refits_leaves


def test_the_parabolas_of_smooth_absolute_error_lie_above_it():
    # sqrt(scale² + r²) touched at r and evaluated anywhere else.
    rng = np.random.default_rng(5)
    margins, labels = rng.normal(size=(2, 200, 1)).astype(np.float32)
    loss = _core.Loss("reg:absoluteerror", arithmetic="xgboost-3.4")
    slope, curvature = loss.gradients(margins, labels)[:, 0].T.astype(np.float64)
    r = (margins - labels)[:, 0].astype(np.float64)
    scale = np.mean(np.sqrt(np.abs(r))) ** 2
    for step in (-3.0, -0.1, 0.1, 3.0):
        bound = np.hypot(scale, r) + (slope * step + curvature * step**2 / 2) / scale
        assert (np.hypot(scale, r + step) <= bound + 1e-6).all()


def test_smooth_absolute_error_without_residuals_or_weight_is_finite():
    loss = _core.Loss("reg:absoluteerror", arithmetic="xgboost-3.4")
    np.testing.assert_array_equal(loss.gradients(float32(1, 2), float32(1, 2))[:, 0], [[0, 1]] * 2)
    pairs = loss.gradients(float32(1, 2), float32(0, 0), float32(0, 0))
    np.testing.assert_array_equal(pairs, np.zeros((2, 1, 2)))


def smooth_quantiles(margins, labels, weights, levels):
    """XGBoost 3.4's pairs from the definition, in float64."""
    residuals = (margins - labels).astype(np.float64)
    scale = np.average(np.sqrt(np.abs(residuals)), axis=0, weights=weights) ** 2
    x = residuals / (0.04 * scale)
    curvature = np.maximum(np.tanh(x) / x, 3e-4) / 0.08
    slope = scale / 2 * (np.tanh(x) + 1 - 2 * np.array(levels))
    return weights[:, None, None] * np.stack([slope, curvature], axis=-1)


@pytest.mark.parametrize("levels", [[0.9], [0.05, 0.5, 0.5, 0.95]])
@pytest.mark.parametrize("n_rows", [1, 20, 10_000])
def test_smooth_quantiles_take_their_scales_from_all_rows(n_rows, levels):
    rng = np.random.default_rng(n_rows)
    margins = rng.standard_cauchy((n_rows, len(levels))).astype(np.float32)
    labels = rng.standard_cauchy((n_rows, 1)).astype(np.float32)
    weights = rng.uniform(0.1, 2.0, size=n_rows).astype(np.float32)
    options = {"arithmetic": "xgboost-3.4", "quantile_alpha": levels}
    loss = _core.Loss("reg:quantileerror", len(levels), **options)
    for given in (None, weights):
        pairs = loss.gradients(margins, labels, given)
        used = np.ones(n_rows) if given is None else given
        expected = smooth_quantiles(margins, labels, used, levels)
        atol = 1e-6 * np.abs(expected).max()  # of slopes that cancel
        np.testing.assert_allclose(pairs, expected, rtol=2e-5, atol=atol)
        for n_threads in (2, 7):
            again = loss.gradients(margins, labels, given, n_threads=n_threads)
            np.testing.assert_array_equal(again, pairs)
    assert not loss.refits_leaves


def test_smooth_quantiles_without_residuals_or_weight_are_zero():
    loss = _core.Loss("reg:quantileerror", arithmetic="xgboost-3.4", quantile_alpha=[0.9])
    for rows in ((float32(1, 2), float32(1, 2)), (float32(1, 2), float32(0, 0), float32(0, 0))):
        np.testing.assert_array_equal(loss.gradients(*rows), np.zeros((2, 1, 2)))
    # Without a residual, but beside one that gives the scale, the curvature is the largest.
    (_, curvature), (_, other) = loss.gradients(float32(1, 2), float32(1, 3))[:, 0]
    assert curvature == np.float32(0.5) / np.float32(0.04) > other


def test_levels_of_smooth_quantiles_must_ascend():
    with pytest.raises(ValueError, match="quantile_alpha must be ascending since XGBoost 3.4"):
        _core.Loss("reg:quantileerror", 2, arithmetic="xgboost-3.4", quantile_alpha=[0.9, 0.1])


def test_absolute_error_has_the_sign_as_gradient_and_the_weight_as_hessian():
    pairs = _core.Loss("reg:absoluteerror").gradients(
        float32(1, 2, 3), float32(2, 2, 2), float32(1, 5, 0.5)
    )
    np.testing.assert_array_equal(pairs[:, 0], [[-1, 1], [0, 5], [0.5, 0.5]])


@pytest.mark.parametrize("name", ["binary:logistic", "reg:squarederror", "reg:gamma"])
def test_scale_pos_weight_is_a_weight_on_labels_equal_to_one(name):
    margins = np.random.default_rng(1).normal(size=200).astype(np.float32)
    labels = np.tile(float32(1, 0.5), 100)
    np.testing.assert_array_equal(
        _core.Loss(name, scale_pos_weight=2.5).gradients(margins, labels),
        _core.Loss(name).gradients(margins, labels, np.where(labels == 1, 2.5, 1).astype("f4")),
    )


@pytest.mark.parametrize("name", ["binary:logistic", "reg:logistic", "binary:logitraw"])
def test_a_saturated_row_keeps_a_hessian(name):
    margins = float32(-np.inf, -1e4, 1e4, np.inf)
    pairs = _core.Loss(name).gradients(margins, float32(0, 1, 1, 0))
    assert (pairs[..., 1] == np.float32(1e-16)).all()
    # exp(88.7) is the largest that XGBoost asks for: p never falls below 3e-39
    np.testing.assert_allclose(pairs[:, 0, 0], [0, -1, 0, 1], atol=4e-39)


# LightGBM's


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
    loss = loss_of(name, n_outputs)
    weights = np.full(100, 4, dtype=np.float32)  # a power of two: products are exact
    weighted, expected = (
        loss.gradients(margins, labels, weights),
        4 * loss.gradients(margins, labels),
    )
    # Beyond its hinge a row of any weight has the least hessian.
    np.testing.assert_allclose(weighted, expected, rtol=0, atol=3 * LEAST if "hinge" in name else 0)


@each_loss
def test_a_row_of_weight_zero_has_no_gradient(name, n_outputs):
    margins, labels = make_rows(name, n_outputs, n_rows=50)
    pairs = loss_of(name, n_outputs).gradients(margins, labels, np.zeros(50, dtype=np.float32))
    assert (pairs[..., 0] == 0).all()
    least = np.float32(1e-16) if name.startswith("multi:") else 0  # as in XGBoost
    if name == "binary:hinge":
        assert set(pairs[..., 1].flat) == {0, LEAST}
    else:
        assert (pairs[..., 1] == least).all()


ONE_LABEL = (*CLASSES, "reg:quantileerror")  # whatever the number of outputs


@pytest.mark.parametrize(
    "name", [name for name in ALL if is_xgboost(name) and name not in ONE_LABEL]
)
def test_outputs_of_an_elementwise_loss_do_not_see_each_other(name):
    margins, labels = make_rows(name, 4, n_rows=60)
    weights = np.random.default_rng(2).uniform(size=60).astype(np.float32)
    together = loss_of(name, 4).gradients(margins, labels, weights)
    for output in range(4):
        alone = loss_of(name).gradients(
            margins[:, output].copy(), labels[:, output].copy(), weights
        )
        np.testing.assert_array_equal(together[:, [output]], alone)


@each_loss
def test_bits_do_not_depend_on_the_number_of_threads(name, n_outputs):
    margins, labels = make_rows(name, n_outputs, n_rows=20_000)
    loss = loss_of(name, n_outputs)
    one = loss.gradients(margins, labels)
    for n_threads in (2, 7):
        np.testing.assert_array_equal(loss.gradients(margins, labels, n_threads=n_threads), one)
    np.testing.assert_array_equal(loss.gradients(margins[:1], labels[:1]), one[:1])


@each_loss
def test_no_rows_give_no_pairs(name, n_outputs):
    margins, labels = make_rows(name, n_outputs, n_rows=0)
    loss = loss_of(name, n_outputs)
    loss.check_labels(labels)
    assert loss.gradients(margins, labels).shape == (0, n_outputs, 2)
    assert loss.gradients(margins, labels, float32()).shape == (0, n_outputs, 2)


# Labels

FINITE = ([-1e30, 0], [np.nan, np.inf, -np.inf], "finite labels")
SHARES = ([0, 0.5, 1], [np.nan, -0.1, 1.0000001, 2], "labels from 0 to 1")
COUNTS = ([0, 0.5, 7], [np.nan, np.inf, -0.1], "labels that are 0 or positive")
POSITIVE = ([0.5, 7], [np.nan, np.inf, 0, -0.1], "positive labels")
THREE = ([0, 1, 2], [np.nan, -1, 0.5, 3], "labels that are classes, 0 to 2")
DOMAINS = {
    **dict.fromkeys(["reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror"], FINITE),
    **dict.fromkeys(["binary:logistic", "reg:logistic", "binary:logitraw"], SHARES),
    **dict.fromkeys(["count:poisson", "reg:tweedie"], COUNTS),
    "reg:gamma": POSITIVE,
    **dict.fromkeys(["multi:softprob", "multi:softmax"], THREE),
    **dict.fromkeys(["reg:quantileerror", "regression", "quantile"], FINITE),
    **dict.fromkeys(["poisson", "gamma", "tweedie"], COUNTS),
    "cross_entropy": SHARES,
    "reg:squaredlogerror": ([-0.5, 7], [np.nan, np.inf, -1, -3], "labels above -1"),
    **dict.fromkeys(
        ["binary", "binary:hinge"],
        ([0, 1], [np.nan, -1, 0.5, 2], "labels that are classes, 0 to 1"),
    ),
    **dict.fromkeys(["multiclass", "multiclassova"], THREE),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_labels_outside_the_domain_are_refused_and_labels_at_its_edge_are_not(name):
    good, bad, domain = DOMAINS[name]
    loss = loss_of(name, CLASSES.get(name, 1))
    loss.check_labels(float32(*good))
    for label in bad:
        with pytest.raises(ValueError, match=f"^{name} needs {domain}, but 1 label is not: row 1 "):
            loss.check_labels(float32(good[0], label, good[-1]))


def test_the_message_counts_bad_labels_and_shows_the_first():
    loss = _core.Loss("binary:logistic")
    with pytest.raises(ValueError, match=r"2 labels are not, .* row 2 \(value -0.5\)"):
        loss.check_labels(float32(0, 1, -0.5, 3))


def test_the_message_names_the_output_where_there_are_several():
    labels = np.zeros((4, 3), dtype=np.float32)
    labels[2, 1] = 1.5
    with pytest.raises(ValueError, match=r"row 2, output 1 \(value 1.5\)"):
        _core.Loss("binary:logistic", 3).check_labels(labels)


# Gradients that are not finite


@pytest.mark.parametrize(
    ("name", "margin", "label", "weight"),
    [
        ("reg:squarederror", np.nan, 0, 1),
        ("reg:pseudohubererror", np.inf, 0, 1),
        ("reg:squaredlogerror", np.nan, 0, 1),
        ("binary:hinge", np.nan, 0, 1),
        ("binary:logistic", np.nan, 0, 1),
        ("binary:logistic", 0, 1, np.inf),
        ("count:poisson", 89, 1, 1),  # exp(88.73) is beyond float
        ("reg:gamma", -100, 1, 1),
        ("reg:tweedie", 200, 1, 1),
        ("reg:absoluteerror", 0, 1, np.nan),
    ],
)
def test_the_first_row_without_a_finite_gradient_is_named(name, margin, label, weight):
    margins, labels = make_rows(name, 1, n_rows=20_000)
    weights = np.ones(20_000, dtype=np.float32)
    for row in (17_000, 9_001):  # in two blocks: the lower row is named, whichever thread is first
        margins[row], labels[row], weights[row] = margin, label, weight
    with pytest.raises(RuntimeError, match=rf"{name} is not finite at row 9001 \(margin"):
        _core.Loss(name).gradients(margins, labels, weights, n_threads=2)


def test_softmax_fails_loudly_where_all_margins_are_far_below_zero():
    # XGBoost's maximum starts at 0, so that exp underflows for every class.
    margins = np.zeros((3, 2), dtype=np.float32)
    margins[1] = -200
    with pytest.raises(RuntimeError, match=r"row 1, output 0 \(margin -200, label 1"):
        _core.Loss("multi:softprob", 2).gradients(margins, float32(0, 1, 0))


def test_a_gradient_beyond_float_is_named_and_the_start_score_by_lightgbms_word():
    margins = np.array([0.0, 89.0])  # exp(88.73) is beyond float
    with pytest.raises(
        RuntimeError, match=r"poisson is not finite at row 1 \(margin 89.*init_score"
    ):
        _core.LightgbmLoss("poisson").gradients(margins, float32(1, 1))


# Leaf values after a tree


@each_loss
def test_only_losses_without_a_usable_hessian_refit_leaves(name, n_outputs):
    loss = loss_of(name, n_outputs)
    margins, labels = make_rows(name, n_outputs, n_rows=20)
    values = loss.refit_leaf_values(
        np.array([9, 10], margins.dtype), np.ones(20, np.int32), margins, labels, learning_rate=1
    )
    assert loss.refits_leaves == (values[1] != 10) == (name in REFITTED)
    assert values[0] == 9


def residual_loss(residuals, weights, value):
    return np.sum(weights * np.abs(residuals - value))


@pytest.mark.parametrize("n_rows", [1, 2, 3, 8, 9])
def test_an_unweighted_leaf_takes_the_median_residual(n_rows):
    # Eighths, so that differences and halves of them are exact.
    residuals = np.random.default_rng(n_rows).integers(-40, 40, size=n_rows).astype(np.float32) / 8
    margins = np.full(n_rows, 0.5, dtype=np.float32)
    values = _core.Loss("reg:absoluteerror").refit_leaf_values(
        float32(7), np.zeros(n_rows, dtype=np.int32), margins, residuals + margins,
        learning_rate=0.25,
    )  # fmt: skip
    np.testing.assert_array_equal(values, [np.median(residuals) * 0.25])


def test_a_weighted_leaf_takes_the_first_residual_that_reaches_half_the_weight():
    def refit(*weights):
        return _core.Loss("reg:absoluteerror").refit_leaf_values(
            float32(0), np.zeros(3, dtype=np.int32), float32(0, 0, 0), float32(30, 10, 20),
            float32(*weights), learning_rate=1,
        )[0]  # fmt: skip

    assert refit(1, 1, 1) == 20
    assert refit(1, 1.5, 1) == 20
    assert refit(1, 2, 1) == 10  # half is reached exactly: no interpolation
    assert refit(9, 1, 1) == 30
    assert refit(1, 0, 0) == 30


def test_no_other_leaf_value_has_a_smaller_absolute_error():
    rng = np.random.default_rng(3)
    n_rows, n_nodes = 5000, 31
    margins, labels = (rng.normal(size=n_rows).astype(np.float32) for _ in range(2))
    weights = rng.uniform(size=n_rows).astype(np.float32)
    leaves = rng.integers(0, n_nodes, size=n_rows).astype(np.int32)
    loss = _core.Loss("reg:absoluteerror")
    for given in (None, weights):
        arguments = (np.zeros(n_nodes, dtype=np.float32), leaves, margins, labels, given)
        values = loss.refit_leaf_values(*arguments, learning_rate=1)
        for node in range(n_nodes):
            residuals = (labels - margins)[leaves == node].astype(np.float64)
            row_weights = np.ones_like(residuals) if given is None else weights[leaves == node]
            best = min(residual_loss(residuals, row_weights, value) for value in residuals)
            # The median of an even number of rows is rounded to float: the loss moves by 6e-8.
            assert residual_loss(residuals, row_weights, values[node]) <= best * (1 + 1e-6)
        for n_threads in (2, 7):
            again = loss.refit_leaf_values(*arguments, learning_rate=1, n_threads=n_threads)
            np.testing.assert_array_equal(again, values)


LEVELS = [0.0, 0.1, 0.5, 0.8, 0.97, 1.0]


@pytest.mark.parametrize("n_rows", [1, 2, 3, 8, 9, 100])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_leaf_takes_the_percentile_of_each_level(n_rows, weighted):
    # Eighths and sixteenths, whose sums are exact. Without weights XGBoost interpolates as Weibull
    # does; with weights it takes the first residual that reaches the level.
    rng = np.random.default_rng(n_rows)
    labels = rng.integers(-40, 40, size=n_rows).astype(np.float32) / 8
    margins = np.full((n_rows, len(LEVELS)), 0.5, np.float32)
    weights = rng.integers(1, 30, size=n_rows).astype(np.float32) / 16 if weighted else None
    loss = _core.Loss("reg:quantileerror", len(LEVELS), quantile_alpha=LEVELS)
    for output, level in enumerate(LEVELS):
        (value,) = loss.refit_leaf_values(
            float32(7), np.zeros(n_rows, np.int32), margins, labels, weights,
            output=output, learning_rate=0.5,
        )  # fmt: skip
        how = {"method": "inverted_cdf", "weights": weights} if weighted else {"method": "weibull"}
        residuals = labels.astype(np.float64) - 0.5
        expected = np.quantile(residuals, np.float64(np.float32(level)), **how)
        assert value == pytest.approx(0.5 * expected, rel=1e-6)


def test_levels_are_outputs_of_one_label():
    margins, labels = np.zeros((2, 2), np.float32), float32(1, -1)
    pairs = _core.Loss("reg:quantileerror", 2, quantile_alpha=[0.25, 0.75]).gradients(
        margins, labels, float32(1, 2)
    )
    expected = [[[-0.25, 1], [-0.75, 1]], [[2 * 0.75, 2], [2 * 0.25, 2]]]
    np.testing.assert_array_equal(pairs, expected)


@pytest.mark.parametrize(
    ("n_outputs", "levels", "message"),
    [
        (2, [0.5], "one level of quantile_alpha per output, found 1 for 2"),
        (1, [1.5], "quantile_alpha must lie between 0 and 1"),
        (1, [np.nan], "quantile_alpha must lie between 0 and 1"),
    ],
)
def test_wrong_levels_are_refused(n_outputs, levels, message):
    with pytest.raises(ValueError, match=message):
        _core.Loss("reg:quantileerror", n_outputs, quantile_alpha=levels)


def test_rows_that_took_no_part_do_not_move_a_leaf():
    # Sampled out (negative leaf) and of weight 0; node 2 has no other rows and keeps its value.
    leaves = np.array([1, 1, 1, -1, -2, 1, 2, -1], dtype=np.int32)
    labels = float32(1, 2, 3, 100, 100, 100, 100, 100)
    weights = float32(1, 1, 1, 1, 1, 0, 0, 1)
    values = _core.Loss("reg:absoluteerror").refit_leaf_values(
        float32(10, 11, 12), leaves, np.zeros(8, dtype=np.float32), labels, weights,
        learning_rate=1,
    )  # fmt: skip
    np.testing.assert_array_equal(values, [10, 2, 12])


def test_each_output_is_refitted_from_its_own_residuals():
    labels = np.array([[1, 40], [2, 50], [3, 60]], dtype=np.float32)
    loss = _core.Loss("reg:absoluteerror", 2)
    for output, expected in ((0, 2), (1, 50)):
        values = loss.refit_leaf_values(
            float32(0), np.zeros(3, dtype=np.int32), np.zeros_like(labels), labels,
            output=output, learning_rate=1,
        )  # fmt: skip
        np.testing.assert_array_equal(values, [expected])


def test_a_residual_that_is_not_finite_is_named():
    with pytest.raises(RuntimeError, match="residual of row 2 is not finite"):
        _core.Loss("reg:absoluteerror").refit_leaf_values(
            float32(0), np.zeros(3, dtype=np.int32), float32(0, 0, np.nan), float32(1, 2, 3),
            learning_rate=1,
        )  # fmt: skip


def test_a_leaf_beyond_the_tree_is_refused():
    with pytest.raises(ValueError, match="node beyond the 2 of leaf_values"):
        _core.Loss("reg:absoluteerror").refit_leaf_values(
            float32(0, 0), np.array([2], dtype=np.int32), float32(0), float32(1), learning_rate=1
        )


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


# Names, parameters and arrays


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("reg:squared", "'reg:squared'; known are .*reg:squarederror.*softmax"),
        ("regresion", "'regresion'; known are regression, .*multiclassova"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(name, message):
    with pytest.raises(ValueError, match=message):
        loss_of(name)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("binary:logistic", "scale_pos_weight", -1),
        ("binary:logistic", "scale_pos_weight", np.nan),
        ("reg:pseudohubererror", "huber_slope", 0),
        ("count:poisson", "max_delta_step", -0.1),
        ("reg:tweedie", "tweedie_variance_power", 2.5),
        ("reg:tweedie", "tweedie_variance_power", 0.5),
        ("reg:squarederror", "n_outputs", 0),
        ("multi:softprob", "n_outputs", 1),
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
        loss_of(name, **{option: value})


def test_two_ways_to_weigh_classes_exclude_each_other():
    with pytest.raises(ValueError, match="is_unbalance and scale_pos_weight"):
        _core.LightgbmLoss("binary", is_unbalance=True, scale_pos_weight=2)


@pytest.mark.parametrize("objective", ["rank_xendcg", "cross_entropy_lambda", "no_such"])
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


def test_out_is_filled_and_returned():
    margins, labels = make_rows("binary:logistic", 1, n_rows=10)
    loss = _core.Loss("binary:logistic")
    out = np.empty((10, 1, 2), dtype=np.float32)
    assert loss.gradients(margins, labels, out=out) is out
    np.testing.assert_array_equal(out, loss.gradients(margins, labels))


@pytest.mark.parametrize("shape", [(10, 2), (9, 1, 2), (10, 2, 1), (1, 10, 2)])
def test_out_of_another_shape_is_refused(shape):
    margins, labels = make_rows("binary:logistic", 1, n_rows=10)
    with pytest.raises(ValueError, match="out must have shape"):
        _core.Loss("binary:logistic").gradients(margins, labels, out=np.empty(shape, np.float32))


@pytest.mark.parametrize(
    ("margins", "labels", "weights", "named"),
    [
        ((5, 3), (5,), None, "labels"),
        ((5, 2), (5, 3), None, "margins"),
        ((5,), (5, 3), None, "margins"),
        ((5, 3), (4, 3), None, "labels"),
        ((5, 3), (5, 3), (4,), "weights"),
        ((5, 3), (5, 3), (0,), "weights"),
        ((5, 3), (5, 3), (5, 1), "weights"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(margins, labels, weights, named):
    loss = _core.Loss("reg:squarederror", 3)
    weights = None if weights is None else np.zeros(weights, np.float32)
    with pytest.raises(ValueError, match=f"^{named} must"):
        loss.gradients(np.zeros(margins, np.float32), np.zeros(labels, np.float32), weights)


def test_arrays_that_would_need_a_copy_are_refused():
    ones = np.ones(4, dtype=np.float32)
    for margins in (ones.astype(np.float64), np.ones(8, dtype=np.float32)[::2]):
        with pytest.raises(TypeError):
            _core.Loss("reg:squarederror").gradients(margins, ones)
