"""Stage 1: a batch of the timer topic read as columns is the batch of its records one by one."""

from __future__ import annotations

from typing import cast

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fakes import START_MS, ManualClock
from simulation.staged_service import HOST, ROOT
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.pipeline.stages import enqueue_get
from timermq.pipeline.stages.enqueue_get import EnqueueGet
from timermq.pipeline.stages.timer_request import EnqueueBatch
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message, SysFlag, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import StoreOptions
from unit.pipeline.recovery.crashed_store import OPTIONS

STORE = StoreOptions(mapped_file_size_commit_log=1 << 16, max_message_size=2_048)
SLOT_MS = START_MS + 5_000

tails = st.builds(
    timer_tail,
    deliver_ms=st.sampled_from([SLOT_MS + 1, SLOT_MS + 345, SLOT_MS + 1_000]),
    out_ms=st.just(SLOT_MS),
    topic=st.sampled_from(["A", "B", "%RETRY%G", "t" * 127]),
    queue_id=st.integers(0, 12),
    by_level=st.booleans(),
)
odd_tails = st.one_of(
    st.builds(
        timer_tail,
        deliver_ms=st.sampled_from([SLOT_MS, SLOT_MS + 1, SLOT_MS + 1_001]),
        out_ms=st.sampled_from([SLOT_MS, SLOT_MS + 1]),
        topic=st.sampled_from(["A", TIMER_TOPIC]),
        queue_id=st.just(0),
    ),
    st.builds(
        timer_tail,
        deliver_ms=st.just(SLOT_MS + 70_000),
        out_ms=st.just(SLOT_MS),
        topic=st.just("A"),
        queue_id=st.just(0),
        rolls=st.just(2),
        order_py=st.just(77),
    ),
    st.sampled_from(
        [b"", b"TIMER_OUT_MS\x01%d\x02" % SLOT_MS, b"REAL_TOPIC\x01A\x02REAL_QID\x010\x02"]
    ),
)
owns = st.sampled_from(
    [b"", b"UNIQ_KEY\x01U1\x02", b"UNIQ_KEY\x01U2\x02TAGS\x01a\x02", b"XTIMER_DEL\x01c\x02"]
)
odd_owns = owns | st.sampled_from(
    [b"TIMER_DEL_UNIQKEY\x01U1\x02", b"UNIQ_KEY\x01U3\x02TIMER_DEL_UNIQKEY\x01A+U1\x02"]
)


def waiting(
    own: st.SearchStrategy[bytes], tail: st.SearchStrategy[bytes]
) -> st.SearchStrategy[Message]:
    """Messages of the timer topic with these properties."""
    return st.builds(
        Message,
        st.just(TIMER_TOPIC),
        st.just(0),
        st.sampled_from([b"", b"hello", bytes(900), b"\x02REAL_TOPIC\x01x\x02"]),
        st.tuples(own, tail).map(b"".join),
        st.just(9),
        st.sampled_from([0, 1, int(SysFlag.NEED_UNWRAP)]),
        st.just(1_234),
        st.sampled_from([HOST] * 8 + [pack_host("2001:db8::1", 4711)]),
        st.just(2),
    )


batches = st.one_of(
    st.lists(waiting(owns, tails), min_size=1, max_size=12),
    st.lists(waiting(odd_owns, tails | odd_tails), min_size=1, max_size=4),
)


def next_batch(service: TimerMessageStore, columns_count_min: int) -> EnqueueBatch:
    """What stage 1 reads, as columns from so many records on."""
    get = EnqueueGet(
        store=service.store,
        state=attrs.evolve(service.state),
        options=OPTIONS,
        clock=service.clock,
        counts=service.counts,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enqueue_get, "COLUMNS_COUNT_MIN", columns_count_min)
        batch = get.next_batch()
    assert batch is not None
    return batch


def served(messages: list[Message]) -> TimerMessageStore:
    """A service whose timer topic has these messages, and that has read none of them."""
    clock = ManualClock()
    store = MessageStore.open(MemoryDisk(), ROOT, STORE, now_ms=clock.now_ms, store_host=HOST)
    service = TimerMessageStore(store, OPTIONS, clock)
    assert all(one.status.is_stored for one in store.put(messages))
    return service


def said(value: object) -> object:
    """A field of a batch as something that compares: the type and numbers of an array."""
    if isinstance(value, np.ndarray):
        array = cast("NDArray[np.generic]", value)
        return str(array.dtype), array.tolist()
    return value


@given(batches)
def test_a_batch_as_columns_is_the_batch_one_by_one(messages: list[Message]) -> None:
    """Every field of it: positions, moments, topics, marks, counts, and what is undeliverable."""
    service = served(messages)
    found, expected = next_batch(service, 1), next_batch(service, 1_000)

    for field in attrs.fields(EnqueueBatch):
        one: object = getattr(found, field.name)
        other: object = getattr(expected, field.name)
        assert said(one) == said(other), field.name


def test_records_of_one_form_are_read_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two ways that are compared above are two: no record is decoded by itself."""
    tail = timer_tail(deliver_ms=SLOT_MS + 1, out_ms=SLOT_MS, topic="A", queue_id=3)
    service = served([Message(TIMER_TOPIC, 0, b"x", b"UNIQ_KEY\x01U\x02" + tail)] * 3)

    def refuse(*_: object) -> None:
        raise AssertionError("a record was decoded by itself")

    monkeypatch.setattr(enqueue_get, "decode_present", refuse)

    assert len(next_batch(service, 1)) == 3
    with pytest.raises(AssertionError, match="by itself"):
        next_batch(service, 4)
