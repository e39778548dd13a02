"""What a follower shows as pending: not what its log shows as delivered, whatever slots say."""

from __future__ import annotations

import attrs
import pytest

from fakes import ManualClock
from simulation.staged_service import timed
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.recovery import read_ahead
from timermq.pipeline.recovery.read_ahead import ReadAhead
from timermq.pipeline.recovery.shown_slots import LOOK_MS, ShownSlots
from timermq.timerstore.message import Message
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand

WIDE = attrs.evolve(TINY, timer_roll_window_slot=30, slots_total=30)
DUE_MS = SLOT_MS + 60_000


def linked(*moments: int) -> tuple[StagesByHand, list[int]]:
    """A service with messages for moments behind the first slot, and where their records stand."""
    rig = StagesByHand(ManualClock(), WIDE)
    places: list[int] = []
    for number, moment in enumerate(moments):
        places.append(rig.store.commit_log.max_offset)
        rig.link(timed(f"m{number}", SLOT_MS + moment))
    return rig, places


def put(rig: StagesByHand, topic: str, origin: int) -> None:
    """Store a record that names another one as its origin, as a master's comes."""
    key = b"UNIQ_KEY\x01m0\x02"
    message = Message(topic, 0, b"m", key, prepared_offset=origin_of(origin))
    assert rig.store.put([message])[0].status.is_stored


def slots_of(rig: StagesByHand) -> ShownSlots:
    """What shows the slots of a service."""
    files = rig.service.files
    return ShownSlots(files.timer_log, ReadAhead(rig.store, files))


def counts(rig: StagesByHand, shown: ShownSlots, now_ms: int) -> list[int]:
    """The numbers of messages in the slots that are shown."""
    live = rig.service.files.wheel.live(rig.state.read_ms)
    return [int(one) for one in shown.shown(live, now_ms)["num"]]


def test_what_was_delivered_is_not_shown() -> None:
    """The rest of its slot is, and slots that are not due are as they are."""
    rig, places = linked(1, 2, 5_001, 20_000)
    shown = slots_of(rig)
    assert counts(rig, shown, SLOT_MS) == [2, 1, 1]
    put(rig, "T", places[0])
    put(rig, "T", places[2])
    put(rig, "T", places[3])

    assert counts(rig, shown, SLOT_MS + 10_000) == [1, 1]
    assert counts(rig, shown, DUE_MS) == [1]
    assert rig.state.read_ms < SLOT_MS + 2_000


def test_what_is_cancelled_counts_with_its_delete() -> None:
    """A delete in the log takes its message from the slot's number already."""
    rig, places = linked(1, 2)
    put(rig, TIMER_TOPIC, places[0])

    assert counts(rig, slots_of(rig), DUE_MS) == [2]


def test_slots_are_looked_at_once_a_second() -> None:
    """A question in between is answered with what was found then."""
    rig, places = linked(1)
    shown = slots_of(rig)
    assert counts(rig, shown, DUE_MS) == [1]
    put(rig, "T", places[0])

    assert counts(rig, shown, DUE_MS + LOOK_MS - 1) == [1]
    assert counts(rig, shown, DUE_MS + LOOK_MS) == []


def test_a_log_that_is_not_read_yet_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that copies a lot is not kept from it."""
    rig, places = linked(1)
    put(rig, "T", places[0])
    monkeypatch.setattr(read_ahead, "LEFT_SIZE_MAX", 0)

    assert counts(rig, slots_of(rig), DUE_MS) == [1]
