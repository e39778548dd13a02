"""Outlines: what they tell of units, and what they leave to be read."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.timerlog import MAGIC_DELETE, MAGIC_ROLL, MAGIC_SECOND, UNIT, pack_exact
from timermq.timerlog.stretch_outline import (
    DELETE,
    EMPTY,
    OUTLINE,
    StretchOutline,
    checksum_of,
    decode_deletes,
    outline_of,
)

PRECISION_MS = 1000
START = 851_968
_WINDOW = st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)).map(sorted)


@attrs.frozen
class Drawn:
    """A message that waits, or a delete."""

    slot_ms: int
    magic: int = 1
    behind_ms: int | None = 0
    """None: its unit does not tell its moment."""
    py: int = 1000


def bytes_of(*drawn: Drawn) -> bytes:
    """Their units, as they stand in the log."""
    units = np.zeros(len(drawn), UNIT.dtype)
    units["size"], units["size_py"] = UNIT.size, 100
    for row, one in enumerate(drawn):
        units["magic"][row], units["offset_py"][row] = one.magic, one.py
        units["write_ms"][row] = one.slot_ms
        if one.behind_ms is not None:
            units["reserved"][row] = pack_exact(one.py, one.behind_ms)
    return units.tobytes()


def test_what_it_tells() -> None:
    """Slots of messages, of rolls and of deletes apart; second deletes and damage are left out."""
    entries = bytes_of(
        Drawn(5000, py=700),
        Drawn(3000, behind_ms=None, py=300),
        Drawn(9000, MAGIC_ROLL | 1, py=900),
        Drawn(8000, MAGIC_DELETE, py=1100),
        Drawn(2000, MAGIC_DELETE | MAGIC_ROLL, py=1000),
        Drawn(1000, MAGIC_DELETE | MAGIC_SECOND, py=1200),
        Drawn(1, magic=64, py=1),
    )
    outline, deletes = outline_of(START, entries)

    assert (7, 6, 2, 1, 1, 1) == (
        outline.entry_count,
        outline.unit_count,
        outline.delete_count,
        outline.vague_count,
        outline.unclear_count,
        outline.roll_count,
    )
    assert (3000, 5000, 9000, 9000) == (
        outline.first_slot,
        outline.last_slot,
        outline.first_roll,
        outline.last_roll,
    )
    assert (2000, 8000, 300, 1200) == (
        outline.first_delete,
        outline.last_delete,
        outline.first_py,
        outline.last_py,
    )
    assert (0, 900) == (outline.first_order, outline.last_order)
    assert [(2000, 1000, 100, 0), (8000, 1100, 100, 1)] == deletes.tolist()
    assert START + 7 * UNIT.size == outline.end


def test_of_nothing() -> None:
    """Without a message there is neither a first nor a last one."""
    outline, deletes = outline_of(START, bytes(3 * UNIT.size))

    assert (EMPTY, 0) == ((outline.first_py, outline.last_py), len(deletes))
    assert outline.is_read(0)
    assert not outline.may_be_due(0, 1 << 62, PRECISION_MS)


def test_bytes() -> None:
    """Written and read it is the same; a changed byte, or another place, makes it none."""
    outline, deletes = outline_of(START, bytes_of(Drawn(5), Drawn(7, MAGIC_DELETE)))
    data = outline.encode()
    changed = bytearray(deletes.tobytes())
    changed[3] ^= 1

    assert OUTLINE.size == len(data)
    assert outline == StretchOutline.decode(data, START)
    assert StretchOutline.decode(data, 0) is None
    assert StretchOutline.decode(data[:-1], START) is None
    for at in range(len(data)):
        worn = data[:at] + bytes((data[at] ^ 4,)) + data[at + 1 :]
        assert StretchOutline.decode(worn, START) is None
    found = decode_deletes(deletes.tobytes(), outline)
    assert found is not None
    assert deletes.tolist() == found.tolist()
    assert decode_deletes(bytes(changed), outline) is None
    assert decode_deletes(bytes(2 * DELETE.size), outline) is None


def test_it_is_of_one_stretch_alone() -> None:
    """The last unit tells another stretch, the sum any other unit or order of units."""
    data = bytes_of(*(Drawn(5, py=place) for place in range(40)))
    outline, _ = outline_of(START, data)
    entries = np.frombuffer(data, UNIT.dtype)
    moved = entries[[*range(20, 39), *range(20), 39]]

    assert outline.ends_with(data[-UNIT.size :])
    assert not outline.ends_with(data[-2 * UNIT.size : -UNIT.size])
    assert not outline.ends_with(b"")
    assert outline.checksum == checksum_of(data)
    assert outline.checksum != checksum_of(moved.tobytes())


@given(
    drawn=st.lists(
        st.builds(
            Drawn,
            st.integers(0, 15).map(lambda slot: slot * 1000),
            st.sampled_from((1, MAGIC_ROLL | 1, MAGIC_DELETE)),
            st.sampled_from((0, 999, None)),
        ),
        min_size=1,
        max_size=4,
    ),
    ahead_ms=st.integers(0, 9000),
    window=_WINDOW,
)
def test_nothing_due_is_passed_over(drawn: list[Drawn], ahead_ms: int, window: list[int]) -> None:
    """A message that is due in the window is in a stretch that may have one.

    What waits in a later slot than it asked for was due before, what rolls is due behind its slot.
    """
    first_ms, end_ms = window
    outline, _ = outline_of(START, bytes_of(*drawn))
    moments: list[int] = []
    for one in drawn:
        if one.magic & MAGIC_DELETE:
            continue
        if one.magic & MAGIC_ROLL:
            moments.append(one.slot_ms + 1 + ahead_ms)
        elif one.behind_ms is None:
            moments.append(one.slot_ms + PRECISION_MS - ahead_ms)
        else:
            moments.append(one.slot_ms + 1 + one.behind_ms)

    if any(first_ms <= moment < end_ms for moment in moments):
        assert outline.may_be_due(first_ms, end_ms, PRECISION_MS)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ((0, 0, 5000), False),
        ((0, 0, 5001), True),
        ((0, 8000, 9000), True),
        ((0, 8001, 9000), False),
        ((7001, 0, 9000), False),
    ],
)
def test_deletes_of_other_moments(window: tuple[int, int, int], expected: bool) -> None:
    """They concern nothing there; one whose unit does not tell its target's moment always may."""
    told = bytes_of(Drawn(5000, MAGIC_DELETE), Drawn(7000, MAGIC_DELETE), Drawn(1))
    vague = bytes_of(Drawn(7000, MAGIC_DELETE, behind_ms=None))

    assert expected == outline_of(START, told)[0].may_cancel(*window, PRECISION_MS)
    assert (window[0] <= 7000) == outline_of(START, vague)[0].may_cancel(*window, PRECISION_MS)


@pytest.mark.parametrize(
    ("window", "expected"),
    [((0, 5000), False), ((0, 5001), True), ((6000, 7000), True), ((8001, 9000), False)],
)
def test_other_moments_are_passed_over(window: tuple[int, int], expected: bool) -> None:
    """Slots of five to seven seconds hold what is due from then on, and a second longer."""
    outline, _ = outline_of(START, bytes_of(Drawn(5000), Drawn(7000)))

    assert expected == outline.may_be_due(*window, PRECISION_MS)
    assert (False, True) == (outline.is_read(7000), outline.is_read(7001))
