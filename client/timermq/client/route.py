"""The routes of topics: asked of the name servers, kept for a while.

A topic without a route may be made on first send: then the route of the template TBW102 stands in,
with at most four queues, as all RocketMQ clients do. While no name server answers, what was known
last goes on being used: brokers work without them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs

from timermq.remoting import Command, LocalProtocolError, RequestCode, ResponseCode
from timermq.remoting.bodies import QueueRoute, decode_topic_route
from timermq.remoting.send_header import DEFAULT_TOPIC
from timermq.remoting.topic_header import TopicHeader

from .errors import (
    BrokerRefusedError,
    ClientError,
    MalformedAnswerError,
    NoAnswerError,
    NoRouteError,
    reading_answer,
)
from .link import Links, split_address

FRESH_SECONDS = 30.0
"""How long a route is used before it is asked for again."""
DEFAULT_QUEUE_NUMS = 4
"""Queues of a topic that is made on first send, at most."""
QUEUE_NUMS_MAX = 65_536
"""Queues that a topic may have on one broker."""

READ, WRITE = 4, 2


@attrs.frozen
class TopicQueue:
    """A queue of a topic, and the broker that holds it."""

    topic: str
    broker_name: str
    queue_id: int
    address: str

    def __str__(self) -> str:
        """As it is called in logs."""
        return f"{self.topic}/{self.queue_id}@{self.broker_name}"


def name_servers(text: str) -> list[str]:
    """The addresses of ``host:port;host:port``.

    Raises:
        ValueError: There is none, or one is something else.
    """
    servers = [one.strip() for one in text.split(";") if one.strip()]
    if not servers:
        raise ValueError(f"name servers: expected host:port, found {text!r}")
    for server in servers:
        try:
            split_address(server)
        except LocalProtocolError as error:
            raise ValueError(f"name servers: {error}") from None
    return servers


class Routes:
    """The routes of one client.

    Args:
        links: Its connections.
        servers: Name servers, ``host:port`` each; they are asked in this order.
        clock: Seconds of a clock that never steps.
    """

    def __init__(self, links: Links, servers: list[str], clock: Callable[[], float]) -> None:
        self._links = links
        self._servers = servers
        self._clock = clock
        self._known: dict[str, tuple[float, list[QueueRoute]]] = {}

    async def find(self, topic: str) -> list[QueueRoute]:
        """The brokers of a topic.

        Raises:
            NoRouteError: No name server knows it.
            NoAnswerError: No name server answers, and the topic was never known.
            BrokerRefusedError: The name servers refuse to say.
            MalformedAnswerError: What they say is not a route.
        """
        asked_at, routes = self._known.get(topic, (-math.inf, None))
        if routes is not None and self._clock() - asked_at < FRESH_SECONDS:
            return routes
        try:
            found = await self._ask(topic)
        except NoRouteError:
            self._known.pop(topic, None)
            raise
        except (NoAnswerError, MalformedAnswerError, BrokerRefusedError):
            if routes is None:
                raise
            found = routes
        self._known[topic] = (self._clock(), found)
        return found

    def doubt(self, topic: str) -> None:
        """Ask again next time: its broker did not answer."""
        _, routes = self._known.get(topic, (0.0, None))
        if routes is not None:
            self._known[topic] = (-math.inf, routes)

    async def writable(self, topic: str) -> list[TopicQueue]:
        """Queues to send to; those of the template when the topic is not there yet.

        Raises:
            NoRouteError: There is none.
            ClientError: As for ``find``.
        """
        try:
            routes = await self.find(topic)
        except NoRouteError as error:
            routes = await self._template(error)
        queues = [
            TopicQueue(topic, route.broker_name, queue_id, route.address)
            for route in routes
            if route.perm & WRITE and route.address
            for queue_id in range(route.write_queue_nums)
        ]
        if not queues:
            raise NoRouteError(f"topic {topic}: no queue that can be written")
        return queues

    async def readable(self, topic: str) -> list[TopicQueue]:
        """Queues to read from; none when the topic is not there yet.

        Raises:
            ClientError: As for ``find``.
        """
        try:
            routes = await self.find(topic)
        except NoRouteError:
            return []
        return [
            TopicQueue(topic, route.broker_name, queue_id, route.address)
            for route in routes
            if route.perm & READ and route.address
            for queue_id in range(route.read_queue_nums)
        ]

    async def _template(self, missing: NoRouteError) -> list[QueueRoute]:
        """The template's route; without one the topic may not be made, and that is the error."""
        try:
            routes = await self.find(DEFAULT_TOPIC)
        except NoRouteError:
            raise missing from None
        return [
            attrs.evolve(route, write_queue_nums=min(route.write_queue_nums, DEFAULT_QUEUE_NUMS))
            for route in routes
        ]

    async def _ask(self, topic: str) -> list[QueueRoute]:
        """The route; a server that says there is none counts for more than one that is silent."""
        failures: list[ClientError] = []
        for server in self._servers:
            command = Command(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=TopicHeader(topic=topic).to_ext()
            )
            try:
                answer = await self._links.call(server, command)
                if answer.code == ResponseCode.SUCCESS:
                    return _decode(topic, answer.body)
            except (NoAnswerError, MalformedAnswerError) as error:
                failures.append(error)
                continue
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                failures.insert(0, NoRouteError(f"topic {topic}: {answer.remark or 'no route'}"))
            else:
                failures.append(BrokerRefusedError(answer.code, answer.remark or ""))
        raise failures[0]


def _decode(topic: str, body: bytes) -> list[QueueRoute]:
    with reading_answer(f"route of {topic}"):
        routes = decode_topic_route(body)
    for route in routes:
        if max(route.read_queue_nums, route.write_queue_nums) > QUEUE_NUMS_MAX:
            raise MalformedAnswerError(
                f"route of {topic}: expected at most {QUEUE_NUMS_MAX} queues, "
                f"found {max(route.read_queue_nums, route.write_queue_nums)}"
            )
        try:
            if route.address:
                split_address(route.address)
        except LocalProtocolError as error:
            raise MalformedAnswerError(f"route of {topic}: {error}") from None
    return routes
