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
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.record import decode_record

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


def rolled_by_rocketmq(properties: bytes) -> bytes:
    """The properties of a copy that RocketMQ makes: its own among them, in another order."""
    items = [*filter(None, properties.split(b"\x02")), b"TIMER_ROLL_TIMES\x011"]
    items += [b"TIMER_ENQUEUE_MS\x01%d" % START_MS, b"TIMER_DEQUEUE_MS\x01%d" % START_MS]
    return b"".join(item + b"\x02" for item in reversed(items))


@MOMENTS
async def test_a_cancelled_message_that_rocketmq_rolled_does_not_arrive(
    autojump_clock: trio.testing.MockClock, deliver_ms: int
) -> None:
    """Its copy has another order than the delete says, whose copy names it by the key."""
    del autojump_clock
    clock = VirtualClock()
    async with running(MemoryDisk(now_ms=clock.now_ms), clock) as service:
        service.put([timed(name, deliver_ms) for name in ("gone", "stays")])
        service.cancellation.cancel(Wanted("T", "gone"))
        log = service.store.commit_log
        places = [*log.scan(log.min_offset, check_crc=True)]
        left = [decode_record(log.read(phy_offset, size)) for phy_offset, size in places]
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock) as service:
        copies = [
            Message(TIMER_TOPIC, 0, one.body, rolled_by_rocketmq(one.properties))
            for one in left
            if one.topic == TIMER_TOPIC
        ]
        service.store.put([Message("other", 0, b"before", b""), *copies])
        await trio.sleep(80)
        arrived = [one.body for one in arrivals_everywhere(service.store) if one.topic == "T"]

    assert len(copies) == 4
    assert arrived == ["stays"]
    assert damage_of(checked(disk, now_ms=clock.now_ms())) == []
