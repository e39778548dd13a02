"""Units and blanks, and what ``reserved`` tells."""

from __future__ import annotations

import numpy as np
import pytest

from timermq.timerlog.unit import (
    BEHIND_MAX,
    BLANK,
    MAGIC_DEFAULT,
    ORDER_MAX,
    UNIT,
    UNIT_DTYPE,
    TimerUnit,
    are_units,
    pack_exact,
    slot_times,
    unpack_exact,
)

GOLDEN = bytes.fromhex(
    "00000034 ffffffffffffffff 00000001 0000018bcfe56800 00000bb8 "
    "0000000000000400 000000c8 00000054 0000000000000000"
)
"""First unit of its slot, written at 1700000000000 for 3 s later, message of 200 bytes at 1024."""

GOLDEN_UNIT = TimerUnit(
    size=52,
    prev_pos=-1,
    magic=MAGIC_DEFAULT,
    write_ms=1_700_000_000_000,
    delay_ms=3000,
    offset_py=1024,
    size_py=200,
    topic_hash=84,
    reserved=0,
)


def test_layout_packs_the_golden_unit() -> None:
    """A unit is 52 bytes, big-endian."""
    assert GOLDEN == UNIT.pack(52, -1, 1, 1_700_000_000_000, 3000, 1024, 200, 84, 0)


def test_the_golden_unit_is_read() -> None:
    """The slot of a unit is its write time plus its delay."""
    unit = TimerUnit.decode(GOLDEN)

    assert unit == GOLDEN_UNIT
    assert unit.slot_ms == 1_700_000_003_000


def test_numpy_type_reads_the_golden_unit() -> None:
    """An array of units has the bytes of the log."""
    units = np.frombuffer(GOLDEN, UNIT_DTYPE)

    assert [UNIT.unpack(GOLDEN)] == units.tolist()
    assert [1_700_000_003_000] == slot_times(units).tolist()


def test_a_blank_has_16_bytes() -> None:
    """A blank begins as a unit does: size, position, magic."""
    assert BLANK.size == 16
    assert BLANK.names == UNIT.names[:3]


@pytest.mark.parametrize(
    ("size", "magic", "size_py", "valid"),
    [
        (52, 0, 1, True),
        (52, 15, 1, True),
        (52, 16, 1, False),
        (52, -875286124, 1, False),
        (0, 1, 1, False),
        (52, 1, 0, False),
    ],
)
def test_size_magic_and_message_make_a_unit(
    size: int, magic: int, size_py: int, valid: bool
) -> None:
    """A unit has size 52, no magic bit above the lowest four, and a message of some size."""
    data = UNIT.pack(size, -1, magic, 0, 0, 0, size_py, 0, 0)

    assert valid == TimerUnit.decode(data).is_valid
    assert [valid] == are_units(np.frombuffer(data, UNIT_DTYPE)).tolist()


def test_order_and_millisecond_survive_packing() -> None:
    """Both ends of both ranges come back."""
    order = np.array([0, 0, ORDER_MAX, ORDER_MAX], np.int64)
    behind = np.array([0, BEHIND_MAX, 0, BEHIND_MAX], np.int64)
    packed = pack_exact(order, behind)
    unpacked = unpack_exact(packed)

    assert (packed > 0).all()
    assert order.tolist() == unpacked[0].tolist()
    assert behind.tolist() == unpacked[1].tolist()
    assert unpacked[2].all()


def test_what_does_not_fit_is_not_told() -> None:
    """A value out of range makes ``reserved`` 0: the reader asks the message."""
    packed = pack_exact(
        np.array([-1, ORDER_MAX + 1, 7, 7], np.int64), np.array([0, 0, -1, BEHIND_MAX + 1])
    )

    assert [0, 0, 0, 0] == packed.tolist()


def test_units_of_rocketmq_tell_nothing() -> None:
    """Zero, as RocketMQ writes, says that order and millisecond are unknown."""
    order, behind, known = unpack_exact(np.array([0, 1, 2 << 11 | 5 << 1]))

    assert [0, 0, 0] == order.tolist()
    assert [0, 0, 0] == behind.tolist()
    assert [False, True, False] == known.tolist()


def test_single_values_are_packed_too() -> None:
    """A plain integer is as good as an array."""
    assert int(pack_exact(3, 5)) == 3 << 11 | 5 << 1 | 1
    assert [3, 5, 1] == [int(part) for part in unpack_exact(3 << 11 | 5 << 1 | 1)]
