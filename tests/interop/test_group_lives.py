"""A group of each real client through its life: alone, two, three, one leaves, the broker dies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.conftest import Client
from interop.consuming import Consumers, consumers
from interop.serving import start

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

TOPIC, GROUP = "T", "G"
ROUND = 16
"""Messages of a round: two for each queue of the topic."""
STREAM = 150
"""Messages of the stream in whose middle the broker dies."""
ROUNDS_MAX = 40
"""In which all members have got something; clients look at their group every 20 seconds."""
RECONNECTED_SECONDS = 120.0
"""C++ lets a send to a broker that is gone time out, and looks for routes every 30 seconds."""


def send(clients: Consumers, prefix: str, count: int = ROUND, pause_ms: int = 0) -> None:
    """Have the client's own producer send messages, one after the other."""
    clients.tell("send", "P", TOPIC, prefix, str(count), str(pause_ms))


def wait_for_all(clients: Consumers, prefix: str, count: int = ROUND) -> None:
    """Wait until all messages of a round were acknowledged and have come to the group."""
    bodies = {f"{prefix}-{number}" for number in range(count)}
    sent = [f"SENT {prefix} {number}" for number in range(count)]
    clients.wait_until(lambda: set(sent) <= set(clients.lines), RECONNECTED_SECONDS)
    clients.wait_until(lambda: bodies <= set(clients.bodies()), RECONNECTED_SECONDS)


def share(clients: Consumers, title: str, *names: str) -> None:
    """Send rounds until one of them comes to all members, each queue to one of them."""
    for number in range(ROUNDS_MAX):
        prefix = f"{title}{number}"
        send(clients, prefix)
        wait_for_all(clients, prefix)
        got = [one for one in clients.deliveries() if one.body.startswith(f"{prefix}-")]
        places = {(one.consumer, one.queue_id) for one in got}
        shared = len({queue_id for _, queue_id in places}) == len(places)
        if shared and {name for name, _ in places} == set(names):
            return
        time.sleep(1)
    raise AssertionError(f"of {names} not all got something of their own")


def check_life(command: Callable[[str], list[str]], folder: Path) -> None:
    """One, two, three members, then two; then a kill in mid-stream: everything comes."""
    broker = start(folder / "store")
    with consumers(command(broker.namesrv), folder) as clients:
        send(clients, "first")
        clients.wait_for(f"SENT first {ROUND - 1}")
        clients.start("one", "concurrent", GROUP, TOPIC)
        wait_for_all(clients, "first")
        clients.start("two", "concurrent", GROUP, TOPIC)
        share(clients, "two", "one", "two")
        clients.start("three", "concurrent", GROUP, TOPIC)
        share(clients, "three", "one", "two", "three")
        clients.stop("three")
        send(clients, "left")
        wait_for_all(clients, "left")
        send(clients, "stream", STREAM, 10)
        clients.wait_for(f"SENT stream {STREAM // 3}")
        broker.kill()
        again = start(folder / "store", listen=broker.listen, namesrv=broker.namesrv)
        wait_for_all(clients, "stream", STREAM)
        got_before = len(clients.deliveries())
        send(clients, "behind")
        wait_for_all(clients, "behind")
        behind = clients.deliveries()[got_before:]
    code = again.stop()

    assert code == 0
    assert len({one.body for one in behind if one.body.startswith("behind-")}) == ROUND


def test_java(tmp_path: Path, java_client: Client) -> None:
    """Java."""
    check_life(lambda namesrv: java_client("ConsumeClient", namesrv), tmp_path)


def test_go(tmp_path: Path, go_client: Client) -> None:
    """Go."""
    check_life(lambda namesrv: go_client("consuming", namesrv), tmp_path)


def test_cpp(tmp_path: Path) -> None:
    """C++."""
    program = [sys.executable, str(Path(__file__).parent / "cpp_consumer.py")]
    check_life(lambda namesrv: [*program, namesrv], tmp_path)
