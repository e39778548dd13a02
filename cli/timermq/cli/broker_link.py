"""Requests to the brokers themselves, found by way of the name server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import attrs
import trio

from timermq.broker.config_fields import ConfigFields, ConfigTableError
from timermq.client import NoAnswerError
from timermq.client.errors import MalformedAnswerError, check_answer
from timermq.client.link import Links
from timermq.client.route import name_servers
from timermq.remoting import Command, RequestCode
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.fastjson import parse_json

from .arguments import UsageError
from .client_access import ClientAccess

CALL_TIMEOUT = 60.0
"""Seconds: a broker looks through all that waits."""


@attrs.frozen
class BrokerLink:
    """A link to one broker, and the broker's address."""

    address: str
    _links: Links

    async def call(self, command: Command) -> Command:
        """The answer to a request.

        Raises:
            BrokerRefusedError: It is an error.
            ConnectionLostError: There is none.
            RequestTimeoutError: There is none within `CALL_TIMEOUT`.
        """
        return check_answer(await self._links.call(self.address, command, CALL_TIMEOUT))


@asynccontextmanager
async def call_brokers(access: ClientAccess) -> AsyncGenerator[list[BrokerLink]]:
    """Links to all brokers that the name servers know, as long as the block runs.

    Raises:
        ClientError: No name server says, or not what brokers there are.
    """
    async with trio.open_nursery() as nursery:
        links = access.links(nursery)
        answer = await _ask_any(links, access.namesrv)
        yield [BrokerLink(address, links) for address in master_addresses(answer.body)]
        nursery.cancel_scope.cancel()


async def _ask_any(links: Links, namesrv: str) -> Command:
    """Ask for the list of brokers; the first name server that answers tells it."""
    *others, last = name_servers(namesrv)
    for server in others:
        with suppress(NoAnswerError):
            return check_answer(
                await links.call(server, Command(RequestCode.GET_BROKER_CLUSTER_INFO))
            )
    return check_answer(await links.call(last, Command(RequestCode.GET_BROKER_CLUSTER_INFO)))


def master_addresses(body: bytes) -> list[str]:
    """Addresses of the masters (broker 0) in a cluster info.

    Raises:
        MalformedAnswerError: It is no cluster info.
    """
    try:
        info = ConfigFields("cluster info", parse_json(body.decode(), "cluster info"))
        brokers = [one.texts("brokerAddrs") for _, one in info.fields("brokerAddrTable").objects()]
    except (UnicodeDecodeError, StoreFormatError, ConfigTableError) as error:
        raise MalformedAnswerError(str(error)) from error
    # RocketMQ prints the number bare, others quote it: both are the text here.
    return [addresses["0"] for addresses in brokers if "0" in addresses]


def chosen(brokers: list[BrokerLink], address: str | None) -> list[BrokerLink]:
    """All brokers, or the one at an address.

    Raises:
        UsageError: None is there.
    """
    found = [one for one in brokers if address in (None, one.address)]
    if not found:
        known = ", ".join(one.address for one in brokers)
        raise UsageError(f"argument --broker: expected one of {known}, found {address}")
    return found
