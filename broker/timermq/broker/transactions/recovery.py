"""Recovery: which transactions are open, read from half topic, op topic and the tail of the log.

The offsets that the group ``CID_RMQ_SYS_TRANS`` has committed say where to begin, as for a Java
broker. A half message behind them is open unless

- an op message names it;
- a later half message renews its transaction;
- a committed message names its position, or a discarded one the transaction, without an op message:
  a process ended in between. RocketMQ marks up to three seconds later, and commits such a message
  again. Here that is looked for in the log, from the newest op message of ours on, because what
  stands before that has its op messages; and from the oldest open half message on at most;
- RocketMQ has renewed it, and the key index knows of a committed message: a commit and a check had
  crossed each other.

What has no op message yet gets it with whatever is written next (`Recovered.unmarked`).

Source: Java ``TransactionalMessageServiceImpl.check``, ``fillOpRemoveMap``.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import structlog

from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.message import TRANSACTION_MASK, SysFlag
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record import (
    BORN_MS_AT,
    PHY_OFFSET_AT,
    PREPARED_OFFSET_AT,
    SYS_FLAG_AT,
    V6_EXTRA,
    decode_record,
    record_properties,
)
from timermq.timerstore.unit_scrub import put_right_around

from ..consumer_offset import ConsumerOffsetTable
from ..topic_validator import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_GROUP,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from .half_message import (
    CHECK_TIMES,
    HALF_QUEUE_ID,
    DamagedHalfError,
    HalfMessage,
    HalfMessageError,
    decode_half,
    name_in,
)
from .op_message import OP_QUEUE_ID, Ending, Mark, is_all_marked, offsets_in
from .open_transactions import OpenTransactions

READ_COUNT = 1024
"""Queue units that are read together."""

_COMMIT = int(SysFlag.TRANSACTION_COMMIT)
_TRANSACTION_MASK = int(TRANSACTION_MASK)

log = structlog.get_logger("timermq.broker.transactions")

JavaKey = tuple[str, int]
"""Unique key and born time: by which a renewal of Java's is known, and what it committed."""


@attrs.define(eq=False, kw_only=True)
class Recovered:
    """What a store's transactions are."""

    open: OpenTransactions
    op_offset: int
    """Op messages before it are of no use any more."""
    unmarked: list[Mark] = attrs.Factory(list[Mark])
    """Half messages that are done and have no op message."""


def recover(store: MessageStore, offsets: ConsumerOffsetTable) -> Recovered:
    """Find the open transactions of a store; nothing is written.

    Args:
        store: Opened and recovered.
        offsets: With those that ``CID_RMQ_SYS_TRANS`` has committed of half topic and op topic.
    """
    half_offset, op_offset = (
        offsets.query(group=TRANS_GROUP, topic=topic, queue_id=0)
        for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
    )
    halves = store.queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
    ops = store.queue(TRANS_OP_HALF_TOPIC, OP_QUEUE_ID)
    first_op = _within(ops, op_offset)
    recovered = Recovered(open=OpenTransactions(0), op_offset=first_op)
    if halves is None:
        return recovered
    first = _within(halves, half_offset)
    done, marked_to = _marked(store, ops, first_op, first, halves.max_offset)
    recovered.open.next_offset = halves.max_offset
    finder = _Finder(store, recovered)
    for offset, phy_offset, record in _places(store, halves, first):
        is_done = bool(done[offset - first])
        if record is not None:
            finder.take(offset, phy_offset, record, is_done=is_done)
        elif not is_done:
            finder.take_damaged(offset, phy_offset)
    if recovered.open:
        finder.find_unmarked(marked_to)
        finder.find_crossed()
    if finder.odd_count:
        log.warning("not half messages", count=finder.odd_count, first=finder.first_odd)
    if recovered.open or recovered.unmarked:
        log.info(
            "transactions recovered",
            open=len(recovered.open),
            unmarked=len(recovered.unmarked),
            half_offset=first,
            op_offset=first_op,
        )
    return recovered


def read_half(store: MessageStore, queue_offset: int) -> HalfMessage:
    """The half message of a queue offset; a queue that has rotted since the start is put right.

    Raises:
        DamagedHalfError: It is gone, or not as it was written.
        HalfMessageError: It is no half message.
        StoreFailedError: The disk did not take what was put right.
    """
    try:
        return _half_at(store, queue_offset)
    except DamagedHalfError:
        queue = store.queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
        try:
            if queue is None or not put_right_around(store.files, queue, queue_offset):
                raise
        except OSError as error:
            store.fail(error)
        return _half_at(store, queue_offset)


