# SPDX-License-Identifier: Apache-2.0
"""LightGBM, Dask and Optuna are imported when they are asked for, and need not be there."""

import pytest
from processes import run_script

LIGHTGBM = "mtboost.lightgbm needs LightGBM. Run: pip install 'mtboost[lightgbm]'"
DASK = "mtboost.dask needs Dask. Run: pip install 'mtboost[dask]'"
OPTUNA = "tune() needs Optuna: pip install 'mtboost[tune]'."
# As if it were not installed.
ABSENT = """
import sys
sys.modules[{name!r}] = None
import mtboost
for use in {uses}:
    try:
        exec(use)
    except mtboost.errors.MissingDependencyError as error:
        print(f"MissingDependencyError: {{error}}")
"""


def test_importing_mtboost_does_not_import_it():
    names = {"lightgbm", "optuna", "dask", "distributed"}
    found = run_script(f"import sys, mtboost; print({names!r} & sys.modules.keys())")
    assert found.stdout == "set()\n"


def test_the_plug_in_is_an_attribute_of_the_package():
    found = run_script("import mtboost; print(mtboost.lightgbm.TaskSplit.__name__)")
    assert found.stdout == "TaskSplit\n"


@pytest.mark.parametrize(
    ("name", "uses", "message"),
    [
        (
            "lightgbm",
            [
                "mtboost.lightgbm",
                "import mtboost.lightgbm",
                "mtboost.fit([[0.0], [1.0]], [0.0, 1.0], backend='lightgbm')",
            ],
            LIGHTGBM,
        ),
        ("dask", ["mtboost.dask", "from mtboost.dask import fit"], DASK),
        ("optuna", ["mtboost.tune([[0.0]], [0.0])"], OPTUNA),
    ],
)
def test_without_it_the_message_tells_what_to_install(name, uses, message):
    found = run_script(ABSENT.format(name=name, uses=uses))
    assert found.stdout.splitlines() == [f"MissingDependencyError: {message}"] * len(uses)


def test_an_attribute_that_is_not_there_is_an_attribute_error():
    found = run_script("import mtboost; mtboost.catboost", check=False)
    assert found.stderr.splitlines()[-1].startswith("AttributeError: module 'mtboost' has no")
