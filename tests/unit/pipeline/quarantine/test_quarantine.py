"""The quarantine: entries are made once, are ended once, and are read again by the next run."""

from __future__ import annotations

from fakes import START_MS, ManualClock
from simulation.staged_service import timed
from timermq.pipeline.quarantine.quarantine import HOUR_MS
from timermq.pipeline.quarantine.quarantine_record import State
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.undeliverable import Reason, TimerRecordError, Undeliverable
from timermq.pipeline.stages.timer_request import undeliverable
from unit.pipeline.stages_by_hand import FILES, SLOT_MS, StagesByHand

OLD_MS = FILES.file_reserved_time_hours * HOUR_MS // 2
"""An entry is written once more when it is older."""


def rig_with(count: int = 1) -> tuple[StagesByHand, list[Undeliverable]]:
    """Messages that wait, and each as what cannot be delivered."""
    clock = ManualClock()
    rig = StagesByHand(clock)
    rig.link(*[timed(f"m{n}", SLOT_MS + 1) for n in range(count)])
    clock.time_ms = SLOT_MS + 1
    requests = rig.open(SLOT_MS).requests
    clock.time_ms = START_MS
    faults: list[Undeliverable] = []
    for number, request in enumerate(requests):
        offset_py, size_py = int(request["offset_py"]), int(request["size_py"])
        record = rig.store.commit_log.record_at(offset_py, size_py)
        error = TimerRecordError(Reason.REFUSED, f"refused {number}")
        faults.append(undeliverable(error, request, record))
    return rig, faults


def test_a_quarantined_message_is_an_entry_and_pending_no_more() -> None:
    """It is counted, its topic has one less, and the list is empty then."""
    rig, faults = rig_with(2)
    places = [one.offset_py for one in faults]
    quarantine = rig.service.quarantine

    assert quarantine.add(faults, START_MS) is None
    assert faults == []
    assert (quarantine.active, rig.counts.set_aside) == (2, 2)
    assert rig.service.files.metrics.counts() == {"T": 0}
    assert [entry.origin_py for entry, _ in quarantine.entries()] == places
    assert quarantine.last is not None
    assert (quarantine.last.reason, quarantine.last.text) == ("refused", "refused 1")


def test_a_message_is_quarantined_once() -> None:
    """Neither while it is in quarantine nor after that."""
    rig, (fault,) = rig_with()
    quarantine = rig.service.quarantine
    quarantine.add([fault], START_MS)
    quarantine.add([fault], START_MS)
    assert (quarantine.active, rig.counts.set_aside) == (1, 1)

    quarantine.end(fault.offset_py, State.DROPPED, "operator")
    quarantine.add([fault], START_MS)
    assert (quarantine.active, rig.counts.set_aside) == (0, 1)
    assert quarantine.state(fault.offset_py) is State.DROPPED


def test_a_cancelled_message_is_not_quarantined() -> None:
    """A mark says that it was left out, and it counts as cancelled."""
    rig, (fault,) = rig_with()
    rig.service.cancellation.cancel(Wanted("T", "m0"))
    end = rig.store.commit_log.max_offset
    assert rig.service.quarantine.add([fault], START_MS) is None

    assert rig.service.quarantine.active == 0
    assert rig.counts.cancelled == 1
    assert rig.store.commit_log.max_offset > end


def test_a_full_disk_keeps_what_is_left_in_the_list() -> None:
    """What the store took is out of it; the reason is told."""
    rig, faults = rig_with(2)
    quarantine = rig.service.quarantine
    quarantine.add([faults[0]], START_MS)
    rig.fill_disk()
    refusal = quarantine.add(faults, START_MS)

    assert refusal is not None
    assert "no space left" in refusal
    assert [one.text for one in faults] == ["refused 1"]
    assert quarantine.active == 1


def test_the_next_run_knows_what_is_in_quarantine() -> None:
    """And what became of the rest: read of the log alone."""
    rig, faults = rig_with(3)
    first, second, third = (one.offset_py for one in faults)
    rig.service.quarantine.add(faults, START_MS)
    rig.service.quarantine.end(second, State.DROPPED, "operator")
    rig.disk.process_kill()
    again = StagesByHand(ManualClock(), disk=rig.disk).service.quarantine

    assert again.active == 2
    assert [again.state(one) for one in (first, third)] == [State.ACTIVE, State.ACTIVE]
    assert again.state(second) is State.DROPPED
    assert again.last is not None
    assert again.last.text == "refused 2"


def test_an_entry_is_written_once_more_when_it_is_old() -> None:
    """So that the log behind it can be cleaned; not before, and not again at once."""
    rig, faults = rig_with(2)
    quarantine = rig.service.quarantine
    quarantine.add(faults, START_MS)
    first_py = quarantine.first_py()

    assert quarantine.renew(START_MS + OLD_MS - 1) == 0
    rig.fill_disk()
    assert quarantine.renew(START_MS + OLD_MS) == 0
    assert quarantine.first_py() == first_py

    assert isinstance(rig.clock, ManualClock)
    rig.free_disk()
    rig.clock.time_ms = START_MS + OLD_MS
    assert quarantine.renew(START_MS + OLD_MS) == 2
    assert quarantine.renew(START_MS + OLD_MS) == 0
    assert (quarantine.first_py() or 0) > (first_py or 0)
    assert quarantine.active == 2
