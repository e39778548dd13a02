"""What the key index tells of a message: pending, cancelled, delivered, or in quarantine."""

from __future__ import annotations

import pytest

from fakes import START_MS, ManualClock
from simulation.staged_service import delete_of, timed
from timermq.pipeline.cancel.pending_lookup import Found, PendingLookup
from timermq.pipeline.quarantine.quarantine_record import State
from timermq.pipeline.records.cancel_verdict import CancelError, Verdict, Wanted
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.records.undeliverable import Reason, TimerRecordError, Undeliverable
from timermq.timerstore.message import Message
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand

DUE_MS = SLOT_MS + 1
BY_KEY = Wanted("T", "order", is_unique_key=False)


def keyed(body: str, key: str = "order") -> Message:
    """A message with one of the user's keys."""
    message = timed(body, DUE_MS)
    message.properties += b"KEYS\x01%b\x02" % key.encode()
    return message


def rig_with(*messages: Message) -> StagesByHand:
    """A service with messages that wait."""
    rig = StagesByHand(ManualClock())
    rig.link(*messages)
    return rig


def look(rig: StagesByHand, wanted: Wanted, read_ms: int = 0) -> Found:
    """What is known when slots before a time are read."""
    lookup = PendingLookup(
        source=rig.store, quarantine=rig.service.quarantine, options=TINY, read_ms=read_ms
    )
    return lookup.find(wanted)


def test_a_pending_message_can_be_cancelled() -> None:
    """It is known by its first record; a message of another topic has the key to itself."""
    rig = rig_with(timed("a", DUE_MS), timed("a", DUE_MS, topic="U"))
    found = look(rig, Wanted("T", "a"))

    assert found.verdict is Verdict.CANCELLED
    assert [one.phy_offset for one in found.pending] == rig.places()[:1]
    assert look(rig, Wanted("V", "a")).verdict is Verdict.NOT_FOUND


def test_a_cancelled_message_waits_no_more() -> None:
    """Its delete names the order, so it counts before its slot is read."""
    rig = rig_with(timed("a", DUE_MS))
    rig.service.cancellation.cancel(Wanted("T", "a"))
    found = look(rig, Wanted("T", "a"))

    assert (found.pending, found.cancelled, found.verdict) == ([], 1, Verdict.CANCELLED)
    assert not found.has_open_delete


@pytest.mark.parametrize("is_read", [False, True])
def test_a_delete_by_key_counts_when_its_slot_is_read(*, is_read: bool) -> None:
    """Until then it is open, and the message waits."""
    rig = rig_with(timed("a", DUE_MS), delete_of("a", DUE_MS))
    found = look(rig, Wanted("T", "a"), SLOT_MS + is_read)

    assert (len(found.pending), found.cancelled) == ((0, 1) if is_read else (1, 0))
    assert found.has_open_delete is not is_read


def test_a_moved_message_waits_at_its_new_place() -> None:
    """What made way does not count as cancelled."""
    rig = rig_with(timed("a", DUE_MS))
    rig.service.cancellation.reschedule(Wanted("T", "a"), DUE_MS + 1_000)
    rig.link()
    found = look(rig, Wanted("T", "a"))

    assert [one.phy_offset for one in found.pending] == rig.places()[-2:-1]
    assert found.cancelled == 0


WAITS_IN_JAVAS = (
    f"UNIQ_KEY\x01a\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02TIMER_DELIVER_MS\x01{DUE_MS}\x02"
    f"TIMER_OUT_MS\x01{SLOT_MS}\x02"
).encode()
ROLLED_IN_JAVAS = {
    "wheel": b"TIMER_ROLL_TIMES\x01%d\x02TIMER_ENQUEUE_MS\x015\x02TIMER_DEQUEUE_MS\x016\x02",
    "RocksDB": b"TIMER_ROLL_LABEL\x01R%d\x02",
}


