"""The lines of a producer in a history: sends and requests before they leave, then the answers."""

from __future__ import annotations

import datetime
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import attrs

from .errors import BrokerRefusedError, ClientError, may_have_been_done
from .history import (
    Ack,
    Cancel,
    End,
    Event,
    HistoryWriter,
    Refused,
    Reschedule,
    Send,
    Start,
    Unknown,
    Verdict,
)
from .message import OutgoingMessage
from .message import Verdict as VerdictName
from .moment import delay_ms, epoch_ms
from .pending import PendingMessage
from .recall import message_id_of
from .send_frames import Addressed, SendFrame
from .send_receipt import SendReceipt

NOT_SENT = "NOT_SENT"
"""In place of a broker's rule: the message never left."""
NOT_DURABLE = "NOT_DURABLE"
"""The reason of a message that is stored, and may be lost with the broker's machine."""


@attrs.define
class Asked:
    """A request under way; the task that gets its answer writes it here."""

    verdict: VerdictName | None = None
    message_id: str = ""
    deliver_ms: int | None = None


@attrs.frozen(eq=False)
class ProducerHistory:
    """The writing side of one producer."""

    _writer: HistoryWriter

    def start(self, group: str) -> None:
        """Write down that the producer begins, and its group."""
        at_ms, who = self._stamp()
        self._writer.write(Start(at_ms=at_ms, who=who, settings={"producer_group": group}))

    def end(self) -> None:
        """Write down that the producer ends."""
        at_ms, who = self._stamp()
        self._writer.write(End(at_ms=at_ms, who=who))

    @contextmanager
    def sending(
        self,
        frame: SendFrame,
        messages: Sequence[OutgoingMessage],
        outcomes: Sequence[SendReceipt | ClientError | None],
    ) -> Generator[None]:
        """The block sends a frame and puts into ``outcomes`` what became of its messages.

        What has no outcome behind the block, which may be cancelled, has no answer.
        """
        (at_ms, who), op = self._stamp(), self._writer.next_op()
        self._writer.write(
            *(_send(one, messages[one.index], at_ms, who, op) for one in frame.messages)
        )
        try:
            yield
        finally:
            at_ms, who = self._stamp()
            self._writer.write(
                *(_outcome(one, outcomes[one.index], at_ms, who) for one in frame.messages)
            )

    @contextmanager
    def asking(
        self,
        target: PendingMessage,
        at: datetime.datetime | int | None = None,
        delay: datetime.timedelta | None = None,
    ) -> Generator[Asked]:
        """The block asks for a cancel, or with a moment for a move, and writes down the answer."""
        (at_ms, who), op, asked = self._stamp(), self._writer.next_op(), Asked()
        message_id, key = _name(target)
        question: Event = Cancel(
            at_ms=at_ms, who=who, op=op, topic=target.topic, message_id=message_id, key=key
        )
        if at is not None or delay is not None:
            question = Reschedule(
                at_ms=at_ms,
                who=who,
                op=op,
                topic=target.topic,
                message_id=message_id,
                key=key,
                deliver_ms=None if at is None else epoch_ms(at),
                delay_ms=None if delay is None else delay_ms(delay),
            )
        self._writer.write(question)
        is_open = True
        try:
            yield asked
        except ClientError as error:
            is_open = may_have_been_done(error)
            raise
        finally:
            at_ms, who = self._stamp()
            verdict = Verdict(
                at_ms=at_ms,
                who=who,
                op=op,
                verdict=(
                    asked.verdict.value if asked.verdict else "unknown" if is_open else "refused"
                ),
                message_id=asked.message_id,
                deliver_ms=asked.deliver_ms,
            )
            self._writer.write(verdict)

    def _stamp(self) -> tuple[int, str]:
        return self._writer.clock_ms(), self._writer.who


def _send(one: Addressed, message: OutgoingMessage, at_ms: int, who: str, op: int) -> Send:
    return Send(
        at_ms=at_ms,
        who=who,
        message_id=one.unique_key,
        topic=one.item.topic,
        queue=one.item.queue_id,
        deliver_ms=None if message.at is None else epoch_ms(message.at),
        delay_ms=None if message.delay is None else delay_ms(message.delay),
        level=message.level,
        keys=tuple(message.keys),
        op=op,
    )


def _outcome(
    one: Addressed, outcome: SendReceipt | ClientError | None, at_ms: int, who: str
) -> Event:
    name = one.unique_key
    if isinstance(outcome, SendReceipt) and not outcome.is_durable:
        return Unknown(at_ms=at_ms, who=who, message_id=name, reason=NOT_DURABLE)
    if isinstance(outcome, SendReceipt):
        return Ack(
            at_ms=at_ms,
            who=who,
            message_id=name,
            queue=outcome.queue_id,
            offset=outcome.queue_offset,
            deliver_ms=outcome.deliver_ms,
        )
    if isinstance(outcome, BrokerRefusedError):
        rule = outcome.rule
        return Refused(at_ms=at_ms, who=who, message_id=name, code=outcome.code, rule=rule)
    if outcome is None or may_have_been_done(outcome):
        reason = "" if outcome is None else str(outcome)
        return Unknown(at_ms=at_ms, who=who, message_id=name, reason=reason)
    return Refused(at_ms=at_ms, who=who, message_id=name, rule=NOT_SENT)


def _name(target: PendingMessage) -> tuple[str, str]:
    """Message id and key, one of them empty; of a handle that is none, both."""
    if target.recall_handle is not None:
        return message_id_of(target.recall_handle) or "", ""
    return target.message_id or "", target.key or ""
