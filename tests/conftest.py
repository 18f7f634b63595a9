"""What several test files share."""

import pytest
import threadpoolctl


@pytest.fixture
def one_thread_unless_asked():
    """Let XGBoost use one thread by default; a parameter nthread still counts.

    It would start one thread per core even for tiny jobs: ten times slower where cores are busy.
    """
    with threadpoolctl.threadpool_limits(1, "openmp"):
        yield
