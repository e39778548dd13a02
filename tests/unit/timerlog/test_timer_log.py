"""The timer log: appending, reading, recovery, removal."""

from __future__ import annotations

import errno
from collections.abc import Iterable

import numpy as np
import pytest
import trio

from timer_units import SEGMENT_SIZE, append_units, make_units
from timermq.simulator.disks.memory_disk import MemoryDisk, MemoryFile
from timermq.timerlog import TimerLog
from timermq.timerlog.segment import CHUNK_COUNT
from timermq.timerlog.timer_log import NEAR_SIZE
from timermq.timerlog.unit import BLANK, UNIT
from timermq.timerstore.errors import StoreFormatError

DIRECTORY = "/store/timerlog"


def opened(disk: MemoryDisk, from_pos: int = 0, *, read_only: bool = False) -> TimerLog:
    """A recovered log of segments of 250 bytes: four units each."""
    log = TimerLog.open(disk, DIRECTORY, SEGMENT_SIZE, read_only=read_only)
    log.recover(from_pos)
    return log


def file_bytes(disk: MemoryDisk, start: int) -> bytes:
    """The bytes of the segment that begins at a position."""
    return disk.open(f"{DIRECTORY}/{start:020d}").read(0, SEGMENT_SIZE)


def scanned(log: TimerLog, from_pos: int = 0) -> list[tuple[int, int]]:
    """(position, message position) of all units."""
    return [
        (pos, offset_py)
        for positions, units in log.scan(from_pos)
        for pos, offset_py in zip(positions.tolist(), units["offset_py"].tolist(), strict=True)
    ]


def test_a_new_log_is_empty_and_has_no_files() -> None:
    """The first segment is made by the first unit."""
    disk = MemoryDisk()
    log = opened(disk)

    assert (0, 0, []) == (log.min_pos, log.max_pos, disk.list_dir(DIRECTORY))
    assert [] == scanned(log)


def test_units_stand_where_positions_says() -> None:
    """Four units fit into a segment of 250 bytes; the blank behind them is skipped."""
    log = opened(MemoryDisk())
    expected = log.positions(6).tolist()

    assert [0, 52, 104, 156, 250, 302] == expected
    assert expected == append_units(log, [1] * 6, {})
    assert log.max_pos == 354
    assert [(pos, 100 * index) for index, pos in enumerate(expected)] == scanned(log)


def test_the_blank_is_written_with_the_unit_behind_it() -> None:
    """A full segment stays open until the next unit comes."""
    disk = MemoryDisk()
    log = opened(disk)
    append_units(log, [1] * 4, {})

    assert log.max_pos == 208
    assert bytes(42) == file_bytes(disk, 0)[208:]

    append_units(log, [1], {})

    assert (
        bytes.fromhex("0000002a 0000000000000000 cbd43194") + bytes(26) == file_bytes(disk, 0)[208:]
    )
    assert log.max_pos == 302


def test_one_batch_fills_several_segments() -> None:
    """A batch goes on in the next segments, each closed by its blank."""
    disk = MemoryDisk()
    log = opened(disk)
    append_units(log, [1] * 10, {})

    assert [f"{start:020d}" for start in (0, 250, 500)] == disk.list_dir(DIRECTORY)
    assert opened(disk).max_pos == 604


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    """A batch that needs a segment for which there is no room is not written at all."""
    disk = MemoryDisk(total=4 * 4096)
    log = opened(disk)
    append_units(log, [1] * 3, {})

    with pytest.raises(OSError, match=r"\w") as caught:
        append_units(log, [1] * 7, {})

    assert caught.value.errno == errno.ENOSPC
    assert log.max_pos == 156

    append_units(log, [1] * 2, {})

    assert 5 == len(scanned(opened(disk)))


def test_a_unit_is_read_by_its_position() -> None:
    """All fields of the unit come back."""
    log = opened(MemoryDisk())
    append_units(log, [5, 7, 5], {})
    unit = log.unit(104)

    assert (0, 5, 200, 100) == (unit.prev_pos, unit.slot_ms, unit.offset_py, unit.size_py)


@pytest.mark.parametrize(
    ("pos", "message"),
    [
        (52, "at 52: expected a unit, found 0 bytes"),
        (4, "at 4: expected a unit, found 48 bytes"),
        (900, "at 900: expected a unit, found 0 bytes"),
    ],
)
def test_what_is_no_unit_is_refused(pos: int, message: str) -> None:
    """A position at or across the end has no unit."""
    log = opened(MemoryDisk())
    append_units(log, [5], {})

    with pytest.raises(StoreFormatError) as caught:
        log.unit(pos)

    assert str(caught.value) == f"{DIRECTORY}: {message}"


