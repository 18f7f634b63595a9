# SPDX-License-Identifier: Apache-2.0
"""LightGBM, Dask and Optuna are imported when they are asked for, and need not be there."""

import pytest
from processes import run_script

LIGHTGBM = "mtboost.lightgbm needs LightGBM. Run: pip install 'mtboost[lightgbm]'"
DASK = "mtboost.dask needs Dask. Run: pip install 'mtboost[dask]'"
OPTUNA = "tune() needs Optuna: pip install 'mtboost[tune]'."
ABSENT = "import sys; sys.modules[{0!r}] = None; import mtboost; {1}"  # as if not installed


@pytest.mark.parametrize("name", ["lightgbm", "optuna", "dask", "distributed"])
def test_importing_mtboost_does_not_import_it(name):
    found = run_script(f"import sys, mtboost; print({name!r} in sys.modules)")
    assert found.stdout == "False\n"


def test_the_plug_in_is_an_attribute_of_the_package():
    found = run_script("import mtboost; print(mtboost.lightgbm.TaskSplit.__name__)")
    assert found.stdout == "TaskSplit\n"


@pytest.mark.parametrize(
    ("name", "use", "message"),
    [
        ("lightgbm", "mtboost.lightgbm", LIGHTGBM),
        ("lightgbm", "import mtboost.lightgbm", LIGHTGBM),
        ("lightgbm", "mtboost.fit([[0.0], [1.0]], [0.0, 1.0], backend='lightgbm')", LIGHTGBM),
        ("dask", "mtboost.dask", DASK),
        ("dask", "from mtboost.dask import fit", DASK),
        ("optuna", "mtboost.tune([[0.0]], [0.0])", OPTUNA),
    ],
)
def test_without_it_the_message_tells_what_to_install(name, use, message):
    found = run_script(ABSENT.format(name, use), check=False)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == f"mtboost.errors.MissingDependencyError: {message}"


def test_an_attribute_that_is_not_there_is_an_attribute_error():
    found = run_script("import mtboost; mtboost.catboost", check=False)
    assert found.stderr.splitlines()[-1].startswith("AttributeError: module 'mtboost' has no")
