# SPDX-License-Identifier: Apache-2.0
"""TaskSplit in a training function of ``ray.train.xgboost``, as in docs/several_machines.md."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("ray.train.xgboost")

# In a separate process: Ray starts threads, and handlers of signals, that last as long as it does.
SCRIPT = """
    import numpy as np, pandas as pd, ray, ray.data, ray.train, xgboost
    from ray.train.xgboost import RayTrainReportCallback, XGBoostTrainer
    from mtboost.xgboost import TaskSplit

    FEATURES, PARAMS = list("abcd"), {"max_depth": 4, "nthread": 1}

    def matrix_of(frame):
        return xgboost.QuantileDMatrix(
            frame[FEATURES], frame["sold"], label_lower_bound=frame["shop"]
        )

    def train_on_worker(config):
        frame = ray.train.get_dataset_shard("train").materialize().to_pandas()
        assert 0 < len(frame) < config["n_rows"]
        split = TaskSplit("label_lower_bound", pooling=2.0)
        xgboost.train(PARAMS, matrix_of(frame), 4, callbacks=[split, RayTrainReportCallback()])

    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (1200, 4)).astype(np.float32)  # few values: the same bins everywhere
    shop = rng.integers(0, 4, 1200)
    y = np.sin(X[:, 0] / 6) + (shop % 2) * X[:, 1] / 40 + rng.normal(0, 0.2, 1200)
    rows = pd.DataFrame(X, columns=FEATURES).assign(shop=shop, sold=y)
    ray.init(num_cpus=3, include_dashboard=False, logging_level="ERROR")
    trainer = XGBoostTrainer(
        train_on_worker,
        train_loop_config={"n_rows": len(rows)},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(storage_path=STORAGE),
        datasets={"train": ray.data.from_pandas([rows[:500], rows[500:]])},
    )
    booster = RayTrainReportCallback.get_model(trainer.fit().checkpoint)
    ray.shutdown()

    split = TaskSplit("label_lower_bound", pooling=2.0)
    expected = xgboost.train(PARAMS, matrix_of(rows), 4, callbacks=[split])
    for shop in range(4):
        found, alone = (
            split.booster(each, shop).predict(matrix_of(rows)) for each in (booster, expected)
        )
        np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-6)
    print("equal")
"""


def test_workers_of_ray_train_the_model_of_one_machine(tmp_path):
    script = textwrap.dedent(SCRIPT).replace("STORAGE", repr(str(tmp_path)))
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["equal"], done.stderr[-3000:]
