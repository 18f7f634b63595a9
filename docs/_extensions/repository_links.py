# SPDX-License-Identifier: Apache-2.0
"""Links of the Markdown pages to files outside of docs/, which work in a browser of the repository.

Examples, the changelog and the like become links to their pages. Other files become links to the
source tree at MTBOOST_DOCS_SOURCE, or plain text where that is not set.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LINK = re.compile(r"\[([^\]]*)\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "mtboost/__init__.py": "api/index.rst",
}


def convert(text: str, source: str | None) -> str:
    """Return a page of docs/ with the links that the site needs."""

    def link(found: re.Match[str]) -> str:
        title, target, anchor = found[1], PurePosixPath(found[2]), found[3] or ""
        if target.parts[0] == "examples" and target.suffix == ".py":
            return f"[{title}](gallery/{target.stem}.rst)"
        if str(target) in PAGES:
            return f"[{title}]({PAGES[str(target)]}{anchor})"
        return f"[{title}]({source.rstrip('/')}/{target}{anchor})" if source else title

    return LINK.sub(link, text)


def _convert_page(app: Sphinx, page: str, source: list[str]) -> None:
    if "/" not in page:
        source[0] = convert(source[0], os.environ.get("MTBOOST_DOCS_SOURCE"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the handler, and a lexer for drawings that hosts of repositories render."""
    from pygments.lexers.special import TextLexer

    app.connect("source-read", _convert_page)
    app.add_lexer("mermaid", TextLexer)
    return {"parallel_read_safe": True}
