"""Tests of the hot loop."""

from __future__ import annotations

from typing import Any, cast

import pytest

from small_store import HOST, SEGMENT_SIZE, message, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.message import Message, SysFlag
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record import blank_record, encode_record
from timermq.timerstore.record_writer import (
    WRITE_COUNT_MAX,
    WRITE_SIZE_MAX,
    EncodedBatch,
    RecordWriter,
)
from timermq.timerstore.store_options import StoreOptions
from timermq.timerstore.topic_queue import TopicQueueTable

BIG = StoreOptions(mapped_file_size_commit_log=1 << 24)
HOST_V6 = bytes(range(20))


class Rig:
    """A writer and the queues behind it."""

    def __init__(self, options: StoreOptions, store_host: bytes = HOST) -> None:
        disk = MemoryDisk()
        self.options = options
        self.queues = ConsumeQueueTable(disk, "/store", segment_size=100, read_only=False)
        self.table = TopicQueueTable(self.queues)
        self.writer = RecordWriter(options, self.table, store_host)

    def encode(self, *messages: Message, start: int = 0, room: int | None = None) -> EncodedBatch:
        """Lay a batch out as it would stand in the log from a position on."""
        if room is None:
            room = self.options.mapped_file_size_commit_log
        return self.writer.encode(messages, start=start, room=room, store_ms=77)


def small() -> Rig:
    """Segments of a few records."""
    return Rig(small_options())


@pytest.mark.parametrize("store_host", [HOST, HOST_V6])
@pytest.mark.parametrize("born_host", [HOST, HOST_V6])
@pytest.mark.parametrize("topic", ["T", "%RETRY%" + "g" * 200])
def test_records_are_those_of_the_codec(store_host: bytes, born_host: bytes, topic: str) -> None:
    """The hot loop and the codec are two ways to the same bytes."""
    one = message(
        "body",
        topic,
        3,
        b"TAGS\x01red\x02",
        flag=9,
        sys_flag=int(SysFlag.MULTI_TAGS | SysFlag.BORN_HOST_V6),
        born_ms=12,
        born_host=born_host,
        reconsume_times=2,
        prepared_offset=-5,
    )
    batch = Rig(BIG, store_host).encode(one, one, start=1000)
    expected = [
        encode_record(
            one,
            queue_offset=number,
            phy_offset=result.phy_offset,
            store_ms=77,
            store_host=store_host,
        )
        for number, result in enumerate(batch.results)
    ]

    assert [b"".join(expected)] == [write.data for write in batch.writes]
    assert [len(expected[0])] * 2 == [result.size for result in batch.results]
    assert batch.end == batch.results[-1].end


def test_a_checksum_that_is_known_is_taken() -> None:
    """A delivered timer keeps that of its record."""
    (write,) = small().encode(message(body_crc=42)).writes

    assert int.from_bytes(write.data[8:12]) == 42


