"""Where recovery cuts the timer log: at the first unit that cannot be relied on, or nowhere."""

from __future__ import annotations

import pytest

from fakes import ManualClock
from simulation.staged_service import timed
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.delete_message import delete_message
from timermq.pipeline.records.timer_record import decode_timer
from timermq.pipeline.recovery.timer_log_repair import (
    cut_bodiless,
    cut_false,
    cut_headless,
    cut_torn_move,
)
from timermq.timerlog import TimerLog
from timermq.timerlog.unit import UNIT
from unit.pipeline.stages_by_hand import SLOT_MS, StagesByHand

DUE_MS = SLOT_MS + 1


def linked(*bodies: str) -> tuple[StagesByHand, TimerLog]:
    """A service with messages of one slot, and its timer log."""
    rig = StagesByHand(ManualClock())
    rig.link(*[timed(body, DUE_MS) for body in bodies])
    return rig, rig.service.files.timer_log


def units(log: TimerLog) -> int:
    """How many units the log holds."""
    return sum(len(units) for _, units in log.scan(0))


def test_units_whose_records_are_gone_are_cut_off() -> None:
    """A crash has taken the end of the commit log; without it nothing is cut."""
    rig, log = linked("a", "b", "c")
    cut_bodiless(log, rig.store.commit_log, 0)
    assert units(log) == 3

    rig.store.commit_log.set_end(rig.places()[1])
    cut_bodiless(log, rig.store.commit_log, 0)
    assert units(log) == 1


@pytest.mark.parametrize("read_ms", [SLOT_MS, SLOT_MS + 1_000])
def test_a_unit_of_a_slot_that_is_read_is_false(read_ms: int) -> None:
    """Nothing is linked there, so its message would count as delivered."""
    rig, log = linked("a", "b")
    cut_false(log, rig.store.commit_log, 0, read_ms)

    assert units(log) == (2 if read_ms == SLOT_MS else 0)


def test_a_unit_that_names_no_record_is_false() -> None:
    """All behind it is enqueued again."""
    rig, log = linked("a", "b", "c")
    rig.store.commit_log.set_end(rig.places()[1])
    rig.store.commit_log.zero_tail()
    cut_false(log, rig.store.commit_log, 0, 0)

    assert units(log) == 1


def test_a_log_that_has_lost_its_beginning_is_cut_whole() -> None:
    """A slot that is still to be read begins with a unit that is not there."""
    rig, log = linked("a", "b")
    live = rig.service.files.wheel.live(0)
    cut_headless(log, live)
    assert units(log) == 2

    live = live.copy()
    live["first_pos"] = log.min_pos - UNIT.size
    cut_headless(log, live)
    assert units(log) == 0


@pytest.mark.parametrize("is_torn", [False, True])
def test_the_unit_of_a_torn_move_is_cut_off(*, is_torn: bool) -> None:
    """It would take effect; a whole move, and the message before it, keep their units."""
    rig, log = linked("a")
    if is_torn:
        record = rig.store.commit_log.read(0, rig.store.commit_log.max_offset)
        facts = decode_timer(record, 0, 1_000)
        delete = delete_message(facts, b"a", 0, born_ms=5, makes_way_in_ms=SLOT_MS + 1_000)
        assert rig.store.put([delete])[0].status.is_stored
    else:
        rig.service.cancellation.reschedule(Wanted("T", "a"), DUE_MS + 1_000)
    rig.link()
    cut_torn_move(log, rig.store, 0)

    assert units(log) == (1 if is_torn else 4)
