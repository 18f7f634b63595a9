# SPDX-License-Identifier: Apache-2.0
"""Committed results as tables of Markdown, for published.py and method_tables.py."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pandas as pd


@cache
def results(file: str) -> pd.DataFrame:
    """Read a file of results."""
    return pd.read_json(Path(__file__).parent / "results" / f"{file}.jsonl", lines=True)


def plain(value: float) -> str:
    """Format a score: .912, 9.80."""
    return f"{value:.2f}" if abs(value) >= 1 else re.sub("^(-?)0", r"\1", f"{value:.3f}")


def gain(values: pd.Series, digits: int = 4) -> str:
    """Format the mean and standard error of differences that are paired over seeds."""
    shown = f"{values.mean():+.{digits}f} ± {values.sem():.{digits}f}"
    return re.sub(r"(?<!\d)0(?=\.)", "", shown).replace("-", "−")


def seconds(value: float) -> str:
    """Format seconds with two digits or more."""
    return f"{value:.{0 if value >= 10 else 1 if value >= 1 else 2}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; gains are written +.012 ± .003, and stay on one line."""
    lines = [
        "|" + "|".join(f" {cell} " if cell else " " for cell in line) for line in (head, *rows)
    ]
    lines.insert(1, "|---" * len(head))
    text = "".join(f"{line}|\n" for line in lines)
    text = re.sub(r"([+−-])0?(\.\d+) ± 0?(\.\d)", r"\1\2 ± \3", text)
    return re.sub(r"-(?=\.\d+ ±)", "−", text).replace(" ± ", "\u00a0±\u00a0")
