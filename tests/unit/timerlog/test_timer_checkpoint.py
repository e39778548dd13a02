"""Tests of the timer checkpoint's page: RocketMQ's numbers, our extension, and damage to both."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import CheckpointExtension, TimerCheckpoint
from timermq.timerlog.timer_checkpoint import CHECKPOINT, EXTENSION_AT, PAGE_SIZE
from timermq.timerstore.errors import StoreFormatError

PATH = "/store/config/timercheck"
GOLDEN = bytes.fromhex(
    "0000018bcfe56800 0000000000000034 0000000000000008 0000000000000008 "
    "0000000000000000 0000018bcfe569f4 0000000000000003"
)
"""Read 1700000000000, flushed 52, queue 8, master 8, state 0, version 3 of 1700000000500."""


def make_disk(page: bytes | None = None) -> MemoryDisk:
    """A disk with the configuration directory and perhaps a page."""
    disk = MemoryDisk()
    disk.make_dirs("/store/config")
    if page is not None:
        disk.open(PATH, create=True).write(0, page)
    return disk


def update(
    checkpoint: TimerCheckpoint, *, read_ms: int = 1000, queue: int = 8, now: int = 7
) -> None:
    """Set new values, of which these three may be chosen."""
    checkpoint.update(
        last_read_time_ms=read_ms,
        last_timer_log_flush_pos=52,
        last_timer_queue_offset=queue,
        scan_py=4096,
        precision_ms=1000,
        now_ms=now,
    )


def written(disk: MemoryDisk) -> bytes:
    """The bytes of the page as the file has them."""
    return disk.open(PATH).read(0, PAGE_SIZE)


def test_golden_numbers_are_read_and_written() -> None:
    """Seven big-endian numbers stand at the head of a page of zeros."""
    page = GOLDEN.ljust(PAGE_SIZE, b"\0")
    checkpoint = TimerCheckpoint.decode(page)

    assert (1_700_000_000_000, 52, 8, 8, 0, 1_700_000_000_500, 3) == (
        checkpoint.last_read_time_ms,
        checkpoint.last_timer_log_flush_pos,
        checkpoint.last_timer_queue_offset,
        checkpoint.master_timer_queue_offset,
        checkpoint.state_version,
        checkpoint.timestamp,
        checkpoint.counter,
    )
    assert checkpoint.extension is None
    assert page == checkpoint.encode()


def test_a_missing_file_is_all_zero() -> None:
    """So is the file that opening makes."""
    disk = make_disk()
    checkpoint = TimerCheckpoint.open(disk, PATH)

    assert bytes(PAGE_SIZE) == checkpoint.encode()
    assert checkpoint.extension is None
    assert disk.open(PATH).size() == 0


def test_read_only_creates_nothing() -> None:
    """A tool sees zeros where no file is."""
    disk = make_disk()
    checkpoint = TimerCheckpoint.open(disk, PATH, read_only=True)
    checkpoint.close()

    assert checkpoint.last_read_time_ms == 0
    assert not disk.exists(PATH)


def test_a_page_that_was_being_reserved_reads_as_zeros() -> None:
    """With blocks of a kilobyte, where a file system cannot reserve, a kill left a part of it."""
    disk = make_disk()
    disk.open(PATH, create=True).truncate(PAGE_SIZE // 4)
    page = TimerCheckpoint.open(disk, PATH)
    page.reserve()

    assert 0 == page.last_read_time_ms
    assert PAGE_SIZE == page.file.size()


def test_another_length_is_refused() -> None:
    """A page is whole or not there."""
    with pytest.raises(StoreFormatError) as caught:
        TimerCheckpoint.open(make_disk(b"x" * 56), PATH)

    assert str(caught.value) == f"{PATH}: at 56: expected a page of 4096 bytes, found 56"


@pytest.mark.parametrize("size", [92, 512, 4095])
def test_a_page_that_was_cut_behind_its_numbers(size: int) -> None:
    """It has lost nothing, and gets its length again."""
    checkpoint = TimerCheckpoint()
    update(checkpoint)
    disk = make_disk(checkpoint.encode()[:size])
    found = TimerCheckpoint.open(disk, PATH)
    found.write()

    assert found.encode() == checkpoint.encode()
    assert PAGE_SIZE == found.file.size()


def test_what_is_written_is_read_again() -> None:
    """All numbers and the extension survive a synced write and a power cut."""
    disk = make_disk()
    checkpoint = TimerCheckpoint.open(disk, PATH)
    update(checkpoint)
    checkpoint.write()
    disk.sync_now(checkpoint.file)
    disk.power_cut()
    again = TimerCheckpoint.open(disk, PATH)

    assert checkpoint.encode() == again.encode()
    assert again.extension == CheckpointExtension(precision_ms=1000, scan_py=4096)


def test_the_extension_stands_where_rocketmq_does_not_look() -> None:
    """It begins with its name at byte 64; the bytes before and behind it are zero."""
    checkpoint = TimerCheckpoint()
    update(checkpoint)
    page = checkpoint.encode()

    assert page[EXTENSION_AT:].startswith(b"TMQ1\0\0\0\x01")
    assert bytes(8) == page[56:64]
    assert bytes(PAGE_SIZE - 92) == page[92:]


@pytest.mark.parametrize("at", [7, 15, 23, 47, 55, 64, 71, 79, 87, 91])
def test_a_change_that_is_not_ours_voids_the_extension(at: int) -> None:
    """When RocketMQ has written its numbers, or a byte is damaged, the extension does not hold."""
    checkpoint = TimerCheckpoint()
    update(checkpoint)
    page = bytearray(checkpoint.encode())
    page[at] ^= 3

    assert TimerCheckpoint.decode(bytes(page)).extension is None


@pytest.mark.parametrize("at", [*range(CHECKPOINT.size), EXTENSION_AT + 7, EXTENSION_AT + 23])
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_is_put_right(at: int, bit: int) -> None:
    """A read time in the far future would pass over all that waits until then."""
    checkpoint = TimerCheckpoint()
    update(checkpoint)
    page = bytearray(checkpoint.encode())
    page[at] ^= 1 << bit

    assert TimerCheckpoint.decode(bytes(page)).encode() == checkpoint.encode()


def test_an_unknown_version_is_not_read() -> None:
    """The version stands behind the name; only the first is known."""
    checkpoint = TimerCheckpoint()
    update(checkpoint)
    page = bytearray(checkpoint.encode())
    page[EXTENSION_AT + 7] = 2

    assert TimerCheckpoint.decode(bytes(page)).extension is None


def test_the_version_counts_changes_of_read_time_and_queue_offset() -> None:
    """A checkpoint that only flushed more has the version of the one before."""
    checkpoint = TimerCheckpoint()
    versions: list[tuple[int, int]] = []
    for read_ms, queue, now in [(1000, 8, 1), (1000, 8, 2), (2000, 8, 3), (2000, 9, 4)]:
        update(checkpoint, read_ms=read_ms, queue=queue, now=now)
        versions.append((checkpoint.counter, checkpoint.timestamp))

    assert [(1, 1), (1, 1), (2, 3), (3, 4)] == versions


def test_the_master_offset_is_ours() -> None:
    """RocketMQ resumes from the smaller of the two."""
    checkpoint = TimerCheckpoint(master_timer_queue_offset=3)
    update(checkpoint, queue=8)

    assert checkpoint.master_timer_queue_offset == 8
