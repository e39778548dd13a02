"""Rolls that were lost in holes of the log, though what they were delivered as still stands.

A roll names the record that it rolled, a delivery the last roll. With the roll between them nothing
says any more that the first one is done: read again it would roll, and arrive, once more. So the
record that takes the place of the roll, or a filler, names it instead. It is known by key, topic,
moment and body of the delivery: the newest record of such a message before the hole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import attrs

from timermq.pipeline.already_done import origin_in, origin_of
from timermq.pipeline.timer_record import DELETE, DELIVER, REAL_TOPIC, TIMER_TOPIC
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_record import read_log_record
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record_layout import BLANK_SIZE, PREPARED_OFFSET_AT
from timermq.timerstore.record_spans import record_body

from .hole_fill import Fill
from .log_check import LogCheck
from .log_survey import Found, LogSurvey

_TIMER = TIMER_TOPIC.encode()


@attrs.frozen
class _Message:
    """What a delivery and the records that waited for it have in common."""

    unique_key: bytes | None
    topic: bytes
    deliver_ms: bytes
    body: bytes


def with_origins(fills: Sequence[Fill], log: LogCheck) -> list[Fill]:
    """What fills holes, with the origins that lost rolls had.

    Args:
        fills: As planned.
        log: The walk that found the holes; nothing is filled yet.
    """
    marked = list(fills)
    for hole, origin in _lost_rolls(log):
        here = [
            index
            for index, fill in enumerate(marked)
            if hole.position <= fill.position < hole.end and _may_name(fill.data)
        ]
        for index in sorted(here, key=lambda one: not _is_timer(marked[one].data))[:1]:
            data = _with_origin(marked[index].data, origin)
            marked[index] = attrs.evolve(marked[index], data=data)
    return marked


def _lost_rolls(log: LogCheck) -> Iterator[tuple[Hole, int]]:
    """Holes in which a roll was lost, each with the record that it had rolled."""
    lost: dict[_Message, list[Hole]] = {}
    for found in _records(log) if log.holes else ():
        origin = origin_in(found.data)
        hole = None if origin is None else _hole_at(log.holes, origin)
        message = None if hole is None else _delivered(found.data)
        if hole is not None and message is not None:
            lost.setdefault(message, []).append(hole)
    left: dict[int, _Message] = {}  # few: what was rolled or delivered is let go
    for found in _records(log) if lost else ():
        origin = origin_in(found.data)
        if origin is not None:
            left.pop(origin, None)
        message = _waiting(found.data)
        holes = () if message is None else lost.get(message, ())
        if message is not None and any(found.position < hole.position for hole in holes):
            left[found.position] = message
    for position, message in sorted(left.items(), key=lambda one: one[0], reverse=True):
        if lost[message]:
            yield lost[message].pop(), position


def _records(log: LogCheck) -> Iterator[Found]:
    for one in LogSurvey(log.row, log.reach.known_to, log.damaged):
        if isinstance(one, Found):
            yield one
    log.row.close()


def _hole_at(holes: Sequence[Hole], position: int) -> Hole | None:
    index = bisect_right(holes, position, key=lambda one: one.position) - 1
    return holes[index] if index >= 0 and position < holes[index].end else None


def _delivered(data: bytes) -> _Message | None:
    """The message that a record delivers; None if it is none."""
    record = read_log_record(data)
    return None if record.topic == _TIMER else _message(record.topic, record.properties, data)


def _waiting(data: bytes) -> _Message | None:
    """The message that waits as a record of the timer topic; None of a delete, and of others."""
    record = read_log_record(data)
    topic = find(record.properties, REAL_TOPIC[:-1])
    if record.topic != _TIMER or topic is None or DELETE in record.properties:
        return None
    return _message(topic, record.properties, data)


def _message(topic: bytes, properties: bytes, data: bytes) -> _Message | None:
    deliver_ms = find(properties, DELIVER[:-1])
    if deliver_ms is None:
        return None
    return _Message(find(properties, UNIQ_KEY_NAME), topic, deliver_ms, record_body(data))


def _may_name(data: bytes) -> bool:
    """Whether what fills a hole is a record that names no origin yet."""
    return len(data) > BLANK_SIZE and origin_in(data) is None


def _is_timer(data: bytes) -> bool:
    return read_log_record(data).topic == _TIMER


def _with_origin(data: bytes, origin: int) -> bytes:
    field = origin_of(origin).to_bytes(8, signed=True)
    return data[:PREPARED_OFFSET_AT] + field + data[PREPARED_OFFSET_AT + 8 :]
