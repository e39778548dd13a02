"""Where topics are: asked of the name servers, kept for a while.

A topic without a route may be made on first send: then the route of the template TBW102 stands in,
with at most four queues, as all RocketMQ clients do.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.remoting import Command, RequestCode, ResponseCode
from timermq.remoting.bodies import QueueRoute, decode_topic_route
from timermq.remoting.send_header import DEFAULT_TOPIC

from .errors import BrokerRefusedError, ClientError, ConnectionLostError, NoRouteError
from .link import Links

FRESH_SECONDS = 30.0
"""How long a route is used before it is asked for again."""
DEFAULT_QUEUE_NUMS = 4

READ, WRITE = 4, 2


@attrs.frozen
class TopicQueue:
    """One queue of a topic."""

    topic: str
    broker_name: str
    queue_id: int
    address: str


def name_servers(text: str) -> list[str]:
    """The addresses of ``host:port;host:port``.

    Raises:
        ValueError: There is none.
    """
    servers = [one.strip() for one in text.split(";") if one.strip()]
    if not servers:
        raise ValueError(f"name servers: expected host:port, found {text!r}")
    return servers


class Routes:
    """The routes of one client.

    Args:
        links: Its connections.
        servers: Name servers, ``host:port`` each.
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
            ConnectionLostError: No name server answers.
        """
        known = self._known.get(topic)
        if known is not None and self._clock() - known[0] < FRESH_SECONDS:
            return known[1]
        routes = await self._ask(topic)
        self._known[topic] = (self._clock(), routes)
        return routes

    def forget(self, topic: str) -> None:
        """Ask again next time."""
        self._known.pop(topic, None)

    async def writable(self, topic: str) -> list[TopicQueue]:
        """Queues to send to; those of the template when the topic is not there yet."""
        try:
            routes = await self.find(topic)
        except NoRouteError:
            routes = [
                attrs.evolve(
                    route, write_queue_nums=min(route.write_queue_nums, DEFAULT_QUEUE_NUMS)
                )
                for route in await self.find(DEFAULT_TOPIC)
            ]
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
        """Queues to read from; none when the topic is not there yet."""
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

    async def _ask(self, topic: str) -> list[QueueRoute]:
        failure: ClientError = NoRouteError(f"topic {topic}: no route")
        for server in self._servers:
            command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
            try:
                answer = await self._links.call(server, command)
            except ConnectionLostError as error:
                failure = error
                continue
            if answer.code == ResponseCode.SUCCESS:
                return decode_topic_route(answer.body)
            if answer.code != ResponseCode.TOPIC_NOT_EXIST:
                raise BrokerRefusedError(answer.code, answer.remark or "")
            failure = NoRouteError(f"topic {topic}: {answer.remark or 'no route'}")
        raise failure
