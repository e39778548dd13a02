"""Watch brokers: the wheel, its pointers and lag, rates, lateness, next slots, top topics.

Several brokers are one picture, in which what adds up is added.
On a terminal the picture lives until `q`; `?` lists the keys. Elsewhere one frame is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import cast

import attrs
import trio
from rich.console import Console

from timermq.client import ClientError, NoRouteError
from timermq.client.moment import now_ms
from timermq.remoting import Snapshot, WatchView
from timermq.remoting.causes import first_cause

from ..arguments import OneLineParser, add_json, address
from ..broker_link import call_brokers
from ..client_access import ClientAccess, add_client_access
from ..exit_code import DONE, FAILED, INTERRUPTED
from ..output import visible
from .live import run_live
from .screen import screen
from .silence import next_snapshot
from .terminal import is_terminal
from .view import HEIGHT, WIDTH, View
from .watched import Watched


def prepare_parser(parser: OneLineParser) -> None:
    """Which brokers to watch, and how to print."""
    parser.add_argument(
        "--broker",
        metavar="HOST:PORT",
        type=address,
        help="the broker to watch (default: all that the name server knows, in one picture)",
    )
    parser.add_argument("--once", action="store_true", help="print one frame and leave")
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Show the screen; 130 if it was left by a signal."""
    return trio.run(_run, args)


async def _run(args: argparse.Namespace) -> int:
    access = ClientAccess.of(args)
    brokers = await _find(args, access)
    if args.json:
        return await _print_snapshots(access, brokers, count=1 if args.once else None)
    if args.once or not is_terminal():
        return await _print_frame(access, brokers)
    found = await _take(access, brokers, WatchView(count=1))
    if not found.snapshots:
        raise found.error(brokers[0])
    return 0 if await run_live(brokers, access) else INTERRUPTED


async def _find(args: argparse.Namespace, access: ClientAccess) -> list[str]:
    """The addresses of the brokers."""
    if args.broker is not None:
        host, port = args.broker
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    async with call_brokers(access) as brokers:
        if not brokers:
            raise NoRouteError(f"{args.namesrv}: no broker is known here")
        return [broker.address for broker in brokers]


@attrs.define
class Taken:
    """The first snapshot of each broker, or why there is none; by address."""

    snapshots: dict[str, Snapshot] = attrs.field(factory=dict[str, Snapshot])
    errors: dict[str, ClientError] = attrs.field(factory=dict[str, ClientError])

    def error(self, address: str) -> ClientError:
        """Why a broker has sent none."""
        return self.errors[address]

    def tell_missing(self) -> None:
        """Name the brokers without a snapshot on standard error."""
        for broker in sorted(self.errors):
            text = visible(" ".join(str(self.errors[broker]).split()))
            print(f"timermq: warning: broker {broker} is left out: {text}", file=sys.stderr)


async def _take(access: ClientAccess, brokers: Sequence[str], view: WatchView) -> Taken:
    """Look once at each broker."""
    taken = Taken()

    async def take(address: str) -> None:
        try:
            async with access.watch(address, view) as watch:
                taken.snapshots[address] = await next_snapshot(watch, address, now_ms)
        except* ClientError as group:
            taken.errors[address] = cast("ClientError", first_cause(group))

    async with trio.open_nursery() as nursery:
        for address in brokers:
            nursery.start_soon(take, address)
    return taken


async def _print_snapshots(
    access: ClientAccess, brokers: Sequence[str], *, count: int | None
) -> int:
    """Print the brokers' snapshots as they come, one object a line.

    Args:
        access: How to connect to them.
        brokers: Their addresses.
        count: Snapshots of each broker; None: until none of them answers.
    """
    errors: dict[str, ClientError] = {}

    async def print_those_of(address: str) -> None:
        left = count
        try:
            async with access.watch(address, WatchView()) as watch:
                while left is None or left:
                    snapshot = await next_snapshot(watch, address, now_ms)
                    line = json.dumps(snapshot.to_json(), separators=(",", ":"))
                    sys.stdout.write(f"{line}\n")
                    sys.stdout.flush()
                    left = None if left is None else left - 1
        except* ClientError as group:
            errors[address] = cast("ClientError", first_cause(group))
            if len(brokers) > 1:
                Taken(errors={address: errors[address]}).tell_missing()

    async with trio.open_nursery() as nursery:
        for address in brokers:
            nursery.start_soon(print_those_of, address)
    if len(brokers) == 1 and errors:
        raise errors[brokers[0]]
    return FAILED if errors else DONE


async def _print_frame(access: ClientAccess, brokers: Sequence[str]) -> int:
    """Print the first picture; its rates are since the start of the brokers."""
    taken = await _take(access, brokers, WatchView())
    if not taken.snapshots:
        raise taken.error(brokers[0])
    taken.tell_missing()
    console = Console(file=sys.stdout, highlight=False)
    width, height = console.size if sys.stdout.isatty() else (WIDTH, HEIGHT)
    watched = Watched(addresses=tuple(brokers), snapshots=taken.snapshots)
    view = View(address=watched.name, width=width, height=max(HEIGHT, height - 1))
    console.print(screen(watched.shown_by(view, is_picture=True)), soft_wrap=True)
    return FAILED if taken.errors else DONE
