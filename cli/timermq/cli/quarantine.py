"""See to what could not be delivered: list it, show one, try it again, or let it go.

Of running brokers; ``list`` and ``show`` also of the store of a stopped one.
"""

from __future__ import annotations

import argparse
import base64
import getpass
from collections.abc import Callable, Iterator
from typing import cast

import attrs
import cbor2
import trio

from timermq.remoting import Command, RequestCode
from timermq.timerstore.errors import StoreError

from .answer_body import decode_answer
from .arguments import OneLineParser, UsageError, add_json
from .broker_link import BrokerLink, call_brokers, chosen
from .client_access import ClientAccess, add_client_access
from .output import Row, print_json, print_table
from .store_flags import add_stopped_store, refuse_without_store

COLUMNS = ("id", "set_aside_ms", "reason", "topic", "deliver_ms", "unique_id", "text")
"""The columns for people; `--json` has every field."""


class NotInQuarantineError(StoreError):
    """No broker has a message with this name in quarantine."""


@attrs.frozen
class SubVerb:
    """A verb below ``quarantine``: its help, and what runs it."""

    help: str
    run: Callable[[argparse.Namespace], int]


def prepare_parser(parser: OneLineParser) -> None:
    """The verbs below, each with the arguments that it takes."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, verb in VERBS.items():
        one = verbs.add_parser(
            name, help=verb.help, description=verb.help, formatter_class=parser.formatter_class
        )
        if name != "list":
            one.add_argument("id", metavar="ID", type=_position, help="as list prints it")
        if name in ("list", "show"):
            add_stopped_store(one)
        if name == "retry":
            one.add_argument("--topic", metavar="T", help="send it there instead")
        one.add_argument("--broker", metavar="HOST:PORT", help="only of the broker at this address")
        add_client_access(one)
        add_json(one)
        one.set_defaults(quarantine_verb=verb)


def run(args: argparse.Namespace) -> int:
    """Run the sub-verb; 1 when a message was not released as asked."""
    return cast("SubVerb", args.quarantine_verb).run(args)


def _list(args: argparse.Namespace) -> int:
    refuse_without_store(args)
    rows = list(_stored(args)) if args.store is not None else trio.run(_live_rows, args)
    if args.json:
        print_json(rows)
    else:
        print_table(rows, COLUMNS)
    return 0


def _show(args: argparse.Namespace) -> int:
    refuse_without_store(args)
    if args.store is not None:
        found = [row for row in _stored(args, with_record=True) if row["id"] == args.id]
        if not found:
            raise NotInQuarantineError(f"{args.store}: no message {args.id} is in quarantine")
        row = found[0]
    else:
        row = trio.run(_live_row, args)
    whole = {**row, **_record_fields(cast("bytes", row["record"]))}
    if args.json:
        print_json([whole])
    else:
        print_table([{"field": name, "value": value} for name, value in whole.items()], _FIELDS)
    return 0


_FIELDS = ("field", "value")


def _retry(args: argparse.Namespace) -> int:
    return _release(args, RequestCode.RETRY_QUARANTINE, "retried")


def _drop(args: argparse.Namespace) -> int:
    return _release(args, RequestCode.DROP_QUARANTINE, "dropped")


def _release(args: argparse.Namespace, code: RequestCode, wanted: str) -> int:
    answer = trio.run(_live_release, args, code)
    if args.json:
        print_json([answer])
    else:
        print(": ".join(str(one) for one in (answer["verdict"], answer["text"]) if one))
    return 0 if answer["verdict"] == wanted else 1


VERBS = {
    "list": SubVerb("List what is in quarantine, and why.", _list),
    "show": SubVerb("Show one message in quarantine with all that is left of it.", _show),
    "retry": SubVerb("Send a message in quarantine to its topic again.", _retry),
    "drop": SubVerb("Let a message in quarantine go: it never arrives.", _drop),
}


def _position(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected the id of a message in quarantine, found {text!r}")


def _stored(args: argparse.Namespace, *, with_record: bool = False) -> Iterator[Row]:
    """The rows of a stopped store."""
    from timermq.broker.pending.quarantine_processor import entry_row

    from .offline_store import open_offline

    with open_offline(args, args.store) as offline:
        for entry, _ in offline.quarantine().entries():
            row = {**entry_row(entry), "broker": args.store}
            yield {**row, "state": "active", "record": entry.record} if with_record else row


async def _live_rows(args: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    async with call_brokers(ClientAccess.of(args)) as brokers:
        for broker in chosen(brokers, args.broker):
            after: object = -1
            while after is not None:
                page = await _ask(broker, RequestCode.LIST_QUARANTINE, after=after)
                found = cast("list[Row]", page["rows"])
                rows += [{**row, "broker": broker.address} for row in found]
                after = page["next"]
    return rows


async def _live_row(args: argparse.Namespace) -> Row:
    async with call_brokers(ClientAccess.of(args)) as brokers:
        broker, row = await _holder(chosen(brokers, args.broker), args.id)
        return {**row, "broker": broker.address}


async def _live_release(args: argparse.Namespace, code: RequestCode) -> Row:
    async with call_brokers(ClientAccess.of(args)) as brokers:
        broker, _ = await _holder(chosen(brokers, args.broker), args.id)
        wanted = {"topic": args.topic} if code is RequestCode.RETRY_QUARANTINE else {}
        answer = await _ask(broker, code, id=args.id, by=_user(), **wanted)
        return {"id": args.id, "broker": broker.address, **answer}


async def _holder(brokers: list[BrokerLink], origin_py: int) -> tuple[BrokerLink, Row]:
    """The broker that has the message, and what it shows of it.

    Raises:
        NotInQuarantineError: None has it.
        UsageError: Several have one of this name.
    """
    shown = [(one, await _ask(one, RequestCode.SHOW_QUARANTINE, id=origin_py)) for one in brokers]
    found = [(one, cast("Row", answer["row"])) for one, answer in shown if answer["row"]]
    if not found:
        raise NotInQuarantineError(f"not_found: no message {origin_py} is in quarantine")
    if len(found) > 1:
        addresses = ", ".join(one.address for one, _ in found)
        raise UsageError(f"expected --broker with one of {addresses}: all have a {origin_py}")
    return found[0]


async def _ask(broker: BrokerLink, code: RequestCode, **fields: object) -> dict[str, object]:
    answer = await broker.call(Command(code, body=cbor2.dumps(fields)))
    return decode_answer(answer.body, dict[str, object], f"{broker.address}: quarantine")


def _record_fields(record: bytes) -> dict[str, object]:
    """The fields of a record beside its row; the bytes themselves when it is none any more."""
    from timermq.timerstore.message import format_host
    from timermq.timerstore.record import RecordError, decode_record

    raw = base64.b64encode(record).decode()
    try:
        found = decode_record(record)
    except RecordError as error:
        return {"record": raw, "damage": str(error) if record else "its bytes are gone"}
    return {
        "record": raw,
        "properties": found.properties_dict(),
        "body": base64.b64encode(found.body).decode(),
        "born_ms": found.born_ms,
        "born_host": format_host(found.born_host),
        "store_ms": found.store_ms,
    }


def _user() -> str:
    """Who asks; noted in the store beside the verdict."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
