"""Stage 5: nothing before its moment, nothing twice, and the mark behind all of its slot."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import Arrival, arrivals, delete_of, timed
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.deduplication import AlreadyDone, origin_in
from timermq.pipeline.records.system_topics import CANCEL_MARK_TOPIC
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.stages.due_columns import COLUMNS_COUNT_MIN
from timermq.pipeline.stages.timer_request import DeliverBatch, ReadMark
from timermq.timerstore.message import Message
from timermq.timerstore.record_block import RecordBlock
from unit.pipeline.stages_by_hand import CHANNEL_COUNT, SLOT_MS, StagesByHand

END_MS = SLOT_MS + 1_000
"""The slot is over."""


class Rig:
    """A service that has stood still until a slot was over, and its last stage."""

    def __init__(self, *messages: Message, late_ms: int = 1_000) -> None:
        self.clock = VirtualClock()
        self.stages = StagesByHand(self.clock)
        self.state, self.counts = self.stages.state, self.stages.counts
        self.stages.link(*messages)
        self.clock.step(SLOT_MS + late_ms - START_MS)

    @contextlib.asynccontextmanager
    async def publishing(
        self, *batches: DeliverBatch | ReadMark
    ) -> AsyncGenerator[trio.MemorySendChannel[DeliverBatch | ReadMark]]:
        """Run the stage on batches, and on what the block sends, to the end."""
        sink, source = trio.open_memory_channel[DeliverBatch | ReadMark](CHANNEL_COUNT)
        with trio.fail_after(100_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.stages.publish.run, source)
                for batch in batches:
                    sink.send_nowait(batch)
                yield sink
                sink.close()

    def arrived(self, topic: str = "T") -> list[tuple[int, str]]:
        """What has come to a topic: milliseconds behind the start, bodies."""
        found: list[Arrival] = arrivals(self.stages.store, topic)
        return [(one.stored_ms - START_MS, one.body) for one in found]


BOTH_WAYS = pytest.mark.parametrize("count", [2, COLUMNS_COUNT_MIN])
"""Messages one by one, and as copies of their records."""


def crowd(count: int) -> list[Message]:
    """Messages that are due together."""
    return [timed(f"m{n}", SLOT_MS + 1) for n in range(count)]


@BOTH_WAYS
async def test_each_message_arrives_and_names_its_origin(
    autojump_clock: MockClock, count: int
) -> None:
    """One by one and as copies alike: by the origin a restart knows that it is done."""
    rig = Rig(*crowd(count))
    batch = rig.stages.due(SLOT_MS)
    async with rig.publishing(batch):
        pass
    log = rig.stages.store.commit_log
    records = [log.read(one.phy_offset, 300) for one in arrivals(rig.stages.store)]

    assert rig.arrived() == [(2_000, f"m{n}") for n in range(count)]
    assert [origin_in(one) for one in records] == batch.requests["offset_py"].tolist()
    assert (rig.counts.delivered, rig.counts.early, rig.counts.lateness_max_ms) == (
        count,
        0,
        999,
    )
    assert rig.stages.service.files.metrics.counts() == {"T": 0}


@BOTH_WAYS
async def test_nothing_is_written_before_its_moment(autojump_clock: MockClock, count: int) -> None:
    """Whatever the stages before believed: the clock was set back behind their backs."""
    rig = Rig(*crowd(count))
    batch = rig.stages.due(SLOT_MS)
    rig.clock.step(-1_500)
    async with rig.publishing(batch):
        await trio.sleep(0.5)
        assert rig.arrived() == []
        await trio.sleep(1)

    assert [at_ms for at_ms, _ in rig.arrived()] == [1_001] * count
    assert rig.counts.early == 0


@BOTH_WAYS
async def test_the_gate_goes_by_the_records_themselves(
    autojump_clock: MockClock, count: int
) -> None:
    """A unit that says too early a moment makes nothing early."""
    rig = Rig(*crowd(count))
    batch = rig.stages.due(SLOT_MS)
    batch.requests["deliver_ms"] = START_MS
    rig.clock.step(-1_500)
    async with rig.publishing(batch):
        pass

    assert [at_ms for at_ms, _ in rig.arrived()] == [1_001] * count


@BOTH_WAYS
async def test_a_clock_set_back_while_the_disk_is_full_makes_nothing_early(
    autojump_clock: MockClock, count: int
) -> None:
    """The gate is asked again before each try."""
    rig = Rig(*crowd(count))
    batch = rig.stages.due(SLOT_MS)
    rig.stages.fill_disk()
    async with rig.publishing(batch):
        await trio.sleep(0.1)
        rig.clock.step(-60_000)
        rig.stages.free_disk()

    assert len(rig.arrived()) == count
    assert rig.counts.early == 0


async def test_a_mark_moves_the_positions_behind_its_slot(autojump_clock: MockClock) -> None:
    """Delivered slots are committed; the log needs to be read again from its end only."""
    rig = Rig(*crowd(2))
    batch = rig.stages.due(SLOT_MS)
    async with rig.publishing(batch) as sink:
        await trio.sleep(0.1)
        assert (rig.state.commit_read_ms, list(rig.state.under_way)) == (START_MS, [])
        assert await rig.state.all_delivered.wait_at_most(1)
        sink.send_nowait(ReadMark(END_MS))
        await trio.sleep(0.1)

    assert (rig.state.commit_read_ms, rig.state.rolled_ms) == (END_MS, END_MS)
    assert rig.state.scan_py == rig.stages.store.commit_log.max_offset
    assert await rig.state.published.wait_at_most(1)
    assert await rig.state.slot_closed.wait_at_most(1)


async def test_a_mark_keeps_what_a_restart_must_read_again(autojump_clock: MockClock) -> None:
    """Deliveries of slots that are open, and all while the last run's still count."""
    rig = Rig(*crowd(1))
    async with rig.publishing(ReadMark(SLOT_MS, 100)):
        pass
    assert rig.state.scan_py == 100

    rig.state.already_done = AlreadyDone(cleaned_to=1, until_slot_ms=END_MS)
    async with rig.publishing(ReadMark(END_MS)):
        pass
    assert (rig.state.scan_py, rig.state.commit_read_ms) == (100, END_MS)


