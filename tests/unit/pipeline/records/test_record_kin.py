"""What the kin of a record that cannot be read tell: whether it is cancelled, and what it says."""

from __future__ import annotations

import pytest

from fakes import ManualClock
from simulation.staged_service import ROOT, timed
from timermq.pipeline.records.cancel_mark import names_in_delete
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.delete_message import delete_message
from timermq.pipeline.records.record_kin import RecordKin
from timermq.pipeline.records.timer_properties import (
    DELETE_FOR_NAME,
    DELETE_NAME,
    DELETE_SECOND_NAME,
)
from timermq.pipeline.records.timer_record import decode_timer
from timermq.timerstore.properties import find
from timermq.timerstore.record import record_properties
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand

DUE_MS = SLOT_MS + 1
NEW_MS = SLOT_MS + 1_500


def waiting(*bodies: str) -> StagesByHand:
    """A service with messages of one slot."""
    rig = StagesByHand(ManualClock())
    rig.link(*[timed(body, DUE_MS) for body in bodies])
    return rig


def size_at(rig: StagesByHand, place: int) -> int:
    """Size of the record at a place."""
    found = rig.store.commit_log.check_at(place, check_crc=True)
    assert found is not None
    return found.size


def kin(rig: StagesByHand, place: int, more: int = 0) -> RecordKin:
    """The kin of the record at a place, which is not read itself; as if it were larger."""
    return RecordKin(rig.store, TINY.timer_precision_ms, place, size_at(rig, place) + more)


def test_a_message_is_cancelled_by_its_delete_alone() -> None:
    """A delete of another message says nothing of it."""
    rig = waiting("a", "b")
    rig.service.cancellation.cancel(Wanted("T", "a"))
    first_py, second_py = rig.places()

    assert kin(rig, first_py).is_cancelled(first_py)
    assert not kin(rig, second_py).is_cancelled(second_py)


def test_a_message_that_was_moved_is_cancelled_where_it_was() -> None:
    """The message with the new moment waits."""
    rig = waiting("a")
    rig.service.cancellation.reschedule(Wanted("T", "a"), NEW_MS)
    rig.link()
    first_py, _, moved_py, _ = rig.places()

    assert kin(rig, first_py).is_cancelled(first_py)
    assert not kin(rig, moved_py).is_cancelled(moved_py)


def test_the_moved_message_tells_without_its_delete() -> None:
    """It names the record whose place it takes, and the delete cannot be read."""
    rig = waiting("a")
    rig.service.cancellation.reschedule(Wanted("T", "a"), NEW_MS)
    rig.link()
    first_py, delete_py, _, _ = rig.places()
    assert kin(rig, first_py).is_cancelled(first_py)
    size = size_at(rig, delete_py)
    rig.disk.open(f"{ROOT}/commitlog/{0:020}").write(delete_py, bytes(size))

    assert kin(rig, first_py).is_cancelled(first_py)


def test_the_queue_tells_a_delete_by_its_tag() -> None:
    """The record itself need not be read."""
    rig = waiting("a")
    rig.service.cancellation.cancel(Wanted("T", "a"))
    rig.link()
    message_py, delete_py, _ = rig.places()

    assert (kin(rig, message_py).is_delete(), kin(rig, delete_py).is_delete()) == (False, True)
    assert not kin(rig, delete_py, more=1).is_delete()


def test_a_delete_is_made_again_for_the_one_message_that_it_can_mean() -> None:
    """With the names that the damaged one had; of another size it is not certain."""
    rig = waiting("a", "b")
    rig.service.cancellation.cancel(Wanted("T", "a"))
    rig.link()
    delete_py = rig.places()[2]
    record = rig.store.commit_log.read(delete_py, size_at(rig, delete_py))
    again = kin(rig, delete_py).delete_again(delete_py)

    assert again is not None
    assert names_in_delete(again) == names_in_delete(record)
    assert len(again) == len(record)
    assert kin(rig, delete_py, more=1).delete_again(delete_py) is None


def test_a_delete_that_can_mean_two_messages_is_not_made_again() -> None:
    """Nothing is guessed: both have the key, and neither has another delete."""
    rig = waiting("a", "a")
    first_py, _ = rig.places()
    record = rig.store.commit_log.read(first_py, size_at(rig, first_py))
    facts = decode_timer(record, first_py, TINY.timer_precision_ms)
    (result,) = rig.store.put([delete_message(facts, b"a", first_py, born_ms=5)])
    assert result.status.is_stored

    assert kin(rig, result.phy_offset).delete_again(result.phy_offset) is None


def test_a_delete_that_makes_way_is_told_by_the_message_behind_it() -> None:
    """That names the record whose place it takes."""
    rig = waiting("a")
    rig.service.cancellation.reschedule(Wanted("T", "a"), NEW_MS)
    rig.link()
    first_py, delete_py, _, _ = rig.places()
    record = rig.store.commit_log.read(delete_py, size_at(rig, delete_py))
    again = kin(rig, delete_py).delete_again(delete_py)

    assert again is not None
    for one in (again, record):
        assert find(record_properties(one), DELETE_FOR_NAME) == b"%d" % first_py


@pytest.mark.parametrize("how", ["cancelled", "moved"])
def test_a_second_delete_is_told_by_the_first(how: str) -> None:
    """Which stands before it, or before the message that was moved."""
    rig = waiting("other", "a")
    rig.service.cancellation.cancel(Wanted("T", "other"))
    if how == "moved":
        rig.service.cancellation.reschedule(Wanted("T", "a"), NEW_MS)
    else:
        rig.service.cancellation.cancel(Wanted("T", "a"))
    rig.link()
    second_py = rig.places()[-1]
    record = rig.store.commit_log.read(second_py, size_at(rig, second_py))
    again = kin(rig, second_py).delete_again(second_py)

    assert again is not None
    properties = record_properties(again)
    assert find(properties, DELETE_SECOND_NAME) is not None
    assert find(properties, DELETE_NAME) == b"a"
    assert names_in_delete(again) == names_in_delete(record)
