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


TABLE = re.compile(r"(?:^ *\|.*\n)+", re.M)
HEADING = re.compile(r"^#+ (.+)$", re.M)
CODE = re.compile(r"^```.*?^```$", re.M | re.S)
FIGURE = re.compile(r"[^A-Za-z`]*\d[^A-Za-z`]*(?:[kMG]?B|m?s|in all)?")  # no words but a unit
NOT_MEASURED = {  # section of a page: what its numbers are
    ("mixed_tasks", "What makes the losses comparable"): "units of labels",
    ("several_machines", "A large case on paper"): "computed, as it says",
    ("strategies", "Effort"): "settings",
}


def sections_with_typed_figures(page: Path) -> set[tuple[str, str]]:
    """Sections with a table outside of blocks of which two or more cells are numbers."""
    text = CODE.sub("", published.BLOCK.sub("", page.read_text("utf-8")))
    found = set()
    for match in TABLE.finditer(text):
        cells = [cell.strip() for line in match[0].splitlines()[2:] for cell in line.split("|")]
        if sum(FIGURE.fullmatch(cell) is not None for cell in cells) > 1:
            found.add((page.stem, HEADING.findall(text[: match.start()])[-1]))
    return found


def test_tables_of_measurements_are_made_of_committed_results():
    typed = {
        section
        for page in (published.ROOT / "README.md", *DOCS.glob("*.md"))
        for section in sections_with_typed_figures(page)
    }
    assert typed == set(NOT_MEASURED)


WITH_ERROR = re.compile(r"\d %?[ \u00a0]?±[ \u00a0]?\.?\d")


def test_sentences_have_no_typed_standard_errors():
    for page in (published.ROOT / "README.md", *DOCS.glob("*.md")):
        text = CODE.sub("", published.BLOCK.sub("", page.read_text("utf-8")))
        assert not WITH_ERROR.findall(text), page
    assert WITH_ERROR.search("is ahead by .013 ± .002, and by 3.7 ± .6 %")


def test_a_typed_table_of_measurements_is_found(tmp_path):
    page = tmp_path / "page.md"
    table = "| | gain |\n|---|---|\n| ours | +.012 ± .003 |\n| theirs | 1.5 s |\n"
    page.write_text(f"# Speed\n\n{table}", "utf-8")
    assert sections_with_typed_figures(page) == {("page", "Speed")}
    page.write_text(f"# Speed\n\n<!-- results: speed -->\n{table}<!-- end -->\n", "utf-8")
    assert not sections_with_typed_figures(page)


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
