"""The life of one message, as the log still tells it: stored, rolled, moved, delivered, consumed.

Everything that happens to a message is a record with its unique key, in one of a few topics, and
the key index finds them there: the wheel's, the quarantine's, those of transactions and classic
levels, and the topics that these name as its destination. Nothing is looked through, so the cost is
that of the message's own records, however many others wait.

How it stands now is not guessed from the steps: whether it waits is asked as a cancel asks.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs

from timermq.pipeline.cancel_verdict import CancelError, Wanted
from timermq.pipeline.key_records import KeyRecords
from timermq.pipeline.quarantine import Quarantine
from timermq.pipeline.timer_options import TimerOptions
from timermq.pipeline.waiting_messages import Found, WaitingMessages, names_of
from timermq.timerstore.message_store import MessageStore

from ..consumer_offset import ConsumerOffsetTable
from ..transactions.open_transactions import OpenTransactions
from .life_records import LifeRecords
from .life_step import LifeStep, Step


class Now(enum.Enum):
    """How a message stands."""

    WAITING = "waiting"
    QUARANTINED = "quarantined"
    UNDECIDED = "undecided"
    """Its transaction is open."""
    DELIVERED = "delivered"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"
    DROPPED = "dropped"
    ROLLED_BACK = "rolled_back"
    DISCARDED = "discarded"
    GONE = "gone"
    """It waits no more, and the record that would say why has been cleaned away."""
    NOT_FOUND = "not_found"


_ENDS = {
    Step.HALF: Now.UNDECIDED,
    Step.ROLLED_BACK: Now.ROLLED_BACK,
    Step.DISCARDED: Now.DISCARDED,
    Step.LEVEL: Now.WAITING,
    Step.CANCELLED: Now.CANCELLED,
    Step.DROPPED: Now.DROPPED,
    Step.DELIVERED: Now.DELIVERED,
    Step.SENT: Now.DELIVERED,
    Step.DEAD_LETTER: Now.DEAD_LETTER,
}
"""What is so behind a step, unless another one follows."""


@attrs.frozen(kw_only=True)
class MessageLife:
    """The steps in the order of the log, and how the message stands."""

    now: Now
    deliver_ms: int | None = None
    """The moment that it waits for."""
    steps: tuple[LifeStep, ...] = ()
    is_whole: bool = True
    """False where the oldest of very many steps are left out."""


@attrs.frozen(eq=False, kw_only=True)
class MessageLives:
    """The messages of one store, served or opened read only; plain code."""

    store: MessageStore
    quarantine: Quarantine
    options: TimerOptions
    offsets: ConsumerOffsetTable
    open_transactions: OpenTransactions
    read_ms: int
    """Slots before it have been read."""

    def of(self, unique_key: str, topic: str | None = None) -> MessageLife:
        """The life of the message with a unique key; of several, the steps of all.

        Args:
            unique_key: UNIQ_KEY, which clients call the message id.
            topic: Looked at as well; None: only those that the message itself names. One that was
                sent without a delay names none.

        Raises:
            CancelError: There is no index, or too many records have the key.
        """
        if not self.store.options.message_index_enable:
            raise CancelError("EXPLAIN_NEEDS_INDEX", "messageIndexEnable is false on this broker")
        records = LifeRecords(
            records=KeyRecords(self.store),
            unique_key=unique_key,
            quarantine=self.quarantine,
            options=self.options,
        )
        steps = sorted(records.steps(topic), key=lambda one: one.phy_offset)
        if not steps:
            return MessageLife(now=Now.NOT_FOUND)
        messages = WaitingMessages(
            store=self.store,
            quarantine=self.quarantine,
            options=self.options,
            read_ms=self.read_ms,
        )
        topics = sorted({one.topic for one in steps if one.topic})
        groups = {name: self.offsets.groups_of(name) for name in topics}
        found = [messages.find(Wanted(name, unique_key)) for name in topics]
        pending = [one for each in found for one in each.pending]
        waiting = [one for one in pending if names_of(one).isdisjoint(records.recalled)]
        offset_of = self.open_transactions.offset_of
        is_open = any(offset_of(name) is not None for name in records.halves)
        return MessageLife(
            now=Now.WAITING if waiting else _now(found, steps, is_open=is_open),
            deliver_ms=min((one.facts.deliver_ms for one in waiting), default=None),
            steps=tuple(
                attrs.evolve(one, consumed_by=self._committed(one, groups.get(one.topic, [])))
                for one in steps
            ),
            is_whole=records.is_whole,
        )

    def _committed(self, step: LifeStep, groups: Sequence[str]) -> tuple[str, ...]:
        """Those of the groups that have committed what arrived by a step."""
        queue_id, offset = step.queue_id, step.queue_offset
        if queue_id is None or offset is None:
            return ()
        query = self.offsets.query
        return tuple(
            group
            for group in groups
            if (query(group=group, topic=step.topic, queue_id=queue_id) or 0) > offset
        )


def _now(found: Sequence[Found], steps: Sequence[LifeStep], *, is_open: bool) -> Now:
    """How a message stands that does not wait, behind its steps in the order of the log."""
    if any(one.set_aside for one in found):
        return Now.QUARANTINED
    end: Now | None = None
    for one in steps:
        # What is put on the wheel begins anew; copies of what was taken back may still roll.
        if one.step in (Step.STORED, Step.MOVED):
            end = None
        elif one.step in _ENDS:
            end = _ENDS[one.step]
    if end is Now.UNDECIDED and not is_open:
        return Now.ROLLED_BACK
    if end is not None:
        return end
    return Now.CANCELLED if any(one.cancelled or one.pending for one in found) else Now.GONE
