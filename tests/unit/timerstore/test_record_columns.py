"""Records as columns, laid out behind the end of the log: all of them or none."""

from __future__ import annotations

import numpy as np
import pytest

from small_store import HOST
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.byte_columns import Pieces, rows_like
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.index_keys import FreshColumns, FreshRecords
from timermq.timerstore.java_hash import tags_code
from timermq.timerstore.message import Message
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_columns import RecordColumns, entries_of
from timermq.timerstore.record_layout import BLANK_SIZE, HEAD
from timermq.timerstore.record_writer import WRITE_SIZE_MAX
from timermq.timerstore.topic_queue import TopicQueueTable

Row = tuple[str, int, bytes, bytes]
"""Topic, queue, body and properties."""


def table() -> TopicQueueTable:
    """The destinations of an empty store."""
    queues = ConsumeQueueTable(MemoryDisk(), "/store", segment_size=100, read_only=False)
    return TopicQueueTable(queues)


def encoded(row: Row, *, queue_offset: int, phy_offset: int) -> bytes:
    """The record of a row by the codec."""
    topic, queue_id, body, properties = row
    message = Message(topic, queue_id, body, properties, born_host=HOST, born_ms=5)
    return encode_record(
        message, queue_offset=queue_offset, phy_offset=phy_offset, store_ms=77, store_host=HOST
    )


def pieces(texts: list[bytes]) -> Pieces:
    """Texts joined, and where each stands."""
    sizes = np.array([len(text) for text in texts], np.int64)
    ends = np.cumsum(sizes)
    return Pieces(b"".join(texts), ends - sizes, ends)


def columns(queues: TopicQueueTable, rows: list[Row]) -> RecordColumns:
    """Rows as columns, without a place."""
    targets = list(dict.fromkeys((topic, queue_id) for topic, queue_id, _, _ in rows))
    entries = entries_of(queues, targets)
    assert entries is not None
    heads = b"".join(encoded(row, queue_offset=0, phy_offset=0)[: HEAD.size] for row in rows)
    return RecordColumns(
        heads=rows_like(heads, 1, ()).view(HEAD.dtype).reshape(-1),
        bodies=pieces([row[2] for row in rows]),
        properties=pieces([row[3] for row in rows]),
        entries=entries,
        entry_of=np.array([targets.index(row[:2]) for row in rows], np.intp),
    )


ONE_SHAPE: list[Row] = [
    ("T", 0, b"aa", b"TAGS\x01x\x02"),
    ("T", 1, b"bb", b"TAGS\x01x\x02"),
    ("T", 0, b"cc", b"TAGS\x01y\x02"),
]
OTHER_SHAPES: dict[str, list[Row]] = {
    "bodies": [*ONE_SHAPE, ("T", 0, b"longer", b"TAGS\x01y\x02")],
    "topics": [*ONE_SHAPE, ("Topic", 0, b"dd", b"TAGS\x01y\x02")],
    "properties": [*ONE_SHAPE, ("T", 0, b"dd", b"KEYS\x01k\x02TAGS\x01y\x02")],
    "no tags": [("T", 0, b"aa", b"a\x01b\x02"), ("T", 0, b"aa", b"c\x01d\x02")],
    "one": ONE_SHAPE[:1],
}


@pytest.mark.parametrize("rows", [ONE_SHAPE, *OTHER_SHAPES.values()], ids=["same", *OTHER_SHAPES])
def test_columns_are_the_records_of_the_codec(rows: list[Row]) -> None:
    """Of one shape they are rows of bytes, and of others pieces: the log is the same."""
    batch = columns(table(), rows).encode(start=4096, room=1 << 20, store_ms=77)
    assert batch is not None
    expected, offsets = b"", dict[tuple[str, int], int]()
    for row in rows:
        offset = offsets.setdefault(row[:2], 0)
        expected += encoded(row, queue_offset=offset, phy_offset=4096 + len(expected))
        offsets[row[:2]] += 1

    assert b"".join(one.data for one in batch.writes) == expected
    assert (batch.end, batch.count) == (4096 + len(expected), len(rows))


