# SPDX-License-Identifier: Apache-2.0
"""The file that save() writes: a ZIP archive of JSON and other members (docs/model_file.md)."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from mtboost.base.atomic_file import PathName, replacing
from mtboost.base.interrupts import uninterrupted
from mtboost.errors import MissingDependencyError, ModelFormatError

# Of the files that are written, and the largest that can be read. Every new key of the metadata
# raises it. 2: backend "lightgbm", 3: forests, 4: objectives by task, leaf values of single tasks,
# 5: a list of all members with digests, 6: histories and models of many tasks as arrays,
# 7: conformity scores.
FORMAT = 7
_FIRST_WITH_DIGESTS = 5
_METADATA = "mtboost.json"
_DIGEST = "mtboost.sha256"
# What a file of n bytes may unpack to, at most: trees take three to ten times their packed size,
# and a file whose content is more regular than this is written unpacked.
_ALWAYS_ALLOWED = 16 * 2**20
_MOST_PER_BYTE = 100
_LEVEL = 1  # of zlib: trees become 4 % larger than at its usual level, in a third of the time
Model = TypeVar("Model")


def require(condition: bool, message: str) -> None:
    """Refuse a file; whoever reads it adds its name."""
    if not condition:
        raise ModelFormatError(message)


# ---- writing ------------------------------------------------------------------------------------


def write_model(
    path: PathName, make: Callable[[], tuple[Mapping[str, Any], Mapping[str, bytes]]]
) -> None:
    """Write the metadata and members by name that `make` returns, replacing an existing file.

    Nothing is made if the file cannot be written there, and nothing replaced if making or writing
    fails.
    """
    with replacing(path) as file:
        members = _with_metadata(*make())
        infos = _write_archive(file, members, zipfile.ZIP_DEFLATED)
        if _oversized(infos, file.tell()):
            file.seek(0)
            file.truncate()
            _write_archive(file, members, zipfile.ZIP_STORED)


def _with_metadata(metadata: Mapping[str, Any], members: Mapping[str, bytes]) -> dict[str, bytes]:
    listed = {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in members.items()
    }
    content = {"format": FORMAT, "members": listed, **metadata}
    try:
        text = json.dumps(content, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ModelFormatError(
            f"The model has a name or parameter that a model file cannot hold ({error}): pickle it."
        ) from None
    return {_METADATA: text, _DIGEST: _digest_line(text), **members}


def digest_of(metadata: Mapping[str, Any], members: Mapping[str, bytes]) -> str:
    """Return the SHA-256 of the ``mtboost.json`` of a file, by which it is known, in hexadecimal.

    Raises
    ------
    ModelFormatError
        A model file cannot hold the metadata.
    """
    return hashlib.sha256(_with_metadata(metadata, members)[_METADATA]).hexdigest()


def _digest_line(metadata: bytes) -> bytes:
    """As ``sha256sum`` writes it."""
    return f"{hashlib.sha256(metadata).hexdigest()}  {_METADATA}\n".encode()


def _write_archive(
    file: IO[bytes], members: Mapping[str, bytes], compression: int
) -> dict[str, zipfile.ZipInfo]:
    # zipfile would turn an interrupt within a member into a ValueError.
    with uninterrupted(), zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            # A new ZipInfo has no date: equal models give equal bytes.
            archive.writestr(zipfile.ZipInfo(name), content, compression, _LEVEL)
        return {info.filename: info for info in archive.infolist()}


# ---- reading ------------------------------------------------------------------------------------


class Members(Mapping[str, bytes]):
    """Contents of the members by name, which notes those that were read."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents
        self._unread = set(contents)

    def __getitem__(self, name: str) -> bytes:
        if name not in self._contents:
            raise KeyError(f"the member {name} is missing")
        self._unread.discard(name)
        return self._contents[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)

    def __contains__(self, name: object) -> bool:
        return name in self._contents

    def check_all_read(self) -> None:
        require(not self._unread, f"nothing refers to the member {min(self._unread, default='')}")


def read_model(path: PathName, make: Callable[[dict[str, Any], Members], Model]) -> Model:
    """Return the result of `make` for metadata and members; raises as ``load_model`` does."""
    name = os.fsdecode(path)
    with open(name, "rb") as file:
        raw = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            metadata, members = _read_archive(archive, len(raw))
        if members is not None:
            model = make(metadata, members)
            members.check_all_read()
            return model
    except (MissingDependencyError, MemoryError):  # the file may be sound
        raise
    except Exception as error:  # of whatever kind: the content is to blame
        if "bad_alloc" in str(error):  # how XGBoost and LightGBM report it
            raise MemoryError(str(error)) from error
        raise ModelFormatError(
            f"{name} is not an mtboost model, or is damaged ({error})."
        ) from error
    raise ModelFormatError(
        f"{name} has format {metadata['format']}; this mtboost reads up to {FORMAT}: upgrade "
        f"mtboost."
    )


