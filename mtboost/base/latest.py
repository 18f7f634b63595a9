# SPDX-License-Identifier: Apache-2.0
"""Values that are kept for later calls while there is room for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, Protocol, TypeVar, cast


class _Sized(Protocol):
    @property
    def n_bytes(self) -> int: ...


_Value = TypeVar("_Value", bound="_Sized | None")


class Latest:
    """The values used last, by key, which take up to `max_bytes` together.

    A single value that is larger is kept until another one is used. Threads may share all: a value
    is made once, and threads that need it meanwhile wait.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._values: dict[Hashable, Any] = {}  # the one used last is the last one
        self._n_bytes = 0
        self._lock = RLock()  # one value may be made from another one

    @property
    def n_bytes(self) -> int:
        """Memory of all values."""
        return self._n_bytes

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key, made now if it is not kept."""
        with self._lock:
            if key in self._values:
                value = self._values.pop(key)
            else:
                value = make()
                self._n_bytes += _size(value)
            self._values[key] = value
            while self._n_bytes > self.max_bytes and len(self._values) > 1:
                self._n_bytes -= _size(self._values.pop(next(iter(self._values))))
            return cast(_Value, value)


def _size(value: _Sized | None) -> int:
    return 0 if value is None else value.n_bytes
