"""The tasks of the live screen, against a broker that follows a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC
from io import StringIO
from itertools import pairwise

import attrs
import cbor2
import pytest
import trio
from rich.console import Console
from rich.live import Live
from trio.testing import MockClock

from scripted_server import BROKER, Network, Server, always
from timermq.cli import formatting
from timermq.cli.client_access import ClientAccess
from timermq.cli.top.live import FRAME_INTERVAL, LiveTop
from timermq.cli.top.screen import screen_lines
from timermq.cli.top.silence import next_snapshot
from timermq.cli.top.view import Opened, View
from timermq.cli.top.watched import Watched
from timermq.client import open_watch
from timermq.client.watch import SILENCE_MAX
from timermq.remoting import Command, WatchView
from top_samples import IDLE, NOW_MS

LIST_PENDING, WATCH, UNWATCH = 9002, 9003, 9004
ROW = {
    "deliver_ms": IDLE.from_ms + 37,
    "phy_offset": 0,
    "topic": "Orders",
    "queue_id": 0,
    "unique_id": "U1",
    "keys": "order-1",
    "tags": "",
    "rolls": 0,
}


class CountingLive(Live):
    """A live display that remembers when it was drawn."""

    times: list[float]

    def refresh(self) -> None:
        """Draw, and note the time."""
        self.times = [*getattr(self, "times", []), trio.current_time()]
        super().refresh()


@attrs.frozen(eq=False)
class Shown:
    """A live screen and its broker."""

    top: LiveTop
    live: CountingLive
    server: Server

    async def push(self, *uptimes_ms: int) -> None:
        """Have the broker send pictures."""
        await trio.testing.wait_all_tasks_blocked()
        for uptime_ms in uptimes_ms:
            body = attrs.evolve(IDLE, uptime_ms=uptime_ms).encode()
            await self.server.connections[-1].push(Command(WATCH, flag=2, body=body))
            await trio.testing.wait_all_tasks_blocked()

    def type(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.top.change(lambda view, key=key: view.pressed(key))  # type: ignore[misc]


@asynccontextmanager
async def shown() -> AsyncGenerator[Shown]:
    """A live screen whose tasks run."""
    console = Console(width=80, height=24, file=StringIO(), color_system=None)
    live = CountingLive(console=console, auto_refresh=False)
    async with trio.open_nursery() as nursery:
        network = Network(nursery)
        server = network.server(BROKER, {WATCH: always(), UNWATCH: always()})
        async with trio.open_nursery() as tasks:
            access = ClientAccess(namesrv=BROKER, open_tcp=network.open_stream)
            top = LiveTop(Watched(addresses=(BROKER,)), console, live, tasks, access)
            tasks.start_soon(top.watch)
            tasks.start_soon(top.draw)
            yield Shown(top, live, server)
            tasks.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


def drawn(view: View) -> list[str]:
    """The lines of a screen, by the clock of Greenwich."""
    return [line.plain for line in screen_lines(attrs.evolve(view, zone=UTC))]


def opened(one: Shown) -> Opened:
    """The slot that is open."""
    assert one.top.view.opened is not None
    return one.top.view.opened


async def test_four_frames_a_second(autojump_clock: MockClock) -> None:
    """However much comes, and however fast somebody types."""
    async with shown() as one:
        await one.push(1)
        begun = len(one.live.times)
        for count in range(400):
            one.type("right")
            await one.push(2 + count)
            await trio.sleep(0.01)
        times = one.live.times[begun:]

        assert 15 <= len(times) <= 17
        assert min(new - old for old, new in pairwise(times)) >= FRAME_INTERVAL


async def test_nothing_new_is_not_drawn(autojump_clock: MockClock) -> None:
    """A screen that stands still costs nothing."""
    async with shown() as one:
        await one.push(1)
        one.type("p")
        await trio.sleep(1)
        count = len(one.live.times)
        await trio.sleep(5)

        assert count == len(one.live.times)


async def test_a_broker_that_comes_back(autojump_clock: MockClock) -> None:
    """The screen says that it is gone, tries again, and goes on."""
    async with shown() as one:
        await one.push(1)
        one.server.refuses = True
        await one.server.connections[0].stream.aclose()
        await trio.sleep(10)
        assert "a:10911: cannot connect: no broker at a:10911" == one.top.view.trouble
        assert one.top.view.snapshot is not None

        one.server.refuses = False
        await trio.sleep(1)
        await one.push(2)

        assert one.top.view.trouble is None
        assert 2 == one.top.view.snapshot.uptime_ms


async def test_a_broker_that_stands_still(autojump_clock: MockClock) -> None:
    """Its connection stands and nothing comes: within two seconds the screen says since when."""
    async with shown() as one:
        await one.push(1)
        await trio.sleep(1.9)
        assert not one.top.view.is_silent
        await one.push(2)
        await trio.sleep(1.9)
        assert not one.top.view.is_silent

        await trio.sleep(0.2)
        assert one.top.view.is_silent
        head, alert = drawn(one.top.view)[:2]
        assert head.rstrip().endswith("no answer since 10:03:07")
        assert alert.startswith("! no answer since 10:03:07: these numbers are old")
        drawn_before = len(one.live.times)
        await trio.sleep(5)
        assert drawn_before == len(one.live.times)

        await one.push(3)
        assert not one.top.view.is_silent
        assert drawn(one.top.view)[0].rstrip().endswith("live")


async def test_a_pause_is_no_silence(autojump_clock: MockClock) -> None:
    """Nothing is to come; what is missing counts from the end of the pause."""
    async with shown() as one:
        await one.push(1)
        one.type("p")
        await trio.sleep(9)
        one.type("p")
        await trio.sleep(1.9)
        assert not one.top.view.is_silent

        await trio.sleep(2)
        assert one.top.view.is_silent


async def test_a_broker_that_stands_still_is_reconnected_to(autojump_clock: MockClock) -> None:
    """The silence does not keep the connection alive: it is lost when it was always lost."""
    async with shown() as one:
        await one.push(1)
        await trio.sleep(SILENCE_MAX + 3)

        assert len(one.server.connections) == 2
        assert "no snapshot within" in (one.top.view.trouble or "")
        assert drawn(one.top.view)[0].rstrip().endswith("reconnecting…")


async def test_one_picture_that_does_not_come(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard error says so after two seconds; what comes late is shown all the same."""
    async with trio.open_nursery() as nursery:
        network = Network(nursery)
        server = network.server(BROKER, {WATCH: always()})
        async with open_watch(BROKER, WatchView(), open_stream=network.open_stream) as watch:
            said: list[str] = []

            async def answer_late() -> None:
                await trio.sleep(1.9)
                said.append(capsys.readouterr().err)
                await trio.sleep(3)
                said.append(capsys.readouterr().err)
                await server.connections[0].push(Command(WATCH, flag=2, body=IDLE.encode()))

            nursery.start_soon(answer_late)
            found = await next_snapshot(watch, BROKER, lambda: NOW_MS)
        nursery.cancel_scope.cancel()

    since = formatting.clock_time(NOW_MS, None)
    assert IDLE == found
    assert ["", f"timermq: {BROKER}: no answer since {since}; waiting\n"] == said


