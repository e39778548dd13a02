"""Show the brokers that the name server knows: address, version, pending, rate, disk, state."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence

import attrs
import trio

from timermq.broker.config_fields import ConfigFields, ConfigTableError
from timermq.client import ClientError, NoRouteError
from timermq.client.errors import MalformedAnswerError
from timermq.client.moment import now_ms
from timermq.remoting import Command, RequestCode
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.fastjson import parse_json

from ..arguments import OneLineParser, add_json
from ..broker_link import BrokerLink, KnownBroker, call_brokers
from ..client_access import ClientAccess, add_client_access
from ..exit_code import DONE, FAILED
from ..output import Row, print_json, print_table

ANSWER_TIMEOUT = 5.0
"""Seconds that a broker has to answer; it does so from memory."""
COLUMNS = ("name", "id", "address", "version", "pending", "put_tps", "disk", "state")
SERVING = "serving"


@attrs.frozen(kw_only=True)
class BrokerRow:
    """The row of a broker; None stands for what it does not tell."""

    cluster: str
    name: str
    id: str
    """0: the master of its name."""
    address: str
    version: str | None
    pending: int | None
    """Messages that wait for their moment."""
    put_tps: float | None
    """Messages stored a second, over ten seconds."""
    disk: float | None
    """Used part of the disk, 0 to 1."""
    state: str
    """`SERVING`, or the reason why it does not serve."""


def prepare_parser(parser: OneLineParser) -> None:
    """How the brokers are found, and how to print."""
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print a row a broker; 1 unless all of them serve."""
    rows = trio.run(_status, ClientAccess.of(args))
    if not rows:
        raise NoRouteError(f"{args.namesrv}: no broker is known here")
    if args.json:
        print_json(map(attrs.asdict, rows))
    else:
        print_table([shown(row) for row in rows], COLUMNS)
    return DONE if all(row.state == SERVING for row in rows) else FAILED


async def _status(access: ClientAccess) -> Sequence[BrokerRow]:
    """A row of each broker, slaves too, by name and number."""
    rows: dict[KnownBroker, BrokerRow] = {}

    async def ask(broker: BrokerLink) -> None:
        command = Command(RequestCode.GET_BROKER_RUNTIME_INFO)
        try:
            answer = await broker.call(command, ANSWER_TIMEOUT)
            info = decode_info(answer.body, broker.address)
            rows[broker.known] = row_of(broker.known, info, now_ms())
        except ClientError as error:
            rows[broker.known] = row_of(broker.known, {}, 0, fault=" ".join(str(error).split()))

    async with call_brokers(access, with_slaves=True) as brokers, trio.open_nursery() as nursery:
        for broker in brokers:
            nursery.start_soon(ask, broker)
    return [rows[known] for known in sorted(rows)]


def decode_info(body: bytes, address: str) -> dict[str, str]:
    """Read the answer to GET_BROKER_RUNTIME_INFO.

    Args:
        body: All of it.
        address: Of the broker, for the error.

    Raises:
        MalformedAnswerError: The body is no runtime info.

    Source: Java ``KVTable``.
    """
    what = f"{address}: runtime info"
    try:
        return ConfigFields(what, parse_json(body.decode(), what)).texts("table")
    except (UnicodeDecodeError, StoreFormatError, ConfigTableError) as error:
        raise MalformedAnswerError(f"{what}: {error}") from error


def row_of(
    known: KnownBroker, info: Mapping[str, str], at_ms: int, *, fault: str | None = None
) -> BrokerRow:
    """The row of a broker.

    Args:
        known: What the name server knows of it.
        info: Its runtime info, of RocketMQ's names.
        at_ms: The present, epoch milliseconds.
        fault: Why there is no runtime info.
    """
    return BrokerRow(
        cluster=known.cluster,
        name=known.name,
        id=known.number,
        address=known.address,
        version=info.get("brokerVersionDesc"),
        pending=_whole(info.get("timerCongestNum")),
        put_tps=_number(info.get("putTps", "").partition(" ")[0]),
        disk=_number(info.get("commitLogDiskRatio")),
        state=fault or _state(info, at_ms),
    )


def _state(info: Mapping[str, str], at_ms: int) -> str:
    if info.get("brokerActive", "true") != "true":
        return "not active"
    begins_ms = _whole(info.get("startAcceptSendRequestTimeStamp")) or 0
    return f"takes no sends before {begins_ms}" if begins_ms > at_ms else SERVING


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def _number(text: str | None) -> float | None:
    """A number that is finite; None for anything else, which RocketMQ writes in some states."""
    try:
        number = float(text or "nan")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def shown(row: BrokerRow) -> Row:
    """The row for people: the disk in percent, the rate with one place."""
    return {
        **attrs.asdict(row),
        "disk": None if row.disk is None else f"{row.disk:.0%}",
        "put_tps": None if row.put_tps is None else f"{row.put_tps:.1f}",
    }