def test_units_are_grouped_by_queue() -> None:
    """Each queue is touched once a batch."""
    rig = small()
    first = rig.encode(message(), message(queue_id=1), message()).dispatch()
    second = rig.encode(message(queue_id=1), start=first.end, room=500).dispatch()
    size = first.end // 3

    assert [(0, 0, 2), (1, 0, 1)] == [
        (part.queue.queue_id, part.first_offset, len(part.units) // UNIT.size)
        for part in first.queue_units
    ]
    assert [(1, 1, UNIT.pack(first.end, size, 0), first.end + size)] == [
        (part.queue.queue_id, part.first_offset, part.units, part.end)
        for part in second.queue_units
    ]


@pytest.mark.parametrize(
    ("kind", "is_queued"),
    [
        (SysFlag.TRANSACTION_PREPARED, False),
        (SysFlag.TRANSACTION_COMMIT, True),
        (SysFlag.TRANSACTION_ROLLBACK, False),
    ],
)
def test_half_messages_are_in_no_queue(kind: SysFlag, is_queued: bool) -> None:
    """Nor are rollbacks; their queue offset is 0."""
    rig = small()
    batch = rig.encode(message(), message(sys_flag=int(kind)), message())

    assert [0, 1 if is_queued else 0, 2 if is_queued else 1] == [
        result.queue_offset for result in batch.results
    ]
    assert (3 if is_queued else 2) == len(batch.dispatch().queue_units[0].units) // UNIT.size


def test_a_segment_ends_with_a_blank() -> None:
    """A record never crosses a segment, and eight bytes always stay for the blank."""
    one = message("x" * 200)
    batch = small().encode(*[one] * 4)
    size = batch.results[0].size
    left = SEGMENT_SIZE - 3 * size

    assert [0, size, 2 * size, SEGMENT_SIZE] == [result.phy_offset for result in batch.results]
    assert [SEGMENT_SIZE] == batch.segment_starts
    assert [(0, SEGMENT_SIZE - left + 8), (SEGMENT_SIZE, size)] == [
        (write.offset, len(write.data)) for write in batch.writes
    ]
    assert batch.writes[0].data.endswith(blank_record(left))


@pytest.mark.parametrize(("spare", "starts"), [(8, []), (7, [SEGMENT_SIZE])])
def test_a_record_may_leave_exactly_eight_bytes(spare: int, starts: list[int]) -> None:
    """One byte less, and it goes to the next segment."""
    one = message()
    size = small().encode(one).end
    start = SEGMENT_SIZE - size - spare

    batch = small().encode(one, start=start, room=size + spare)

    assert starts == batch.segment_starts


def test_a_log_without_room_begins_with_a_segment() -> None:
    """No blank is written where nothing is left."""
    batch = small().encode(message(), start=2 * SEGMENT_SIZE, room=0)

    assert [2 * SEGMENT_SIZE] == batch.segment_starts
    assert [2 * SEGMENT_SIZE] == [write.offset for write in batch.writes]


def test_writes_are_bounded_in_count_and_size() -> None:
    """Records are joined only up to a bound, for larger joins are slower."""
    by_count = Rig(BIG).encode(*[message()] * (WRITE_COUNT_MAX + 1))
    by_size = Rig(BIG).encode(*[message("x" * 100_000)] * 3, message("x" * 300_000))
    sizes = [len(write.data) for write in by_size.writes]

    assert [WRITE_COUNT_MAX, 1] == [
        len(write.data) // by_count.results[0].size for write in by_count.writes
    ]
    assert [2, 1, 1] == [round(size / 100_000) if size < WRITE_SIZE_MAX else 1 for size in sizes]
    assert by_size.end == sum(sizes)


@pytest.mark.parametrize(
    ("changes", "status", "remark"),
    [
        ({"topic": "a/b"}, PutStatus.MESSAGE_ILLEGAL, "topic 'a/b': not a name"),
        ({"queue_id": -1}, PutStatus.MESSAGE_ILLEGAL, "queue id -1: expected 0 to"),
        ({"body": "x" * 901}, PutStatus.MESSAGE_ILLEGAL, "body of 901 bytes: expected at most 900"),
        (
            {"body": "x" * 900, "properties": b"p" * 60},
            PutStatus.MESSAGE_ILLEGAL,
            "record: expected",
        ),
        (
            {"properties": b"p" * 32768},
            PutStatus.PROPERTIES_SIZE_EXCEEDED,
            "properties of 32768 bytes: expected at most 32767",
        ),
        ({"born_host": b"short"}, PutStatus.MESSAGE_ILLEGAL, "born host of 5 bytes"),
        ({"sys_flag": 0x80}, PutStatus.MESSAGE_ILLEGAL, "inner batch"),
        ({"properties": b"INNER_NUM\x013\x02"}, PutStatus.MESSAGE_ILLEGAL, "inner batch"),
        ({"flag": 1 << 31}, PutStatus.MESSAGE_ILLEGAL, "message: "),
    ],
)
def test_a_message_that_may_not_be_stored_does_not_stop_the_others(
    changes: dict[str, Any], status: PutStatus, remark: str
) -> None:
    """Each refusal says which rule is broken; offsets stay dense."""
    rig = Rig(small_options(max_message_size=900))
    batch = rig.encode(message(), message(**changes), message())
    good, bad, other = batch.results

    assert (status, remark) == (bad.status, (bad.remark or "")[: len(remark)])
    assert (PutStatus.PUT_OK, 0, 0) == (good.status, good.phy_offset, good.queue_offset)
    assert (PutStatus.PUT_OK, good.size, 1) == (other.status, other.phy_offset, other.queue_offset)
    assert batch.count == 2


def test_the_largest_message_is_taken() -> None:
    """4 MiB of body, a long topic and all properties, as RocketMQ takes them."""
    rig = Rig(StoreOptions())
    one = message("x" * (4 << 20), "t" * 127, properties=b"p" * 32767)

    assert rig.encode(one).results[0].status is PutStatus.PUT_OK


def test_a_batch_that_is_undone_gives_its_queue_offsets_back() -> None:
    """The next batch gets them."""
    rig = small()
    rig.encode(message()).dispatch()

    rig.encode(message(), message(queue_id=1)).undo()

    assert [1, 0] == [
        result.queue_offset for result in rig.encode(message(), message(queue_id=1)).results
    ]


def test_an_error_in_the_loop_gives_them_back_too() -> None:
    """A body that is no bytes is the caller's mistake, and must cost no sender a queue offset."""
    rig = small()
    broken = message()
    broken.body = cast("bytes", None)

    with pytest.raises(TypeError):
        rig.encode(message(), broken)

    assert [0] == [result.queue_offset for result in rig.encode(message()).results]
