"""The watch of one broker for a screen: connected again and again, and heard until it is silent."""

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
    """What a watch tells of its broker, and what it asks of it."""

    def wanted(self) -> WatchView | None:
        """The view to ask the broker for; None: it is to send nothing."""
        ...

    def take_snapshot(self, address: str, snapshot: Snapshot) -> None:
        """A picture of the broker has come."""
        ...

    def take_trouble(self, address: str, trouble: str) -> None:
        """The connection is gone, or none can be had."""
        ...

    def take_silence(self, address: str) -> None:
        """The connection stands, and nothing comes."""
        ...


class BrokerWatch:
    """The tasks that watch one broker.

    Args:
        address: Its ``host:port``.
        access: How it is come in.
        audience: Takes what comes.
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
        """Take snapshots for ever; when the broker is gone, try again until it is back."""
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
        """Have the broker send what the view wants, or nothing."""
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
        """Say that the picture is old when no other one comes, until one does."""
        self._heard_at = trio.current_time()
        while True:
            await trio.sleep_until(self._heard_at + SILENCE_SHOWN)
            if self._audience.wanted() is None:
                self._heard_at = trio.current_time()
            elif trio.current_time() - self._heard_at >= SILENCE_SHOWN:
                self._heard = trio.Event()
                self._audience.take_silence(self._address)
                await self._heard.wait()
