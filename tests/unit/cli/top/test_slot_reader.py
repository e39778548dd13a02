"""A slot of several brokers as one, and the screen that reads it."""

from __future__ import annotations

from io import StringIO

import attrs
import cbor2
import trio
from rich.console import Console
from rich.live import Live
from trio.testing import MockClock

from scripted_server import Network, always
from timermq.cli.client_access import ClientAccess
from timermq.cli.top.live import LiveTop
from timermq.cli.top.slot_reader import ROWS_MAX, join_slots
from timermq.cli.top.view import Opened, PendingRow
from timermq.cli.top.watched import Watched
from timermq.remoting import Command
from top_samples import IDLE

LIST_PENDING, WATCH = 9002, 9003
ADDRESSES = ("a:10911", "b:10911")


def slot(*dues_ms: int, is_whole: bool = True, fault: str | None = None) -> Opened:
    """A slot with messages of these moments."""
    rows = tuple(
        PendingRow(deliver_ms=due, topic="T", unique_id=f"U{due}", keys="", tags="", rolls=0)
        for due in dues_ms
    )
    return Opened(from_ms=0, to_ms=9_000, rows=rows, is_whole=is_whole, fault=fault)


def test_messages_stand_by_their_moments() -> None:
    """All of them, and the whole is whole when each part is."""
    joined = join_slots([slot(1, 5), slot(2, 9, is_whole=False)])

    assert [1, 2, 5, 9] == [row.deliver_ms for row in joined.rows or ()]
    assert not joined.is_whole
    assert join_slots([slot(1), slot(2)]).is_whole


def test_no_more_than_a_screen_lists() -> None:
    """Two parts that are whole are too much together."""
    joined = join_slots([slot(*range(ROWS_MAX)), slot(0)])

    assert (ROWS_MAX, False) == (len(joined.rows or ()), joined.is_whole)


def test_a_broker_that_does_not_tell() -> None:
    """Its reason is shown: what the other one has is not all."""
    assert join_slots([slot(1), slot(fault="b: gone")]).fault == "b: gone"


async def test_two_brokers_on_a_screen(autojump_clock: MockClock) -> None:
    """Their pictures are one, and an opened slot has the messages of both."""

    async def pending(command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        row = {
            "deliver_ms": IDLE.from_ms + 7, "phy_offset": 0, "topic": "T", "queue_id": 0,
            "unique_id": "U", "keys": "", "tags": "", "rolls": 0,
        }  # fmt: skip
        return command.answer(0, body=cbor2.dumps({"rows": [row], "next": None}))

    console = Console(width=80, height=24, file=StringIO(), color_system=None)
    async with trio.open_nursery() as nursery:
        network = Network(nursery)
        servers = [
            network.server(one, {WATCH: always(), LIST_PENDING: pending}) for one in ADDRESSES
        ]
        async with trio.open_nursery() as tasks:
            access = ClientAccess(namesrv=ADDRESSES[0], open_tcp=network.open_stream)
            live = Live(console=console, auto_refresh=False)
            top = LiveTop(Watched(addresses=ADDRESSES), console, live, tasks, access)
            tasks.start_soon(top.watch)
            await trio.testing.wait_all_tasks_blocked()
            for server in servers:
                body = attrs.evolve(IDLE, pending=2).encode()
                await server.connections[0].push(Command(WATCH, flag=2, body=body))
            await trio.testing.wait_all_tasks_blocked()
            top.change(lambda view: view.pressed("enter"))
            await trio.sleep(1)

            assert top.view.snapshot is not None
            assert 4 == top.view.snapshot.pending
            assert top.view.opened is not None
            assert ["U", "U"] == [row.unique_id for row in top.view.opened.rows or ()]

            await servers[1].connections[0].stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert (top.view.trouble or "").startswith("b:10911: ")
            tasks.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
