"""What cleaning must leave in the commit log: for this run, and for a recovery that comes."""

from __future__ import annotations

import trio

from fakes import ManualClock
from simulation.staged_service import delete_of, timed
from timermq.pipeline.recovery.needed_records import needed_from
from unit.pipeline.stages_by_hand import SLOT_MS, StagesByHand

DUE_MS = SLOT_MS + 1


def needed(rig: StagesByHand) -> int | None:
    """The oldest position that is needed."""
    return needed_from(rig.store, rig.service.files, rig.state)


def entry_py(rig: StagesByHand, entry: int) -> int:
    """Where the record of an entry of the timer topic stands."""
    queue = rig.store.queue("rmq_sys_wheel_timer", 0)
    assert queue is not None
    return int(queue.units(entry, 1)[0]["phy_offset"])


def checkpointed(rig: StagesByHand) -> None:
    """Let a checkpoint be durable that needs nothing before the end of the log."""
    rig.state.scan_py = rig.store.commit_log.max_offset
    trio.run(rig.flush)


def test_an_empty_store_needs_nothing() -> None:
    """There is no timer, so no record is needed."""
    assert needed(StagesByHand(ManualClock())) is None


def test_without_a_checkpoint_every_unit_is_needed() -> None:
    """Also one in a slot that is read: a recovery would link it, and ask the log about it."""
    rig = StagesByHand(ManualClock())
    rig.store.put([timed("first in the log", DUE_MS)])
    rig.link(timed("a", DUE_MS))
    (place,) = rig.places()
    rig.state.read_ms = SLOT_MS + 1_000

    assert place > 0
    assert needed(rig) == place


def test_an_entry_without_a_unit_is_needed() -> None:
    """It is still to be read from the timer topic, by this run or by the next one."""
    rig = StagesByHand(ManualClock())
    rig.store.put([timed("first in the log", DUE_MS)])
    rig.send(timed("a", DUE_MS))

    assert needed(rig) == entry_py(rig, 0) > 0


def test_a_message_that_waits_is_needed() -> None:
    """Behind a checkpoint as before it; one of a slot that is read is needed no more."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", DUE_MS), timed("b", DUE_MS + 1_000))
    _, second_py = rig.places()
    checkpointed(rig)
    assert needed(rig) == 0

    rig.state.read_ms = SLOT_MS + 1_000
    assert needed(rig) == second_py


def test_a_delete_is_needed_until_the_checkpoint_is_past_its_slot() -> None:
    """A recovery reads the slot again: its messages are known as done, its deletes are not."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", DUE_MS), delete_of("a", DUE_MS))
    _, delete_py = rig.places()
    checkpointed(rig)
    rig.state.read_ms = SLOT_MS + 1_000

    assert needed(rig) == delete_py


def test_a_message_under_way_is_needed() -> None:
    """Its slot is read, and it has not reached its topic."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", DUE_MS), timed("b", DUE_MS))
    _, second_py = rig.places()
    checkpointed(rig)
    rig.state.read_ms = SLOT_MS + 1_000
    rig.state.under_way.append(second_py)

    assert needed(rig) == second_py


def test_a_recovery_reads_from_where_the_checkpoint_says() -> None:
    """What was delivered is told by the records from there on."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", DUE_MS))
    end = rig.store.commit_log.max_offset
    checkpointed(rig)
    rig.state.read_ms = SLOT_MS + 1_000

    assert needed(rig) == end
