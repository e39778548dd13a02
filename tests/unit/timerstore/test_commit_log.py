"""Tests of the commit log."""

from __future__ import annotations

import numpy as np
import pytest

from small_store import HOST, SEGMENT_SIZE, message
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.commit_log import CommitLog, LogWrite
from timermq.timerstore.errors import StoreFailedError, StoreFormatError
from timermq.timerstore.record import blank_record, encode_record
from timermq.timerstore.record_check import CheckKind

DIRECTORY = "/store/commitlog"


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with an empty store."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def new_log(disk: MemoryDisk, *, read_only: bool = False) -> CommitLog:
    """A log on the disk that is not loaded yet."""
    return CommitLog(disk, DIRECTORY, SEGMENT_SIZE, read_only=read_only)


def record(phy_offset: int, size: int = 100) -> bytes:
    """A record of a size."""
    return encode_record(
        message("x" * (size - 92)),
        queue_offset=0,
        phy_offset=phy_offset,
        store_ms=5,
        store_host=HOST,
    )


def filled(disk: MemoryDisk) -> CommitLog:
    """A log of ten records and a blank in the first segment, and two in the second."""
    log = new_log(disk)
    first = b"".join(record(at) for at in range(0, 1000, 100)) + blank_record(24)
    second = record(1024) + record(1124)
    log.append([0, 1024], [LogWrite(0, first), LogWrite(1024, second)])
    return log


POSITIONS = [*range(0, 1000, 100), 1024, 1124]


def test_a_new_log_is_empty(disk: MemoryDisk) -> None:
    """It begins with its first segment."""
    log = new_log(disk)
    log.load()

    assert (0, 0, 0, 0) == (log.min_offset, log.max_offset, log.flushed_where, log.room)
    assert list(log.scan(0, check_crc=True)) == []
    assert log.check_at(0, check_crc=True) is None


def test_records_are_read_by_position(disk: MemoryDisk) -> None:
    """A record, or neighbours in one piece."""
    log = filled(disk)

    assert record(200) == log.record_at(200, 100)
    assert record(200) + record(300) == log.record_at(200, 200)
    assert log.holds(1124, 100)
    assert (1224, 824) == (log.max_offset, log.room)


@pytest.mark.parametrize(
    "positions", [[300], [200, 300, 400], [1124, 0, 1024, 900, 100], POSITIONS, [500, 500]]
)
def test_many_records_are_read_as_one_block(disk: MemoryDisk, positions: list[int]) -> None:
    """In the order asked for, wherever they stand."""
    log = filled(disk)
    block = log.block_at(np.array(positions), np.full(len(positions), 100))

    assert block is not None
    assert [record(at) for at in positions] == block.records()
    assert positions == block.heads["phy_offset"].tolist()


@pytest.mark.parametrize(
    ("phy_offset", "size"), [(-100, 100), (1124, 101), (1224, 100), (1000, 100), (0, 90), (0, 99)]
)
def test_a_block_has_whole_records_alone(disk: MemoryDisk, phy_offset: int, size: int) -> None:
    """One that is not there, or is of another size, keeps the others back too."""
    log = filled(disk)

    assert log.block_at(np.array([300, phy_offset]), np.array([100, size])) is None
    assert log.block_at(np.array([], np.int64), np.array([], np.int64)) is None


@pytest.mark.parametrize(("phy_offset", "size"), [(-100, 100), (1224, 1), (1124, 101), (1000, 100)])
def test_outside_the_log_there_are_no_records(disk: MemoryDisk, phy_offset: int, size: int) -> None:
    """Nothing crosses a segment or the end."""
    assert filled(disk).record_at(phy_offset, size) is None


def test_a_walk_goes_over_blanks(disk: MemoryDisk) -> None:
    """From any record to the end of the data."""
    log = filled(disk)
    scan = log.scan(700, check_crc=True)

    assert POSITIONS[7:] == [phy_offset for phy_offset, _ in scan]
    assert scan.end == 1224
    assert POSITIONS == [phy_offset for phy_offset, _ in log.walk(0)]


def test_a_walk_does_not_end_in_silence_where_a_size_cannot_be_one(disk: MemoryDisk) -> None:
    """It was found good before: the file has changed since. Behind ``end`` nothing is asked."""
    log = filled(disk)
    disk.open(f"{DIRECTORY}/{0:020d}").write(500, bytes(4))

    assert POSITIONS[:5] == [phy_offset for phy_offset, _ in log.walk(0, 500)]
    with pytest.raises(StoreFormatError, match="as it was found before, found 0") as error:
        list(log.walk(0))
    assert (error.value.path, error.value.offset) == (f"{DIRECTORY}/{0:020d}", 500)


