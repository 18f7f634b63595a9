"""The importance of a feature for a task is that of the task's booster, both stages together."""

import numpy as np
import pandas as pd
import pytest

import mtboost

_rng = np.random.default_rng(0)
NUMBERS = _rng.normal(size=(300, 4))
TASKS = np.arange(300) % 3
VALUES = NUMBERS[:, 0] + np.where(TASKS == 1, NUMBERS[:, 1], 0) + 0.1 * _rng.normal(size=300)
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b", "c", "d"])


@pytest.mark.parametrize("kind", ["gain", "total_gain", "weight", "cover", "total_cover"])
@pytest.mark.parametrize("X", [NUMBERS, FRAME], ids=["numpy", "pandas"])
@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_importance_is_that_of_the_tasks_booster(objective, X, kind):
    y = VALUES if objective == "reg:squarederror" else np.digitize(VALUES, [-0.5, 0.5])
    # Task 2 has labels of no use: it quits early.
    y = np.where(TASKS == 2, np.roll(y, 7), y)
    model = mtboost.fit(X, y, task=TASKS, objective=objective, num_boost_round=15, patience=5)
    assert len(set(model.quit_round.values())) > 1
    assert any(model.specific.values())
    for task in model.tasks:
        importance = model.importance(task, kind)
        expected = model.booster(task).get_score(importance_type=kind)
        assert importance.keys() == expected.keys()
        for name, value in expected.items():
            # XGBoost adds up float32; the stages are added in float64.
            np.testing.assert_allclose(importance[name], value, rtol=1e-5)


def test_a_task_without_any_tree_has_no_importance():
    y = np.where(TASKS == 2, _rng.permutation(VALUES) * 100, VALUES)
    model = mtboost.fit(NUMBERS, y, task=TASKS, num_boost_round=3, specific_rounds=0, patience=1)
    without = [task for task, n_rounds in model.quit_round.items() if n_rounds == 0]
    assert without
    assert model.importance(without[0]) == {}
