"""Send a message: now, for a moment, after a delay, or by level."""

from __future__ import annotations

import argparse
import datetime
import os
import sys

import trio

from timermq.client import OutgoingMessage, SendReceipt

from .arguments import (
    OneLineParser,
    UsageError,
    add_history,
    add_json,
    count,
    duration,
    moment,
    open_history,
)
from .client_access import ClientAccess, add_client_access
from .moment import format_moment
from .output import Row, print_json

LEVEL_HELP = "a delay level: 1 (1s) to 18 (2h) unless the broker has others; above is the last"

BODY_SIZE_MAX = 64 << 20
"""Bytes read from standard input; brokers take far less."""


def prepare_parser(parser: OneLineParser) -> None:
    """Add the arguments for the message to send, its moment and its properties."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "body",
        metavar="BODY",
        nargs="?",
        default="",
        help="the text, or - for standard input (default: empty)",
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--at",
        metavar="WHEN",
        type=moment,
        help="2026-12-24T18:00:00+01:00, epoch milliseconds, or 'in 2d12h'",
    )
    when.add_argument("--delay", metavar="DURATION", type=duration, help="such as 2d12h or 250ms")
    when.add_argument("--level", metavar="N", type=count, help=LEVEL_HELP)
    parser.add_argument("--key", metavar="K", action="append", default=[], help="may be repeated")
    parser.add_argument("--tag", metavar="T", default="")
    parser.add_argument(
        "--property", metavar="K=V", action="append", default=[], help="may be repeated"
    )
    add_history(parser)
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Send it; print its id, its moment and what cancels it."""
    try:
        receipt = trio.run(_send, args, _message(args))
    except ValueError as error:  # what the message cannot be: nothing was sent
        raise UsageError(f"send: {error}") from None
    if args.json:
        print_json([receipt_row(receipt)])
    else:
        _print_receipt(receipt)
    return 0


def _message(args: argparse.Namespace) -> OutgoingMessage:
    return OutgoingMessage(
        topic=args.topic,
        body=_read_body(args.body),
        at=args.at,
        delay=None if args.delay is None else datetime.timedelta(milliseconds=args.delay),
        level=args.level,
        keys=args.key,
        tag=args.tag,
        properties=_properties(args),
    )


def receipt_row(receipt: SendReceipt) -> Row:
    """The receipt by the names of its fields."""
    return {
        "message_id": receipt.message_id,
        "queue_id": receipt.queue_id,
        "queue_offset": receipt.queue_offset,
        "deliver_ms": receipt.deliver_ms,
        "recall_handle": receipt.recall_handle,
        "is_durable": receipt.is_durable,
    }


async def _send(args: argparse.Namespace, message: OutgoingMessage) -> SendReceipt:
    with open_history(args) as history:
        async with ClientAccess.of(args).producer(history) as producer:
            return (await producer.send_batch([message]))[0]


def _read_body(text: str) -> bytes:
    if text != "-":
        return os.fsencode(text)  # the bytes that were typed, also when they are no UTF-8
    body = sys.stdin.buffer.read(BODY_SIZE_MAX + 1)
    if len(body) > BODY_SIZE_MAX:
        raise UsageError(f"send: standard input: expected at most {BODY_SIZE_MAX} bytes")
    return body


def _properties(args: argparse.Namespace) -> dict[str, str]:
    """Those of `--property`, each once and none that another flag or the client itself sets."""
    taken = {
        "UNIQ_KEY": "the message's id, which the client makes",
        "KEYS": "set by --key" if args.key else "",
        "TAGS": "set by --tag" if args.tag else "",
        "TIMER_DELIVER_MS": "" if args.at is None else "set by --at",
        "TIMER_DELAY_MS": "" if args.delay is None else "set by --delay",
        "DELAY": "" if args.level is None else "set by --level",
    }
    found: dict[str, str] = {}
    for name, value in map(_split_property, args.property):
        why = "given before" if name in found else taken.get(name)
        if why:
            raise UsageError(f"send: argument --property: {name}: {why}")
        found[name] = value
    return found


def _split_property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UsageError(f"send: argument --property: expected K=V, found {text!r}")
    return name, value


def _print_receipt(receipt: SendReceipt) -> None:
    print(f"message id     {receipt.message_id}")
    print_pending(receipt.deliver_ms, receipt.recall_handle)
    if not receipt.is_durable:
        print("not durable    stored, and not in time on the disk or on enough followers")


def print_pending(deliver_ms: int | None, recall_handle: str | None) -> None:
    """When a message comes, and what cancels it; nothing for one that does not wait."""
    if deliver_ms is not None:
        local = format_moment(deliver_ms)
        print(f"deliver time   {local} ({format_moment(deliver_ms, datetime.UTC)})")
    if recall_handle is not None:
        print(f"recall handle  {recall_handle}")
