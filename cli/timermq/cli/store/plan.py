"""Say what will happen when timermq serves a store: what waits, what must be set, what blocks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from timermq.pipeline.clock.clock import SystemClock
from timermq.pipeline.levels.level_queues import count_left
from timermq.pipeline.recovery.store_sizes import expect_store
from timermq.timerstore.errors import StoreError
from timermq.timerstore.os_disk import OsDisk, is_locked
from timermq.timerstore.rocksdb_parts import found_parts

from ..arguments import OneLineParser, add_json
from ..configuration import directory_flag, load_configuration
from ..offline_store import open_offline
from ..output import print_json, print_table
from ..store_flags import add_store_arguments
from .takeover_plan import Planned, content_rows, end_rows, file_rows, setting_rows

COLUMNS = ("part", "name", "count", "first_ms", "last_ms", "overdue", "what")
"""The columns for people; `--json` has everything."""


def prepare_parser(parser: OneLineParser) -> None:
    """The directory and how to print."""
    add_store_arguments(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print a row for each part of the store; 1 if something blocks. Nothing is written."""
    planned = list(_plan(args))
    if args.json:
        print_json(one.row() for one in planned)
    else:
        print_table(
            (
                {**one.row(), "what": f"BLOCKS: {one.what}" if one.blocks else one.what}
                for one in planned
            ),
            COLUMNS,
        )
    return int(any(one.blocks for one in planned))


def _plan(args: argparse.Namespace) -> Iterator[Planned]:
    disk, root = OsDisk(), os.path.normpath(args.directory)
    configuration = load_configuration(args, directory_flag(root))
    expect_store(disk, root)
    yield from end_rows(disk, root, is_served=is_locked(f"{root}/lock"))
    if found_parts(disk, root):
        return
    settings = list(setting_rows(disk, root, configuration))
    yield from settings
    fault = configuration.broker.address_fault()
    if fault is not None:
        yield Planned(part="setting", name="address", what=fault, blocks=True)
    # As the files are, whatever is set: what is wrong with the settings is said already.
    args.set = [*args.set, *(f"{one.name}={one.count}" for one in settings)]
    try:
        with open_offline(args, args.directory) as offline:
            yield from content_rows(offline, SystemClock().now_ms())
            yield from file_rows(offline, count_left(offline.store))
    except StoreError as error:
        yield Planned(part="store", name="damaged", what=str(error), blocks=True)
