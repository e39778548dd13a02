"""CLOCK (9007): how the broker judges its wall clock, and the operator's confirmation of it."""

from __future__ import annotations

import attrs
import structlog

from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.clock_report import ClockHeader, ClockReport
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command

from ..session import Session

log = structlog.get_logger("timermq.broker.watching.clock_processor")


@attrs.frozen(kw_only=True)
class ClockProcessor:
    """The processor of one request code."""

    clock: WatchedClock
    timer_store: TimerMessageStore

    def handle(self, session: Session, command: Command) -> Command:
        """The state of the clock, after it was accepted if the request says so.

        Raises:
            RemoteProtocolError: ``accept`` is no truth value.
        """
        rewinds = False
        status = self.clock.status()
        if ClockHeader.of(command).accept:
            log.warning("clock accepted", remote=session.remote_address, state=status.state)
            status = self.clock.accept()
            rewinds = self.timer_store.rewind()
        report = ClockReport(
            state=status.state.value,
            fault=None if status.fault is None else status.fault.value,
            now_ms=status.now_ms,
            wall_ms=status.wall_ms,
            off_ms=status.off_ms,
            since_ms=status.since_ms,
            believed_in_ms=status.believed_in_ms,
            steps_forward=status.steps_forward,
            steps_backward=status.steps_backward,
            last_step_ms=status.last_step_ms,
            last_step_at_ms=status.last_step_at_ms,
            drift_ppm=status.drift_ppm,
            read_ms=self.timer_store.state.read_ms,
            rewinds=rewinds,
        )
        return command.answer(ResponseCode.SUCCESS, body=report.encode())
