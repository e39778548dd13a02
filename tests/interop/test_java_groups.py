"""Groups of the Java client's consumers: sharing, hand-over, order, and a broker that restarts."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
import trio

from interop.conftest import Client
from interop.consuming import WAIT_SECONDS, Consumers, Delivery, consumers, messages, send
from interop.serving import StartBroker, serving
from interop.stored_records import stored_records

pytestmark = [pytest.mark.slow, pytest.mark.interop]

QUEUES = 8
"""Of a topic that a producer makes."""


def by_queue(deliveries: Iterable[Delivery]) -> dict[int, list[Delivery]]:
    """Deliveries of a topic queue by queue, each in order."""
    queues: dict[int, list[Delivery]] = defaultdict(list)
    for one in deliveries:
        queues[one.queue_id].append(one)
    return queues


def send_round(namesrv: str, round_name: str, count: int = 24) -> set[str]:
    """Send messages to all queues; their bodies."""
    bodies = [f"{round_name}-{number}" for number in range(count)]
    trio.run(send, namesrv, messages("T", *bodies))
    return set(bodies)


def wait_for_all(java: Consumers, bodies: set[str]) -> None:
    """Wait until all of these have come to one of the process's consumers."""
    java.wait_until(lambda: bodies <= set(java.bodies()))


def share(java: Consumers, namesrv: str, *names: str) -> None:
    """Send until each of the consumers has got something: from then on they share the queues."""
    for number in range(int(WAIT_SECONDS)):
        bodies = send_round(namesrv, f"share{number}", QUEUES)
        wait_for_all(java, bodies)
        if all(java.bodies(name) for name in names):
            return
        time.sleep(1)
    raise AssertionError(f"of {names} not all got something")


def holders(java: Consumers, bodies: set[str], *names: str) -> dict[str, set[int]]:
    """Which queues each consumer got the messages of a round from."""
    return {
        name: {one.queue_id for one in java.deliveries(name) if one.body in bodies}
        for name in names
    }


def test_sharing_and_hand_over(tmp_path: Path, java_client: Client, start: StartBroker) -> None:
    """Three share the queues (38); one leaves, one is killed, the broker restarts: all comes."""
    command = java_client("ConsumeClient")
    broker = start(tmp_path / "store")
    with consumers([*command, broker.namesrv], tmp_path) as java:
        sent = send_round(broker.namesrv, "first")
        java.start("one", "concurrent", "G", "T")
        java.wait_until(lambda: sent <= set(java.bodies("one")))
        with consumers([*command, broker.namesrv], tmp_path) as other:
            other.start("three", "concurrent", "G", "T")
            java.start("two", "concurrent", "G", "T")
            shared = send_round(broker.namesrv, "shared", 40)
            java.wait_until(lambda: shared <= {*java.bodies(), *other.bodies()})
            of_three = {one.queue_id for one in other.deliveries()}
            java.stop("two")
            left = send_round(broker.namesrv, "left")
            java.wait_until(lambda: left <= {*java.bodies("one"), *other.bodies()})
            other.kill()
            killed = send_round(broker.namesrv, "killed")
            java.wait_until(lambda: killed <= {*java.bodies("one"), *other.bodies()})
        code = broker.stop()
        again = start(tmp_path / "store", listen=broker.listen, namesrv=broker.namesrv)
        restarted = send_round(again.namesrv, "restarted")
        java.wait_until(lambda: restarted <= set(java.bodies("one")))
        got = [one for one in java.deliveries("one") if one.body in restarted]
    code_again = again.stop()

    assert (code, code_again) == (0, 0)
    assert of_three
    assert len(got) == len(restarted), "the offsets went on where they stood"


def test_order(tmp_path: Path, java_client: Client) -> None:
    """Each queue has one of two orderly consumers (41), and its order, through a hand-over (42)."""
    with (
        serving(tmp_path / "store") as broker,
        consumers(java_client("ConsumeClient", broker.namesrv), tmp_path) as java,
    ):
        sent = send_round(broker.namesrv, "first")
        java.start("one", "orderly", "G", "T", "*", "tries=2")
        java.start("two", "orderly", "G", "T", "*", "tries=2")
        wait_for_all(java, sent)
        share(java, broker.namesrv, "one", "two")
        both = send_round(broker.namesrv, "both", 40)
        trio.run(send, broker.namesrv, messages("T", "bad", "behind", queue_id=1))
        wait_for_all(java, both | {"behind"})
        shares = holders(java, both, "one", "two")
        java.stop("two")
        alone = send_round(broker.namesrv, "alone", 40)
        java.wait_until(lambda: alone <= set(java.bodies("one")))
        got = java.deliveries()
    queues = by_queue(got)
    tries = [one.tries for one in got if one.body == "bad"]
    (letter,) = stored_records(tmp_path / "store", "%DLQ%G")

    assert shares["one"].isdisjoint(shares["two"])
    assert shares["one"] | shares["two"] == set(range(QUEUES))
    for queue in queues.values():
        offsets = [one.queue_offset for one in queue]
        assert offsets == sorted(offsets)
    assert tries == [0, 1, 2]
    assert letter.body == b"bad"
