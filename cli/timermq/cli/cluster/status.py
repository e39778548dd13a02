"""Show the brokers that the name server knows: address, version, pending, rate, disk, state."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence

import attrs
import msgspec
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
from ..formatting import size, span
from ..output import Row, print_json, print_table

ANSWER_TIMEOUT = 5.0
"""Seconds that a broker has to answer; it does so from memory."""
COLUMNS = ("name", "id", "address", "version", "pending", "put_tps", "disk", "followers", "state")
SERVING = "serving"
FOLLOWS = "follows"


@attrs.frozen(kw_only=True)
class FollowerState:
    """One follower, as its master has it."""

    address: str
    """Of its end of the link."""
    in_sync: bool
    behind: int
    """Bytes of the log that it has not acknowledged."""
    silent_ms: int | None
    """Since it has acknowledged something new, if it lacks something; None: RocketMQ's masters do
    not tell."""


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
    followers: tuple[FollowerState, ...] | None
    """Those that are linked to a master."""
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
    is_well = all(row.state == SERVING or row.state.startswith(FOLLOWS) for row in rows)
    return DONE if is_well else FAILED


async def _status(access: ClientAccess) -> Sequence[BrokerRow]:
    """A row of each broker, slaves too, by name and number."""
    rows: dict[KnownBroker, BrokerRow] = {}

    async def ask(broker: BrokerLink) -> None:
        command = Command(RequestCode.GET_BROKER_RUNTIME_INFO)
        try:
            answer = await broker.call(command, ANSWER_TIMEOUT)
            info = decode_info(answer.body, broker.address)
            row = row_of(broker.known, info, now_ms())
            status = await _ha_status(broker)
            if status is not None:
                row = with_replicas(row, status)
            rows[broker.known] = row
        except ClientError as error:
            rows[broker.known] = row_of(broker.known, {}, 0, fault=" ".join(str(error).split()))

    async with call_brokers(access, with_slaves=True) as brokers, trio.open_nursery() as nursery:
        for broker in brokers:
            nursery.start_soon(ask, broker)
    return [rows[known] for known in sorted(rows)]


async def _ha_status(broker: BrokerLink) -> HaStatus | None:
    """What a broker says of its followers, or of its master; None: nothing."""
    try:
        answer = await broker.call(Command(RequestCode.GET_BROKER_HA_STATUS), ANSWER_TIMEOUT)
    except ClientError:
        return None
    return decode_ha_status(answer.body, broker.address)


def decode_ha_status(body: bytes, address: str) -> HaStatus:
    """Read the answer to GET_BROKER_HA_STATUS.

    Args:
        body: All of it.
        address: Of the broker, for the error.

    Raises:
        MalformedAnswerError: It is something else.

    Source: Java ``HARuntimeInfo``.
    """
    try:
        return msgspec.json.decode(body, type=HaStatus)
    except msgspec.DecodeError as error:
        raise MalformedAnswerError(f"{address}: HA status: {error}") from error


def with_replicas(row: BrokerRow, status: HaStatus) -> BrokerRow:
    """The row with a master's followers, or with how a follower stands."""
    if not status.master:
        state = _following(status.haClientRuntimeInfo) if row.state == SERVING else row.state
        return attrs.evolve(row, state=state)
    followers = tuple(
        FollowerState(address=one.addr, in_sync=one.inSync, behind=one.diff, silent_ms=one.silentMs)
        for one in status.haConnectionInfo
    )
    return attrs.evolve(row, followers=followers)


def _following(client: _Client) -> str:
    """How a follower stands: ``follows``, with how many bytes behind for how long, or why not."""
    if not client.activated:
        return f"does not follow: {client.error or 'no link to the master'}"
    if not client.behind:
        return FOLLOWS
    text = f"{FOLLOWS}, {client.behind} bytes behind"
    return text if client.behindMs is None else f"{text} for {client.behindMs} ms"


class _Link(msgspec.Struct):
    addr: str = ""
    diff: int = 0
    inSync: bool = False
    silentMs: int | None = None


class _Client(msgspec.Struct):
    activated: bool = False
    behind: int = 0
    behindMs: int | None = None
    error: str | None = None


class HaStatus(msgspec.Struct):
    """The answer to GET_BROKER_HA_STATUS: of a follower the second part counts."""

    master: bool = False
    haConnectionInfo: list[_Link] = msgspec.field(default_factory=list[_Link])
    haClientRuntimeInfo: _Client = msgspec.field(default_factory=_Client)


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
        followers=None,
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
        "followers": _followers_shown(row.followers),
        "disk": None if row.disk is None else f"{row.disk:.0%}",
        "put_tps": None if row.put_tps is None else f"{row.put_tps:.1f}",
    }


def _followers_shown(followers: Sequence[FollowerState] | None) -> str | None:
    """How many are in sync, and what the one most behind lacks: ``1/2, 340 B behind for 2.1s``."""
    if not followers:
        return None
    last = max(followers, key=lambda one: one.behind)
    text = f"{sum(one.in_sync for one in followers)}/{len(followers)} in sync"
    if last.behind:
        text += f", {size(last.behind)} behind"
        text += f" for {span(last.silent_ms)}" if last.silent_ms else ""
    return text