async def test_zoom_and_pause_are_asked_for(autojump_clock: MockClock) -> None:
    """Each is one request over the same connection; a pause has the broker stop."""
    async with shown() as one:
        await one.push(1)
        for keys in (("-",), ("-", "-"), ("p",), ("p",), ("/", "O", "enter")):
            one.type(*keys)
            await trio.testing.wait_all_tasks_blocked()

        asked = [
            WatchView.decode(command.body) if command.code == WATCH else None
            for command in one.server.received
        ]
        assert [1_000, 10_000, 600_000, None, 600_000, 600_000] == [
            None if view is None else view.width_ms for view in asked
        ]
        assert asked[-1] is not None
        assert "O" == asked[-1].topic
        assert 1 == len(one.server.connections)


async def test_a_pause_outlasts_the_broker(autojump_clock: MockClock) -> None:
    """A connection that is made meanwhile is told to be silent."""
    async with shown() as one:
        await one.push(1)
        one.type("p")
        await trio.testing.wait_all_tasks_blocked()
        await one.server.connections[0].stream.aclose()
        await trio.sleep(1)

        assert [WATCH, UNWATCH, WATCH, UNWATCH] == [one.code for one in one.server.received]


async def test_a_slot_is_read(autojump_clock: MockClock) -> None:
    """Page after page; its messages are due after its beginning and up to its end."""
    pages = [
        {"rows": [ROW, {**ROW, "unique_id": "U2", "topic": "Other"}], "next": [1, 2, 3, 4, 5]},
        {"rows": [{**ROW, "unique_id": "U3", "deliver_ms": IDLE.from_ms + 5}], "next": None},
    ]

    async def answer(command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        after = cbor2.loads(command.body)["after"]
        return command.answer(0, body=cbor2.dumps(pages[0 if after is None else 1]))

    async with shown() as one:
        one.server.handlers[LIST_PENDING] = answer
        await one.push(1)
        one.type("/", "O", "r", "d", "enter", "enter")
        assert opened(one).rows is None
        await trio.sleep(1)

        assert ["U3", "U1"] == [row.unique_id for row in opened(one).rows or ()]
        assert opened(one).is_whole
        first, second = (cbor2.loads(one.body) for one in one.server.requests(LIST_PENDING))
        assert [IDLE.from_ms + 1, IDLE.from_ms + 1_001] == first["between"]
        assert [1, 2, 3, 4, 5] == second["after"]


async def test_a_slot_that_cannot_be_read(autojump_clock: MockClock) -> None:
    """The reason is shown, and the screen lives on."""
    async with shown() as one:
        one.server.handlers[LIST_PENDING] = always(2, remark="CONNECTION_TASKS_MAX: busy")
        await one.push(1)
        one.type("enter")
        await trio.sleep(1)
        assert "refused with code 2: CONNECTION_TASKS_MAX: busy" == opened(one).fault

        one.server.handlers[LIST_PENDING] = always(body=b"\xff")
        one.type("escape", "enter")
        await trio.sleep(1)
        assert (opened(one).fault or "").startswith("a:10911: pending timers: ")
