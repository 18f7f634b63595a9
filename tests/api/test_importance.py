"""The importance of a feature for a task is that of the task's booster, both stages together."""

import numpy as np
import pandas as pd
import pytest

import mtboost
from mtboost.errors import ParameterError

_rng = np.random.default_rng(0)
NUMBERS = _rng.normal(size=(300, 4))
TASKS = np.arange(300) % 3
VALUES = NUMBERS[:, 0] + np.where(TASKS == 1, NUMBERS[:, 1], 0) + 0.1 * _rng.normal(size=300)
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b", "c", "d"])


@pytest.mark.parametrize("kind", ["gain", "total_gain", "weight", "cover", "total_cover"])
@pytest.mark.parametrize("X", [NUMBERS, FRAME], ids=["numpy", "pandas"])
@pytest.mark.parametrize("objective", ["squared_error", "multiclass"])
def test_importance_is_that_of_the_tasks_booster(library, objective, X, kind):
    y = VALUES if objective == "squared_error" else np.digitize(VALUES, [-0.5, 0.5])
    # Task 2 has labels of no use: it quits early.
    y = np.where(TASKS == 2, np.roll(y, 7), y)
    model = mtboost.fit(
        X,
        y,
        task=TASKS,
        backend=library.name,
        objective=getattr(library, objective),
        num_boost_round=15,
        patience=5,
    )
    assert len(set(model.quit_round.values())) > 1
    assert any(model.specific.values())
    if kind not in library.importances:
        with pytest.raises(ParameterError, match="'gain', 'total_gain' or 'weight'"):
            model.importance(0, kind)
        return
    for task in model.tasks:
        importance = model.importance(task, kind)
        expected = library.importance(model.booster(task), kind)
        assert importance.keys() == expected.keys()
        for name, value in expected.items():
            # XGBoost adds up float32, and LightGBM's text has gains with six digits; the stages are
            # added in float64.
            np.testing.assert_allclose(importance[name], value, rtol=1e-5)


def test_a_task_without_any_tree_has_no_importance():
    y = np.where(TASKS == 2, _rng.permutation(VALUES) * 100, VALUES)
    model = mtboost.fit(NUMBERS, y, task=TASKS, num_boost_round=3, specific_rounds=0, patience=1)
    without = [task for task, n_rounds in model.quit_round.items() if n_rounds == 0]
    assert without
    assert model.importance(without[0]) == {}


def test_lightgbms_names_of_columns_are_the_users_again():
    frame = FRAME.rename(columns={"a": "a column", "b": "β"})
    model = mtboost.fit(frame, VALUES, task=TASKS, backend="lightgbm", num_boost_round=5)
    assert set(model.importance(1)) >= {"a column", "β"}
    assert model.booster(1).feature_name() == ["a_column", "β", "c", "d"]