@pytest.mark.parametrize("engine", ROLLED_IN_JAVAS)
def test_what_rocketmq_rolled_waits_once(engine: str) -> None:
    """Its last record; so it can be moved, and has arrived when that has."""
    rig = StagesByHand(ManualClock())
    rolls = [ROLLED_IN_JAVAS[engine] % number for number in (1, 2)]
    texts = [WAITS_IN_JAVAS + roll for roll in (b"", *rolls)]
    stored = rig.store.put([Message(TIMER_TOPIC, 0, b"a", text) for text in texts])
    found = look(rig, Wanted("T", "a"))
    moved = rig.service.cancellation.reschedule(Wanted("T", "a"), DUE_MS + 1_000)

    assert [one.phy_offset for one in found.pending] == [stored[-1].phy_offset]
    assert (moved.verdict, moved.deliver_ms) == (Verdict.CANCELLED, DUE_MS + 1_000)


@pytest.mark.parametrize("engine", ROLLED_IN_JAVAS)
def test_of_two_that_rocketmq_has_one_rolled(engine: str) -> None:
    """The wheel has both still. RocksDB timers have one for a key and a slot."""
    rig = StagesByHand(ManualClock())
    texts = [WAITS_IN_JAVAS, WAITS_IN_JAVAS, WAITS_IN_JAVAS + ROLLED_IN_JAVAS[engine] % 1]
    rig.store.put([Message(TIMER_TOPIC, 0, b"a", text) for text in texts])

    assert len(look(rig, Wanted("T", "a")).pending) == (2 if engine == "wheel" else 1)


@pytest.mark.parametrize("names_it", [False, True])
def test_what_has_arrived_is_too_late(*, names_it: bool) -> None:
    """A record of the topic that names the message's as its origin; one of its own does not."""
    rig = rig_with(timed("a", DUE_MS))
    (place,) = rig.places()
    origin = origin_of(place if names_it else place + 1)
    (result,) = rig.store.put([Message("T", 0, b"a", b"UNIQ_KEY\x01a\x02", prepared_offset=origin)])
    assert result.status.is_stored
    found = look(rig, Wanted("T", "a"))

    assert len(found.pending) == (not names_it)
    assert (found.delivered, found.verdict) == (1, Verdict.TOO_LATE)


@pytest.mark.parametrize("state", State)
def test_an_entry_of_the_quarantine_tells_its_state(state: State) -> None:
    """Active it can be cancelled; its end says what became of the message."""
    rig = rig_with(timed("a", DUE_MS))
    (place,) = rig.places()
    quarantine = rig.service.quarantine
    found = rig.store.commit_log.check_at(place, check_crc=True)
    assert found is not None
    record = rig.store.commit_log.record_at(place, found.size)
    error = TimerRecordError(Reason.REFUSED, "refused")
    quarantine.add([Undeliverable.of(error, place, found.size, record)], START_MS)
    if state is State.RETRIED:
        rig.service.release.retry(place, by="operator")
    elif state is not State.ACTIVE:
        quarantine.end(place, state, "operator")
    known = look(rig, Wanted("T", "a"))

    assert known.quarantined == ((place,) if state is State.ACTIVE else ())
    assert known.cancelled == (state in (State.DROPPED, State.CANCELLED))
    assert len(known.pending) == (state is State.RETRIED)
    assert known.verdict is Verdict.CANCELLED


def test_one_pending_message_may_have_a_key_of_the_user() -> None:
    """One that was cancelled is not meant; with two that wait none can be told."""
    rig = rig_with(keyed("a"), keyed("b"), keyed("c", "other"))
    with pytest.raises(CancelError) as caught:
        look(rig, BY_KEY)
    assert caught.value.rule == "CANCEL_KEY_NOT_UNIQUE"

    rig.service.cancellation.cancel(Wanted("T", "a"))
    assert [one.record_key for one in look(rig, BY_KEY).pending] == [b"b"]
    rig.service.cancellation.cancel(Wanted("T", "b"))
    assert look(rig, BY_KEY).verdict is Verdict.CANCELLED
