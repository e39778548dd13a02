"""Stage 2: units and slots, the position behind them, and what has no room."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import trio
import trio.testing

from fakes import START_MS, ManualClock, VirtualClock
from simulation.staged_service import HOST, ROOT, SMALL_FILES, delete_of, timed
from timermq.pipeline.admission.flow_control import FlowControl
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.stages.enqueue_put import EnqueuePut
from timermq.pipeline.stages.timer_request import EnqueueBatch
from timermq.pipeline.state.signal import Signal
from timermq.pipeline.state.timer_counts import TimerCounts
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_DEFAULT, MAGIC_ROLL, NO_POS
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from unit.pipeline.recovery.crashed_store import OPTIONS
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand


def batch_for(slot_ms: int, next_queue_offset: int) -> EnqueueBatch:
    """One message for a slot."""
    return EnqueueBatch(
        offset_py=np.array([0]),
        size_py=np.array([100], np.int32),
        out_ms=np.array([slot_ms]),
        deliver_ms=np.array([slot_ms + 1]),
        order_py=np.array([0]),
        topic_hash=np.array([7], np.int32),
        magic=np.array([MAGIC_DEFAULT], np.int32),
        arrivals={"T": 1},
        next_queue_offset=next_queue_offset,
    )


def next_batch(rig: StagesByHand) -> EnqueueBatch:
    """What stage 1 reads next, which there must be."""
    batch = rig.get.next_batch()
    assert batch is not None
    return batch


def linked(rig: StagesByHand) -> dict[int, int]:
    """Slots from the present on, as milliseconds behind the start, to their messages."""
    live = rig.service.live()
    slots = zip(live["time_ms"].tolist(), live["num"].tolist(), strict=True)
    return {slot_ms - START_MS: count for slot_ms, count in slots}


def units(rig: StagesByHand, slot_ms: int) -> list[tuple[int, bool]]:
    """The units of a slot from the newest on: place of the record, and whether it rolls."""
    entry = rig.service.files.wheel.slot(slot_ms)
    assert entry is not None
    return [
        (offset_py, bool(magic & MAGIC_ROLL))
        for chunk in rig.service.files.timer_log.walk(
            entry.last_pos, slot_ms=slot_ms, until_pos=NO_POS, count_max=10
        )
        for offset_py, magic in zip(chunk.offset_py.tolist(), chunk.magic.tolist(), strict=True)
    ]


def test_units_are_linked_before_the_position_moves() -> None:
    """More units than a file of the timer log has, each in its slot, chained by slot."""
    rig = StagesByHand(ManualClock())
    rig.send(*[timed(f"m{n}", SLOT_MS + 1_000 * (n % 2) + 1) for n in range(6)])
    batch = next_batch(rig)
    assert (rig.state.queue_offset, rig.state.commit_queue_offset) == (6, 0)
    assert rig.put.put(batch)
    order = batch.offset_py.tolist()

    assert linked(rig) == {1_000: 3, 2_000: 3}
    assert [offset_py for offset_py, _ in units(rig, SLOT_MS)] == order[4::-2]
    assert [offset_py for offset_py, _ in units(rig, SLOT_MS + 1_000)] == order[5::-2]
    assert rig.state.commit_queue_offset == 6
    assert rig.counts.enqueued == 6
    assert rig.service.files.metrics.counts() == {"T": 6}


def test_a_delete_counts_as_one_message_less() -> None:
    """As RocketMQ's slots have it; it is no arrival of its topic."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", SLOT_MS + 1), timed("b", SLOT_MS + 1), delete_of("a", SLOT_MS + 1))

    assert linked(rig) == {1_000: 1}
    assert rig.service.files.metrics.counts() == {"T": 2}


def test_what_is_late_goes_to_the_slot_that_is_read() -> None:
    """A closed slot takes nothing: what asks for it would wait a turn of the ring."""
    rig = StagesByHand(ManualClock())
    rig.send(timed("late", SLOT_MS + 1), timed("later", SLOT_MS + 2_001))
    rig.state.read_ms = SLOT_MS + 1_000
    rig.service.files.wheel.pass_by(rig.state.read_ms)
    assert rig.put.put(next_batch(rig))

    assert linked(rig) == {2_000: 1, 3_000: 1}


