"""Reading the records of one message: each is a step of its life.

All have its unique key, in one of a few topics: that of the wheel, of the quarantine, of classic
levels and transactions, and the topics that these name as its destination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import attrs

from timermq.pipeline.admission.delay_level import DelayLevels
from timermq.pipeline.cancel.pending_lookup import asked_for
from timermq.pipeline.levels.level_record import delivered_name, waiting_name
from timermq.pipeline.quarantine.quarantine import Quarantine
from timermq.pipeline.quarantine.quarantine_record import Mark, State, read_entry, read_mark
from timermq.pipeline.records.cancel_verdict import too_common
from timermq.pipeline.records.deduplication import origin_in
from timermq.pipeline.records.key_records import KeyRecords
from timermq.pipeline.records.record_effect import Effect, effect_of_entry
from timermq.pipeline.records.system_topics import QUARANTINE_TOPIC
from timermq.pipeline.records.timer_properties import (
    DELETE_FOR_NAME,
    ROLL_LABEL_NAME,
)
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    TimerFacts,
    TimerRecordError,
    decode_timer,
    deleted_name,
    deleted_order,
)
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import find
from timermq.timerstore.record import Record, decode_record, record_topic

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
    entry_step,
    half_step,
    level_step,
    mark_step,
)

TOPICS_MAX = 1024
"""Topics that one message is looked for in: each costs a look-up, some 50 µs."""

Records = list[tuple[bytes, Record]]
"""Records in the order of the log, each with what it decodes to."""


@attrs.define(eq=False, kw_only=True)
class LifeRecords:
    """The records of one message, read once for one request; plain code."""

    records: KeyRecords
    """Says how much may be looked at."""
    unique_key: str
    quarantine: Quarantine
    options: TimerOptions
    groups_of: Callable[[str], Iterable[str]]
    """The groups that have committed something of a topic; asked more than once of each."""
    steps: list[LifeStep] = attrs.field(factory=list[LifeStep], init=False)
    """The steps found in the records, topic by topic."""
    halves: set[int] = attrs.field(factory=set[int], init=False)
    """Names of the transactions that it was sent in."""
    entries: dict[int, str] = attrs.field(factory=dict[int, str], init=False)
    """The quarantine's entries: their names, and where their messages go."""
    recalled: set[bytes | tuple[int, bytes]] = attrs.field(
        factory=set[bytes | tuple[int, bytes]], init=False
    )
    """Names in deletes of RocketMQ (``names_of``): the slot takes the pending message out."""
    _timers: dict[int, tuple[int, str]] = attrs.field(
        factory=dict[int, tuple[int, str]], init=False
    )
    """By the order of each message its newest record on the wheel, and where that goes."""
    _levels: dict[int, tuple[bytes, int]] = attrs.field(
        factory=dict[int, tuple[bytes, int]], init=False
    )
    """Records of classic levels: name and moment, by position."""
    _moments: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    """Moments that records of the timer topic wait for, by their positions."""
    _origins: set[int | None] = attrs.field(factory=set[int | None], init=False)
    """Positions of records that others have taken further."""
    _delivered: Counter[bytes] = attrs.field(factory=Counter[bytes], init=False)
    """Messages of classic levels that RocketMQ has delivered, by name."""

    def read(self, topic: str | None) -> Iterator[None]:
        """Read all; yields after each look-up.

        Args:
            topic: Looked at beside those that the records name.

        Raises:
            CancelError: Too many records have the key.
        """
        for read in (
            self._timer_steps,
            self._level_steps,
            self._quarantine_steps,
            self._transaction_steps,
        ):
            read()
            yield
        seen: set[str] = set()
        topics = {one.topic for one in self.steps if one.topic} | ({topic} if topic else set[str]())
        while topics:
            if len(seen) + len(topics) > TOPICS_MAX:
                raise too_common(self.unique_key, f"records of more than {TOPICS_MAX} topics")
            for name in sorted(topics):
                self._arrival_steps(name)
                yield
            seen |= topics
            topics = self._dead_letter_topics(topics) - seen

    def unsettled_topics(self) -> list[str]:
        """Topics of messages whose newest record on the wheel nothing of ours has taken further."""
        return sorted(
            {topic for place, topic in self._timers.values() if place not in self._origins}
        )

    def waiting_levels(self) -> list[int]:
        """Moments of pending messages in queues of classic levels."""
        delivered = self._delivered.copy()
        found: list[int] = []
        for phy_offset, (name, deliver_ms) in self._levels.items():
            if phy_offset in self._origins:
                continue
            if delivered[name]:
                delivered[name] -= 1
            else:
                found.append(deliver_ms)
        return found

    def _dead_letter_topics(self, topics: Iterable[str]) -> set[str]:
        """The topics for failed messages of groups: those of retry topics, and of any other."""
        groups: set[str] = set()
        arrived = {one.topic for one in self.steps if one.queue_offset is not None}
        for topic in topics:
            if topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
                groups.add(topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX))
            elif topic in arrived and not topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
                groups.update(self.groups_of(topic))
        return {DLQ_GROUP_TOPIC_PREFIX + group for group in groups}

    def _read(self, topic: str) -> Records:
        """The records of a topic with the key, in the order of the log."""
        newest = self.records.newest_first(topic, self.unique_key, is_unique_key=True)
        return [(data, decode_record(data)) for data in reversed([data for _, data in newest])]

    def _timer_steps(self) -> None:
        facts: list[tuple[bytes, Record, TimerFacts]] = []
        for data, record in self._read(TIMER_TOPIC):
            precision_ms = self.options.timer_precision_ms
            try:
                one = decode_timer(data, record.phy_offset, precision_ms)
            except TimerRecordError as error:
                step = at(Step.STORED, record, asked_for(data) or "")
                self.steps.append(attrs.evolve(step, text=str(error)))
                continue
            facts.append((data, record, one))
            if not one.is_delete:
                self._origins.add(origin_in(data))
                self._moments[record.phy_offset] = one.deliver_ms
                self._timers[one.order_py] = record.phy_offset, one.destination.topic
        made_way = {
            _made_way_for(record) for _, record, one in facts if one.is_delete and not one.rolls
        }
        followed = {origin_in(data) for data, _, one in facts if not (one.is_delete or one.rolls)}
        for data, record, one in facts:
            if one.is_second:
                continue
            if one.is_delete:
                self._cancel(record, one, followed)
            else:
                self._put(data, record, one, made_way)

    def _put(
        self, data: bytes, record: Record, facts: TimerFacts, made_way: set[int | None]
    ) -> None:
        """The step that put a message on the wheel."""
        origin_py = origin_in(data)
        step, text = Step.STORED, ""
        if effect_of_entry(record.properties) is Effect.ROLLED:
            step, text = Step.ROLLED, f"roll {facts.rolls}"
        elif find(record.properties, ROLL_LABEL_NAME) is not None:
            step = Step.ROLLED  # RocketMQ's RocksDB timers write no number of rolls.
        elif origin_py is not None and origin_py in made_way:
            step = Step.MOVED
        elif origin_py is not None:
            text = "again"
        self.steps.append(
            attrs.evolve(
                at(step, record, facts.destination.topic),
                queue_id=facts.destination.queue_id,
                deliver_ms=facts.deliver_ms,
                text=text,
            )
        )

    def _cancel(self, record: Record, facts: TimerFacts, followed: set[int | None]) -> None:
        """A delete; one that rolled says nothing new."""
        taken = _cancelled(record, followed)
        if taken is Step.RECALLED:
            self.recalled.add((facts.out_ms, deleted_name(record.properties) or b""))
        if taken is not None and not facts.rolls:
            self.steps.append(at(taken, record, facts.destination.topic))

    def _level_steps(self) -> None:
        levels = DelayLevels.parse(self.options.message_delay_level)
        for data, record in self._read(SCHEDULE_TOPIC):
            step = level_step(record, levels)
            self._levels[record.phy_offset] = waiting_name(data), step.deliver_ms or 0
            self.steps.append(step)

    def _quarantine_steps(self) -> None:
        for data, record in self._read(QUARANTINE_TOPIC):
            entry, mark = read_entry(data), read_mark(data)
            if entry is not None:
                self._origins.add(entry.origin_py)
                if entry.origin_py not in self.entries:  # else it was written once more
                    self.entries[entry.origin_py] = entry.topic or ""
                    self.steps.append(entry_step(entry, record))
            elif mark is not None:
                self._ended(mark, record)

    def _ended(self, mark: Mark, record: Record) -> None:
        """The end of an entry of the quarantine. A retry may have sent it elsewhere."""
        topic = self.entries.get(mark.origin_py, "")
        if mark.state is State.RETRIED:
            message = self.quarantine.retried(mark, record.phy_offset + record.size)
            if message is None:
                self.steps.append(at(Step.TORN, record, topic))
                return
            topic = record_topic(message).decode("utf-8", "replace")
            if topic == TIMER_TOPIC:
                topic = asked_for(message) or ""
        self.steps.append(mark_step(mark, record, topic))

    def _transaction_steps(self) -> None:
        topic = ""
        halves = self._read(TRANS_HALF_TOPIC)
        for data, record in halves:
            try:
                half = decode_half(data)
            except HalfMessageError as error:
                step = attrs.evolve(at(Step.HALF, record, topic), text=str(error))
            else:
                self.halves.add(half.name)
                topic, step = half.topic, half_step(half)
            self.steps.append(step)
        if not halves:
            return
        for _, record in self._read(TRANS_OP_HALF_TOPIC):
            ending = ending_step(record, topic)
            if ending is not None:
                self.steps.append(ending)
        discarded = self._read(TRANS_CHECK_MAX_TIME_TOPIC)
        self.steps += [at(Step.DISCARDED, record, topic) for _, record in discarded]

    def _arrival_steps(self, topic: str) -> None:
        for data, record in self._read(topic):
            self._origins.add(origin_in(data))
            name = delivered_name(data)
            if name is not None:
                self._delivered[name] += 1
            self.steps.append(arrival_step(data, record, self._moments))


def _made_way_for(record: Record) -> int | None:
    """The position of the record that replaces a moved one; None for a delete that cancels."""
    return number_in(find(record.properties, DELETE_FOR_NAME))


def _cancelled(record: Record, followed: set[int | None]) -> Step | None:
    """The step of a delete; None for one whose move is a step of its own."""
    if find(record.properties, DELETE_FOR_NAME) is not None:
        return None if _made_way_for(record) in followed else Step.TORN
    is_ours = deleted_order(record.properties) is not None
    return Step.CANCELLED if is_ours else Step.RECALLED
