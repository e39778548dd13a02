"""Requests to one replica by its address, as the verbs that change the lead make them."""

from __future__ import annotations

import attrs
import trio

from timermq.client import ClientError
from timermq.client.errors import check_answer
from timermq.remoting import Command
from timermq.remoting.epoch_report import EpochReport

from .arguments import OneLineParser, UsageError, address
from .broker_link import KnownBroker, call_brokers
from .client_access import ClientAccess
from .output import Row

LEAD_TIMEOUT = 90.0
"""Seconds for a change of the lead: a follower may have far to go through its log."""


def add_replica(parser: OneLineParser, what: str) -> None:
    """The address of a replica."""
    parser.add_argument(
        "address", metavar="HOST:PORT", type=_address, help=f"{what}, where clients reach it"
    )


def _address(text: str) -> str:
    address(text)
    return text


async def call_replica(access: ClientAccess, at: str, command: Command) -> Command:
    """The answer of the replica at an address.

    Raises:
        ClientError: It refuses, or does not answer.
    """
    async with trio.open_nursery() as nursery:
        links = access.links(nursery)
        answer = check_answer(await links.call(at, command, LEAD_TIMEOUT))
        nursery.cancel_scope.cancel()
    return answer


async def find_follower(access: ClientAccess, master: str) -> str:
    """Address of the only follower of a master, as its own port or the name servers know it.

    Raises:
        UsageError: There is another number of them.
    """
    found: list[str] = []
    # Where no name server is told, followers register at the port that the master has for clients.
    for server in (master, access.namesrv):
        known: list[KnownBroker] = []
        try:
            at = attrs.evolve(access, namesrv=server)
            async with call_brokers(at, with_slaves=True) as brokers:
                known = [one.known for one in brokers]
        except* ClientError:
            pass
        names = {one.name for one in known if one.address == master}
        found = [one.address for one in known if one.name in names and one.number != "0"]
        if found:
            break
    if len(found) != 1:
        raise UsageError(
            f"argument --to: expected one follower of the broker at {master} that is registered "
            f"there or with the name servers, found {len(found)}: name the one that is to lead"
        )
    return found[0]


def report_row(report: EpochReport, at: str) -> Row:
    """What a replica says of itself, by the names of the fields."""
    return {
        "broker": report.broker_name,
        "address": at,
        "leads": report.is_master,
        "epoch": report.last_epoch,
        "epoch_start": report.epochs[-1][1] if report.epochs else None,
        "log_end": report.max_offset,
    }


def report_text(report: EpochReport, at: str) -> str:
    """The same for people: one line."""
    return f"{report.broker_name} at {at} leads in epoch {report.last_epoch}"
