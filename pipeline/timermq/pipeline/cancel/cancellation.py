"""Cancelling and moving a pending message, with a certain answer.

Everything here happens between two checkpoints of the event loop, and the last gate before a topic
asks ``FreshCancels`` in the same way. So at the moment of the call a message either has reached its
topic or has not, and what is answered stays true: ``CANCELLED`` never arrives, ``TOO_LATE`` has
arrived. RocketMQ answers success once a delete is stored, whatever becomes of it.

A message is found through the key index: its unique key, or one of its keys, under the timer topic.
That costs a look-up and the reading of the newest records with that key, however many timers wait.
It is known by the position of its first record (its *order*), which rolls keep.

What is written is one record in the timer topic: a delete for the message's slot. It names the
order for us, the unique key for RocketMQ, and as its origin the record that it takes back: should
the process end before the slot is read, recovery counts that record as done. A move writes two at
once: the delete, and behind it the message with its new moment. That delete also notes how far back
records with the key count (``key_records``).

Source: Java ``RecallMessageProcessor``; issue #9208 (a recall that comes too late).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import KEYS, PROPERTIES_SIZE_MAX, remove
from timermq.timerstore.put_status import PutResult
from timermq.timerstore.record import record_spans

from ..clock.clock import Clock
from ..quarantine.quarantine import PRODUCER, Quarantine
from ..quarantine.quarantine_record import State
from ..quarantine.retried_message import check_intact
from ..records.already_done import origin_of
from ..records.cancel_verdict import CancelError, Verdict, Wanted
from ..records.delete_message import delete_message
from ..records.delivered_message import taken_over
from ..records.timer_properties import DELETE_SOLE, REQUEST_NAMES
from ..records.timer_record import TIMER_TOPIC, TimerRecordError, own_properties, timer_tail
from ..state.fresh_cancels import FreshCancel
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .waiting_messages import Found, Waiting, WaitingMessages


@attrs.frozen(kw_only=True)
class CancelResult:
    """The verdict, and when it may be told."""

    verdict: Verdict
    end: int
    """Position up to which the log has to be durable before the verdict is told."""
    unique_key: str
    """Of the message that was found, else as asked for."""
    deliver_ms: int | None = None
    """After a move: the new moment."""
    out_ms: int | None = None
    """After a move: its slot."""


@attrs.frozen(eq=False, kw_only=True)
class Cancellation:
    """Cancels and moves messages of one running service; plain code."""

    store: MessageStore
    state: TimerState
    quarantine: Quarantine
    options: TimerOptions
    clock: Clock

    def cancel(self, wanted: Wanted) -> CancelResult:
        """Take a message back; again and again with the same verdict.

        A producer that sends again after a time-out makes two messages with one unique key: both
        are taken back, and ``TOO_LATE`` says that one of them had arrived.

        Raises:
            CancelError: There is no index, the key is that of several messages, or the disk does
                not take the delete; nothing has changed.
        """
        found = self._find(wanted)
        deletes = [self._delete(one) for one in found.pending]
        self._remember(found.pending, self._put(deletes))
        for origin_py in found.set_aside:
            ended = self.quarantine.end(origin_py, State.CANCELLED, PRODUCER)
            if ended.refusal is not None:
                raise CancelError("CANCEL_NOT_STORED", ended.refusal)
        return self._result(wanted, found)

    def reschedule(self, wanted: Wanted, deliver_ms: int) -> CancelResult:
        """Give a pending message another moment, at once and as a whole.

        Its unique key, body and properties stay, its place among messages of the new moment is that
        of one sent now. A cancel at the old handle then means the moved message.

        Args:
            wanted: The message.
            deliver_ms: The new moment; one that is past means now.

        Raises:
            CancelError: As for ``cancel``; more than one message waits with this unique key; its
                record is damaged on the disk; or the moment is beyond the maximum delay.
        """
        found = self._find(wanted)
        if found.set_aside:
            raise CancelError(
                "CANCEL_QUARANTINED",
                f"the message {wanted.key} is in quarantine as {found.set_aside[0]}: it can be "
                "cancelled, or retried there",
            )
        if found.verdict is not Verdict.CANCELLED or not found.pending:
            return self._result(wanted, found)
        if len(found.pending) > 1:
            raise CancelError(
                "CANCEL_KEY_NOT_UNIQUE",
                f"{len(found.pending)} messages wait with the unique key {wanted.key}",
            )
        (one,) = found.pending
        # Written again with the checksum that it no longer has, it would end the log of a restart.
        try:
            check_intact(one.record, one.phy_offset, len(one.record))
        except TimerRecordError as error:
            raise CancelError("CANCEL_DAMAGED", f"{error}; it can only be cancelled") from None
        deliver_ms = max(deliver_ms, self.clock.now_ms() + 1)
        moved, out_ms = self._moved(one, deliver_ms)
        # In this order: a power cut may keep the first alone, and then nothing has happened.
        notes = b"" if found.has_open_delete else _sole(wanted)
        delete = self._delete(one, makes_way_in_ms=out_ms, notes=notes)
        self.state.expect(deliver_ms, self.clock.now_ms())
        results = self._put([delete, moved])
        self._remember(found.pending, results[:1], record_py=results[1].phy_offset)
        return attrs.evolve(self._result(wanted, found), deliver_ms=deliver_ms, out_ms=out_ms)

    def _find(self, wanted: Wanted) -> Found:
        if not self.store.options.message_index_enable:
            raise CancelError("CANCEL_NEEDS_INDEX", "messageIndexEnable is false on this broker")
        messages = WaitingMessages(
            source=self.store,
            quarantine=self.quarantine,
            options=self.options,
            read_ms=self.state.commit_read_ms,
        )
        return messages.find(wanted)

    def _result(self, wanted: Wanted, found: Found) -> CancelResult:
        # Also what was decided before may not be durable yet.
        end = self.store.commit_log.max_offset
        unique_key = found.pending[0].unique_key.decode() if found.pending else wanted.key
        return CancelResult(verdict=found.verdict, end=end, unique_key=unique_key)

    # -- writing ------------------------------------------------------------------------------

    def _delete(
        self, one: Waiting, *, makes_way_in_ms: int | None = None, notes: bytes = b""
    ) -> Message:
        """The record that takes a message back; a move adds what it has seen, as properties."""
        return delete_message(
            one.facts,
            one.unique_key,
            one.phy_offset,
            born_ms=self.clock.now_ms(),
            makes_way_in_ms=makes_way_in_ms,
            notes=notes,
        )

    def _moved(self, one: Waiting, deliver_ms: int) -> tuple[Message, int]:
        """The message with its new moment, and the slot of that."""
        now_ms, precision_ms = self.clock.now_ms(), self.options.timer_precision_ms
        delay_max_ms = self.options.timer_max_delay_sec * 1000
        if deliver_ms - now_ms > delay_max_ms:
            raise CancelError(
                "TIMER_DELAY_TOO_LONG",
                f"asked for {deliver_ms - now_ms} ms ahead, the maximum is {delay_max_ms} ms",
            )
        out_ms = (deliver_ms - 1) // precision_ms * precision_ms
        _, _, topic_end, end = record_spans(one.record)
        properties = own_properties(one.record[topic_end + 2 : end])
        for key in REQUEST_NAMES:
            properties = remove(properties, key)
        topic, queue_id = one.facts.destination.target
        properties += timer_tail(
            deliver_ms=deliver_ms, out_ms=out_ms, topic=topic, queue_id=queue_id
        )
        moved = taken_over(
            one.record,
            topic=TIMER_TOPIC,
            queue_id=0,
            properties=properties,
            origin=origin_of(one.phy_offset),
        )
        return moved, out_ms

    def _put(self, messages: Sequence[Message]) -> list[PutResult]:
        """Store all; a delete makes room, so it is taken while sends are refused.

        Raises:
            CancelError: None was stored. What the store refuses of one message alone, its size, is
                looked at before.
        """
        for message in messages:
            size, size_max = len(message.properties), PROPERTIES_SIZE_MAX
            if size > size_max:
                raise CancelError(
                    "PROPERTIES_SIZE", f"expected at most {size_max} bytes, found {size}"
                )
            size, size_max = len(message.body), self.store.options.max_message_size
            if size > size_max:
                raise CancelError("BODY_SIZE", f"expected at most {size_max} bytes, found {size}")
        results = self.store.put(messages, even_when_full=True) if messages else []
        for result in results:
            if not result.status.is_stored:
                raise CancelError("CANCEL_NOT_STORED", f"{result.status.name}: {result.remark}")
        return results

    def _remember(
        self,
        pending: Sequence[Waiting],
        results: Sequence[PutResult],
        *,
        record_py: int | None = None,
    ) -> None:
        for one, result in zip(pending, results, strict=True):
            self.state.fresh_cancels.add(
                FreshCancel(
                    target_py=one.phy_offset,
                    record_py=result.phy_offset if record_py is None else record_py,
                    out_ms=one.facts.out_ms,
                    queue_end=result.queue_offset + 1,
                ),
            )


def _sole(wanted: Wanted) -> bytes:
    """The note that no other message with the key waits: the unique key, or one that was asked for.

    A delete has no key of its own, so one that it has is that key, and is found by it.
    """
    keys = b"" if wanted.is_unique_key else b"%b%b\x02" % (KEYS, wanted.key.encode())
    return b"%b1\x02%b" % (DELETE_SOLE, keys)
