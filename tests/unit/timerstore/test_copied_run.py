"""Runs of copied records: the same queues as one by one, and none where anything is odd."""

from __future__ import annotations

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from small_store import message, open_store, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.copied_run import CopiedRun
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.log_copy import CopyError
from timermq.timerstore.message import Message, SysFlag
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.plain_run import COUNT_MIN
from timermq.timerstore.store_options import StoreOptions

OPTIONS = small_options(
    mapped_file_size_commit_log=32_768,
    mapped_file_size_consume_queue=2_000,
    max_message_size=4_096,
    max_hash_slot_num=100,
    max_index_num=1_000,
)
ROOM = OPTIONS.mapped_file_size_commit_log


def plain(count: int) -> list[Message]:
    """Messages of three topics, of which every second one has tags."""
    return [
        message(
            "b" * (number % 50),
            f"T{number % 3}",
            number % 2,
            b"UNIQ_KEY\x01k%d\x02" % number
            + (b"TAGS\x01t%d\x02" % number if number % 2 else b"K\x01v\x02"),
        )
        for number in range(count)
    ]


ODD = (
    message(topic="half", sys_flag=SysFlag.TRANSACTION_PREPARED),
    message(topic=SCHEDULE_TOPIC, queue_id=2, properties=b"DELAY\x013\x02"),
    message(topic="%RETRY%" + "x" * 200),
    message(born_host=bytes(15) + b"\x01" + bytes(4), sys_flag=SysFlag.BORN_HOST_V6),
)


def stored(messages: list[Message], options: StoreOptions = OPTIONS) -> MessageStore:
    """A store of these messages."""
    store = open_store(MemoryDisk(), options=options)
    for one in messages:
        (result,) = store.put([one])
        assert result.status.is_stored, result.remark
    return store


def log_bytes(store: MessageStore) -> bytes:
    """The whole log of a store."""
    log = store.commit_log
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    return data[: log.max_offset]


def copied(data: bytes, piece: int) -> MessageStore:
    """A store to which bytes are copied, in pieces of a size at most."""
    store = open_store(MemoryDisk(), options=OPTIONS)
    store.park("copy")

    async def copy() -> None:
        at = 0
        while at < len(data):
            end = min(at + piece, len(data), at - at % ROOM + ROOM)
            await store.log_copy.append(at, data[at:end])
            at = end

    trio.run(copy)
    return store


def queues(store: MessageStore) -> dict[tuple[str, int], list[object]]:
    """The units of each queue."""
    return {
        (one.topic, one.queue_id): [
            one.units(offset, 1).tolist() for offset in range(one.min_offset, one.max_offset)
        ]
        for one in store.queues()
        if not one.is_empty
    }


def keys(store: MessageStore) -> list[int]:
    """How many records the key of each message finds, once all are indexed."""
    assert store.index is not None
    store.index.catch_up()
    return [
        len(
            store.index.query(
                f"T{number % 3}", f"k{number}", count_max=9, begin_ms=0, end_ms=1 << 62, unique=True
            )
        )
        for number in range(0, 500, 7)
    ]


@settings(max_examples=15, deadline=None)
@given(
    odd=st.lists(st.tuples(st.integers(0, 500), st.sampled_from(ODD)), max_size=4),
    piece=st.sampled_from([700, 9_000, ROOM]),
)
def test_queues_are_those_of_the_source(odd: list[tuple[int, Message]], piece: int) -> None:
    """Through segments, with records in between that fit into no run."""
    messages = plain(500)
    for at, one in odd:
        messages.insert(at, one)
    source = stored(messages)
    store = copied(log_bytes(source), piece)

    assert log_bytes(store) == log_bytes(source)
    assert queues(store) == queues(source)
    assert store.log_copy.copied == len(messages)
    assert store.last_store_ms == source.last_store_ms
    assert keys(store) == keys(source)


def test_messages_with_levels_make_runs() -> None:
    """Their units tell when they are due; the index is told what the copy has read."""
    levels = [
        message(topic=SCHEDULE_TOPIC, queue_id=2, properties=b"DELAY\x01%d\x02" % one)
        for one in range(60)
    ]
    source = stored(levels)
    run = CopiedRun.of(log_bytes(source), 0, 0, ROOM)
    assert run is not None
    assert len(run) == len(levels)
    assert queues(copied(log_bytes(source), ROOM)) == queues(source)


DATA = log_bytes(stored(plain(100)))


def changed(at: int, byte: int) -> bytes:
    """The log with another byte."""
    return DATA[:at] + bytes([byte]) + DATA[at + 1 :]


def test_a_run_ends_with_what_has_come() -> None:
    """A record that is not whole, and one behind the segment, belong to none."""
    run = CopiedRun.of(DATA, 0, 0, ROOM)
    assert run is not None
    assert (len(run), run.size, int(run.ends[-1])) == (100, len(DATA), len(DATA))
    cut = CopiedRun.of(DATA[:-1], 0, 0, ROOM)
    assert cut is not None
    assert len(cut) == 99
    assert CopiedRun.of(DATA, 0, 0, len(DATA) - 1) is not None
    few = int(run.ends[COUNT_MIN - 2])
    assert CopiedRun.of(DATA[:few], 0, 0, ROOM) is None


@pytest.mark.parametrize(
    ("at", "byte"),
    [(35, 1), (39, 4), (39, 16), (20, 255), (84, 255), (87, 77), (11, 7)],
    ids=["position", "transaction", "host", "queue offset", "body size", "other size", "checksum"],
)
def test_what_is_odd_makes_no_run(at: int, byte: int) -> None:
    """In the first record, or in one in the middle: a run ends before it."""
    run = CopiedRun.of(DATA, 0, 0, ROOM)
    assert run is not None
    assert CopiedRun.of(changed(at, byte), 0, 0, ROOM) is None
    assert CopiedRun.of(changed(int(run.ends[COUNT_MIN - 2]) + at, byte), 0, 0, ROOM) is None
    cut = CopiedRun.of(changed(int(run.ends[49]) + at, byte), 0, 0, ROOM)
    assert cut is not None
    assert (len(cut), cut.size) == (50, int(run.ends[49]))


def test_damage_in_a_run_is_found_where_it_is() -> None:
    """What stands before it is copied."""
    run = CopiedRun.of(DATA, 0, 0, ROOM)
    assert run is not None
    at = int(run.ends[49])
    store = open_store(MemoryDisk(), options=attrs.evolve(OPTIONS))
    store.park("copy")
    with pytest.raises(CopyError, match=f"record at {at}: "):
        trio.run(store.log_copy.append, 0, changed(at + 35, 1))
    assert store.commit_log.max_offset == at
    assert store.log_copy.copied == 50