def _read_archive(archive: zipfile.ZipFile, n_bytes: int) -> tuple[dict[str, Any], Members | None]:
    """Metadata, and the members unless the format is a later one.

    Files of format 5 and later list their members with sizes and digests, earlier ones do not.
    """
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.is_dir() and info.file_size == 0:  # other programs add them
            continue
        require(info.filename not in infos, f"there are two members {info.filename}")
        infos[info.filename] = info
    require(_METADATA in infos, f"the member {_METADATA} is missing")
    fault = _oversized(infos, n_bytes)
    require(not fault, fault)

    text = _unpack(archive, infos.pop(_METADATA))
    metadata = json.loads(text, parse_constant=_refuse_constant)
    require(isinstance(metadata, dict), f"{_METADATA} is not an object")
    form = metadata["format"]
    require(type(form) is int and form >= 1, f"{form!r} is not a format")
    if form > FORMAT:
        return metadata, None
    listed = metadata.pop("members", None)
    has_digests = form >= _FIRST_WITH_DIGESTS or listed is not None or _DIGEST in infos
    if has_digests:
        require(_DIGEST in infos, f"the member {_DIGEST} is missing")
        digest = _digest_line(text)
        info = infos.pop(_DIGEST)
        is_whole = info.file_size == len(digest) and _unpack(archive, info) == digest
        require(is_whole, f"{_METADATA} is not what {_DIGEST} says")
        _check_list(listed, infos)
    contents = {name: _unpack(archive, info) for name, info in infos.items()}
    if has_digests:
        for name, content in contents.items():
            is_whole = hashlib.sha256(content).hexdigest() == listed[name]["sha256"]
            require(is_whole, f"the member {name} has another digest than {_METADATA} says")
    return metadata, Members(contents)


def _check_list(listed: Any, infos: Mapping[str, zipfile.ZipInfo]) -> None:
    require(isinstance(listed, dict), f"{_METADATA} has no list of members")
    for name in sorted(listed.keys() ^ infos.keys()):
        fault = "is missing" if name in listed else f"is not listed in {_METADATA}"
        raise ModelFormatError(f"the member {name} {fault}")
    for name, info in infos.items():
        require(
            info.file_size == listed[name]["size"],
            f"the member {name} has another size than {_METADATA} says",
        )


def _oversized(infos: Mapping[str, zipfile.ZipInfo], n_bytes: int) -> str:
    """Return a message for what unpacks to more than any model; empty if nothing does."""
    metadata = infos[_METADATA]
    parts = {
        _METADATA: (metadata.file_size, min(metadata.compress_size, n_bytes)),
        "the file": (sum(info.file_size for info in infos.values()), n_bytes),
    }
    for what, (n_unpacked, n_packed) in parts.items():
        if n_unpacked > _ALWAYS_ALLOWED + _MOST_PER_BYTE * n_packed:
            return (
                f"{what} unpacks from {n_packed} to {n_unpacked} bytes, which no model does. If "
                f"you trust the file, pack its members again without compression"
            )
    return ""


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Content of a member, of which no more is unpacked than the size that the archive states."""
    require(
        info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
        f"the member {info.filename} is packed in a way that is not supported",
    )
    with archive.open(info) as member:
        content = member.read(info.file_size + 1)  # read() would unpack what comes after it, too
    require(len(content) == info.file_size, f"the member {info.filename} is cut off")
    return content


def _refuse_constant(name: str) -> None:
    raise ModelFormatError(f"{_METADATA} has the number {name}")


# ---- arrays as members --------------------------------------------------------------------------


def array_to_bytes(array: npt.NDArray[Any]) -> bytes:
    """An array in NumPy's format, without pickles."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def array_from_bytes(content: bytes) -> npt.NDArray[Any]:
    """The way back. Memory is allocated for what is there, whatever the header says."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    require(version in ((1, 0), (2, 0)), "an array is of an unknown version of NumPy's format")
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, is_fortran, dtype = read_header(file)
    require(not dtype.hasobject, "an array holds objects, which mtboost never writes")
    n_bytes = math.prod(shape) * dtype.itemsize
    is_whole = dtype.itemsize > 0 and n_bytes == len(content) - file.tell()
    require(is_whole, "an array has another size than its header says")
    array: npt.NDArray[Any] = np.ndarray(
        shape, dtype, content, file.tell(), order="F" if is_fortran else "C"
    )
    return array.copy("K")  # that can be written to


def read_vector(members: Mapping[str, bytes], name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The member with this name, an array of one dimension and this type."""
    found = array_from_bytes(members[name])
    is_vector = found.ndim == 1 and found.dtype == dtype
    require(is_vector, f"{name.removesuffix('.npy')} has another shape or type")
    return found
