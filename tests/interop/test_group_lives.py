"""A group of each real client through its life: members come, leave and die, the broker dies."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import attrs
import pytest

from interop.conftest import Client
from interop.consuming import Consumers, consumers
from interop.lives import (
    BROADCASTING,
    ROUND,
    Command,
    Life,
    check_order,
    cpp_consumer,
    offsets_by_queue,
)
from interop.serving import StartBroker
from timermq.timerstore.fastjson import parse_json

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

SETTINGS = (
    "--set", "rebalance_lock_max_live_ms=35000",
    "--set", "flush_consumer_offset_interval_ms=100",
)  # fmt: skip
"""Locks expire as soon as the broker lets them; what is committed is on the disk soon."""
STREAM = 150
"""Messages of the stream in whose middle the broker, or a member, dies."""
CHANGES = 5
"""Of a life: two come, one leaves, the broker dies, one leaves."""
DEATH_CHANGES = 2
"""One comes, one dies."""


@attrs.frozen
class Program:
    """A client's program, and its ways of consuming."""

    command: Command
    shared: tuple[str, ...]
    """Kinds whose members share the queues."""
    alone: str = ""
    """A kind that takes all queues for itself."""
    late: str = ""
    """A kind whose second member does not get its share before locks expire, and has no third."""
    keeps_locks: bool = False
    """An orderly consumer that leaves does not unlock all queues: they wait for the expiry."""


def java_program(client: Client) -> Program:
    """The Java client: a subscribed lite consumer is a member of its group, another is alone."""
    return Program(
        lambda namesrv: client("ConsumeClient", namesrv),
        shared=("concurrent", "orderly", "subscribed"),
        alone="lite",
    )


def go_program(client: Client) -> Program:
    """The Go client, whose pull consumer is a member of its group.

    An orderly consumer that hands queues over to a new member does not unlock them.
    """
    return Program(
        lambda namesrv: client("consuming", namesrv),
        shared=("concurrent", "orderly", "pull"),
        late="orderly",
    )


CPP = Program(cpp_consumer, shared=("concurrent", "orderly"), alone="pull", keeps_locks=True)
"""Its ``unlockAll`` leaves one queue of each broker out."""


def check_life(program: Program, folder: Path, start: StartBroker) -> None:
    """One, two, three members, then two; then a kill in mid-stream: everything comes."""
    broker = start(folder / "store", *SETTINGS)
    with consumers(program.command(broker.namesrv), folder) as clients:
        life = Life([clients])
        life.send("first")
        clients.wait_for(f"SENT first {ROUND - 1}")
        begin(program, life)
        kinds = (*program.shared, BROADCASTING)
        at_once = [kind for kind in kinds if kind != program.late]
        life.join("two", *kinds)
        life.share("two", at_once)
        life.join("three", *at_once)
        life.share("three", at_once)
        if program.late:
            life.share("late", [program.late])
        life.leave("three", *at_once)
        for kind in program.shared:
            clients.stop(f"Kept-{kind}-before")
        # A kill may take what was committed a moment ago: the disk has its own time.
        clients.wait_until(
            lambda: all(committed(broker.store, f"Kept-{kind}") >= ROUND for kind in program.shared)
        )
        life.send("left")
        life.wait_for_all("left", kinds=unlocking(program))
        life.send("stream", STREAM, 10)
        clients.wait_for(f"SENT stream {STREAM // 3}")
        broker.kill()
        again = start(folder / "store", *SETTINGS, listen=broker.listen, namesrv=broker.namesrv)
        life.wait_for_all("stream", STREAM)
        life.leave("two", *unlocking(program))
        life.send("behind")
        life.wait_for_all("behind")
        check_kept(program, life)
        if program.alone:
            check_alone(program, life)
        if program.alone == "lite":
            check_seek(clients)
    code = again.stop()

    assert code == 0
    check_order(life.got("orderly"), CHANGES)


def unlocking(program: Program) -> set[str]:
    """Kinds of which another member has the queues at once of one that leaves."""
    return set(program.shared) - ({"orderly"} if program.keeps_locks else set())


def begin(program: Program, life: Life) -> None:
    """The first members; and each group that shares has a like, which leaves before the kill."""
    life.join("one", *program.shared, BROADCASTING, *[program.alone] * bool(program.alone))
    begun = [kind for kind in life.members if kind != BROADCASTING]
    life.clients.wait_until(lambda: all(life.has_all(kind, "first", ROUND) for kind in begun))
    for kind in program.shared:
        start_kept(life, kind, "before")
    life.clients.wait_until(
        lambda: all(len(bodies_of_kept(life, kind, "before")) >= ROUND for kind in program.shared)
    )


def start_kept(life: Life, kind: str, when: str) -> None:
    """A member of the group that rests while the broker dies."""
    life.clients.start(f"Kept-{kind}-{when}", kind, f"Kept-{kind}", "T")