async def test_the_mark_of_what_steps_aside_waits_with_it(autojump_clock: MockClock) -> None:
    """The slots before it count as rolled at once, as committed when all of it is delivered."""
    rig = Rig(*crowd(2))
    batch = rig.stages.due(SLOT_MS)
    rig.clock.step(-1_500)
    async with rig.publishing(batch, ReadMark(END_MS)):
        await trio.sleep(0.1)
        assert (rig.state.rolled_ms, rig.state.commit_read_ms) == (END_MS, START_MS)
        assert rig.state.early_py == int(batch.requests["offset_py"][0])
        assert list(rig.state.under_way) == []
        await trio.sleep(1)

    assert rig.state.commit_read_ms == END_MS
    assert rig.state.early_py is None
    assert len(rig.arrived()) == 2


async def test_only_the_last_part_ends_a_batch(autojump_clock: MockClock) -> None:
    """Stage 3 makes no other one while a part is on its way."""
    rig = Rig(*crowd(2))
    batch = rig.stages.due(SLOT_MS)
    async with rig.publishing(attrs.evolve(batch, is_last=False)) as sink:
        await trio.sleep(0.1)
        assert len(rig.state.under_way) == 1
        sink.send_nowait(DeliverBatch(requests=batch.requests[:0], block=RecordBlock.of([])))
        await trio.sleep(0.1)

    assert list(rig.state.under_way) == []


async def test_a_roll_goes_back_to_the_timer_topic(autojump_clock: MockClock) -> None:
    """Before its moment, since only the wheel sees it; its topic's count stays."""
    rig = Rig(timed("far", START_MS + 20_000))
    ((rolls_ms, *_),) = rig.stages.service.live().tolist()
    rig.clock.step(int(rolls_ms) - rig.clock.now_ms())
    async with rig.publishing(rig.stages.due(int(rolls_ms))):
        pass
    rig.stages.link()

    assert rig.arrived() == []
    assert len(rig.arrived(TIMER_TOPIC)) == 2
    assert (rig.counts.rolled, rig.counts.delivered) == (1, 0)
    assert rig.stages.service.files.metrics.counts() == {"T": 1}
    assert rig.state.queue_offset == 2


@BOTH_WAYS
async def test_what_the_store_does_not_take_is_put_again(
    autojump_clock: MockClock, count: int
) -> None:
    """For ever, in order; what holds it up is told."""
    rig = Rig(*crowd(count))
    batch = rig.stages.due(SLOT_MS)
    rig.stages.fill_disk()
    async with rig.publishing(batch, ReadMark(END_MS)):
        await trio.sleep(60)
        assert rig.arrived() == []
        assert rig.counts.deliver_backoff.count == count
        assert rig.state.commit_read_ms == START_MS
        rig.stages.free_disk()

    assert [body for _, body in rig.arrived()] == [f"m{n}" for n in range(count)]
    assert rig.counts.deliver_backoff.count == 0
    assert rig.counts.retried >= 5 * count
    assert rig.state.commit_read_ms == END_MS


@BOTH_WAYS
async def test_a_cancel_at_the_last_gate_counts(autojump_clock: MockClock, count: int) -> None:
    """A message that waits for the store, its slot read long ago, is certainly cancelled."""
    rig = Rig(*crowd(count))
    batch = rig.stages.due(SLOT_MS)
    rig.clock.step(-1_500)
    async with rig.publishing(batch):
        await trio.sleep(0.1)
        verdict = rig.stages.service.cancellation.cancel(Wanted("T", "m1")).verdict
        await trio.sleep(2)

    assert verdict is Verdict.CANCELLED
    assert "m1" not in [body for _, body in rig.arrived()]
    assert len(rig.arrived()) == count - 1
    assert rig.counts.cancelled == 1
    assert rig.stages.service.files.metrics.counts() == {"T": 0}


async def test_what_was_left_out_gets_its_mark(autojump_clock: MockClock) -> None:
    """The record that a delete cancelled is done, whatever becomes of the delete."""
    rig = Rig(timed("a", SLOT_MS + 1), timed("b", SLOT_MS + 1), delete_of("a", SLOT_MS + 1))
    async with rig.publishing(rig.stages.due(SLOT_MS)):
        pass
    ((_, mark),) = [(one.body, one) for one in arrivals(rig.stages.store, CANCEL_MARK_TOPIC)]

    assert [body for _, body in rig.arrived()] == ["b"]
    assert mark.unique_id == "a"


async def test_a_message_that_cannot_be_delivered_is_quarantined_with_its_batch(
    autojump_clock: MockClock,
) -> None:
    """Its entry stands in the log before the mark of its slot is taken."""
    rig = Rig(*crowd(2))
    batch = rig.stages.open(SLOT_MS)
    lost = batch.requests.copy()
    lost["offset_py"][0] = 1 << 40
    rig.state.under_way.append(0)
    async with rig.publishing(rig.stages.bodies.read(lost, frozenset()), ReadMark(END_MS)):
        pass

    assert [body for _, body in rig.arrived()] == ["m1"]
    assert rig.stages.service.quarantine.active == 1
    assert rig.state.commit_read_ms == END_MS