def test_a_blank_is_no_unit() -> None:
    """Behind a blank the segment ends too soon for a unit, or its magic is not one."""
    log = TimerLog.open(MemoryDisk(), DIRECTORY, 52 * 2 + 60)
    append_units(log, [5] * 3, {})

    with pytest.raises(StoreFormatError) as caught:
        log.unit(104)

    assert str(caught.value) == (
        f"{DIRECTORY}: at 104: expected a unit, found size 60 and magic -875286124"
    )


def test_targets_tells_the_slots_of_units_and_rejects_the_rest() -> None:
    """Only the start of a unit before the end has a slot."""
    log = opened(MemoryDisk())
    append_units(log, [5, 6, 7, 8, 9], {})
    positions = np.array([250, 0, 156, 208, 1, 302, -1, 9999, 52])

    assert [9, 5, 8, -1, -1, -1, -1, -1, 6] == log.targets(positions).tolist()


def test_scan_begins_where_it_is_told() -> None:
    """From the start of a segment or the position of a unit."""
    log = opened(MemoryDisk())
    append_units(log, [1] * 6, {})

    assert [(156, 300), (250, 400), (302, 500)] == scanned(log, 156)
    assert [(250, 400), (302, 500)] == scanned(log, 250)


def test_scan_leaves_out_a_damaged_unit() -> None:
    """Damage to one unit does not hide those behind it."""
    disk = MemoryDisk()
    log = opened(disk)
    append_units(log, [1] * 6, {})
    disk.open(f"{DIRECTORY}/{0:020d}").write(52, b"\xff" * 52)
    log = opened(disk, 250)

    assert [0, 104, 156, 250, 302] == [pos for pos, _ in scanned(log)]


def test_recovery_finds_the_end() -> None:
    """A reopened log goes on behind its last unit."""
    disk = MemoryDisk()
    newest: dict[int, int] = {}
    append_units(opened(disk), [1] * 6, newest)
    log = opened(disk)

    assert log.max_pos == 354
    assert [354, 406, 500] == append_units(log, [1] * 3, newest)


def test_recovery_reads_from_the_segment_it_is_told() -> None:
    """What stands in earlier segments is not looked at."""
    disk = MemoryDisk()
    append_units(opened(disk), [1] * 6, {})
    disk.open(f"{DIRECTORY}/{0:020d}").write(0, bytes(52))

    assert opened(disk, 300).max_pos == 354
    assert opened(disk, 99_999).max_pos == 354
    assert opened(disk, 0).max_pos == 0


def test_recovery_removes_segments_behind_the_end() -> None:
    """Without the blank that closes a segment the log ends there."""
    disk = MemoryDisk()
    append_units(opened(disk), [1] * 6, {})
    disk.open(f"{DIRECTORY}/{0:020d}").write(208, bytes(16))
    log = opened(disk)

    assert log.max_pos == 208
    assert [f"{0:020d}"] == disk.list_dir(DIRECTORY)
    assert [250] == append_units(log, [1], {})


def test_units_behind_a_torn_one_do_not_come_back() -> None:
    """Once cut off, a unit stays away, also when newer units fill the gap before it."""
    disk = MemoryDisk()
    append_units(opened(disk), [1] * 4, {})
    disk.open(f"{DIRECTORY}/{0:020d}").write(52, bytes(52))
    log = opened(disk)

    assert log.max_pos == 52

    append_units(log, [2], {})

    assert opened(disk).max_pos == 104


def test_recovery_makes_durable_what_a_killed_process_had_written() -> None:
    """The page cache outlives a process, not a power cut: recovery syncs what it builds on."""
    disk = MemoryDisk()
    append_units(opened(disk), [1] * 6, {})
    disk.process_kill()
    opened(disk)
    disk.power_cut()

    assert opened(disk).max_pos == 354


def test_units_that_were_cut_off_do_not_come_back() -> None:
    """A cut is durable at once, whatever happens next."""
    disk = MemoryDisk()
    append_units(opened(disk), [1] * 6, {})
    opened(disk).cut(52)
    disk.power_cut()

    assert opened(disk).max_pos == 52


async def test_flush_makes_all_segments_durable() -> None:
    """Units in several segments and the names of these survive a power cut."""
    disk = MemoryDisk()
    log = opened(disk)
    append_units(log, [1] * 6, {})
    flushed = await log.flush(log.max_pos)
    append_units(log, [1] * 9, {})
    disk.power_cut()

    assert (354, 354) == (flushed, log.flushed_where)
    assert opened(disk).max_pos == 354


def test_read_only_changes_nothing() -> None:
    """A tool finds the end of a torn log and leaves its bytes alone."""
    disk = MemoryDisk()
    append_units(opened(disk), [1] * 6, {})
    disk.open(f"{DIRECTORY}/{0:020d}").write(52, bytes(52))
    before = [file_bytes(disk, start) for start in (0, 250)]
    log = opened(disk, read_only=True)

    assert log.max_pos == 52
    assert before == [file_bytes(disk, start) for start in (0, 250)]


