"""Take a message back that waits for its moment: cancelled, too_late or not_found."""

from __future__ import annotations

import argparse

import trio

from timermq.client import Verdict

from .arguments import (
    OneLineParser,
    UsageError,
    add_history,
    add_json,
    open_history,
)
from .client_access import ClientAccess, add_client_access
from .output import print_json


def prepare_parser(parser: OneLineParser) -> None:
    """Which message is cancelled, and how the brokers are found."""
    add_pending(parser)
    add_history(parser)
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the verdict; 1 unless the message is cancelled."""
    check_pending(args)
    verdict = trio.run(_cancel, args)
    if args.json:
        print_json([{"verdict": verdict.value}])
    else:
        print(verdict.value)
    return 0 if verdict is Verdict.CANCELLED else 1


def add_pending(parser: OneLineParser) -> None:
    """The three names of a pending message."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "handle", metavar="HANDLE", nargs="?", help="the recall handle that send printed"
    )
    parser.add_argument("--id", metavar="ID", help="instead: the message id that send printed")
    parser.add_argument("--key", metavar="K", help="instead: a key that no other waiting one has")


def check_pending(args: argparse.Namespace) -> None:
    """Refuse none and more than one."""
    given = [one for one in (args.handle, args.id, args.key) if one is not None]
    if len(given) != 1:
        raise UsageError(f"expected one of HANDLE, --id and --key, found {len(given)}")


async def _cancel(args: argparse.Namespace) -> Verdict:
    with open_history(args) as history:
        async with ClientAccess.of(args).producer(history) as producer:
            return await producer.cancel(args.topic, args.handle, message_id=args.id, key=args.key)
