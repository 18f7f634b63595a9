"""The file that save() writes: a ZIP archive of JSON and other members (docs/model_file.md)."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mtboost.errors import MissingDependencyError, ModelFormatError

# The largest that can be read; 2: backend "lightgbm", 3: forests, 4: objectives by task, leaf
# values of single tasks.
FORMAT = 4
_METADATA = "mtboost.json"
Model = TypeVar("Model")


def write_model(
    path: str | os.PathLike[str],
    form: int,
    metadata: Mapping[str, Any],
    members: Mapping[str, bytes],
) -> None:
    """Write metadata and members by name, replacing an existing file at once or not at all.

    `form` is the least format that knows the content, so that what an older mtboost can read it
    does read.
    """
    path = os.fspath(path)
    text = json.dumps({"format": form, **metadata}, indent=1, allow_nan=False)
    parts = {_METADATA: text.encode(), **members}
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in parts.items():
                    # A ZipInfo of its own has no date: equal models give equal bytes.
                    archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read_model(
    path: str | os.PathLike[str],
    make: Callable[[dict[str, Any], dict[str, bytes]], Model],
) -> Model:
    """What `make` makes of metadata and members by name; raises what ``load_model`` does."""
    name = os.fspath(path)
    with open(path, "rb") as file:
        raw = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            metadata = json.loads(archive.read(_METADATA))
            if metadata["format"] <= FORMAT:
                members = set(archive.namelist()) - {_METADATA}
                return make(metadata, {member: archive.read(member) for member in members})
    except MissingDependencyError:  # the file is sound
        raise
    except Exception as error:  # of whatever kind: the content is to blame
        raise ModelFormatError(f"{name} is no mtboost model, or is damaged ({error}).") from error
    raise ModelFormatError(
        f"{name} has format {metadata['format']}; this mtboost reads up to {FORMAT}: upgrade "
        f"mtboost."
    )
