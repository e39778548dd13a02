"""Receive the messages of a topic as a member of a group, and commit what was printed."""

from __future__ import annotations

import argparse
import base64
import math
import sys
from contextlib import suppress
from typing import Literal

import trio

from timermq.client import ReceivedMessage, UnreadableBodyError
from timermq.timerstore.topic_name import group_fault, topic_fault

from .arguments import (
    OneLineParser,
    UsageError,
    add_history,
    add_json,
    count,
    duration,
    open_history,
)
from .broker_link import call_brokers
from .client_access import ClientAccess, add_client_access
from .log_output import log_warnings
from .moment import format_duration, format_moment
from .output import Row, print_json, visible


def prepare_parser(parser: OneLineParser) -> None:
    """Which messages, how many, and for how long."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--group", metavar="G", required=True)
    parser.add_argument(
        "--count", metavar="N", type=count, help="stop after N messages; 1 if fewer come in time"
    )
    parser.add_argument(
        "--timeout", metavar="DURATION", type=duration, help="stop after this time; default: never"
    )
    parser.add_argument(
        "--from",
        dest="start_from",
        choices=("first", "last"),
        default="last",
        help="where a group begins that has committed nothing (default: last)",
    )
    add_history(parser)
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print messages as they come; 1 if a count was asked for and did not come in time."""
    fault = topic_fault(args.topic) or group_fault(args.group)
    if fault is not None:
        raise UsageError(f"consume: {fault}")
    log_warnings()  # of the consumer, which goes on after trouble
    seconds = math.inf if args.timeout is None else args.timeout / 1000
    received = trio.run(_consume, args, seconds)
    if args.count is None or args.timeout is None or received == args.count:
        return 0
    wanted = f"expected {args.count} messages within {format_duration(args.timeout)}"
    print(f"timermq: consume: {wanted}, received {received}", file=sys.stderr)
    return 1


async def _consume(args: argparse.Namespace, seconds: float) -> int:
    """Print up to ``args.count`` messages within ``seconds``; returns how many."""
    received = 0
    access = ClientAccess.of(args)
    start_from: Literal["first", "last"] = args.start_from
    async with call_brokers(access):
        pass  # a consumer would wait for its name server for ever, or until its time is over
    with open_history(args) as history, trio.move_on_after(seconds):
        async with access.consumer(
            group=args.group,
            topics={args.topic: "*"},
            start_from=start_from,
            history=history,
        ) as consumer:
            async for message in consumer:
                _print_message(message, args.json)
                received += 1
                await consumer.commit(message)
                if received == args.count:
                    break
    return received


def message_row(message: ReceivedMessage) -> Row:
    """A message; ``body`` is its text, or None and ``body_base64`` its bytes.

    Of a body that does not unpack these are the packed ones, and ``body_error`` says why.
    """
    body, reason = _body(message)
    text: str | None = None
    if reason is None:
        with suppress(UnicodeDecodeError):
            text = body.decode()
    return {
        "topic": message.topic,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "id": message.message_id,
        "keys": list(message.keys),
        "tags": message.tags,
        "properties": message.properties,
        "body": text,
        "body_base64": None if text is not None else base64.b64encode(body).decode(),
        "body_error": reason,
        "deliver_ms": message.deliver_ms,
        "stored_ms": message.stored_ms,
        "received_ms": message.received_ms,
        "lateness_ms": message.lateness_ms,
    }


def _body(message: ReceivedMessage) -> tuple[bytes, str | None]:
    """The body; or its packed bytes, and why they do not unpack."""
    try:
        return message.body, None
    except UnreadableBodyError as error:
        return message.raw_body, str(error)


def _print_message(message: ReceivedMessage, as_json: bool) -> None:
    """Print at once: the reader of our output waits for it."""
    if as_json:
        print_json([message_row(message)])
    else:
        late = (
            "" if message.lateness_ms is None else f"  {format_duration(message.lateness_ms)} late"
        )
        place = f"{message.topic}/{message.queue_id}@{message.queue_offset}"
        body, reason = _body(message)
        text = body.decode("utf-8", "backslashreplace") if reason is None else f"({reason})"
        line = f"{place}  {message.message_id}{late}  {text}"
        print(f"{format_moment(message.received_ms)}  {visible(line)}")
    sys.stdout.flush()
