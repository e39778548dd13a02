"""Reserving the blocks of a segment: a kill within leaves a log that opens, on any file system."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import BLOCK_SIZE
from timermq.timerstore.commit_log import CommitLog, LogWrite
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.os_disk import OsDisk

CHILD = Path(__file__).with_name("reserving_child.py")
LOG = "/store/log"
SIZE = 8 * BLOCK_SIZE
FULL = b"0" * SIZE


class Killed(BaseException):
    """The process is gone: nothing of it cleans up."""


def new_log(disk: MemoryDisk | OsDisk, directory: str = LOG, size: int = SIZE) -> MappedFileQueue:
    """The log as a start opens it."""
    log = MappedFileQueue(disk, directory, size, reserve=True)
    log.load()
    return log


def without_fallocate() -> MemoryDisk:
    """A disk that reserves block after block."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    disk.reserves_blocks = False
    return disk


def kill_at(disk: MemoryDisk, count: int) -> None:
    """Kill the process before it reserves one of the next blocks, counted from 0."""
    left = count

    def on_reserving(_: str) -> None:
        nonlocal left
        if not left:
            disk.process_kill()
            raise Killed
        left -= 1

    disk.on_reserving = on_reserving


@pytest.mark.parametrize("blocks", range(8))
def test_a_kill_inside_a_reservation_leaves_a_log_that_opens(blocks: int) -> None:
    """Whatever blocks it had taken: the next process goes on, with all blocks of the segment."""
    disk = without_fallocate()
    log = new_log(disk)
    log.write(0, FULL)
    kill_at(disk, blocks)
    with pytest.raises(Killed):
        log.write(SIZE, b"1")
    disk.on_reserving = lambda _: None
    log = new_log(disk)
    log.set_end(SIZE)
    log.write(SIZE, b"1")

    assert FULL == log.read(0, SIZE)
    assert b"1" == log.read(SIZE, 2)
    assert 2 * SIZE == disk.usage("/").used


def test_the_blocks_of_an_only_segment_are_completed_by_its_first_write() -> None:
    """Its name says where the log goes on, so it stays; without room nothing is written."""
    disk = without_fallocate()
    kill_at(disk, 3)
    with pytest.raises(Killed):
        new_log(disk).write(0, b"1")
    disk.on_reserving = lambda _: None
    disk.total = 5 * BLOCK_SIZE
    log = new_log(disk)
    log.set_end(0)
    with pytest.raises(OSError, match="no space left"):
        log.write(0, b"1")
    refused = (log.wrote, log.segments[0].file.read(0, 1))
    disk.total = SIZE
    log.write(0, b"1")

    assert (0, b"\0") == refused
    assert (1, SIZE) == (log.wrote, disk.usage("/").used)


def test_a_full_disk_gives_the_room_of_a_reservation_back() -> None:
    """The blocks that were taken until the disk was full are free again."""
    disk = without_fallocate()
    disk.total = SIZE + 3 * BLOCK_SIZE
    log = new_log(disk)
    log.write(0, FULL)
    with pytest.raises(OSError, match="no space left"):
        log.write(SIZE, b"1")

    assert SIZE == disk.usage("/").used
    assert [f"{0:020d}"] == disk.list_dir(LOG)


@pytest.mark.parametrize("size", [1, BLOCK_SIZE, SIZE - 1])
def test_what_earlier_versions_left_of_a_reservation_is_no_segment(size: int) -> None:
    """A last segment that is too short and was never written goes, as one without length."""
    disk = without_fallocate()
    new_log(disk).write(0, FULL)
    disk.open(f"{LOG}/{SIZE:020d}", create=True).truncate(size)
    log = new_log(disk)

    assert (SIZE, 1) == (log.wrote, len(log.segments))
    assert [f"{0:020d}"] == disk.list_dir(LOG)


def test_a_short_segment_with_data_is_refused_and_stays() -> None:
    """Data comes when all blocks are there: this one has lost its end."""
    disk = without_fallocate()
    new_log(disk).write(0, FULL)
    disk.open(f"{LOG}/{SIZE:020d}", create=True).write(5, b"x")
    with pytest.raises(StoreFormatError, match=f"a segment of {SIZE} bytes, found 6"):
        new_log(disk)

    assert 2 == len(disk.list_dir(LOG))


