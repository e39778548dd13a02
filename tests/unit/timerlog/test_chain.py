"""Walking a slot's chain, and what breaks it (CHAINS_DESCEND)."""

from __future__ import annotations

import pytest

from timer_units import SEGMENT_SIZE, append_units
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import NO_POS, UNIT, ChainError, TimerLog, UnitChunk

DIRECTORY = "/store/timerlog"
FIRST = f"{DIRECTORY}/{0:020d}"


def make_log(disk: MemoryDisk, *slots: int) -> TimerLog:
    """A log with a unit for each slot."""
    log = TimerLog.open(disk, DIRECTORY, SEGMENT_SIZE)
    log.recover(0)
    append_units(log, list(slots), {})
    return log


def walked(
    log: TimerLog, last_pos: int, slot: int, until_pos: int = NO_POS, count_max: int = 4096
) -> list[list[int]]:
    """Positions of the units of a slot's chain, chunk by chunk."""
    chunks = log.walk(last_pos, slot_ms=slot, until_pos=until_pos, count_max=count_max)
    return [chunk.pos.tolist() for chunk in chunks]


def test_a_chain_is_walked_from_the_newest_unit_down() -> None:
    """Only the units of the slot are met, through all segments; a chunk stays in one segment."""
    log = make_log(MemoryDisk(), 1, 2, 1, 1, 2, 1)

    assert [[302], [156, 104, 0]] == walked(log, 302, 1)
    assert [[250], [52]] == walked(log, 250, 2)


def test_a_chunk_holds_at_most_what_was_asked_for() -> None:
    """Big slots are read in pieces."""
    log = make_log(MemoryDisk(), 1, 1, 1, 1)

    assert [[156, 104, 52], [0]] == walked(log, 156, 1, count_max=3)


def test_a_walk_ends_before_the_units_that_are_known() -> None:
    """``until_pos`` itself is left out."""
    log = make_log(MemoryDisk(), 1, 2, 1, 1, 2, 1)

    assert [[302], [156]] == walked(log, 302, 1, until_pos=104)
    assert [] == walked(log, 104, 1, until_pos=104)
    assert [] == walked(log, NO_POS, 1)


def test_a_chunk_has_the_columns_of_its_units() -> None:
    """Message position and size, magic and reserved come as native integers."""
    log = make_log(MemoryDisk(), 1, 2, 1)
    (chunk,) = log.walk(104, slot_ms=1)

    assert isinstance(chunk, UnitChunk)
    assert len(chunk) == 2
    assert [200, 0] == chunk.offset_py.tolist()
    assert [100, 100] == chunk.size_py.tolist()
    assert [1, 1] == chunk.magic.tolist()
    assert [0, 0] == chunk.reserved.tolist()
    assert all(column.dtype.isnative for column in (chunk.pos, chunk.offset_py, chunk.reserved))


async def test_a_walk_ends_quietly_where_segments_were_removed() -> None:
    """Units whose messages are gone are not missed."""
    log = make_log(MemoryDisk(), *[1] * 6)
    await log.delete_before_phy(400)

    assert [[302, 250]] == walked(log, 302, 1)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("prev_pos", 52, "unit at 52: expected a previous position below it, found 52"),
        ("prev_pos", 104, "unit at 52: expected a previous position below it, found 104"),
        ("prev_pos", -2, "unit at 52: expected a previous position below it, found -2"),
        ("size", 51, "unit at 52: expected a unit before the end, found size 51, magic 0x1"),
        ("magic", 16, "unit at 52: expected a unit before the end, found size 52, magic 0x10"),
        ("delay_ms", 9, "unit at 52: expected one of slot 1, found one of slot 9"),
    ],
)
def test_a_broken_unit_ends_the_walk(field: str, value: int, message: str) -> None:
    """What is not a unit of the slot, or does not point down, is reported with its place."""
    disk = MemoryDisk()
    log = make_log(disk, 1, 1, 1)
    width = 8 if field == "prev_pos" else 4
    disk.open(FIRST).write(52 + UNIT.offset_of(field), value.to_bytes(width, "big", signed=True))

    with pytest.raises(ChainError) as caught:
        walked(log, 104, 1)

    assert str(caught.value) == f"{FIRST}: {message}"


def test_a_link_between_two_units_ends_the_walk() -> None:
    """Units stand at multiples of 52; bytes that look like one elsewhere are none."""
    disk = MemoryDisk()
    log = make_log(disk, 1, 1, 1)
    disk.open(FIRST).write(52 + UNIT.offset_of("prev_pos"), (3).to_bytes(8, "big"))

    with pytest.raises(ChainError) as caught:
        walked(log, 104, 1)

    assert caught.value.pos == 3


@pytest.mark.parametrize("pos", [156, 208, 1])
def test_a_head_that_is_no_unit_ends_the_walk(pos: int) -> None:
    """A slot may point at the end, into a blank's place, or between two units."""
    log = make_log(MemoryDisk(), 1, 1, 1)

    with pytest.raises(ChainError) as caught:
        walked(log, pos, 1)

    assert caught.value.pos == pos
    assert caught.value.expected == "a unit before the end"


def test_a_head_behind_all_segments_ends_the_walk() -> None:
    """A slot may point where no segment is."""
    log = make_log(MemoryDisk(), 1)

    with pytest.raises(ChainError) as caught:
        walked(log, 520, 1)

    assert str(caught.value) == "timer log: unit at 520: expected a unit, found the end at 52"


def test_chunks_before_the_broken_one_are_handed_out() -> None:
    """A walk fails when it comes to the damage, not before."""
    disk = MemoryDisk()
    log = make_log(disk, *[1] * 6)
    disk.open(FIRST).write(0, bytes(4))
    chunks = log.walk(302, slot_ms=1)

    assert [302, 250] == next(chunks).pos.tolist()
    with pytest.raises(ChainError):
        next(chunks)
