"""Cancelling and moving a pending message, with a certain answer.

Everything here happens between two checkpoints of the event loop, and the last gate before a topic
asks ``FreshCancels`` in the same way. So at the moment of the call a message either has reached its
topic or has not, and what is answered stays true: ``CANCELLED`` never arrives, ``TOO_LATE`` has
arrived. RocketMQ answers success once a delete is stored, whatever becomes of it.

A message is found through the key index: its unique key, or one of its keys, under the timer topic.
That costs a look-up and the reading of the newest records with that key, however many timers wait.
It is known by the position of its first record (its *order*), which rolls keep.

A cancel writes a delete for the message's slot, a record in the timer topic. The delete names the
order for us and the unique key for RocketMQ. Its origin is the record that it cancels: if the
process ends before the slot is read, recovery counts that record as done. In the same write a
second delete follows, for the versions of RocketMQ that compare the other form of names
(``delete_message``). A move writes three records at once: the delete, the message with its new
moment, and the second delete. Its first delete also notes how far back records with the key count
(``key_records``). The record of the moved message has another unique key (``moved_key``), which no
delete names, so RocketMQ delivers it.

Source: Java ``RecallMessageProcessor``; issue #9208 (a recall that comes too late).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.moved_key import first_key, key_properties, moved_key
from timermq.timerstore.properties import (
    KEYS_NAME,
    KEYS_SEPARATOR,
    PROPERTIES_SIZE_MAX,
    UNIQ_KEY_NAME,
    find,
    remove,
)
from timermq.timerstore.put_status import PutResult
from timermq.timerstore.record import record_spans

from ..clock.clock import Clock
from ..quarantine.quarantine import PRODUCER, Quarantine
from ..quarantine.quarantine_record import State
from ..quarantine.retried_message import check_intact
from ..records.cancel_verdict import CancelError, Verdict, Wanted
from ..records.deduplication import origin_of
from ..records.delete_message import delete_message
from ..records.delivered_message import taken_over
from ..records.timer_properties import DELETE_SOLE, REQUEST_NAMES
from ..records.timer_record import (
    TAIL_SIZE_MAX,
    TIMER_TOPIC,
    TimerRecordError,
    own_properties,
    timer_tail,
)
from ..state.fresh_cancels import FreshCancel
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .pending_lookup import Found, PendingLookup, PendingMessage

_SOLE = DELETE_SOLE + b"1\x02"
"""The note that no other message with the key waits: the unique key, or one that was asked for.

