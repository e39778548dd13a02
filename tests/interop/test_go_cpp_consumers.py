"""The consumers of the Go and C++ clients: retries, filters, order, broadcasting."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest
import trio

from interop.conftest import Client
from interop.consuming import Consumers, consumers, messages, send
from interop.serving import Broker, serving
from interop.stored_records import stored_records

pytestmark = [pytest.mark.slow, pytest.mark.interop]

HERE = Path(__file__).parent
EACH = ("all", "each")
"""Members that are told all."""
ORDERED = [f"m{number:02}" for number in range(48)]
"""Bodies of a topic whose order counts, in turn over its queues."""


def check_order(clients: Consumers, *names: str) -> None:
    """All of ``Ordered`` comes to these orderly consumers: each queue to one at a time, in order.

    A queue that is handed over may be read again from its last commit.
    """

    def got_bodies() -> set[str]:
        return {body for name in names for body in clients.bodies(name)}

    clients.wait_until(lambda: set(ORDERED) <= got_bodies())
    got = [one for one in clients.deliveries() if one.consumer in names]
    for queue_id in {one.queue_id for one in got}:
        queue = [one for one in got if one.queue_id == queue_id]
        turns = [list(turn) for _, turn in itertools.groupby(queue, lambda one: one.consumer)]
        assert len(turns) <= len(names), "a queue went back and forth"
        for turn in turns:
            offsets = [one.queue_offset for one in turn]
            assert offsets == sorted(offsets)


def sent_to_all(broker: Broker, clients: Consumers, *names: str) -> bool:
    """Send a message more; have these consumers all got one? They begin where a queue ends."""
    trio.run(send, broker.namesrv, messages("T", "new", tag="new"))
    return all("new" in clients.bodies(name) for name in names)


@pytest.mark.parametrize("either_go_client", ["go_client", "newest_go_client"], indirect=True)
def test_go(tmp_path: Path, either_go_client: Client) -> None:
    """Go: a dead letter after one retry, tags, SQL92, broadcasting, order, and pulls by itself.

    Two orderly members share in ``test_group_lives``: Go does not unlock what it hands over.
    """
    with serving(tmp_path / "store") as broker:
        trio.run(send, broker.namesrv, messages("Retried", "good", "bad"))
        trio.run(send, broker.namesrv, messages("T", "even0", "even2", tag="even", parity="0"))
        trio.run(send, broker.namesrv, messages("T", "odd1", tag="odd", parity="1"))
        trio.run(send, broker.namesrv, messages("Ordered", *ORDERED))
        with consumers(either_go_client("consuming", broker.namesrv), tmp_path) as go:
            go.start("retry", "concurrent", "Retry", "Retried", "*", "tries=1", "level=1")
            go.start("tag", "concurrent", "Tag", "T", "even")
            go.start("sql", "concurrent", "Sql", "T", "parity = 1", "type=SQL92")
            go.start("all", "broadcasting", "All", "T")
            go.start("each", "broadcasting", "All", "T")
            go.start("pull", "pull", "Pull", "T", "even")
            go.start("one", "orderly", "Order", "Ordered", "*", "tries=2")
            go.wait_until(lambda: go.bodies("retry").count("bad") == 2)
            go.wait_until(lambda: len(go.bodies("all")) >= 3)
            go.wait_until(lambda: len(go.bodies("each")) >= 3)
            go.wait_until(lambda: len(go.bodies("tag")) >= 2)
            go.wait_until(lambda: len(go.bodies("pull")) >= 2)
            go.wait_until(lambda: len(go.bodies("sql")) >= 1)
            check_order(go, "one")
            trio.run(send, broker.namesrv, messages("Ordered", "bad", "behind", queue_id=0))
            go.wait_until(lambda: "behind" in go.bodies("one"))
            given_up = [one for one in go.deliveries("one") if one.body == "bad"]
            tries = [one for one in go.deliveries("retry") if one.body == "bad"]
            got = {name: sorted(go.bodies(name)) for name in ("tag", "pull", "sql", *EACH)}
    (letter,) = stored_records(tmp_path / "store", "%DLQ%Retry")
    (ordered_letter,) = stored_records(tmp_path / "store", "%DLQ%Order")

    assert [one.tries for one in given_up] == [0, 1, 2, 3], "Go tries an orderly one once more"
    assert ordered_letter.body == b"bad"
    assert [one.tries for one in tries] == [0, 1]
    assert tries[1].stored_ms >= tries[0].received_ms + 1_000
    assert (letter.body, letter.reconsume_times) == (b"bad", 2)
    evens = ["even0", "even2"]
    to_each = {name: [*evens, "odd1"] for name in EACH}
    assert got == {"tag": evens, "pull": evens, "sql": ["odd1"], **to_each}


def test_cpp(tmp_path: Path) -> None:
    """C++: a retry after ten seconds, a dead letter, tags, broadcasting, order with two consumers.

    It leaves to the group how often a message is tried. What it pulled at once it sends back at
    once when the first of it fails, so what comes again has a group of its own.
    """
    table = {"subscriptionGroupTable": {"Dead": {"groupName": "Dead", "retryMaxTimes": 1}}}
    config = tmp_path / "store/config/subscriptionGroup.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps(table))
    with serving(tmp_path / "store") as broker:
        trio.run(send, broker.namesrv, messages("T", "once", "good", tag="wanted"))
        trio.run(send, broker.namesrv, messages("T", "bad", tag="dead"))
        trio.run(send, broker.namesrv, messages("T", "other", tag="other"))
        trio.run(send, broker.namesrv, messages("Ordered", *ORDERED))
        command = [sys.executable, str(HERE / "cpp_consumer.py"), broker.namesrv]
        with consumers(command, tmp_path) as cpp:
            cpp.start("retry", "concurrent", "Retry", "T", "wanted || none")
            cpp.start("dead", "concurrent", "Dead", "T", "dead")
            cpp.start("all", "broadcasting", "All", "T")
            cpp.start("each", "broadcasting", "All", "T")
            cpp.start("one", "orderly", "Order", "Ordered")
            cpp.start("two", "orderly", "Order", "Ordered")
            check_order(cpp, "one", "two")
            cpp.wait_until(lambda: sent_to_all(broker, cpp, "all", "each"))
            cpp.wait_until(lambda: cpp.bodies("retry").count("once") == 2)
            cpp.wait_until(lambda: cpp.bodies("dead").count("bad") == 2)
            got = cpp.deliveries("retry")
            dead = cpp.bodies("dead")
    tries = [one for one in got if one.body == "once"]
    (letter,) = stored_records(tmp_path / "store", "%DLQ%Dead")

    assert (letter.body, letter.reconsume_times) == (b"bad", 2)
    assert [one.tries for one in tries] == [0, 1]
    assert tries[1].stored_ms >= tries[0].received_ms + 10_000
    assert sorted(one.body for one in got) == ["good", "once", "once"]
    assert dead == ["bad", "bad"]
