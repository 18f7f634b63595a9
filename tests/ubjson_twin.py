# SPDX-License-Identifier: Apache-2.0
"""Universal Binary JSON in Python: the slow twin of cpp/bindings/bind_ubjson.cpp."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from mtboost.errors import ModelFormatError

# By mark: one number, and arrays of them as they are stored and as NumPy has them.
_NUMBERS = {
    ord(mark): (struct.Struct(f">{code}"), np.dtype(f">{kind}"), np.dtype(kind))
    for mark, code, kind in (
        ("i", "b", "i1"),
        ("U", "B", "u1"),
        ("I", "h", "i2"),
        ("l", "i", "i4"),
        ("L", "q", "i8"),
        ("d", "f", "f4"),
        ("D", "d", "f8"),
    )
}
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
_ARRAY_HEADS = {native: b"[$%c#L" % mark for mark, (_, _, native) in _NUMBERS.items()}
_LENGTH = struct.Struct(">q")
_FLOAT = struct.Struct(">f")
_OBJECT, _END_OF_OBJECT, _ARRAY, _TYPED, _STRING = b"{}[$S"


# ---- writing ---------------------------------------------------------------------------------


def encode(document: dict[str, Any]) -> bytearray:
    """Bytes of a document; its numbers become 64-bit integers and 32-bit floats."""
    parts: list[bytes] = []
    _write(document, parts.append)
    return bytearray(b"".join(parts))


def _write(value: Any, put: Callable[[bytes], None]) -> None:
    if isinstance(value, dict):
        put(b"{")
        for key, item in value.items():
            put(_text(str(key)))
            _write(item, put)
        put(b"}")
    elif isinstance(value, np.ndarray):
        put(_ARRAY_HEADS[value.dtype] + _LENGTH.pack(value.size))
        put(value.astype(value.dtype.newbyteorder(">")).tobytes())
    elif isinstance(value, str):
        put(b"S" + _text(value))
    elif isinstance(value, (list, tuple)):
        put(b"[#L" + _LENGTH.pack(len(value)))
        for item in value:
            _write(item, put)
    elif isinstance(value, bool):
        put(b"T" if value else b"F")
    elif isinstance(value, int):
        put(b"L" + _LENGTH.pack(value))
    elif isinstance(value, float):
        put(b"d" + _FLOAT.pack(value))
    elif value is None:
        put(b"Z")
    else:
        raise ModelFormatError(f"A model document cannot hold a {type(value).__name__}.")


@lru_cache(1000)  # keys and numbers of nodes come again in every tree
def _text(text: str) -> bytes:
    encoded = text.encode()
    return b"L" + _LENGTH.pack(len(encoded)) + encoded


# ---- reading ---------------------------------------------------------------------------------


def decode(content: bytes) -> dict[str, Any]:
    """The document in these bytes."""
    document, _ = _read(content, 0)
    if not isinstance(document, dict):
        raise ModelFormatError("A model document must be an object.")
    return document


def _read(content: bytes, place: int) -> tuple[Any, int]:
    """The value at a place, and the place after it."""
    mark, place = content[place], place + 1
    if mark == _STRING:
        return _read_text(content, place)
    if mark == _OBJECT:
        found = {}
        while content[place] != _END_OF_OBJECT:
            key, place = _read_text(content, place)
            found[key], place = _read(content, place)
        return found, place + 1
    if mark == _ARRAY:
        return _read_array(content, place)
    if mark in _NUMBERS:
        number = _NUMBERS[mark][0]
        return number.unpack_from(content, place)[0], place + number.size
    if mark in _CONSTANTS:
        return _CONSTANTS[mark], place
    raise ModelFormatError(f"A model document has the unknown mark {chr(mark)!r}.")


def _read_text(content: bytes, place: int) -> tuple[str, int]:
    begin = place + 9
    end = begin + _LENGTH.unpack_from(content, place + 1)[0]
    return content[begin:end].decode(), end


def _read_array(content: bytes, place: int) -> tuple[Any, int]:
    if content[place] == _TYPED:
        number, stored, native = _NUMBERS[content[place + 1]]
        size, begin = _LENGTH.unpack_from(content, place + 4)[0], place + 12
        found = np.frombuffer(content, stored, size, begin).astype(native)
        return found, begin + size * number.size
    items, place = [], place + 10
    for _ in range(_LENGTH.unpack_from(content, place - 8)[0]):
        item, place = _read(content, place)
        items.append(item)
    return items, place
