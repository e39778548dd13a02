"""Ship a store to a directory or an object store, once or every second; `restore` brings it back.

The store may be served meanwhile. A round ships what is new: records of the log, each of which is
checked before, and the tables of topics, groups and offsets.
"""

from __future__ import annotations

import argparse
import os
import signal
from functools import partial

import structlog
import trio

from timermq.backup.ship_loop import ship_on, ship_once
from timermq.backup.shipper import Shipper
from timermq.pipeline.clock.clock import SystemClock
from timermq.pipeline.recovery.store_sizes import measure
from timermq.timerstore.os_disk import OsDisk, is_locked

from .arguments import OneLineParser, UsageError, complete_directories, duration
from .backup_target import add_target, named_target
from .configuration import load_configuration
from .log_output import configure_logs
from .store_flags import add_configuration_flags

log = structlog.get_logger("timermq.cli.backup")

KEEP_MS = 7 * 86_400_000


def prepare_parser(parser: OneLineParser) -> None:
    """Where to, from which store, how often, and how long old segments stay."""
    add_target(parser)
    store = parser.add_argument("--store", metavar="DIR", help="the store's directory")
    complete_directories(store)
    often = parser.add_mutually_exclusive_group()
    often.add_argument(
        "--every",
        metavar="DURATION",
        type=duration,
        default=1000,
        help="pause between two rounds (default: 1s)",
    )
    often.add_argument("--once", action="store_true", help="ship what is there, and end")
    parser.add_argument(
        "--keep",
        metavar="DURATION",
        type=duration,
        default=KEEP_MS,
        help="how long messages stay in the backup that are cleaned in the store (default: 7d)",
    )
    add_configuration_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Ship until a signal, or once; 1 if the target does not fit the store, or either fails."""
    if not args.every:
        raise UsageError("backup: argument --every: expected more than 0s, found 0s")
    configuration = load_configuration(args, {"store_path_root_dir": ("--store", args.store)})
    configure_logs(configuration.serve.log_format)
    disk, root = OsDisk(), os.path.normpath(configuration.serve.store_path_root_dir)
    measured, _ = measure(
        disk, root, configuration.store, configuration.timer, configuration.configured()
    )
    shipper = Shipper(
        disk=disk,
        root=root,
        target=named_target(args.target, disk),
        now_ms=SystemClock().now_ms,
        keep_ms=args.keep,
        queue_file_size=measured.mapped_file_size_consume_queue,
        is_served=partial(is_locked, f"{root}/lock"),
    )
    if args.once:
        shipped = trio.run(ship_once, shipper)
        print(f"{args.target}: {shipped.size} bytes shipped, the log up to {shipped.end}")
        return 0
    trio.run(_ship_until_signal, shipper, args.every)
    return 0


async def _ship_until_signal(shipper: Shipper, every_ms: int) -> None:
    """Ship; a signal ends it between two objects."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ship_on, shipper, every_ms, _sleep_ms)
            async for _ in signals:
                log.info("backup ends", end=shipper.manifest.end)
                nursery.cancel_scope.cancel()
                break


async def _sleep_ms(pause_ms: int) -> None:
    await trio.sleep(pause_ms / 1000)
