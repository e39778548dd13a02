"""Requests to brokers that a name server knows."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Generic, TypeVar

import attrs
import trio

from timermq.broker.config_fields import ConfigFields, ConfigTableError
from timermq.client import ClientError, NoAnswerError
from timermq.client.errors import MalformedAnswerError, check_answer
from timermq.client.link import Links
from timermq.client.route import name_servers
from timermq.remoting import Command, RequestCode
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.fastjson import parse_json

from .arguments import UsageError
from .client_access import ClientAccess
from .output import visible

CALL_TIMEOUT = 60.0
"""Seconds: a broker looks through all that waits."""

_Answer = TypeVar("_Answer")


@attrs.frozen(order=True)
class KnownBroker:
    """A broker as name servers know it."""

    name: str
    number: str
    """0: the master of its name."""
    address: str
    cluster: str = ""


@attrs.frozen(eq=False)
class BrokerLink:
    """A link to one broker, and what name servers know of it."""

    known: KnownBroker
    _links: Links

    @property
    def address(self) -> str:
        """Where it listens, as ``host:port``."""
        return self.known.address

    async def call(self, command: Command, timeout: float = CALL_TIMEOUT) -> Command:
        """The answer to a request, within so many seconds.

        Raises:
            BrokerRefusedError: It is an error.
            ConnectionLostError: There is none.
            RequestTimeoutError: There is none in time.
        """
        return check_answer(await self._links.call(self.address, command, timeout))


@attrs.frozen
class Answers(Generic[_Answer]):
    """The answers of several brokers, and the errors of those that gave none."""

    given: Sequence[tuple[BrokerLink, _Answer]]
    missing: Sequence[tuple[BrokerLink, ClientError]]

    def tell_missing(self) -> None:
        """Name the brokers without an answer on standard error."""
        for broker, error in self.missing:
            text = visible(" ".join(str(error).split()))
            print(
                f"timermq: warning: broker {broker.known.name} is left out: {text}",
                file=sys.stderr,
            )


async def ask_each(
    brokers: Sequence[BrokerLink], ask: Callable[[BrokerLink], Awaitable[_Answer]]
) -> Answers[_Answer]:
    """Ask several brokers at the same time.

    Args:
        brokers: The brokers.
        ask: Asks one of them.

    Raises:
        ClientError: None of them answers: the error of the first.
    """
    found: dict[BrokerLink, _Answer] = {}
    errors: dict[BrokerLink, ClientError] = {}

    async def ask_one(broker: BrokerLink) -> None:
        try:
            found[broker] = await ask(broker)
        except ClientError as error:
            errors[broker] = error

    async with trio.open_nursery() as nursery:
        for broker in brokers:
            nursery.start_soon(ask_one, broker)
    answers = Answers(
        [(one, found[one]) for one in brokers if one in found],
        [(one, errors[one]) for one in brokers if one in errors],
    )
    if answers.missing and not answers.given:
        raise answers.missing[0][1]
    return answers


@asynccontextmanager
async def call_brokers(
    access: ClientAccess, *, with_slaves: bool = False
) -> AsyncGenerator[list[BrokerLink]]:
    """Links to all masters that the name servers know, as long as the block runs.

    Args:
        access: How they are found and spoken to.
        with_slaves: Links to all brokers.

    Raises:
        ClientError: No name server answers, or its answer is no list of brokers.
    """
    async with trio.open_nursery() as nursery:
        links = access.links(nursery)
        answer = await _ask_any(links, access.namesrv)
        known = known_brokers(answer.body)
        yield [BrokerLink(one, links) for one in known if with_slaves or one.number == "0"]
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


def known_brokers(body: bytes) -> list[KnownBroker]:
    """The brokers in a cluster info, by name and number.

    Raises:
        MalformedAnswerError: It is no cluster info.
    """
    try:
        info = ConfigFields("cluster info", parse_json(body.decode(), "cluster info"))
        # RocketMQ prints the number bare, others quote it: both are the text here.
        return sorted(
            KnownBroker(name, number, address, str(broker.rest.get("cluster") or ""))
            for name, broker in info.fields("brokerAddrTable").objects()
            for number, address in broker.texts("brokerAddrs").items()
        )
    except (UnicodeDecodeError, StoreFormatError, ConfigTableError) as error:
        raise MalformedAnswerError(str(error)) from error


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
