"""Fillers, and the one behind the end of a log whose last sector is damaged."""

from __future__ import annotations

import pytest

from small_store import ROOT, SEGMENT_SIZE, message
from timermq.timerstore.filler_record import FILLER_SIZE_MIN, filler, is_filler
from timermq.timerstore.record import decode_record
from timermq.timerstore.record_check import CheckKind, check_record
from timermq.timerstore.seal_page import SECTOR_SIZE
from unit.timerstore.stopped_store import BODIES, POSITIONS, Rig


@pytest.mark.parametrize("size", [FILLER_SIZE_MIN, FILLER_SIZE_MIN + 5, FILLER_SIZE_MIN + 500])
def test_a_filler_has_the_size_that_is_asked_for(size: int) -> None:
    """A good record for any reader; small ones have the beginning of the topic."""
    data = filler(size, position=77, store_ms=5)
    record = decode_record(data)

    assert len(data) == size
    assert check_record(data, 0, size, 77, check_crc=True).kind is CheckKind.RECORD
    assert record.topic == "rmq_sys_hole"[: size - FILLER_SIZE_MIN + 1]
    assert not any(record.body)


def test_every_byte_of_a_filler_counts() -> None:
    """A flipped byte, another place and a message of the same topic are none."""
    data = filler(200, position=77, store_ms=5)

    assert is_filler(data, 77)
    assert not is_filler(data, 78)
    assert not is_filler(data[:150] + b"x" + data[151:], 77)
    assert not is_filler(data[: FILLER_SIZE_MIN - 1], 77)


@pytest.mark.parametrize(
    ("count", "is_damaged", "sector"), [(6, True, 3), (6, False, 2), (4, True, 1)]
)
def test_a_log_goes_on_behind_a_damaged_sector(count: int, is_damaged: bool, sector: int) -> None:
    """What is stored next stands in the next sector, if that is in the segment."""
    rig = Rig(count)
    rig.stop()
    last = POSITIONS[count - 1]
    if is_damaged:
        segment = last // SEGMENT_SIZE * SEGMENT_SIZE
        rig.disk.rot(f"{ROOT}/commitlog/{segment:020d}", last - segment + 100, b"?" * 8)
    (result,) = rig.open().put([message(BODIES[count])])

    assert result.status.is_stored
    assert result.phy_offset // SECTOR_SIZE == sector
