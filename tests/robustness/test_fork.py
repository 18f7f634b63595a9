# SPDX-License-Identifier: Apache-2.0
"""A process that has trained can be forked, and the child can train."""

import multiprocessing
import os

import numpy as np
import pytest
import xgboost
from processes import run_script

from mtboost import _core
from mtboost.xgboost.bins import bin_matrix

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

TIMEOUT = 60  # seconds; a hang is the failure looked for


def grow(matrix, gradients, n_threads):
    """Leaf values of a tree of our own grower, which uses no OpenMP."""
    tree, _ = _core.TreeGrower(matrix).grow(_core.XgboostParams(), gradients, n_threads=n_threads)
    return tree.arrays()["value"].tolist()


# Python 3.12 warns of forking a process with threads, such as those OpenMP keeps.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_grower_works_in_a_child_of_a_process_that_has_grown_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4))
    data = xgboost.QuantileDMatrix(X)
    matrix = bin_matrix(data, storage_order=np.empty(0, np.uint32), n_threads=3)
    gradients = np.column_stack([-X[:, 0] - rng.normal(size=len(X)), np.ones(len(X))])
    gradients = gradients.astype(np.float32)
    expected = grow(matrix, gradients, 3)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put(grow(matrix, gradients, 3)))
    child.start()
    try:
        assert queue.get(timeout=TIMEOUT) == expected
    finally:
        child.kill()
        child.join()


SCRIPT = """
import multiprocessing, sys
import numpy, mtboost

options = {"xgboost": {"n_threads": 2}, "lightgbm": {}}[sys.argv[1]]

def train():
    rng = numpy.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = X[:, 0] + rng.normal(size=600)
    task = rng.integers(0, 3, 600)
    model = mtboost.fit(
        X, y, task=task, backend=sys.argv[1], effort="fast",
        validation_fraction=0.25, num_boost_round=4, specific_rounds=3, **options
    )
    return model.predict(X, task=task).tolist()

if __name__ == "__main__":
    expected = train()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.starmap(train, [(), ()]):
            assert found == expected
"""


def test_fit_works_in_forked_workers_where_openmp_starts_no_threads(library):
    # With more OpenMP threads XGBoost itself hangs in the child of a process that has trained: the
    # GNU OpenMP library cannot be used on both sides of a fork. Ours are started anew by each call.
    # LightGBM starts as many as num_threads; by default that is what OpenMP may.
    variables = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    run_script(SCRIPT, library.name, env={**os.environ, **variables}, timeout=TIMEOUT)
