"""A run of records that are written again under other topics, with fewer properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from small_store import HOST
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.copy_columns import CopyColumns, CopyColumnsWriter
from timermq.timerstore.message import Message, SysFlag
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_block import RecordBlock
from timermq.timerstore.topic_queue import TopicQueueTable

KEPT = b"UNIQ_KEY\x01k%d\x02"
DROPPED = b"REAL_TOPIC\x01T\x02"
BODIES = [b"a", b"", b"abc"]


def encoded(
    message: Message, *, queue_offset: int = 9, phy_offset: int = 9, store_ms: int = 9
) -> bytes:
    """The record of a message by the codec."""
    return encode_record(
        message,
        queue_offset=queue_offset,
        phy_offset=phy_offset,
        store_ms=store_ms,
        store_host=HOST,
    )


def waiting(number: int, **fields: Any) -> Message:  # noqa: ANN401 - passed on
    """A message of the timer topic."""
    known: dict[str, Any] = {
        "topic": "wheel",
        "flag": 7,
        "born_ms": 5,
        "born_host": HOST,
        "reconsume_times": 2,
    }
    return Message(
        queue_id=0, body=BODIES[number], properties=KEPT % number + DROPPED, **known | fields
    )


def columns(*records: bytes, topic: bytes = b"wheel", dropped: int = len(DROPPED)) -> CopyColumns:
    """Copies of records for two queues of topic T, without what they end with."""
    block = RecordBlock.of(records)
    return CopyColumns(
        topic_part=bytes([len(topic)]) + topic,
        block=block,
        ends=block.ends - dropped,
        targets=[("T", 0), ("T", 4)],
        target_of=np.arange(len(records)) % 2,
        origins=np.arange(len(records), dtype=np.int64) - 100,
    )


def writer(store_host: bytes = HOST) -> CopyColumnsWriter:
    """A writer over an empty store."""
    queues = ConsumeQueueTable(MemoryDisk(), "/store", segment_size=100, read_only=False)
    return CopyColumnsWriter(TopicQueueTable(queues), store_host)


def run(**fields: Any) -> CopyColumns:  # noqa: ANN401 - passed on
    """Three records that fit into a run, unless a field says otherwise."""
    return columns(*(encoded(waiting(number, **fields)) for number in range(3)))


def test_copies_keep_body_flags_and_birth() -> None:
    """Topic, queue, place, time and origin are their own; dropped properties are gone."""
    batch = writer().encode(run(), start=512, room=1 << 20, store_ms=77)
    assert batch is not None
    expected = b""
    for number, (queue_id, offset) in enumerate(((0, 0), (4, 0), (0, 1))):
        message = Message(
            "T",
            queue_id,
            BODIES[number],
            KEPT % number,
            7,
            0,
            5,
            HOST,
            2,
            number - 100,
        )
        expected += encoded(
            message, queue_offset=offset, phy_offset=512 + len(expected), store_ms=77
        )

    assert b"".join(one.data for one in batch.writes) == expected
    assert batch.count == 3


@pytest.mark.parametrize("flag", [SysFlag.COMPRESSED, SysFlag.MULTI_TAGS])
def test_flags_of_a_body_stay(flag: SysFlag) -> None:
    """The body is the same, and so is how it is to be read."""
    assert encode(run(sys_flag=int(flag)))


def encode(copies: CopyColumns, made: CopyColumnsWriter | None = None, room: int = 1 << 20) -> bool:
    """Whether the copies are taken as a run."""
    return (made or writer()).encode(copies, start=0, room=room, store_ms=77) is not None


@pytest.mark.parametrize(
    "copies",
    [
        run(sys_flag=int(SysFlag.TRANSACTION_PREPARED)),
        run(born_host=bytes(20)),
        run(topic="other"),
        run(topic="w" * 200),
        columns(encoded(waiting(0)), dropped=200),
        columns(b"\x00" * 88),
    ],
    ids=["transaction", "v6", "other topic", "long topic", "end before properties", "no record"],
)
def test_records_of_another_kind_are_no_run(copies: CopyColumns) -> None:
    """The caller makes messages of them, one by one."""
    assert not encode(copies)


def test_one_odd_record_makes_the_run_none() -> None:
    """Nothing of the others is written: queue offsets are where they were."""
    odd = encoded(waiting(1, sys_flag=int(SysFlag.TRANSACTION_PREPARED)))
    made = writer()

    assert not encode(columns(encoded(waiting(0)), odd), made)
    assert encode(columns(encoded(waiting(0)), encoded(waiting(1))), made)


def test_an_address_of_ipv6_or_a_full_segment_takes_no_run() -> None:
    """Heads of such records are longer; and a batch stands in one segment."""
    assert not encode(run(), writer(bytes(20)))
    assert not encode(run(), room=300)
