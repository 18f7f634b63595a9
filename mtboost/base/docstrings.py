# SPDX-License-Identifier: Apache-2.0
"""Complete docstrings of classes that share most of their parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from typing import TypeVar

Class = TypeVar("Class", bound=type)
_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def shares_docstring_of(source: type, *, without: Collection[str] = ()) -> Callable[[Class], Class]:
    """Decorator: add the parameters and attributes that another class documents.

    The docstring of the decorated class lists only what differs. Parameters come in the order of
    its signature; those of its attributes that the other class documents come after its own.

    Parameters
    ----------
    source : type
        Class with a complete docstring.
    without : collection of str
        Attributes of `source` that the decorated class does not have.
    """

    def complete(cls: Class) -> Class:
        if cls.__doc__ is None or source.__doc__ is None:  # python -OO
            return cls
        sections, shared = _sections(cls.__doc__), _sections(source.__doc__)
        parameters = _entries(shared["Parameters"]) | _entries(sections.get("Parameters", ""))
        own = _entries(sections.get("Attributes", ""))
        others = {
            name: entry
            for name, entry in _entries(shared["Attributes"]).items()
            if name not in own and name not in without
        }
        signature = inspect.signature(cls).parameters
        sections["Parameters"] = _joined(parameters[name] for name in signature)
        sections["Attributes"] = _joined([*own.values(), *others.values()])
        order = ["", "Parameters", "Attributes"]
        titles = [*order, *(title for title in sections if title not in order)]
        cls.__doc__ = "\n\n".join(
            f"{title}\n{'-' * len(title)}\n{sections[title]}" if title else sections[title]
            for title in titles
        )
        return cls

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
        name.strip(): entry for entry in entries for name in entry.partition(" : ")[0].split(",")
    }


def _joined(entries: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(entries))
