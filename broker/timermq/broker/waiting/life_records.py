"""Reading the records of one message: each is a step of its life.

All have its unique key, in one of a few topics: that of the wheel, of the quarantine, of classic
levels and transactions, and the topics that these name as its destination.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import attrs

from timermq.pipeline.already_done import origin_in
from timermq.pipeline.delay_level import DelayLevels
from timermq.pipeline.key_records import KeyRecords
from timermq.pipeline.quarantine import Quarantine
from timermq.pipeline.quarantine_record import State
from timermq.pipeline.system_topics import QUARANTINE_TOPIC
from timermq.pipeline.timer_options import TimerOptions
from timermq.pipeline.timer_record import (
    DELETE_FOR,
    DELETE_ORDER,
    TIMER_TOPIC,
    TimerFacts,
    TimerRecordError,
    decode_timer,
    deleted_name,
    is_position,
)
from timermq.pipeline.waiting_messages import asked_for
from timermq.timerstore.properties import find
from timermq.timerstore.record import Record, decode_record

from ..topic_validator import (
    DLQ_GROUP_TOPIC_PREFIX,
    RETRY_GROUP_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from ..transactions.half_message import HalfMessageError, decode_half
from .life_step import (
    LifeStep,
    Step,
    arrival_step,
    at,
    ending_step,
    half_step,
    level_step,
    quarantine_step,
)

STEPS_MAX = 512
"""Records of one topic that are told, the newest: as many as a message has that rolls for years."""

Records = list[tuple[bytes, Record]]
"""Records in the order of the log, each with what it decodes to."""


@attrs.define(eq=False, kw_only=True)
class LifeRecords:
    """The records of one message, read once for one request; plain code."""

    records: KeyRecords
    """Of a store with an index; says how much may be looked at."""
    unique_key: str
    quarantine: Quarantine
    options: TimerOptions
    is_whole: bool = attrs.field(default=True, init=False)
    """False once the oldest records of a topic were left out."""
    halves: set[int] = attrs.field(factory=set[int], init=False)
    """Names of the transactions that it was sent in."""
    recalled: set[bytes | tuple[int, bytes]] = attrs.field(
        factory=set[bytes | tuple[int, bytes]], init=False
    )
    """What deletes of RocketMQ's name (``names_of``): their slots take it out, where it waits."""
    _moments: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    """What records of the timer topic wait for, by their positions."""

    def steps(self, topic: str | None) -> Iterator[LifeStep]:
        """All steps, topic by topic.

        Args:
            topic: Looked at beside those that the records name.

        Raises:
            CancelError: Too many records have the key.
        """
        found = [*self._on_the_way()]
        topics = {one.topic for one in found if one.topic} | ({topic} if topic else set[str]())
        groups = {
            name.removeprefix(RETRY_GROUP_TOPIC_PREFIX)
            for name in topics
            if name.startswith(RETRY_GROUP_TOPIC_PREFIX)
        }
        yield from found
        for name in sorted(topics | {DLQ_GROUP_TOPIC_PREFIX + group for group in groups}):
            for data, record in self._read(name):
                yield arrival_step(data, record, self._moments)

    def _on_the_way(self) -> Iterator[LifeStep]:
        """What happened before it reached a topic."""
        yield from self._timer_steps(self._read(TIMER_TOPIC))
        levels = DelayLevels.parse(self.options.message_delay_level)
        yield from (level_step(record, levels) for _, record in self._read(SCHEDULE_TOPIC))
        yield from self._quarantine_steps(self._read(QUARANTINE_TOPIC))
        yield from self._transaction_steps(self._read(TRANS_HALF_TOPIC))

    def _read(self, topic: str) -> Records:
        """The records of a topic with the key, in the order of the log."""
        newest = self.records.newest_first(topic, self.unique_key, is_unique_key=True)
        found = [data for _, data in islice(newest, STEPS_MAX + 1)]
        self.is_whole &= len(found) <= STEPS_MAX
        return [(data, decode_record(data)) for data in reversed(found[:STEPS_MAX])]

    def _timer_steps(self, records: Records) -> Iterator[LifeStep]:
        facts: list[tuple[bytes, Record, TimerFacts]] = []
        for data, record in records:
            try:
                decoded = decode_timer(data, record.phy_offset, self.options.timer_precision_ms)
            except TimerRecordError as error:
                topic = asked_for(data) or ""
                yield attrs.evolve(at(Step.STORED, record, topic), text=str(error))
                continue
            facts.append((data, record, decoded))
            if not decoded.is_delete:
                self._moments[record.phy_offset] = decoded.deliver_ms
        made_way = {
            _made_way_for(record) for _, record, one in facts if one.is_delete and not one.rolls
        }
        followed = {origin_in(data) for data, _, one in facts if not (one.is_delete or one.rolls)}
        for data, record, one in facts:
            topic = one.destination.topic
            if not one.is_delete:
                step, text = self._put(data, one, made_way)
                yield attrs.evolve(
                    at(step, record, topic),
                    queue_id=one.destination.queue_id,
                    deliver_ms=one.deliver_ms,
                    text=text,
                )
                continue
            taken = _taken_back(record, followed)
            if taken is Step.RECALLED:
                self.recalled.add((one.out_ms, deleted_name(record.properties) or b""))
            if taken is not None and not one.rolls:
                yield at(taken, record, topic)

    def _put(self, data: bytes, facts: TimerFacts, made_way: set[int | None]) -> tuple[Step, str]:
        """What put a message on the wheel."""
        origin_py = origin_in(data)
        if facts.rolls:
            return Step.ROLLED, f"roll {facts.rolls}"
        if origin_py is None:
            return Step.STORED, ""
        if origin_py in made_way:
            return Step.MOVED, ""
        if self.quarantine.state(origin_py) is State.RETRIED:
            return Step.STORED, "again, out of quarantine"
        return Step.STORED, "taken over from a classic level"

    def _quarantine_steps(self, records: Records) -> Iterator[LifeStep]:
        topics: dict[int, str] = {}
        for data, record in records:
            step = quarantine_step(data, record, topics)
            if step is not None:
                yield step

    def _transaction_steps(self, halves: Records) -> Iterator[LifeStep]:
        topic = ""
        for data, record in halves:
            try:
                half = decode_half(data)
            except HalfMessageError as error:
                yield attrs.evolve(at(Step.HALF, record, topic), text=str(error))
                continue
            self.halves.add(half.name)
            topic = half.topic
            yield half_step(half)
        if not halves:
            return
        for _, record in self._read(TRANS_OP_HALF_TOPIC):
            step = ending_step(record, topic)
            if step is not None:
                yield step
        for _, record in self._read(TRANS_CHECK_MAX_TIME_TOPIC):
            yield at(Step.DISCARDED, record, topic)


def _made_way_for(record: Record) -> int | None:
    """The position of what a delete makes way for; None of one that takes back."""
    target = find(record.properties, DELETE_FOR[:-1])
    return int(target) if target is not None and is_position(target) else None


def _taken_back(record: Record, followed: set[int | None]) -> Step | None:
    """What a delete says; None of one whose move is a step of its own."""
    if find(record.properties, DELETE_FOR[:-1]) is not None:
        return None if _made_way_for(record) in followed else Step.TORN
    is_ours = find(record.properties, DELETE_ORDER[:-1]) is not None
    return Step.CANCELLED if is_ours else Step.RECALLED
