"""The watch of one broker for a screen: it connects again when it has to, and notices silence."""

from __future__ import annotations

from typing import Protocol

import trio

from timermq.client import BrokerRefusedError, NoAnswerError, Watch
from timermq.remoting import Snapshot, WatchView
from timermq.remoting.causes import first_cause

from ..client_access import ClientAccess
from .silence import SILENCE_SHOWN

RETRY_INTERVAL = 0.5
"""Seconds before connecting again."""


class Audience(Protocol):
    """What a watch reports to, and asks which view is wanted."""

    def wanted(self) -> WatchView | None:
        """The view to ask the broker for; None: the broker is to send nothing."""
        ...

    def take_snapshot(self, address: str, snapshot: Snapshot) -> None:
        """Take a snapshot that the broker has sent."""
        ...

    def take_trouble(self, address: str, trouble: str) -> None:
        """Take note that there is no connection, and why."""
        ...

    def take_silence(self, address: str) -> None:
        """Take note that nothing comes over the connection."""
        ...


class BrokerWatch:
    """The tasks that watch one broker.

    Args:
        address: Its ``host:port``.
        access: How to connect to it.
        audience: Gets what comes.
    """

    def __init__(self, address: str, access: ClientAccess, audience: Audience) -> None:
        self._address = address
        self._access = access
        self._audience = audience
        self._wants_changed = trio.Event()
        self._heard_at = 0.0
        """trio's time of the last snapshot, or of the last request for others."""
        self._heard = trio.Event()

    def wants_changed(self) -> None:
        """Ask the broker for the view that is wanted now."""
        self._wants_changed.set()

    async def run(self) -> None:
        """Take snapshots until cancelled; while the broker is gone, try again to connect."""
        while True:
            try:
                asked = self._audience.wanted() or WatchView()
                async with (
                    self._access.watch(self._address, asked) as watch,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(self._ask, watch, asked)
                    nursery.start_soon(self._receive, watch)
                    nursery.start_soon(self._notice_silence)
            except* (NoAnswerError, BrokerRefusedError) as group:
                self._audience.take_trouble(self._address, str(first_cause(group)))
            await trio.sleep(RETRY_INTERVAL)

    async def _ask(self, watch: Watch, asked: WatchView | None) -> None:
        """Ask the broker for the view that is wanted, each time that it changes."""
        while True:
            self._wants_changed = trio.Event()
            wanted = self._audience.wanted()
            if wanted != asked:
                asked = wanted
                self._heard_at = trio.current_time()
                await (watch.stop() if wanted is None else watch.change(wanted))
            await self._wants_changed.wait()

    async def _receive(self, watch: Watch) -> None:
        while True:
            snapshot = await watch.receive()
            self._heard_at = trio.current_time()
            self._heard.set()
            self._audience.take_snapshot(self._address, snapshot)

    async def _notice_silence(self) -> None:
        """Report silence when no snapshot has come for ``SILENCE_SHOWN``, once until one comes."""
        self._heard_at = trio.current_time()
        while True:
            await trio.sleep_until(self._heard_at + SILENCE_SHOWN)
            if self._audience.wanted() is None:
                self._heard_at = trio.current_time()
            elif trio.current_time() - self._heard_at >= SILENCE_SHOWN:
                self._heard = trio.Event()
                self._audience.take_silence(self._address)
                await self._heard.wait()
