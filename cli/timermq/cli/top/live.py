"""The screen in a terminal: what comes from the broker and from the keys, drawn when it changes.

Each task changes the view by one of its functions and wakes the drawing, which takes a frame at
most four times a second. Nothing is drawn by a second thread.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial

import attrs
import trio
from rich.console import Console
from rich.live import Live

from timermq.client import (
    BrokerRefusedError,
    ClientError,
    NoAnswerError,
    Watch,
)
from timermq.remoting import WatchView
from timermq.remoting.causes import first_cause

from ..client_access import ClientAccess
from .screen import screen
from .silence import SILENCE_SHOWN
from .slot_reader import read_slot
from .terminal import keys_at_once, typed_keys
from .view import Opened, View

FRAME_INTERVAL = 0.25
"""Seconds between two frames."""
RETRY_INTERVAL = 0.5
"""Seconds before connecting again."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)


async def run_live(address: str, access: ClientAccess) -> bool:
    """Show a broker in this terminal until somebody quits.

    Returns:
        Whether it was left by a key; else by a signal.
    """
    console = Console(file=sys.stdout, highlight=False)
    descriptor = sys.stdin.fileno()
    with (
        trio.open_signal_receiver(*SIGNALS) as signals,
        keys_at_once(descriptor),
        Live(
            console=console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as live,
    ):
        async with trio.open_nursery() as nursery:
            top = LiveTop(View(address=address), console, live, nursery, access)
            nursery.start_soon(top.watch, name="watch")
            nursery.start_soon(top.draw, name="draw")
            nursery.start_soon(top.take_keys, descriptor, name="keys")
            async for number in signals:
                if number != signal.SIGWINCH:
                    nursery.cancel_scope.cancel()
                    break
                top.change(lambda view: view)
    return top.view.is_done


class LiveTop:
    """The tasks of a screen that somebody looks at.

    Args:
        view: The first state.
        console: Knows the size of the terminal.
        live: Draws.
        nursery: Where slots are read; cancelled to make an end.
        access: How it comes in.
    """

    def __init__(
        self,
        view: View,
        console: Console,
        live: Live,
        nursery: trio.Nursery,
        access: ClientAccess,
    ) -> None:
        self.view = view
        self._console = console
        self._live = live
        self._nursery = nursery
        self._access = access
        self._links = access.links(nursery)
        self._changed = trio.Event()
        self._wants_changed = trio.Event()
        self._heard_at = 0.0
        """trio's time of the last snapshot, or of the last request for others."""
        self._heard = trio.Event()

    def change(self, change: Callable[[View], View]) -> None:
        """Make the next state, and see to what follows from it."""
        before, self.view = self.view, change(self.view)
        self._changed.set()
        if self.view.is_done:
            self._nursery.cancel_scope.cancel()
        if self.view.wanted() != before.wanted():
            self._wants_changed.set()
        opened = self.view.opened
        if opened is not None and opened.rows is None and opened is not before.opened:
            self._nursery.start_soon(self._read_slot, opened, self.view.topic)

    async def watch(self) -> None:
        """Take snapshots for ever; when the broker is gone, try again until it is back."""
        while True:
            try:
                asked = self.view.wanted() or WatchView()
                async with (
                    self._access.watch(self.view.address, asked) as watch,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(self._ask, watch, asked)
                    nursery.start_soon(self._receive, watch)
                    nursery.start_soon(self._notice_silence)
            except* (NoAnswerError, BrokerRefusedError) as group:
                self.change(partial(View.with_trouble, trouble=str(first_cause(group))))
            await trio.sleep(RETRY_INTERVAL)

    async def take_keys(self, descriptor: int) -> None:
        """Do what the keys say."""
        async for key in typed_keys(descriptor):
            self.change(partial(View.pressed, key=key))
        self._nursery.cancel_scope.cancel()  # the screen is gone

    async def draw(self) -> None:
        """Draw the newest state whenever there is one, and rest between two frames."""
        while True:
            self._changed = trio.Event()
            self.view = self.view.with_size(*self._console.size)
            self._live.update(screen(self.view), refresh=True)
            await trio.sleep(FRAME_INTERVAL)
            await self._changed.wait()

    async def _ask(self, watch: Watch, asked: WatchView | None) -> None:
        """Have the broker send what the view wants, or nothing."""
        while True:
            self._wants_changed = trio.Event()
            wanted = self.view.wanted()
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
            self.change(partial(View.with_snapshot, snapshot=snapshot))

    async def _notice_silence(self) -> None:
        """Say that the picture is old when no other one comes, until one does."""
        self._heard_at = trio.current_time()
        while True:
            await trio.sleep_until(self._heard_at + SILENCE_SHOWN)
            if self.view.wanted() is None:
                self._heard_at = trio.current_time()
            elif trio.current_time() - self._heard_at >= SILENCE_SHOWN:
                self._heard = trio.Event()
                self.change(View.with_silence)
                await self._heard.wait()

    async def _read_slot(self, opened: Opened, topic: str) -> None:
        """Read the messages of a slot; they are shown if it still is the one that is open."""
        try:
            read = await read_slot(self._links, self.view.address, opened, topic)
        except ClientError as error:
            read = attrs.evolve(opened, fault=str(error), rows=())
        self.change(partial(View.with_messages, asked=opened, read=read))
