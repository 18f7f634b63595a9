"""One file for a model of several boosters (docs/model_file.md)."""

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

FORMAT = 2  # 2: backend "lightgbm"
_METADATA = "mtboost.json"
Model = TypeVar("Model")


def write_model(
    path: str | os.PathLike[str],
    metadata: Mapping[str, Any],
    boosters: Mapping[str, bytes],
) -> None:
    """Write metadata and boosters by file name, replacing an existing file at once or not at all.

    What an older mtboost can read has the older format.
    """
    path = os.fspath(path)
    form = 1 if metadata["backend"] == "xgboost" else FORMAT
    text = json.dumps({"format": form, **metadata}, indent=1, allow_nan=False)
    parts = {_METADATA: text.encode(), **boosters}
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
    """What `make` makes of metadata and boosters by file name; raises what ``load_model`` does."""
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
