# SPDX-License-Identifier: Apache-2.0
"""The stub of the extension names the arguments that the extension takes.

stubtest compares names of functions and classes only: Python cannot inspect the signature of a
compiled function. pybind11 writes it into the docstring.
"""

import ast
import re
from importlib.resources import files
from operator import attrgetter

import numpy as np
import pytest

from mtboost import _core

STUB = ast.parse((files("mtboost") / "_core.pyi").read_text(encoding="utf-8"))


def functions(body, owner=""):
    """Dotted name and declaration of every function and method that takes arguments."""
    for item in body:
        if isinstance(item, ast.ClassDef):
            yield from functions(item.body, f"{item.name}.")
        elif isinstance(item, ast.FunctionDef) and not (item.decorator_list or item.args.vararg):
            yield owner + item.name, item


def arguments(function):
    """Name, kind and default of each argument."""
    given = function.args
    positional = zip(
        given.args, [None] * (len(given.args) - len(given.defaults)) + given.defaults, strict=True
    )
    keyword = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    for kind, group in (("positional", positional), ("keyword", keyword)):
        for argument, default in group:
            value = "required" if default is None else ast.literal_eval(default)
            yield argument.arg, kind, np.float32(value) if isinstance(value, float) else value


@pytest.mark.parametrize(("name", "declared"), list(functions(STUB.body)))
def test_stub_has_the_arguments_of_the_compiled_function(name, declared):
    compiled = attrgetter(name)(_core)
    signatures = re.findall(
        rf"^(?:\d+\. )?({declared.name}\(.*) -> ", compiled.__doc__, re.MULTILINE
    )
    assert signatures
    for signature in signatures:
        function = ast.parse(f"def {signature}: ...").body[0]
        assert list(arguments(function)) == list(arguments(declared))
