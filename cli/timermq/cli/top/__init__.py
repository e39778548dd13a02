"""Watch a broker: the wheel, its pointers and lag, rates, lateness, next slots, top topics.

On a terminal the picture lives until `q`; `?` lists the keys. Elsewhere one frame is printed.
"""

from __future__ import annotations

import argparse
import json
import sys

import trio
from rich.console import Console

from timermq.client import NoRouteError
from timermq.client.wall_clock import now_ms
from timermq.remoting import WatchView

from ..arguments import OneLineParser, add_json, address
from ..broker_link import call_brokers
from ..client_access import ClientAccess, add_client_access
from ..exit_code import INTERRUPTED
from .live import run_live
from .screen import screen
from .silence import next_snapshot
from .terminal import is_terminal
from .view import HEIGHT, WIDTH, View


def prepare_parser(parser: OneLineParser) -> None:
    """Whom to watch, and how to print."""
    parser.add_argument(
        "--broker",
        metavar="HOST:PORT",
        type=address,
        help="the broker to watch (default: the first that the name server knows)",
    )
    parser.add_argument("--once", action="store_true", help="print one frame and leave")
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Show the screen; 130 if it was left by a signal."""
    return trio.run(_run, args)


async def _run(args: argparse.Namespace) -> int:
    access = ClientAccess.of(args)
    broker = await _find(args, access)
    if args.json:
        return await _print_snapshots(access, broker, count=1 if args.once else None)
    if args.once or not is_terminal():
        return await _print_frame(access, broker)
    await _check(access, broker)
    return 0 if await run_live(broker, access) else INTERRUPTED


async def _find(args: argparse.Namespace, access: ClientAccess) -> str:
    """The address of the broker."""
    if args.broker is not None:
        host, port = args.broker
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    async with call_brokers(access) as brokers:
        if not brokers:
            raise NoRouteError(f"{args.namesrv}: no broker is known here")
        return brokers[0].address


async def _check(access: ClientAccess, broker: str) -> None:
    """Look once before the screen is taken: a wrong address is told in one line."""
    async with access.watch(broker, WatchView(count=1)) as watch:
        await next_snapshot(watch, broker, now_ms)


async def _print_snapshots(access: ClientAccess, broker: str, *, count: int | None) -> int:
    """Print snapshots as they come, one object a line; ``count`` of them, or for ever."""
    async with access.watch(broker, WatchView()) as watch:
        while count is None or count:
            snapshot = await next_snapshot(watch, broker, now_ms)
            sys.stdout.write(json.dumps(snapshot.to_json(), separators=(",", ":")) + "\n")
            sys.stdout.flush()
            count = None if count is None else count - 1
    return 0


async def _print_frame(access: ClientAccess, broker: str) -> int:
    """Print the first picture; its rates are since the start of the broker."""
    async with access.watch(broker, WatchView()) as watch:
        snapshot = await next_snapshot(watch, broker, now_ms)
    console = Console(file=sys.stdout, highlight=False)
    width, height = console.size if sys.stdout.isatty() else (WIDTH, HEIGHT)
    view = View(address=broker, width=width, height=max(HEIGHT, height - 1))
    view = view.with_snapshot(snapshot)
    console.print(screen(view), soft_wrap=True)
    return 0
