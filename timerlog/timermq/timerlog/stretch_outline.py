"""The outline of a stretch of the timer log: what its units are about, without reading them.

A stretch is 16,384 units, or what is left of a segment. Its outline tells between which slots,
orders and records its units lie, and where the deletes among them are, so that who looks for some
of what waits passes over most of the log. It is derived: of a stretch without one the units tell.

An outline is believed of a stretch only while the stretch ends with the unit that it ended with. A
sum over all of the stretch tells more, to those that read all of it.
"""

from __future__ import annotations

import zlib

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.array_types import Int64s
from timermq.timerstore.layout import Layout
from timermq.timerstore.seal_page import seals_of

from .segment import CHUNK_COUNT
from .unit import (
    MAGIC_DELETE,
    MAGIC_ROLL,
    MAGIC_SECOND,
    UNIT,
    Units,
    are_units,
    slot_times,
    unpack_exact,
)

STRETCH_SIZE = CHUNK_COUNT * UNIT.size
"""Bytes of a stretch that no segment's end cuts short."""

OUTLINE_MAGIC = int.from_bytes(b"TMQO", "big")

OUTLINE = Layout(
    "timer log outline",
    ">",
    (
        ("magic", "I", "TMQO"),
        ("entry_count", "I", "places of units in the stretch"),
        ("start", "q", "position of the stretch in the timer log"),
        ("unit_count", "I", "units there; the rest is damaged"),
        ("delete_count", "I", "deletes among them, without second ones"),
        ("vague_count", "I", "deletes of which only the record tells their target's moment"),
        (
            "unclear_count",
            "I",
            "messages that wait in another slot than they asked for, or RocketMQ's",
        ),
        ("roll_count", "I", "messages that roll"),
        ("first_slot", "q", "least slot of messages that do not roll; above the last without any"),
        ("last_slot", "q", "greatest slot of these"),
        ("first_roll", "q", "least slot of messages that roll"),
        ("last_roll", "q", "greatest slot of these"),
        ("first_delete", "q", "least slot of deletes"),
        ("last_delete", "q", "greatest slot of these"),
        ("first_py", "q", "least commit-log position of a unit's record"),
        ("last_py", "q", "greatest of these"),
        ("first_order", "q", "least order of a message; 0 if one does not tell it"),
        ("last_order", "q", "greatest of these, of those that tell it"),
        ("checksum", "Q", "of the stretch: seals of its sectors, times 1, 3, 5 and so on, summed"),
        ("last_crc", "I", "CRC-32 of its last unit"),
        ("deletes_at", "I", "byte of this file at which its deletes stand"),
        ("deletes_crc", "I", "CRC-32 of these"),
        ("crc", "I", "CRC-32 of the fields before it"),
    ),
)
_CRC_AT = OUTLINE.offset_of("crc")

DELETE = Layout(
    "delete in an outline",
    ">",
    (
        ("slot_ms", "q", "slot of its unit; deletes stand in the order of these"),
        ("offset_py", "q", "commit-log position of its record"),
        ("size_py", "i", "size of the record"),
        ("is_told", "i", "1: its target's moment lies in that slot; 0: only its record tells"),
    ),
)

Deletes = NDArray[np.void]
"""An array of ``DELETE.dtype``."""

NO_DELETES: Deletes = np.empty(0, DELETE.dtype)
EMPTY = (1 << 63) - 1, -1
"""First and last of nothing."""