def test_what_is_read_next_is_announced_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbouring blocks together, up to the end of the segment; nothing outside of the log."""
    announced: list[tuple[int, int]] = []

    def note(_: MemoryFile, ranges: Iterable[tuple[int, int]]) -> None:
        announced.extend(ranges)

    monkeypatch.setattr(MemoryFile, "will_need", note)
    log = TimerLog.open(MemoryDisk(), DIRECTORY, 10 * NEAR_SIZE + 7)
    append_units(log, [1], {})
    size = log.segment_size
    log.will_need(
        np.array([NEAR_SIZE, 5 * NEAR_SIZE, 2 * NEAR_SIZE - 1, 2 * NEAR_SIZE, -1, size - 1, size])
    )

    assert announced == [
        (NEAR_SIZE, 2 * NEAR_SIZE),
        (5 * NEAR_SIZE, NEAR_SIZE),
        (10 * NEAR_SIZE, 7),
    ]


async def test_segments_whose_messages_are_gone_are_removed() -> None:
    """A segment goes when all its messages stand before the minimum; never the last."""
    disk = MemoryDisk()
    log = opened(disk)
    append_units(log, [1] * 10, {})

    assert await log.delete_before_phy(300) == 0
    assert await log.delete_before_phy(400, needed_pos=249) == 0
    assert await log.delete_before_phy(400, needed_pos=250) == 1
    assert log.min_pos == 250
    assert await log.delete_before_phy(10_000) == 1
    assert await log.delete_before_phy(10_000) == 0
    assert [f"{500:020d}"] == disk.list_dir(DIRECTORY)


async def test_a_removed_segment_is_not_lost_by_a_power_cut() -> None:
    """Its seals are gone for good before its name is: with them it would count as lost."""
    disk = MemoryDisk()
    log = opened(disk)
    append_units(log, [1] * 10, {})
    await log.flush()
    await log.delete_before_phy(400)
    disk.sync_dir_now(DIRECTORY)
    disk.power_cut()
    log = opened(disk)

    assert log.min_pos == 250


async def test_a_segment_stays_for_one_young_message() -> None:
    """An old message behind a young one does not take the segment away."""
    log = opened(MemoryDisk())
    units = make_units(log.positions(6), [1] * 6, {})
    units["offset_py"] = [0, 900, 100, 200, 1000, 1100]
    log.append(units)

    assert await log.delete_before_phy(300) == 0
    assert await log.delete_before_phy(901) == 1


async def test_an_old_segment_is_read_in_chunks_with_checkpoints_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of 100 MB in one step, through a map without readahead, held every timer up."""
    log = TimerLog.open(MemoryDisk(), DIRECTORY, 3 * CHUNK_COUNT * UNIT.size + BLANK.size)
    append_units(log, [1] * (3 * CHUNK_COUNT + 1), {})
    steps: list[str] = []
    read, checkpoint = MemoryFile.read, trio.lowlevel.checkpoint

    def note_read(file: MemoryFile, offset: int, size: int) -> bytes:
        steps.append(f"{size // UNIT.size} units")
        return read(file, offset, size)

    async def note_checkpoint() -> None:
        steps.append("checkpoint")
        await checkpoint()

    monkeypatch.setattr(MemoryFile, "read", note_read)
    monkeypatch.setattr(trio.lowlevel, "checkpoint", note_checkpoint)

    assert await log.delete_before_phy(100 * 3 * CHUNK_COUNT) == 1
    assert steps == [f"{CHUNK_COUNT} units", "checkpoint"] * 3


async def test_segment_start_is_that_of_a_segment_that_is_there() -> None:
    """Positions before the log belong to the oldest segment, those behind it to the newest."""
    log = opened(MemoryDisk())

    assert log.segment_start(77) == 0

    append_units(log, [1] * 10, {})
    await log.delete_before_phy(400)

    assert [250, 250, 250, 500, 500] == [
        log.segment_start(pos) for pos in (-5, 249, 499, 500, 9999)
    ]


def test_a_segment_without_room_for_a_unit_is_refused() -> None:
    """The smallest segment takes one unit and its blank."""
    message = "segment of the timer log: expected at least 68 bytes, found 67"
    with pytest.raises(ValueError, match=message):
        TimerLog.open(MemoryDisk(), DIRECTORY, 67)


def test_statistics_tell_positions_and_segments() -> None:
    """The statistics tell where the log begins and ends, and in how many segments."""
    log = opened(MemoryDisk())
    append_units(log, [1] * 6, {})
    statistics = log.statistics()

    assert (0, 354, 0, 2, SEGMENT_SIZE) == (
        statistics.min_pos,
        statistics.max_pos,
        statistics.flushed_where,
        statistics.segment_count,
        statistics.segment_size,
    )
