"""Deletes that stand in a store and name a message of another topic: no door takes one any more.

RocketMQ takes any name in a producer's delete, and so did this broker. A delete cancels what is
of the topic that it was sent to, as each delete does that a recall has stored.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from damaged_stores import checked, damage_of
from fakes import START_MS, VirtualClock
from simulation.staged_service import arrivals_everywhere, running, stored_delete, timed
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.simulator.disks.memory_disk import MemoryDisk

NEAR_MS, FAR_MS = START_MS + 7_500, START_MS + 65_500
MOMENTS = pytest.mark.parametrize("deliver_ms", [NEAR_MS, FAR_MS], ids=["near", "rolled"])


@MOMENTS
async def test_a_delete_cancels_messages_of_its_topic(
    autojump_clock: trio.testing.MockClock, deliver_ms: int
) -> None:
    """By key, with the topic or without; of another topic none, though its key be the same."""
    del autojump_clock
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock) as service:
        service.put([timed(name, deliver_ms) for name in ("a", "b", "c", "d")])
        service.put([timed(name, deliver_ms, topic="V") for name in ("a", "b")])
        service.store.put(
            [
                stored_delete("V", "T+a", deliver_ms, "a"),
                stored_delete("V", "b", deliver_ms),
                stored_delete("T", "c", deliver_ms),
                stored_delete("T", "T+d", deliver_ms, "d"),
            ]
        )
        await trio.sleep(80)
        found = {(one.topic, one.body) for one in arrivals_everywhere(service.store)}
        cancelled = service.statistics().cancelled
    store = checked(disk, now_ms=clock.now_ms())

    assert {one for one in found if one[0] in "TV"} == {("T", "a"), ("T", "b"), ("V", "a")}
    assert cancelled == 3
    assert damage_of(store) == []


@pytest.mark.parametrize("name", ["T+a", "a"])
async def test_a_cancel_behind_one_is_answered_by_its_message(
    autojump_clock: trio.testing.MockClock, name: str
) -> None:
    """The message waits still, and has arrived when its slot is through."""
    del autojump_clock
    clock = VirtualClock()
    async with running(MemoryDisk(now_ms=clock.now_ms), clock) as service:
        service.put([timed("a", NEAR_MS)])
        service.store.put([stored_delete("V", name, NEAR_MS, "a")])
        await trio.sleep(10)
        verdict = service.cancellation.cancel(Wanted("T", "a")).verdict

    assert verdict is Verdict.TOO_LATE


async def test_after_a_kill_it_is_the_same(autojump_clock: trio.testing.MockClock) -> None:
    """The next process reads the deletes from the log."""
    del autojump_clock
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, stop=False) as service:
        service.put([timed("a", NEAR_MS), timed("c", NEAR_MS)])
        service.store.put(
            [stored_delete("V", "T+a", NEAR_MS, "a"), stored_delete("T", "T+c", NEAR_MS, "c")]
        )
        await trio.sleep(1)
    disk.process_kill()
    async with running(disk, clock) as service:
        await trio.sleep(20)
        found = [one.body for one in arrivals_everywhere(service.store) if one.topic == "T"]

    assert found == ["a"]
