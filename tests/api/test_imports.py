# SPDX-License-Identifier: Apache-2.0
"""Imports of the sources, against the drawings in docs/architecture.md."""

import ast
import graphlib
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
CORE_USERS = {"estimators", "lightgbm", "trees", "xgboost"}
XGBOOST_USERS = {"estimators/boosting/base.py", "estimators/importances.py", "spark.py"}
OPTIONAL = {
    *("pandas", "polars", "pyarrow", "matplotlib", "lightgbm", "optuna", "dask", "distributed"),
    "pyspark",
}

Graph = dict[str, set[str]]


# The graphs ---------------------------------------------------------------------------------------


def read_graph(text: str) -> Graph:
    """Return what each node reaches along the arrows."""
    arrows: Graph = {}
    for line in text.strip().splitlines()[1:]:
        nodes = re.findall(r"\w+", line)
        for node in nodes:
            arrows.setdefault(node, set())
        for user, used in itertools.pairwise(nodes):
            arrows[user].add(used)
    return {node: reach(arrows, node) for node in arrows}


def reach(arrows: Graph, node: str) -> set[str]:
    return arrows[node].union(*(reach(arrows, used) for used in arrows[node]))


PYTHON, MODEL, CPP = (
    read_graph(found) for found in re.findall(r"```mermaid\n(graph.*?)```", ARCHITECTURE, re.DOTALL)
)


# The sources --------------------------------------------------------------------------------------


def cpp_files() -> list[Path]:
    return sorted((ROOT / "cpp").glob("core/*/*.[ch]pp")) + sorted(
        (ROOT / "cpp").glob("bindings/*.[ch]pp")
    )


def includes(path: Path) -> Iterator[tuple[str, str]]:
    """Folders of this project and headers of others that a file includes."""
    for mark, name in re.findall(
        r'^#include (["<])([^">]+)', path.read_text("utf-8"), re.MULTILINE
    ):
        yield ("folder", name.split("/")[0]) if mark == '"' and "/" in name else ("header", name)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Return the modules that a file imports, and whether a function does so, or an annotation."""
    tree = ast.parse(path.read_text("utf-8"))
    deferred: set[ast.AST] = set()
    for node in ast.walk(tree):
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_for_types or isinstance(node, ast.FunctionDef):
            deferred.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path}: write imports in full"
            names = [node.module]
            if node.module == "mtboost" or module_path(node.module).is_dir():
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for imported in names:
            yield imported, node in deferred


def module_path(name: str) -> Path:
    return ROOT.joinpath(*name.split("."))


def python_files() -> list[Path]:
    return [p for p in sorted((ROOT / "mtboost").rglob("*.py")) if p.name != "__init__.py"]


def package_of(path: Path) -> str:
    return path.relative_to(ROOT / "mtboost").parts[0].removesuffix(".py")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_a_graph_is_read_with_all_it_reaches() -> None:
    found = read_graph("graph LR\n  a --> b --> c\n  d --> b\n  e\n")
    assert found == {"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"b", "c"}, "e": set()}


def test_imports_are_found_in_functions_and_for_annotations(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "import pandas as pd\n"
        "from mtboost.xgboost import assemble\n"
        "if TYPE_CHECKING:\n    import polars\n"
        "def plot():\n    from mtboost.model.plotting import draw\n"
    )
    assert sorted(imports(source)) == [
        ("mtboost.model.plotting", True),
        ("mtboost.xgboost.assemble", False),
        ("pandas", False),
        ("polars", True),
    ]


# The rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", cpp_files(), ids=relative)
def test_cpp_includes_follow_the_graph(path: Path) -> None:
    folder, allowed = path.parent.name, CPP
    used = {found for kind, found in includes(path) if kind == "folder"}
    assert used <= allowed[folder] | {folder}


@pytest.mark.parametrize(
    "path", [p for p in cpp_files() if relative(p).startswith("cpp/core/")], ids=relative
)
def test_the_core_knows_nothing_of_python(path: Path) -> None:
    headers = {found for _, found in includes(path)}
    assert not [header for header in headers if "python" in header.lower() or "pybind" in header]


@pytest.mark.parametrize("path", python_files(), ids=relative)
def test_python_imports_follow_the_graph(path: Path) -> None:
    package = package_of(path)
    for imported, _ in imports(path):
        if not imported.startswith("mtboost."):
            continue
        used = imported.split(".")[1]
        if used == "_core":
            assert package in CORE_USERS
        else:
            assert used in PYTHON[package] | {package}, f"{package} imports {used}"


@pytest.mark.parametrize(
    "path", [p for p in python_files() if package_of(p) == "model"], ids=relative
)
def test_imports_inside_model_follow_the_graph(path: Path) -> None:
    package = package_of_model(path.relative_to(ROOT).with_suffix("").parts)
    for imported, _ in imports(path):
        if imported.startswith("mtboost.model."):
            used = package_of_model(imported.split("."))
            assert used in MODEL[package] | {package}, f"{package} imports {used}"


def package_of_model(parts: Sequence[str]) -> str:
    """Return the node of a module mtboost.model.X in the drawing."""
    return parts[2] if parts[2] in MODEL else "fitting"


def test_no_module_imports_itself_through_others() -> None:
    """Neither when it is loaded, nor in a function, nor for annotations."""
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in python_files()}
    arrows = {
        name: {found for found, _ in imports(path) if found in names}
        for name, path in names.items()
    }
    order = graphlib.TopologicalSorter(arrows)
    order.prepare()  # raises CycleError
    assert len(names) > 100


def test_the_top_of_the_package_is_small() -> None:
    entries = {path.name for path in (ROOT / "mtboost").iterdir()}
    no_rooms = {"__init__.py", "__pycache__", "_core.pyi", "py.typed"}
    rooms = {name for name in entries - no_rooms if not name.endswith(".so")}
    assert "model" in rooms
    assert len(rooms) <= 12


@pytest.mark.parametrize("path", python_files(), ids=relative)
def test_other_libraries_load_where_they_are_needed(path: Path) -> None:
    at_import = {
        imported.split(".")[0] for imported, is_deferred in imports(path) if not is_deferred
    }
    is_of_forests = relative(path) == "mtboost/estimators/forests/plotting.py"
    own = {"matplotlib"} if is_of_forests else {package_of(path)}
    if package_of(path) == "dask":
        own |= {"distributed", "xgboost"}
    if relative(path).removeprefix("mtboost/") in XGBOOST_USERS:
        own.add("xgboost")
    assert at_import & (OPTIONAL | {"xgboost"}) <= own


@pytest.mark.parametrize("drawn", [PYTHON, MODEL, CPP], ids=["Python", "model", "C++"])
def test_every_package_is_described(drawn: Graph) -> None:
    for package in drawn:
        assert re.search(rf"^\| `[\w/]*\b{package}(/|\.py)`", ARCHITECTURE, re.MULTILINE)
