"""The Java client's consumers: retries and dead letters, filters, broadcasting, seeking.

They ask by PULL_MESSAGE, in Java's lite consumer by LITE_PULL_MESSAGE.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import trio

from interop.conftest import Client
from interop.consuming import consumers, messages, send
from interop.serving import serving
from interop.stored_records import stored_records

pytestmark = [pytest.mark.slow, pytest.mark.interop]


def test_retries_and_dead_letters(tmp_path: Path, java_client: Client) -> None:
    """A failed message comes again after its level, two times, and is a dead letter then (36)."""
    with serving(tmp_path / "store") as broker:
        trio.run(send, broker.namesrv, messages("T", "good", "bad", "once"))
        with consumers(java_client("ConsumeClient", broker.namesrv), tmp_path) as java:
            java.start("short", "concurrent", "Short", "T", "*", "tries=2", "level=1")
            java.start("usual", "concurrent", "Usual", "T", "*", "tries=1")
            java.wait_until(lambda: java.bodies("short").count("bad") == 3)
            java.wait_until(lambda: java.bodies("usual").count("once") == 2)
            short, usual = java.deliveries("short"), java.deliveries("usual")
    tries = [one for one in short if one.body == "bad"]
    again = [one for one in usual if one.body == "once"]
    (letter,) = stored_records(tmp_path / "store", "%DLQ%Short")
    (first,) = [one for one in stored_records(tmp_path / "store", "T") if one.body == b"bad"]

    assert [one.tries for one in tries] == [0, 1, 2]
    assert [one.topic for one in tries] == ["T", "T", "T"]  # the client restores it
    for before, after in itertools.pairwise(tries):
        assert after.stored_ms >= before.received_ms + 1_000
    assert again[1].stored_ms >= again[0].received_ms + 10_000
    assert [one.body for one in short].count("good") == 1
    properties = letter.properties_dict()
    assert (letter.body, letter.reconsume_times) == (b"bad", 3)
    assert properties["RETRY_TOPIC"] == "T"
    assert properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id


def test_filters(tmp_path: Path, java_client: Client) -> None:
    """By tag and by SQL92; an expression that is none does not let the consumer start (46)."""
    with serving(tmp_path / "store") as broker:
        for number in range(8):
            tag = "even" if number % 2 == 0 else "odd"
            one = messages("T", f"m{number}", tag=tag, number=str(number))
            trio.run(send, broker.namesrv, one)
        with consumers(java_client("ConsumeClient", broker.namesrv), tmp_path) as java:
            java.start("tag", "concurrent", "Tag", "T", "even || none")
            sql = "number > 2 AND TAGS = 'odd' AND missing IS NULL"
            java.start("sql", "concurrent", "Sql", "T", sql, "type=SQL92")
            java.tell("start", "wrong", "concurrent", "Wrong", "T", "number >", "type=SQL92")
            refusal = java.wait_for("FAILED wrong")
            trio.run(send, broker.namesrv, messages("T", "last", tag="even"))
            late = messages("T", "late", tag="odd", number="99")
            trio.run(send, broker.namesrv, late)
            java.wait_until(lambda: len(java.bodies("tag")) >= 5)
            java.wait_until(lambda: len(java.bodies("sql")) >= 4)
            tagged, chosen = sorted(java.bodies("tag")), sorted(java.bodies("sql"))

    assert tagged == ["last", "m0", "m2", "m4", "m6"]
    assert chosen == ["late", "m3", "m5", "m7"]
    assert "FILTER_EXPRESSION: SQL92: expected more, found the end" in refusal


def test_broadcasting(tmp_path: Path, java_client: Client) -> None:
    """Each consumer gets each message, and keeps its offsets itself."""
    bodies = [f"m{number}" for number in range(12)]
    with serving(tmp_path / "store") as broker:
        trio.run(send, broker.namesrv, messages("T", *bodies))
        with consumers(java_client("ConsumeClient", broker.namesrv), tmp_path) as java:
            java.start("one", "broadcasting", "G", "T")
            java.start("two", "broadcasting", "G", "T")
            java.wait_until(lambda: len(java.bodies("one")) >= len(bodies))
            java.wait_until(lambda: len(java.bodies("two")) >= len(bodies))
            got = {name: sorted(java.bodies(name)) for name in ("one", "two")}
        broker.stop()
        offsets = (tmp_path / "store/config/consumerOffset.json").read_text()

    assert got == {"one": sorted(bodies), "two": sorted(bodies)}
    assert "T@G" not in offsets


def test_lite_pull_with_seek(tmp_path: Path, java_client: Client) -> None:
    """It begins where it is told to, as often as it is told, and commits when it wants to."""
    with serving(tmp_path / "store") as broker:
        bodies = [f"m{number}" for number in range(6)]
        trio.run(send, broker.namesrv, messages("T", *bodies, queue_id=0))
        with consumers(java_client("ConsumeClient", broker.namesrv), tmp_path) as java:
            java.start("lite", "lite", "G", "T")
            seen = list(bodies)
            java.wait_until(lambda: java.bodies() == seen)
            java.tell("seek", "lite", "0", "4")
            seen += bodies[4:]
            java.wait_until(lambda: java.bodies() == seen)
            java.tell("seek", "lite", "0", "1")
            seen += bodies[1:]
            java.wait_until(lambda: java.bodies() == seen)
            java.tell("committed", "lite", "0", "6")
            committed = java.wait_for("COMMITTED lite")
            trio.run(send, broker.namesrv, messages("T", "new", queue_id=0))
            java.wait_until(lambda: java.bodies() == [*seen, "new"])

    assert committed == "COMMITTED lite 6"


def test_lite_pull_by_subscription(tmp_path: Path, java_client: Client) -> None:
    """As a member of its group it gets what it subscribes to, and shares the queues."""
    with serving(tmp_path / "store") as broker:
        for number in range(8):
            tag = "even" if number % 2 == 0 else "odd"
            trio.run(send, broker.namesrv, messages("T", f"m{number}", tag=tag))
        with consumers(java_client("ConsumeClient", broker.namesrv), tmp_path) as java:
            java.start("one", "subscribed", "G", "T", "even")
            java.wait_until(lambda: len(java.bodies("one")) >= 4)
            first = sorted(java.bodies())
            java.start("two", "subscribed", "G", "T", "even")
            rounds = itertools.count()

            def both_have_some() -> bool:
                """Of a round that went to all queues, once the second one has its share."""
                bodies = [f"r{next(rounds)}-{queue_id}" for queue_id in range(8)]
                trio.run(send, broker.namesrv, messages("T", *bodies, tag="even"))
                java.wait_until(lambda: set(bodies) <= set(java.bodies()))
                got = [one for one in java.deliveries() if one.body in bodies]
                return {one.consumer for one in got} == {"one", "two"} and len(got) == len(bodies)

            java.wait_until(both_have_some)

    assert first == ["m0", "m2", "m4", "m6"]
