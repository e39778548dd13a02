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
from timermq.remoting.field import integer, text

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
        wanted, deliver_ms = self._wanted(command), _deliver_ms(command, now_ms)
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

    def _wanted(self, command: Command) -> Wanted:
        topic = text(command, "topic")
        names = ("recallHandle", "uniqueKey", "key")
        given = [(name, command.ext[name]) for name in names if command.ext.get(name)]
        if len(given) != 1:
            raise illegal(
                "CANCEL_TARGET", f"expected one of {', '.join(names)}, found {len(given)}"
            )
        ((name, value),) = given
        if name != "recallHandle":
            return Wanted(topic, value, is_unique_key=name == "uniqueKey")
        handle = read_handle(value)
        check_addressed(handle, topic, self.options.broker_name)
        return Wanted(topic, handle.unique_key)

    def _facts(self, wanted: Wanted, asked_ms: int | None, result: CancelResult) -> dict[str, str]:
        facts = {"verdict": result.verdict.value, "uniqueKey": result.unique_key}
        if asked_ms is None or result.verdict is not Verdict.CANCELLED:
            return facts
        if result.out_ms is None or result.deliver_ms is None:
            # It was cancelled before: there is nothing to move.
            return facts | {"verdict": Verdict.NOT_FOUND.value}
        return facts | {
            "verdict": MOVED,
            "deliverMs": str(result.deliver_ms),
            "recallHandle": encode_handle(
                wanted.topic, self.options.broker_name, result.out_ms + 1, result.unique_key
            ),
        }


def _deliver_ms(command: Command, now_ms: int) -> int | None:
    """The new moment, None to cancel."""
    moment = integer(command, "deliverMs", default=-1)
    delay = integer(command, "delayMs", default=-1)
    if moment >= 0 and delay >= 0:
        raise illegal("CANCEL_MOMENT", "expected one of deliverMs and delayMs, found both")
    if moment < 0 and delay < 0:
        asked = [name for name in ("deliverMs", "delayMs") if command.ext.get(name)]
        if asked:
            raise illegal("TIMER_NEGATIVE", f"{asked[0]} is negative")
        return None
    return moment if moment >= 0 else now_ms + delay
