"""One step of a message's history: the change that a record of the log shows."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

from timermq.pipeline.admission.delay_level import DelayLevels
from timermq.pipeline.levels.level_record import delivered_name
from timermq.pipeline.quarantine.quarantine_record import Entry, Mark, State
from timermq.pipeline.records.deduplication import origin_in
from timermq.pipeline.records.timer_properties import DELIVER_NAME, DEQUEUE
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import DELAY_NAME, REAL_QID_NAME, REAL_TOPIC_NAME, find
from timermq.timerstore.record import Record

from ..topic_validator import DLQ_GROUP_TOPIC_PREFIX
from ..transactions.half_message import HalfMessage
from ..transactions.op_message import Ending, read_ending

GROUPS_MAX = 32
"""Names of groups in a step."""


class Step(enum.Enum):
    """Kinds of steps, by their names in answers."""

    HALF = "half"
    """A half message was stored: its producer has to decide, or was asked to."""
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    DISCARDED = "discarded"
    """The producer has not decided about the transaction in time."""
    LEVEL = "level"
    """RocketMQ stored it in the queue of a classic level."""
    STORED = "stored"
    """It was put on the wheel."""
    ROLLED = "rolled"
    """It was put on the wheel once more, its moment being beyond the window."""
    MOVED = "moved"
    """It got another moment."""
    TORN = "torn"
    """A move, or a retry out of quarantine, that a power cut cut short; it counts for nothing."""
    CANCELLED = "cancelled"
    RECALLED = "recalled"
    """RocketMQ took a recall; it counts where the message was still pending."""
    SET_ASIDE = "set_aside"
    """It could not be delivered, and is kept in quarantine."""
    RETRIED = "retried"
    """It was let out of quarantine."""
    DROPPED = "dropped"
    """An operator dropped it there."""
    DELIVERED = "delivered"
    """It appeared on its topic at its moment."""
    SENT = "sent"
    """It appeared on its topic at once."""
    DEAD_LETTER = "dead_letter"
    """It was consumed in vain as often as its group allows."""


_MARKS = {State.RETRIED: Step.RETRIED, State.DROPPED: Step.DROPPED, State.CANCELLED: Step.CANCELLED}
_ENDINGS = {Ending.COMMIT: Step.COMMITTED, Ending.ROLLBACK: Step.ROLLED_BACK}
"""Discarded transactions have a topic of their own."""


@attrs.frozen(kw_only=True)
class LifeStep:
    """One step; moments in epoch milliseconds."""

    step: Step
    at_ms: int
    """Epoch milliseconds at which it happened."""
    phy_offset: int
    """Position of the record that says so."""
    topic: str
    """The message's topic, now or when due; empty where that is not known."""
    queue_id: int | None = None
    queue_offset: int | None = None
    """Its place in the topic's queue, once it is there."""
    deliver_ms: int | None = None
    """The moment that it waits for, or had waited for."""
    lateness_ms: int | None = None
    """How long after its moment it was stored in its topic."""
    consumed_by: tuple[str, ...] = ()
    """Groups that have committed it, the first `GROUPS_MAX` of them."""
    group_count: int = 0
    """Number of groups that have consumed it."""
    text: str = ""

    def to_row(self) -> dict[str, object]:
        """The fields, for CBOR and JSON."""
        row = attrs.asdict(self)
        return {**row, "step": self.step.value, "consumed_by": list(self.consumed_by)}


def at(step: Step, found: Record, topic: str) -> LifeStep:
    """A step whose record is damaged: only its position is known."""
    return LifeStep(step=step, at_ms=found.store_ms, phy_offset=found.phy_offset, topic=topic)


def half_step(half: HalfMessage) -> LifeStep:
    """A record of the half topic."""
    asked = f", asked {half.check_times} times" if half.check_times else ""
    return attrs.evolve(
        at(Step.HALF, half.record, half.topic),
        queue_id=half.queue_id,
        text=f"a transaction of {half.group}{asked}",
    )


def ending_step(found: Record, topic: str) -> LifeStep | None:
    """A record of the op topic; None where the transaction goes on."""
    ending, _ = read_ending(found.properties)
    return at(_ENDINGS[ending], found, topic) if ending in _ENDINGS else None


def level_step(found: Record, levels: DelayLevels) -> LifeStep:
    """A record of the topic of classic levels."""
    level = number_in(find(found.properties, DELAY_NAME)) or 1
    topic = find(found.properties, REAL_TOPIC_NAME) or b""
    return attrs.evolve(
        at(Step.LEVEL, found, topic.decode("utf-8", "replace")),
        queue_id=number_in(find(found.properties, REAL_QID_NAME)),
        deliver_ms=found.store_ms + levels.delay_ms(level),
        text=f"level {level}",
    )


def entry_step(entry: Entry, found: Record) -> LifeStep:
    """An entry of the quarantine."""
    return attrs.evolve(
        at(Step.SET_ASIDE, found, entry.topic or ""),
        at_ms=entry.set_aside_ms,
        queue_id=entry.queue_id,
        deliver_ms=entry.deliver_ms,
        text=f"{entry.reason}: {entry.text} (id {entry.origin_py})",
    )


def mark_step(mark: Mark, found: Record, topic: str) -> LifeStep:
    """The end of an entry of the quarantine, and where its message went."""
    text = f"in quarantine, by {mark.by} (id {mark.origin_py})"
    return attrs.evolve(at(_MARKS[mark.state], found, topic), text=text)


def arrival_step(record: bytes, found: Record, moments: Mapping[int, int]) -> LifeStep:
    """A record of the message's topic.

    Args:
        record: The record.
        found: It, decoded.
        moments: Moments that records of the timer topic wait for, by their positions.
    """
    origin_py = origin_in(record)
    is_delivered = (
        origin_py is not None or DEQUEUE in found.properties or delivered_name(record) is not None
    )
    deliver_ms = number_in(find(found.properties, DELIVER_NAME)) if is_delivered else None
    if origin_py is not None:
        deliver_ms = moments.get(origin_py, deliver_ms)
    step = Step.DELIVERED if is_delivered else Step.SENT
    if found.topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
        step = Step.DEAD_LETTER
    return attrs.evolve(
        at(step, found, found.topic),
        queue_id=found.queue_id,
        queue_offset=found.queue_offset,
        deliver_ms=deliver_ms,
        lateness_ms=None if deliver_ms is None else found.store_ms - deliver_ms,
        text=f"consumed {found.reconsume_times} times" if found.reconsume_times else "",
    )
