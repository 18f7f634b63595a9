# SPDX-License-Identifier: Apache-2.0
"""Published figures are those of the committed results."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("lightgbm")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("a source distribution has no benchmarks", allow_module_level=True)
sys.path.append(str(BENCHMARKS))  # last: tests/ has modules of the same names as some scripts

import published  # noqa: E402

DOCS = published.ROOT / "docs"
PAGES = list(published.pages())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_are_made_of_the_committed_results(page):
    text = page.read_text("utf-8")
    assert published.written(text) == text, "run: python benchmarks/published.py"


@pytest.mark.parametrize("name", ["CHART", "BADGES"])
def test_pictures_are_those_of_the_committed_results_and_settings(name):
    made = getattr(published, name.lower())()
    assert getattr(published, name).read_text("utf-8") == made, (
        "run: python benchmarks/published.py"
    )


def test_every_block_is_on_a_page_and_ends():
    pages = [page.read_text("utf-8") for page in PAGES]
    names = [found[1] for text in pages for found in published.BLOCK.finditer(text)]
    assert sorted(names) == sorted(published.BLOCKS)
    assert sum(text.count("<!-- results: ") for text in pages) == len(names)


TABLE = re.compile(r"(?:^\|.*\n)+", re.M)
FIGURE = re.compile(r"\| \**[+−-]?\d*\.\d[^|a-z:]*(?=\|)")


@pytest.mark.parametrize(
    "page", [published.ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name
)
def test_tables_of_figures_have_results_or_say_what_printed_them(page):
    text = published.BLOCK.sub("", page.read_text("utf-8"))
    for found in TABLE.finditer(text):
        if len(FIGURE.findall(found[0])) < 12:
            continue
        assert page.name not in ("README.md", "results.md"), found[0]
        above = text[: found.start()].splitlines()[-1]
        command = re.fullmatch(r"<!-- figures: (?:no script|python (\S+).*) -->", above)
        assert command is not None, f"{page.name}: {found[0]}"
        assert command[1] is None or (published.ROOT / command[1]).is_file(), command[1]


def test_a_figure_that_somebody_typed_is_replaced():
    page = "<!-- results: default_ranks -->\n| mtboost | 1.0 |\n<!-- end -->\nafter\n"
    lines = published.written(page).splitlines()
    assert lines[0] == "<!-- results: default_ranks -->"
    assert lines[-2:] == ["<!-- end -->", "after"]
    assert "| mtboost | 1.0 |" not in lines


@pytest.mark.parametrize(
    ("value", "text"), [(0.9124, ".912"), (-0.0412, "-.041"), (9.804, "9.80"), (0.0, ".000")]
)
def test_scores_have_three_figures(value, text):
    assert published.plain(value) == text
