"""Slots that a master has delivered: a follower passes them, but for what may wait there still."""

from __future__ import annotations

import attrs
import pytest

from fakes import START_MS, ManualClock
from simulation.staged_service import timed
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.pipeline.recovery.read_ahead import ReadAhead
from timermq.pipeline.recovery.timer_recovery import recover
from timermq.pipeline.stages.copied_slots import CopiedSlots
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerlog import MAGIC_ROLL
from timermq.timerstore.message import Message
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand

WIDE = attrs.evolve(TINY, timer_roll_window_slot=30, slots_total=30)
"""A ring of a minute."""
FAR_MS = 40_000
"""So far ahead a message goes round that wheel."""


def linked_rig(*moments: int, options: TimerOptions = WIDE) -> StagesByHand:
    """A service that has linked a message for each moment, milliseconds behind the first slot."""
    rig = StagesByHand(ManualClock(), options)
    for number, moment in enumerate(moments):
        rig.send(timed(f"m{number}", SLOT_MS + moment))
        batch = rig.get.next_batch()
        assert batch is not None
        assert rig.put.put(batch)
    return rig


def slots_of(rig: StagesByHand) -> CopiedSlots:
    """What passes the slots of a service."""
    service = rig.service
    return CopiedSlots(
        timer_log=service.files.timer_log,
        wheel=service.files.wheel,
        state=rig.state,
        options=service.options,
        ahead=ReadAhead(service.store, service.files),
    )


def live(rig: StagesByHand) -> dict[int, int]:
    """Slots that wait, as milliseconds behind the start, to their messages."""
    found = rig.service.live()
    slots = zip(found["time_ms"].tolist(), found["num"].tolist(), strict=True)
    return {slot_ms - START_MS: count for slot_ms, count in slots}


def test_delivered_slots_are_passed() -> None:
    """The next recovery begins behind them, and reads the log from where it is told."""
    rig = linked_rig(1, 2, 1_001, 3_001)
    before = live(rig)
    read_ms = SLOT_MS + 2_500
    assert slots_of(rig).pass_by(read_ms=read_ms, queue_offset=4, scan_py=300)

    assert sum(before.values()) == 4
    assert sum(live(rig).values()) == 1
    expected = read_ms - read_ms % 1_000
    assert (rig.state.read_ms, rig.state.commit_read_ms) == (expected, expected)
    assert rig.state.scan_py == 300
    assert not slots_of(rig).pass_by(read_ms=read_ms, queue_offset=4, scan_py=900)
    assert rig.state.scan_py == 300


def test_what_the_master_had_not_linked_is_linked_again() -> None:
    """It stands where reading is then, and the log is read from its record on."""
    rig = linked_rig(1, 2, 3, options=TINY)
    read_ms = SLOT_MS + 10_000
    assert slots_of(rig).pass_by(read_ms=read_ms, queue_offset=1, scan_py=10_000)

    # More than a turn of the ring ahead of where reading was.
    assert live(rig) == {read_ms - START_MS: 2}
    queue = rig.service.store.queue("rmq_sys_wheel_timer", 0)
    assert queue is not None
    first, second = (int(queue.units(offset, 1)["phy_offset"][0]) for offset in (1, 2))
    assert rig.state.scan_py == first
    entry = rig.service.files.wheel.slot(read_ms)
    assert entry is not None
    chunks = list(rig.service.files.timer_log.walk(entry.last_pos, slot_ms=read_ms))
    assert [py for chunk in chunks for py in chunk.offset_py.tolist()] == [second, first]
    assert [one for chunk in chunks for one in chunk.reserved.tolist()] == [0, 0]


@pytest.mark.parametrize("stops", [False, True])
def test_a_full_disk_passes_nothing(stops: bool) -> None:
    """Nor does a service that stops: all is as before."""
    rig = linked_rig(1, 2, 3)
    before, state = live(rig), rig.state
    read_ms, scan_py = state.read_ms, state.scan_py
    if stops:
        state.stopping = True
    else:
        timer_log = rig.service.files.timer_log

        def full(_: object) -> None:
            raise OSError(28, "No space left on device")

        timer_log.append = full  # type: ignore[method-assign, assignment]
    passed = slots_of(rig).pass_by(read_ms=SLOT_MS + 10_000, queue_offset=1, scan_py=10_000)
    assert not passed
    assert (state.read_ms, state.scan_py, live(rig)) == (read_ms, scan_py, before)


def roll_by_master(rig: StagesByHand, *, is_rocketmq: bool = False) -> int:
    """Store the copy of the first message that a master has rolled; where it stands."""
    deliver_ms = SLOT_MS + FAR_MS
    tail = timer_tail(
        deliver_ms=deliver_ms,
        out_ms=deliver_ms - 1_000,
        topic="T",
        queue_id=0,
        rolls=1,
        order_py=0,
    )
    key = b"UNIQ_KEY\x01m0\x02TIMER_DELIVER_MS\x01%d\x02" % deliver_ms
    if is_rocketmq:
        tail += b"TIMER_DEQUEUE_MS\x01%d\x02" % SLOT_MS
    origin = 0 if is_rocketmq else origin_of(0)
    copy = Message(TIMER_TOPIC, 0, b"m0", key + tail, prepared_offset=origin)
    place = rig.store.commit_log.max_offset
    (result,) = rig.store.put([copy])
    assert result.status.is_stored
    batch = rig.get.next_batch()
    assert batch is not None
    assert rig.put.put(batch)
    return place


