# SPDX-License-Identifier: Apache-2.0
"""Docstrings of all public names: complete, true to the signature, with examples that run."""

import ast
import dataclasses
import doctest
import importlib.util
import inspect
import re
import sys
import textwrap
from pathlib import Path

import pytest

from mtboost.base.docstrings import shares_docstring_of

sys.path.append(str(Path(__file__).parents[2] / "docs" / "_extensions"))

import api_pages

MODULES = (
    "mtboost",
    "mtboost.xgboost",
    "mtboost.lightgbm",
    "mtboost.datasets",
    "mtboost.metrics",
    "mtboost.plotting",
)
#: Of its classes the methods alone: their parameters are those of one machine.
DASK = ["mtboost.dask"] if importlib.util.find_spec("distributed") else []
TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def names_of(modules):
    return [
        f"{module}.{name}"
        for module in modules
        for name in importlib.import_module(module).__all__
        if not inspect.ismodule(getattr(importlib.import_module(module), name))
    ]


NAMES = names_of(MODULES)


def named(name):
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(module), own)


def sections(doc):
    """Text by title; the part before the first title has the title ''."""
    first, *rest = TITLE.split(doc)
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def entries(section):
    """Names and descriptions of the entries of a section."""
    found = {}
    for entry in re.split(r"^(?=\S)", section, flags=re.MULTILINE)[1:]:
        head, _, text = entry.partition("\n")
        for name in head.partition(" : ")[0].split(","):
            found[name.strip().lstrip("*")] = text.strip()
    return found


def is_result(item):
    """Whether functions make it, not users: its arguments are documented as attributes."""
    found = sections(inspect.getdoc(item))
    return inspect.isclass(item) and "Attributes" in found and "Parameters" not in found


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_lists_the_parameters_of_the_signature(name):
    item = named(name)
    found = sections(inspect.getdoc(item))
    listed = entries(found.get("Attributes" if is_result(item) else "Parameters", ""))
    parameters = [own for own in inspect.signature(item).parameters if not own.startswith("_")]
    if is_result(item):
        assert set(parameters) <= set(listed)
        assert all(hasattr(item, own) or own in parameters for own in listed)
    else:
        assert list(listed) == parameters
    assert all(listed.values()), [own for own, text in listed.items() if not text]


def raises(item):
    """Whether the body of a function, or of __init__, has a raise statement or a check."""
    function = item.__init__ if inspect.isclass(item) else item
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    return any(
        isinstance(node, ast.Raise)
        or (
            isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2][:6] == "check_"
        )
        for node in ast.walk(ast.parse(source))
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_has_the_sections_that_apply(name):
    item = named(name)
    found = sections(inspect.getdoc(item))
    summary = found[""].strip().split("\n\n")[0]
    assert summary.endswith("."), summary
    assert "\n" not in summary
    assert "Examples" in found or is_result(item)
    if not inspect.isclass(item):
        assert "Returns" in found
        assert "Raises" in found or not raises(item)
    elif not (dataclasses.is_dataclass(item) or hasattr(item, "get_params")):
        assert "Raises" in found or not raises(item)


def is_on_page(name, method):
    """Whether the page of a class has a method: others serve the package or the libraries."""
    shown = api_pages.METHODS.get(name, [method])
    return method in shown and not method.startswith("_") and method not in api_pages.LEFT_OUT


METHODS = sorted(
    f"{name}.{method}"
    for name in NAMES + names_of(DASK)
    if inspect.isclass(named(name))
    for method, function in inspect.getmembers(named(name), inspect.isfunction)
    if is_on_page(name, method) and function.__module__.startswith("mtboost.")
)


@pytest.mark.parametrize("name", METHODS)
def test_methods_list_their_parameters_and_results(name):
    owner, _, method = name.rpartition(".")
    function = getattr(named(owner), method)
    found = sections(inspect.getdoc(function))
    parameters = [own for own in inspect.signature(function).parameters if own != "self"]
    listed = entries(found.get("Parameters", ""))
    assert list(listed) == parameters
    assert all(listed.values())
    if inspect.signature(function).return_annotation != "None":
        assert re.search(
            r"^    \S", found.get("Returns", "") + found.get("Yields", ""), re.MULTILINE
        )


@pytest.mark.parametrize("name", [name for name in NAMES if ">>>" in inspect.getdoc(named(name))])
def test_the_examples_run(name):
    if name == "mtboost.xgboost.ProjectedObjective":
        pytest.importorskip("xgboost.objective")  # from XGBoost 3.2 on
    if name.startswith("mtboost.plotting."):
        pytest.importorskip("matplotlib").use("agg")
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(named(name)), {}, name, None, 0)
    failures = []
    doctest.DocTestRunner(verbose=False).run(example, out=failures.append)
    assert not failures, "".join(failures)
    assert any(doctest.SKIP not in step.options for step in example.examples)


class Complete:
    """Complete.

    Parameters
    ----------
    one : int
        First.
    two : int
        Second.

    Attributes
    ----------
    one_ : int
        Found.
    classes_ : list
        Not everywhere.
    """

    def __init__(self, one, two):
        pass


def test_a_shared_docstring_has_own_and_shared_entries_in_the_order_of_the_signature():
    @shares_docstring_of(Complete, without=["classes_"])
    class Similar:
        """Similar.

        Parameters
        ----------
        two : float
            Another.

        Notes
        -----
        Kept.
        """

        def __init__(self, two, one):
            pass

    found = sections(inspect.getdoc(Similar))
    assert list(found) == ["", "Parameters", "Attributes", "Notes"]
    assert list(entries(found["Parameters"]).items()) == [("two", "Another."), ("one", "First.")]
    assert entries(found["Attributes"]) == {"one_": "Found."}
    assert found["Notes"].strip() == "Kept."


def test_a_function_shares_parameters_and_the_sections_that_are_named():
    def source(one, two):
        """Complete.

        Parameters
        ----------
        one : int
            First.
        two : int
            Second.

        Raises
        ------
        ValueError
            Always.

        Notes
        -----
        Of the source alone.
        """

    @shares_docstring_of(source, sections=["Raises"])
    def similar(own, two, **one):
        """Similar.

        Parameters
        ----------
        own : int
            New.
        **one : int
            Another.

        Examples
        --------
        None.
        """

    found = sections(inspect.getdoc(similar))
    assert list(found) == ["", "Parameters", "Raises", "Examples"]
    expected = {"own": "New.", "two": "Second.", "one": "Another."}
    assert list(entries(found["Parameters"]).items()) == list(expected.items())
    assert "Always." in found["Raises"]


def test_a_parameter_that_neither_docstring_has_is_found_at_import():
    with pytest.raises(KeyError, match="three"):

        @shares_docstring_of(Complete)
        class Similar:
            """Similar."""

            def __init__(self, three):
                pass
