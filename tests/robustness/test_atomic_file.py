# SPDX-License-Identifier: Apache-2.0
"""A file is replaced in one step, whatever was there and whenever the process is killed."""

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mtboost.base.atomic_file
from mtboost.base.atomic_file import replacing

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes, links and locks of POSIX")


def write(path, content):
    with replacing(path) as file:
        file.write(content)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def names(folder):
    return sorted(os.listdir(folder))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


# ---- mode and owner -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_an_existing_file_keeps_its_mode(path, mode):
    path.chmod(mode)
    write(path, b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", mode)


def test_what_is_written_is_never_more_readable_than_the_file(path):
    path.chmod(0o600)
    with replacing(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_that_any_new_file_has(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "new", b"new")
        (tmp_path / "other").write_bytes(b"")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new") == mode_of(tmp_path / "other") == 0o666 & ~umask


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_an_existing_file_keeps_its_owner_where_that_may_be_set(path):
    os.chown(path, 1234, 5678)
    path.chmod(0o6750)
    write(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid, mode_of(path)) == (1234, 5678, 0o6750)


def test_an_owner_that_may_not_be_set_is_no_error(path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    write(path, b"new")
    assert path.read_bytes() == b"new"


# ---- links ----------------------------------------------------------------------------------


def test_a_link_stays_a_link_and_its_target_is_replaced(path, tmp_path):
    (tmp_path / "links").mkdir()
    first, second = tmp_path / "links" / "first", tmp_path / "links" / "second"
    first.symlink_to("second")
    second.symlink_to(Path("..") / "file")
    path.chmod(0o640)
    write(first, b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o640)
    assert (os.readlink(first), os.readlink(second)) == ("second", "../file")
    assert names(tmp_path / "links") == ["first", "second"]


def test_the_target_of_a_dangling_link_is_created(tmp_path):
    (tmp_path / "link").symlink_to("target")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "one", b"new")
    assert names(tmp_path) == ["one", "other"]


# ---- what is no file ------------------------------------------------------------------------


def make_device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root may make devices")


OTHERS = {
    "a directory": os.mkdir,
    "a FIFO": os.mkfifo,
    "a device": make_device,
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
}


@pytest.mark.parametrize(("kind", "make"), OTHERS.items(), ids=OTHERS)
def test_what_is_no_regular_file_is_refused_before_anything_is_written(tmp_path, kind, make):
    make(tmp_path / "other")
    (tmp_path / "link").symlink_to("other")
    for name in ("other", "link"):
        with pytest.raises(OSError, match=f"this is {kind}.*{name}"), replacing(tmp_path / name):
            raise AssertionError("the block was entered")
    assert names(tmp_path) == ["link", "other"]


@pytest.mark.parametrize("name", ["", "folder/", "nowhere/file", "file/file"])
def test_a_path_without_a_file_or_a_folder_is_refused(path, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="."), replacing(name):
        raise AssertionError("the block was entered")
    assert names(tmp_path) == ["file"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere'$"):
        write(tmp_path / "nowhere" / "file", b"new")


# ---- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, b"\xff" * 255])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
    write(path, b"old")
    write(path, b"new")
    assert os.listdir(os.fsencode(tmp_path)) == [os.fsencode(name)]
    with open(path, "rb") as file:
        assert file.read() == b"new"


# ---- failures -------------------------------------------------------------------------------


def test_a_block_that_raises_leaves_the_file_and_nothing_else(path, tmp_path):
    def fail():
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_directory_that_cannot_be_synced_is_no_error(path, monkeypatch):
    sync = os.fsync

    def fails_for_directories(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError("not supported")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fails_for_directories)
    write(path, b"new")
    assert path.read_bytes() == b"new"


# ---- processes that are killed --------------------------------------------------------------

# The module alone, so that a process starts quickly.
_KILLED = """
import importlib.util, os, signal, sys

source, path, step = sys.argv[1:]
spec = importlib.util.spec_from_file_location("atomic_file", source)
atomic_file = importlib.util.module_from_spec(spec)
spec.loader.exec_module(atomic_file)
replace = os.replace

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def replace_and_die(*names):
    replace(*names)
    die()

if step == "begin":
    atomic_file._copy_owner_and_mode = die
if step == "sync":
    os.fsync = die
if step == "before":
    os.replace = die
if step == "after":
    os.replace = replace_and_die
with atomic_file.replacing(path) as file:
    file.write(b"new")
    if step == "write":
        die()
"""


def kill_at(step, path):
    command = [sys.executable, "-c", _KILLED, mtboost.base.atomic_file.__file__, str(path), step]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", ["begin", "write", "sync", "before", "after"])
def test_a_kill_leaves_the_old_file_or_the_new_one(path, tmp_path, step):
    kill_at(step, path)
    assert path.read_bytes() == (b"new" if step == "after" else b"old")
    assert (len(names(tmp_path)) == 1) == (step == "after")
    write(path, b"newer")
    assert path.read_bytes() == b"newer"
    assert names(tmp_path) == ["file"]


def test_leftovers_of_several_kills_are_removed_and_those_of_other_files_are_not(path, tmp_path):
    other = tmp_path / "other"
    with replacing(path) as live:  # which has the first name
        kill_at("write", path)
        kill_at("write", other)
        assert len(names(tmp_path)) == 4
        live.write(b"live")
    assert len(names(tmp_path)) == 3
    write(path, b"new")
    assert len(names(tmp_path)) == 2
    write(other, b"new")
    assert names(tmp_path) == ["file", "other"]


def test_the_temporary_file_of_a_living_process_stays(path, tmp_path):
    with replacing(path) as first:
        first.write(b"first")
        with replacing(path) as second:
            second.write(b"second")
            write(path, b"third")
            assert path.read_bytes() == b"third"
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["file"]


def test_threads_that_write_one_file_do_not_disturb_each_other(path, tmp_path):
    contents = [bytes([number]) * 100_000 for number in range(4)]
    threads = [
        threading.Thread(target=lambda own=own: [write(path, own) for _ in range(20)])
        for own in contents
    ]
    for thread in threads:
        thread.start()
    found = [path.read_bytes() for _ in range(50)]
    for thread in threads:
        thread.join()
    assert set(found) <= {b"old", *contents}
    assert path.read_bytes() in contents
    assert names(tmp_path) == ["file"]


def test_a_file_system_without_locks_keeps_what_was_left_behind(path, tmp_path, monkeypatch):
    kill_at("write", path)

    def refuse(*_):
        raise OSError("not supported")

    monkeypatch.setattr(mtboost.base.atomic_file.fcntl, "flock", refuse)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert len(names(tmp_path)) == 2  # it might be of a living process
