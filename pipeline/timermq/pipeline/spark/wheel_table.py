"""``timermq.wheel``: the slots of the wheel file that hold something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa

from timermq.timerstore.os_disk import OsDisk
from timermq.wheel import SLOT

from .declaration import Column, Table, layout_columns
from .file_part import FilePart
from .source import TableReader, TableSource, cut
from .store_view import StoreView

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
    """Slots of the file."""

    part: FilePart
    precision_ms: int
    read_ms: int


class WheelReader(TableReader[SlotSpan]):
    """Reads slots; the moments asked for bound ``slot_ms``.

    The file of a broker that runs, or was killed, is up to a flush older than its timer log.
    """

    table = TABLE
    takes: ClassVar[tuple[str, ...]] = ("due_from", "due_to")

    def spans(self, view: StoreView) -> list[SlotSpan]:
        """The file is 39 MB with RocketMQ's settings: a few pieces."""
        path = f"{view.root}/timerwheel"
        if not OsDisk().exists(path):
            return []
        size = 2 * view.timer_options.slots_total * SLOT.size
        precision_ms = view.timer_options.timer_precision_ms
        return [
            SlotSpan(FilePart(path, 0, low, high), precision_ms, view.read_ms)
            for low, high in cut(size, SLOT.size, self.options)
        ]

    def batches(self, span: SlotSpan) -> Iterator[pa.RecordBatch]:
        """Chunk by chunk, the used slots of each."""
        for _, data in span.part.chunks(CHUNK_SLOTS * SLOT.size):
            slots = np.frombuffer(data, SLOT.dtype)
            times = slots["time"].astype(np.int64) * span.precision_ms
            first_ms = max(span.read_ms, self.options.due_from)
            kept = (slots["time"] > 0) & (times >= first_ms) & (times < self.options.due_to)
            yield self.batch({"slot_ms": pa.array(times[kept])}, slots[kept])


class WheelSource(TableSource):
    """``timermq.wheel``."""

    reader_type: ClassVar[type[TableReader[Any]]] = WheelReader