@attrs.frozen(kw_only=True)
class StretchOutline:
    """What the units of one stretch are about; slots are epoch milliseconds."""

    entry_count: int
    start: int
    unit_count: int
    delete_count: int
    vague_count: int
    unclear_count: int
    roll_count: int
    first_slot: int
    last_slot: int
    first_roll: int
    last_roll: int
    first_delete: int
    last_delete: int
    first_py: int
    last_py: int
    first_order: int
    last_order: int
    checksum: int
    last_crc: int
    deletes_at: int = 0
    deletes_crc: int

    @property
    def end(self) -> int:
        """Position behind the stretch's last unit."""
        return self.start + self.entry_count * UNIT.size

    @property
    def deletes_size(self) -> int:
        """Bytes of the deletes beside it."""
        return self.delete_count * DELETE.size

    @classmethod
    def decode(cls, data: bytes, start: int) -> StretchOutline | None:
        """Read the outline of the stretch at ``start``; None when the bytes are not that one."""
        if len(data) != OUTLINE.size:
            return None
        found = dict(zip(OUTLINE.names, OUTLINE.unpack(data), strict=True))
        is_mine = found.pop("magic") == OUTLINE_MAGIC and found["start"] == start
        if found.pop("crc") != zlib.crc32(data[:_CRC_AT]) or not is_mine:
            return None
        return cls(**found)

    def encode(self) -> bytes:
        """The outline as it is written."""
        fields = {"magic": OUTLINE_MAGIC, **attrs.asdict(self), "crc": 0}
        data = OUTLINE.struct.pack(*(fields[name] for name in OUTLINE.names))[:_CRC_AT]
        return data + zlib.crc32(data).to_bytes(4, "big")

    def ends_with(self, entry: bytes) -> bool:
        """Whether that is the last unit of its stretch: it is of another one otherwise."""
        return len(entry) == UNIT.size and zlib.crc32(entry) == self.last_crc

    def is_of(self, other: StretchOutline) -> bool:
        """Whether both say the same, wherever the deletes stand."""
        return self == attrs.evolve(other, deletes_at=self.deletes_at)

    def may_be_due(self, first_ms: int, end_ms: int, precision_ms: int) -> bool:
        """Whether a message of the stretch may be due in [``first_ms``, ``end_ms``).

        Args:
            first_ms: Epoch milliseconds.
            end_ms: The same.
            precision_ms: Of the wheel: a message is due up to so long behind its slot.
        """
        is_plain_due = self.first_slot <= self.last_slot
        is_plain_due &= self.last_slot + precision_ms >= first_ms
        # One that waits in a later slot than it asked for was due before that.
        is_plain_due &= self.first_slot < end_ms or self.unclear_count > 0
        return is_plain_due or (self.roll_count > 0 and self.first_roll < end_ms)

    def may_cancel(self, read_ms: int, first_ms: int, end_ms: int, precision_ms: int) -> bool:
        """Whether a delete that waits may concern a message due in [``first_ms``, ``end_ms``).

        Args:
            read_ms: Slots before it are read.
            first_ms: As for ``may_be_due``.
            end_ms: The same.
            precision_ms: The same.
        """
        is_near = self.first_delete < end_ms and self.last_delete + precision_ms >= first_ms
        return self.last_delete >= read_ms and (is_near or self.vague_count > 0)

    def is_read(self, read_ms: int) -> bool:
        """Whether no message of it waits when all slots before ``read_ms`` are read."""
        return max(self.last_slot, self.last_roll) < read_ms


def outline_of(start: int, data: bytes) -> tuple[StretchOutline, Deletes]:
    """Derive the outline of a stretch, and its deletes.

    Args:
        start: Position of the stretch.
        data: All that stands at its places, at least at one.
    """
    entries = np.frombuffer(data, UNIT.dtype)
    valid = are_units(entries)
    units = entries if valid.all() else entries[valid]
    slots, magic = slot_times(units), units["magic"]
    offsets = units["offset_py"].astype(np.int64)
    order, _, are_told = unpack_exact(units["reserved"])
    are_deletes, are_rolls = (magic & MAGIC_DELETE) != 0, (magic & MAGIC_ROLL) != 0
    are_plain, rolling = ~are_deletes & ~are_rolls, ~are_deletes & are_rolls
    deletes = _deletes(units, slots, are_told & ~are_rolls)
    first_py, last_py = _bounds(offsets)
    first_slot, last_slot = _bounds(slots[are_plain])
    first_roll, last_roll = _bounds(slots[rolling])
    first_delete, last_delete = _bounds(deletes["slot_ms"].astype(np.int64))
    first_order, last_order = _bounds(order[are_told & ~are_deletes])
    outline = StretchOutline(
        entry_count=len(entries),
        start=start,
        unit_count=len(units),
        delete_count=len(deletes),
        vague_count=int((deletes["is_told"] == 0).sum()),
        unclear_count=int((are_plain & ~are_told).sum()),
        roll_count=int(rolling.sum()),
        first_slot=first_slot,
        last_slot=last_slot,
        first_roll=first_roll,
        last_roll=last_roll,
        first_delete=first_delete,
        last_delete=last_delete,
        first_py=first_py,
        last_py=last_py,
        first_order=first_order if are_told[~are_deletes].all() else 0,
        last_order=last_order,
        checksum=checksum_of(data),
        last_crc=zlib.crc32(data[-UNIT.size :]),
        deletes_crc=zlib.crc32(deletes.tobytes()),
    )
    return outline, deletes


def checksum_of(data: bytes) -> int:
    """The sum over a stretch: of its sectors' seals, each times an odd number of its own."""
    seals = seals_of(data)
    factors = np.arange(1, 2 * len(seals), 2, dtype=np.uint64)
    return int((seals * factors).sum(dtype=np.uint64))


def decode_deletes(data: bytes, outline: StretchOutline) -> Deletes | None:
    """The deletes of a stretch; None when the bytes are not these."""
    if len(data) != outline.deletes_size or zlib.crc32(data) != outline.deletes_crc:
        return None
    return np.frombuffer(data, DELETE.dtype)


def _deletes(units: Units, slots: Int64s, are_told: NDArray[np.bool_]) -> Deletes:
    """The deletes among units, by slot; a second one says nothing."""
    rows = np.flatnonzero((units["magic"] & (MAGIC_DELETE | MAGIC_SECOND)) == MAGIC_DELETE)
    rows = rows[np.argsort(slots[rows], kind="stable")]
    found = np.empty(len(rows), DELETE.dtype)
    found["slot_ms"] = slots[rows]
    found["offset_py"] = units["offset_py"][rows]
    found["size_py"] = units["size_py"][rows]
    found["is_told"] = are_told[rows]
    return found


def _bounds(values: Int64s) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if len(values) else EMPTY
