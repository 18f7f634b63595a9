"""Numbers that a caller gives: refused by name if they make no sense."""

import math
import numbers

from mtboost.errors import ParameterError


def check_number(name: str, value: object, *, low: float, high: float = math.inf) -> None:
    """Refuse what is not a finite number between the bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r} of type {type(value).__name__}.")
    if not (math.isfinite(value) and low <= float(value) <= high):
        bounds = f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise ParameterError(f"{name}={value} is out of range: pass a finite number {bounds}.")


def check_count(name: str, value: object, *, low: int) -> int:
    """Refuse what is not a whole number >= low."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an int, not {value!r} of type {type(value).__name__}.")
    if value < low:
        raise ParameterError(f"{name}={value} is too small: pass a whole number >= {low}.")
    return int(value)


def check_seed(seed: object) -> int:
    """Refuse what is not a whole number >= 0."""
    return check_count("seed", seed, low=0)