def test_what_lies_beyond_the_window_waits_for_a_roll() -> None:
    """Three slots ahead are out of a window of three, and less is in it."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("in", START_MS + 3_000), timed("out", START_MS + 3_001))
    rolls = [is_roll for slot_ms in linked(rig) for _, is_roll in units(rig, START_MS + slot_ms)]

    assert sorted(rolls) == [False, True]
    assert max(linked(rig)) <= 3_000


async def woken(signal: Signal) -> bool:
    """Whether a signal is set."""
    return await signal.wait_at_most(1)


@pytest.mark.parametrize(("awaited_ms", "wakes"), [(0, False), (1_000, True), (None, True)])
async def test_stage_3_is_woken_by_what_it_sleeps_for(
    autojump_clock: trio.testing.MockClock, awaited_ms: int | None, wakes: bool
) -> None:
    """By a unit in its slot or before it, or when it sleeps for none; not by later ones."""
    rig = StagesByHand(VirtualClock())
    rig.state.awaited_ms = None if awaited_ms is None else START_MS + awaited_ms
    rig.link(timed("a", SLOT_MS + 1))

    assert await woken(rig.state.slots_changed) is wakes
    assert await woken(rig.state.committed)


def test_a_record_that_is_no_timer_is_quarantined_before_the_position_moves() -> None:
    """Its entry stands in the log by then; on a full disk the position waits."""
    rig = StagesByHand(ManualClock())
    rig.store.put([Message(TIMER_TOPIC, 0, b"poison", b"", born_host=HOST)])
    batch = next_batch(rig)
    rig.fill_disk()
    assert not rig.put.put(batch)
    assert rig.state.commit_queue_offset == 0
    assert rig.counts.enqueue_backoff.count == 1

    rig.free_disk()
    assert rig.put.put(batch)
    assert rig.state.commit_queue_offset == 1
    assert rig.service.quarantine.active == 1


def test_a_full_disk_links_nothing() -> None:
    """A batch is written whole or not at all, and once there is room it is."""
    rig = StagesByHand(ManualClock())
    rig.send(*[timed(f"m{n}", SLOT_MS + 1) for n in range(6)])
    batch = next_batch(rig)
    rig.fill_disk()
    assert not rig.put.put(batch)
    backoff = rig.counts.enqueue_backoff

    assert (linked(rig), rig.state.commit_queue_offset) == ({}, 0)
    assert (backoff.count, backoff.since_ms) == (6, START_MS)

    rig.free_disk()
    assert rig.put.put(batch)

    assert linked(rig) == {1_000: 6}
    assert (backoff.count, backoff.since_ms) == (0, None)


async def test_a_full_ring_waits_for_a_delivered_slot(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A slot six ahead has the place of one that is not delivered: that wakes it, and no pause."""
    rig = StagesByHand(VirtualClock(), attrs.evolve(TINY, retry_interval_ms=10_000_000))
    sink, source = trio.open_memory_channel[EnqueueBatch](1)
    rig.state.read_ms = START_MS + 4_000
    rig.service.files.wheel.pass_by(rig.state.read_ms)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.put.run, source)
            sink.send_nowait(batch_for(START_MS + 6_000, 1))
            sink.close()
            await trio.sleep(1)
            assert linked(rig) == {}
            rig.state.commit_read_ms = SLOT_MS
            rig.state.slot_closed.set()

    assert linked(rig) == {6_000: 1}
    assert rig.state.commit_queue_offset == 1


def put_of(service: TimerMessageStore, clock: ManualClock | VirtualClock) -> EnqueuePut:
    """The stage of a service that does not run, with room for everything."""
    return EnqueuePut(
        timer_log=service.files.timer_log,
        wheel=service.files.wheel,
        metrics=service.files.metrics,
        quarantine=service.quarantine,
        flow=FlowControl(OPTIONS, lambda _: 0),
        state=service.state,
        options=OPTIONS,
        clock=clock,
        counts=TimerCounts(),
    )


async def test_a_slot_that_is_not_delivered_is_not_overwritten() -> None:
    """A message for a turn of the ring later is rolled before it: a kill needs the slot."""
    clock, disk = ManualClock(), MemoryDisk()
    store = MessageStore.open(disk, ROOT, SMALL_FILES, now_ms=clock.now_ms, store_host=HOST)
    service = TimerMessageStore(store, OPTIONS, clock)
    state, wheel = service.state, service.files.wheel
    put = put_of(service, clock)
    slot_ms = state.commit_read_ms
    ring_ms = 2 * OPTIONS.slots_total * OPTIONS.timer_precision_ms
    state.write_ms = slot_ms + ring_ms
    assert put.put(batch_for(slot_ms, 1))
    state.read_ms = slot_ms + OPTIONS.timer_precision_ms
    wheel.pass_by(state.read_ms)
    assert put.put(batch_for(slot_ms + ring_ms, 2))
    kept = wheel.slot(slot_ms)
    (waiting,) = wheel.live(state.read_ms)

    assert kept is not None
    assert state.read_ms < waiting["time_ms"] <= state.read_ms + OPTIONS.roll_window_ms
    assert service.files.timer_log.unit(int(waiting["last_pos"])).magic & MAGIC_ROLL


async def test_a_service_that_stops_does_not_wait_for_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What found no room, and all behind it, is left to the next run, which reads it again."""
    clock, disk = VirtualClock(), MemoryDisk()
    store = MessageStore.open(disk, ROOT, SMALL_FILES, now_ms=clock.now_ms, store_host=HOST)
    service = TimerMessageStore(store, OPTIONS, clock)
    state = service.state
    put = put_of(service, clock)
    sink, source = trio.open_memory_channel[EnqueueBatch](3)
    disk.total = disk.usage(ROOT).used
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put.run, source)
            sink.send_nowait(batch_for(state.commit_read_ms + 2000, 1))
            sink.send_nowait(batch_for(state.commit_read_ms + 1000, 2))
            await trio.sleep(5)
            state.stopping = True
            sink.close()

    assert 0 == state.commit_queue_offset
    assert 0 == service.files.timer_log.max_pos
