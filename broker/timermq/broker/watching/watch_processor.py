"""WATCH and UNWATCH (9003, 9004): snapshots for watchers, at most four a second.

One task makes them. Without watchers it sleeps and costs nothing. Otherwise it reads the
broker once a tick, for any number of watchers, and sends each the parts that its view asks for. A
tick that took long makes the next one wait accordingly: watching never takes more than a part of
the broker's time.

Frames are not queued for a watcher: one that has not read its last frame gets none in that tick,
and the next one shows the present again.
"""

from __future__ import annotations

import attrs
import structlog
import trio

from timermq.remoting.codes import FLAG_ONEWAY, LanguageCode, RequestCode, ResponseCode
from timermq.remoting.command import Coding, Command
from timermq.remoting.watch import INTERVAL_MIN_MS, WatchView

from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from .watch_snapshot import SnapshotSource

TICK = INTERVAL_MIN_MS / 1000
"""Seconds between two snapshots at the highest rate."""
COST_DIVISOR = 50
"""The part of the broker's time that ticks may take: two per cent."""

log = structlog.get_logger("timermq.broker.watching.watch_processor")


@attrs.define(eq=False, kw_only=True)
class _Watcher:
    """One connection that is sent snapshots."""

    session: Session
    view: WatchView
    opaque: int
    """``opaque`` of its newest WATCH; the pushes have it too."""
    coding: Coding
    due: float = 0.0
    """trio's time of its next snapshot."""

    def push(self, body: bytes) -> Command:
        return Command(
            RequestCode.WATCH,
            opaque=self.opaque,
            flag=FLAG_ONEWAY,
            language=LanguageCode.JAVA,
            coding=self.coding,
            body=body,
        )


@attrs.define(eq=False, kw_only=True)
class WatchProcessor:
    """The processor, and the task that sends."""

    options: BrokerOptions
    source: SnapshotSource
    _watchers: dict[Session, _Watcher] = attrs.field(factory=dict[Session, _Watcher], init=False)
    _joined: trio.Event = attrs.field(factory=trio.Event, init=False)
    readings: int = attrs.field(default=0, init=False)
    """Pictures made since the start."""

    @property
    def watchers(self) -> int:
        """Connections that are sent snapshots."""
        return len(self._watchers)

    def watch(self, session: Session, command: Command) -> Command | None:
        """Begin to send snapshots to a connection, or change what they show."""
        view = WatchView.decode(command.body)
        self._drop_closed()
        if session not in self._watchers and len(self._watchers) >= self.options.watchers_max:
            raise RefusedError(
                ResponseCode.SYSTEM_BUSY,
                "WATCHERS_MAX",
                f"[OVERLOAD] {self.options.watchers_max} connections watch this broker",
            )
        self._watchers[session] = _Watcher(
            session=session, view=view, opaque=command.opaque, coding=command.coding
        )
        self._joined.set()
        return command.answer(ResponseCode.SUCCESS)

    def unwatch(self, session: Session, command: Command) -> Command | None:
        """Send no more snapshots to a connection; success even if there were none."""
        self._watchers.pop(session, None)
        return command.answer(ResponseCode.SUCCESS)

    async def run(self) -> None:
        """Send snapshots for ever.

        Cancellation: nothing was promised.
        """
        self.source.start()
        while True:
            self._drop_closed()
            if not self._watchers:
                self._joined = trio.Event()
                await self._joined.wait()
            started = trio.current_time()
            self._tick(started)
            cost = trio.current_time() - started
            await trio.sleep(max(TICK, cost * COST_DIVISOR))

    def _tick(self, now: float) -> None:
        """Send one snapshot to all watchers whose turn it is and that have room for it."""
        due = [
            one for one in self._watchers.values() if one.due <= now and not one.session.unread()
        ]
        if not due:
            return
        try:
            snapshot = self.source.read()
            self.readings += 1
            for watcher in due:
                watcher.session.send(watcher.push(snapshot.body(watcher.view)))
                # Half a tick early is better than a whole one late.
                watcher.due = now + watcher.view.interval_ms / 1000 - TICK / 2
        except Exception:
            # A watcher must not end the broker, nor fill its log four times a second.
            log.exception("no snapshot", watchers=len(self._watchers))
            for watcher in due:
                watcher.session.close("no snapshot can be made, see the log")
            self._watchers.clear()

    def _drop_closed(self) -> None:
        for session in [session for session in self._watchers if not session.is_open]:
            del self._watchers[session]
