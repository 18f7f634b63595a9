# SPDX-License-Identifier: Apache-2.0
"""Training, predicting, saving and reading again and again takes no more memory than once.

Measured is what the allocator of the C library has handed out and not got back, of the main arena
and of mapped blocks, in a separate process. Tables of a repetition take some 40 KiB, models some
tens: what keeps any of them over 40 repetitions is far above the bound.
"""

import os
import sys

import pytest
from processes import run_script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the state of glibc's malloc")

REPETITIONS = 40
#: Bytes that a repetition may keep on average. Caches that grow seldom (Python's own arenas, tables
#: of interned strings, LightGBM's configuration) come to some hundreds; a kept vector of one float
#: per row would be 2400, so that of anything of the size of the rows two are noticed.
BOUND = 4096

SCRIPT = """
import ctypes, gc, sys, tempfile, warnings
from pathlib import Path

import numpy as np
import mtboost

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(600, 8))
task = np.arange(600) % 3
y = np.round(4 * X[:, 0] + task * X[:, 1])
labels = (X[:, :3] > 0).astype(int)
path = Path(tempfile.mkdtemp()) / "model.mtb"

def with_booster(backend):
    options = {"strategy": "two-stage", "num_boost_round": 1, "specific_rounds": 1, "n_threads": 1}
    options["pooling"] = 1.0
    model = mtboost.fit(X, y, task=task, backend=backend, **options)
    model.save(path)
    mtboost.load_model(path).predict(X, task=task)
    refused(backend)

def estimators():
    model = mtboost.MTExtraTreesRegressor(2, n_jobs=1, random_state=0).fit(X, y, task=task)
    model.save(path)
    mtboost.load_model(path).predict(X, task=task)
    mtboost.MTDecisionTreeClassifier(max_depth=3, n_jobs=1).fit(X, y, task=task)
    model = mtboost.ProjectedBoostingClassifier(2, n_jobs=1, random_state=0).fit(X, labels)
    model.save(path)
    mtboost.load_model(path).predict(X)

def refused(backend):
    bad = np.where(np.arange(600) == 599, np.nan, y)
    for call in (
        lambda: mtboost.fit(X, bad, task=task, backend=backend, n_threads=1),
        lambda: mtboost.fit(X, y, task=task, backend=backend, n_threads=1, params={"eta": -1}),
        lambda: mtboost.MTExtraTreesRegressor(2, max_depth=-1).fit(X, y, task=task),
        lambda: mtboost.load_model(sys.executable),
    ):
        try:
            call()
        except Exception:
            continue
        raise AssertionError

class Mallinfo2(ctypes.Structure):
    _fields_ = [(f"field{n}", ctypes.c_size_t) for n in range(10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo2

def in_use():
    gc.collect()
    info = libc.mallinfo2()
    return info.field7 + info.field4  # uordblks, hblkhd

name, repetitions = sys.argv[1], int(sys.argv[2])
run = estimators if name == "estimators" else lambda: with_booster(name)
for _ in range(15):
    run()
before = in_use()
for _ in range(repetitions):
    run()
print((in_use() - before) / repetitions)
"""


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "estimators"])
def test_repetitions_keep_no_memory(name, tmp_path):
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONMALLOC": "malloc"}
    done = run_script(SCRIPT, name, str(REPETITIONS), cwd=tmp_path, env=variables)
    assert float(done.stdout.splitlines()[-1]) < BOUND
