# SPDX-License-Identifier: Apache-2.0
"""Files of public data sets: downloaded once, checked, and kept in a folder of the user.

Only the standard library and :mod:`mtboost.base`: the files are few and small, so a package for
downloads would be a dependency for a dozen lines.
"""

from __future__ import annotations

import hashlib
import io
import os
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, TypeVar
from urllib.error import HTTPError

from mtboost.base.atomic_file import replacing
from mtboost.errors import DataError

#: Environment variable with the folder of the files.
HOME_VARIABLE = "MTBOOST_DATA"
_TIMEOUT = 30.0  # seconds without an answer

Parsed = TypeVar("Parsed")
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a public data set.

    Attributes
    ----------
    name : str
        Its name in the data home.
    url : str
        Where it is published.
    sha256 : str, optional
        Its checksum, where it is known. The contents are checked in any case.
    """

    name: str
    url: str
    sha256: str | None = None


def get_data_home(data_home: PathLike | None = None) -> Path:
    """Return the folder in which the files of public data sets are kept.

    It is created by the first download.

    Parameters
    ----------
    data_home : str or path-like, optional
        The folder; by default the environment variable ``MTBOOST_DATA``, else ``~/mtboost_data``.

    Returns
    -------
    Path
        An absolute path; ``~`` is the home of the user.

    Examples
    --------
    >>> from mtboost.datasets import get_data_home
    >>> get_data_home("data").name
    'data'
    """
    if data_home is None:
        data_home = os.environ.get(HOME_VARIABLE) or "~/mtboost_data"
    return Path(data_home).expanduser().absolute()


def fetch(
    file: RemoteFile,
    data_home: PathLike | None,
    download_if_missing: bool,
    parse: Callable[[IO[bytes]], Parsed],
) -> Parsed:
    """Return the parsed contents of a file, which is downloaded unless it is in the data home.

    A file is stored only if its contents are as expected, and in one step.
    """
    path = get_data_home(data_home) / file.name
    if path.exists():
        try:
            return _checked(file, path.read_bytes(), parse)
        except DataError as error:
            raise DataError(f"{path}: {error} Remove the file and call again.") from error
    by_hand = (
        f"Download {file.url} by other means and save it as {path}, or pass the folder that "
        f"contains {file.name} as data_home= (or in the environment variable {HOME_VARIABLE})."
    )
    if not download_if_missing:
        raise FileNotFoundError(
            f"{path} does not exist, and download_if_missing is False. {by_hand}"
        )
    try:
        contents = _download(file.url)
    except (OSError, HTTPException) as error:
        raise OSError(f"Cannot download {file.name} ({error}). {by_hand}") from error
    try:
        parsed = _checked(file, contents, parse)
    except DataError as error:
        raise DataError(f"{file.url}: {error} {by_hand}") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stored:
        stored.write(contents)
    return parsed


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
            contents: bytes = response.read()  # raises IncompleteRead if the connection breaks
    except HTTPError as error:
        error.close()
        raise
    return contents


def _checked(file: RemoteFile, contents: bytes, parse: Callable[[IO[bytes]], Parsed]) -> Parsed:
    found = hashlib.sha256(contents).hexdigest()
    if file.sha256 is not None and found != file.sha256:
        raise DataError(f"The SHA-256 is {found} instead of {file.sha256}.")
    try:
        return parse(io.BytesIO(contents))
    except DataError:
        raise
    except Exception as error:  # readers of formats raise what they like
        raise DataError(f"The file is damaged, or of another format ({error}).") from error
