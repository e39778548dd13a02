"""Let a follower lead whose master is gone.

It leads as soon as it has gone through what it has. A message that its master had answered, and it
did not get, is lost: so it refuses while bytes are known to be missing, and while its master
answers. A master that comes back follows it.
"""

from __future__ import annotations

import argparse

import trio

from timermq.remoting import Command, RequestCode
from timermq.remoting.epoch_report import EpochReport
from timermq.remoting.replica_header import PromoteHeader

from .arguments import OneLineParser, add_json
from .client_access import ClientAccess, add_client_access
from .output import print_json
from .replica_link import add_replica, call_replica, report_row, report_text


def prepare_parser(parser: OneLineParser) -> None:
    """Which follower, and whether at any price."""
    add_replica(parser, "the follower")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also where messages are missing, which are lost then, or the master answers",
    )
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print in which epoch it leads."""
    header = PromoteHeader(force=args.force)
    command = Command(RequestCode.PROMOTE, ext=header.to_ext())
    answer = trio.run(call_replica, ClientAccess.of(args), args.address, command)
    report = EpochReport.decode(answer.body)
    if args.json:
        print_json([report_row(report, args.address)])
    else:
        print(report_text(report, args.address))
    return 0
