"""The timers of the commit log: pending messages, deliveries, cancels.

Filled while the log is walked, read by ``timer_check``. All of it goes by the position of the
waiting record, except what RocketMQ wrote: its deliveries and deletes name no position, and are
known by keys, of which a hash is kept.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import attrs
import numpy as np

from timermq.pipeline.records.deduplication import earlier_copies, order_in, origin_in
from timermq.pipeline.records.destination import DESTINATION_COUNT_MAX
from timermq.pipeline.records.foreign_key import foreign_key_in, pending_key
from timermq.pipeline.records.record_effect import Effect, effect_of
from timermq.pipeline.records.timeline import Trace, trace_in
from timermq.pipeline.records.timer_properties import (
    DELETE,
    DELETE_SECOND_NAME,
    DEQUEUE,
    OUT,
    OUT_NAME,
)
from timermq.pipeline.records.timer_record import deleted_name, message_names
from timermq.pipeline.records.torn_move import makes_way_for, takes_the_place
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.log_record import LogRecord
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import REAL_TOPIC_NAME, UNIQ_KEY_NAME, find

from .spool import Spool

TIMER_COLUMNS = ("position", "size", "out_ms", "queue_offset", "is_delete", "topic_hash")
TORN = 2
"""In the column ``is_delete``: a delete that counts as nothing, for its message is not there."""
ORIGIN_COLUMNS = ("origin", "position", "effect")

NO_TOPIC = 1 << 40
"""No hash of a topic."""
BUCKET_COUNT = 64
"""Parts that hashes are divided into."""


@attrs.frozen
class _Move:
    """A delete that makes way for a message behind it."""

    target_py: int
    row: tuple[int, ...]
    name: bytes


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
    copies: Spool = attrs.field(factory=lambda: Spool(2), init=False)
    """Of rolled copies: position of the first record of the message, by which they are kept, and
    their own."""
    foreign: Spool = attrs.field(factory=lambda: Spool(1), init=False)
    """Hashes of what RocketMQ delivered or rolled, by bucket."""
    timeline: Spool = attrs.field(factory=lambda: Spool(2), init=False)
    """Hash and position of what RocksDB timers delivered or rolled, by bucket."""
    deletes: Spool = attrs.field(factory=lambda: Spool(1), init=False)
    """Hashes of what deletes name, by bucket."""
    _move: _Move | None = attrs.field(default=None, init=False)
    """The delete of a move, until the next record of the timer topic tells if it is whole."""

    def note(
        self, data: bytes, record: LogRecord, position: int, *, is_timer: bool
    ) -> Effect | None:
        """Take a record; returns its effect on an origin, None if it names none."""
        is_delete = is_timer and DELETE in record.properties
        effect = None
        origin = origin_in(data)
        if origin is not None:
            effect = effect_of(record.topic, record.queue_id, record.properties)
            self.origins.add(origin // self.segment_size, (origin, position, effect))
            order = order_in(data) if effect is Effect.ROLLED else None
            if order is not None:
                self.copies.add(order // self.segment_size, (order, position))
        elif DEQUEUE in record.properties:
            key = foreign_key_in(data)
            if key is not None:
                _keep(self.foreign, b"\0".join(key))
        if origin is None and OUT in record.properties:
            found = trace_in(data)
            if found is not None and found[0] in (Trace.ROLL, Trace.DELIVERY):
                self.timeline.add(bucket_of(found[1]), (found[1], position))
        if is_timer:
            self._judge_move(data)
            out_ms = number_in(find(record.properties, OUT_NAME))
            row = (
                position,
                len(data),
                -1 if out_ms is None else out_ms,
                record.queue_offset,
                int(is_delete),
                _topic_hash(find(record.properties, REAL_TOPIC_NAME)),
            )
            target_py = makes_way_for(record.properties) if is_delete else None
            # A second delete takes nothing out by itself: without its first one the message waits.
            names = is_delete and find(record.properties, DELETE_SECOND_NAME) is None
            name = (deleted_name(record.properties) or b"") if names else None
            if target_py is None or name is None:
                self._add(row, name)
            else:
                self._move = _Move(target_py, row, name)
        return effect

    def note_filler(self, data: bytes, position: int) -> None:
        """Take a record that fills a hole: it may name what a lost roll had rolled."""
        origin = origin_in(data)
        if origin is not None:
            self.origins.add(origin // self.segment_size, (origin, position, Effect.ROLLED))

    def end(self) -> None:
        """The log is through: a move that nothing stands behind was torn."""
        self._judge_move(None)
        for segment in tuple(self.copies.segments()):
            earlier, behind = earlier_copies(*self.copies.take(segment).T)
            effects = np.full(len(earlier), Effect.ROLLED_ON, np.int64)
            rows = np.stack([earlier, behind, effects], axis=1)
            self.origins.extend(earlier // self.segment_size, rows)

    def _judge_move(self, behind: bytes | None) -> None:
        """Take the delete of a move by what stands behind it in the timer topic."""
        move, self._move = self._move, None
        if move is None:
            return
        if behind is not None and takes_the_place(behind, move.target_py):
            self._add(move.row, move.name)
        else:
            self._add((*move.row[:4], TORN, move.row[5]), None)

    def _add(self, row: tuple[int, ...], name: bytes | None) -> None:
        self.timers.add(row[0] // self.segment_size, row)
        if name is not None:
            _keep(self.deletes, name)

    def close(self) -> None:
        """Give the temporary files back."""
        spools = (self.timers, self.origins, self.copies, self.foreign, self.timeline, self.deletes)
        for spool in spools:
            spool.close()


@lru_cache(DESTINATION_COUNT_MAX)
def _topic_hash(topic: bytes | None) -> int:
    """The hash in a unit of a message for a topic; `NO_TOPIC` where the record names none."""
    return NO_TOPIC if topic is None else java_hash(topic.decode("utf-8", "replace"))


def foreign_name(data: bytes) -> int:
    """The hash by which RocketMQ's delivery of a waiting record is known."""
    return _hash(b"\0".join(pending_key(data)))


def delete_names(properties: bytes, topic: bytes, order_py: int) -> list[int]:
    """The hashes of all names by which a delete may name a waiting record."""
    unique_key = find(properties, UNIQ_KEY_NAME) or b""
    return [_hash(one) for one in message_names(topic, unique_key, order_py)]


def bucket_of(name: int) -> int:
    """The part that a hash is in."""
    return name % BUCKET_COUNT


def _keep(spool: Spool, text: bytes) -> None:
    name = _hash(text)
    spool.add(bucket_of(name), (name,))


def _hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)
