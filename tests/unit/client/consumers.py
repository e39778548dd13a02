"""Consumers for tests: one in a network of scripted servers, and what it is to receive."""

from __future__ import annotations

from typing import Literal

from scripted_server import NAMESRV, Network, joined_routes, route, stored
from timermq.client import Consumer, HistoryWriter, ReceivedMessage

OTHER_BROKER = "b:10911"
TWO_BROKERS = joined_routes(route(), route(address=OTHER_BROKER, broker_name="broker-b"))


def consumer_of(
    network: Network,
    *topics: str,
    expression: str = "*",
    start_from: Literal["first", "last"] = "first",
    history: HistoryWriter | None = None,
) -> Consumer:
    """A consumer in a network."""
    return Consumer(
        NAMESRV,
        group="G",
        topics=dict.fromkeys(topics or ("T",), expression),
        start_from=start_from,
        open_stream=network.open_stream,
        clock_ms=lambda: 5,
        history=history,
    )


async def take(consumer: Consumer, count: int) -> list[ReceivedMessage]:
    """The next messages, not committed."""
    return [await anext(consumer) for _ in range(count)]


def bodies(messages: list[ReceivedMessage]) -> list[bytes]:
    """The bodies of some messages, in their order."""
    return [one.body for one in messages]


def messages(count: int, first: int = 0) -> list[bytes]:
    """Messages as they are stored in a queue."""
    return [stored("T", offset) for offset in range(first, first + count)]
