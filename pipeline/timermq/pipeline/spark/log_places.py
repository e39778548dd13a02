"""The positions in the commit log at which a reader can begin, and the stretches that tasks read.

A segment begins with a record. Within a segment something that looks like a record is no proof: a
body may hold one. The proof is its own queue: the unit that the record claims (topic, queue, queue
offset) must lead back to this very position. A backup has no queues; its pieces begin with records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import attrs
import numpy as np

from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record_check import check_record
from timermq.timerstore.record_layout import FIXED_SIZE_V1, MAGIC_AT, MAGIC_V1

from .backup_log import BackupPart
from .file_part import FilePart
from .options import ReadOptions
from .places import open_ranges
from .record_chunks import Damage, RecordChunk, chunks, damaged, records_in
from .store_view import StoreView
from .tables.source import cut

WINDOW_BYTES = 1 << 20
"""Bytes that are searched for a record at a time."""
RECORD_BYTES_MAX = 8 << 20
"""A larger record is no place to begin: a message has 4 MiB, and its properties."""

_MAGIC_BYTES = MAGIC_V1.to_bytes(4, "big", signed=True)[:3]
"""The bytes with which the magics of both versions begin."""


@attrs.frozen
class Queues:
    """The queues of a store, asked for single units."""

    root: str
    segment_size: int

    @classmethod
    def of(cls, view: StoreView) -> Queues:
        """The queues of the store that a view shows."""
        return cls(view.root, view.store_options.mapped_file_size_consume_queue)

    def lead_to(self, chunk: RecordChunk) -> bool:
        """Whether the unit that a single record claims is its own."""
        topic = chunk.topics[0].as_py().decode("utf-8", "replace")
        head = chunk.heads[0]
        at = int(head["queue_offset"]) * UNIT.size
        if at < 0 or "/" in topic or "\0" in topic:
            return False
        start = at - at % self.segment_size
        path = f"{self.root}/consumequeue/{topic}/{int(head['queue_id'])}/{start:020d}"
        try:
            with closing(open_ranges(path)) as file:
                data = file.read_at(UNIT.size, at - start)
        except OSError:
            return False
        return len(data) == UNIT.size and UNIT.unpack(data)[:2] == (
            int(head["phy_offset"]),
            int(head["total_size"]),
        )


@attrs.frozen
class LogSpan:
    """A stretch of one segment that begins with a record."""

    part: FilePart
    segment_end: int
    queues: Queues
    precision_ms: int

    def records(self, *, is_damage_told: bool = False) -> Iterator[RecordChunk | Damage]:
        """The records in their order.

        Args:
            is_damage_told: What is damaged is yielded, and reading goes on behind it, at the next
                record that a queue leads to.

        Raises:
            SparkJobError: Something is damaged, and that is not to be told; the store was cleaned.
        """
        part: FilePart | None = self.part
        while part is not None:
            low, part = part, None
            for found in chunks(low, self.segment_end):
                if isinstance(found, RecordChunk):
                    yield found
                    continue
                if not is_damage_told:
                    raise damaged(low.path, found)
                behind = attrs.evolve(low, low=found.phy_offset + 1)
                place = next_record(behind, self.queues)
                yield found if place is None else attrs.evolve(found, end=place)
                part = None if place is None else attrs.evolve(low, low=place)


def log_spans(view: StoreView, low: int, high: int, options: ReadOptions) -> list[LogSpan]:
    """Cut a range of the commit log.

    Args:
        view: The store.
        low: Start of a record, or of the log.
        high: End of a record, or of the log.
        options: How many stretches are wanted.
    """
    queues, found = Queues.of(view), list[LogSpan]()
    for start, first, last in view.log.segments(low, high):
        whole = view.log.part(start, first, last)
        bounds = [first]
        for wanted, _ in cut(last - first, 1, options)[1:]:
            behind = attrs.evolve(whole, low=max(first + wanted, bounds[-1] + 1))
            # A piece of a backup begins where its shipper found that a record does.
            place = (
                behind.next_start()
                if isinstance(behind, BackupPart)
                else next_record(behind, queues)
            )
            bounds += [] if place is None else [place]
        found += [
            LogSpan(
                attrs.evolve(whole, low=begin, high=end),
                start + view.log.segment_size,
                queues,
                view.timer_options.timer_precision_ms,
            )
            for begin, end in pairwise([*bounds, last])
        ]
    return found


def next_record(part: FilePart, queues: Queues) -> int | None:
    """The first position in a part that is the start of a record for certain; None without any.

    A backup has no queues. There what has the right position and checksum counts, as it does for
    `store repair` without queues: a body that holds such a thing may be taken for a record.
    """
    is_proof = is_whole if isinstance(part, BackupPart) else queues.lead_to
    for low in range(part.low, part.high, WINDOW_BYTES):
        data = part.read(low, min(low + WINDOW_BYTES + RECORD_BYTES_MAX, part.high))
        for at in _candidates(data, WINDOW_BYTES):
            chunk, _ = records_in(data, np.array([at]), np.array([low + at]))
            if len(chunk) and is_proof(chunk):
                return low + at
    return None


def is_whole(chunk: RecordChunk) -> bool:
    """Whether a single record is one by its own checksum."""
    record = chunk.record(0)
    position = int(chunk.heads[0]["phy_offset"])
    return not check_record(record, 0, len(record), position, check_crc=True).reason


def _candidates(data: bytes, size: int) -> Iterator[int]:
    """Places in the first bytes behind which a magic stands."""
    at = data.find(_MAGIC_BYTES)
    while 0 <= at < size + MAGIC_AT:
        if 0 <= at - MAGIC_AT < size and at - MAGIC_AT + FIXED_SIZE_V1 <= len(data):
            yield at - MAGIC_AT
        at = data.find(_MAGIC_BYTES, at + 1)
