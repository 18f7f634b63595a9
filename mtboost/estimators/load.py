# SPDX-License-Identifier: Apache-2.0
"""``load_model``: from a file to the model or the estimator that wrote it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from mtboost.base.archive import read_model
from mtboost.base.atomic_file import PathName
from mtboost.estimators.boosting import (
    PriorSamplingClassifier,
    PriorSamplingRegressor,
    ProjectedBoostingClassifier,
    ProjectedBoostingRegressor,
)
from mtboost.estimators.files import SavedEstimator, unpack
from mtboost.estimators.forests.compressed_forests import (
    CompressedForestClassifier,
    CompressedForestRegressor,
)
from mtboost.estimators.forests.mt_adaboost import MTAdaBoostClassifier
from mtboost.estimators.forests.mt_decision_tree import MTDecisionTreeClassifier
from mtboost.estimators.forests.mt_extra_trees import MTExtraTreesClassifier, MTExtraTreesRegressor
from mtboost.estimators.forests.projected import ProjectedForestClassifier, ProjectedForestRegressor
from mtboost.estimators.multi_task import MultiTaskClassifier, MultiTaskRanker, MultiTaskRegressor
from mtboost.model.model import MultiTaskModel

_KINDS: dict[str, type[SavedEstimator]] = {
    kind.__name__: kind
    for kind in (
        CompressedForestClassifier,
        CompressedForestRegressor,
        MTAdaBoostClassifier,
        MTDecisionTreeClassifier,
        MTExtraTreesClassifier,
        MTExtraTreesRegressor,
        MultiTaskClassifier,
        MultiTaskRanker,
        MultiTaskRegressor,
        PriorSamplingClassifier,
        PriorSamplingRegressor,
        ProjectedBoostingClassifier,
        ProjectedBoostingRegressor,
        ProjectedForestClassifier,
        ProjectedForestRegressor,
    )
}


def load_model(path: PathName) -> Any:
    """Read what ``save`` of a :class:`MultiTaskModel` or of an estimator wrote.

    A damaged file is refused, and no code that a file brings is run. What a forged file can do is
    described in docs/trusting_model_files.md.

    Parameters
    ----------
    path : str, bytes or path-like
        A file as described in docs/model_file.md.

    Returns
    -------
    MultiTaskModel or fitted estimator
        What was saved.

    Raises
    ------
    ModelFormatError
        The file is not an mtboost model, is damaged, or comes from a newer version.
    FileNotFoundError
        There is no such file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import mtboost
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = mtboost.fit(X, X[:, 0], num_boost_round=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "model.mtboost")
    ...     loaded = mtboost.load_model(Path(folder) / "model.mtboost")
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    return read_model(path, _from_parts)


def _from_parts(metadata: dict[str, Any], members: Mapping[str, bytes]) -> Any:
    """Raises if anything does not fit."""
    if "estimator" in metadata:
        content = unpack(metadata, members)
        with warnings.catch_warnings():  # parameters may have their old names
            warnings.simplefilter("ignore", FutureWarning)
            estimator = _KINDS[content["estimator"]](**content["parameters"])
        estimator._set_from_file({**content, "files": members})
        return estimator
    return MultiTaskModel._from_file(metadata, members)
