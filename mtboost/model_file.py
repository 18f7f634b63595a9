"""The file that save() writes: a ZIP archive of JSON and other members (docs/model_file.md)."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mtboost.atomic_file import PathName, replacing
from mtboost.errors import MissingDependencyError, ModelFormatError

# The largest that can be read; 2: backend "lightgbm", 3: forests, 4: objectives by task, leaf
# values of single tasks.
FORMAT = 4
_METADATA = "mtboost.json"
Model = TypeVar("Model")


def write_model(
    path: PathName, make: Callable[[], tuple[int, Mapping[str, Any], Mapping[str, bytes]]]
) -> None:
    """Write the format, metadata and members by name that `make` returns.

    Nothing is made if the file cannot be written there, and an existing file is replaced only if
    all has been written. The format is the least that knows the content, so that what an older
    mtboost can read it does read.
    """
    with replacing(path) as file:
        form, metadata, members = make()
        text = json.dumps({"format": form, **metadata}, indent=1, allow_nan=False)
        parts = {_METADATA: text.encode(), **members}
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in parts.items():
                # A new ZipInfo has no date: equal models give equal bytes.
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def read_model(
    path: PathName,
    make: Callable[[dict[str, Any], dict[str, bytes]], Model],
) -> Model:
    """What `make` makes of metadata and members by name; raises what ``load_model`` does."""
    name = os.fsdecode(path)
    with open(name, "rb") as file:
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