@pytest.mark.parametrize("rows", [ONE_SHAPE, OTHER_SHAPES["properties"], OTHER_SHAPES["no tags"]])
def test_each_unit_has_the_code_of_its_tags(rows: list[Row]) -> None:
    """Whether all have the same tags, different ones, or none."""
    batch = columns(table(), rows).encode(start=0, room=1 << 20, store_ms=77)
    assert batch is not None
    found = [
        code
        for units in batch.dispatch().queue_units
        for _, _, code in np.frombuffer(units.units, UNIT.dtype).tolist()
    ]
    tags = {b"x": tags_code(b"x"), b"y": tags_code(b"y")}
    expected = [
        sum(code for tag, code in tags.items() if b"TAGS\x01" + tag in row[3])
        for target in dict.fromkeys(row[:2] for row in rows)
        for row in rows
        if row[:2] == target
    ]

    assert found == expected


def test_offsets_go_on_where_the_batch_before_has_ended() -> None:
    """Each queue counts for itself."""
    queues = table()
    first = columns(queues, ONE_SHAPE).encode(start=0, room=1 << 20, store_ms=77)
    assert first is not None
    first.dispatch()
    second = columns(queues, ONE_SHAPE).encode(start=first.end, room=1 << 20, store_ms=77)
    assert second is not None

    assert [one.first_offset for one in second.touched] == [2, 1]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_segment_that_ends_within_the_batch_takes_none_of_it(missing: int) -> None:
    """The blank behind the last record counts; queue offsets are given back."""
    queues = table()
    size = sum(len(encoded(row, queue_offset=0, phy_offset=0)) for row in ONE_SHAPE)
    room = size + BLANK_SIZE - missing
    batch = columns(queues, ONE_SHAPE).encode(start=0, room=room, store_ms=77)

    assert (batch is None) == bool(missing)
    entry = queues.get(("T", 0))
    assert entry is not None
    assert entry.next_offset == (0 if missing else 2)
    assert bool(entry.units) != bool(missing)


@pytest.mark.parametrize("tail", [b"", b"-"])
def test_writes_are_bounded(tail: bytes) -> None:
    """A record that is larger is a write of its own; in pieces too."""
    rows: list[Row] = [("T", 0, bytes(WRITE_SIZE_MAX // 3), b"")] * 7
    rows += [("T", 0, bytes(WRITE_SIZE_MAX + 1) + tail, b"")] if tail else []
    batch = columns(table(), rows).encode(start=0, room=1 << 30, store_ms=77)
    assert batch is not None

    assert [len(one.data) <= WRITE_SIZE_MAX for one in batch.writes][:-1] == [True] * (
        len(batch.writes) - 1
    )
    assert len(batch.writes) == (5 if tail else 4)
    assert batch.writes[1].offset == len(batch.writes[0].data)


def test_unique_keys_of_one_place_are_columns_for_the_index() -> None:
    """With other keys they are records, which the index reads one by one."""
    queues = table()
    same: list[Row] = [("T", 0, b"a", b"UNIQ_KEY\x01k%d\x02" % number) for number in range(3)]
    mixed = [*same, ("T", 0, b"a", b"KEYS\x01k\x02")]
    for rows, kind in ((same, FreshColumns), (mixed, FreshRecords)):
        batch = columns(queues, rows).encode(start=0, room=1 << 20, store_ms=77)
        assert batch is not None
        assert isinstance(batch.fresh, kind)


@pytest.mark.parametrize(
    "target", [("T", -1), ("a/b", 0), ("", 0), ("SCHEDULE_TOPIC_XXXX", 2), ("t" * 300, 0)]
)
def test_destinations_of_other_kinds_are_no_columns(target: tuple[str, int]) -> None:
    """What the store refuses, and classic levels, whose units hold moments."""
    assert entries_of(table(), [("T", 0), target]) is None
