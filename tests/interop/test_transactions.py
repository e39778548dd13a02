"""Transactions of RocketMQ's own clients: stops, kills, a Java broker before and behind ours."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.java_peer import JavaPeer
from interop.serving import StartBroker
from interop.stored_records import stored_records
from interop.talking import Talking, talking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

TOPIC = "Trade"
GROUP = "Traders"
FAST = (
    "--set", "transaction_check_interval_ms=1000",
    "--set", "transaction_time_out_ms=1000",
    "--set", "transaction_check_max=1000",
)  # fmt: skip
JAVA_FAST = {
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "transactionCheckMax": "1000",
}
JAVA_PROMPT = {
    **JAVA_FAST,
    "transactionCheckInterval": "3000",
    "transactionOpBatchInterval": "100",
}
"""Java notes a commit before it asks again: with the other settings it commits twice by itself."""
COMMIT, ROLLBACK, UNKNOWN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"
LONGER_SECONDS = 2.5
"""Two rounds of checks more: whatever is to come twice has come by then."""


def sent(client: Talking, name: str, decision: str) -> None:
    """A transaction whose producer decides so at once."""
    client.say(f"send {name} {decision}")
    client.hear(f"SENT {name} SEND_OK {decision}")


def decided(client: Talking, **decisions: str) -> None:
    """What the producer answers from now on."""
    for name, decision in decisions.items():
        client.say(f"decide {name} {decision}")


def arrived(store: Path) -> Counter[str]:
    """How often each message stands on the topic, in a stopped store."""
    return Counter(one.body.decode() for one in stored_records(store, TOPIC))


def test_java_producer(
    tmp_path: Path, start: StartBroker, java_client: Callable[..., list[str]]
) -> None:
    """Commit, rollback (37), unknown, asked about until it ends (39) across a stop and a kill."""
    store = tmp_path / "store"
    broker = start(store, *FAST)
    with talking(java_client("TransactionClient", broker.namesrv, TOPIC, GROUP)) as client:
        client.hear("READY")
        sent(client, "committed", COMMIT)
        sent(client, "undone", ROLLBACK)
        for number in range(4):
            sent(client, f"open{number}", UNKNOWN)
        client.say(f"send delayed {COMMIT} TIMER_DELAY_MS=500")
        (refusal,) = client.hear("SENT delayed ")
        client.say(f"send levelled {COMMIT} DELAY=1")
        (of_level,) = client.hear("SENT levelled ")
        client.hear("GOT committed")
        client.hear("CHECKED open0 UNKNOW Trade 2")
        decided(client, open0=COMMIT, open1=ROLLBACK)
        client.hear("GOT open0")
        client.hear("CHECKED open1 ROLLBACK_MESSAGE")
        assert broker.stop() == 0
        broker = start(store, *FAST, listen=broker.listen, namesrv=broker.namesrv)
        decided(client, open2=COMMIT)
        client.hear("GOT open2")
        sent(client, "killed", UNKNOWN)
        broker.kill()
        broker = start(store, *FAST, listen=broker.listen, namesrv=broker.namesrv)
        decided(client, open3=COMMIT, killed=COMMIT)
        client.hear("GOT open3")
        client.hear("GOT killed")
        sent(client, "last", COMMIT)
        client.hear("GOT last")
        time.sleep(LONGER_SECONDS)
    assert broker.stop() == 0

    assert arrived(store) == Counter(["committed", "open0", "open2", "open3", "killed", "last"])
    assert "TRANSACTION_DELAY" in refusal
    assert "TRANSACTION_DELAY" in of_level
    assert client.heard_so_far("CHECKED last") == []


def test_go_producer(
    tmp_path: Path, start: StartBroker, go_client: Callable[..., list[str]]
) -> None:
    """Commit, rollback, and what it decides when it is asked for the second time."""
    store = tmp_path / "store"
    broker = start(store, *FAST)
    with talking(go_client("trading", broker.namesrv, TOPIC, GROUP)) as client:
        client.hear("SENT never")
        client.hear("CHECKED late 2")
        client.hear("CHECKED never 2")
        client.hear("DONE")
    assert broker.stop() == 0

    assert arrived(store) == Counter(["committed", "late"])


def test_a_delay_that_begins_with_the_commit(
    tmp_path: Path, start: StartBroker, java_client: Callable[..., list[str]]
) -> None:
    """Where the operator allows it; it arrives after its delay, once."""
    store = tmp_path / "store"
    broker = start(store, *FAST, "--set", "transaction_delay=AT_COMMIT")
    with talking(java_client("TransactionClient", broker.namesrv, TOPIC, GROUP)) as client:
        client.hear("READY")
        client.say(f"send delayed {COMMIT} TIMER_DELAY_MS=1500")
        client.hear(f"SENT delayed SEND_OK {COMMIT}")
        client.say(f"send levelled {COMMIT} DELAY=1")
        client.hear(f"SENT levelled SEND_OK {COMMIT}")
        client.hear("GOT delayed 0")
        client.hear("GOT levelled 1")
    broker.stop()
    delays_ms = {
        one.body.decode(): one.store_ms - one.born_ms for one in stored_records(store, TOPIC)
    }

    assert arrived(store) == Counter(["delayed", "levelled"])
    assert delays_ms["delayed"] >= 1500
    assert delays_ms["levelled"] >= 1000


def test_over_from_java_and_back(
    tmp_path: Path,
    start: StartBroker,
    java_client: Callable[..., list[str]],
    java_peer: JavaPeer,
) -> None:
    """A killed Java broker, ours killed, Java again, on one directory: each message is there once.

    Java notes a commit three seconds later; asked about before, it takes the transaction for open.
    """
    store = tmp_path / "store"
    with (
        java_peer.broker(store, settings=JAVA_FAST) as java,
        talking(java_client("TransactionClient", java.namesrv, TOPIC, GROUP)) as client,
    ):
        client.hear("READY")
        for number in range(6):
            sent(client, f"java{number}", UNKNOWN)
        sent(client, "crossed", COMMIT)
        client.hear("CHECKED crossed UNKNOW Trade 2")
        sent(client, "noted-too-late", COMMIT)
        client.hear("GOT noted-too-late")
        java.kill()
    broker = start(store, *FAST)
    with talking(java_client("TransactionClient", broker.namesrv, TOPIC, GROUP)) as client:
        client.hear("READY")
        decided(client, java0=COMMIT, java1=ROLLBACK, crossed=COMMIT)
        for number in range(3):
            sent(client, f"ours{number}", UNKNOWN)
        client.hear("GOT java0")
        client.hear("CHECKED java1 ROLLBACK_MESSAGE")
        client.hear("CHECKED ours2 UNKNOW Trade 1")
        broker.kill()
        broker = start(store, *FAST, listen=broker.listen, namesrv=broker.namesrv)
        decided(client, java2=COMMIT, ours0=COMMIT)
        sent(client, "there", ROLLBACK)
        client.hear("GOT java2")
        client.hear("GOT ours0")
    assert broker.stop() == 0
    client.hear("DONE")
    ours = client.heard_so_far("CHECKED")
    with (
        java_peer.broker(store, settings=JAVA_PROMPT) as java,
        talking(java_client("TransactionClient", java.namesrv, TOPIC, GROUP)) as client,
    ):
        client.hear("READY")
        decided(client, java3=COMMIT, java4=ROLLBACK, ours1=COMMIT)
        sent(client, "back", ROLLBACK)
        client.hear("CHECKED java3 COMMIT_MESSAGE")
        client.hear("CHECKED ours1 COMMIT_MESSAGE")
        client.hear("CHECKED java4 ROLLBACK_MESSAGE")
        client.hear("CHECKED java5 UNKNOW")
        client.hear("CHECKED ours2 UNKNOW")
        time.sleep(2 * LONGER_SECONDS)
    client.hear("DONE")
    names = {line.split()[0] for line in client.heard_so_far("CHECKED")}

    assert arrived(store) == Counter(
        ["crossed", "noted-too-late", "java0", "java2", "java3", "ours0", "ours1"]
    )
    assert {"crossed", "noted-too-late"}.isdisjoint(line.split()[0] for line in ours)
    # On a busy machine RocketMQ asks about its own one as well, before it has noted its end.
    assert names - {"back"} == {"java3", "java4", "java5", "ours1", "ours2"}
