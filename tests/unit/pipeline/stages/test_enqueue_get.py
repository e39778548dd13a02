"""Stage 1: every entry of the timer topic once, in order, and what it asks for."""

from __future__ import annotations

import attrs
import numpy as np
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from fakes import START_MS, ManualClock, VirtualClock
from simulation.staged_service import HOST, delete_of, timed
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.deduplication import AlreadyDone, Doubt, origin_of
from timermq.pipeline.records.delivered_message import due_message
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.records.undeliverable import Reason
from timermq.pipeline.stages.enqueue_get import COLUMNS_COUNT_MIN, EnqueueGet
from timermq.pipeline.stages.timer_request import EnqueueBatch
from timermq.pipeline.state.timer_state import URGENT_MS
from timermq.timerlog import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_SECOND
from timermq.timerstore.message import Message
from timermq.timerstore.record import record_properties
from unit.pipeline.stages_by_hand import CHANNEL_COUNT, SLOT_MS, TINY, StagesByHand

POISON = Message(TIMER_TOPIC, 0, b"poison", b"UNIQ_KEY\x01p\x02", born_host=HOST)
"""A record of the timer topic that names neither slot nor topic."""


def next_batch(rig: StagesByHand) -> EnqueueBatch:
    """The next batch, which there must be."""
    batch = rig.get.next_batch()
    assert batch is not None
    return batch


def record_of(rig: StagesByHand, batch: EnqueueBatch, index: int) -> bytes:
    """The record behind a row of a batch."""
    offset_py, size_py = int(batch.offset_py[index]), int(batch.size_py[index])
    record = rig.store.commit_log.record_at(offset_py, size_py)
    assert record is not None
    return record


def test_nothing_is_read_of_a_store_without_timers() -> None:
    """There is no timer topic before the first timer."""
    rig = StagesByHand(ManualClock())

    assert rig.get.next_batch() is None
    assert rig.state.queue_offset == 0


def test_what_an_entry_asks_for() -> None:
    """Moment, slot, place and topic of each; a delete is marked."""
    rig = StagesByHand(ManualClock())
    rig.send(timed("a", SLOT_MS + 1), timed("b", SLOT_MS, topic="U"), delete_of("a", SLOT_MS + 1))
    batch = next_batch(rig)
    delete = MAGIC_DEFAULT | MAGIC_DELETE

    assert batch.deliver_ms.tolist()[:2] == [SLOT_MS + 1, SLOT_MS]
    assert batch.out_ms.tolist() == [SLOT_MS, SLOT_MS - 1_000, SLOT_MS]
    assert batch.order_py.tolist() == batch.offset_py.tolist()
    assert batch.magic.tolist() == [MAGIC_DEFAULT, MAGIC_DEFAULT, delete]
    assert batch.arrivals == {"T": 1, "U": 1}


def test_each_entry_comes_once_in_batches_of_the_largest_size() -> None:
    """The position to read moves with each batch; that of what is linked is stage 2's."""
    rig = StagesByHand(ManualClock(), attrs.evolve(TINY, enqueue_batch_count_max=2))
    rig.send(*[timed(f"m{n}", SLOT_MS + n) for n in range(3)])
    first, second = next_batch(rig), next_batch(rig)

    assert [len(first), len(second)] == [2, 1]
    assert [first.next_queue_offset, second.next_queue_offset] == [2, 3]
    assert first.deliver_ms.tolist() + second.deliver_ms.tolist() == [SLOT_MS + n for n in range(3)]
    assert rig.get.next_batch() is None
    assert (rig.state.queue_offset, rig.state.commit_queue_offset) == (3, 0)


def test_many_records_are_read_as_columns_with_the_same_outcome() -> None:
    """A batch of columns says what the records say one by one."""
    rig = StagesByHand(ManualClock())
    rig.send(*[timed(f"m{n}", SLOT_MS + 7 * n, queue_id=n % 2) for n in range(COLUMNS_COUNT_MIN)])
    together = next_batch(rig)
    rig.state.queue_offset = 0
    one_by_one = EnqueueGet(
        store=rig.store,
        state=rig.state,
        options=attrs.evolve(TINY, enqueue_batch_count_max=1),
        clock=rig.clock,
        counts=rig.counts,
    )
    single = [one for _ in range(COLUMNS_COUNT_MIN) if (one := one_by_one.next_batch())]

    assert len(together) == len(single) == COLUMNS_COUNT_MIN
    for name in ("offset_py", "size_py", "out_ms", "deliver_ms", "order_py", "topic_hash", "magic"):
        column = [getattr(one, name).tolist() for one in single]
        assert [[value] for value in getattr(together, name).tolist()] == column, name
    assert together.arrivals == {"T": COLUMNS_COUNT_MIN}


