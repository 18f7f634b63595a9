# SPDX-License-Identifier: Apache-2.0
"""Weights and labels in units in which limits of the library are large, or gains overflow."""

import warnings

import numpy as np
import pytest

import mtboost
from mtboost.errors import DataError

TREES_ALONE = {"strategy": "two-stage", "num_boost_round": 20, "specific_rounds": 0}


def rows(n_rows=600):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    return X, X[:, 0] + 0.3 * rng.normal(size=n_rows), rng.choice(list("abc"), n_rows)


def fit(X, y, task, **options):
    """Return the model, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = mtboost.fit(X, y, task=task, **TREES_ALONE, **options)
    return model, [str(each.message) for each in found]


def test_weights_too_small_for_children_are_named_with_the_remedy():
    X, y, task = rows()
    weight = np.full(len(y), 1.0 / len(y))
    model, (text,) = fit(X, y, task, weight=weight)
    assert "weight adds up to 1, " in text
    assert "min_child_weight=1: " in text
    assert "Divide the weights by their mean (0.00167)" in text
    assert np.ptp(model.predict(X, task=task)) == 0.0
    model, texts = fit(X, y, task, weight=weight / weight.mean())
    assert texts == []
    assert np.corrcoef(model.predict(X, task=task), y)[0, 1] > 0.9
    for options in ({"params": {"min_child_weight": 0.001}}, {"backend": "lightgbm"}):
        assert fit(X, y, task, weight=weight, **options)[1] == []


def test_small_weights_of_many_rows_are_left_alone():
    X, y, task = rows()
    weight = np.full(len(y), 0.19)  # which add up to 114, and those of 500 rows to 95
    assert fit(X, y, task, weight=weight)[1] == []
    assert len(fit(X[:500], y[:500], task[:500], weight=weight[:500])[1]) == 1
    assert fit(X[:30], y[:30], task[:30])[1] == []  # few rows, not small weights
    few = (np.arange(len(y)) < 30).astype(float)
    assert fit(X, y, task, weight=few, validation_fraction=0)[1] == []  # the others do not count


@pytest.mark.parametrize("factor", [1e-5, 1e-9])
def test_labels_too_small_for_gains_are_named_with_the_remedy(factor):
    X, y, task = rows()
    model, (text,) = fit(X, factor * y, task)
    assert "no split whose gain, in squared units of y, is below 1e-06" in text
    unit = float(text.rpartition("y / ")[2].rstrip("."))
    assert np.ptp(model.predict(X, task=task)) == 0.0
    model, texts = fit(X, factor * y / unit, task)
    assert texts == []
    assert np.corrcoef(model.predict(X, task=task), y)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("options", "factor"),
    [({}, 600 / 4), ({"objective": dict.fromkeys("abc", "reg:squarederror")}, 1.0)],
    ids=["one", "each"],
)
def test_labels_whose_gains_overflow_are_refused_with_the_remedy(options, factor):
    X, y, task = rows()
    largest = np.sqrt(np.finfo(np.float32).max / factor / ((y - y.mean()) ** 2).sum())
    model, texts = fit(X, 0.99 * largest * y, task, **options)
    assert texts == []
    expected = fit(X, y, task, **options)[0].predict(X, task=task)
    found = model.predict(X, task=task) / (0.99 * largest)
    np.testing.assert_allclose(found, expected, atol=0.1 * np.std(y))  # nothing is lost
    with pytest.raises(DataError, match="gains of splits overflow .* such as y ") as refused:
        mtboost.fit(X, 1.01 * largest * y, task=task, **options)
    unit = float(str(refused.value).rpartition("y / ")[2].rstrip("."))
    model, texts = fit(X, 1.01 * largest * y / unit, task, **options)
    assert texts == []
    assert np.corrcoef(model.predict(X, task=task), y)[0, 1] > 0.9


def test_weights_whose_gains_overflow_are_named_with_the_remedy():
    X, y, task = rows()
    _, (text,) = fit(X, y, task, weight=np.full(len(y), 1e18))
    assert text.startswith("weight adds up to 6e+20: gains of splits overflow")
    assert text.endswith("Divide the weights by their mean (1e+18).")


@pytest.mark.parametrize(
    "options", [{"backend": "lightgbm"}, {"objective": "reg:absoluteerror"}], ids=str
)
def test_other_gains_do_not_overflow(options):
    X, y, task = rows()
    model, texts = fit(X, 1e20 * y, task, **options)
    assert texts == []
    assert np.corrcoef(model.predict(X, task=task), y)[0, 1] > 0.9


def test_labels_too_far_from_zero_for_margins_are_named_with_the_remedy():
    X, y, task = rows()
    _, (text,) = fit(X, y + 1e6, task)  # neighbours of 1e6 in float32 are 1/16 apart
    assert "y has mean 1e+06 and standard deviation 1.0" in text
    assert "multiples of 0.062: small steps of training are lost. Fit to y - 1e+06, and" in text
    assert fit(X, y + 1e5, task)[1] == fit(X, 1e3 * y + 1e6, task)[1] == []
    assert fit(X, y + 1e6, task, backend="lightgbm")[1] == []  # margins are doubles


@pytest.mark.parametrize("options", [{"backend": "lightgbm"}, {"objective": "reg:logistic"}])
def test_other_libraries_and_losses_have_other_limits(options):
    X, y, task = rows()
    labels = 1e-5 * (y - y.min())
    assert not [text for text in fit(X, labels, task, **options)[1] if text.startswith("y has")]


def test_constant_labels_need_no_other_unit():
    X, _, task = rows()
    assert fit(X, np.full(len(X), 2.0), task)[1] == []
