"""A group of each real client through its life: members come, leave and die, the broker dies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest

from interop.conftest import Client
from interop.consuming import Consumers, Delivery, consumers
from interop.serving import StartBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

Command = Callable[[str], list[str]]
"""A client's program for a name server."""

TOPIC, GROUP = "T", "G"
ROUND = 16
"""Messages of a round: two for each queue of the topic."""
STREAM = 150
"""Messages of the stream in whose middle the broker, or a member, dies."""
ROUNDS_MAX = 40
"""In which all members have got something; clients look at their group every 20 seconds."""
RECONNECTED_SECONDS = 120.0
"""C++ lets a send to a broker that is gone time out, and looks for routes every 30 seconds."""


def send(clients: Consumers, prefix: str, count: int = ROUND, pause_ms: int = 0) -> None:
    """Have the client's own producer send messages, one after the other."""
    clients.tell("send", "P", TOPIC, prefix, str(count), str(pause_ms))


def got(processes: Sequence[Consumers], prefix: str) -> list[Delivery]:
    """What came of a round to any member."""
    return [
        one
        for clients in processes
        for one in clients.deliveries()
        if one.body.startswith(f"{prefix}-")
    ]


def wait_for_all(
    clients: Consumers, prefix: str, count: int = ROUND, *, also: Sequence[Consumers] = ()
) -> None:
    """Wait until all messages of a round were acknowledged and have come to the group.

    Args:
        clients: Who sends them, with members of the group.
        prefix: Of the round.
        count: Messages in it.
        also: Processes with other members.
    """
    sent = {f"SENT {prefix} {number}" for number in range(count)}
    bodies = {f"{prefix}-{number}" for number in range(count)}
    processes = [clients, *also]
    clients.wait_until(lambda: sent <= set(clients.lines), RECONNECTED_SECONDS)
    clients.wait_until(
        lambda: bodies <= {one.body for one in got(processes, prefix)}, RECONNECTED_SECONDS
    )


def share(clients: Consumers, title: str, *names: str, also: Sequence[Consumers] = ()) -> None:
    """Send rounds until one of them comes to all members, each queue to one of them."""
    for number in range(ROUNDS_MAX):
        prefix = f"{title}{number}"
        send(clients, prefix)
        wait_for_all(clients, prefix, also=also)
        places = {(one.consumer, one.queue_id) for one in got([clients, *also], prefix)}
        shared = len({queue_id for _, queue_id in places}) == len(places)
        if shared and {name for name, _ in places} == set(names):
            return
        time.sleep(1)
    raise AssertionError(f"of {names} not all got something of their own")


def check_life(command: Command, folder: Path, start: StartBroker) -> None:
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


@attrs.frozen
class Death:
    """What two members got, of whom one was killed in mid-stream; the other goes on."""

    of_dead: list[Delivery]
    """All that the one got that was killed."""
    shared: int
    """So many of them before the stream."""
    taken: list[Delivery]
    """What the other got from then on, to the end of a round that was sent to it alone."""


def one_of_two_dies(command: Command, folder: Path, start: StartBroker, kind: str) -> Death:
    """Everything comes, whoever gets it; the broker goes on."""
    broker = start(folder / "store")
    with (
        consumers(command(broker.namesrv), folder) as clients,
        consumers(command(broker.namesrv), folder) as others,
    ):
        send(clients, "first")
        clients.wait_for(f"SENT first {ROUND - 1}")
        clients.start("stays", kind, GROUP, TOPIC)
        others.start("dies", kind, GROUP, TOPIC)
        share(clients, "shared", "stays", "dies", also=[others])
        shared = len(others.deliveries())
        send(clients, "stream", STREAM, 10)
        clients.wait_for(f"SENT stream {STREAM // 3}")
        others.kill()
        before = len(clients.deliveries())
        wait_for_all(clients, "stream", STREAM, also=[others])
        send(clients, "behind")
        wait_for_all(clients, "behind")
        death = Death(others.deliveries(), shared, clients.deliveries()[before:])
    code = broker.stop()

    assert code == 0
    return death


def check_death(command: Command, folder: Path, start: StartBroker) -> None:
    """Of two members one is killed in mid-stream: the other gets its queues, and what it left."""
    death = one_of_two_dies(command, folder, start, "concurrent")
    of_dead = {one.queue_id for one in death.of_dead[: death.shared]}
    behind = {one.queue_id for one in death.taken if one.body.startswith("behind-")}

    assert of_dead
    assert of_dead <= behind


def check_orderly_death(command: Command, folder: Path, start: StartBroker) -> None:
    """Of two orderly members one is killed in mid-stream: its locks expire, the other goes on.

    Each queue in its order, from what the dead one committed last: nothing is left out.
    """
    death = one_of_two_dies(command, folder, start, "orderly")
    left = [one for one in death.of_dead if one.body.startswith("stream-")]

    assert left
    for queue_id in {one.queue_id for one in left}:
        last = max(one.queue_offset for one in left if one.queue_id == queue_id)
        offsets = [one.queue_offset for one in death.taken if one.queue_id == queue_id]
        assert offsets[0] <= last + 1
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


def test_java(tmp_path: Path, java_client: Client, start: StartBroker) -> None:
    """Java: a member leaves, the broker dies."""
    check_life(lambda namesrv: java_client("ConsumeClient", namesrv), tmp_path, start)


def test_java_orderly_member_dies(tmp_path: Path, java_client: Client, start: StartBroker) -> None:
    """Java: a member dies that has its queues to itself."""
    check_orderly_death(lambda namesrv: java_client("ConsumeClient", namesrv), tmp_path, start)


def test_go(tmp_path: Path, go_client: Client, start: StartBroker) -> None:
    """Go: a member leaves, the broker dies."""
    check_life(lambda namesrv: go_client("consuming", namesrv), tmp_path, start)


def test_go_member_dies(tmp_path: Path, go_client: Client, start: StartBroker) -> None:
    """Go: a member dies."""
    check_death(lambda namesrv: go_client("consuming", namesrv), tmp_path, start)


def cpp_consumer(namesrv: str) -> list[str]:
    """The command line of the C++ client's program."""
    return [sys.executable, str(Path(__file__).parent / "cpp_consumer.py"), namesrv]


def test_cpp(tmp_path: Path, start: StartBroker) -> None:
    """C++: a member leaves, the broker dies."""
    check_life(cpp_consumer, tmp_path, start)


def test_cpp_member_dies(tmp_path: Path, start: StartBroker) -> None:
    """C++: a member dies."""
    check_death(cpp_consumer, tmp_path, start)
