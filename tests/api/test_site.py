# SPDX-License-Identifier: Apache-2.0
"""The documentation site has every public name and every page, each near its front page."""

import importlib
import inspect
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS / "_extensions"))

import api_pages  # noqa: E402
import executed_notebooks  # noqa: E402
import repository_links  # noqa: E402

TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def entries(page):
    """Pages in the toctrees of a page."""
    path = DOCS / f"{page}.md"
    blocks = TOCTREE.findall(path.read_text("utf-8")) if path.exists() else []
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    lines = [line for line in lines if line and not line.startswith(":")]
    return [re.sub(r"^.*<(.*)>$", r"\1", line) for line in lines]


def clicks():
    """Least number of clicks from the front page to each page."""
    found, waiting = {"index": 0}, ["index"]
    for page in waiting:
        new = [entry for entry in entries(page) if entry not in found]
        found |= dict.fromkeys(new, found[page] + 1)
        waiting += new
    return found


@pytest.mark.parametrize("module", api_pages.importable())
def test_every_public_name_is_in_one_table_and_has_a_page(module):
    found = importlib.import_module(module)
    public = [
        name
        for name in getattr(found, "__all__", None) or vars(found)
        if not inspect.ismodule(getattr(found, name)) and not name.startswith("_")
    ]
    listed = Counter(name for _, names in api_pages.subjects(module) for name in names)
    assert listed == Counter(public)
    assert {f"{module}.{name}.rst" for name in public} <= set(api_pages.pages())


def test_submodules_that_are_public_are_in_the_reference():
    mtboost = importlib.import_module("mtboost")
    public = {name for name in mtboost.__all__ if inspect.ismodule(getattr(mtboost, name))}
    imported_when_used = {"dask", "lightgbm", "spark"}
    assert {f"mtboost.{name}" for name in public | imported_when_used} <= set(api_pages.MODULES)


def test_a_module_whose_library_is_missing_is_left_out_of_the_pages(monkeypatch):
    monkeypatch.setitem(api_pages.MODULES, "mtboost.no_such_module", "None")
    assert "mtboost.no_such_module" not in api_pages.importable()
    assert "mtboost.fit.rst" in api_pages.pages()


def test_a_name_that_no_subject_lists_is_still_in_the_reference(monkeypatch):
    monkeypatch.setattr(api_pages, "SUBJECTS", {"mtboost": {"Some": ("tu?e", "fit")}})
    tables = dict(api_pages.subjects("mtboost"))
    assert tables["Some"] == ["tune", "fit"]
    assert "MultiTaskModel" in tables["Others"]
    assert not {"tune", "fit"} & set(tables["Others"])


def test_every_page_is_at_most_two_clicks_from_the_front_page():
    """The reference, one click more, lists the names of the package."""
    found = clicks()
    pages = {path.stem for path in DOCS.glob("*.md")}
    assert pages <= set(found), f"in no toctree: {sorted(pages - set(found))}"
    assert max(found.values()) <= 2
    assert found["api/index"] == 2


@pytest.mark.parametrize("page", ["README", "start"])
def test_first_pages_train_plot_and_save_a_model(page):
    """At most one click from the front page, in code that tests/api/test_snippets.py runs."""
    path = DOCS.parent / "README.md" if page == "README" else DOCS / f"{page}.md"
    blocks = re.findall(
        r"^<!-- runnable -->\n```python\n(.*?)^```", path.read_text("utf-8"), re.M | re.S
    )
    needed = ["mtboost.fit(", "model.plot_", ".save"]
    assert any(all(part in block for part in needed) for block in blocks)


def test_the_front_page_shows_the_first_example_of_the_readme():
    """Sphinx takes the lines between the first two of these."""
    (options,) = re.findall(
        r"^```\{literalinclude\} ../README.md\n(.*?)^```",
        (DOCS / "index.md").read_text(),
        re.M | re.S,
    )
    marks = dict(re.findall(r"^:(.*?-.*?): \"(.*)\"$", options, re.M))
    assert marks == {"start-after": "```python", "end-before": "```"}
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    first = readme[readme.index("```python") :]
    assert first[: first.index("```", 3)].count("mtboost.fit(") == 1


def test_toctrees_name_pages_that_exist():
    for page in clicks():
        if page.startswith("gallery/plot_"):
            assert (DOCS.parent / "examples" / f"{Path(page).name}.py").exists(), page
        elif "/" not in page:
            assert (DOCS / f"{page}.md").exists(), page


def test_links_out_of_the_docs_lead_to_pages_of_the_site_or_to_the_source():
    page = (
        "[a](../examples/plot_a.py), [b](../CHANGELOG.md#x), [`c`](../tests/c.py), [d](other.md#y)"
    )
    site = "[a](gallery/plot_a.rst), [b](changelog.md#x), "
    assert repository_links.convert(page, None) == site + "`c`, [d](other.md#y)"
    linked = site + "[`c`](https://host/tree/tests/c.py), [d](other.md#y)"
    assert repository_links.convert(page, "https://host/tree/") == linked


def test_examples_begin_with_the_title_of_their_page():
    for path in sorted((DOCS.parent / "examples").glob("*.py")):
        title = re.search(r'^"""\n(.+)\n(=+)\n\n', path.read_text("utf-8"), re.MULTILINE)
        assert title is not None, path
        assert len(title[1]) == len(title[2]), path


def test_the_guides_offer_the_notebooks_that_the_build_executes():
    offered = re.findall(r"<gallery/(\w+)\.ipynb>", (DOCS / "guides.md").read_text("utf-8"))
    assert offered == list(executed_notebooks.EXECUTED)


def test_pictures_of_plots_are_those_that_the_example_draws():
    """The gallery numbers the pictures of an example in the order of its calls."""
    example = (DOCS.parent / "examples" / "plot_what_was_learned.py").read_text("utf-8")
    drawn = re.findall(r"plotting\.(plot_\w+)\(", example)
    page = (DOCS / "plots.md").read_text("utf-8")
    shown = re.findall(r"-card\} `(\w+)\(.*?_learned_(\d+)\.png\n:img-alt: (\w+)", page, re.S)
    assert [(name, int(number)) for name, number, _ in shown] == [
        (name, number) for number, name in enumerate(drawn, 1)
    ]
    assert all(name == described for name, _, described in shown)
    assert sorted(drawn) == sorted(importlib.import_module("mtboost.plotting").__all__)