def test_a_scan_stops_at_the_first_bad_record(disk: MemoryDisk) -> None:
    """The scan says where it stopped and why."""
    log = filled(disk)
    disk.open(f"{DIRECTORY}/{0:020d}").write(590, b"y")

    scan = log.scan(0, check_crc=True)

    assert POSITIONS[:5] == [phy_offset for phy_offset, _ in scan]
    assert scan.end == 500
    assert scan.reason.startswith("body checksum: expected ")
    assert [*POSITIONS] == [phy_offset for phy_offset, _ in log.scan(0, check_crc=False)]


def test_a_record_at_another_position_is_none(disk: MemoryDisk) -> None:
    """Bytes that an older log left behind are not taken for records."""
    log = filled(disk)
    log.append([], [LogWrite(1224, record(5000))])

    scan = log.scan(0, check_crc=True)

    assert POSITIONS == [phy_offset for phy_offset, _ in scan]
    assert (1224, "position: expected 1224, found 5000") == (scan.end, scan.reason)


def test_what_stands_at_a_position(disk: MemoryDisk) -> None:
    """A record, a blank, or nothing good."""
    log = filled(disk)
    kinds = [log.check_at(at, check_crc=True) for at in (100, 1000, 1224)]

    assert [CheckKind.RECORD, CheckKind.BLANK, CheckKind.BAD] == [
        result and result.kind for result in kinds
    ]


def test_a_failed_append_leaves_nothing_behind(disk: MemoryDisk) -> None:
    """What was written before the error is zeroed: it would be whole records at right positions."""
    log = filled(disk)
    disk.total = disk.usage("/").used
    writes = [LogWrite(1224, record(1224)), LogWrite(2048, record(2048))]
    log.append([], writes[:1])
    log.set_end(1224)

    with pytest.raises(OSError, match="no space left"):
        log.append([2048], writes)

    assert (1224, 824) == (log.max_offset, log.room)
    assert disk.open(f"{DIRECTORY}/{1024:020d}").read(200, 824) == bytes(824)

    disk.total = 1 << 20
    log.append([2048], writes)

    assert log.record_at(2048, 100) == record(2048)


def test_an_append_that_cannot_be_undone_fails_the_log(disk: MemoryDisk) -> None:
    """Then only recovery can say what is stored."""
    log = filled(disk)
    disk.process_kill()  # every handle is closed: neither writing nor zeroing works

    with pytest.raises(StoreFailedError, match=r"^/store/commitlog: at 1224: "):
        log.append([], [LogWrite(1224, record(1224))])


@pytest.mark.parametrize("distance", [0, 50, 700])
def test_stale_bytes_behind_the_end_are_zeroed(disk: MemoryDisk, distance: int) -> None:
    """However far they are, within the segment."""
    log = filled(disk)
    log.set_end(1124)
    file = disk.open(f"{DIRECTORY}/{1024:020d}")
    file.write(100 + distance, b"stale")

    log.zero_tail()

    assert file.read(100, 924) == bytes(924)
    assert record(1024) == log.record_at(1024, 100)


def test_old_segments_are_removed(disk: MemoryDisk) -> None:
    """Segments that end before a position go, but never the newest one."""
    log = filled(disk)

    assert [0, 1, 0] == [log.delete_before(end) for end in (1023, 1024, 9999)]
    assert log.min_offset == 1024
    assert not log.holds(900, 100)


async def test_a_removed_segment_does_not_come_back_with_a_power_cut(disk: MemoryDisk) -> None:
    """Its seals are gone for good, so what rots of it then would be noticed by nothing."""
    log = filled(disk)
    await log.flush()
    log.delete_before(SEGMENT_SIZE)
    disk.power_cut()

    assert [f"{SEGMENT_SIZE:020d}"] == disk.list_dir(DIRECTORY)


async def test_what_is_flushed_survives_a_power_cut(disk: MemoryDisk) -> None:
    """The data and the names of segments."""
    log = filled(disk)
    await log.flush()

    assert log.flushed_where == 1224

    log.append([], [LogWrite(1224, record(1224))])
    disk.power_cut()
    log = new_log(disk)
    log.load()

    assert POSITIONS == [phy_offset for phy_offset, _ in log.scan(0, check_crc=True)]


def test_a_blocking_sync_covers_the_segments_from_a_position_on(disk: MemoryDisk) -> None:
    """For recovery, which takes over what a killed process has written."""
    log = filled(disk)
    log.sync_now(0)
    disk.power_cut()
    log = new_log(disk)
    log.load()

    assert len(list(log.scan(0, check_crc=True))) == 12


def test_cold_records_can_be_announced(disk: MemoryDisk) -> None:
    """Positions outside the log are passed over."""
    filled(disk).will_need([(100, 100), (1024, 100), (9999, 100)])
