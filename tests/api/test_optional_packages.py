# SPDX-License-Identifier: Apache-2.0
"""LightGBM, Dask and Optuna are imported when they are asked for, and need not be there."""

from processes import run_script

LIGHTGBM = "mtboost.lightgbm needs LightGBM. Run: pip install 'mtboost[lightgbm]'"
DASK = "mtboost.dask needs Dask. Run: pip install 'mtboost[dask]'"
OPTUNA = "tune() needs Optuna: pip install 'mtboost[tune]'."
USES = {
    "mtboost.lightgbm": LIGHTGBM,
    "import mtboost.lightgbm": LIGHTGBM,
    "mtboost.fit([[0.0], [1.0]], [0.0, 1.0], backend='lightgbm')": LIGHTGBM,
    "mtboost.dask": DASK,
    "from mtboost.dask import fit": DASK,
    "mtboost.tune([[0.0]], [0.0])": OPTUNA,
}
# As if they were not installed.
ABSENT = f"""
import sys
sys.modules |= dict.fromkeys(["lightgbm", "dask", "optuna"])
import mtboost
for use in {[*USES]}:
    try:
        exec(use)
    except mtboost.errors.MissingDependencyError as error:
        print(error)
"""
PRESENT = """
import sys
import mtboost
print({"lightgbm", "optuna", "dask", "distributed"} & sys.modules.keys())
print(mtboost.lightgbm.TaskSplit.__name__)
mtboost.catboost
"""


def test_importing_mtboost_does_not_import_them_and_a_plug_in_is_an_attribute():
    found = run_script(PRESENT, check=False)
    assert found.stdout.splitlines() == ["set()", "TaskSplit"]
    assert found.stderr.splitlines()[-1].startswith("AttributeError: module 'mtboost' has no")


def test_without_them_the_message_tells_what_to_install():
    assert run_script(ABSENT).stdout.splitlines() == [*USES.values()]
