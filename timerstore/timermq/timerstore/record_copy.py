"""Records written again under another topic: how most due timers reach theirs.

Nearly all of a delivered record stands in the waiting one already: checksum, flags, born data, body
and the producer's properties are taken over, without a message in between. Heads are changed as
columns; only slices are cut record by record. That is a fifth of what a put costs. Copies take the
usual case only (IPv4 hosts, no transaction, a batch that fits the segment); for anything else, and
for few records, the caller makes messages.

Source: Java ``TimerMessageStore.convertMessage`` with ``MessageStore.putMessage``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from .consume_queue import UNIT
from .dispatch import tags_code_in
from .index_keys import FreshRecords
from .message import HOST_SIZE_V4, SysFlag
from .properties import TAGS_NAME
from .record import BLANK_SIZE
from .record_block import Places, RecordBlock
from .record_layout import BODY_AT, HEAD, MAGIC_V1
from .record_writer import EncodedBatch
from .topic_queue import TopicQueue, TopicQueueTable, queue_refusal

_UNUSUAL = ~int(SysFlag.COMPRESSED | SysFlag.MULTI_TAGS | SysFlag.NEED_UNWRAP) & 0xFF
"""Bits that the last byte of a copied record's sysFlag may not have."""
_TAGS = TAGS_NAME + b"\x01"
_WHOLE = np.dtype(f"V{HEAD.size}")
"""A head as one piece, which numpy copies faster than its fields."""
Choice = TypeVar("Choice")
_LENGTH = np.dtype(">u2")
"""The length before the properties."""


@attrs.frozen(eq=False)
class RecordCopies:
    """Records of one topic that are to be written again, as columns."""

    topic_part: bytes
    """Length and name of the topic that all records have."""
    block: RecordBlock
    ends: Places
    """Where, in the block, the properties end that each copy keeps."""
    targets: Sequence[tuple[str, int]]
    """Topics and queues."""
    target_of: NDArray[np.intp]
    """Which of them each copy goes to."""
    origins: NDArray[np.int64]
    """What each copy's preparedTransactionOffset says."""

    def __len__(self) -> int:
        return len(self.block)


@attrs.frozen(eq=False)
class _Cuts:
    """What is taken over of each record: its body, and the properties that it keeps."""

    body_starts: Places
    body_ends: Places
    properties_starts: Places

    @classmethod
    def of(cls, copies: RecordCopies) -> _Cuts | None:
        """None when a record is unusual."""
        block, heads = copies.block, copies.block.heads
        body_starts = block.starts + BODY_AT
        body_ends = body_starts + heads["body_length"]
        properties_starts = body_ends + len(copies.topic_part) + _LENGTH.itemsize
        if (
            (heads["magic"] != MAGIC_V1).any()
            or (heads["sys_flag"] & _UNUSUAL).any()
            or (body_starts > body_ends).any()
            or (properties_starts > copies.ends).any()
            or not block.have(copies.topic_part, body_ends)
        ):
            return None
        return cls(body_starts, body_ends, properties_starts)


