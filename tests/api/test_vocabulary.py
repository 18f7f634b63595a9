# SPDX-License-Identifier: Apache-2.0
"""Tables of the documentation: names of arguments, and lines for users of other libraries."""

import inspect
import re
from pathlib import Path

import lightgbm
import pytest
import xgboost
from libraries import LIBRARIES
from sklearn.model_selection import LeaveOneGroupOut, TimeSeriesSplit, cross_val_score

import mtboost
from mtboost.model.inputs import holding_out
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.sharing import planning
from mtboost.model.sharing.effort import EFFORTS

DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(r"`([^`]+)`")


def tables(page):
    """Rows of all tables of a page, without their heads."""
    found = re.findall(r"^\|.*\|$", (DOCS / page).read_text("utf-8"), re.MULTILINE)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in found]
    is_head = [
        number + 1 < len(cells) and is_line(cells[number + 1]) for number in range(len(cells))
    ]
    return [row for row, head in zip(cells, is_head, strict=True) if not head and not is_line(row)]


def is_line(cells):
    return set("".join(cells)) == {"-"}


def arguments(*functions):
    return {name for own in functions for name in inspect.signature(own).parameters}


VOCABULARY = [row for row in tables("usage.md") if len(row) == 4]
OF_FIT = arguments(mtboost.fit) - {"X", "y"}
OF_ESTIMATOR = arguments(mtboost.MultiTaskClassifier, mtboost.MultiTaskClassifier.fit)
OF_ESTIMATOR -= {"self", "X", "y"}


def library_names(backend, *functions):
    known, aliases = get_backend(backend).names_of_parameters()
    return {*known, *aliases, *arguments(*functions)}


def test_every_name_of_the_table_is_that_of_an_argument():
    train = xgboost.train, xgboost.DMatrix, xgboost.XGBClassifier
    of_xgboost = library_names("xgboost", *train)
    train = lightgbm.train, lightgbm.Dataset, lightgbm.LGBMClassifier
    of_lightgbm = library_names("lightgbm", *train)
    known = (
        OF_FIT | arguments(mtboost.MultiTaskModel.predict),
        OF_ESTIMATOR | {"model_.update()"},
        of_xgboost,
        of_lightgbm,
    )
    assert len(VOCABULARY) > 20
    for row in VOCABULARY:
        for cell, names in zip(row, known, strict=True):
            assert set(CODE.findall(cell)) <= names, row
    assert callable(mtboost.MultiTaskModel.update)


def test_the_table_has_every_argument_that_functions_or_estimators_have_alone():
    of_functions, of_estimators = (
        {name for row in VOCABULARY for name in CODE.findall(row[place])} for place in (0, 1)
    )
    assert of_functions >= OF_FIT - OF_ESTIMATOR
    assert of_estimators >= OF_ESTIMATOR - OF_FIT


@pytest.mark.parametrize("backend", LIBRARIES)
def test_parameters_of_the_estimators_reach_the_library_by_the_names_of_the_table(backend):
    place = {"xgboost": 2, "lightgbm": 3}[backend]
    library = get_backend(backend)
    aliases = library.names_of_parameters()[1]
    for row in VOCABULARY:
        if row[0] != "in `params`" or not row[place]:
            continue
        (name,), (expected,) = (CODE.findall(row[column]) for column in (1, place))
        (reached,) = library.named_parameters({name: 1}, {}).keys() - {"bagging_freq"}
        assert aliases.get(reached, reached) == aliases.get(expected, expected)


def test_each_line_for_users_of_other_libraries_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EFFORTS, "balanced", EFFORTS["fast"])  # short searches, held out once
    monkeypatch.setattr(holding_out, "_ENOUGH_ROWS", 0)
    monkeypatch.setattr(planning, "with_linear_effects", lambda *_: None)
    names = {
        "cross_val_score": cross_val_score,
        "LeaveOneGroupOut": LeaveOneGroupOut,
        "TimeSeriesSplit": TimeSeriesSplit,
    }
    page = (DOCS / "coming_from.md").read_text("utf-8")
    setup = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(setup[1], names)
    n_lines = 0
    for row in tables("coming_from.md"):
        for line in CODE.findall(row[1]):
            if "(" in line:
                eval(line, names)
                n_lines += 1
    assert n_lines > 20
