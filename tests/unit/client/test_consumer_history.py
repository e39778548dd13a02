"""What a consumer writes into its history, and when it says that it has seen everything."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from scripted_server import Network, ScriptedBroker
from timermq.client import Consumer, HistoryWriter
from timermq.client.history import Deliver, End, Event, Start, read_history
from unit.client.consumers import consumer_of, messages, take


async def events_of(path: Path, consumer: Consumer, count: int) -> list[Event]:
    """The history of a consumer that takes some messages and leaves."""
    async with consumer as one:
        await take(one, count)
    return [event for _, event in read_history(path)]


async def test_what_was_received(
    autojump_clock: trio.testing.MockClock, network: Network, tmp_path: Path
) -> None:
    """Each message that was given out, then an end that says how far everything was seen."""
    ScriptedBroker(network).put(*messages(2))
    path = tmp_path / "h"
    with HistoryWriter(path, who="c", clock_ms=lambda: 9) as history:
        start, first, second, end = await events_of(path, consumer_of(network, history=history), 2)

    assert isinstance(start, Start)
    assert isinstance(second, Deliver)
    assert isinstance(end, End)
    assert first == Deliver(
        at_ms=9,
        who="c",
        message_id="7F00000100002A9F0000000000000000",
        topic="T",
        queue=0,
        offset=0,
        stored_ms=2,
        broker="broker-a",
        received_ms=5,
        group="G",
    )
    assert (1, True, ("T",), "G") == (second.offset, end.drained, end.topics, end.group)


@pytest.mark.parametrize("reason", ["messages left", "from last", "a filter", "a silent broker"])
async def test_not_drained(
    autojump_clock: trio.testing.MockClock, network: Network, tmp_path: Path, reason: str
) -> None:
    """What may have been missed is not claimed."""
    broker = ScriptedBroker(network)
    broker.put(*messages(2))
    broker.offsets["T", 0] = 0
    if reason == "a silent broker":
        del broker.server.handlers[30]
    path = tmp_path / "h"
    with HistoryWriter(path) as history:
        consumer = consumer_of(
            network,
            expression="|| " if reason == "a filter" else "*",
            start_from="last" if reason == "from last" else "first",
            history=history,
        )
        *_, end = await events_of(path, consumer, 1 if reason == "messages left" else 2)

    assert isinstance(end, End)
    assert (False, ()) == (end.drained, end.topics)
