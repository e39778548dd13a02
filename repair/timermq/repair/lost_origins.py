"""Records that were lost in holes of the log between one that waited and what became of it.

A roll names the record that it rolled, a moved message the one whose place it takes, a delivery the
last of them. With one between them lost nothing says any more that the first is done: read again it
would roll, and arrive, once more. So what takes the place of the lost one, or a filler, names it
instead. What a roll had rolled is known by key, topic, moment and body of the delivery: the newest
record of such a message before the hole. A move has a delete right before the hole that names it;
where that is lost too, it is the newest record with the key and body of the moved message, for a
message is moved only while no other one with its key waits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import attrs

from timermq.pipeline.records.deduplication import origin_in, origin_of
from timermq.pipeline.records.timer_properties import (
    DELETE,
    DELIVER_NAME,
    ROLL_TIMES_NAME,
)
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.records.torn_move import makes_way_for
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_record import LogRecord, read_log_record
from timermq.timerstore.moved_key import first_key
from timermq.timerstore.properties import REAL_TOPIC_NAME, UNIQ_KEY_NAME, find
from timermq.timerstore.record_layout import BLANK_SIZE, PREPARED_OFFSET_AT
from timermq.timerstore.record_spans import record_body

from .damage_fill import Fill
from .log_check import LogCheck
from .log_survey import Found, LogSurvey

_TIMER = TIMER_TOPIC.encode()


@attrs.frozen
class _Message:
    """The values shared by a delivery and the records that waited for it."""

    unique_key: bytes | None
    topic: bytes
    deliver_ms: bytes | None
    """None: that of a moved message is another one."""
    body: bytes


def with_origins(fills: Sequence[Fill], log: LogCheck) -> list[Fill]:
    """The records that fill holes, with the origins that lost rolls and moved messages had.

    Args:
        fills: As planned.
        log: The walk that found the holes; nothing is filled yet.
    """
    marked = list(fills)
    for hole, origin in _lost_origins(log):
        here = [
            index
            for index, fill in enumerate(marked)
            if hole.position <= fill.position < hole.end and _may_name(fill.data)
        ]
        for index in sorted(here, key=lambda one: not _is_timer(marked[one].data))[:1]:
            data = _with_origin(marked[index].data, origin)
            marked[index] = attrs.evolve(marked[index], data=data)
    return marked


def _lost_origins(log: LogCheck) -> Iterator[tuple[Hole, int]]:
    """Holes in which a record was lost that has gone on, each with what it had come from."""
    lost: dict[_Message, list[Hole]] = {}
    gone_on = set[tuple[bytes | None, int]]()
    for found, record in _records(log) if log.holes else ():
        origin = origin_in(found.data)
        hole = None if origin is None else _hole_at(log.holes, origin)
        if hole is not None:
            gone_on.add((_key(record), hole.position))
            message = _what_was_lost(record, found)
            if message is not None:
                lost.setdefault(message, []).append(hole)
    left: dict[int, _Message] = {}  # few: what was rolled or delivered is let go
    for found, record in _records(log) if gone_on else ():
        target_py = makes_way_for(record.properties) if record.topic == _TIMER else None
        hole = None if target_py is None else _hole_at(log.holes, found.position + found.size)
        if target_py is not None and hole is not None and (_key(record), hole.position) in gone_on:
            yield hole, target_py
            left.pop(target_py, None)
        origin = origin_in(found.data)
        if origin is not None:
            left.pop(origin, None)
        waiting = _waiting(record, found)
        for message in () if waiting is None else (waiting, _moved(waiting)):
            if any(found.position < hole.position for hole in lost.get(message, ())):
                left[found.position] = message
                break
    for position, message in sorted(left.items(), key=lambda one: one[0], reverse=True):
        if lost[message]:
            yield lost[message].pop(), position


def _records(log: LogCheck) -> Iterator[tuple[Found, LogRecord]]:
    for one in LogSurvey(log.row, log.reach.known_to, log.damaged, log.queues.places):
        if isinstance(one, Found):
            yield one, read_log_record(one.data)
    log.row.close()


def _hole_at(holes: Sequence[Hole], position: int) -> Hole | None:
    index = bisect_right(holes, position, key=lambda one: one.position) - 1
    return holes[index] if index >= 0 and position < holes[index].end else None


def _waiting(record: LogRecord, found: Found) -> _Message | None:
    """The message that waits as a record of the timer topic; None of a delete, and of others."""
    topic = find(record.properties, REAL_TOPIC_NAME)
    if record.topic != _TIMER or topic is None or DELETE in record.properties:
        return None
    return _message(topic, record, found)


def _what_was_lost(record: LogRecord, found: Found) -> _Message | None:
    """The message of a record whose origin was lost; None of a delete.

    Of one that was moved there, without its moment.
    """
    if record.topic != _TIMER:
        return _message(record.topic, record, found)
    message = _waiting(record, found)
    is_moved = find(record.properties, ROLL_TIMES_NAME) is None
    return _moved(message) if is_moved and message is not None else message


def _moved(message: _Message) -> _Message:
    return attrs.evolve(message, deliver_ms=None)


def _message(topic: bytes, record: LogRecord, found: Found) -> _Message | None:
    deliver_ms = find(record.properties, DELIVER_NAME)
    if deliver_ms is None:
        return None
    return _Message(_key(record), topic, deliver_ms, record_body(found.data))


def _key(record: LogRecord) -> bytes | None:
    """The unique key that all records of a message have, moved or not."""
    unique_key = find(record.properties, UNIQ_KEY_NAME)
    return None if unique_key is None else first_key(unique_key)


def _may_name(data: bytes) -> bool:
    """Whether what fills a hole is a record that names no origin yet."""
    return len(data) > BLANK_SIZE and origin_in(data) is None


def _is_timer(data: bytes) -> bool:
    return read_log_record(data).topic == _TIMER


def _with_origin(data: bytes, origin: int) -> bytes:
    field = origin_of(origin).to_bytes(8, signed=True)
    return data[:PREPARED_OFFSET_AT] + field + data[PREPARED_OFFSET_AT + 8 :]
