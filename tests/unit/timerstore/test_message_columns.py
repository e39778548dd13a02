"""A run of messages as columns: stored together, or one by one where some may be refused."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from small_store import HOST
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.byte_columns import Pieces
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.message import Message, SysFlag
from timermq.timerstore.message_columns import MessageColumns, MessageColumnsWriter
from timermq.timerstore.record import encode_record
from timermq.timerstore.topic_queue import TopicQueueTable

BODIES = [b"a", b"bcd", b"e"]
FIRST = Message("T", 0, b"a", b"KEYS\x01k0\x02", 7, int(SysFlag.COMPRESSED), 100, HOST, 2)


def first_with(**changes: Any) -> Message:  # noqa: ANN401 - passed on
    """The first message with other fields."""
    return msgspec.structs.replace(FIRST, **changes)


def run(first: Message = FIRST, *, properties: bytes | None = None) -> MessageColumns:
    """Three messages for the queues 0, 3 and 0."""
    sizes = np.array([len(body) for body in BODIES], np.int64)
    ends = np.cumsum(sizes)
    text = first.properties if properties is None else properties
    rows = b"".join(text.replace(b"k0", b"k%d" % number) for number in range(3))
    return MessageColumns(
        first=first,
        queue_ids=np.array([0, 3, 0], np.int64),
        bodies=Pieces(b"".join(BODIES), ends - sizes, ends),
        properties=np.frombuffer(rows, np.uint8).reshape(3, -1),
        born_ms=np.array([100, 101, 102], np.int64),
    )


def writer(
    store_host: bytes = HOST, body_max: int = 3, record_max: int = 200
) -> MessageColumnsWriter:
    """A writer over an empty store."""
    queues = ConsumeQueueTable(MemoryDisk(), "/store", segment_size=100, read_only=False)
    return MessageColumnsWriter(
        TopicQueueTable(queues), store_host, body_size_max=body_max, record_size_max=record_max
    )


def test_the_messages_are_those_of_the_columns() -> None:
    """Fields that all have in common are those of the first."""
    assert [
        (one.queue_id, one.body, one.properties, one.born_ms, one.flag, one.reconsume_times)
        for one in run().messages()
    ] == [
        (0, b"a", b"KEYS\x01k0\x02", 100, 7, 2),
        (3, b"bcd", b"KEYS\x01k1\x02", 101, 7, 2),
        (0, b"e", b"KEYS\x01k2\x02", 102, 7, 2),
    ]


def test_a_run_is_stored_as_its_messages_are() -> None:
    """The same bytes, and the places that the answers name."""
    found = writer().encode(run(), start=512, room=1 << 20, store_ms=77)
    assert found is not None
    batch, stored = found
    expected, places = b"", list[int]()
    for message, queue_offset in zip(run().messages(), (0, 0, 1), strict=True):
        places.append(512 + len(expected))
        expected += encode_record(
            message,
            queue_offset=queue_offset,
            phy_offset=places[-1],
            store_ms=77,
            store_host=HOST,
        )

    assert b"".join(one.data for one in batch.writes) == expected
    assert stored.phy_offsets.tolist() == places
    assert stored.queue_offsets.tolist() == [0, 0, 1]


def test_a_segment_without_room_takes_none() -> None:
    """The caller begins another one, and puts them one by one."""
    assert writer().encode(run(), start=0, room=300, store_ms=77) is None


@pytest.mark.parametrize(
    ("made", "columns"),
    [
        (writer(store_host=bytes(20)), run()),
        (writer(), run(first_with(born_host=bytes(20)))),
        (writer(), run(first_with(sys_flag=int(SysFlag.TRANSACTION_PREPARED)))),
        (writer(body_max=2), run()),
        (writer(record_max=100), run()),
        (writer(), run(properties=b"")),
        (writer(), run(properties=b"INNER_NUM\x015\x02")),
        (writer(), run(first_with(topic="a/b"))),
        (writer(), run(first_with(topic="SCHEDULE_TOPIC_XXXX"))),
    ],
)
def test_what_may_be_refused_is_no_run(made: MessageColumnsWriter, columns: MessageColumns) -> None:
    """The other writer says which message is refused, and why."""
    assert made.encode(columns, start=0, room=1 << 20, store_ms=77) is None


def test_limits_are_inclusive() -> None:
    """A record of just the size passes."""
    size = max(
        len(encode_record(one, queue_offset=0, phy_offset=0, store_ms=0, store_host=HOST))
        for one in run().messages()
    )
    for record_max, is_taken in ((size + 3, True), (size - 1, False)):
        found = writer(record_max=record_max).encode(run(), start=0, room=1 << 20, store_ms=0)
        assert (found is not None) == is_taken
