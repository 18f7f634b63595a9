# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ show, works.

A Python block after the line ``<!-- runnable -->`` is run. The blocks of a page share their names,
as if a reader typed them one after the other.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNABLE = re.compile(r"^<!-- runnable -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def name(page):
    return page.relative_to(ROOT).as_posix()


def snippets(page):
    return list(RUNNABLE.finditer(page.read_text("utf-8")))


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=name)
def test_snippets_run_in_the_order_of_the_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in snippets(page):
        n_lines_above = block.string.count("\n", 0, block.start(1))
        # Empty lines in front, so that a traceback names the line of the page.
        exec(compile("\n" * n_lines_above + block[1], page, "exec"), names)


def test_every_mark_is_followed_by_a_python_block():
    for page in PAGES:
        assert page.read_text("utf-8").count("<!-- runnable -->") == len(snippets(page)), page


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page):
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_readme_runs_an_example_that_is_there():
    command = re.search(
        r"^pip install \. && python (\S+)$", PAGES[0].read_text("utf-8"), re.MULTILINE
    )
    assert command is not None
    assert (ROOT / command[1]).exists()
