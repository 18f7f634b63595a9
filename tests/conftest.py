# SPDX-License-Identifier: Apache-2.0
"""What several test files share."""

import os
import sys
from collections.abc import Iterator
from functools import cache

import pytest
import threadpoolctl
from libraries import LIBRARIES

from mtboost.errors import UnsupportedError

# The processes of pytest-xdist inherit it: threads that wait leave the cores to the others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail if any test is skipped")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let --no-skips count skipped tests and files, which the summary lists, as failures."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("no_skips", False) and reporter and reporter.stats.get("skipped"):
        reporter.write_line("--no-skips: something was skipped", red=True)
        session.exitstatus = max(exitstatus, pytest.ExitCode.TESTS_FAILED)


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES)
def library(request):
    """For tests of what holds whichever library makes the boosters."""
    return request.param


@pytest.fixture
def one_thread_unless_asked():
    """Let XGBoost use one thread by default; a parameter nthread still counts.

    It would start one thread per core even for tiny jobs: ten times slower where cores are busy.
    """
    with _thread_pools().limit(limits=1, user_api="openmp"):
        yield


@cache
def _thread_pools() -> threadpoolctl.ThreadpoolController:
    """Of the libraries imported above; finding them takes longer than many a test."""
    return threadpoolctl.ThreadpoolController()


@pytest.fixture(autouse=True)
def figures_are_closed():
    """Close what a test or an example has drawn: matplotlib warns of many open figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def skip_unreadable_tables(item: pytest.Item) -> Iterator[None]:
    """Skip a test whose tables the installed XGBoost does not read, with what mtboost says of it.

    Many tests use categories of polars and pyarrow (XGBoost 3.0 knows none) or frames of
    pandas 3 (not recognised by XGBoost 3.1) that this stands here instead of marks. A test that
    makes XGBoost's matrix of a frame itself calls check_readable() first. From XGBoost 3.2 on
    nothing is skipped: tests/robustness/test_tables.py sees to that.
    """
    try:
        return (yield)
    except UnsupportedError as error:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        if traceback is not None and traceback.tb_frame.f_code.co_name == "check_readable":
            pytest.skip(str(error))
        raise


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(skip_unreadable_tables)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(skip_unreadable_tables)
