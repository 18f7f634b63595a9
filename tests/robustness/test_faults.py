# SPDX-License-Identifier: Apache-2.0
"""Faults of the system, made by tests/faults.py: what is left afterwards is as it was before."""

import threading

import faults
import numpy as np
import pytest

import mtboost

pytestmark = pytest.mark.skipif(not faults.IS_SUPPORTED, reason="faults are made on Linux only")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = X[:, 0] + RNG.normal(size=120)
TASK = np.arange(120) % 3


def fitted(kind):
    if kind == "forest":
        return mtboost.MTExtraTreesRegressor(5, random_state=0, n_jobs=1).fit(X, Y, task=TASK)
    options = {"num_boost_round": 3, "specific_rounds": 2, "n_threads": 1, "backend": kind}
    return mtboost.fit(X, Y, task=TASK, **{"strategy": "two-stage", **options})


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "forest"])
def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(kind, tmp_path):
    path, model = tmp_path / "model.mtb", fitted(kind)
    model.save(path)
    size = path.stat().st_size
    path.write_bytes(b"old")
    for room in (0, 1, size // 2, size - 1):
        with faults.limited_files(room), pytest.raises(OSError, match="File too large"):
            model.save(path)
        assert path.read_bytes() == b"old"
        assert [each.name for each in tmp_path.iterdir()] == ["model.mtb"]
    with faults.limited_files(size):
        model.save(path)
    assert path.stat().st_size == size


def test_faults_end_with_their_block():
    table = np.zeros((1, 1))
    with faults.limited_memory(1 << 20), pytest.raises(MemoryError):
        np.resize(table, 1 << 24)
    assert np.resize(table, 1 << 24).nbytes == 1 << 27
    with faults.interrupted(1e-3), pytest.raises(KeyboardInterrupt):
        threading.Event().wait()
    with faults.interrupted(60), faults.many_signals(1e-3):
        pass


def test_a_signal_that_means_nothing_changes_no_result():
    expected = fitted("forest").predict(X, task=TASK)
    with faults.many_signals(1e-4):
        found = fitted("forest").predict(X, task=TASK)
    np.testing.assert_array_equal(found, expected)
