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

import xgboost

from mtboost.errors import ModelFormatError

FORMAT = 1
_METADATA = "mtboost.json"
Model = TypeVar("Model")


def write_model(
    path: str | os.PathLike[str],
    metadata: Mapping[str, Any],
    boosters: Mapping[str, xgboost.Booster],
) -> None:
    """Write metadata and boosters by name, replacing an existing file at once or not at all."""
    path = os.fspath(path)
    text = json.dumps({"format": FORMAT, **metadata}, indent=1, allow_nan=False)
    parts = {_METADATA: text.encode()}
    parts |= {f"{name}.ubj": bytes(booster.save_raw("ubj")) for name, booster in boosters.items()}
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
    make: Callable[[dict[str, Any], dict[str, xgboost.Booster]], Model],
) -> Model:
    """What `make` makes of metadata and boosters of a file; raises what ``load_model`` does."""
    name = os.fspath(path)
    with open(path, "rb") as file:
        raw = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            metadata = json.loads(archive.read(_METADATA))
            if metadata["format"] <= FORMAT:
                boosters = {
                    member.removesuffix(".ubj"): _load_booster(archive.read(member))
                    for member in archive.namelist()
                    if member.endswith(".ubj")
                }
                return make(metadata, boosters)
    except Exception as error:  # of whatever kind: the content is to blame
        raise ModelFormatError(f"{name} is no mtboost model, or is damaged ({error}).") from error
    raise ModelFormatError(
        f"{name} has format {metadata['format']}; this mtboost reads up to {FORMAT}: upgrade "
        f"mtboost."
    )


def _load_booster(raw: bytes) -> xgboost.Booster:
    booster = xgboost.Booster()
    booster.load_model(bytearray(raw))
    return booster
