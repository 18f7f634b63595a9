# SPDX-License-Identifier: Apache-2.0
"""Complete docstrings of classes and functions that share most of their parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])
_ORDER = (
    "",
    "Parameters",
    "Returns",
    "Yields",
    "Attributes",
    "Raises",
    "Warns",
    "Notes",
    "Examples",
    "References",
)
_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def shares_docstring_of(
    source: Callable[..., Any],
    *,
    without: Collection[str] = (),
    sections: Collection[str] = (),
) -> Callable[[Documented], Documented]:
    """Decorator: add the parameters and attributes that another class or function documents.

    The docstring of the decorated one lists only what differs. Parameters come in the order of its
    signature; attributes that the other class documents come after its own.

    Parameters
    ----------
    source : type or callable
        Class or function that documents the parameters.
    without : collection of str
        Attributes of `source` that the decorated class does not have.
    sections : collection of str
        Titles of further sections of `source`.
    """

    def complete(documented: Documented) -> Documented:
        if documented.__doc__ is None or source.__doc__ is None:  # python -OO
            return documented
        own, shared = _sections(documented.__doc__), _sections(source.__doc__)
        parameters = _entries(shared["Parameters"]) | _entries(own.get("Parameters", ""))
        attributes = _entries(own.get("Attributes", ""))
        others = {
            name: entry
            for name, entry in _entries(shared.get("Attributes", "")).items()
            if name not in attributes and name not in without
        }
        signature = inspect.signature(documented).parameters
        found = {
            "": own.pop(""),
            "Parameters": _joined(parameters[name] for name in signature if name != "self"),
            "Attributes": _joined([*attributes.values(), *others.values()]),
        }
        found |= {title: text for title, text in own.items() if title not in found}
        found |= {title: shared[title] for title in sections}
        documented.__doc__ = "\n\n".join(
            f"{title}\n{'-' * len(title)}\n{text}" if title else text
            for title, text in sorted(found.items(), key=lambda section: _ORDER.index(section[0]))
            if text
        )
        return documented

    return complete


def _sections(doc: str) -> dict[str, str]:
    """Text of each section by its title; the one before the first section has the title ''."""
    doc = inspect.cleandoc(doc)
    titles = list(_TITLE.finditer(doc))
    ends = [*(match.start() for match in titles), len(doc)]
    texts = (doc[match.end() : end].strip() for match, end in zip(titles, ends[1:], strict=True))
    return {
        "": doc[: ends[0]].strip(),
        **dict(zip((match[1] for match in titles), texts, strict=True)),
    }


def _entries(section: str) -> dict[str, str]:
    """Entries of a section by name; one of several names, ``a, b : int``, is listed by each."""
    starts = [*(match.start() for match in _ENTRY.finditer(section)), len(section)]
    entries = [section[start:end].strip() for start, end in pairwise(starts) if start < end]
    return {
        name.strip().lstrip("*"): entry
        for entry in entries
        for name in entry.partition(" : ")[0].split(",")
    }


def _joined(entries: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(entries))
