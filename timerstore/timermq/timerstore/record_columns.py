"""A run of records as columns: laid out together behind the end of the log.

Heads are filled in as columns, and records of one shape are put together as columns too; what
differs in length is joined piece by piece. That is a fifth of the cost of one record after the
other (``record_writer``), which also takes records that fit into no run.

Source: Java ``MessageExtEncoder``, ``DefaultAppendMessageCallback``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Places, Rows
from .byte_columns import Pieces
from .dispatch import tags_code_in
from .index_keys import Fresh, FreshColumns, FreshRecords
from .java_hash import tags_code
from .properties import TAGS_NAME
from .property_columns import PropertyColumns
from .queue_unit import UNIT
from .record_layout import BLANK_SIZE, BODY_AT
from .record_writer import WRITE_SIZE_MAX, EncodedBatch
from .topic_queue import TopicQueue, TopicQueueTable, queue_refusal

_LENGTH = np.dtype(">u2")
"""The length before the properties."""
_PARTS = 5
"""Pieces of a record: head, body, topic, length and text of the properties."""
_Choice = TypeVar("_Choice")


@attrs.frozen(eq=False, kw_only=True)
class RecordColumns:
    """Records with IPv4 hosts, of no transaction, that have no place yet; at least one."""

    heads: NDArray[np.void]
    """As ``HEAD`` has them: what depends on the place in the log and on the destination is filled
    in here."""
    bodies: Pieces
    properties: Pieces
    """None larger than ``PROPERTIES_SIZE_MAX``."""
    entries: Sequence[TopicQueue]
    """Destinations, each with a record at least; none has levels."""
    entry_of: NDArray[np.intp]
    """Which of them each record goes to."""

    def encode(self, *, start: int, room: int, store_ms: int) -> EncodedBatch | None:
        """Lay out the records behind the end of the log, all of them or none.

        Args:
            start: End of the log.
            room: Bytes left in the newest segment.
            store_ms: Store time of the whole batch.

        Returns:
            None when the segment ends within the batch.
        """
        batch = EncodedBatch(start)
        try:
            self._lay_out(batch, store_ms)
        except BaseException:
            batch.undo()
            raise
        if batch.end + BLANK_SIZE <= start + room:
            return batch
        batch.undo()
        return None

    def _lay_out(self, batch: EncodedBatch, store_ms: int) -> None:
        heads, entries, entry_of = self.heads, self.entries, self.entry_of
        lengths = self.properties.sizes.astype(_LENGTH)
        sizes = self.bodies.sizes + self.properties.sizes
        sizes += np.array([len(entry.topic_part) for entry in entries])[entry_of]
        sizes += BODY_AT + _LENGTH.itemsize
        ends = batch.end + np.cumsum(sizes)
        heads["total_size"] = sizes
        heads["magic"] = np.array([entry.magic for entry in entries])[entry_of]
        heads["queue_id"] = np.array([entry.queue_id for entry in entries])[entry_of]
        heads["phy_offset"] = ends - sizes
        heads["store_ms"] = store_ms
        texts = self.properties.rows
        columns = None if texts is None else PropertyColumns.of(texts)
        units = self._units(columns)
        for number, entry in enumerate(entries):
            rows = np.flatnonzero(entry_of == number)
            batch.touched.append(entry)
            entry.first_offset, entry.next_offset = entry.next_offset, entry.next_offset + len(rows)
            entry.end = int(ends[rows[-1]])
            heads["queue_offset"][rows] = np.arange(entry.first_offset, entry.next_offset)
            entry.units.append(units[rows].tobytes())
        self._write(batch, lengths, ends)
        batch.fresh = self._fresh(columns, ends - sizes, end=int(ends[-1]), store_ms=store_ms)
        batch.end, batch.count = batch.fresh.end, len(heads)

    def _fresh(
        self, columns: PropertyColumns | None, offsets_py: Places, *, end: int, store_ms: int
    ) -> Fresh:
        """The rows for the index."""
        topics = [entry.topic for entry in _of_rows(self.entries, self.entry_of)]
        if columns is not None:
            fresh = FreshColumns.of(columns, topics, offsets_py, end=end, store_ms=store_ms)
            if fresh is not None:
                return fresh
        return FreshRecords(
            start=int(offsets_py[0]),
            end=end,
            store_ms=store_ms,
            topics=topics,
            properties=self.properties.each(),
            offsets_py=offsets_py.tolist(),
        )

    def _units(self, columns: PropertyColumns | None) -> NDArray[np.void]:
        """The queue units, each one piece."""
        units = np.zeros(len(self.heads), UNIT.dtype)
        units["phy_offset"], units["size"] = self.heads["phy_offset"], self.heads["total_size"]
        tags = None if columns is None else columns.same_value(TAGS_NAME)
        if tags:
            units["tags_code"] = tags_code(tags)
        elif tags is None:
            units["tags_code"] = [tags_code_in(one) for one in self.properties.each()]
        return units.view(f"V{UNIT.size}")

    def _write(self, batch: EncodedBatch, lengths: NDArray[np.uint16], ends: Places) -> None:
        """The bytes of the batch, in writes of bounded size."""
        rows = self._rows(lengths)
        parts = self._parts(lengths) if rows is None else []
        first, start = 0, batch.end
        while first < len(ends):
            last = int(np.searchsorted(ends, start + WRITE_SIZE_MAX, side="right"))
            last = max(last, first + 1)
            if rows is None:
                batch.close_write(start, parts[first * _PARTS : last * _PARTS])
            else:
                batch.close_write(start, [rows[first:last].tobytes()])
            first, start = last, int(ends[last - 1])

    def _rows(self, lengths: NDArray[np.uint16]) -> Rows | None:
        """The records as rows; None when they are not of one shape."""
        topics = [entry.topic_part for entry in self.entries]
        bodies, properties, count = self.bodies.rows, self.properties.rows, len(self.heads)
        if len(set(map(len, topics))) > 1 or bodies is None or properties is None:
            return None
        columns = (
            self.heads.view(np.uint8).reshape(count, -1),
            bodies,
            np.frombuffer(b"".join(topics), np.uint8).reshape(len(topics), -1)[self.entry_of],
            lengths.view(np.uint8).reshape(count, -1),
            properties,
        )
        return np.concatenate(columns, axis=1)

    def _parts(self, lengths: NDArray[np.uint16]) -> list[bytes]:
        """The records in pieces, ``_PARTS`` each."""
        records = zip(
            _cut(self.heads.tobytes(), BODY_AT),
            self.bodies.each(),
            _of_rows([entry.topic_part for entry in self.entries], self.entry_of),
            _cut(lengths.tobytes(), _LENGTH.itemsize),
            self.properties.each(),
            strict=True,
        )
        return [part for record in records for part in record]


def entries_of(
    topic_queues: TopicQueueTable, targets: Sequence[tuple[str, int]]
) -> list[TopicQueue] | None:
    """The destinations; None when nothing can be stored in one of them, or it has levels.

    Args:
        topic_queues: Where they are, or are made.
        targets: Topics and queues.
    """
    entries: list[TopicQueue] = []
    for target in targets:
        entry = topic_queues.get(target)
        if entry is None:
            if queue_refusal(*target) is not None:
                return None
            entry = topic_queues.add(*target)
        if entry.has_levels:
            return None
        entries.append(entry)
    return entries


def _of_rows(choices: Sequence[_Choice], choice_of: NDArray[np.intp]) -> list[_Choice]:
    numbers: list[int] = choice_of.tolist()
    return [choices[number] for number in numbers]


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
