# SPDX-License-Identifier: Apache-2.0
"""A process that has trained or loaded models can be forked, and the child can do either."""

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


@pytest.mark.parametrize("n_threads", ["1", "2"])
def test_fit_works_in_forked_workers(library, n_threads):
    # GNU's OpenMP cannot be used by several threads on both sides of a fork: XGBoost itself hangs
    # in the child of a process that has trained. Ours are started anew by each call.
    # LightGBM starts as many as num_threads; by default that is what OpenMP may.
    variables = {"OMP_NUM_THREADS": n_threads, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    run_script(SCRIPT, library.name, env={**os.environ, **variables}, timeout=TIMEOUT)


SERVER = """
import multiprocessing, sys
import numpy, mtboost

X, task = numpy.random.default_rng(0).normal(size=(300, 4)), numpy.arange(300) % 3
if sys.argv[1] == "train":
    options = {"strategy": "two-stage", "num_boost_round": 4, "specific_rounds": 3}
    mtboost.fit(X, X[:, 0], task=task, **options).save(sys.argv[2])
else:
    model = mtboost.load_model(sys.argv[2])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(model.predict, (X,), {"task": task}).shape == (300,)
"""


def test_a_loaded_model_predicts_in_forked_workers(tmp_path):
    variables = {"OMP_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    for step in ("train", "serve"):
        env = {**os.environ, **variables}
        run_script(SERVER, step, str(tmp_path / "model"), env=env, timeout=TIMEOUT)
