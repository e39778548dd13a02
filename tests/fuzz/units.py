"""Units, slots and checkpoint pages: fixed layouts, read one by one and as columns."""

from __future__ import annotations

import numpy as np

from golden_vectors import QUEUE_UNIT
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog.timer_checkpoint import CheckpointExtension, TimerCheckpoint
from timermq.timerlog.unit import (
    BEHIND_MAX,
    ORDER_MAX,
    UNIT,
    UNIT_DTYPE,
    TimerUnit,
    are_units,
    pack_exact,
    slot_times,
    unpack_exact,
)
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.queue_unit import UNIT as ENTRY
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.wheel.slot import SLOT, SLOT_DTYPE

PATH = "/store/page"
INT64 = range(-(2**63), 2**63)


def seeds() -> list[bytes]:
    """A unit, a slot, an entry, and both pages with their extensions."""
    unit = UNIT.pack(52, -1, 1, 1_700_000_000_000, 5_000, 4096, 107, 84, int(pack_exact(7, 3)))
    timer = TimerCheckpoint(
        last_read_time_ms=1, extension=CheckpointExtension(precision_ms=1000, scan_py=9)
    )
    return [
        b"\0" + unit,
        b"\1" + SLOT.pack(1_700_000_000, 52, 104, 2, 0),
        b"\2" + QUEUE_UNIT,
        b"\3" + StoreCheckpoint(physic_msg_timestamp=5, durable_py=4096).encode(),
        b"\4" + timer.encode()[:128],
        b"\3" + bytes(39),
    ]


def fuzz_one(data: bytes) -> None:
    """Any bytes of the right size are read alike by all; a page of another size is refused."""
    kind, rest = data[0] % 5 if data else 0, data[1:]
    if kind == 0:
        _check_unit(rest[: UNIT.size].ljust(UNIT.size, b"\0"))
    elif kind == 1:
        block = rest[: SLOT.size].ljust(SLOT.size, b"\0")
        (row,) = np.frombuffer(block, SLOT_DTYPE).tolist()
        assert row == SLOT.unpack(block)
        assert SLOT.pack(*SLOT.unpack(block)) == block
    elif kind == 2:
        block = rest[: ENTRY.size].ljust(ENTRY.size, b"\0")
        assert np.frombuffer(block, ENTRY.dtype).tolist() == [ENTRY.unpack(block)]
        assert ENTRY.pack(*ENTRY.unpack(block)) == block
    elif kind == 3:
        _check_store_page(rest)
    else:
        _check_timer_page(rest)


def _check_unit(block: bytes) -> None:
    unit, units = TimerUnit.decode(block), np.frombuffer(block, UNIT_DTYPE)
    assert are_units(units).tolist() == [unit.is_valid]
    if unit.slot_ms in INT64:
        assert slot_times(units).tolist() == [unit.slot_ms]
    order, behind, known = unpack_exact(unit.reserved)
    if known and unit.reserved >= 0:
        assert 0 <= int(order) <= ORDER_MAX
        assert 0 <= int(behind) <= BEHIND_MAX
        assert int(pack_exact(order, behind)) == unit.reserved
    if not known:
        assert (int(order), int(behind)) == (0, 0)


def _disk(page: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dirs("/store")
    file = disk.open(PATH, create=True)
    file.truncate(len(page))
    file.write(0, page)
    file.close()
    return disk


def _check_store_page(page: bytes) -> None:
    try:
        found = StoreCheckpoint.open(_disk(page), PATH, read_only=True)
    except StoreFormatError:
        assert 0 < len(page) < 40
        return
    again = StoreCheckpoint.decode(found.encode())
    assert (again.physic_msg_timestamp, again.durable_py) == (
        found.physic_msg_timestamp,
        found.durable_py,
    )
    assert found.min_timestamp >= 0


def _check_timer_page(start: bytes) -> None:
    found = TimerCheckpoint.decode(start[:4096].ljust(4096, b"\0"))
    again = TimerCheckpoint.decode(found.encode())
    assert (again.counter, again.extension) == (found.counter, found.extension)
    try:
        TimerCheckpoint.open(_disk(start), PATH, read_only=True)
    except StoreFormatError:
        assert len(start) not in (0, 4096)
