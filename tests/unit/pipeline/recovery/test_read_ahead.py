"""A follower has read its copied log when it is asked what was delivered, or says it has not."""

from __future__ import annotations

import pytest

from fakes import START_MS, ManualClock
from simulation.staged_service import timed
from timermq.pipeline.recovery import read_ahead
from timermq.pipeline.recovery.read_ahead import ReadAhead
from unit.pipeline.stages_by_hand import StagesByHand


def test_it_reads_up_to_the_end_of_a_log_that_grows() -> None:
    """One reading goes on; a recovery takes it, and the next one begins from the start."""
    rig = StagesByHand(ManualClock())
    ahead = ReadAhead(rig.store, rig.service.files)
    rig.send(timed("m0", START_MS + 1_000))
    reading = ahead.caught_up()
    assert reading is not None
    assert reading.end == rig.store.commit_log.max_offset
    rig.send(timed("m1", START_MS + 1_000))
    assert ahead.caught_up() is reading
    assert reading.end == rig.store.commit_log.max_offset

    assert ahead.taken() is reading
    assert ahead.taken() is None
    assert ahead.caught_up() is not reading


def test_too_much_is_not_read_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks wait meanwhile; the reading of before goes on in its own turns."""
    rig = StagesByHand(ManualClock())
    ahead = ReadAhead(rig.store, rig.service.files)
    rig.send(timed("m0", START_MS + 1_000))
    monkeypatch.setattr(read_ahead, "LEFT_SIZE_MAX", rig.store.commit_log.max_offset // 2 - 1)
    assert ahead.caught_up() is None
    monkeypatch.undo()
    assert ahead.caught_up() is not None
