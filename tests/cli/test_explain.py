"""`timermq explain`: the life of one message, of a running broker and of a stopped store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.program import SMALL_FILES, RunProgram
from golden_stores import GoldenStores
from interop.serving import Broker, StartBroker
from timermq.cli.moment import format_moment

pytestmark = pytest.mark.slow


def send(timermq: RunProgram, broker: Broker, topic: str, *flags: str) -> dict[str, object]:
    """Send one message; the row that ``timermq send --json`` printed about it."""
    ran = timermq("send", topic, "x", *flags, "--json", "--namesrv", broker.namesrv)
    assert (0, "") == (ran.code, ran.err)
    return ran.rows[0]


def test_of_a_broker(timermq: RunProgram, broker: Broker) -> None:
    """By id and by handle, for people and for programs."""
    sent = send(timermq, broker, "Explained", "--at", "in 1h")
    message_id, handle = str(sent["message_id"]), str(sent["recall_handle"])
    waits = timermq("explain", message_id, "--namesrv", broker.namesrv)
    timermq("cancel", "Explained", handle, "--namesrv", broker.namesrv)
    ran = timermq("explain", handle, "--json", "--namesrv", broker.namesrv)

    assert (0, "") == (waits.code, waits.err)
    until = format_moment(int(str(sent["deliver_ms"])))
    assert f"{message_id} at {broker.listen}: waiting until {until}" == waits.out.splitlines()[0]
    assert ["at", "step", "topic"] == waits.out.splitlines()[1].split()[:3]
    assert (0, "") == (ran.code, ran.err)
    assert ["stored", "cancelled"] == [row["step"] for row in ran.rows]
    facts = {"unique_id": message_id, "broker": broker.listen, "now": "cancelled"}
    assert all(facts.items() <= row.items() for row in ran.rows)


def test_one_without_a_delay(timermq: RunProgram, broker: Broker) -> None:
    """Nothing but its topic leads to it, and the refusal says so."""
    message_id = str(send(timermq, broker, "Explained")["message_id"])
    unknown = timermq("explain", message_id, "--namesrv", broker.namesrv)
    found = timermq(
        *("explain", message_id, "--topic", "Explained", "--json", "--namesrv", broker.namesrv)
    )

    assert (1, "") == (unknown.code, unknown.out)
    hint = "one sent without a delay is found with --topic"
    text = f"not_found: nothing is known of the message {message_id}; {hint}"
    assert f"timermq: {text}\n" == unknown.err
    assert ["sent"] == [row["step"] for row in found.rows]


def test_of_a_stopped_store(timermq: RunProgram, start: StartBroker, tmp_path: Path) -> None:
    """The same words as the broker's, with who consumed it; also behind a kill."""
    broker = start(tmp_path / "store", *SMALL_FILES)
    message_id = str(send(timermq, broker, "T", "--delay", "100ms")["message_id"])
    timermq(
        *("consume", "T", "--group", "G", "--from", "first", "--count", "1"),
        *("--timeout", "30s", "--namesrv", broker.namesrv),
    )
    live = timermq("explain", message_id, "--json", "--namesrv", broker.namesrv).rows
    broker.stop()
    stopped = timermq("explain", message_id, "--json", "--store", str(broker.store)).rows
    broker = start(tmp_path / "store", *SMALL_FILES)
    waiting = str(send(timermq, broker, "T", "--delay", "1h")["message_id"])
    broker.kill()
    killed = timermq("explain", waiting, "--json", "--store", str(broker.store)).rows

    assert ["stored", "delivered"] == [row["step"] for row in live]
    assert ["G"] == live[1]["consumed_by"]
    assert [{**row, "broker": str(broker.store)} for row in live] == stopped
    assert [("stored", "waiting")] == [(row["step"], row["now"]) for row in killed]


def test_of_a_store_that_rocketmq_wrote(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """Its index leads there too: a message that was consumed in vain until it was let go."""
    golden = golden_stores["g4"]
    (dead, *_) = [one for one in golden.manifest.messages if one.state == "dead letter"]
    flags = ("--topic", dead.topic, "--store", str(golden.root), "--json")
    ran = timermq("explain", dead.msg_id, *flags)

    assert (0, "") == (ran.code, ran.err)
    assert ["sent", "level", "delivered", "dead_letter"] == [row["step"] for row in ran.rows]
    assert {"dead_letter"} == {row["now"] for row in ran.rows}


@pytest.mark.parametrize("flags", [("",), ("K1", "--topic", "")])
def test_empty_names(timermq: RunProgram, flags: tuple[str, ...]) -> None:
    """What can only be a slip is told."""
    ran = timermq("explain", *flags)

    text = "explain: expected an ID, and a topic if one is named, found an empty one"
    assert (2, f"timermq: {text}\n") == (ran.code, ran.err)


def test_a_store_without_an_index(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """A stopped store's log is looked through: its index may be damaged or missing."""
    golden = golden_stores["g5"]
    (waits, *_) = [one for one in golden.manifest.messages if one.state == "pending"]
    root = tmp_path / "store"
    shutil.copytree(golden.root, root)
    (index,) = (root / "index").iterdir()
    flags = ("explain", waits.msg_id, "--store", str(root), "--json")
    whole = timermq(*flags)
    index.write_bytes(b"no index")
    damaged = timermq(*flags)
    index.unlink()
    missing = timermq(*flags)

    assert [("waiting", waits.deliver_ms)] == [
        (row["now"], row["waits_until_ms"]) for row in whole.rows
    ]
    assert [(0, "", whole.rows)] * 2 == [
        (one.code, one.err, one.rows) for one in (damaged, missing)
    ]


@pytest.mark.parametrize("flags", [("K\udcff",), ("K", "--topic", "T\udcff")])
def test_bytes_that_are_no_text(timermq: RunProgram, flags: tuple[str, ...]) -> None:
    """As Python gives what a terminal's coding has not."""
    ran = timermq("explain", *flags)

    text = "explain: expected an ID and a topic of text, found bytes that are none"
    assert (2, f"timermq: {text}\n") == (ran.code, ran.err)
