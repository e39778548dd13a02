"""CANCEL_MESSAGE (9005): cancels a pending message, or gives it another moment.

Beyond a recall, the answer is one of several verdicts and not an error; and the message is found by
its handle, its unique key, or a key that one pending message has.

==============  =================================================================================
asked           ``topic``; one of ``recallHandle``, ``uniqueKey``, ``key``; to move it, one of
                ``deliverMs`` (epoch milliseconds) and ``delayMs``
answered        ``verdict`` (cancelled, moved, too_late, not_found), ``uniqueKey``; when moved,
                ``deliverMs`` and the new ``recallHandle``
==============  =================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.pipeline.cancel.cancellation import CancelResult
from timermq.pipeline.records.cancel_verdict import CancelError, Verdict, Wanted
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.recall_header import CancelHeader

from ..durable_answers import DurableAnswers
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from .recall_processor import check_addressed, check_recall, illegal, read_handle

MOVED = "moved"


@attrs.frozen(eq=False, kw_only=True)
class CancelProcessor:
    """Cancels and moves pending messages."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    durable: DurableAnswers
    now_ms: Callable[[], int]

    def handle(self, session: Session, command: Command) -> Command | None:
        """The verdict, as soon as it is durable."""
        now_ms = self.now_ms()
        check_recall(self.options, now_ms)
        header = CancelHeader.of(command)
        wanted, deliver_ms = self._wanted(header), _deliver_ms(header, now_ms)
        cancellation = self.timer_store.cancellation
        try:
            result = (
                cancellation.cancel(wanted)
                if deliver_ms is None
                else cancellation.reschedule(wanted, deliver_ms)
            )
        except CancelError as error:
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, error.rule, error.text) from error
        answer = command.answer(ResponseCode.SUCCESS, ext=self._facts(wanted, deliver_ms, result))
        return self.durable.answer(session, answer, result.end)

    def _wanted(self, header: CancelHeader) -> Wanted:
        topic, unique_key, key = header.topic, header.unique_key, header.key
        found = sum(map(bool, (header.recall_handle, unique_key, key)))
        if found != 1:
            raise illegal(
                "CANCEL_TARGET", f"expected one of recallHandle, uniqueKey, key, found {found}"
            )
        if not header.recall_handle:
            return Wanted(topic, unique_key or key or "", is_unique_key=bool(unique_key))
        handle = read_handle(header.recall_handle)
        check_addressed(handle, topic, self.options.broker_name)
        return Wanted(topic, handle.unique_key)

    def _facts(self, wanted: Wanted, asked_ms: int | None, result: CancelResult) -> dict[str, str]:
        facts = {"verdict": result.verdict.value, "uniqueKey": result.unique_key}
        if asked_ms is None or result.verdict is not Verdict.CANCELLED:
            return facts
        if result.out_ms is None or result.deliver_ms is None or result.record_key is None:
            # It was cancelled before: there is nothing to move.
            return facts | {"verdict": Verdict.NOT_FOUND.value}
        return facts | {
            "verdict": MOVED,
            "deliverMs": str(result.deliver_ms),
            "recallHandle": encode_handle(
                wanted.topic, self.options.broker_name, result.out_ms + 1, result.record_key
            ),
        }


def _deliver_ms(header: CancelHeader, now_ms: int) -> int | None:
    """The new moment, None to cancel."""
    moment, delay = header.deliver_ms, header.delay_ms
    if moment is None and delay is None:
        return None
    if moment is not None and delay is not None and moment >= 0 and delay >= 0:
        raise illegal("CANCEL_MOMENT", "expected one of deliverMs and delayMs, found both")
    if moment is not None and moment >= 0:
        return moment
    if delay is not None and delay >= 0:
        return now_ms + delay
    name = "delayMs" if moment is None else "deliverMs"
    raise illegal("TIMER_NEGATIVE", f"{name} is negative")
