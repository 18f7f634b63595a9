# SPDX-License-Identifier: Apache-2.0
"""Values of parameters, checked by name: integers, numbers, choices, switches.

Every message reads ``name must be <what is allowed>, found <what was given>``.
"""

from __future__ import annotations

import difflib
import math
import numbers
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, NoReturn, TypeGuard

import numpy as np

from mtboost.errors import ParameterError, ParameterTypeError

#: Largest count that the libraries and the core store.
LARGEST_COUNT = 2**31 - 1
#: Largest factor on data that are generated: sums of their squares fit in float64.
LARGEST_SCALE = 1e100
_N_SHOWN = 80
_N_LISTED = 10
# Part of two words that must be equal for one to be a misspelling of the other. By less, "country"
# would be one of "amount"; of a few letters one may be a third.
_NEAR, _NEAR_OF_SHORT, _N_SHORT = 0.75, 0.6, 3


def check_count(
    name: str, value: object, *, low: int = 0, high: int = LARGEST_COUNT, besides: str = ""
) -> int:
    """Return an integer from `low` to `high`; a whole float counts as one.

    Parameters
    ----------
    name : str
        What messages call the parameter.
    value : object
    low, high : int
    besides : str
        What else the caller allows, as messages say it: ``"None"``.

    Raises
    ------
    ParameterTypeError
        The value is not a number, or not a whole one.
    ParameterError
        It is out of range.
    """
    is_above = is_integer(value) and value > high
    has_bound = is_above or high < LARGEST_COUNT
    allowed = f"an integer from {low} to {high}" if has_bound else f"an integer >= {low}"
    if not _is_whole(value):
        refuse(name, value, allowed, besides, kind=ParameterTypeError)
    if not low <= value <= high:
        refuse(name, value, allowed, besides)
    return int(value)


def check_seed(value: object, *, name: str = "seed", bits: int = 128) -> int:
    """Return an integer >= 0 of at most `bits` bits; generators may ignore further ones."""
    return check_count(name, value, high=2**bits - 1)


def check_number(
    name: str,
    value: object,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    below: float | None = None,
    besides: str = "",
) -> float:
    """Return a finite number in an interval, which `above` and `below` do not belong to.

    Parameters
    ----------
    name : str
        What messages call the parameter.
    value : object
    low, above : float, optional
        At most one of them.
    high, below : float, optional
        At most one of them.
    besides : str
        What else the caller allows, as messages say it: ``"'auto'"``.

    Raises
    ------
    ParameterTypeError
        The value is not a number.
    ParameterError
        It is not finite, or out of range.
    """
    allowed = f"a finite number{_interval(low, above, high, below)}"
    if not is_number(value):
        refuse(name, value, allowed, besides, kind=ParameterTypeError)
    number = as_float(value)
    is_inside = (
        math.isfinite(number)
        and (low is None or number >= low)
        and (above is None or number > above)
        and (high is None or number <= high)
        and (below is None or number < below)
    )
    if not is_inside:
        refuse(name, value, allowed, besides)
    return number + 0.0  # -0.0 becomes 0.0: NumPy's generators distinguish them


def check_choice(name: str, value: Any, choices: Collection[str], *, besides: str = "") -> str:
    """Return one of some strings; ParameterError otherwise, with the nearest of them."""
    known = tuple(choices)
    if isinstance(value, str) and value in known:
        return value
    *others, last = ([besides] if besides else []) + [repr(each) for each in known]
    allowed = f"{', '.join(others)} or {last}" if others else last
    kind = ParameterError if isinstance(value, str) else ParameterTypeError
    refuse(name, value, allowed, kind=kind, hint=did_you_mean(value, known))


def check_type(name: str, value: object, kinds: type | tuple[type, ...], allowed: str) -> None:
    """Raise ParameterTypeError unless a value is an instance of one of some classes."""
    if not isinstance(value, kinds):
        refuse(name, value, allowed, kind=ParameterTypeError)


