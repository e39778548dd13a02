"""Batches of due records: the short way to their topics gives what the long way gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.delivered_message import due_message
from timermq.pipeline.records.plain_records import read_plain
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    TimerRecordError,
    decode_timer,
    timer_tail,
)
from timermq.pipeline.stages.due_copies import COPIES_COUNT_MIN, due_copies
from timermq.pipeline.stages.timer_request import REQUEST, DeliverBatch
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_ROLL
from timermq.timerstore.message import Message, SysFlag, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_block import RecordBlock
from timermq.timerstore.store_options import StoreOptions

NOW_MS = 1_700_000_000_000
SLOT_MS = NOW_MS - 1_000
HOST_V4 = pack_host("10.1.2.3", 4711)
HOST_V6 = pack_host("2001:db8::1", 4711)
OPTIONS = StoreOptions(mapped_file_size_commit_log=16_384, max_message_size=1_024)

tails = st.builds(
    timer_tail,
    deliver_ms=st.sampled_from([SLOT_MS + 1, SLOT_MS + 1_000, SLOT_MS + 345]),
    out_ms=st.just(SLOT_MS),
    topic=st.sampled_from(["A", "B", "%RETRY%G", "t" * 127]),
    queue_id=st.integers(0, 2),
)
odd_tails = st.one_of(
    st.builds(timer_tail, deliver_ms=st.just(SLOT_MS + 1_001), out_ms=st.just(SLOT_MS),
              topic=st.just("A"), queue_id=st.just(0)),
    st.builds(timer_tail, deliver_ms=st.just(SLOT_MS), out_ms=st.just(SLOT_MS),
              topic=st.just("A"), queue_id=st.just(0)),
    st.builds(timer_tail, deliver_ms=st.just(SLOT_MS + 1), out_ms=st.just(SLOT_MS),
              topic=st.just(TIMER_TOPIC), queue_id=st.just(0)),
    st.builds(timer_tail, deliver_ms=st.just(SLOT_MS + 1), out_ms=st.just(SLOT_MS),
              topic=st.just("A"), queue_id=st.just(0), rolls=st.just(2), order_py=st.just(77)),
    st.sampled_from([
        b"", b"TIMER_OUT_MS\x01%d\x02" % SLOT_MS,
        b"REAL_TOPIC\x01A\x02REAL_QID\x010\x02TIMER_OUT_MS\x01%d\x02" % SLOT_MS,
        b"TIMER_DELIVER_MS\x01%d\x02REAL_TOPIC\x01A\x02REAL_QID\x0100\x02TIMER_OUT_MS\x01%d\x02"
        % (SLOT_MS + 1, SLOT_MS),
        b"TIMER_DELIVER_MS\x01+%012d\x02REAL_TOPIC\x01A\x02REAL_QID\x010\x02TIMER_OUT_MS\x01%d\x02"
        % (SLOT_MS, SLOT_MS),
    ]),
)  # fmt: skip
own_properties = st.sampled_from(
    [b"", b"UNIQ_KEY\x01U1\x02", b"UNIQ_KEY\x01U2\x02TAGS\x01a\x02", b"TAGS\x01b\x02XTAGS\x01c\x02"]
)


def _record(
    own: bytes, end: bytes, body: bytes, sys_flag: int, born_host: bytes, store_host: bytes
) -> bytes:
    return encode_record(
        Message(TIMER_TOPIC, 0, body, own + end, 9, sys_flag, 1_234, born_host, 2),
        queue_offset=7,
        phy_offset=64,
        store_ms=SLOT_MS - 20_000,
        store_host=store_host,
    )


def records_with(tail: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Records of the timer topic that end like this."""
    return st.builds(
        _record,
        own_properties,
        tail,
        st.sampled_from([b"", b"hello", bytes(900), b"\x02REAL_TOPIC\x01x\x02"]),
        st.sampled_from([0, 1, 2, int(SysFlag.TRANSACTION_PREPARED), int(SysFlag.NEED_UNWRAP)]),
        st.sampled_from([HOST_V4] * 8 + [HOST_V6]),
        st.sampled_from([HOST_V4] * 8 + [HOST_V6]),
    )


usual = records_with(tails)
batches = st.one_of(
    st.lists(usual, min_size=1, max_size=12),
    st.lists(usual | records_with(odd_tails), min_size=1, max_size=4),
)


