# SPDX-License-Identifier: Apache-2.0
"""Elements of a page: text is escaped by construction, and figures are inline SVG.

A page refers to nothing outside itself and runs no script.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import numpy as np

from mtboost.errors import DataError, MissingDependencyError, UnsupportedError
from mtboost.model.plots.drawing import COLORS, FAINT, MUTED, WAY_COLORS, pyplot, unseen_figures

Element = ElementTree.Element
Child = Element | str | None

# Colours of the plots, and the variables of the page's style that replace them.
_INK, _PAPER = "#010203", "#fdfcfb"
_VARIABLES = {
    _INK: "currentColor",
    _PAPER: "var(--card)",
    FAINT: "var(--faint)",
    MUTED: "var(--muted)",
    **{color: f"var(--way{number})" for number, color in enumerate(WAY_COLORS)},
    **{color.lower(): f"var(--color{number})" for number, color in enumerate(COLORS)},
}
_COLOR = re.compile("|".join(_VARIABLES), re.IGNORECASE)
_FONT = re.compile(r"font-family: [^;]+; ?")  # the page has one for all texts
_REFERENCE = re.compile(r"#([\w.-]+)")
_STYLE = {
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK
    ),
    "axes.facecolor": _PAPER,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text that can be searched and read aloud
    "font.size": 10.0,
}


def element(tag: str, *children: Child, **attributes: str) -> Element:
    """Return an element; ``class_`` is its class, and texts among the children are escaped."""
    made = Element(tag, {name.rstrip("_"): value for name, value in attributes.items()})
    last: Element | None = None
    for child in children:
        if isinstance(child, str):
            if last is None:
                made.text = (made.text or "") + child
            else:
                last.tail = (last.tail or "") + child
        elif child is not None:
            made.append(child)
            last = child
    return made


def table(head: Sequence[str], rows: Sequence[Sequence[str]], **attributes: str) -> Element:
    """Return a table in a box that scrolls; the first cell of a row is its head."""
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell) for cell in row[1:]),
        )
        for row in rows
    ]
    names = element("tr", *(element("th", name, scope="col") for name in head))
    own = element("table", element("thead", names), element("tbody", *body), **attributes)
    return element("div", own, class_="scroll", tabindex="0")


def page_bytes(root: Element) -> bytes:
    """Return the document in UTF-8."""
    text = ElementTree.tostring(root, encoding="unicode", method="html")
    # Lone surrogates, which names of tasks may have, are no text.
    return f"<!DOCTYPE html>\n{text}\n".encode(errors="replace")


@contextmanager
def plots_for_pages() -> Iterator[None]:
    """Let plots have the colours that :func:`svg` replaces, whatever the user's style."""
    plt = pyplot()
    with plt.style.context(["default", _STYLE]), unseen_figures(), warnings.catch_warnings():
        # Browsers have the fonts that matplotlib lacks.
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing from", category=UserWarning)
        yield


def svg(figure: Any, key: str, title: str) -> Element:
    """Return a figure as an SVG element whose colours are those of the page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn within :func:`plots_for_pages`.
    key : str
        Different for each figure of a page: prefix of its ids.
    title : str
        What it shows, for those who do not see it.
    """
    file = io.BytesIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(file, format="svg", dpi=150, metadata=no_metadata)
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    ids = {each.attrib.get("id") for each in root.iter()}
    used = {  # colours look like references
        name
        for each in root.iter()
        for value in each.attrib.values()
        for name in _REFERENCE.findall(value)
        if name in ids and not value.startswith("data:")
    }
    for each in root.iter():
        each.tag = _local(each.tag)
        each.tail = None
        each.attrib = {
            _local(name): _own(_local(name), value, key, used)
            for name, value in each.attrib.items()
            if name != "id" or value in used
        }
    width = root.attrib.pop("width").removesuffix("pt")
    root.attrib.pop("height")
    root.attrib |= {"role": "img", "style": f"max-width: {float(width) * 4 / 3:.0f}px"}
    root.insert(0, element("title", title))
    return root


def _local(name: str) -> str:
    """Return a name without its namespace, which HTML does not need."""
    return name.rpartition("}")[2]


def _own(name: str, value: str, key: str, used: set[str]) -> str:
    """Return the value of an attribute with own ids, and with colours of the page."""
    if name == "id":
        return f"{key}-{value}"
    if name == "style":
        value = _FONT.sub("", value)
    if "#" not in value:
        return value
    value = _COLOR.sub(lambda found: _VARIABLES[found[0].lower()], value)
    if name == "href" and value.startswith("data:"):
        return value
    return _REFERENCE.sub(
        lambda found: f"#{key}-{found[1]}" if found[1] in used else found[0], value
    )


def figure(key: str, title: str, caption: str, draw: Callable[[], Any]) -> Element:
    """Return a plot with its caption, or why there is none."""
    try:
        drawn = draw()
    except MissingDependencyError:
        raise
    except (DataError, UnsupportedError) as error:
        return element("p", f"{title} Not drawn: {error}", class_="quiet")
    own = drawn[0].figure if isinstance(drawn, np.ndarray) else drawn.figure
    text = element("figcaption", element("strong", title), f" {caption}")
    return element("figure", text, svg(own, key, f"{title} {caption}"))