def check_pairs(name: str, value: Any, kind: type, allowed: str) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of an instance of a class and something else; ParameterTypeError otherwise.

    `allowed` is what messages call a pair: ``"(DMatrix, task of each row)"``.
    """
    if not isinstance(value, Iterable):
        refuse(name, value, f"a sequence of pairs {allowed}", kind=ParameterTypeError)
    for number, pair in enumerate(value):
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], kind)
        if not is_pair:
            refuse(f"{name}[{number}]", pair, f"a pair {allowed}", kind=ParameterTypeError)
        yield pair[0], pair[1]


def check_switch(name: str, value: object, *, besides: str = "") -> bool:
    """Return True or False, of which 1 and 0 are other names; ParameterTypeError otherwise.

    `besides` is what messages say may be given in place of a switch.
    """
    if not isinstance(value, bool | np.bool_) and not (is_integer(value) and value in (0, 1)):
        allowed = f"True, False or {besides}" if besides else "True or False"
        refuse(name, value, allowed, kind=ParameterTypeError)
    return bool(value)


def check_verbose(value: object) -> int:
    """Return how many rounds lie between two lines of progress; 0 for none."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    return check_count("verbose", value, besides="True or False")


def is_number(value: object) -> TypeGuard[Any]:
    """Whether a value is a real number; truth values are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is of an integer type; truth values are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def as_float(value: Any) -> float:
    """A number as a float: infinite where it is too large for one, and NaN where it is none."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # the signalling NaN of decimal numbers
        return math.nan


def shown(value: object) -> str:
    """Return a value as text, in few characters on one line."""
    try:
        text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    except Exception:  # a number of more digits than Python prints, or a faulty class
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _N_SHOWN else f"{text[: _N_SHOWN - 3]}..."


def refuse(
    name: str,
    value: object,
    allowed: str,
    besides: str = "",
    *,
    kind: type[ParameterError] = ParameterError,
    hint: str = "",
) -> NoReturn:
    """Raise the error of a value that is not allowed."""
    either = f"{besides} or " if besides else ""
    raise kind(f"{name} must be {either}{allowed}, found {shown(value)}.{hint}")


def did_you_mean(word: object, known: Collection[object]) -> str:
    """End of a message, `` Did you mean 'x'?``; empty if no known name is near."""
    text, *others = (each if isinstance(each, str) else shown(each) for each in (word, *known))
    by_text = dict(zip(others, known, strict=True))
    cutoff = _NEAR if len(text) > _N_SHORT else _NEAR_OF_SHORT
    near = difflib.get_close_matches(text, by_text, n=1, cutoff=cutoff)
    return f" Did you mean {by_text[near[0]]!r}?" if near else ""


def listed(names: Collection[object], noun: str) -> str:
    """Part of a message, ``tasks 'a', 'b', ... (12 in all)``."""
    shown = ", ".join(map(repr, islice(names, _N_LISTED)))
    more = f", ... ({len(names)} in all)" if len(names) > _N_LISTED else ""
    return f"{noun if len(names) == 1 else _plural(noun)} {shown}{more}"


def _plural(noun: str) -> str:
    """Of a regular noun: keys, categories, classes."""
    if noun.endswith("s"):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}s"


def _is_whole(value: object) -> TypeGuard[Any]:
    return is_integer(value) or (is_number(value) and as_float(value).is_integer())


def _interval(
    low: float | None, above: float | None, high: float | None, below: float | None
) -> str:
    """End of a message, `` >= 0`` or `` in (0, 1]``; empty if all numbers will do."""
    if high is None and below is None:
        least = f" > {above:g}" if above is not None else ""
        return f" >= {low:g}" if low is not None else least
    begin = f"({above:g}" if above is not None else f"[{low:g}" if low is not None else "(-inf"
    end = f"{below:g})" if below is not None else f"{high:g}]"
    return f" in {begin}, {end}"
