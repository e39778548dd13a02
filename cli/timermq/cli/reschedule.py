"""Give a pending message another moment: moved, too_late or not_found."""

from __future__ import annotations

import argparse
import datetime

import trio

from timermq.client import CancelReceipt, Verdict

from .arguments import (
    OneLineParser,
    add_history,
    add_json,
    duration,
    moment,
    open_history,
)
from .cancel import add_pending, check_pending
from .client_access import ClientAccess, add_client_access
from .output import print_json
from .send import print_pending


def prepare_parser(parser: OneLineParser) -> None:
    """Which message, and when instead."""
    add_pending(parser)
    when = parser.add_mutually_exclusive_group(required=True)
    when.add_argument(
        "--at",
        metavar="WHEN",
        type=moment,
        help="2026-12-24T18:00:00+01:00, epoch milliseconds, or 'in 2d12h'",
    )
    when.add_argument("--delay", metavar="DURATION", type=duration, help="such as 2d12h or 250ms")
    add_history(parser)
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the verdict and the new handle; 1 unless the message is moved."""
    check_pending(args)
    receipt = trio.run(_reschedule, args)
    if args.json:
        print_json(
            [
                {
                    "verdict": receipt.verdict.value,
                    "message_id": receipt.message_id,
                    "deliver_ms": receipt.deliver_ms,
                    "recall_handle": receipt.recall_handle,
                }
            ]
        )
    else:
        print(receipt.verdict.value)
        print_pending(receipt.deliver_ms, receipt.recall_handle)
    return 0 if receipt.verdict is Verdict.MOVED else 1


async def _reschedule(args: argparse.Namespace) -> CancelReceipt:
    delay = None if args.delay is None else datetime.timedelta(milliseconds=args.delay)
    with open_history(args) as history:
        async with ClientAccess.of(args).producer(history) as producer:
            return await producer.reschedule(
                args.topic,
                args.handle,
                message_id=args.id,
                key=args.key,
                at=args.at,
                delay=delay,
            )
