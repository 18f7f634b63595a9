# SPDX-License-Identifier: Apache-2.0
"""`mtboost.lightgbm` is there when it is asked for, and LightGBM need not be."""

import subprocess
import sys

import pytest

WITHOUT_LIGHTGBM = """
import sys
sys.modules["lightgbm"] = None  # as if it were not installed
import mtboost
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)


def test_importing_mtboost_does_not_import_lightgbm() -> None:
    found = run("import sys, mtboost; print('lightgbm' in sys.modules)")
    assert found.stdout == "False\n", found.stderr


def test_it_is_an_attribute_of_the_package() -> None:
    found = run("import mtboost; print(mtboost.lightgbm.TaskSplit.__name__)")
    assert found.stdout == "TaskSplit\n", found.stderr


@pytest.mark.parametrize(
    "use",
    [
        "mtboost.lightgbm",
        "import mtboost.lightgbm",
        "mtboost.fit([[0.0], [1.0]], [0.0, 1.0], backend='lightgbm')",
    ],
)
def test_without_lightgbm_the_message_tells_what_to_install(use: str) -> None:
    found = run(WITHOUT_LIGHTGBM + use)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == (
        "mtboost.errors.MissingDependencyError: mtboost.lightgbm needs LightGBM. "
        "Run: pip install 'mtboost[lightgbm]'"
    )


def test_an_attribute_that_is_not_there_is_an_attribute_error() -> None:
    found = run("import mtboost; mtboost.catboost")
    assert found.stderr.splitlines()[-1].startswith("AttributeError: module 'mtboost' has no")