A delete has no keys of its own, so one that it has is such a key, and is found by it."""


@attrs.frozen(kw_only=True)
class CancelResult:
    """The verdict, and when it may be told."""

    verdict: Verdict
    end: int
    """Position up to which the log has to be durable before the verdict is told."""
    unique_key: str
    """Of the message that was found, else as asked for."""
    record_key: str | None = None
    """After a move: the unique key in the record, by which RocketMQ knows the message."""
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
        are cancelled, and ``TOO_LATE`` says that one of them had arrived.

        Raises:
            CancelError: There is no index, the key is that of several messages, or the disk does
                not take the delete; nothing has changed.
        """
        found = self._find(wanted)
        pairs = [self._deletes(one) for one in found.pending]
        results = self._put([delete for pair in pairs for delete in pair])
        self._remember(found.pending, results[::2])
        for origin_py in found.quarantined:
            ended = self.quarantine.end(origin_py, State.CANCELLED, PRODUCER)
            if ended.refusal is not None:
                raise CancelError("CANCEL_NOT_STORED", ended.refusal)
        return self._result(wanted, found)

    def reschedule(self, wanted: Wanted, deliver_ms: int) -> CancelResult:
        """Give a pending message another moment, at once and as a whole.

        It arrives with its unique key, body and properties; its place among messages of the new
        moment is that of one sent now. A cancel at the old handle then means the moved message.

        Args:
            wanted: The message.
            deliver_ms: The new moment; one that is past means now.

        Raises:
            CancelError: As for ``cancel``; more than one message waits with this unique key; its
                record is damaged on the disk; or the moment is beyond the maximum delay.
        """
        found = self._find(wanted)
        if found.quarantined:
            raise CancelError(
                "CANCEL_QUARANTINED",
                f"the message {wanted.key} is in quarantine as {found.quarantined[0]}: it can be "
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
        record_key = find(moved.properties, UNIQ_KEY_NAME) or b""
        first, second = self._deletes(
            one,
            makes_way_in_ms=out_ms,
            has_own_key=record_key != one.record_key,
            keys=() if wanted.is_unique_key else (wanted.key.encode(),),
            notes=b"" if found.has_open_delete else _SOLE,
        )
        self.state.expect(deliver_ms, self.clock.now_ms())
        # In this order: a power cut may keep the first alone, and then nothing has happened. The
        # second adds nothing for us.
        results = self._put([first, moved, second])
        self._remember(found.pending, results[:1], record_py=results[1].phy_offset)
        return attrs.evolve(
            self._result(wanted, found),
            record_key=record_key.decode(),
            deliver_ms=deliver_ms,
            out_ms=out_ms,
        )

    def _find(self, wanted: Wanted) -> Found:
        if not self.store.options.message_index_enable:
            raise CancelError("CANCEL_NEEDS_INDEX", "messageIndexEnable is false on this broker")
        messages = PendingLookup(
            source=self.store,
            quarantine=self.quarantine,
            options=self.options,
            read_ms=self.state.commit_read_ms,
        )
        return messages.find(wanted)

    def _result(self, wanted: Wanted, found: Found) -> CancelResult:
        # Also what was decided before may not be durable yet.
        end = self.store.commit_log.max_offset
        unique_key = wanted.key
        if found.pending:
            unique_key = first_key(found.pending[0].record_key).decode()
        return CancelResult(verdict=found.verdict, end=end, unique_key=unique_key)

    # -- writing ------------------------------------------------------------------------------

    def _deletes(
        self,
        one: PendingMessage,
        *,
        makes_way_in_ms: int | None = None,
        has_own_key: bool = True,
        keys: Sequence[bytes] = (),
        notes: bytes = b"",
    ) -> tuple[Message, Message]:
        """The records that cancel a message; a move adds what it has seen, as properties."""
        first, second = (
            delete_message(
                one.facts,
                one.record_key,
                one.phy_offset,
                born_ms=self.clock.now_ms(),
                makes_way_in_ms=makes_way_in_ms,
                has_own_key=has_own_key,
                keys=keys,
                notes=notes,
                is_second=is_second,
            )
            for is_second in (False, True)
        )
        return first, second

    def _moved(self, one: PendingMessage, deliver_ms: int) -> tuple[Message, int]:
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
        tail = timer_tail(
            deliver_ms=deliver_ms,
            out_ms=out_ms,
            topic=topic,
            queue_id=queue_id,
            moved=_moved_properties(properties, first_key(one.record_key), one.phy_offset),
        )
        properties += tail
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
        pending: Sequence[PendingMessage],
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


def _moved_properties(properties: bytes, unique_key: bytes, replaced_py: int) -> bytes:
    """The properties with the key of a moved message, and the keys by which the index finds it.

    Empty, so that the message keeps its unique key, in two cases: the key has a blank in it, so
    the index could not find it among other keys; or the properties have no room for all keys twice.
    """
    if KEYS_SEPARATOR in unique_key:
        return b""
    keys = [
        key
        for key in (find(properties, KEYS_NAME) or b"").split(KEYS_SEPARATOR)
        if key not in (b"", unique_key)
    ]
    moved = key_properties(moved_key(unique_key, replaced_py), *keys)
    fits = len(properties) + len(moved) + TAIL_SIZE_MAX <= PROPERTIES_SIZE_MAX
    return moved if fits else b""
