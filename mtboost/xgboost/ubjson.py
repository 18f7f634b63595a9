# SPDX-License-Identifier: Apache-2.0
"""Universal Binary JSON, the subset that XGBoost writes its models in (ubjson.org, draft 12).

Arrays of numbers are ndarrays, which is what trees are made of.
"""

from __future__ import annotations

from typing import Any

from mtboost import _core
from mtboost.errors import ModelFormatError


def encode(document: dict[str, Any]) -> bytearray:
    """Bytes of a document; its numbers become 64-bit integers and 32-bit floats."""
    try:
        return _core.encode_ubjson(document)
    except (TypeError, ValueError) as error:
        raise ModelFormatError(f"A model cannot be written: {error}.") from None


def decode(content: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The document in these bytes."""
    try:
        document = _core.decode_ubjson(content)
    except ValueError as error:  # also of text that is not UTF-8
        raise ModelFormatError(f"A model cannot be read: {error}.") from None
    if not isinstance(document, dict):
        raise ModelFormatError("A model document must be an object.")
    return document
