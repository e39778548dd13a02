"""A run of records that come as a copy, read as columns: a fraction of the time of one by one.

A run holds plain records alone that are in a queue and have the bodies that were stored. It ends
before the first that is not so, or not certain: that one is looked at by itself, which tells why.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Places
from .byte_columns import distinct
from .dispatch import unit_tags_code
from .index_keys import FreshHashes
from .plain_run import PlainRun, count_of
from .queue_unit import UNIT
from .record_layout import BODY_AT, BODY_CRC_MASK
from .run_properties import RunProperties

Target = tuple[bytes, int]
"""A topic and a queue id."""


@attrs.frozen(eq=False, slots=False)
class CopiedRun:
    """Records that stand side by side; ``of`` finds them."""

    records: PlainRun
    targets: Sequence[Target]
    """Topics and queue ids, each once."""
    target_of: NDArray[np.intp]
    """The one of each record."""

    def __len__(self) -> int:
        return len(self.records)

    @classmethod
    def of(cls, data: bytes, at: int, phy_offset: int, room: int) -> CopiedRun | None:
        """The run that begins at a place.

        Args:
            data: What has come.
            at: Where the first record begins.
            phy_offset: Its position in the log.
            room: Bytes from there to the end of the segment.

        Returns:
            None when there is none, or none that is worth it.
        """
        records = PlainRun.of(data, at, phy_offset, at + room)
        if records is not None:
            records = records.first(count_of(_are_whole(records)))
        return None if records is None else cls(records, *_targets(records))

    @property
    def size(self) -> int:
        """Bytes that all records take."""
        return self.records.size

    @property
    def store_ms(self) -> int:
        """The newest store time, epoch milliseconds."""
        return int(self.records.heads["store_ms"].max())

    @cached_property
    def queue_offsets(self) -> Places:
        """Number of each record in its queue."""
        return self.records.heads["queue_offset"].astype(np.int64)

    @property
    def ends(self) -> Places:
        """End of each record in the log."""
        return self.records.block.ends + self.records.distance

    @cached_property
    def properties(self) -> RunProperties:
        """The records with their properties."""
        return RunProperties(self.records)

    @cached_property
    def _units(self) -> NDArray[np.void]:
        """The queue unit of each record, one piece: numpy copies pieces faster than fields."""
        heads = self.records.heads
        units = np.empty(len(self), UNIT.dtype)
        units["phy_offset"], units["size"] = heads["phy_offset"], heads["total_size"]
        units["tags_code"] = self.properties.tags_codes()
        return units.view(f"V{UNIT.size}")

    def units_of(
        self, rows: NDArray[np.intp], levels_ms: tuple[int, ...] | None
    ) -> NDArray[np.void]:
        """The queue units of some records.

        Args:
            rows: Which records.
            levels_ms: The delays of the classic levels, if it is the topic of these; else None.
        """
        units = self._units[rows]
        if levels_ms is not None:
            texts = self.records.property_texts
            stores_ms: list[int] = self.records.heads["store_ms"].tolist()
            numbers: list[int] = rows.tolist()
            units.view(UNIT.dtype)["tags_code"] = [
                unit_tags_code(texts[row], True, stores_ms[row], levels_ms) for row in numbers
            ]
        return units

    def key_hashes(self) -> FreshHashes:
        """What the index wants to know of the records."""
        names = [topic.decode("utf-8", "replace") for topic, _ in self.targets]
        if len(set(names)) == 1:
            topics = names[:1] * len(self)
        else:
            target_of: list[int] = self.target_of.tolist()
            topics = [names[number] for number in target_of]
        return self.properties.key_hashes(topics)


def _are_whole(records: PlainRun) -> NDArray[np.bool_]:
    """Which records are in a queue and have the body that was stored, by its checksum."""
    view, crc32, heads = memoryview(records.block.data), zlib.crc32, records.heads
    rows = zip((records.block.starts + BODY_AT).tolist(), records.body_ends.tolist(), strict=True)
    crcs = np.array([crc32(view[start:end]) for start, end in rows], np.int64)
    return np.asarray(
        (crcs & BODY_CRC_MASK == heads["body_crc"]) & (heads["queue_offset"] >= 0), np.bool_
    )


def _targets(records: PlainRun) -> tuple[list[Target], NDArray[np.intp]]:
    """Topics and queue ids, and which of them each record has."""
    queue_ids = records.heads["queue_id"].astype(np.int64)
    topic = records.same_topic()
    if topic is not None:
        ids, target_of = distinct(queue_ids)
        return [(topic, queue_id) for queue_id in ids], target_of
    numbers: dict[Target, int] = {}
    rows = zip(records.topics.each(), queue_ids.tolist(), strict=True)
    target_of = np.array([numbers.setdefault(one, len(numbers)) for one in rows], np.intp)
    return list(numbers), target_of
