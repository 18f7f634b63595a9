# SPDX-License-Identifier: Apache-2.0
"""Lengths of functions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 60


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without the docstring."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_the_docstring_does_not_count() -> None:
    source = 'def f():\n    """One.\n\n    Two.\n    """\n    g(\n        1,\n    )\n    return 2\n'
    (function,) = ast.parse(source).body
    assert length(function) == 4


@pytest.mark.parametrize("folder", ["mtboost", "benchmarks", "examples", "tests"])
def test_functions_are_short_enough_to_be_read_at_once(folder: str) -> None:
    """Constructors, which list attributes, may be longer."""
    found = {
        f"{path.relative_to(ROOT)}, line {node.lineno}: {node.name}": length(node)
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__"
    }
    assert len(found) > 50
    assert {name: lines for name, lines in found.items() if lines > MOST_LINES} == {}
