"""What was cancelled is left out of the quarantine: by a delete that names it, or by its kin."""

from __future__ import annotations

import attrs
import pytest

from fakes import ManualClock
from simulation.staged_service import delete_of, timed
from timermq.pipeline.quarantine.cancelled import is_cancelled, is_named
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.delete_message import delete_message
from timermq.pipeline.records.timer_record import decode_timer
from timermq.pipeline.records.undeliverable import Reason, TimerRecordError, Undeliverable
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand

PRECISION_MS = TINY.timer_precision_ms


def rig_with(*bodies: str) -> tuple[StagesByHand, list[Undeliverable]]:
    """Messages that wait for one slot, each as what the store refuses."""
    rig = StagesByHand(ManualClock())
    rig.link(*[timed(body, SLOT_MS + 1) for body in bodies])
    faults: list[Undeliverable] = []
    for offset_py in rig.places():
        found = rig.store.commit_log.check_at(offset_py, check_crc=True)
        assert found is not None
        record = rig.store.commit_log.record_at(offset_py, found.size)
        error = TimerRecordError(Reason.REFUSED, "refused")
        faults.append(Undeliverable.of(error, offset_py, found.size, record))
    return rig, faults


def damaged(fault: Undeliverable) -> Undeliverable:
    """The same message, of whose record nothing can be read."""
    return attrs.evolve(fault, record=b"", reason=Reason.DAMAGED)


def is_over(rig: StagesByHand, fault: Undeliverable) -> bool:
    """Whether a message is to be left out."""
    return is_cancelled(rig.store, fault, PRECISION_MS)


@pytest.mark.parametrize("moves", [False, True])
def test_a_cancel_or_a_move_is_found_by_the_key(*, moves: bool) -> None:
    """Of the message that it names, and of no other one."""
    rig, (first, second) = rig_with("a", "b")
    assert not is_over(rig, first)
    if moves:
        rig.service.cancellation.reschedule(Wanted("T", "a"), SLOT_MS + 1_500)
    else:
        rig.service.cancellation.cancel(Wanted("T", "a"))

    assert (is_over(rig, first), is_over(rig, second)) == (True, False)


@pytest.mark.parametrize("deliver_ms", [SLOT_MS + 1, SLOT_MS + 1_001])
def test_a_delete_of_the_producer_counts_in_its_slot(deliver_ms: int) -> None:
    """In another slot it would meet nothing."""
    rig, (fault,) = rig_with("a")
    rig.send(delete_of("a", deliver_ms))

    assert is_over(rig, fault) is (deliver_ms == SLOT_MS + 1)


def test_a_torn_move_cancels_nothing() -> None:
    """Its delete has no message behind it: nothing has happened."""
    rig, (fault,) = rig_with("a")
    facts = decode_timer(fault.record, fault.offset_py, PRECISION_MS)
    delete = delete_message(
        facts, b"a", fault.offset_py, born_ms=5, makes_way_in_ms=SLOT_MS + 1_000
    )
    assert rig.store.put([delete])[0].status.is_stored

    assert not is_over(rig, fault)
    assert not is_over(rig, damaged(fault))


def test_a_damaged_record_is_known_by_its_kin() -> None:
    """The index has its unique key, though the record itself has nothing left."""
    rig, (first, second) = rig_with("a", "b")
    rig.service.cancellation.cancel(Wanted("T", "a"))

    assert is_over(rig, damaged(first))
    assert not is_over(rig, damaged(second))


def test_the_kin_of_a_sound_record_is_not_asked() -> None:
    """Without a key of its own no delete can have named it."""
    rig, (fault,) = rig_with("a")
    rig.service.cancellation.cancel(Wanted("T", "a"))

    assert not is_over(rig, attrs.evolve(fault, record=b""))


def test_a_key_that_may_be_damaged_counts_only_for_its_own_record() -> None:
    """The index must have the record by that key: it may be the key of another message."""
    rig, (fault,) = rig_with("a")
    rig.service.cancellation.cancel(Wanted("T", "a"))
    place, size = fault.offset_py, fault.size_py
    other, (theirs,) = rig_with("b")
    other.send(delete_of("a", SLOT_MS + 1))

    assert is_named(rig.store, fault.record, place, size, is_sound=False)
    assert is_named(other.store, fault.record, place, size, is_sound=True)
    assert not is_named(other.store, fault.record, place, size, is_sound=False)
    assert theirs.offset_py == place


def test_a_delete_is_quarantined_whatever_its_target() -> None:
    """That another delete has the same key says nothing about it."""
    rig, (fault,) = rig_with("a")
    rig.service.cancellation.cancel(Wanted("T", "a"))

    assert not is_over(rig, attrs.evolve(damaged(fault), is_delete=True))
