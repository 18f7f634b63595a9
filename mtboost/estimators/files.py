# SPDX-License-Identifier: Apache-2.0
"""Files of estimators: plain values and arrays (docs/model_file.md)."""

from __future__ import annotations

import abc
import math
import sys
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from mtboost.base.archive import array_from_bytes, array_to_bytes, require, write_model
from mtboost.base.atomic_file import PathName
from mtboost.base.renamed import renamed
from mtboost.errors import ModelFormatError, ParameterError
from mtboost.model.inputs.keywords import where_in_a_method

# Python writes and reads no integer of more digits as text.
_TOO_LARGE = 10**sys.int_info.default_max_str_digits


class SavedEstimator(BaseEstimator, metaclass=abc.ABCMeta):  # type: ignore[misc]  # untyped
    """Writes itself to a file, and is made from what a file holds."""

    #: Fitted attributes that a file holds as they are, and their types.
    _saved: ClassVar[dict[str, Any]] = {}

    @renamed(where_in_a_method)
    def save(self, path: PathName) -> None:
        """Write the fitted estimator to one file (docs/model_file.md), replacing an existing one.

        :func:`mtboost.load_model` reads it, also in a later version of mtboost, and returns an
        estimator whose predictions are bitwise identical and that continues with ``warm_start``,
        if it has that.
        The file is a ZIP archive of JSON and NumPy arrays, without pickles: reading it runs no code
        that the file brings. A save that fails leaves an existing file as it was.

        Parameters
        ----------
        path : str, bytes or path-like
            With any suffix. An existing file keeps its mode, and a symbolic link is followed.

        Raises
        ------
        NotFittedError
            There are no trees.
        ModelFormatError
            A parameter or label is of a type that the file cannot hold.
        OSError
            The file cannot be written, or `path` is not that of a regular file.
        """
        if not type(self).__module__.startswith("mtboost."):
            raise ModelFormatError(
                f"{type(self).__name__} is not a class of mtboost, so load_model() cannot create "
                f"one: pickle it."
            )
        write_model(path, self._to_parts)

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Metadata, and members by name."""
        content = {
            "estimator": type(self).__name__,
            "parameters": self._plain_parameters(),
            **self._to_file(),
        }
        members: dict[str, bytes] = {}
        metadata = {key: _pack(value, key, members) for key, value in content.items()}
        return metadata, members

    def _plain_parameters(self) -> dict[str, Any]:
        """The parameters as a file can hold them.

        A generator is None: the seed that was drawn from it is among the trees.
        """
        return {
            name: None if isinstance(value, np.random.RandomState) else value
            for name, value in self.get_params(deep=False).items()
        }

    def _check_can_be_saved(self) -> None:
        """Raise ParameterError for a parameter that :meth:`save` could not write."""
        if not type(self).__module__.startswith("mtboost."):
            return
        for name, value in self._plain_parameters().items():
            try:
                _pack(value, name, {})
            except ModelFormatError:
                raise ParameterError(
                    f"{name} is of type {type(value).__name__}: a parameter must be a number, a "
                    f"string, an array, or a list or mapping of them, so that save() can write it."
                ) from None

    def _to_file(self) -> dict[str, Any]:
        """Return the fitted attributes as plain values and arrays; subclasses add their trees."""
        attributes = {_key(name): getattr(self, name, None) for name in self._saved}
        return {"attributes": attributes}

    def _set_from_file(self, content: dict[str, Any]) -> None:
        """The way back, for an estimator with the parameters of the file.

        Subclasses check that everything fits together; where it does not, an exception of whatever
        kind leaves the estimator half-made.
        """
        attributes = content["attributes"]
        for name, kind in self._saved.items():
            value = attributes[_key(name)]
            value = tuple(value) if isinstance(value, list) else value
            require(isinstance(value, kind), f"{name} is a {type(value).__name__}")
            if value is not None:
                setattr(self, name, value)


def _key(attribute: str) -> str:
    return attribute.strip("_")


# ---- values as JSON and arrays ------------------------------------------------------------------


def _pack(value: Any, place: str, members: dict[str, bytes]) -> Any:
    """As JSON; an array becomes a member of the archive, named after its place."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Decimal | Fraction | np.longdouble):
        value = float(value)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _pack(each, f"{place}/{key}", members) for key, each in value.items()}
    if isinstance(value, dict):
        return {"pairs": _pack(list(value.items()), place, members)}
    if isinstance(value, list | tuple):
        return [_pack(each, f"{place}/{number}", members) for number, each in enumerate(value)]
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"objects": _pack(value.tolist(), place, members)}
        members[f"{place}.npy"] = array_to_bytes(value)
        return {"array": f"{place}.npy"}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}  # JSON has neither NaN nor infinity
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int) and abs(value) < _TOO_LARGE:
        return value
    raise ModelFormatError(
        f"{place} holds a {type(value).__name__}, which a model file cannot: pickle the estimator, "
        f"or use numbers, strings and arrays."
    )


def unpack(value: Any, members: Mapping[str, bytes]) -> Any:
    """Values and arrays of JSON and the members of its archive."""
    match value:
        case {"array": str(name)}:
            return array_from_bytes(members[name])
        case {"objects": list(elements)}:
            array: npt.NDArray[Any] = np.empty(len(elements), dtype=object)
            array[:] = elements
            return array
        case {"float": str(text)}:
            return float(text)
        case {"pairs": list(pairs)}:
            return {unpack(key, members): unpack(each, members) for key, each in pairs}
        case dict():
            return {key: unpack(each, members) for key, each in value.items()}
        case list():
            return [unpack(each, members) for each in value]
    return value