def _half_at(store: MessageStore, queue_offset: int) -> HalfMessage:
    """The half message that a unit of the queue leads to."""
    place = half_place(store, queue_offset)
    data = None if place is None else store.commit_log.record_at(*place)
    if place is None or data is None:
        at = "" if place is None else f" at {place[0]}"
        text = f"half message {queue_offset}{at}: expected a record as it was written, found none"
        raise DamagedHalfError(text)
    half = decode_half(data)
    if (half.phy_offset, half.queue_offset) != (place[0], queue_offset):
        text = f"half message {queue_offset} at {place[0]}: it states another place"
        raise DamagedHalfError(text)
    return half


def half_place(store: MessageStore, queue_offset: int) -> tuple[int, int] | None:
    """Position and size of a record of the half topic; None where the queue has none."""
    queue = store.queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
    units = None if queue is None else queue.units(queue_offset, 1)
    if units is None or not len(units):
        return None
    return int(units[0]["phy_offset"]), int(units[0]["size"])


def _within(queue: ConsumeQueue | None, offset: int | None) -> int:
    """A committed offset, within what the queue holds; its beginning where none is."""
    if queue is None:
        return 0
    return (
        queue.min_offset if offset is None else min(max(offset, queue.min_offset), queue.max_offset)
    )


def _records(store: MessageStore, queue: ConsumeQueue, first: int) -> Iterator[tuple[int, bytes]]:
    """Queue offsets and records of a queue; those that the log has lost are left out.

    So are damaged ones: a mark says nothing then, and the producer is asked again.
    """
    for offset, phy_offset, record in _places(store, queue, first):
        if record is not None:
            yield offset, record
            continue
        log.error(
            "damaged record of a transaction passed over",
            topic=queue.topic,
            queue_offset=offset,
            phy_offset=phy_offset,
        )


def _places(
    store: MessageStore, queue: ConsumeQueue, first: int
) -> Iterator[tuple[int, int, bytes | None]]:
    """Queue offset, position and record of what a queue holds; no record where it is damaged."""
    while len(units := queue.units(first, READ_COUNT)):
        places = list(zip(units["phy_offset"].tolist(), units["size"].tolist(), strict=True))
        store.commit_log.will_need(places)
        positions, sizes = units["phy_offset"].astype(np.int64), units["size"].astype(np.int64)
        damaged = frozenset(store.commit_log.old.are_damaged(positions, sizes))
        for index, record in enumerate(store.commit_log.records_at(places)):
            if index in damaged:
                yield first + index, places[index][0], None
            elif record is not None:
                yield first + index, places[index][0], record
        first += len(units)


def _marked(
    store: MessageStore, ops: ConsumeQueue | None, first_op: int, first: int, end: int
) -> tuple[bytearray, int]:
    """Which half messages of ``[first, end)`` are marked; where the newest op of ours ends."""
    done, marked_to = bytearray(end - first), 0
    if ops is None:
        return done, marked_to
    for _, record in _records(store, ops, first_op):
        for offset in offsets_in(record):
            if first <= offset < end:
                done[offset - first] = True
        if is_all_marked(record):
            marked_to = _number_at(record, PHY_OFFSET_AT) + len(record)
    return done, marked_to