class RecordCopier:
    """Encodes copies.

    Args:
        topic_queues: Next queue offsets; they advance here.
        store_host: Address in every record, packed.
    """

    def __init__(self, topic_queues: TopicQueueTable, store_host: bytes) -> None:
        self._topic_queues = topic_queues
        self._store_host = store_host

    def encode(
        self, copies: RecordCopies, *, start: int, room: int, store_ms: int
    ) -> EncodedBatch | None:
        """Lay out copies behind the end of the log, all of them or none.

        Args:
            copies: What to write again, at least one.
            start: End of the log.
            room: Bytes left in the newest segment.
            store_ms: Store time of the whole batch.

        Returns:
            None when one of them is unusual, or the segment ends within the batch.
        """
        entries = [self._entry(target) for target in copies.targets]
        usual = [entry for entry in entries if entry is not None]
        cuts = _Cuts.of(copies)
        if len(self._store_host) != HOST_SIZE_V4 or len(usual) < len(entries) or cuts is None:
            return None
        batch = EncodedBatch(start, count=len(copies))
        try:
            self._lay_out(batch, copies, cuts, usual, store_ms)
        except BaseException:
            batch.take_back()
            raise
        if batch.end + BLANK_SIZE <= start + room:
            return batch
        batch.take_back()
        return None

    def _lay_out(
        self,
        batch: EncodedBatch,
        copies: RecordCopies,
        cuts: _Cuts,
        entries: list[TopicQueue],
        store_ms: int,
    ) -> None:
        target_of = copies.target_of
        lengths = (copies.ends - cuts.properties_starts).astype(_LENGTH)
        topic_sizes = np.array([len(entry.topic_part) for entry in entries])[target_of]
        sizes = cuts.body_ends - cuts.body_starts + lengths + topic_sizes
        sizes += BODY_AT + _LENGTH.itemsize
        ends = batch.end + np.cumsum(sizes)
        properties = _slices(copies.block.data, cuts.properties_starts, copies.ends)
        heads = copies.block.heads.view(_WHOLE).copy().view(HEAD.dtype)
        heads["total_size"] = sizes
        heads["magic"] = np.array([entry.magic for entry in entries])[target_of]
        heads["queue_id"] = np.array([entry.queue_id for entry in entries])[target_of]
        heads["phy_offset"] = ends - sizes
        heads["store_ms"] = store_ms
        heads["store_host"] = np.void(self._store_host)
        heads["prepared_transaction_offset"] = copies.origins
        units = _units(heads, properties)
        for number, entry in enumerate(entries):
            rows = np.flatnonzero(target_of == number)
            batch.touched.append(entry)
            entry.first_offset, entry.next_offset = entry.next_offset, entry.next_offset + len(rows)
            entry.end = int(ends[rows[-1]])
            heads["queue_offset"][rows] = np.arange(entry.first_offset, entry.next_offset)
            entry.units.append(units[rows].tobytes())
        parts = _join(copies, cuts, heads, lengths, entries, properties)
        batch.close_write(batch.end, parts)
        batch.fresh = FreshRecords(
            start=batch.end,
            end=int(ends[-1]),
            store_ms=store_ms,
            topics=[entry.topic for entry in _of_rows(entries, target_of)],
            properties=properties,
            offsets_py=heads["phy_offset"].tolist(),
        )
        batch.end = batch.fresh.end

    def _entry(self, target: tuple[str, int]) -> TopicQueue | None:
        """The destination, None when nothing can be stored there or its units are unusual."""
        entry = self._topic_queues.get(target)
        if entry is None:
            if queue_refusal(*target) is not None:
                return None
            entry = self._topic_queues.add(*target)
        return None if entry.has_levels else entry


def _units(heads: NDArray[np.void], properties: Sequence[bytes]) -> NDArray[np.void]:
    """The units of the copies, each one piece."""
    units = np.zeros(len(heads), UNIT.dtype)
    units["phy_offset"], units["size"] = heads["phy_offset"], heads["total_size"]
    if _TAGS in b"".join(properties):
        units["tags_code"] = [tags_code_in(one) for one in properties]
    return units.view(f"V{UNIT.size}")


def _join(
    copies: RecordCopies,
    cuts: _Cuts,
    heads: NDArray[np.void],
    lengths: NDArray[np.uint16],
    entries: Sequence[TopicQueue],
    properties: Sequence[bytes],
) -> list[bytes]:
    """The bytes of the batch, in parts; records of one shape are put together as columns."""
    block, target_of = copies.block, copies.target_of
    body_sizes = cuts.body_ends - cuts.body_starts
    topics = [entry.topic_part for entry in entries]
    if len(set(map(len, topics))) == 1 and not np.ptp(lengths) and not np.ptp(body_sizes):
        columns = (
            heads.view(np.uint8).reshape(len(heads), -1),
            block.octets(cuts.body_starts, int(body_sizes[0])),
            np.frombuffer(b"".join(topics), np.uint8).reshape(len(topics), -1)[target_of],
            lengths.view(np.uint8).reshape(len(heads), -1),
            block.octets(cuts.properties_starts, int(lengths[0])),
        )
        return [np.concatenate(columns, axis=1).tobytes()]
    rows = zip(
        _cut_rows(heads.tobytes(), BODY_AT),
        _slices(block.data, cuts.body_starts, cuts.body_ends),
        _of_rows(topics, target_of),
        _cut_rows(lengths.tobytes(), _LENGTH.itemsize),
        properties,
        strict=True,
    )
    return [part for row in rows for part in row]


def _of_rows(choices: Sequence[Choice], choice_of: NDArray[np.intp]) -> list[Choice]:
    numbers: list[int] = choice_of.tolist()
    return [choices[number] for number in numbers]


def _slices(data: bytes, starts: Places, ends: Places) -> list[bytes]:
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _cut_rows(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
