"""One meaning, several forms: what each says of the same drawn records.

A record by itself, a batch as columns of numpy, a chunk as columns of Arrow, and the check's hashes
are judged here; the audit's SQL in ``tests/spark/test_sql_forms.py``.
"""

from __future__ import annotations

import attrs
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from timermq.pipeline.cancel.pending_deletes import Cancelled
from timermq.pipeline.records.cancel_mark import name_in_delete, names_of
from timermq.pipeline.records.deduplication import AlreadyDone
from timermq.pipeline.records.foreign_key import foreign_key_in, pending_key
from timermq.pipeline.records.timer_columns import read_columns
from timermq.pipeline.records.timer_properties import DELETE, DELETE_ORDER, DEQUEUE
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    decode_timer,
    deleted_name,
    timer_tail,
)
from timermq.pipeline.spark.pending_facts import Deletes, Handled, fires, named_by
from timermq.pipeline.spark.rebuild.cancelled import taken_rows
from timermq.pipeline.spark.timer_arrays import read_timers
from timermq.repair.timer_ledger import TimerLedger, bucket_of, delete_names
from timermq.timerstore.log_record import read_log_record
from timermq.timerstore.message import Message
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record import record_properties
from timermq.timerstore.record_block import RecordBlock
from unit.pipeline.spark.drawn_records import SLOT_MS, V4, V6, log_of, texts
from unit.pipeline.spark.test_timer_arrays import (
    OURS,
    ROLLED,
    START,
    as_columns,
    chunk_of,
    of_timers,
    one_by_one,
)

PRECISION_MS = 1000
SEGMENT_SIZE = 1 << 20
JAVA = b"REAL_QID\x013\x02TIMER_DELAY_MS\x01900\x02REAL_TOPIC\x01T\x02TIMER_OUT_MS\x01%d\x02"


# -- what a record asks for -----------------------------------------------------------------------


@given(
    properties=st.lists(st.one_of(texts(), st.just(OURS)), min_size=1, max_size=5),
    host=st.sampled_from((V4, V6)),
)
@example([OURS, b"UNIQ_KEY\x01u\x02" + OURS, OURS], V4)
@example([OURS, ROLLED, JAVA % SLOT_MS], V4)
@example([DELETE + b"T+u\x02" + OURS], V6)
def test_what_records_ask_for(properties: list[bytes], host: bytes) -> None:
    """Rows and Arrow say the same of every record, numpy of each batch that it reads at all."""
    records = of_timers(*properties, hosts=(host,))
    rows = one_by_one(records, PRECISION_MS)

    assert rows == as_columns(read_timers(chunk_of(records), PRECISION_MS))
    # Read again, by the way of destinations that are known by now.
    assert rows == one_by_one(records, PRECISION_MS)
    plain = read_columns(RecordBlock.of(records), PRECISION_MS)
    if plain is None:
        return
    numbers: list[int] = plain.destination_of.tolist()
    destinations = [plain.destinations[one] for one in numbers]
    assert [row[:5] for row in rows] == [
        (deliver_ms, out_ms, one.topic, one.queue_id, one.topic_hash)
        for deliver_ms, out_ms, one in zip(
            plain.deliver_ms.tolist(), plain.out_ms.tolist(), destinations, strict=True
        )
    ]


def test_the_batch_is_read() -> None:
    """Numpy reads our own records, so the comparison above is one of two sides."""
    assert read_columns(RecordBlock.of(of_timers(OURS, b"KEYS\x01a\x02" + OURS)), PRECISION_MS)


# -- what RocketMQ delivered ----------------------------------------------------------------------


@given(
    waiting=st.lists(texts(), min_size=1, max_size=4),
    handled=st.lists(
        st.tuples(texts(), st.booleans(), st.sampled_from(("T", TIMER_TOPIC))), max_size=6
    ),
)
@example([JAVA % SLOT_MS], [(JAVA % SLOT_MS, True, "T"), (ROLLED, True, TIMER_TOPIC)])
def test_what_rocketmq_handled(
    waiting: list[bytes], handled: list[tuple[bytes, bool, str]]
) -> None:
    """Its deliveries and rolls are known by the same four texts, one by one and as columns."""
    messages = [
        Message(topic, 0, b"b", (DEQUEUE + b"7\x02" if is_marked else b"") + properties)
        for properties, is_marked, topic in handled
    ]
    ends = log_of(messages, (V4,)) if messages else []
    found = [key for key in map(foreign_key_in, ends) if key is not None]
    records = of_timers(*waiting)
    done = AlreadyDone(foreign={key: [1 << 60] for key in found})

    assert [pending_key(one) in found for one in records] == Handled.of(done).hold_foreign(
        chunk_of(records)
    ).tolist()


# -- which messages are cancelled -----------------------------------------------------------------

SLOTS = st.sampled_from((SLOT_MS, SLOT_MS + 1000))
TOPICS = st.sampled_from(("T", "V"))
KEYS = st.sampled_from((b"", b"u", b"v", b"T+u"))


@attrs.frozen
class Waits:
    """The record of a pending message."""

    slot_ms: int
    topic: str
    key: bytes
    rolled_from: int | None
    """Its order, of one that was rolled."""

    def properties(self) -> bytes:
        """The properties of its record."""
        rolls = 0 if self.rolled_from is None else 1
        key = b"UNIQ_KEY\x01%b\x02" % self.key if self.key else b""
        return key + _tail(self.slot_ms, self.topic, rolls, self.rolled_from or 0)