class _Finder:
    """Takes the half messages that nothing marks, one after the other.

    Args:
        store: The store.
        recovered: Filled here.
    """

    def __init__(self, store: MessageStore, recovered: Recovered) -> None:
        self._store = store
        self._open = recovered.open
        self._unmarked = recovered.unmarked
        self._names: dict[int, int] = {}
        """Position of a half message to the name of its transaction."""
        self._keys: dict[int, str] = {}
        """Name of an open transaction to its unique key, where its record can be read."""
        self._renewals: dict[int, tuple[str, JavaKey]] = {}
        """Name to real topic and key of an open transaction that RocketMQ has renewed last."""
        self.odd_count = 0
        """Records that are no half messages."""
        self.first_odd = ""
        """Why the first of them is none."""
        self._javas: dict[JavaKey, int] = {}
        """Transactions whose name a renewal of Java's does not tell."""

    def take(self, offset: int, phy_offset: int, record: bytes, *, is_done: bool) -> None:
        """One half message, newer than all before."""
        if is_done and CHECK_TIMES not in record:
            return
        try:
            half = decode_half(record)
        except DamagedHalfError:
            if not is_done:
                self.take_damaged(offset, phy_offset)
            return
        except HalfMessageError as error:
            self.odd_count += 1
            self.first_odd = self.first_odd or str(error)
            return
        key = (half.unique_key, half.record.born_ms)
        if not half.states_name:
            older = self._javas.get(key) if half.is_renewal else None
            if older is not None:
                self._pass_over(older)
            if not is_done:
                self._javas[key] = half.name
        if is_done:
            return
        self._pass_over(half.name)
        self._open.put(half.name, offset)
        self._names[half.phy_offset] = half.name
        self._keys[half.name] = half.unique_key
        self._renewals.pop(half.name, None)
        if half.is_javas_renewal:
            self._renewals[half.name] = half.topic, key

    def take_damaged(self, offset: int, phy_offset: int) -> None:
        """A half message that nothing marks and that cannot be read.

        It is open by the name of its own place, until it is set aside. So the log keeps it, and an
        ending that names the place finds it.
        """
        log.error("damaged half message", queue_offset=offset, phy_offset=phy_offset)
        self._open.put(phy_offset, offset)
        self._names[phy_offset] = phy_offset

    def find_unmarked(self, marked_to: int) -> None:
        """End what the log shows as committed or discarded; its op message was not written."""
        store, first = self._store, min(self._names)
        begin = marked_to if marked_to > first else first
        for _, record in LogReading(store.commit_log, begin, purpose="ends of transactions"):
            if record[SYS_FLAG_AT + 3] & _TRANSACTION_MASK == _COMMIT:
                name = self._committed(record)
                if name is not None:
                    self._end(Ending.COMMIT, name)
        queue = store.queue(TRANS_CHECK_MAX_TIME_TOPIC, 0)
        if queue is not None:
            at = queue.find_phy_offset(begin, queue.min_offset, queue.max_offset)
            for _, record in _records(store, queue, at):
                name = name_in(record_properties(record))
                if name is not None:
                    self._end(Ending.DISCARD, name)

    def find_crossed(self) -> None:
        """End what RocketMQ committed by an older half message than the one that is open."""
        for name, (real_topic, (unique_key, born_ms)) in self._renewals.items():
            records = [
                decode_record(data)
                for topic in (real_topic, TIMER_TOPIC)
                for data in self._store.query(topic, unique_key, count_max=8, unique=True)
            ]
            if any(
                record.sys_flag & _TRANSACTION_MASK == _COMMIT and record.born_ms == born_ms
                for record in records
            ):
                self._end(Ending.COMMIT, name)

    def _committed(self, record: bytes) -> int | None:
        """The open transaction that a committed message is of."""
        half_py = _prepared_offset(record)
        if half_py < 0:
            return None
        found = find(record_properties(record), UNIQ_KEY_NAME) or b""
        unique_key = found.decode("utf-8", "replace")
        # The key is compared too: a message that is tried again has kept the flag, and names 0.
        name = self._names.get(half_py, -1)
        is_its_key = self._keys.get(name, unique_key) == unique_key
        if is_its_key and self._open.offset_of(name) is not None:
            return name
        return self._javas.get((unique_key, _number_at(record, BORN_MS_AT)))

    def _pass_over(self, name: int) -> None:
        """A newer half message stands in the place of this one."""
        offset = self._open.offset_of(name)
        if offset is not None:
            self._unmarked.append(Mark(ending=Ending.RENEWED, offsets=(offset,)))
            self._open.end(name)

    def _end(self, ending: Ending, name: int) -> None:
        """The transaction has ended."""
        offset = self._open.offset_of(name)
        if offset is not None:
            unique_key = self._keys.get(name, "")
            mark = Mark(ending=ending, offsets=(offset,), name=name, unique_key=unique_key)
            self._unmarked.append(mark)
            self._open.end(name)


def _prepared_offset(head: bytes) -> int:
    """The field of a record's head; negative in what the timer service delivers or rolls."""
    flags = head[SYS_FLAG_AT + 3]
    at = PREPARED_OFFSET_AT + V6_EXTRA * (bool(flags & 0x10) + bool(flags & 0x20))
    return _number_at(head, at)


def _number_at(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], signed=True)
