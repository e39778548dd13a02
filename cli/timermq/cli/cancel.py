"""Take a message back that waits for its moment: cancelled, too_late or not_found."""

from __future__ import annotations

import argparse

import trio

from timermq.client import Producer, Verdict

from .arguments import OneLineParser, add_json, add_namesrv
from .output import print_json


def prepare_parser(parser: OneLineParser) -> None:
    """What `send` printed."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("handle", metavar="HANDLE", help="the recall handle that send printed")
    add_namesrv(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the verdict; 1 unless the message is cancelled."""
    verdict = trio.run(_cancel, args.namesrv, args.topic, args.handle)
    if args.json:
        print_json([{"verdict": verdict.value}])
    else:
        print(verdict.value)
    return 0 if verdict is Verdict.CANCELLED else 1


async def _cancel(namesrv: str, topic: str, handle: str) -> Verdict:
    async with Producer(namesrv) as producer:
        return await producer.cancel(topic, handle)