def test_a_delete_among_many_records_is_marked() -> None:
    """Columns know no deletes: the batch is read one by one."""
    rig = StagesByHand(ManualClock())
    rig.send(*[timed(f"m{n}", SLOT_MS + 1) for n in range(COLUMNS_COUNT_MIN)])
    rig.send(delete_of("m3", SLOT_MS + 1))
    batch = next_batch(rig)

    assert np.flatnonzero(batch.magic & MAGIC_DELETE).tolist() == [COLUMNS_COUNT_MIN]
    assert batch.arrivals == {"T": COLUMNS_COUNT_MIN}


def test_a_record_that_is_no_timer_goes_along_to_be_quarantined() -> None:
    """Its neighbours are linked, and the position moves past it."""
    rig = StagesByHand(ManualClock())
    rig.send(timed("a", SLOT_MS + 1))
    rig.store.put([POISON])
    rig.send(timed("b", SLOT_MS + 2))
    batch = next_batch(rig)
    (fault,) = batch.undeliverable

    assert batch.deliver_ms.tolist() == [SLOT_MS + 1, SLOT_MS + 2]
    assert (fault.reason, b"poison" in fault.record) == (Reason.NO_MOMENT, True)
    assert batch.next_queue_offset == 3


def test_what_the_last_run_enqueued_is_left_out() -> None:
    """It is counted as a repeat, and the position moves past it."""
    rig = StagesByHand(ManualClock())
    rig.send(timed("a", SLOT_MS + 1), timed("b", SLOT_MS + 2))
    first_py = rig.store.commit_log.min_offset
    rig.state.already_done = AlreadyDone(enqueued=np.array([first_py]), until_queue_offset=2)
    batch = next_batch(rig)

    assert batch.deliver_ms.tolist() == [SLOT_MS + 2]
    assert batch.next_queue_offset == 2
    assert rig.counts.repeated == 1


def test_no_batch_has_both_what_the_last_run_left_and_what_came_since() -> None:
    """The two are counted by other rules."""
    rig = StagesByHand(ManualClock())
    rig.send(*[timed(f"m{n}", SLOT_MS + n) for n in range(4)])
    rig.state.already_done = AlreadyDone(until_queue_offset=3)

    assert [len(next_batch(rig)), len(next_batch(rig))] == [3, 1]


def test_a_roll_is_no_arrival() -> None:
    """Its message was counted before; after a recount only those with units were."""
    rig = StagesByHand(ManualClock())
    rig.send(timed("a", SLOT_MS + 1))
    record = record_of(rig, next_batch(rig), 0)
    roll = due_message(record, 0, is_roll=True, origin=origin_of(0), precision_ms=1_000)
    rig.store.put([roll.message])

    assert next_batch(rig).arrivals == {}

    for is_recounted, arrivals in ((False, {}), (True, {"T": 1})):
        rig.state.queue_offset = 1
        rig.state.already_done = AlreadyDone(is_recounted=is_recounted, until_queue_offset=2)

        assert next_batch(rig).arrivals == arrivals


def test_a_delete_whose_message_was_not_written_is_nothing() -> None:
    """A power cut took the second half of the move."""
    rig, torn = StagesByHand(ManualClock()), StagesByHand(ManualClock())
    for one in (rig, torn):
        one.link(timed("a", SLOT_MS + 1))
    rig.service.cancellation.reschedule(Wanted("T", "a"), SLOT_MS + 500)
    whole = next_batch(rig)
    delete = record_properties(record_of(rig, whole, 0))
    torn.store.put([Message(TIMER_TOPIC, 0, b"0", delete, born_host=HOST)])
    batch = next_batch(torn)

    delete_bits = MAGIC_DEFAULT | MAGIC_DELETE
    assert whole.magic.tolist() == [delete_bits, MAGIC_DEFAULT, delete_bits | MAGIC_SECOND]
    assert (len(batch), batch.undeliverable, batch.next_queue_offset) == (0, [], 2)


