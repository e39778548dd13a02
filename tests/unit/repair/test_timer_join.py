"""Pending messages against units, deliveries and deletes: what is lost, doubled, or misplaced."""

from __future__ import annotations

import attrs
import pytest
import trio

from fakes import ManualClock
from small_store import open_store
from timermq.pipeline.recovery.timer_engine import TimerEngines
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.finding import Finding, Step
from timermq.repair.spool import Spool
from timermq.repair.store_rule import Severity, StoreRule
from timermq.repair.timer_join import UNIT_COLUMNS, TimerJoin
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, TimerCheckpoint
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.message import Message
from unit.repair.small_checks import checked
from unit.repair.timer_records import OUT_MS, delete, delivery, rocketmq_delivery, waiting

READ = TimerCheckpoint(last_read_time_ms=OUT_MS - 5_000, last_timer_queue_offset=1 << 40)
"""Everything is enqueued, and no slot of these messages is read."""

NO_ENGINES = TimerEngines(snapshots=(), has_timeline=False, is_5_4=False)
"""A store that RocketMQ 5.4 has not opened."""


@attrs.frozen(kw_only=True)
class Unit:
    """A unit of the timer log, by the number of its record."""

    of: int
    slot_ms: int = OUT_MS
    magic: int = MAGIC_DEFAULT
    reserved: int = 1
    topic: str = "T"
    size: int | None = None
    offset_py: int | None = None