def roll_slot(rig: StagesByHand) -> int:
    """The slot in which the first message waits for its roll."""
    (slot_ms,) = live(rig)
    assert slot_ms < FAR_MS - 1_000
    return START_MS + slot_ms


def test_what_the_master_has_not_rolled_waits_on() -> None:
    """The master drew a later slot for it: passed here, it would be lost by a promotion."""
    rig = linked_rig(FAR_MS)
    read_ms = roll_slot(rig) + 1_000
    end = rig.store.commit_log.max_offset
    assert slots_of(rig).pass_by(read_ms=read_ms, queue_offset=1, scan_py=end)

    (slot_ms,) = live(rig)
    assert read_ms <= START_MS + slot_ms <= SLOT_MS + FAR_MS
    for later_ms in range(read_ms + 1_000, SLOT_MS + FAR_MS, 1_000):
        assert slots_of(rig).pass_by(read_ms=later_ms, queue_offset=1, scan_py=end)
    # In its own slot by now, where no roll makes it late.
    (slot,) = rig.service.live()
    assert (int(slot["time_ms"]), int(slot["num"])) == (SLOT_MS + FAR_MS - 1_000, 1)
    (chunk,) = rig.service.files.timer_log.walk(int(slot["last_pos"]), slot_ms=int(slot["time_ms"]))
    assert not chunk.magic[0] & MAGIC_ROLL


def test_what_the_master_has_rolled_is_passed() -> None:
    """The copy waits in its place."""
    rig = linked_rig(FAR_MS)
    read_ms = roll_slot(rig) + 1_000
    roll_by_master(rig)
    before = live(rig)
    end = rig.store.commit_log.max_offset
    assert slots_of(rig).pass_by(read_ms=read_ms, queue_offset=2, scan_py=end)

    assert sum(before.values()) == 2
    assert sum(live(rig).values()) == 1
    assert rig.state.scan_py == end


@pytest.mark.parametrize("is_rocketmq", [False, True])
def test_a_roll_is_known_as_long_as_what_it_rolled_waits(is_rocketmq: bool) -> None:
    """The master drew an earlier slot: a promotion would roll the message a second time."""
    rig = linked_rig(FAR_MS)
    slot_ms = roll_slot(rig)
    place = roll_by_master(rig, is_rocketmq=is_rocketmq)
    end = rig.store.commit_log.max_offset
    slots = slots_of(rig)
    assert slots.pass_by(read_ms=slot_ms, queue_offset=2, scan_py=end)
    assert rig.state.scan_py == place

    # That is looked for once a minute when nothing is stored.
    assert slots.pass_by(read_ms=slot_ms + 1_000, queue_offset=2, scan_py=end)
    assert rig.state.scan_py == place
    assert slots.pass_by(read_ms=slot_ms + 60_000, queue_offset=2, scan_py=end)
    assert rig.state.scan_py == end


async def test_a_promotion_remembers_a_roll_until_the_slot_of_what_it_rolled() -> None:
    """That slot is later than all that the log tells of the time."""
    rig = linked_rig(FAR_MS)
    slot_ms = roll_slot(rig)
    roll_by_master(rig)
    end = rig.store.commit_log.max_offset
    assert slots_of(rig).pass_by(read_ms=SLOT_MS + 2_000, queue_offset=2, scan_py=end)
    await rig.flush()
    service = rig.service
    found = recover(service.files, rig.store, service.options, rig.clock.now_ms(), runs=True)

    assert found.already_done.origins.tolist() == [0]
    assert rig.clock.now_ms() < slot_ms <= found.already_done.until_slot_ms


async def test_a_promotion_knows_what_rocketmq_delivered_before_the_follower_began() -> None:
    """Its first slot is later than the delivery; the message waits there since it came late."""
    clock = ManualClock()
    rig = StagesByHand(clock, WIDE)
    out_ms = START_MS - 5_000
    waiting = timer_tail(
        deliver_ms=out_ms + 1_000, out_ms=out_ms, topic="T", queue_id=0, rolls=0, order_py=0
    )
    key = b"UNIQ_KEY\x01m0\x02"
    delivered = key + waiting + b"TIMER_DEQUEUE_MS\x01%d\x02" % out_ms
    clock.time_ms = START_MS - 3_000
    rig.store.put([Message(TIMER_TOPIC, 0, b"m0", key + waiting)])
    rig.store.put([Message("T", 0, b"m0", delivered)])
    clock.time_ms = START_MS + 1
    rig.link()
    assert sum(live(rig).values()) == 1
    await rig.flush()
    service = rig.service
    found = recover(service.files, rig.store, service.options, clock.now_ms(), runs=True)

    ((_, record),) = rig.store.newest_first(TIMER_TOPIC, "m0", unique=True)
    assert found.already_done.take_foreign(0, record)