def test_a_message_that_a_damaged_record_may_have_delivered_is_quarantined() -> None:
    """Whatever could leave by then is in doubt: by its moment, or by the first roll it could take.

    A roll of this window takes 500 ms at least.
    """
    rig = StagesByHand(ManualClock())
    rig.send(timed("near", START_MS + 100), timed("far", SLOT_MS + 4_000))
    doubtful: dict[int, list[int]] = {}
    for behind_ms in (99, 100, 499, 500):
        rig.state.queue_offset = 0
        doubt = Doubt(position=1 << 40, until_ms=START_MS + behind_ms, topics=None)
        rig.state.already_done = AlreadyDone(doubts=(doubt,))
        faults = next_batch(rig).undeliverable
        assert {Reason.IN_DOUBT} >= {one.reason for one in faults}
        doubtful[behind_ms] = [one.offset_py for one in faults]
    far_py = doubtful[500][-1]

    assert doubtful == {99: [], 100: [0], 499: [0], 500: [0, far_py]}


def test_reading_goes_on_behind_what_was_cleaned() -> None:
    """Entries that the queue no longer has are passed."""
    rig = StagesByHand(ManualClock())
    rig.send(*[timed(f"m{n}", SLOT_MS + n) for n in range(5)])
    batch = next_batch(rig)
    queue = rig.store.queue(TIMER_TOPIC, 0)
    assert queue is not None
    rig.state.queue_offset = 0
    queue.correct_min_offset(int(batch.offset_py[3]))

    assert next_batch(rig).deliver_ms.tolist() == [SLOT_MS + 3, SLOT_MS + 4]


async def run_for(rig: StagesByHand, seconds: float, sends: dict[int, Message]) -> list[list[int]]:
    """Run the stage so long, sending at milliseconds; the batches that came, as moments."""
    sink, source = trio.open_memory_channel[EnqueueBatch](CHANNEL_COUNT)
    rig.service.store.on_arrival(lambda _: rig.state.arrived.set())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.get.run, sink)
        await wait_all_tasks_blocked()
        begin_ms = rig.clock.now_ms()
        for at_ms, message in sends.items():
            await trio.sleep((begin_ms + at_ms - rig.clock.now_ms()) / 1000)
            rig.send(message)
        await trio.sleep(seconds)
        rig.state.stop()
    return [batch.deliver_ms.tolist() async for batch in source]


async def test_a_batch_grows_while_nothing_in_it_is_due_soon(autojump_clock: MockClock) -> None:
    """What comes within the linger is of one batch; what comes behind it of the next."""
    rig = StagesByHand(VirtualClock(), attrs.evolve(TINY, enqueue_linger_ms=20))
    moments = [SLOT_MS + n for n in range(3)]
    sends = {at_ms: timed(f"m{n}", moments[n]) for n, at_ms in enumerate((0, 15, 40))}

    assert await run_for(rig, 1.0, sends) == [moments[:2], moments[2:]]


async def test_what_is_due_soon_is_read_at_once(autojump_clock: MockClock) -> None:
    """Neither it nor what was waiting for company is kept."""
    rig = StagesByHand(VirtualClock(), attrs.evolve(TINY, enqueue_linger_ms=20))
    soon_ms = START_MS + 5 + URGENT_MS - 1
    sends = {0: timed("far", SLOT_MS + 1), 5: timed("near", soon_ms), 10: timed("more", SLOT_MS)}

    assert await run_for(rig, 1.0, sends) == [[SLOT_MS + 1, soon_ms], [SLOT_MS]]


async def test_a_stop_closes_the_channel_behind_what_was_sent(autojump_clock: MockClock) -> None:
    """``run_for`` reads until the end of the channel: a stage that kept it open would hang here."""
    rig = StagesByHand(VirtualClock())
    with trio.fail_after(60):
        assert await run_for(rig, 1.0, {0: timed("a", SLOT_MS + 1)}) == [[SLOT_MS + 1]]
        rig.send(timed("late", SLOT_MS + 2))
        assert await run_for(rig, 1.0, {}) == []
