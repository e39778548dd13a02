"""Stage 2 beside what is read but not delivered."""

from __future__ import annotations

import numpy as np
import trio
import trio.testing

from fakes import ManualClock, VirtualClock
from simulation.staged_service import HOST, ROOT, SMALL_FILES
from timermq.pipeline.admission.flow_control import FlowControl
from timermq.pipeline.stages.enqueue_put import EnqueuePut
from timermq.pipeline.stages.timer_request import EnqueueBatch
from timermq.pipeline.state.timer_counts import TimerCounts
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_DEFAULT, MAGIC_ROLL
from timermq.timerstore.message_store import MessageStore
from unit.pipeline.recovery.crashed_store import OPTIONS


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


async def test_a_slot_that_is_not_delivered_is_not_overwritten() -> None:
    """A message for a turn of the ring later is rolled before it: a kill needs the slot."""
    clock, disk = ManualClock(), MemoryDisk()
    store = MessageStore.open(disk, ROOT, SMALL_FILES, now_ms=clock.now_ms, store_host=HOST)
    service = TimerMessageStore(store, OPTIONS, clock)
    state, wheel = service.state, service.files.wheel
    put = EnqueuePut(
        timer_log=service.files.timer_log,
        wheel=wheel,
        metrics=service.files.metrics,
        quarantine=service.quarantine,
        flow=FlowControl(OPTIONS, lambda _: 0),
        state=state,
        options=OPTIONS,
        clock=clock,
        counts=TimerCounts(),
    )
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
    put = EnqueuePut(
        timer_log=service.files.timer_log,
        wheel=service.files.wheel,
        metrics=service.files.metrics,
        quarantine=service.quarantine,
        flow=FlowControl(OPTIONS, lambda _: 0),
        state=state,
        options=OPTIONS,
        clock=clock,
        counts=TimerCounts(),
    )
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