@given(batches)
def test_a_batch_reads_as_its_records(records: list[bytes]) -> None:
    """What is read together is what reading each gives; whatever is unusual is left to that."""
    block = RecordBlock.of(records)
    plain = read_plain(block, 1_000)
    if plain is None:
        return
    for row, record in enumerate(records):
        facts = decode_timer(record, 64, 1_000)
        assert facts.destination == plain.destinations[plain.destination_of[row]]
        assert (facts.deliver_ms, facts.out_ms) == (plain.deliver_ms[row], plain.out_ms[row])
        assert facts.own_end == plain.ends[row] - block.starts[row]
        assert (facts.is_delete, facts.rolls) == (False, 0)


@given(st.lists(usual, min_size=1, max_size=12))
def test_usual_records_are_read_together(records: list[bytes]) -> None:
    """The short way is taken, also for a destination that was never seen."""
    plain = read_plain(RecordBlock.of(records), 1_000)
    assert plain is not None
    assert len(records) == sum(plain.by_topic().values())


@given(st.lists(batches, min_size=1, max_size=4), st.sampled_from([HOST_V4] * 4 + [HOST_V6]))
def test_copies_are_what_messages_would_have_been(
    lots: list[list[bytes]], store_host: bytes
) -> None:
    """Two stores, one filled by copies where it can be: the same logs and queues, byte for byte."""
    short, long = _store(store_host), _store(store_host)
    for records in lots:
        batch = _batch(records)
        messages = _messages(batch)
        due = due_copies(batch, 1_000, count_min=1)
        result = None if due is None else short.put_copies(due.copies)
        if due is not None and result is not None:
            assert len(messages) == len(records)
            assert all(result.status.is_stored for result in long.put(messages))
            assert due.deliver_ms.tolist() == [
                decode_timer(record, 64, 1_000).deliver_ms for record in records
            ]
        elif messages:
            assert short.put(messages) == long.put(messages)
        assert short.commit_log.max_offset == long.commit_log.max_offset
    assert _content(short) == _content(long)
    assert short.statistics() == long.statistics()


def test_an_ordinary_batch_takes_the_short_way() -> None:
    """Neither its size nor a tag nor a topic that is new is unusual."""
    tail = timer_tail(deliver_ms=SLOT_MS + 1, out_ms=SLOT_MS, topic="Never_seen", queue_id=3)
    message = Message(TIMER_TOPIC, 0, b"x", b"UNIQ_KEY\x01U\x02TAGS\x01t\x02" + tail)
    record = encode_record(message, queue_offset=0, phy_offset=0, store_ms=1, store_host=HOST_V4)
    due = due_copies(_batch([record] * COPIES_COUNT_MIN), 1_000)
    assert due is not None
    store = _store(HOST_V4)
    assert store.put_copies(due.copies) is None, "no segment was begun"
    store.put([Message("Other", 0, b"")])
    result = store.put_copies(due.copies)
    assert result is not None
    assert result.status.is_stored
    queue = store.queue("Never_seen", 3)
    assert queue is not None
    assert queue.max_offset == COPIES_COUNT_MIN


def _store(store_host: bytes) -> MessageStore:
    return MessageStore.open(
        MemoryDisk(), "store", OPTIONS, now_ms=lambda: NOW_MS, store_host=store_host
    )


def _batch(records: list[bytes]) -> DeliverBatch:
    requests = np.zeros(len(records), REQUEST)
    requests["offset_py"] = np.arange(len(records)) * 512
    requests["magic"] = [
        MAGIC_ROLL if b"TIMER_ROLL_TIMES" in record and len(record) % 2 else 0 for record in records
    ]
    return DeliverBatch(requests=requests, block=RecordBlock.of(records))


def _messages(batch: DeliverBatch) -> list[Message]:
    messages: list[Message] = []
    for row, record in enumerate(batch.block.records()):
        offset_py, magic = int(batch.requests["offset_py"][row]), int(batch.requests["magic"][row])
        try:
            due = due_message(
                record,
                offset_py,
                is_roll=bool(magic & MAGIC_ROLL),
                origin=origin_of(offset_py),
                precision_ms=1_000,
            )
        except TimerRecordError:
            continue
        messages.append(due.message)
    return messages


def _content(store: MessageStore) -> tuple[bytes, dict[tuple[str, int], bytes]]:
    log = store.commit_log
    data = b"".join(log.read(segment.start, segment.size) for segment in log.segments)
    queues = {
        (queue.topic, queue.queue_id): queue.units(0, 1_000).tobytes() for queue in store.queues()
    }
    return data, queues