def committed(store: Path, group: str) -> int:
    """How many messages of the topic a group has behind it, as the disk knows."""
    file = store / "config" / "consumerOffset.json"
    if not file.exists():
        return 0
    tables = cast("dict[str, dict[str, dict[int, int]]]", parse_json(file.read_text()))
    return sum(tables["offsetTable"].get(f"T@{group}", {}).values())


def bodies_of_kept(life: Life, kind: str, when: str) -> set[str]:
    """The bodies that one of the group's members got, each once."""
    return set(life.clients.bodies(f"Kept-{kind}-{when}"))


def check_kept(program: Program, life: Life) -> None:
    """What a group had committed when it left is behind it, though the broker has died since."""
    last = {f"behind-{number}" for number in range(ROUND)}
    for kind in program.shared:
        start_kept(life, kind, "again")
    life.clients.wait_until(
        lambda: all(last <= bodies_of_kept(life, kind, "again") for kind in program.shared)
    )
    for kind in program.shared:
        first = {f"first-{number}" for number in range(ROUND)}

        assert bodies_of_kept(life, kind, "before") >= first
        assert bodies_of_kept(life, kind, "again").isdisjoint(first), kind


def check_alone(program: Program, life: Life) -> None:
    """Who takes all queues for itself got each message, once, in order."""
    for offsets in offsets_by_queue(life.got(program.alone)).values():
        assert offsets == list(range(len(offsets)))


def check_seek(clients: Consumers) -> None:
    """Java's lite pull seeks and commits, though its broker has died since it began."""
    queue = [one.body for one in clients.deliveries("lite-one") if one.queue_id == 0]
    clients.tell("seek", "lite-one", "0", "0")
    clients.wait_until(lambda: queue_of_lite(clients) == 2 * queue)
    clients.tell("committed", "lite-one", "0", str(len(queue)))

    assert clients.wait_for("COMMITTED lite-one") == f"COMMITTED lite-one {len(queue)}"


def queue_of_lite(clients: Consumers) -> list[str]:
    """Bodies of queue 0, as they came to it."""
    return [one.body for one in clients.deliveries("lite-one") if one.queue_id == 0]


def check_death(program: Program, folder: Path, start: StartBroker) -> None:
    """Of two members one is killed in mid-stream: the other gets its queues, and what it left.

    The locks of an orderly one expire first. Each queue goes on in its order, from what the dead
    one committed last.
    """
    broker = start(folder / "store", *SETTINGS)
    kinds = {"concurrent", "orderly"} - {program.late}
    with (
        consumers(program.command(broker.namesrv), folder) as clients,
        consumers(program.command(broker.namesrv), folder) as others,
    ):
        life = Life([clients, others])
        life.send("first")
        clients.wait_for(f"SENT first {ROUND - 1}")
        life.join("dies", *kinds, process=1)
        others.wait_until(lambda: all(life.has_all(kind, "first", ROUND) for kind in kinds))
        life.join("stays", *kinds)
        life.share("shared", kinds)
        life.send("stream", STREAM, 10)
        clients.wait_for(f"SENT stream {STREAM // 3}")
        others.kill()
        life.wait_for_all("stream", STREAM)
        life.send("behind")
        life.wait_for_all("behind")
    code = broker.stop()

    assert code == 0
    for kind in kinds:
        assert any(one.body.startswith("stream-") for one in others.deliveries(f"{kind}-dies"))
    orderly = sorted(life.got("orderly"), key=lambda one: one.received_ms)
    check_order(orderly, DEATH_CHANGES)


def test_java(tmp_path: Path, java_client: Client, start: StartBroker) -> None:
    """Java: members leave, the broker dies; lite pull goes on, seeks and commits."""
    check_life(java_program(java_client), tmp_path, start)


def test_java_member_dies(tmp_path: Path, java_client: Client, start: StartBroker) -> None:
    """Java: when members die, those that stay get every message."""
    check_death(java_program(java_client), tmp_path, start)


def test_go(tmp_path: Path, go_client: Client, start: StartBroker) -> None:
    """Go: members leave, the broker dies."""
    check_life(go_program(go_client), tmp_path, start)


def test_go_member_dies(tmp_path: Path, go_client: Client, start: StartBroker) -> None:
    """Go: when members die, those that stay get every message."""
    check_death(go_program(go_client), tmp_path, start)


def test_cpp(tmp_path: Path, start: StartBroker) -> None:
    """C++: members leave, the broker dies; what pulls by itself goes on."""
    check_life(CPP, tmp_path, start)


def test_cpp_member_dies(tmp_path: Path, start: StartBroker) -> None:
    """C++: when members die, those that stay get every message."""
    check_death(CPP, tmp_path, start)