class Case:
    """A log of messages, and the units that are said to be of them."""

    def __init__(self, *messages: Message) -> None:
        self.disk = MemoryDisk()
        store = open_store(self.disk, ManualClock())
        self.places = [
            (result.phy_offset, result.size)
            for message in messages
            for result in store.put([message])
        ]
        trio.run(store.aclose)
        self.start = 0

    def find(self, *units: Unit, checkpoint: TimerCheckpoint = READ) -> list[Finding]:
        """What is wrong with the messages and units together."""
        log = checked(self.disk).open_log(())
        list(log.run())
        log.start = self.start
        spool = Spool(len(UNIT_COLUMNS))
        for number, unit in enumerate(units):
            offset_py, size = self.places[unit.of]
            offset_py = offset_py if unit.offset_py is None else unit.offset_py
            row = (
                52 * number,
                offset_py,
                size if unit.size is None else unit.size,
                unit.slot_ms,
                unit.magic,
                unit.reserved,
                java_hash(unit.topic),
            )
            spool.add(offset_py // log.row.segment_size, row)
        options = TimerOptions(slots_total=10)
        found = list(TimerJoin(log, spool, checkpoint, NO_ENGINES, options).find())
        spool.close()
        log.close()
        return found


def told(found: list[Finding]) -> list[tuple[StoreRule, Step, int]]:
    """Rule, step and count of findings."""
    return [(one.rule, one.step, one.count) for one in found]


def positions(case: Case) -> list[int]:
    """Positions of the messages of a case."""
    return [place for place, _ in case.places]


def test_a_message_with_its_unit_waits() -> None:
    """In its own slot, or late in an earlier one if it rolls, in a later one if it came late."""
    for unit in (
        Unit(of=0),
        Unit(of=0, magic=MAGIC_DEFAULT | MAGIC_ROLL, slot_ms=OUT_MS - 4_000),
        Unit(of=0, reserved=0, slot_ms=OUT_MS + 2_000),
    ):
        assert Case(waiting("a")).find(unit) == []


@pytest.mark.parametrize(
    "unit",
    [
        Unit(of=0, size=7),
        Unit(of=0, offset_py=5),
        Unit(of=0, slot_ms=OUT_MS + 1_000),
        Unit(of=0, reserved=0, slot_ms=OUT_MS - 1_000),
        Unit(of=0, reserved=0, slot_ms=OUT_MS + 1),
        Unit(of=0, magic=MAGIC_DEFAULT | MAGIC_DELETE),
        Unit(of=0, reserved=1 | 9_999 << 11),
    ],
)
def test_a_unit_that_does_not_fit_its_record_is_cut(unit: Unit) -> None:
    """The message is enqueued once more then: another size, place, slot, kind or order."""
    found = Case(waiting("a")).find(Unit(of=0), unit)

    assert (StoreRule.UNIT_DIFFERS, Step.CUT_TIMER_LOG, 1) in told(found)
    assert found[0].subject == 52


def test_a_unit_of_another_topic_is_told_and_left() -> None:
    """The message goes where its record says; which of the two is damaged is not known."""
    (found,) = Case(waiting("a")).find(Unit(of=0, topic="U"))

    assert told([found]) == [(StoreRule.UNIT_TOPIC, Step.NOTHING, 1)]


@pytest.mark.parametrize(
    ("slot_ms", "magic", "is_lost"),
    [(OUT_MS, MAGIC_DEFAULT, True), (OUT_MS, MAGIC_DELETE, False), (0, MAGIC_DEFAULT, False)],
)
def test_a_unit_of_a_cleaned_record_is_a_lost_message(
    slot_ms: int, magic: int, *, is_lost: bool
) -> None:
    """While its slot is still to be read: a delete harms nothing, and what is read is done."""
    case = Case(waiting("a"), waiting("b"))
    case.start = 1 << 30
    found = case.find(Unit(of=0, slot_ms=slot_ms, magic=magic, offset_py=5))

    assert [one.rule for one in found if one.rule is StoreRule.CLEANED] == (
        [StoreRule.CLEANED] if is_lost else []
    )


@pytest.mark.parametrize(
    "behind",
    [
        [delivery("a", 0)],
        [rocketmq_delivery("a")],
        [delete("a")],
        [delete("a", order_py=0)],
    ],
)
def test_a_message_without_a_unit_is_explained_by_its_end(behind: list[Message]) -> None:
    """It was delivered by us or by RocketMQ, or cancelled by either."""
    assert told(Case(waiting("a"), *behind).find(*units_of_deletes(behind))) == []


def units_of_deletes(behind: list[Message]) -> list[Unit]:
    """Units of the deletes that stand behind the first message."""
    return [
        Unit(of=number, magic=MAGIC_DEFAULT | MAGIC_DELETE)
        for number, message in enumerate(behind, 1)
        if b"TIMER_DEL" in message.properties
    ]


def test_a_message_that_nothing_explains_is_enqueued_again() -> None:
    """From the slot of its unit on, where it has one that was read already."""
    (without,) = Case(waiting("a"), waiting("b")).find(Unit(of=1))
    (read,) = Case(waiting("a")).find(Unit(of=0, slot_ms=OUT_MS), checkpoint=later())

    assert told([without]) == [(StoreRule.LOST, Step.ENQUEUE_AGAIN, 1)]
    assert (without.subject, read.subject) == (None, OUT_MS)


def later() -> TimerCheckpoint:
    """A checkpoint by which the slot of the messages is read."""
    return attrs.evolve(READ, last_read_time_ms=OUT_MS + 1_000)


@pytest.mark.parametrize(
    "checkpoint",
    [TimerCheckpoint(), attrs.evolve(READ, last_timer_queue_offset=0)],
)
def test_what_the_checkpoint_does_not_count_as_enqueued_is_not_lost(
    checkpoint: TimerCheckpoint,
) -> None:
    """The next start enqueues it; without a checkpoint it looks at everything."""
    assert Case(waiting("a")).find(checkpoint=checkpoint) == []


def test_one_delivery_of_rocketmq_explains_one_message() -> None:
    """Two of the same keys need two."""
    pair = [waiting("a"), waiting("a")]

    assert [one.rule for one in Case(*pair, rocketmq_delivery("a")).find()] == [StoreRule.LOST]
    assert Case(*pair, rocketmq_delivery("a"), rocketmq_delivery("a")).find() == []


def test_two_records_that_deliver_one_origin_are_one_too_many() -> None:
    """The second one is told; nothing can take it out of its topic."""
    case = Case(waiting("a"), delivery("a", 0), delivery("a", 0))
    (found,) = case.find()

    assert told([found]) == [(StoreRule.TWICE, Step.NOTHING, 1)]
    assert found.found == f"2, at {', '.join(map(str, positions(case)[1:]))}"


def test_a_moved_message_whose_delete_is_lost_waits_twice() -> None:
    """Its old unit is cut; with a delete that names it nothing is wrong."""
    messages = [waiting("a"), waiting("a", origin_py=0, out_ms=OUT_MS + 4_000)]
    units = [Unit(of=0), Unit(of=1, slot_ms=OUT_MS + 4_000)]
    (found,) = Case(*messages).find(*units)
    assert told([found]) == [(StoreRule.MOVED_PENDING, Step.CUT_TIMER_LOG, 1)]

    cancelled = Case(*messages, delete("a", order_py=0))
    assert cancelled.find(*units, Unit(of=2, magic=MAGIC_DEFAULT | MAGIC_DELETE)) == []


def test_a_rolled_message_whose_beginning_is_cleaned_is_worth_knowing() -> None:
    """A delete that was cleaned with it may have cancelled it: it is not enqueued again."""
    case = Case(waiting("z"), waiting("a", rolls=1, order_py=0))
    case.start = 1
    found = case.find(Unit(of=0))
    (note,) = [one for one in found if one.rule is StoreRule.LOST]

    assert (note.severity, note.step) == (Severity.NOTE, Step.NOTHING)
    assert note.count == 1
