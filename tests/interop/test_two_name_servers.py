"""Two name servers of RocketMQ's: brokers of ours and all clients know both, and one stops."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path

import pytest

from interop.conftest import Client
from interop.consuming import Consumers, consumers
from interop.java_peer import JavaPeer
from interop.lives import ROUND, cpp_consumer
from interop.serving import serving
from interop.talking import Talking, talking
from waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

NAMES = {"ours-a", "ours-b"}
STARTS_MAX = 16
KNOWN_AGAIN_SECONDS = 30.0
"""In which a name server that has come back knows all brokers and routes: they try every second
first, then with longer and longer pauses."""


def brokers(admin: Talking) -> set[str]:
    """Names of the brokers that a name server knows."""
    rows = [line.split() for line in admin.ask("clusterList").splitlines()]
    return {row[1] for row in rows if row and row[0] == "DefaultCluster"}


def wait_known(admin: Talking, topic: str = "") -> None:
    """Wait until a name server knows both brokers, and both as those of a topic."""

    def are_known() -> bool:
        route = admin.ask(f"topicRoute -t {topic}") if topic else ""
        return brokers(admin) == NAMES and (
            not topic or all(f'"{name}"' in route for name in NAMES)
        )

    wait_until(are_known, KNOWN_AGAIN_SECONDS, told=lambda: admin.heard, pause=0.2)


def make_topic(admin: Talking, topic: str) -> None:
    """Make a topic with four queues on each broker."""
    made = admin.ask(f"updateTopic -c DefaultCluster -t {topic} -r 4 -w 4")

    assert made.count("success") == len(NAMES)


def check_round(clients: Sequence[Consumers], topic: str, prefix: str) -> None:
    """Each client sends a round, and each gets the rounds of all."""
    for number, one in enumerate(clients):
        one.tell("send", "P", topic, f"{prefix}{number}", str(ROUND), "0")
    wanted = {f"{prefix}{at}-{of}" for at in range(len(clients)) for of in range(ROUND)}
    clients[0].wait_until(lambda: all(wanted <= set(one.bodies()) for one in clients))


def has_said(client: Consumers, *beginnings: str) -> bool:
    """Has it printed a line that begins like one of these?"""
    return any(line.startswith(beginnings) for line in client.lines)


def start_new(client: Consumers, group: str) -> None:
    """A consumer that begins while the first name server of its list is down.

    Java's may not start, when it has met that one ("connect to null failed"): then the next does.
    """
    for attempt in range(STARTS_MAX):
        name = f"new{attempt}"
        client.tell("start", name, "concurrent", group, "New", "*")
        client.wait_until(partial(has_said, client, f"READY {name}", f"FAILED {name}"))
        if f"READY {name}" in client.lines:
            return
    raise AssertionError(f"not started: {client.lines[-STARTS_MAX:]}")


@contextlib.contextmanager
def all_clients(namesrv: str, folder: Path, *commands: Sequence[str]) -> Generator[list[Consumers]]:
    """A process of each client."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(consumers([*one, namesrv], folder)) for one in commands]


def test_either_of_two_stops(
    tmp_path: Path, java_peer: JavaPeer, java_client: Client, go_client: Client
) -> None:
    """One is killed: clients go on, new ones start. It comes back, and does for the other."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(java_peer.namesrv(tmp_path / "one"))
        second = stack.enter_context(java_peer.namesrv(tmp_path / "two"))
        both = f"{first.listen};{second.listen}"
        for name in sorted(NAMES):
            flags = ("--set", f"broker_name={name}", "--namesrv", both)
            stack.enter_context(serving(tmp_path / name, *flags))
        admin = stack.enter_context(talking(java_client("MqAdmin", second.listen)))
        wait_known(admin)
        make_topic(admin, "T")
        make_topic(admin, "New")
        commands = (java_client("ConsumeClient"), go_client("consuming"), cpp_consumer())
        clients = stack.enter_context(all_clients(both, tmp_path, *commands))
        for number, one in enumerate(clients):
            one.start("old", "concurrent", f"G{number}", "T")
        check_round(clients, "T", "both")

        first.kill()
        check_round(clients, "T", "alone")
        for number, one in enumerate(clients):
            start_new(one, f"New{number}")
        check_round(clients, "New", "new")

        again = java_peer.namesrv(tmp_path / "one", listen=first.listen)
        back = stack.enter_context(again).listen
        returned = stack.enter_context(talking(java_client("MqAdmin", back)))
        wait_known(returned, "T")
        wait_known(returned, "New")
        second.kill()
        check_round(clients, "T", "other")
