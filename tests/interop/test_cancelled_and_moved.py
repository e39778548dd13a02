"""Cancelled and moved messages go to RocketMQ with its own settings, and recalled ones come to us.

5.3.3 compares a delete's name with topic and unique key, 5.5.1 with the unique key alone.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import attrs
import pytest
import trio

from interop.conftest import Client
from interop.handed import Handed
from interop.java_peer import JavaPeer
from interop.serving import Broker, serving
from interop.stored_records import stored_records
from timermq.client import Producer, SendReceipt, Verdict
from timermq.timerlog.timer_checkpoint import TimerCheckpoint

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TOPIC = "Moves"
AHEAD_MS = 9_000
"""From a whole second on, the slot that most messages wait for."""
ARRIVED_SECONDS = 90.0
SETTLED_SECONDS = 30.0
BOTH = pytest.mark.parametrize("java", ["java_peer", "java_peer_5_3"], ids=["5.5.1", "5.3.3"])


@attrs.define
class Plan:
    """Messages of one slot and of those around it, and what is asked of them."""

    namesrv: str
    slot_ms: int = attrs.field(factory=lambda: time.time_ns() // 10**9 * 1_000 + AHEAD_MS)
    handles: dict[str, SendReceipt] = attrs.Factory(dict[str, SendReceipt])

    async def send(self, *bodies: str) -> None:
        """Messages of the slot; then one behind all others, by which its end is known."""
        async with self._producer() as producer:
            for body in bodies:
                self.handles[body] = await producer.send(
                    TOPIC, body.encode(), at=self.slot_ms + 300, key=f"key-{body}"
                )
            await producer.send(TOPIC, b"last", at=self.slot_ms + 6_000)

    async def cancel(self) -> None:
        """Each of the ways of taking a message back."""
        async with self._producer() as producer:
            names = (
                {"message_id": self.handles["by-id"].message_id},
                {"key": "key-by-key"},
                {"recall_handle": self.handles["by-handle"].recall_handle},
            )
            for name in names:
                assert await producer.cancel(TOPIC, **name) is Verdict.CANCELLED

    async def move(self) -> None:
        """To the same second, to another, there and back, twice in one, and away for good."""
        moments = {
            "within": [700],
            "across": [2_400],
            "there-and-back": [1_500, 400],
            "twice-within": [600, 900],
            "taken-back": [2_600],
            "taken-back-within": [500],
        }
        async with self._producer() as producer:
            for body, offsets_ms in moments.items():
                handle = self.handles[body].recall_handle
                for offset_ms in offsets_ms:
                    moved = await producer.reschedule(TOPIC, handle, at=self.slot_ms + offset_ms)
                    assert moved.verdict is Verdict.MOVED
                    handle = moved.recall_handle
                if body.startswith("taken-back"):
                    assert await producer.cancel(TOPIC, handle) is Verdict.CANCELLED

    def _producer(self) -> Producer:
        return Producer(self.namesrv, request_timeout=30)


KEPT = ("kept", "within", "across", "there-and-back", "twice-within")
GONE = ("by-id", "by-key", "by-handle", "taken-back", "taken-back-within")


def wait_for_last(store: Path) -> None:
    """Until the message behind all others has come: slots are read in their order."""
    deadline = time.monotonic() + ARRIVED_SECONDS
    while not arrived(store)["last"]:
        assert time.monotonic() < deadline, "the last message has not come"
        time.sleep(0.2)


def arrived(store: Path) -> Counter[str]:
    """Body to how often it stands on the topic."""
    return Counter(one.body.decode() for one in stored_records(store, TOPIC))


def wait_settled(broker: Broker) -> None:
    """Until the checkpoint on the disk is past all that was asked: RocketMQ goes on from there."""
    deadline = time.monotonic() + SETTLED_SECONDS
    end = len(stored_records(broker.store, "rmq_sys_wheel_timer"))
    while time.monotonic() < deadline:
        page = (broker.store / "config/timercheck").read_bytes()
        if page and TimerCheckpoint.decode(page).last_timer_queue_offset >= end:
            return
        time.sleep(0.1)
    raise AssertionError("the checkpoint stays behind")


@BOTH
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_to_rocketmq(
    tmp_path: Path, request: pytest.FixtureRequest, java: str, *, kill: bool
) -> None:
    """Nothing cancelled comes, and what was moved comes once."""
    peer: JavaPeer = request.getfixturevalue(java)
    store = tmp_path / "store"
    with serving(store, "--set", "broker_name=broker-a") as broker:
        plan = Plan(broker.namesrv)
        trio.run(plan.send, *KEPT, *GONE)
        trio.run(plan.cancel)
        trio.run(plan.move)
        if kill:
            wait_settled(broker)
            broker.kill()
    with peer.broker(store) as served:
        wait_for_last(store)
        served.kill()

    assert arrived(store) == Counter([*KEPT, "last"])


@BOTH
def test_from_rocketmq(
    tmp_path: Path, request: pytest.FixtureRequest, java_client: Client, java: str
) -> None:
    """A recall that RocketMQ has stored, in its form, holds here."""
    peer: JavaPeer = request.getfixturevalue(java)
    handed = Handed(tmp_path / "store", peer, java_client, 3_600)
    with handed.by_java() as namesrv:
        handed.send(namesrv, kept="delay:9000", gone="recall:9000", last="delay:12000")
    with handed.by_us():
        handed.wait_for("last")
    handed.consumed += ["kept", "last"]
    handed.check()