@attrs.frozen
class Deleting:
    """The record of a pending delete."""

    slot_ms: int
    topic: str
    name: bytes
    order: int | None
    """Of the message that it names; None: it names a key."""

    def properties(self, orders: list[int]) -> bytes:
        """Of its record, when the messages before it have these orders."""
        order = b""
        if self.order is not None:
            order = b"%b%d\x02" % (DELETE_ORDER, orders[self.order % len(orders)])
        return DELETE + self.name + b"\x02" + order + _tail(self.slot_ms, self.topic, 0, 0)


def _tail(slot_ms: int, topic: str, rolls: int, order: int) -> bytes:
    return timer_tail(
        deliver_ms=slot_ms + 1,
        out_ms=slot_ms,
        topic=topic,
        queue_id=0,
        rolls=rolls,
        order_py=order,
    )


MESSAGES = st.builds(Waits, SLOTS, TOPICS, KEYS, st.one_of(st.none(), st.integers(0, 3)))
NAMES = st.sampled_from((b"u", b"v", b"T+u", b"V+u", b"T+T+u", b"T+", b"?"))
DELETES = st.builds(Deleting, SLOTS, TOPICS, NAMES, st.one_of(st.none(), st.integers(0, 5)))


def _orders(records: list[bytes]) -> list[int]:
    places = np.cumsum([0, *map(len, records)]).tolist()
    return [
        decode_timer(one, START + at, PRECISION_MS).order_py
        for one, at in zip(records, places, strict=False)
    ]


@given(messages=st.lists(MESSAGES, min_size=1, max_size=5), deletes=st.lists(DELETES, max_size=5))
@example([Waits(SLOT_MS, "T", b"u", None)], [Deleting(SLOT_MS, "T", b"T+u", 0)])
@example([Waits(SLOT_MS, "T", b"u", 2)], [Deleting(SLOT_MS, "T", b"T+u", None)])
@example([Waits(SLOT_MS, "T", b"u", None)], [Deleting(SLOT_MS + 1000, "T", b"u", None)])
def test_who_is_cancelled(messages: list[Waits], deletes: list[Deleting]) -> None:
    """A slot, the list of what waits, the tables, the check and a rebuild name the same ones."""
    waiting = of_timers(*(one.properties() for one in messages))
    orders = _orders(waiting)
    both = of_timers(
        *(one.properties() for one in messages), *(one.properties(orders) for one in deletes)
    )
    named = both[len(waiting) :]
    targets = [(one.slot_ms, record) for one, record in zip(deletes, named, strict=True)]

    # The slot: what its deletes name, against all names of a message.
    by_slot = [
        any(
            slot_ms == one.slot_ms and name_in_delete(delete) in names_of(record, order)
            for slot_ms, delete in targets
        )
        for one, record, order in zip(messages, waiting, orders, strict=True)
    ]
    assert by_slot == _by_list(messages, orders, targets)
    assert by_slot == _by_columns(both)[: len(waiting)]
    # The check does not know slots, and a rebuild looks at orders alone.
    slots = {one.slot_ms for one in messages} | {one.slot_ms for one in deletes}
    by_check = _by_check(both, messages, orders)
    if len(slots) == 1:
        assert by_slot == by_check
    assert all(one or not other for one, other in zip(by_check, by_slot, strict=True))
    rebuilt = {row.order_py for row in taken_rows(chunk_of(both))}
    assert rebuilt == {orders[one.order % len(orders)] for one in deletes if one.order is not None}


def _by_list(
    messages: list[Waits], orders: list[int], targets: list[tuple[int, bytes]]
) -> list[bool]:
    """As the list of pending messages has it."""
    hashes = [
        hash((slot_ms, deleted_name(record_properties(record)))) for slot_ms, record in targets
    ]
    cancelled = Cancelled(np.sort(np.array(hashes, np.int64)))
    return [
        cancelled.cover(one.slot_ms, order, one.topic.encode(), one.key)
        for one, order in zip(messages, orders, strict=True)
    ]


def _by_columns(records: list[bytes]) -> list[bool]:
    """As the table of pending messages has it."""
    chunk = chunk_of(records)
    timers = read_timers(chunk, PRECISION_MS)
    deletes = Deletes.of(*named_by(chunk, timers))
    left: list[bool] = (fires(chunk, timers, Handled(), deletes) | timers.is_delete).tolist()
    return [not one for one in left]


def _by_check(records: list[bytes], messages: list[Waits], orders: list[int]) -> list[bool]:
    """As the check of a store has it."""
    ledger = TimerLedger(SEGMENT_SIZE)
    at = START
    for record in records:
        ledger.note(record, read_log_record(record), at, is_timer=True)
        at += len(record)
    ledger.end()
    known: dict[int, list[int]] = {}
    found: list[bool] = []
    for one, record, order in zip(messages, records, orders, strict=False):
        names = delete_names(record_properties(record), one.topic.encode(), order)
        for name in names:
            bucket = bucket_of(name)
            if bucket not in known:
                known[bucket] = ledger.deletes.take(bucket)[:, 0].tolist()
        found.append(any(name in known[bucket_of(name)] for name in names))
        assert find(record_properties(record), UNIQ_KEY_NAME) == (one.key or None)
    ledger.close()
    return found
