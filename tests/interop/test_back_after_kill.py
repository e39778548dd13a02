"""A store that our broker wrote and was killed on, in the middle of all, goes to RocketMQ's broker.

RocketMQ reads the checkpoint and does again what came after it: docs/operations.md says so, and
that a start and a stop of ours in between settles it. Both are tried here.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
import trio

from interop.conftest import Client
from interop.handed import TOPIC, Handed, now_ms
from interop.java_peer import JavaPeer
from interop.talking import talking
from timermq.client import Producer, Verdict
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerlog.timer_checkpoint import TimerCheckpoint

pytestmark = [pytest.mark.slow, pytest.mark.interop]

WINDOW_SLOTS = 20
"""What is further away rolls, between ten and twenty seconds later."""
FAR_MS = range(21_000, 46_000, 900)
"""Delays of those that roll, some twice."""
TRADE, TRADERS = "Trade", "Traders"
CHECKS = {
    "transactionCheckInterval": "3000",
    "transactionTimeOut": "1000",
    "transactionCheckMax": "1000",
    "transactionOpBatchInterval": "100",
}
"""RocketMQ notes a commit before it asks again; with its own settings it commits twice."""


def send(handed: Handed, namesrv: str, title: str) -> int:
    """Send all kinds; when the sending began, about."""
    levels = {f"{title}-level-{number}": f"level:{number}" for number in range(1, 6)}
    near = {f"{title}-near-{number}": f"delay:{number * 1_300}" for number in range(1, 12)}
    far = {f"{title}-far-{ahead_ms}": f"delay:{ahead_ms}" for ahead_ms in FAR_MS}
    gone = {f"{title}-gone-{ahead_ms}": f"recall:{ahead_ms}" for ahead_ms in (12_000, 43_000)}
    plain = {f"{title}-plain-{number}": "plain" for number in range(3)}
    handed.send(namesrv, **plain, **gone, **far, **near, **levels)
    return handed.due_ms[f"{title}-near-1"] - 1_300


def wait_until(moment_ms: int) -> None:
    """Sleep until the wall clock shows it."""
    time.sleep(max(moment_ms - now_ms(), 0) / 1_000)


def cancel(handed: Handed, namesrv: str, body: str) -> None:
    """Take a message back that waits."""

    async def ask() -> Verdict:
        async with Producer(namesrv, group="canceller") as producer:
            return await producer.cancel(TOPIC, key=f"key-{body}")

    assert Verdict.CANCELLED is trio.run(ask)
    handed.recalled.add(body)


def rolled(handed: Handed) -> set[str]:
    """Bodies of what has been rolled so far."""
    return {
        one.body.decode()
        for one in handed.records()
        if one.topic == TIMER_TOPIC and "TIMER_ROLL_TIMES" in one.properties_dict()
    }


def done_again(handed: Handed) -> Counter[str]:
    """Body to how often RocketMQ does it again: each entry and each delivery or roll since then.

    A roll is both, so a message that was rolled since the last checkpoint may come three times.
    """
    page = (handed.store / "config/timercheck").read_bytes()
    checkpoint = TimerCheckpoint.decode(page)
    records = handed.records()
    entered = (
        one
        for one in records
        if one.topic == TIMER_TOPIC and one.queue_offset >= checkpoint.last_timer_queue_offset
    )
    left = (
        one
        for one in records
        if one.prepared_transaction_offset < 0 and one.store_ms >= checkpoint.last_read_time_ms
    )
    return Counter(one.body.decode() for one in (*entered, *left))


@pytest.mark.parametrize(
    ("either_peer", "settled"),
    [("java_peer", False), ("java_peer", True), ("java_peer_5_3", False)],
    ids=["killed", "started and stopped", "killed 5.3"],
    indirect=["either_peer"],
)
def test_killed_in_the_middle(
    tmp_path: Path, either_peer: JavaPeer, java_client: Client, settled: bool
) -> None:
    """Killed twice while timers roll: RocketMQ delivers all that waits, and ends the transaction.

    More than once comes at most what was done since the last checkpoint, and nothing once ours has
    been started and stopped.
    """
    handed = Handed(tmp_path / "store", either_peer, java_client, WINDOW_SLOTS, CHECKS)
    draw = random.Random(20261122)
    with handed.by_us(kill=True, quiet=False) as namesrv:
        begin_ms = send(handed, namesrv, "first")
        handed.consume(namesrv, 2)
        wait_until(begin_ms + draw.randrange(12_000, 17_000))
    first_rolled = rolled(handed)
    with handed.by_us(kill=True, quiet=False) as namesrv:
        # First of all: on a slow machine it would have arrived later on.
        latest = max(first_rolled & handed.due_ms.keys(), key=handed.due_ms.__getitem__)
        cancel(handed, namesrv, latest)
        with talking(java_client("TransactionClient", namesrv, TRADE, TRADERS)) as client:
            client.hear("READY")
            for name, decision in (("sold", "COMMIT_MESSAGE"), ("open", "UNKNOW")):
                client.say(f"send {name} {decision}")
                client.hear(f"SENT {name} SEND_OK {decision}")
            client.hear("GOT sold")
        begin_ms = send(handed, namesrv, "second")
        wait_until(begin_ms + draw.randrange(12_000, 17_000))
    second_rolled = rolled(handed)
    again = done_again(handed)
    if settled:
        with handed.by_us():
            again.clear()
    with handed.by_java(kill=True) as namesrv:
        with talking(java_client("TransactionClient", namesrv, TRADE, TRADERS)) as client:
            client.hear("READY")
            client.say("decide open COMMIT_MESSAGE")
            client.say("send undone ROLLBACK_MESSAGE")  # only then it tells the broker its group
            client.hear("GOT open")
        handed.wait_for(*handed.due_ms)
        handed.consume(namesrv, 1_000)
    handed.check(again)
    traded = Counter(one.body for one in handed.records() if one.topic == TRADE)
    far = {title: {f"{title}-far-{ahead}" for ahead in FAR_MS} for title in ("first", "second")}

    assert set() < first_rolled & far["first"] < far["first"], "killed before or after the rolls"
    assert set() < second_rolled & far["second"] < far["second"], "killed before or after the rolls"
    assert Counter([b"sold", b"open"]) == traded
