# SPDX-License-Identifier: Apache-2.0
"""What several of these tests share."""

from collections.abc import Iterator

import pytest
from robustness.limits import IS_SUPPORTED, Children


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """Runs scripts under limits of the system; mtboost and both libraries are imported."""
    if not IS_SUPPORTED:
        pytest.skip("limits of Linux")
    with Children(("mtboost", "mtboost.lightgbm", "sklearn.ensemble", "optuna")) as started:
        yield started
