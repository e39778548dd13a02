"""What an operator does with an entry: retried or dropped once, and the answer stays the same."""

from __future__ import annotations

from fakes import START_MS, ManualClock
from simulation.staged_service import arrivals, delete_of, timed
from timermq.pipeline.quarantine.quarantine_record import State
from timermq.pipeline.quarantine.quarantine_release import Verdict
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.records.undeliverable import Reason, TimerRecordError, Undeliverable
from unit.pipeline.stages_by_hand import SLOT_MS, StagesByHand

DUE_MS = SLOT_MS + 1
BEFORE = "before; nothing was done now"


def quarantined(clock: ManualClock, *, is_gone: bool = False) -> tuple[StagesByHand, int]:
    """A service with one message in quarantine, whose moment is to come; and the entry."""
    rig = StagesByHand(clock)
    rig.link(timed("a", DUE_MS))
    (offset_py,) = rig.places()
    found = rig.store.commit_log.check_at(offset_py, check_crc=True)
    assert found is not None
    record = None if is_gone else rig.store.commit_log.record_at(offset_py, found.size)
    reason = Reason.GONE if is_gone else Reason.REFUSED
    error = TimerRecordError(reason, "refused")
    fault = Undeliverable.of(error, offset_py, found.size, record)
    assert rig.service.quarantine.add([fault], START_MS) is None
    return rig, offset_py


def entry_count(rig: StagesByHand) -> int:
    """Records of the timer topic."""
    queue = rig.store.queue(TIMER_TOPIC, 0)
    return 0 if queue is None else queue.max_offset


def test_a_retry_before_the_moment_waits_for_it() -> None:
    """The message goes by the wheel, with its moment; the entry is over."""
    rig, entry = quarantined(ManualClock())
    released = rig.service.release.retry(entry, by="operator")

    assert (released.verdict, released.deliver_ms) == (Verdict.RETRIED, DUE_MS)
    assert released.end == rig.store.commit_log.max_offset
    assert (entry_count(rig), arrivals(rig.store)) == (2, [])
    assert rig.service.quarantine.active == 0


def test_a_retry_behind_the_moment_arrives_at_once() -> None:
    """It waits no more, so no moment is told."""
    clock = ManualClock()
    rig, entry = quarantined(clock)
    clock.time_ms = DUE_MS
    released = rig.service.release.retry(entry, by="operator")

    assert (released.verdict, released.deliver_ms) == (Verdict.RETRIED, None)
    assert [one.body for one in arrivals(rig.store)] == ["a"]


def test_a_retry_may_name_another_destination() -> None:
    """The one that was asked for may be what is wrong."""
    clock = ManualClock()
    rig, entry = quarantined(clock)
    clock.time_ms = DUE_MS
    rig.service.release.retry(entry, by="operator", topic="U", queue_id=2)

    assert [(one.topic, one.queue_id) for one in arrivals(rig.store, "U")] == [("U", 2)]
    assert arrivals(rig.store) == []


def test_a_second_retry_makes_no_second_message() -> None:
    """It is told what became of the entry, and so is a drop that comes too late."""
    rig, entry = quarantined(ManualClock())
    release = rig.service.release
    release.retry(entry, by="operator")
    end = rig.store.commit_log.max_offset
    for released in (release.retry(entry, by="another"), release.drop(entry, by="another")):
        assert (released.verdict, released.text) == (Verdict.RETRIED, BEFORE)

    assert rig.store.commit_log.max_offset == end


def test_a_dropped_message_never_arrives() -> None:
    """A retry behind it stores nothing."""
    rig, entry = quarantined(ManualClock())
    dropped = rig.service.release.drop(entry, by="operator")
    retried = rig.service.release.retry(entry, by="operator")

    assert (dropped.verdict, dropped.text) == (Verdict.DROPPED, "")
    assert (retried.verdict, retried.text) == (Verdict.DROPPED, BEFORE)
    assert entry_count(rig) == 1


def test_a_message_that_its_producer_has_cancelled_is_not_retried() -> None:
    """A delete that the producer sent meets nothing in the slot, so the retry looks for it."""
    rig, entry = quarantined(ManualClock())
    rig.send(delete_of("a", DUE_MS))
    released = rig.service.release.retry(entry, by="operator")

    assert released.verdict is Verdict.CANCELLED
    assert rig.service.quarantine.state(entry) is State.CANCELLED
    assert entry_count(rig) == 2


def test_what_can_go_nowhere_is_kept() -> None:
    """The answer says why, and the entry stays."""
    rig, entry = quarantined(ManualClock(), is_gone=True)
    released = rig.service.release.retry(entry, by="operator")

    assert released.verdict is Verdict.KEPT
    assert "found none" in released.text
    assert rig.service.quarantine.state(entry) is State.ACTIVE


def test_a_full_disk_keeps_the_entry() -> None:
    """Neither a retry nor a drop is done in part; both can be asked for later."""
    rig, entry = quarantined(ManualClock())
    release = rig.service.release
    rig.fill_disk()
    for released in (release.retry(entry, by="operator"), release.drop(entry, by="operator")):
        assert released.verdict is Verdict.KEPT
        assert "no space left" in released.text
    rig.free_disk()

    assert release.drop(entry, by="operator").verdict is Verdict.DROPPED


def test_what_never_was_in_quarantine_is_not_found() -> None:
    """Whatever is asked; nothing is said about an end before."""
    rig, entry = quarantined(ManualClock())
    release = rig.service.release
    for released in (release.retry(entry + 1, by="o"), release.drop(entry + 1, by="o")):
        assert (released.verdict, released.text) == (Verdict.NOT_FOUND, "")
