"""What is special about the real disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from trio.testing import MockClock

from timermq.timerstore.os_disk import OsDisk, OsFile

TAKE_AS_JAVA_DOES = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
except OSError:
    print("refused")
else:
    print("taken")
"""


def test_java_is_kept_out(tmp_path: Path) -> None:
    """A plain record lock of another process on byte 0, which is what Java takes, is refused."""
    path = str(tmp_path / "lock")
    command = [sys.executable, "-c", TAKE_AS_JAVA_DOES, path]
    lock = OsDisk().lock(path)
    while_held = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lock.release()
    afterwards = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert (while_held, afterwards) == ("refused\n", "taken\n")


def test_what_cannot_be_seen_is_not_missing(tmp_path: Path) -> None:
    """A place that the system does not tell of is an error; only what is not there is missing."""
    disk, around = OsDisk(), tmp_path / "around"
    around.symlink_to(around)
    (tmp_path / "file").touch()

    for look in (disk.exists, disk.is_dir):
        assert not look(f"{tmp_path}/nothing")
        assert not look(f"{tmp_path}/file/below")
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            look(f"{around}/store")
    assert disk.exists(f"{tmp_path}/file")
    assert [disk.is_dir(f"{tmp_path}/file"), disk.is_dir(str(tmp_path))] == [False, True]


def test_a_failed_sync_is_never_tried_again() -> None:
    """The second sync reports the first failure: the kernel may count the lost pages as clean."""
    disk = OsDisk()
    file = disk.open("/dev/full", create=False)  # a device that cannot be synced
    with pytest.raises(OSError, match="Invalid argument: '/dev/full'"):
        disk.sync_now(file)

    with pytest.raises(OSError, match="an earlier sync failed: Invalid argument: '/dev/full'"):
        disk.sync_now(file)
    file.close()


async def test_a_failure_in_the_thread_is_raised() -> None:
    """What the worker thread saw reaches the caller."""
    disk = OsDisk()
    file = disk.open("/dev/full")
    with pytest.raises(OSError, match="Invalid argument") as error:
        await disk.sync(file)

    assert error.value.errno == errno.EINVAL
    file.close()


async def test_a_directory_is_synced_when_files_may_be_opened_again(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files are no failed sync."""
    tries = list[str]()
    sync_dir_now = OsDisk.sync_dir_now

    def refused_twice(disk: OsDisk, path: str) -> None:
        tries.append(path)
        if len(tries) < 3:
            raise OSError(errno.EMFILE, "Too many open files", path)
        sync_dir_now(disk, path)

    monkeypatch.setattr(OsDisk, "sync_dir_now", refused_twice)
    await OsDisk().sync_dir(str(tmp_path))

    assert [str(tmp_path)] * 3 == tries


def test_a_full_disk_is_an_error() -> None:
    """What the disk does not take is an OSError, not a short write."""
    file = OsDisk().open("/dev/full")
    with pytest.raises(OSError, match="No space left") as error:
        file.write(0, b"abc")

    assert error.value.errno == errno.ENOSPC
    assert "/dev/full" == error.value.filename
    assert "No space left on device (writing 3 bytes at 0)" == error.value.strerror
    file.close()


def test_an_error_names_file_and_deed(tmp_path: Path) -> None:
    """What the system says of a descriptor alone names neither."""
    path = str(tmp_path / "file")
    Path(path).write_bytes(b"")
    # Opened without the right to do it.
    unreadable, unwritable = (
        OsFile(path, os.open(path, way)) for way in (os.O_WRONLY, os.O_RDONLY)
    )
    deeds: dict[str, Callable[[], object]] = {
        "reading 7 bytes at 2": lambda: unreadable.read(2, 7),
        "writing 1 bytes at 3": lambda: unwritable.write(3, b"x"),
        "reserving 9 bytes": lambda: unwritable.allocate(9),
        "setting the length to 5": lambda: unwritable.truncate(5),
    }
    for doing, deed in deeds.items():
        with pytest.raises(OSError, match=rf"\({doing}\): '{path}'"):
            deed()
    unreadable.close()
    unwritable.close()


def test_allocate_takes_blocks_and_truncate_none(tmp_path: Path) -> None:
    """Reserved blocks count as used space, a sparse file has none."""
    disk = OsDisk()
    reserved = disk.open(str(tmp_path / "reserved"), create=True)
    sparse = disk.open(str(tmp_path / "sparse"), create=True)
    reserved.allocate(1 << 20)
    sparse.truncate(1 << 20)

    found = [(tmp_path / name).stat().st_blocks * 512 for name in ("reserved", "sparse")]
    assert found[0] >= 1 << 20
    assert found[1] < 1 << 16
    reserved.close()
    sparse.close()


def test_the_descriptor_stays_open_during_a_sync(tmp_path: Path) -> None:
    """Its number must not go to another file while a worker thread is about to use it."""
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.write(0, b"abc")
    file.hold()
    file.close()

    assert file.read(0, 3) == b"abc"

    file.let_go()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 3)


def test_usage_of_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path that does not exist yet is looked for here, not at the root."""
    monkeypatch.chdir(tmp_path)

    assert OsDisk().usage("new/store").total == OsDisk().usage(str(tmp_path)).total


def test_relative_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that got the entry of a relative path can be synced."""
    monkeypatch.chdir(tmp_path)
    disk = OsDisk()
    changed = disk.make_dirs("new/store")
    for directory in changed:
        disk.sync_dir_now(directory)

    assert changed == ["new", "."]
