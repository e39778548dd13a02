"""Due records: what a run of them becomes as columns is what they become one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.delivered_message import due_message
from timermq.pipeline.records.timer_columns import read_columns
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    TimerRecordError,
    decode_timer,
    timer_tail,
)
from timermq.pipeline.stages.due_columns import COLUMNS_COUNT_MIN, due_columns
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
    by_level=st.booleans(),
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


fitting = records_with(tails)
batches = st.one_of(
    st.lists(fitting, min_size=1, max_size=12),
    st.lists(fitting | records_with(odd_tails), min_size=1, max_size=4),
)


@given(batches)
def test_a_batch_reads_as_its_records(records: list[bytes]) -> None:
    """A run reads as its records do; a batch that is no run is left to that."""
    block = RecordBlock.of(records)
    timers = read_columns(block, 1_000)
    if timers is None:
        return
    for row, record in enumerate(records):
        facts = decode_timer(record, 64, 1_000)
        assert facts.destination == timers.destinations[timers.destination_of[row]]
        assert (facts.deliver_ms, facts.out_ms) == (timers.deliver_ms[row], timers.out_ms[row])
        assert facts.own_end == timers.ends[row] - block.starts[row]
        assert (facts.is_delete, facts.rolls) == (False, 0)


@given(st.lists(fitting, min_size=1, max_size=12))
def test_records_of_one_form_are_read_as_a_run(records: list[bytes]) -> None:
    """Columns are made, also for a destination that was never seen."""
    timers = read_columns(RecordBlock.of(records), 1_000)
    assert timers is not None
    assert len(records) == sum(timers.by_topic().values())


@given(st.lists(batches, min_size=1, max_size=4), st.sampled_from([HOST_V4] * 4 + [HOST_V6]))
def test_copies_are_what_messages_would_have_been(
    lots: list[list[bytes]], store_host: bytes
) -> None:
    """Two stores, one filled from columns where it can be: the same bytes in logs and queues."""
    by_columns, one_by_one = _store(store_host), _store(store_host)
    for records in lots:
        batch = _batch(records)
        messages = _messages(batch)
        due = due_columns(batch, 1_000, count_min=1)
        result = None if due is None else by_columns.put_copy_columns(due.columns)
        if due is not None and result is not None:
            assert len(messages) == len(records)
            assert all(result.status.is_stored for result in one_by_one.put(messages))
            assert due.deliver_ms.tolist() == [
                decode_timer(record, 64, 1_000).deliver_ms for record in records
            ]
        elif messages:
            assert by_columns.put(messages) == one_by_one.put(messages)
        assert by_columns.commit_log.max_offset == one_by_one.commit_log.max_offset
    assert _content(by_columns) == _content(one_by_one)
    assert by_columns.statistics() == one_by_one.statistics()


def test_an_ordinary_batch_is_a_run() -> None:
    """Neither its size nor a tag nor a topic that is new breaks the run."""
    tail = timer_tail(deliver_ms=SLOT_MS + 1, out_ms=SLOT_MS, topic="Never_seen", queue_id=3)
    message = Message(TIMER_TOPIC, 0, b"x", b"UNIQ_KEY\x01U\x02TAGS\x01t\x02" + tail)
    record = encode_record(message, queue_offset=0, phy_offset=0, store_ms=1, store_host=HOST_V4)
    due = due_columns(_batch([record] * COLUMNS_COUNT_MIN), 1_000)
    assert due is not None
    store = _store(HOST_V4)
    assert store.put_copy_columns(due.columns) is None, "no segment was begun"
    store.put([Message("Other", 0, b"")])
    result = store.put_copy_columns(due.columns)
    assert result is not None
    assert result.status.is_stored
    queue = store.queue("Never_seen", 3)
    assert queue is not None
    assert queue.max_offset == COLUMNS_COUNT_MIN


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
