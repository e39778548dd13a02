"""``timermq.wheel``: the slots of the wheel file that hold something.

A live broker writes slots first and publishes how far the timer log counts afterwards: in between,
or for longer where a full disk puts that off, the file shows units that no other table has. Such a
slot is told as it was when the timer log ended where it is published: the units behind are taken
off its chain, and a slot of which nothing is left is left out. They are in the timer log, which is
durable before a slot names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa

from timermq.timerlog import UNIT, TimerUnit, numbers_in_slot
from timermq.wheel import NO_POS, SLOT, Slots

from ..file_part import FilePart
from ..object_disk import disk_of
from ..places import RangeReader
from ..store_view import LogView, StoreView
from .declaration import Column, Table, layout_columns
from .source import TableReader, TableSource, cut

CHUNK_SLOTS = 65_536
"""Slots read at a time: 2 MB."""

TABLE = Table(
    name="timermq.wheel",
    title="The slots that were ever used and are not read yet, as the wheel file has them.",
    columns=(
        Column("slot_ms", "long", "slot time: messages due within the precision behind it"),
        *layout_columns(SLOT, without=("time",)),
    ),
)


@attrs.frozen
class SlotSpan:
    """A part of the wheel file, made of whole slots."""

    part: FilePart
    precision_ms: int
    read_ms: int
    published: LogView | None
    """The timer log of a live broker, as far as it counts; None where the file counts as it is."""


class WheelReader(TableReader[SlotSpan]):
    """Reads slots; the moments asked for bound ``slot_ms``.

    The file of a broker that runs, or was killed, is up to a flush older than its timer log. Of one
    that runs no slot tells more than the timer log that is published.
    """

    table = TABLE
    takes: ClassVar[tuple[str, ...]] = ("due_from", "due_to")

    def spans(self, view: StoreView) -> list[SlotSpan]:
        """The file is 39 MB with RocketMQ's settings: a few pieces."""
        path = f"{view.root}/timerwheel"
        if not disk_of(path).exists(path):
            return []
        size = 2 * view.timer_options.slots_total * SLOT.size
        precision_ms = view.timer_options.timer_precision_ms
        published = view.timer_log if view.is_live else None
        return [
            SlotSpan(FilePart(path, 0, low, high), precision_ms, view.read_ms, published)
            for low, high in cut(size, SLOT.size, self.options)
        ]

    def batches(self, span: SlotSpan) -> Iterator[pa.RecordBatch]:
        """Chunk by chunk, the used slots of each."""
        for _, data in span.part.chunks(CHUNK_SLOTS * SLOT.size):
            slots = np.frombuffer(data, SLOT.dtype)
            times = slots["time"].astype(np.int64) * span.precision_ms
            first_ms = max(span.read_ms, self.options.due_from)
            kept = (slots["time"] > 0) & (times >= first_ms) & (times < self.options.due_to)
            found = slots[kept]
            if span.published is not None:
                found = as_published(found, span.published)
            slot_ms = found["time"].astype(np.int64) * span.precision_ms
            yield self.batch({"slot_ms": pa.array(slot_ms)}, found)


def as_published(slots: Slots, timer_log: LogView) -> Slots:
    """Slots as they were when the timer log ended where it does; without those that were empty.

    Args:
        slots: Of the wheel file.
        timer_log: With its end; what slots name behind it is in its files.

    Raises:
        SparkJobError: It is not: the store was cleaned.
    """
    found = slots.copy()
    with ExitStack() as opened:
        segments: dict[int, tuple[FilePart, RangeReader]] = {}

        def unit(pos: int) -> TimerUnit:
            start = pos - pos % timer_log.segment_size
            if start not in segments:
                part = FilePart(timer_log.path(start), start, pos, pos + UNIT.size)
                segments[start] = part, part.opened()
                opened.callback(segments[start][1].close)
            part, reader = segments[start]
            data = reader.read_at(UNIT.size, pos - start)
            read = TimerUnit.decode(data.ljust(UNIT.size, b"\0"))
            if not read.is_valid or read.prev_pos >= pos:
                raise part.cleaned(f"no unit at {pos}")
            return read

        for at in np.flatnonzero(slots["last_pos"] >= timer_log.end):
            pos, num = int(slots["last_pos"][at]), int(slots["num"][at])
            while pos >= timer_log.end:
                last = unit(pos)
                pos, num = (
                    last.prev_pos,
                    num - int(numbers_in_slot(np.array([last.magic], np.int32))[0]),
                )
            found["last_pos"][at], found["num"][at] = pos, num
    kept: Slots = found[found["last_pos"] != NO_POS]
    return kept


class WheelSource(TableSource):
    """The table ``timermq.wheel``, as a data source of Spark."""

    reader_type: ClassVar[type[TableReader[Any]]] = WheelReader
