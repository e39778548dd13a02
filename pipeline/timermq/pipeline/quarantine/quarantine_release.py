"""The release of a message in quarantine by an operator: retried, or discarded.

Both answer what became of the entry, even if another request ended it, and answer it again when
asked again. A message that still cannot be delivered is kept, and the answer says why.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from ..admission.admission import Refusal, TimerAdmission
from ..clock.clock import Clock
from ..records.undeliverable import TimerRecordError
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .quarantine import Quarantine
from .quarantine_record import Entry, State
from .retried_message import retried_message


class Verdict(enum.Enum):
    """What a request to retry or drop a message of the quarantine has done."""

    RETRIED = "retried"
    """The message is on its topic, or waits for its moment, if that is still to come."""
    DROPPED = "dropped"
    CANCELLED = "cancelled"
    """Its producer cancelled it."""
    KEPT = "kept"
    """It is in quarantine: the message cannot be delivered, or the store takes nothing now."""
    NOT_FOUND = "not_found"
    """No message with this name is in quarantine, nor was lately."""


@attrs.frozen(kw_only=True)
class Released:
    """The verdict, and when it may be told."""

    verdict: Verdict
    end: int
    """Position up to which the log has to be durable before the verdict is told."""
    text: str = ""
    """Why it was kept, or that it had ended before: nothing was done now, whatever was asked."""
    deliver_ms: int | None = None
    """The moment for which a message that was retried waits; None when it waits no more."""


@attrs.frozen(eq=False, kw_only=True)
class QuarantineRelease:
    """Ends entries of one running service; plain code."""

    quarantine: Quarantine
    admission: TimerAdmission
    state: TimerState
    options: TimerOptions
    clock: Clock
    log_end: Callable[[], int]
    """End of the commit log."""

    def retry(
        self, origin_py: int, *, by: str, topic: str | None = None, queue_id: int | None = None
    ) -> Released:
        """Send the message through admission again, under its unique key, once.

        A message that its producer has cancelled by a delete is not sent: its entry ends.

        Args:
            origin_py: The entry.
            by: Who asks.
            topic: Where it is to go; None: where it asked to go.
            queue_id: Its queue there; None: the one it asked for.
        """
        entry = self._active(origin_py)
        if entry is None:
            return self._ended(origin_py)
        cancelled = self.quarantine.end_cancelled(entry)
        if cancelled is not None:
            if cancelled.refusal is not None:
                return self._kept(cancelled.refusal)
            text = "a delete of its producer stands in the store"
            return Released(verdict=Verdict.CANCELLED, end=cancelled.end, text=text)
        now_ms = self.clock.now_ms()
        try:
            message = retried_message(
                entry,
                topic=topic,
                queue_id=queue_id,
                precision_ms=self.options.timer_precision_ms,
            )
        except TimerRecordError as error:
            return self._kept(str(error))
        admitted = self.admission.admit(message, now_ms)
        if isinstance(admitted, Refusal):
            return self._kept(admitted.remark)
        waits = admitted.out_ms is not None
        if admitted.deliver_ms is not None and waits:
            self.state.expect(admitted.deliver_ms, now_ms)
        done = self.quarantine.end(origin_py, State.RETRIED, by, admitted.message)
        if done.refusal is not None:
            return self._kept(done.refusal)
        return Released(
            verdict=Verdict.RETRIED,
            end=done.end,
            deliver_ms=admitted.deliver_ms if waits else None,
        )

    def drop(self, origin_py: int, *, by: str) -> Released:
        """Let the message go: it never arrives.

        Args:
            origin_py: The entry.
            by: Who asks; it is noted in the store.
        """
        if self._active(origin_py) is None:
            return self._ended(origin_py)
        done = self.quarantine.end(origin_py, State.DROPPED, by)
        if done.refusal is not None:
            return self._kept(done.refusal)
        return Released(verdict=Verdict.DROPPED, end=done.end)

    def _active(self, origin_py: int) -> Entry | None:
        is_active = self.quarantine.state(origin_py) is State.ACTIVE
        return self.quarantine.entry(origin_py) if is_active else None

    def _ended(self, origin_py: int) -> Released:
        state = self.quarantine.state(origin_py)
        verdict = Verdict.NOT_FOUND if state is None else _VERDICTS[state]
        text = "" if verdict is Verdict.NOT_FOUND else "before; nothing was done now"
        return Released(verdict=verdict, end=self.log_end(), text=text)

    def _kept(self, text: str) -> Released:
        return Released(verdict=Verdict.KEPT, end=self.log_end(), text=text)


_VERDICTS = {
    State.ACTIVE: Verdict.NOT_FOUND,
    State.RETRIED: Verdict.RETRIED,
    State.DROPPED: Verdict.DROPPED,
    State.CANCELLED: Verdict.CANCELLED,
}
"""An active entry that cannot be read is none."""
