# SPDX-License-Identifier: Apache-2.0
"""Reference pages of all public names, written from ``__all__`` before Sphinx reads the pages.

``api/index.rst`` lists the names by subject, and each function or class has a page. Public names
that no subject lists are in the last table of their module, so that nothing is left out. When all
pages are read, a public name without an entry in the index is a warning.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

MODULES = {
    "mtboost": "mtboost",
    "mtboost.xgboost": "Plug-ins for XGBoost",
    "mtboost.lightgbm": "Plug-ins for LightGBM",
    "mtboost.dask": "Several machines",
    "mtboost.spark": "Several machines, with Spark",
    "mtboost.plotting": "Plots",
    "mtboost.metrics": "Metrics",
    "mtboost.datasets": "Data sets",
    "mtboost.errors": "Errors",
}
SUBJECTS = {
    "mtboost": {
        "Models of several tasks": (
            "fit",
            "tune",
            "load_model",
            "MultiTaskModel",
            "average_models",
        ),
        "Estimators for scikit-learn": ("MultiTask*",),
        "The common model alone": ("train", "Dataset", "make_split_score"),
        "Many outputs": ("ProjectedBoosting*", "ProjectedForest*"),
        "Forests and trees": ("MT*", "compress"),
        "Little data, known problems": ("feature_prior", "PriorSampling*"),
    },
    "mtboost.datasets": {
        "Public and bundled data": ("fetch_*", "load_*", "get_data_home"),
        "Generated data": ("*",),
    },
}
PAGE = re.compile(r"`{0,2}\bdocs/(\w+)\.md\b`{0,2}")
OF_SCIKIT_LEARN = ("set_*_request", "get_metadata_routing", "get_params", "set_params")
OF_XGBOOST = ("before_training", "before_iteration", "after_iteration", "after_training")
LEFT_OUT = (*OF_SCIKIT_LEARN, *OF_XGBOOST)
#: Methods for users of a class that has others for the package.
METHODS = {"mtboost.Dataset": ("n_rows", "labels", "of_tasks", "take")}


def importable() -> list[str]:
    """Return the modules whose libraries are installed; a build warns of the others."""
    return [module for module in MODULES if _can_import(module)]


def _can_import(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def public_names(module: str) -> list[str]:
    """Return the public functions and classes of a module; modules have tables of their names."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [
        name for name, item in vars(found).items() if getattr(item, "__module__", "") == module
    ]
    return [name for name in names if not inspect.ismodule(getattr(found, name))]


def subjects(module: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the public names of each table of a module, each name once."""
    rest = public_names(module)
    tables = {}
    for title, patterns in SUBJECTS.get(module, {}).items():
        tables[title] = [name for p in patterns for name in rest if fnmatch(name, p)]
        rest = [name for name in rest if name not in tables[title]]
    yield from tables.items()
    if rest:
        yield "Others" if tables else "", rest


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    found = {}
    index = [_title("API reference", "=")]
    index.append("Every public name. Functions and classes that are not listed here may change.\n")
    for module in importable():
        if module != "mtboost":
            index += [_title(MODULES[module], "-"), f".. automodule:: {module}\n   :no-members:\n"]
        for subject, names in subjects(module):
            if subject:
                index.append(_title(subject, "-"))
            rows = "\n".join(f"   {name}" for name in names)
            index += [f".. currentmodule:: {module}\n", f".. autosummary::\n\n{rows}\n"]
            found |= {f"{module}.{name}.rst": _page(module, name) for name in names}
    entries = "\n".join(
        f"   {page.removeprefix('mtboost.')} <{page}>"
        for page in (name.removesuffix(".rst") for name in found)
    )
    index.append(f".. toctree::\n   :hidden:\n\n{entries}\n")
    return {"index.rst": "\n".join(index)} | found


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def _page(module: str, name: str) -> str:
    item = getattr(importlib.import_module(module), name)
    if inspect.isclass(item):
        methods = ", ".join(METHODS.get(f"{module}.{name}", ()))
        members = (
            f"   :members: {methods}\n" if methods else "   :members:\n   :inherited-members:\n"
        )
        is_error = issubclass(item, BaseException)
        directive = f".. autoclass:: {name}\n{'' if is_error else members}"
    else:
        directive = f".. autofunction:: {name}\n"
    examples = f".. minigallery:: {module}.{name}\n   :add-heading: Examples with {name}\n"
    parts = _title(f"{module}.{name}", "="), f".. currentmodule:: {module}\n", directive, examples
    return "\n".join(parts)


def _write_pages(app: Sphinx) -> None:
    folder = Path(app.srcdir, "api")
    folder.mkdir(exist_ok=True)
    found = pages()
    for old in folder.glob("*.rst"):
        if old.name not in found:
            old.unlink()
    for name, text in found.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:  # unchanged pages are not read
            path.write_text(text, "utf-8")


def _skip_member(
    app: Sphinx, what: str, name: str, item: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out methods that scikit-learn and Python's own classes define, or XGBoost calls."""
    if what != "class" or skip:
        return None
    function = item.fget if isinstance(item, property) else inspect.unwrap(item)
    module = getattr(function, "__module__", None) or "mtboost"  # values of classes have none
    is_foreign = callable(function) and not module.startswith("mtboost")
    return True if is_foreign or any(fnmatch(name, p) for p in LEFT_OUT) else None


def _without_signature(
    app: Sphinx, what: str, name: str, item: Any, options: Any, signature: str, result: str
) -> tuple[str, str] | None:
    """Leave out the constructor of what functions make: such classes document attributes only."""
    doc = inspect.getdoc(item) or ""
    is_made = "\nAttributes\n---" in doc and "\nParameters\n---" not in doc
    return ("", "") if what == "class" and is_made else None


def _link_pages(
    app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]
) -> None:
    """Make links of the names of pages, such as docs/strategies.md."""
    lines[:] = [PAGE.sub(r":doc:`/\1`", line) for line in lines]


def _check_complete(app: Sphinx, env: BuildEnvironment) -> None:
    from sphinx.util import logging

    logger, known = logging.getLogger(__name__), env.domains["py"].objects
    for module in MODULES:
        if not _can_import(module):
            logger.warning("%s cannot be imported, and is not in the reference", module)
            continue
        for name in public_names(module):
            if f"{module}.{name}" not in known:
                logger.warning("%s.%s is public and not in the reference", module, name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the handlers."""
    app.connect("builder-inited", _write_pages, priority=100)  # before the gallery's
    app.connect("autodoc-skip-member", _skip_member)
    app.connect("autodoc-process-signature", _without_signature)
    app.connect("autodoc-process-docstring", _link_pages)
    app.connect("env-check-consistency", _check_complete)
    return {"parallel_read_safe": True}
