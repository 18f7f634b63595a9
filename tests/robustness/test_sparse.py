# SPDX-License-Identifier: Apache-2.0
"""Damaged SciPy matrices are refused by every entry; odd but legal ones mean what SciPy means."""

import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.sparse import CELLS, ENTRIES, NUMBERS, damaged
from processes import environment, run_script

import mtboost
from mtboost.base.sparse_tables import checked_sparse
from mtboost.errors import DataError

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


@pytest.mark.parametrize("part", range(2))
def test_every_entry_refuses_damaged_matrices(part):
    script = f"from fuzz.sparse import refuse_damaged; refuse_damaged({part}, 2)"
    found = run_script(script, check=False, env=environment(OMP_NUM_THREADS="1"))
    *calls, last = found.stdout.splitlines()
    assert found.returncode == 0, f"{last}\n{found.stderr}"
    assert [call for call in (*calls, last) if not call.endswith(": refused")] == []
    assert len(calls) > 100


DAMAGED = dict(damaged(CELLS))


@pytest.mark.parametrize("what", DAMAGED)
def test_what_is_wrong_with_a_damaged_matrix_is_said(what):
    with pytest.raises(DataError, match=f"X is a damaged {what[:3].upper()} matrix: .*anew"):
        checked_sparse(DAMAGED[what], "X")


def shuffled(cells):
    """A CSR matrix with the columns of each row backwards, of which SciPy believes otherwise."""
    matrix = sp.csr_array(cells)
    assert matrix.has_canonical_format  # SciPy keeps the answer
    for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        matrix.indices[begin:end] = matrix.indices[begin:end][::-1].copy()
        matrix.data[begin:end] = matrix.data[begin:end][::-1].copy()
    return matrix


def doubled(cells):
    """A CSR matrix with two halves of each value."""
    matrix = sp.csr_array(cells)
    twice = (matrix.data / 2).repeat(2), matrix.indices.repeat(2), 2 * matrix.indptr
    return sp.csr_array(twice, shape=matrix.shape)


LEGAL = {
    "unsorted": shuffled,
    "unsorted, by columns": lambda cells: shuffled(cells.T).T,
    "doubled": doubled,
    "longer arrays": lambda cells: longer(sp.csr_array(cells)),
    "views with steps": lambda cells: stepped(sp.csr_array(cells)),
    "indices of 64 bits": lambda cells: wide(sp.csr_array(cells)),
    "COO": sp.coo_array,
    "DOK": sp.dok_array,
    "LIL": sp.lil_matrix,
    "BSR": lambda cells: sp.bsr_array(cells, blocksize=(1, 1)),
    "DIA": sp.dia_array,
}


def longer(matrix):
    matrix.indices = np.append(matrix.indices, [-7, 2**30]).astype(matrix.indices.dtype)
    matrix.data = np.append(matrix.data, [np.nan, 1.0])
    return matrix


def stepped(matrix):
    matrix.indices = np.repeat(matrix.indices, 2)[::2]
    matrix.data = np.column_stack([matrix.data, np.full(matrix.nnz, 1e9)])[:, 0]
    matrix.indptr = np.repeat(matrix.indptr, 3)[::3]
    return matrix


def wide(matrix):
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    return matrix


@pytest.mark.parametrize("make", LEGAL.values(), ids=LEGAL)
def test_odd_but_legal_matrices_have_the_cells_of_the_dense_table(make):
    np.testing.assert_array_equal(checked_sparse(make(CELLS), "X").toarray(), CELLS)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_arrays_end_with_the_last_entry_and_have_no_gaps(form):
    # SciPy and XGBoost write and read elsewhere if not.
    for make in (longer, stepped):
        checked = checked_sparse(make(sp.csr_array(CELLS).asformat(form)), "X")
        arrays = (checked.data, checked.indices, checked.indptr)
        assert all(array.flags.c_contiguous for array in arrays)
        assert len(checked.data) == len(checked.indices) == checked.indptr[-1]


def assert_same_outputs(entry, X, other):
    """Of a model fitted to a table, and of one fitted to another."""
    found, expected = (entry.outputs(entry.fit(table), table) for table in (X, other))
    for own, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own, wanted)


@pytest.mark.parametrize("make", LEGAL.values(), ids=LEGAL)
@pytest.mark.parametrize(
    "name", ["fit", "fit, lightgbm", "MTExtraTreesRegressor", "ProjectedBoostingRegressor"]
)
def test_odd_but_legal_matrices_give_the_same_model_and_stay_as_they_are(name, make):
    X = make(CELLS)
    n_stored = X.nnz
    assert_same_outputs(ENTRIES[name], X, sp.csr_array(CELLS))
    assert X.nnz == n_stored


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("name", [name for name in ENTRIES if "MultiTask" not in name])  # fit()
def test_what_a_matrix_does_not_store_is_missing_or_0(name, form):
    entry = ENTRIES[name]
    dense = np.where(CELLS == 0, np.nan, CELLS) if entry.is_missing else CELLS
    assert_same_outputs(entry, sp.csr_array(CELLS).asformat(form), dense)


def test_the_matrix_of_the_user_is_neither_copied_nor_changed():
    matrix = shuffled(CELLS)
    before = matrix.indices.copy()
    checked = checked_sparse(matrix, "X")
    assert np.shares_memory(checked.data, matrix.data)
    assert checked_sparse(sp.csr_array(CELLS), "X").has_canonical_format
    mtboost.Dataset(matrix, NUMBERS)
    np.testing.assert_array_equal(matrix.indices, before)


def test_columns_beyond_32_bits_are_refused():
    matrix = sp.csr_array((3, 2**31))
    with pytest.raises(DataError, match="X has 2147483648 columns; at most 2147483647"):
        mtboost.Dataset(matrix, np.ones(3))
    with pytest.raises(DataError, match="X has 2147483648 columns; at most 2147483647"):
        mtboost.MTExtraTreesRegressor().fit(matrix, np.ones(3))
