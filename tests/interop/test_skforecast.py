# SPDX-License-Identifier: Apache-2.0
"""skforecast's forecaster of many series trains an estimator whose tasks are the series."""

import numpy as np
import pandas as pd
import pytest

import mtboost

recursive = pytest.importorskip("skforecast.recursive", reason="pip install 'mtboost[interop]'")


# The forecaster fits with frames and predicts with arrays.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("encoding", ["ordinal", "ordinal_category"])
def test_series_are_tasks_and_are_forecast_by_their_own_models(backend, encoding):
    days = np.arange(140)
    rng = np.random.default_rng(0)
    week = np.sin(days * 2.0 * np.pi / 7.0)
    series = pd.DataFrame(
        {name: size * week + 0.1 * rng.normal(size=140) for name, size in SIZES.items()},
        index=pd.date_range("2024-01-01", periods=140, freq="D"),
    )
    estimator = mtboost.MultiTaskRegressor(
        task="_level_skforecast",
        backend=backend.name,
        strategy="two-stage",
        n_estimators=40,
        random_state=0,
    )
    forecaster = recursive.ForecasterRecursiveMultiSeries(estimator, lags=7, encoding=encoding)
    forecaster.fit(series=series[:-7], suppress_warnings=True)
    found = forecaster.predict(steps=7, suppress_warnings=True)
    assert forecaster.estimator.tasks_ == (0, 1, 2)
    for name, size in SIZES.items():
        own = found.loc[found["level"] == name, "pred"].to_numpy()
        error = np.sqrt(np.mean((own - size * week[-7:]) ** 2))
        assert error < 0.5 * size * week[-7:].std()


SIZES = {"small": 1.0, "large": 5.0, "middle": 3.0}
