# SPDX-License-Identifier: Apache-2.0
"""Types of what JSON holds, checked before it is used.

A shape is a type (``int`` is not a bool, ``float`` may be written as an int), None for null, a set
of alternatives, ``[shape]`` for a list, ``{str: shape}`` for an object with any keys, or an
object's shapes by key. A key that ends in ``?`` may be missing; unknown keys are refused.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from mtboost.errors import ModelFormatError

Shape: TypeAlias = Any


def check_shape(value: Any, shape: Shape, place: str) -> None:
    """Raise ModelFormatError, which names the place, unless a value of JSON has the shape."""
    if isinstance(shape, list) and isinstance(value, list):
        for number, each in enumerate(value):
            check_shape(each, shape[0], f"{place}[{number}]")
    elif isinstance(shape, dict) and isinstance(value, dict):
        _check_object(value, shape, place)
    elif isinstance(shape, tuple):
        _check_one_of(value, shape, place)
    elif not _is_plain(value, shape):
        text = repr(value)
        raise ModelFormatError(f"{place} is {text[:40]}{'...' if len(text) > 40 else ''}")


def _check_object(value: dict[str, Any], shape: dict[Any, Shape], place: str) -> None:
    if str in shape:
        for key, each in value.items():
            check_shape(each, shape[str], f"{place}.{key}")
        return
    unknown = set(value)
    for key, each in shape.items():
        name = key.removesuffix("?")
        unknown.discard(name)
        if name in value:
            check_shape(value[name], each, f"{place}.{name}")
        elif not key.endswith("?"):
            raise ModelFormatError(f"{place} lacks {name}")
    if unknown:
        raise ModelFormatError(f"{place} has an unknown entry {min(unknown)}")


def _check_one_of(value: Any, shapes: tuple[Shape, ...], place: str) -> None:
    """The fault is that of the last alternative."""
    *others, last = shapes
    for shape in others:
        try:
            return check_shape(value, shape, place)
        except ModelFormatError:
            continue
    check_shape(value, last, place)


def _is_plain(value: Any, shape: Shape) -> bool:
    if shape is None:
        return value is None
    if shape is float:
        return type(value) in (int, float)
    return isinstance(shape, type) and type(value) is shape
