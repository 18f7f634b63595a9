# SPDX-License-Identifier: Apache-2.0
"""What is done with rows on a GPU equals what the core does; without a GPU, with a stand-in."""

import numpy as np
import pytest
from device_stand_in import cupy_or_stand_in

from mtboost import _core
from mtboost.trees import on_device
from mtboost.trees.losses import make_loss
from mtboost.trees.task_values import TaskValues
from mtboost.xgboost.device_losses import gradient_and_hessian, has_formula

N_ROWS = 3000
rng = np.random.default_rng(0)

# Tables of few cells, where rows add to copies of it, and of more cells than rows.
SIZES = [(1, 1), (31, 2), (127, 40), (127, 2000)]


@pytest.fixture
def xp(monkeypatch):
    """CuPy, or the stand-in."""
    return cupy_or_stand_in(monkeypatch)


def sums_on_device(xp, *rows, **sizes):
    return [part.get() for part in on_device.sum_by_leaf_and_task(*map(xp.asarray, rows), **sizes)]


def rows_of(n_nodes, n_tasks):
    leaves = rng.integers(0, n_nodes, N_ROWS).astype(np.int32)
    leaves = np.where(rng.random(N_ROWS) < 0.2, ~leaves, leaves)
    codes = rng.integers(0, n_tasks, N_ROWS).astype(np.int32)
    pairs = np.stack([rng.normal(size=N_ROWS) * 1e3, rng.random(N_ROWS)], axis=1)
    return leaves, codes, pairs.astype(np.float32)


@pytest.mark.parametrize(("n_nodes", "n_tasks"), SIZES)
def test_sums_are_those_of_the_core(xp, n_nodes, n_tasks):
    leaves, codes, pairs = rows_of(n_nodes, n_tasks)
    sizes = {"n_nodes": n_nodes, "n_tasks": n_tasks}
    found = sums_on_device(xp, leaves, codes, pairs, **sizes)
    expected = _core.sum_by_leaf_and_task(leaves, codes, pairs, **sizes)
    for own, core in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(own, core)
    # Each value is rounded to 2^-62 of the sum of all; doubles of the core have 53 bits.
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found[3], expected[3], rtol=1e-12, atol=0)


def test_sums_are_the_same_bits_in_any_order_of_the_rows(xp):
    leaves, codes, pairs = rows_of(15, 3)
    order = rng.permutation(N_ROWS)
    sizes = {"n_nodes": 15, "n_tasks": 3}
    found = sums_on_device(xp, leaves, codes, pairs, **sizes)
    again = sums_on_device(xp, leaves[order], codes[order], pairs[order], **sizes)
    for own, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_sums_keep_their_digits_in_any_unit(xp, scale):
    leaves, codes, pairs = rows_of(15, 3)
    pairs *= np.float32(scale)
    sizes = {"n_nodes": 15, "n_tasks": 3}
    found = sums_on_device(xp, leaves, codes, pairs, **sizes)
    expected = _core.sum_by_leaf_and_task(leaves, codes, pairs, **sizes)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-12, atol=1e-9 * scale)


def test_rows_without_gradients_have_no_sums(xp):
    leaves, codes, pairs = rows_of(7, 2)
    found = sums_on_device(xp, leaves, codes, 0.0 * pairs, n_nodes=7, n_tasks=2)
    assert [len(part) for part in found] == [0, 0, 0, 0]


@pytest.mark.parametrize("n_columns", [None, 4])
def test_leaf_values_are_added_as_by_the_core(xp, n_columns):
    leaves, codes, _ = rows_of(31, 3)
    codes[:5] = -1  # tasks that are not known: the last column
    shape = (31,) if n_columns is None else (31, n_columns)
    values, margins = rng.normal(size=shape), rng.normal(size=(N_ROWS, 2)).astype(np.float32)
    found, expected = xp.asarray(margins.copy()), margins.copy()
    columns = None if n_columns is None else codes
    on_device.add_leaf_values(
        values,
        xp.asarray(leaves),
        found,
        codes=None if columns is None else xp.asarray(columns),
        output=1,
    )
    _core.add_leaf_values(values, leaves, expected, codes=columns, output=1, n_threads=1)
    np.testing.assert_array_equal(found.get(), expected)
    assert (expected[:, 1] != margins[:, 1]).all()


LABELS = {
    "reg:squarederror": rng.normal(size=N_ROWS),
    "reg:pseudohubererror": rng.normal(size=N_ROWS),
    "binary:logistic": rng.integers(0, 2, N_ROWS),
    "reg:logistic": rng.random(N_ROWS),
    "binary:logitraw": rng.integers(0, 2, N_ROWS),
    "count:poisson": rng.poisson(2.0, N_ROWS),
    "reg:gamma": rng.gamma(2.0, size=N_ROWS),
    "reg:tweedie": rng.poisson(1.0, N_ROWS) * rng.random(N_ROWS),
    "multi:softprob": rng.integers(0, 3, N_ROWS),
    "multi:softmax": rng.integers(0, 3, N_ROWS),
}
OPTIONS = {
    "reg:pseudohubererror": {"huber_slope": 0.7},
    "count:poisson": {"max_delta_step": 0.7},
    "reg:tweedie": {"tweedie_variance_power": 1.4},
    **{name: {"scale_pos_weight": 3.0} for name in ("reg:squarederror", "reg:logistic")},
    "binary:logistic": {"scale_pos_weight": 0.2},
    "reg:gamma": {"scale_pos_weight": 2.0},
}


@pytest.mark.parametrize("weights", [None, rng.random(N_ROWS).astype(np.float32)])
@pytest.mark.parametrize("objective", LABELS)
def test_gradients_are_those_of_the_core(xp, objective, weights):
    n_outputs = 3 if objective.startswith("multi") else 1
    margins = (5.0 * rng.normal(size=(N_ROWS, n_outputs))).astype(np.float32)
    labels = LABELS[objective].astype(np.float32)[:, None]
    labels[:10] = 1.0  # those that scale_pos_weight is for
    options = OPTIONS.get(objective, {})
    rows = (None if part is None else xp.asarray(part) for part in (margins, labels, weights))
    found = [part.get() for part in gradient_and_hessian(xp, objective, options, *rows)]
    loss = make_loss(objective, n_outputs, arithmetic="xgboost-3.4", **options)
    expected = loss.gradients(margins, labels, weights)
    for part in range(2):
        assert found[part].dtype == np.float32
        # float32, of another exponential; probabilities are subtracted from 1.
        scale = max(1.0, np.abs(expected[:, :, part]).max())
        np.testing.assert_allclose(found[part], expected[:, :, part], rtol=2e-6, atol=5e-7 * scale)


def test_losses_of_several_rows_have_no_formula():
    assert not any(map(has_formula, ("rank:ndcg", "survival:cox", "reg:absoluteerror")))


def test_the_table_of_values_is_that_of_the_host(xp):
    leaf, task = (part.astype(np.int32) for part in np.nonzero(rng.random((9, 4)) < 0.5))
    values = TaskValues(leaf, task, rng.normal(size=len(leaf)), 0.1)
    pooled = rng.normal(size=9)
    found = on_device.table_of_values(pooled, values, 4, xp.asarray(leaf))
    np.testing.assert_array_equal(found.get(), values.table(pooled, 4).astype(np.float32))
