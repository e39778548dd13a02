"""List what will fire, and when: of a running broker, or of the store of a stopped one."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import cast

import attrs
import cbor2
import trio

from timermq.remoting import Command, RequestCode

from .arguments import OneLineParser, UsageError, add_json, duration, moment
from .broker_link import BrokerLink, ask_each, call_brokers
from .client_access import ClientAccess, add_client_access
from .exit_code import DONE, FAILED
from .moment import format_moment
from .output import Row, print_json, print_table
from .pending_page import PendingRow, decode_page
from .store_flags import add_stopped_store, refuse_without_store

COLUMNS = ("deliver_ms", "topic", "unique_id", "keys", "tags", "rolls")
"""The columns for people; `--json` has every field of ``PendingTimer``."""
LIVE_COLUMNS = (*COLUMNS, "broker")
"""Those of messages of running brokers."""
GROUP_COLUMNS = ("from_ms", "count")


def prepare_parser(parser: OneLineParser) -> None:
    """Which messages, and of whom."""
    parser.add_argument(
        "--between",
        metavar=("A", "B"),
        nargs=2,
        type=moment,
        help="only those due from moment A on and before moment B",
    )
    parser.add_argument("--topic", metavar="T", help="only those for this topic")
    parser.add_argument("--key", metavar="K", help="only those with this key or message id")
    parser.add_argument(
        "--group-by", metavar="DURATION", type=duration, help="count them by spans such as 1m"
    )
    add_stopped_store(parser)
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one row a message, or one a span; 1 if a broker is left out."""
    refuse_without_store(args)
    if args.group_by == 0:
        raise UsageError("pending: argument --group-by: expected more than 0s, found 0s")
    if args.between is not None and args.between[0] >= args.between[1]:
        first, last = map(format_moment, args.between)
        raise UsageError(
            f"pending: argument --between: expected A before B, found {first} and {last}"
        )
    columns: tuple[str, ...] = COLUMNS
    is_whole = True
    if args.store is not None:
        rows = _offline(args)
    else:
        columns = LIVE_COLUMNS
        rows, is_whole = trio.run(_live, ClientAccess.of(args), args)
    if args.group_by is not None:
        _print(_spans(rows, args.group_by), GROUP_COLUMNS, as_json=args.json)
    else:
        _print(rows, columns, as_json=args.json)
    return DONE if is_whole else FAILED


def _print(rows: Iterable[Row], columns: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(rows, columns)


def _offline(args: argparse.Namespace) -> list[Row]:
    """The messages that the next start would deliver, in that order."""
    from timermq.broker.pending.pending_processor import PendingQuery

    from .offline_store import open_offline

    query = PendingQuery(
        between=_between(args),
        topic=args.topic,
        key=args.key,
        limit=1,  # of a page; here there are none
    )
    with open_offline(args, args.store) as offline:
        waiting = chain(offline.pending(), offline.pending_levels())
        timers = [one for one in waiting if query.matches(one)]
        damaged = offline.differing_sectors()
        unreadable = sorted(offline.unreadable)
    if damaged:
        print(
            f"timermq: warning: {damaged} sectors differ from their seals, and rows may be missing "
            f"or wrong: timermq store check {args.store}",
            file=sys.stderr,
        )
    if unreadable:
        print(
            f"timermq: warning: {len(unreadable)} records that wait cannot be read and are left "
            f"out, the first at {unreadable[0]} of the commit log: a broker quarantines them",
            file=sys.stderr,
        )
    return sorted(map(attrs.asdict, timers), key=_due)


async def _live(access: ClientAccess, args: argparse.Namespace) -> tuple[list[Row], bool]:
    """The pending messages of all brokers as they will fire, and whether all have answered."""
    async with call_brokers(access) as brokers:
        answers = await ask_each(brokers, partial(_rows_of, args))
    answers.tell_missing()
    rows = merged({broker.address: rows for broker, rows in answers.given})
    return rows, not answers.missing


async def _rows_of(args: argparse.Namespace, broker: BrokerLink) -> list[PendingRow]:
    """The pending messages of one broker, page by page."""
    rows: list[PendingRow] = []
    after: object = None
    while True:
        wanted = {"between": _between(args), "topic": args.topic, "key": args.key}
        body = cbor2.dumps({**wanted, "after": after})
        answer = await broker.call(Command(RequestCode.LIST_PENDING, body=body))
        page = decode_page(answer.body, broker.address)
        rows += page["rows"]
        after = page["next"]
        if after is None:
            return rows


def merged(rows: Mapping[str, Iterable[PendingRow]]) -> list[Row]:
    """The rows of several brokers in the order in which they will fire, each with its broker.

    Args:
        rows: By the broker's address.
    """
    named: list[Row] = [
        {**row, "broker": broker} for broker in sorted(rows) for row in rows[broker]
    ]
    named.sort(key=_due)
    return named


def _between(args: argparse.Namespace) -> tuple[int, int] | None:
    return None if args.between is None else (args.between[0], args.between[1])


def _due(row: Mapping[str, object]) -> tuple[int, int]:
    """When a message fires; of one moment the one sent first."""
    return cast("int", row["deliver_ms"]), cast("int", row["phy_offset"])


def _spans(rows: Iterable[Row], span_ms: int) -> Iterator[Row]:
    """How many are due in each span, from its first millisecond on; empty spans are left out."""
    counts = Counter(cast("int", row["deliver_ms"]) // span_ms * span_ms for row in rows)
    return ({"from_ms": from_ms, "count": counts[from_ms]} for from_ms in sorted(counts))
