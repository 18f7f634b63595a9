# SPDX-License-Identifier: Apache-2.0
"""Who uses whom in the sources, against the graphs in docs/architecture.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
CORE_USERS = {
    "boosting",
    "forests",
    "growth",
    "lightgbm",
    "losses",
    "projections",
    "scores",
    "table_estimator",
    "xgboost",
}
OPTIONAL = {"pandas", "polars", "pyarrow", "matplotlib", "lightgbm", "optuna"}

Graph = dict[str, set[str]]


# The graphs ---------------------------------------------------------------------------------------


def read_graph(text: str) -> tuple[Graph, Graph]:
    """What each node reaches along arrows, and along dotted arrows."""
    arrows: Graph = {}
    dotted: Graph = {}
    for line in text.strip().splitlines()[1:]:
        nodes = re.findall(r"\w+", line)
        for node in nodes:
            arrows.setdefault(node, set())
        for kind, user, used in zip(re.findall(r"-->|-\.->", line), nodes, nodes[1:], strict=False):
            (arrows if kind == "-->" else dotted).setdefault(user, set()).add(used)
    return {node: reach(arrows, node) for node in arrows}, dotted


def reach(arrows: Graph, node: str) -> set[str]:
    return arrows[node].union(*(reach(arrows, used) for used in arrows[node]))


CPP, PYTHON, XGBOOST, LIGHTGBM, BOOSTING, FORESTS, DATASETS = map(
    read_graph, re.findall(r"```mermaid\n(graph.*?)```", ARCHITECTURE, re.DOTALL)
)
PACKAGES = {
    "xgboost": XGBOOST,
    "lightgbm": LIGHTGBM,
    "boosting": BOOSTING,
    "forests": FORESTS,
    "datasets": DATASETS,
}


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
    """Modules that a file imports, and whether a function does so; those for types are left out."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped: set[ast.AST] = set()
    deferred: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            skipped.update(ast.walk(node))
        elif isinstance(node, ast.FunctionDef):
            deferred.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path}: write imports in full"
            names = [node.module]
            if node.module in ("mtboost", *(f"mtboost.{package}" for package in PACKAGES)):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for imported in names:
            yield imported, node in deferred


def python_files() -> list[Path]:
    return [p for p in sorted((ROOT / "mtboost").rglob("*.py")) if p.name != "__init__.py"]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_a_graph_is_read_with_all_it_reaches() -> None:
    arrows, dotted = read_graph("graph LR\n  a --> b --> c\n  a -.-> d\n  e\n")
    assert arrows == {"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": set(), "e": set()}
    assert dotted == {"a": {"d"}}


def test_imports_are_told_apart_by_where_they_stand(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "import pandas as pd\n"
        "from mtboost.xgboost import assemble\n"
        "if TYPE_CHECKING:\n    import polars\n"
        "def plot():\n    from mtboost.plotting import draw\n"
    )
    assert sorted(imports(source)) == [
        ("mtboost.plotting", True),
        ("mtboost.xgboost.assemble", False),
        ("pandas", False),
    ]


# The rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", cpp_files(), ids=relative)
def test_cpp_includes_follow_the_graph(path: Path) -> None:
    folder, allowed = path.parent.name, CPP[0]
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
    arrows, dotted = PYTHON
    module = path.relative_to(ROOT / "mtboost").parts[0].removesuffix(".py")
    for imported, is_deferred in imports(path):
        if not imported.startswith("mtboost."):
            continue
        used = imported.split(".")[1]
        if used == "_core":
            assert module in CORE_USERS
            continue
        allowed = arrows[module] | {module}
        if is_deferred:
            allowed |= dotted.get(module, set())
        assert used in allowed, f"{module} imports {used}"


@pytest.mark.parametrize(
    "path", [p for p in python_files() if p.parent.name in PACKAGES], ids=relative
)
def test_imports_within_a_package_follow_its_graph(path: Path) -> None:
    package = f"mtboost.{path.parent.name}."
    used = {imported.split(".")[2] for imported, _ in imports(path) if imported.startswith(package)}
    arrows, _ = PACKAGES[path.parent.name]
    assert used <= arrows[path.stem]


@pytest.mark.parametrize("path", python_files(), ids=relative)
def test_other_libraries_load_where_they_are_needed(path: Path) -> None:
    at_import = {
        imported.split(".")[0] for imported, is_deferred in imports(path) if not is_deferred
    }
    module = path.relative_to(ROOT / "mtboost").parts[0].removesuffix(".py")
    own = {"plotting": {"matplotlib"}, "lightgbm": {"lightgbm"}}
    assert at_import & OPTIONAL <= own.get(module, set())
    if "xgboost" in at_import:
        assert module == "xgboost" or "xgboost" in PYTHON[0][module]


@pytest.mark.parametrize("path", [*cpp_files(), *python_files()], ids=relative)
def test_every_source_file_has_its_line_in_the_architecture(path: Path) -> None:
    listing = re.search(r"```text\n(pyproject.*?)```", ARCHITECTURE, re.DOTALL)
    assert listing is not None
    entry = path.stem if path.suffix in (".hpp", ".cpp") else path.name
    if "bindings" in path.parts:
        entry = "bind_<step>.cpp" if entry.startswith("bind_") else path.name
    if entry == "bindings.hpp":  # declares what module.cpp lists
        return
    assert re.search(rf"(?<![\w.]){re.escape(entry)}(?!\w)", listing[1]), f"{entry} is not listed"
