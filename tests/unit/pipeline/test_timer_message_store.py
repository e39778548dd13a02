"""The service as a whole: its door, its positions, its end, and when it begins anew."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, ManualClock, VirtualClock
from simulation.staged_service import ROOT, arrivals, running, timed
from timermq.pipeline.timer_message_store import REWIND_MS, TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import TimerCheckpoint
from timermq.timerstore.message import Message
from unit.pipeline.recovery.crashed_store import CHECKPOINT
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand


def test_a_refused_message_does_not_stop_the_others() -> None:
    """Results come in the order of the messages; only what is refused is not stored."""
    rig = StagesByHand(ManualClock())
    too_far = START_MS + TINY.timer_max_delay_sec * 1000 + 1
    results = rig.service.put(
        [timed("a", SLOT_MS), timed("far", too_far), Message("T", 0, b"now"), timed("b", SLOT_MS)]
    )

    assert [one.result.status.is_stored for one in results] == [True, False, True, True]
    assert [one.body for one in arrivals(rig.store)] == ["now"]
    assert rig.service.statistics().queue_offset_max == 2
    assert rig.service.statistics().refused == {"TIMER_DELAY_TOO_LONG": 1}


@pytest.mark.parametrize(("ahead_ms", "is_urgent"), [(99, True), (100, False)])
def test_what_is_due_soon_is_announced_before_it_is_stored(ahead_ms: int, is_urgent: bool) -> None:
    """By the nearest moment of all that is put: stage 1 lets no batch grow then."""
    rig = StagesByHand(ManualClock())
    rig.send(timed("far", SLOT_MS + 1), timed("near", START_MS + ahead_ms))

    assert rig.state.is_urgent(START_MS) is is_urgent


async def test_what_comes_to_the_timer_topic_wakes_stage_1(autojump_clock: MockClock) -> None:
    """A message for now does not."""
    rig = StagesByHand(VirtualClock())
    rig.send(Message("T", 0, b"now"))
    assert not await rig.state.arrived.wait_at_most(1)

    rig.send(timed("a", SLOT_MS + 5_000))
    assert await rig.state.arrived.wait_at_most(1)


def test_a_wheel_is_brought_back_only_when_it_is_far_ahead() -> None:
    """What is less than a minute ahead is waited for; a service that stops begins nothing."""
    rig = StagesByHand(ManualClock())
    rig.state.read_ms = START_MS + REWIND_MS - 1
    assert not rig.service.rewind()
    assert not rig.state.stopping

    rig.state.read_ms = START_MS + REWIND_MS
    assert rig.service.rewind()
    assert rig.state.stopping
    assert not rig.service.rewind()


async def test_a_wheel_that_begins_anew_loses_and_doubles_nothing(
    autojump_clock: MockClock,
) -> None:
    """The clock was an hour ahead, and is set right: what waits is made again of the log."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock) as service:
        service.put([timed("before", START_MS + 2_000)])
        await trio.sleep(5)
        clock.step(3_600_000)
        service.put([timed("after", START_MS + 3_700_000)])
        await trio.sleep(5)
        clock.step(-3_600_000)
        assert service.rewind()
        await trio.sleep(1)
        read_ms = service.state.read_ms
        service.put([timed("soon", clock.now_ms() + 2_000)])
        await trio.sleep(4)
        found = [one.body for one in arrivals(service.store)]
        waiting = service.statistics().pending

    assert read_ms <= START_MS + 12_000
    assert found == ["before", "soon"]
    assert waiting == 1


async def test_a_stop_leaves_a_checkpoint_of_the_end(autojump_clock: MockClock) -> None:
    """The log is needed from where the next start reads it, though the files are closed."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, timer_options=attrs.evolve(TINY, slots_total=120)) as service:
        service.put([Message("T", 0, b"now"), timed("a", START_MS + 60_000)])
        await trio.sleep(0.05)
    saved = TimerCheckpoint.decode(disk.open(CHECKPOINT).read(0, 4096).ljust(4096, b"\0"))

    assert saved.last_timer_queue_offset == 1
    assert saved.extension is not None
    assert service.needed_from() == saved.extension.scan_py == 0


def test_the_oldest_record_that_anything_needs_is_kept() -> None:
    """Of what waits in the queue, then in the wheel; of what is on its way; without any none."""
    rig = StagesByHand(ManualClock())
    rig.send(Message("T", 0, b"first"))
    assert rig.service.needed_from() is None

    (result,) = rig.service.put([timed("a", SLOT_MS + 1)])
    assert rig.service.needed_from() == result.result.phy_offset > 0

    rig.link()
    assert rig.service.needed_from() == result.result.phy_offset

    rig.state.under_way.append(1)
    assert rig.service.needed_from() == 1


def test_files_that_cannot_be_used_are_closed_again() -> None:
    """A wheel of another size is refused before anything is changed."""
    rig = StagesByHand(ManualClock())
    path = f"{ROOT}/timerwheel"
    rig.disk.open(path, create=True).write(0, bytes(1 << 16))
    with pytest.raises(Exception, match="timerwheel"):
        TimerMessageStore(rig.store, TINY, rig.clock)

    assert rig.disk.open(path).size() == 1 << 16
