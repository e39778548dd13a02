"""A delete that makes way counts only with its message behind it in the queue."""

from __future__ import annotations

import pytest

from fakes import ManualClock
from simulation.staged_service import delete_of, timed
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.delete_message import delete_message
from timermq.pipeline.records.timer_properties import DELETE_FOR, ROLL_TIMES
from timermq.pipeline.records.timer_record import TIMER_TOPIC, decode_timer
from timermq.pipeline.records.torn_move import is_torn_move, makes_way_for
from timermq.timerstore.message import Message
from unit.pipeline.stages_by_hand import SLOT_MS, StagesByHand

NEW_MS = SLOT_MS + 1_500


def waiting() -> StagesByHand:
    """A service with one message."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", SLOT_MS + 1))
    return rig


def record_of(rig: StagesByHand, entry: int) -> bytes:
    """The record of an entry of the timer topic."""
    queue = rig.store.queue(TIMER_TOPIC, 0)
    assert queue is not None
    ((phy_offset, size, _),) = queue.units(entry, 1).tolist()
    return rig.store.commit_log.record_at(phy_offset, size) or b""


def put_move(rig: StagesByHand, *behind: Message) -> bytes:
    """Store the delete of a move, and what stands behind it; returns the record of the delete."""
    facts = decode_timer(record_of(rig, 0), 0, 1_000)
    delete = delete_message(facts, b"a", 0, born_ms=5, makes_way_in_ms=SLOT_MS + 1_000)
    assert all(one.status.is_stored for one in rig.store.put([delete, *behind]))
    return record_of(rig, 1)


def test_a_whole_move_is_not_torn() -> None:
    """The message stands behind its delete: both count."""
    rig = waiting()
    moved = rig.service.cancellation.reschedule(Wanted("T", "a"), NEW_MS)

    assert moved.verdict is Verdict.CANCELLED
    assert not is_torn_move(rig.store, record_of(rig, 1))


def test_a_delete_at_the_end_of_the_queue_is_torn() -> None:
    """A power cut took its message: the old one arrives."""
    rig = waiting()

    assert is_torn_move(rig.store, put_move(rig))


def test_another_message_does_not_take_the_place() -> None:
    """It was sent behind the power cut, and names no origin."""
    rig = waiting()
    delete = put_move(rig)
    rig.send(timed("b", NEW_MS))

    assert is_torn_move(rig.store, delete)


@pytest.mark.parametrize("kind", ["message", "delete by key", "cancel"])
def test_what_makes_no_way_is_never_torn(kind: str) -> None:
    """It needs nothing behind it."""
    rig = waiting()
    if kind == "delete by key":
        rig.send(delete_of("a", SLOT_MS + 1))
    elif kind == "cancel":
        rig.service.cancellation.cancel(Wanted("T", "a"))

    assert not is_torn_move(rig.store, record_of(rig, 0 if kind == "message" else 1))


def test_a_delete_that_rolled_stands_alone() -> None:
    """It was whole when it was enqueued the first time; its message has another place."""
    makes_way = DELETE_FOR + b"7\x02"

    assert makes_way_for(makes_way) == 7
    assert makes_way_for(makes_way + ROLL_TIMES + b"1\x02") is None
    assert makes_way_for(b"") is None


def test_what_is_no_record_is_not_torn() -> None:
    """Damage is for the quarantine to tell, not for a move."""
    assert not is_torn_move(waiting().store, bytes(40))
