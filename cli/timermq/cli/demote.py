"""Let a master hand over to its follower, which clients hardly notice, and follow it.

The master finishes what is under way, and waits until the follower has all of it. Then that leads,
and this one follows. Meanwhile requests that write are refused so that clients retry: less than a
second as a rule.
"""

from __future__ import annotations

import argparse

import trio

from timermq.remoting import Command, RequestCode
from timermq.remoting.epoch_report import EpochReport
from timermq.remoting.replica_header import DemoteHeader

from .arguments import OneLineParser, add_json
from .client_access import ClientAccess, add_client_access
from .output import print_json
from .replica_link import add_replica, call_replica, find_follower, report_row, report_text


def prepare_parser(parser: OneLineParser) -> None:
    """Which master, and to which follower."""
    add_replica(parser, "the master")
    parser.add_argument(
        "--to",
        metavar="HOST:PORT",
        help="the follower that is to lead (default: the only one that is registered)",
    )
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print which broker leads now, and in which epoch."""
    to, report = trio.run(_demote, ClientAccess.of(args), args.address, args.to)
    if args.json:
        print_json([report_row(report, to)])
    else:
        print(report_text(report, to))
    return 0


async def _demote(access: ClientAccess, address: str, to: str | None) -> tuple[str, EpochReport]:
    if to is None:
        to = await find_follower(access, address)
    command = Command(RequestCode.DEMOTE, ext=DemoteHeader(to=to).to_ext())
    answer = await call_replica(access, address, command)
    return to, EpochReport.decode(answer.body)
