"""SIGKILL at random moments under load: none lost, none early, none twice.

The ledger says what was acknowledged; at the end the store itself says what reached its topic. A
send whose answer the kill took away may have been stored or not: it must not be early, and no more
than that is asked.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from interop.serving import Broker, StartBroker
from interop.stored_records import stored_records
from timermq.client import ClientError, OutgoingMessage, Producer

pytestmark = [pytest.mark.slow, pytest.mark.interop]

ROUNDS = int(os.environ.get("TIMERMQ_KILL_ROUNDS", "5"))
SEED = int(os.environ.get("TIMERMQ_KILL_SEED", "20261121"))
TOPIC = "KillTopic"


@attrs.define
class Ledger:
    """What the producer has sent, and what of it was acknowledged."""

    acknowledged: dict[str, int] = attrs.Factory(dict[str, int])
    """Body to the moment asked for."""
    sent: dict[str, int] = attrs.Factory(dict[str, int])
    """The same for everything sent, answered or not."""
    number: int = 0

    def next_batch(self, draw: random.Random) -> dict[str, int]:
        """Bodies with moments from 20 ms to 5 s ahead, some sharing one."""
        base_ms = time.time_ns() // 1_000_000
        batch: dict[str, int] = {}
        for _ in range(draw.randint(1, 40)):
            self.number += 1
            batch[f"m{self.number}"] = base_ms + draw.choice(
                [20, 300, 1000, 2500, draw.randint(20, 5000)]
            )
        return batch


async def produce(namesrv: str, ledger: Ledger, draw: random.Random) -> None:
    """Send batches for ever, keeping the ledger."""
    async with Producer(namesrv, group="kill-producer") as producer:
        while True:
            batch = ledger.next_batch(draw)
            messages = [
                OutgoingMessage(topic=TOPIC, body=body.encode(), at=deliver_ms)
                for body, deliver_ms in batch.items()
            ]
            ledger.sent.update(batch)
            try:
                with trio.fail_after(3):
                    await producer.send_batch(messages)
            except (ClientError, trio.TooSlowError):
                await trio.sleep(0.05)
            else:
                ledger.acknowledged.update(batch)
            await trio.sleep(draw.random() * 0.02)


async def kill_and_restart(
    start: StartBroker, broker: Broker, draw: random.Random, flags: tuple[str, ...]
) -> Broker:
    """Let it work for a random while, kill it, start it again on the same ports."""
    for _ in range(ROUNDS):
        await trio.sleep(0.4 + draw.random() * 2)
        broker.kill()
        again = partial(start, broker.store, *flags, listen=broker.listen, namesrv=broker.namesrv)
        broker = await trio.to_thread.run_sync(again)
    return broker


def delivered(store: Path) -> list[tuple[str, int]]:
    """(body, store time) of every record on the topic itself, read from the files."""
    return [(one.body.decode(), one.store_ms) for one in stored_records(store, TOPIC)]


@pytest.mark.parametrize(
    "flags", [(), ("--set", "flush_disk_type=SYNC_FLUSH")], ids=["async", "sync"]
)
async def test_kill(tmp_path: Path, start: StartBroker, flags: tuple[str, ...]) -> None:
    """Every acknowledged message is on its topic once, and not before its moment."""
    draw = random.Random(SEED)
    ledger = Ledger()
    broker = start(tmp_path / "store", *flags)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce, broker.namesrv, ledger, draw)
        broker = await kill_and_restart(start, broker, draw, flags)
        await trio.sleep(0.5)
        nursery.cancel_scope.cancel()
    await trio.sleep(6)
    code = broker.stop()
    arrived = delivered(tmp_path / "store")
    times = Counter(body for body, _ in arrived)
    moments = ledger.sent

    assert code == 0
    assert len(ledger.acknowledged) > 100 * ROUNDS
    assert [body for body in ledger.acknowledged if times[body] == 0] == [], "lost"
    assert [body for body in ledger.acknowledged if times[body] > 1] == [], "twice"
    assert [body for body, stored_ms in arrived if stored_ms < moments[body]] == [], "early"
