"""What the commit log tells about timers: what waits, what was delivered, what was taken back.

Filled while the log is walked, read by ``timer_check``. All of it goes by the position of the
waiting record, except what RocketMQ wrote: its deliveries and deletes name no position, and are
known by keys, of which a hash is kept.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import attrs

from timermq.pipeline.already_done import foreign_key_in, origin_in, pending_key
from timermq.pipeline.destination import DESTINATION_COUNT_MAX
from timermq.pipeline.system_topics import LEFT_OUT_TOPIC, QUARANTINE_TOPIC
from timermq.pipeline.timer_record import (
    DELETE,
    OUT,
    REAL_TOPIC,
    ROLL_TIMES,
    deleted_name,
    order_name,
)
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.log_record import LogRecord
from timermq.timerstore.properties import UNIQ_KEY_NAME, find

from .spool import Spool

DELIVERED, MOVED, CANCELLED, SET_ASIDE, ROLLED, LEFT_OUT = 1, 2, 3, 4, 5, 6
"""What a record does to the message that it names as its origin. What was set aside may be
delivered later, by hand: that record names the same origin. What was moved or cancelled while it
waited for a roll is rolled all the same, and its copy left out of its last slot."""

TIMER_COLUMNS = ("position", "size", "out_ms", "queue_offset", "is_delete", "topic_hash")
ORIGIN_COLUMNS = ("origin", "position", "effect")

NO_TOPIC = 1 << 40
"""No hash of a topic."""
BUCKET_COUNT = 64
"""Parts that hashes are divided into."""

_QUARANTINE = QUARANTINE_TOPIC.encode()
_LEFT_OUT = LEFT_OUT_TOPIC.encode()
_FOREIGN_MARK = b"TIMER_DEQUEUE_MS\x01"


@attrs.define(eq=False)
class TimerLedger:
    """The entries, spooled.

    Args:
        segment_size: Of the commit log.
    """

    segment_size: int
    timers: Spool = attrs.field(factory=lambda: Spool(len(TIMER_COLUMNS)), init=False)
    """Waiting records, by their position."""
    origins: Spool = attrs.field(factory=lambda: Spool(len(ORIGIN_COLUMNS)), init=False)
    """Records that name an origin, by that."""
    foreign: Spool = attrs.field(factory=lambda: Spool(1), init=False)
    """Hashes of what RocketMQ delivered or rolled, by bucket."""
    deletes: Spool = attrs.field(factory=lambda: Spool(1), init=False)
    """Hashes of what deletes name, by bucket."""

    def note(self, data: bytes, record: LogRecord, position: int, *, is_timer: bool) -> int:
        """Take a record; returns its effect on an origin, 0 if it names none."""
        is_delete = is_timer and DELETE in record.properties
        effect = 0
        origin = origin_in(data)
        if origin is not None:
            if record.topic == _QUARANTINE:
                effect = SET_ASIDE
            elif record.topic == _LEFT_OUT:
                effect = LEFT_OUT
            else:
                effect = _effect(record, is_timer=is_timer, is_delete=is_delete)
            self.origins.add(origin // self.segment_size, (origin, position, effect))
        elif _FOREIGN_MARK in record.properties:
            key = foreign_key_in(data)
            if key is not None:
                _keep(self.foreign, b"\0".join(key))
        if is_timer:
            out = find(record.properties, OUT[:-1]) or b""
            self.timers.add(
                position // self.segment_size,
                (
                    position,
                    len(data),
                    int(out) if out.isdigit() and len(out) < 19 else -1,
                    record.queue_offset,
                    int(is_delete),
                    _topic_hash(find(record.properties, REAL_TOPIC[:-1])),
                ),
            )
            if is_delete:
                _keep(self.deletes, deleted_name(record.properties) or b"")
        return effect

    def close(self) -> None:
        """Give the temporary files back."""
        for spool in (self.timers, self.origins, self.foreign, self.deletes):
            spool.close()


@lru_cache(DESTINATION_COUNT_MAX)
def _topic_hash(topic: bytes | None) -> int:
    """What a unit of a message for a topic has; `NO_TOPIC` where the record names none."""
    return NO_TOPIC if topic is None else java_hash(topic.decode("utf-8", "replace"))


def _effect(record: LogRecord, *, is_timer: bool, is_delete: bool) -> int:
    if not is_timer:
        return DELIVERED
    if find(record.properties, ROLL_TIMES[:-1]) is not None:
        return ROLLED
    return CANCELLED if is_delete else MOVED


def foreign_name(data: bytes) -> int:
    """The hash by which RocketMQ's delivery of a waiting record is known."""
    return _hash(b"\0".join(pending_key(data)))


def delete_names(properties: bytes, topic: bytes, order_py: int) -> list[int]:
    """The hashes of all names by which a delete may name a waiting record."""
    unique_key = find(properties, UNIQ_KEY_NAME) or b""
    return [_hash(one) for one in (order_name(order_py), unique_key, topic + b"+" + unique_key)]


def bucket_of(name: int) -> int:
    """The part that a hash is in."""
    return name % BUCKET_COUNT


def _keep(spool: Spool, text: bytes) -> None:
    name = _hash(text)
    spool.add(bucket_of(name), (name,))


def _hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)
