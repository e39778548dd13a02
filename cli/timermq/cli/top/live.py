"""The screen in a terminal: what comes from the brokers and from the keys, drawn when it changes.

Each task changes the view by one of its functions and wakes the drawing, which takes a frame at
most four times a second. Nothing is drawn by a second thread.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

import attrs
import trio
from rich.console import Console
from rich.live import Live

from timermq.client import ClientError
from timermq.remoting import Snapshot, WatchView

from ..client_access import ClientAccess
from .broker_watch import BrokerWatch
from .screen import screen
from .slot_reader import join_slots, read_slot
from .terminal import keys_at_once, typed_keys
from .view import Opened, View
from .watched import Watched

FRAME_INTERVAL = 0.25
"""Seconds between two frames."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)


async def run_live(addresses: Sequence[str], access: ClientAccess) -> bool:
    """Show brokers in this terminal until somebody quits.

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
            top = LiveTop(Watched(addresses=tuple(addresses)), console, live, nursery, access)
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
    """The tasks of a screen in a terminal.

    Args:
        watched: The brokers.
        console: Knows the size of the terminal.
        live: Draws.
        nursery: Runs the tasks that read slots; cancelled at the end.
        access: How to connect to the brokers.
    """

    def __init__(
        self,
        watched: Watched,
        console: Console,
        live: Live,
        nursery: trio.Nursery,
        access: ClientAccess,
    ) -> None:
        self.watched = watched
        self.view = View(address=watched.name)
        self._console = console
        self._live = live
        self._nursery = nursery
        self._links = access.links(nursery)
        self._changed = trio.Event()
        self._watches = [BrokerWatch(one, access, self) for one in watched.addresses]

    def change(self, change: Callable[[View], View]) -> None:
        """Change the view, and start what the change asks for: drawing, other views, a slot."""
        before, self.view = self.view, change(self.view)
        self._changed.set()
        if self.view.is_done:
            self._nursery.cancel_scope.cancel()
        if self.view.wanted() != before.wanted():
            for one in self._watches:
                one.wants_changed()
        opened = self.view.opened
        if opened is not None and opened.rows is None and opened is not before.opened:
            self._nursery.start_soon(self._read_slot, opened, self.view.topic)

    async def watch(self) -> None:
        """Watch all brokers for ever."""
        async with trio.open_nursery() as nursery:
            for one in self._watches:
                nursery.start_soon(one.run)

    def wanted(self) -> WatchView | None:
        """The view that the brokers are asked for; None: none."""
        return self.view.wanted()

    def take_snapshot(self, address: str, snapshot: Snapshot) -> None:
        """Show the newest picture of a broker."""
        self.watched = self.watched.with_snapshot(address, snapshot)
        self.change(partial(self.watched.shown_by, is_picture=True))

    def take_trouble(self, address: str, trouble: str) -> None:
        """Say that a broker is not reached."""
        self.watched = self.watched.with_trouble(address, trouble)
        self.change(partial(self.watched.shown_by, is_picture=False))

    def take_silence(self, address: str) -> None:
        """Say that a broker answers no more."""
        self.watched = self.watched.with_silence(address)
        self.change(partial(self.watched.shown_by, is_picture=False))

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

    async def _read_slot(self, opened: Opened, topic: str) -> None:
        """Read the messages of a slot; they are shown if it still is the one that is open."""
        parts: dict[str, Opened] = {}

        async def read(address: str) -> None:
            try:
                parts[address] = await read_slot(self._links, address, opened, topic)
            except ClientError as error:
                parts[address] = attrs.evolve(opened, fault=str(error), rows=())

        async with trio.open_nursery() as nursery:
            for address in self.watched.addresses:
                nursery.start_soon(read, address)
        whole = join_slots([parts[one] for one in self.watched.addresses])
        self.change(partial(View.with_messages, asked=opened, read=whole))
