"""The history of one message, as the log still has it: stored, rolled, moved, delivered, consumed.

Everything that happens to a message is a record with its unique key, in one of a few topics: that
of the wheel, of the quarantine, of classic levels and transactions, and the topics that these name
as its destination. The key index leads to them, so the cost is that of the message's own records,
however many others are pending.

Its state now is not guessed from the steps: whether it is pending is decided as a cancel decides,
and the quarantine and the open transactions are asked too. Of several messages with one id, a
pending one comes first.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cache
from typing import cast

import attrs

from timermq.pipeline.cancel.pending_lookup import Found, PendingLookup, names_of
from timermq.pipeline.quarantine.quarantine import Quarantine
from timermq.pipeline.quarantine.quarantine_record import State
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.key_records import KeyRecords, RecordSource
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.moved_key import first_key

from ..consumer_offset import ConsumerOffsetTable
from ..transactions.open_transactions import OpenTransactions
from .life_records import LifeRecords
from .life_step import GROUPS_MAX, LifeStep, Step


class Now(enum.Enum):
    """State of a message now, by its name in answers."""

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
    """It is not pending, and no record that was found says why: cleaned away, as a rule."""
    NOT_FOUND = "not_found"


_ENDS = {
    Step.HALF: Now.ROLLED_BACK,
    Step.ROLLED_BACK: Now.ROLLED_BACK,
    Step.DISCARDED: Now.DISCARDED,
    Step.CANCELLED: Now.CANCELLED,
    Step.DROPPED: Now.DROPPED,
    Step.DELIVERED: Now.DELIVERED,
    Step.SENT: Now.DELIVERED,
    Step.DEAD_LETTER: Now.DEAD_LETTER,
}
"""The state of a message that is not pending any more, unless another step follows. RocketMQ's log
says that a transaction has ended, not how: without a message it was rolled back."""


STEPS_MAX = 512
"""Steps of an answer, the newest ones."""


@attrs.frozen(kw_only=True)
class MessageLife:
    """The steps in the order of the log, and the state of the message now."""

    now: Now
    deliver_ms: int | None = None
    """The moment that it waits for."""
    steps: tuple[LifeStep, ...] = ()
    is_whole: bool = True
    """False where the oldest of very many steps are left out."""


@attrs.frozen(eq=False, kw_only=True)
class MessageLives:
    """The messages of one store, served or opened read only; plain code."""

    source: RecordSource
    quarantine: Quarantine
    options: TimerOptions
    offsets: ConsumerOffsetTable
    open_transactions: OpenTransactions
    read_ms: int
    """Slots before it have been read."""

    def of(self, unique_key: str, topic: str | None = None) -> Generator[None, None, MessageLife]:
        """The life of the message with a unique key; of several, the steps of all.

        Args:
            unique_key: UNIQ_KEY, which clients call the message id.
            topic: Looked at as well; None: only those that the message itself names. One that was
                sent without a delay names none.

        Returns:
            Yields after each look-up: other work may be done there, and what it does is seen.

        Raises:
            CancelError: Too many records have the key.
        """
        first = first_key(unique_key.encode()).decode()
        life = yield from self._of(first, topic)
        if first == unique_key or life.now is not Now.NOT_FOUND:
            return life
        # A producer's own key that looks like that of a moved message.
        return (yield from self._of(unique_key, topic))

    def _of(self, unique_key: str, topic: str | None) -> Generator[None, None, MessageLife]:
        """The life of the message to which its producer gave this key."""
        records = LifeRecords(
            records=KeyRecords(self.source),
            unique_key=unique_key,
            quarantine=self.quarantine,
            options=self.options,
            groups_of=cache(self.offsets.groups_of),
        )
        yield from records.read(topic)
        messages = PendingLookup(
            source=self.source,
            quarantine=self.quarantine,
            options=self.options,
            read_ms=self.read_ms,
        )
        found: list[Found] = []
        for name in records.unsettled_topics():
            found.append(messages.find(Wanted(name, unique_key)))
            yield
        return self._life(records, found)

    def _life(self, records: LifeRecords, found: Sequence[Found]) -> MessageLife:
        steps = sorted(records.steps, key=lambda one: one.phy_offset)
        if not steps:
            return MessageLife(now=Now.NOT_FOUND)
        pending = [one for each in found for one in each.pending]
        waits = [
            one.facts.deliver_ms for one in pending if names_of(one).isdisjoint(records.recalled)
        ] + records.waiting_levels()
        state, offset_of = self.quarantine.state, self.open_transactions.offset_of
        if waits:
            now = Now.WAITING
        elif any(state(name) is State.ACTIVE for name in records.entries):
            now = Now.QUARANTINED
        elif any(offset_of(name) is not None for name in records.halves):
            now = Now.UNDECIDED
        else:
            now = _ended(found, steps)
        return MessageLife(
            now=now,
            deliver_ms=min(waits, default=None),
            steps=tuple(self._consumed(one, records.groups_of) for one in steps[-STEPS_MAX:]),
            is_whole=len(steps) <= STEPS_MAX,
        )

    def _consumed(self, step: LifeStep, groups_of: Callable[[str], Iterable[str]]) -> LifeStep:
        """A step with those of the groups that have committed what arrived by it."""
        queue_id, offset = step.queue_id, step.queue_offset
        if queue_id is None or offset is None:
            return step
        query = self.offsets.query
        found = [
            group
            for group in groups_of(step.topic)
            if (query(group=group, topic=step.topic, queue_id=queue_id) or 0) > offset
        ]
        return attrs.evolve(step, consumed_by=tuple(found[:GROUPS_MAX]), group_count=len(found))


def at_once(looking: Generator[None, None, MessageLife]) -> MessageLife:
    """The history, read at once, without pauses for other tasks."""
    while True:
        try:
            next(looking)
        except StopIteration as done:
            return cast("MessageLife", done.value)


def _ended(found: Sequence[Found], steps: Sequence[LifeStep]) -> Now:
    """State of a message that is not pending any more, by the last step that ended it."""
    end: Now | None = None
    for one in steps:
        # A message put on the wheel is pending again; copies of a cancelled one may still roll.
        if one.step in (Step.STORED, Step.MOVED):
            end = None
        elif one.step in _ENDS:
            end = _ENDS[one.step]
    if end is not None:
        return end
    if any(one.delivered for one in found):
        return Now.DELIVERED  # since the steps were read
    return Now.CANCELLED if any(one.cancelled or one.pending for one in found) else Now.GONE
