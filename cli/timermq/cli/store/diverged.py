"""List what was cut off the commit log of a former master, for the new one does not have it."""

from __future__ import annotations

import argparse
import os
import sys

import attrs

from timermq.broker.replication.diverged_records import DivergedRecords
from timermq.timerstore.os_disk import OsDisk

from ..arguments import OneLineParser, add_json
from ..offline_store import measured_options
from ..output import print_json, print_table
from ..store_flags import add_store_arguments

COLUMNS = ("phy_offset", "kind", "topic", "queue_id", "unique_id", "keys", "deliver_ms", "store_ms")
"""The columns for people, as wide as a terminal; `--json` has everything."""


def prepare_parser(parser: OneLineParser) -> None:
    """The directory and how to print."""
    add_store_arguments(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one row a record; the broker may serve the store meanwhile."""
    disk, root = OsDisk(), os.path.normpath(args.directory)
    _, timer = measured_options(args, disk, root)
    found = DivergedRecords(disk, root).rows(timer.timer_precision_ms)
    rows = (attrs.asdict(one) for one in found)
    if args.json:
        print_json(rows)
    else:
        print_table(rows, COLUMNS)
    sys.stdout.flush()
    return 0
