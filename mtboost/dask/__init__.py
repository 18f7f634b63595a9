# SPDX-License-Identifier: Apache-2.0
"""mtboost on the workers of Dask: rows of many machines in, the model of one machine out."""

from mtboost.errors import MissingDependencyError

try:  # before anything that needs them
    import dask.array
    import dask.dataframe  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        "mtboost.dask needs Dask. Run: pip install 'mtboost[dask]'"
    ) from error

from mtboost.dask.estimators import DaskMultiTaskClassifier, DaskMultiTaskRegressor
from mtboost.dask.fitting import fit
from mtboost.dask.predicting import predict

__all__ = ["DaskMultiTaskClassifier", "DaskMultiTaskRegressor", "fit", "predict"]