def test_an_append_that_finds_no_block_leaves_nothing_to_undo() -> None:
    """In a sparse segment, as RocketMQ leaves it, a full disk is no failure of the store."""
    disk = MemoryDisk()
    disk.make_dirs(LOG)
    disk.open(f"{LOG}/{0:020d}", create=True).truncate(SIZE)
    disk.total = BLOCK_SIZE
    log = CommitLog(disk, LOG, SIZE)
    log.load()
    log.set_end(0)
    with pytest.raises(OSError, match="no space left"):
        log.append([], [LogWrite(0, b"record")])

    assert 0 == log.max_offset


# -- real file systems ------------------------------------------------------------------------


def run_children(directory: str, size: int, how: str, moments: Iterable[float]) -> list[int]:
    """Have processes begin a segment and die, one for each moment; their return codes."""
    command = [sys.executable, str(CHILD), directory, str(size), how, *map(str, moments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(map(int, done.stdout.split()))


def go_on(directory: str, size: int) -> bytes:
    """Open the log again and write; what its first segment holds."""
    log = new_log(OsDisk(), directory, size)
    log.set_end(0)
    log.write(0, b"y")
    found = log.segments[0].file.read(0, size)
    log.close()
    return found


@pytest.mark.slow
def test_a_kill_at_every_block_of_a_staged_reservation(tmp_path: Path) -> None:
    """The real disk, where only the system call is staged: what it had written is there."""
    size = 4 * BLOCK_SIZE
    codes = run_children(str(tmp_path), size, "steps", range(5))
    sizes = [(tmp_path / str(steps) / f"{0:020d}").stat().st_size for steps in range(5)]
    found = [go_on(str(tmp_path / str(steps)), size) for steps in range(5)]

    assert [-signal.SIGKILL] * 4 + [0] == codes
    assert [size] * 5 == sizes
    assert [b"y".ljust(size, b"\0")] * 5 == found


def test_blocks_are_taken_where_the_system_cannot_reserve(tmp_path: Path) -> None:
    """Zeros are written, into holes alone: what stands there stays."""
    size, path = 64 * BLOCK_SIZE, tmp_path / "0" / f"{0:020d}"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(17 * BLOCK_SIZE)
        file.write(b"data")
    codes = run_children(str(tmp_path), size, "never", [0])

    assert ([0], size) == (codes, path.stat().st_size)
    assert [b"x", b"data"] == [part for part in path.read_bytes().split(b"\0") if part]
    assert path.stat().st_blocks * 512 >= size - 16 * BLOCK_SIZE


def may_mount(kind: str) -> str | None:
    """Why a file system cannot be mounted here, None when it can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    if kind != "tmpfs" and shutil.which(f"mkfs.{kind}") is None:
        return f"there is no mkfs.{kind}"
    return None


@contextlib.contextmanager
def mounted(root: Path, kind: str, size: int) -> Generator[str]:
    """A file system of some kind and size, as long as the block lasts; skips where it may not."""
    refusal = may_mount(kind)
    if refusal is not None:
        pytest.skip(refusal)
    place, image = root / "mounted", root / "image"
    place.mkdir()
    how = ["mount", "-t", "tmpfs", "-o", f"size={size}", "timermq", str(place)]
    if kind != "tmpfs":
        with image.open("wb") as file:
            file.truncate(size)
        subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True, capture_output=True)
        how = ["mount", "-o", "loop", str(image), str(place)]
    made = subprocess.run(how, check=False, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"mounting was refused: {made.stderr.strip()}")
    try:
        yield str(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ext3", "ext4", "xfs", "tmpfs"])
def test_a_real_file_system(kind: str, tmp_path: Path) -> None:
    """A process that dies at any moment of a reservation leaves a log that opens.

    And a segment that finds no room takes none.
    """
    size, segment_size = (320 if kind == "xfs" else 96) << 20, 16 << 20
    with mounted(tmp_path, kind, size) as place:
        run_children(place, segment_size, "seconds", (0.0001, 0.001, 0.004, 0.01))
        for number in range(4):
            assert b"y".ljust(segment_size, b"\0") == go_on(f"{place}/{number}", segment_size)
        before = OsDisk().usage(place).free
        log = new_log(OsDisk(), f"{place}/log", size)
        with pytest.raises(OSError, match="No space left on device"):
            log.write(0, b"x")

        assert [] == OsDisk().list_dir(f"{place}/log")
        assert OsDisk().usage(place).free >= before - (1 << 20)
