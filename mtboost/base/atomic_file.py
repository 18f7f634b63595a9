# SPDX-License-Identifier: Apache-2.0
"""Replace a file in one step: a reader finds the old content or the new one, never a part.

The new content is written to a temporary file in the same directory, ``.mtboost-<key>-<n>.tmp``,
where the key is a hash of the file's name: whatever its length, that of the temporary file is the
same. Whoever writes it holds a lock on it (``flock``), which the system releases when the process
ends, however it ends. The next one who writes the same file therefore knows that a temporary file
without a lock was left behind by a killed process, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Iterator
from typing import IO, TypeAlias

# On Windows what a killed process left behind stays, because there is no sign that it was killed.
_HAS_LOCKS = os.name == "posix"
if _HAS_LOCKS:
    import fcntl

PathName: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# Leftovers are searched under this many names: nobody lists a directory of a million files.
_N_NAMES = 8
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def replacing(path: PathName) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` if the block ends without an exception.

    An existing file keeps its mode, and where this process may set them its owner and group; a new
    file gets the mode that any new file gets. A symbolic link stays one: what it points to is
    replaced. Hard links are not followed.

    Parameters
    ----------
    path : str, bytes or path-like

    Raises
    ------
    OSError
        `path` cannot be replaced, because it is a directory, FIFO, device or socket, a link that
        leads back to itself, or in a directory that does not exist; before anything is written. Or
        the file cannot be written; what was there is then as it was.
    """
    target, existing = _resolve(os.fsdecode(path))
    directory, name = os.path.split(target)
    key = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    prefix = os.path.join(directory, f".mtboost-{key}-")
    for number in range(_N_NAMES):
        _remove_unless_locked(f"{prefix}{number}.tmp")
    file = _create(prefix, 0o666 if existing is None else 0o600)
    try:
        with file:
            if existing is not None:
                _copy_owner_and_mode(existing, file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not _HAS_LOCKS:
                file.close()  # Windows cannot rename an open file
            os.replace(file.name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.name)
        raise
    _sync_directory(directory)


def _resolve(path: str) -> tuple[str, os.stat_result | None]:
    """The path without symbolic links, and what is known of the file if there is one."""
    if not os.path.basename(path):
        raise _not_a_file(path, stat.S_IFDIR)
    target = os.path.realpath(path)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        os.stat(os.path.dirname(target))  # its error names the directory
        return target, None
    if not stat.S_ISREG(found.st_mode):
        raise _not_a_file(path, stat.S_IFMT(found.st_mode))
    return target, found


def _not_a_file(path: str, kind: int) -> OSError:
    number = errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL
    found = _KINDS.get(kind, "not a regular file")
    return OSError(number, f"Cannot write a file here, because this is {found}", path)


def _create(prefix: str, mode: int) -> IO[bytes]:
    """Open a new temporary file, locked, under the first name that is free."""
    for number in itertools.count():
        try:
            file = open(  # noqa: SIM115  # the caller closes it
                f"{prefix}{number}.tmp",
                "x+b",
                opener=lambda name, flags: os.open(name, flags, mode),
            )
        except FileExistsError:
            continue
        # Another process may have found the file before it was locked. It then has the lock, or
        # has removed the file.
        if _try_to_lock(file.fileno()) is not False and os.fstat(file.fileno()).st_nlink > 0:
            return file
        file.close()
    raise AssertionError("unreachable")


def _try_to_lock(descriptor: int) -> bool | None:
    """Whether this process has the lock now; None where there are no locks."""
    if not _HAS_LOCKS:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _remove_unless_locked(name: str) -> None:
    """Remove what a killed process left behind."""
    if not _HAS_LOCKS:
        return
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # there is none, or it is not ours
        return
    try:
        # With the lock on the file that has this name, nobody else removes it, so that the name
        # cannot be that of a newer file meanwhile.
        if _try_to_lock(descriptor) and os.path.samestat(os.fstat(descriptor), os.lstat(name)):
            os.unlink(name)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _copy_owner_and_mode(existing: os.stat_result, descriptor: int) -> None:
    if hasattr(os, "fchown"):
        for owner in (existing.st_uid, -1):  # whoever may not set the owner may set the group
            with contextlib.suppress(OSError):
                os.fchown(descriptor, owner, existing.st_gid)
                break
    if hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):  # a file system without modes
            os.fchmod(descriptor, stat.S_IMODE(existing.st_mode))  # after fchown: it clears bits


def _sync_directory(directory: str) -> None:
    """Let the new name outlast a power failure, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
