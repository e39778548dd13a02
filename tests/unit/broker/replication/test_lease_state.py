"""What a broker asks the lease's engine for next, and up to when it leads."""

from __future__ import annotations

import attrs
import pytest

from timermq.broker.replication.lease import LeaseRecord, Stored
from timermq.broker.replication.lease_state import LeaseState, Read, Replace
from timermq.broker.replication.lease_timing import LeaseTiming

TIMING = LeaseTiming(ttl_ms=10_000, margin_ms=2_000)
ABSENT = Stored(None, "0")
OWN, OTHER = "own:1", "other:1"
OWN_ID, OTHER_ID = 1, 2


def state(*, may_found: bool = False) -> LeaseState:
    """A broker that has just started."""
    return LeaseState(
        name=OWN, broker_id=OWN_ID, instance="own/1", timing=TIMING, may_found=may_found
    )


def held(
    *in_sync: int,
    version: str = "5",
    ttl_ms: int = 10_000,
    epoch: int = 3,
    position: int = 0,
) -> Stored:
    """A lease that another broker holds."""
    record = LeaseRecord(
        holder=OTHER,
        instance="other/1",
        epoch=epoch,
        ttl_ms=ttl_ms,
        position=position,
        in_sync=frozenset(in_sync),
    )
    return Stored(record, version)


def read(lease: LeaseState, now_ms: float, stored: Stored) -> None:
    """Ask and be answered at once."""
    assert lease.begin(now_ms) == Read()
    lease.was_read(now_ms, stored)


def replace(lease: LeaseState, sent_ms: float, heard_ms: float, version: str) -> LeaseRecord:
    """Replace the record, which is done."""
    asked = lease.begin(sent_ms)
    assert isinstance(asked, Replace)
    lease.was_replaced(heard_ms, Stored(asked.record, version), is_done=True)
    return asked.record


def leading() -> LeaseState:
    """A broker that took the lease at 20,000, by version 1."""
    lease = state(may_found=True)
    read(lease, 10_000, ABSENT)
    replace(lease, 20_000, 20_050, "1")
    return lease


def test_a_holder_counts_from_before_it_sent() -> None:
    """The time that the request takes is not its own."""
    lease = state(may_found=True)
    read(lease, 10_000, ABSENT)
    replace(lease, 20_000, 25_000, "1")

    assert lease.led_until_ms == 20_000 + TIMING.held_ms
    assert lease.leads(27_999.9)
    assert not lease.leads(28_000)


def test_another_counts_from_when_it_heard() -> None:
    """It asks for the lease not before the whole time has passed for the version it saw."""
    lease = state()
    assert lease.begin(1_000) == Read()
    lease.was_read(4_000, held(OWN_ID))

    assert lease.begin(13_999.9) == Read()
    lease.was_read(13_999.9, held(OWN_ID))
    assert isinstance(lease.begin(14_000), Replace)


def test_a_renewed_record_begins_a_new_wait() -> None:
    """A holder that renews is left alone for as long as it does."""
    lease = state()
    read(lease, 0, held(OWN_ID, version="5"))
    read(lease, 9_000, held(OWN_ID, version="6"))

    assert lease.begin(18_999) == Read()


def test_the_longer_time_counts() -> None:
    """A holder with another setting is waited for as long as it says."""
    lease = state()
    read(lease, 0, held(OWN_ID, ttl_ms=60_000))

    assert lease.begin(59_999) == Read()


def test_a_broker_out_of_sync_does_not_compete() -> None:
    """What was acknowledged without it, it has not; an operator may have it lead all the same."""
    lease = state(may_found=True)
    read(lease, 0, held())
    read(lease, 100_000, held())
    lease.is_forced = True

    assert isinstance(lease.begin(100_001), Replace)


def test_a_replaced_machine_does_not_compete() -> None:
    """Its id is in sync, and its log is not the one that was."""
    lease = state()
    lease.own_end = 99
    read(lease, 0, held(OWN_ID, position=100))
    assert lease.begin(50_000) == Read()
    lease.was_read(50_000, held(OWN_ID, position=100))
    lease.own_end = 100

    assert isinstance(lease.begin(50_001), Replace)


def test_what_all_in_sync_have_stands_in_the_record() -> None:
    """It begins with the whole log of the one that takes the lease, and never falls."""
    lease = state(may_found=True)
    lease.own_end = 70
    read(lease, 0, ABSENT)
    assert replace(lease, 10_000, 10_001, "1").position == 70
    lease.confirmed = 60
    assert replace(lease, 12_000, 12_001, "2").position == 70
    lease.confirmed = 90
    assert replace(lease, 14_000, 14_001, "3").position == 90


@pytest.mark.parametrize(
    ("in_sync", "own_end", "is_eligible"),
    [
        ((OTHER_ID,), 99, False),  # the follower has what this machine lost
        ((OTHER_ID,), 100, True),
        ((), 99, True),  # no other broker has more
        ((), 0, False),  # an empty disk at the address of a master
    ],
)
def test_a_holder_that_comes_back_with_less(
    in_sync: tuple[int, ...], own_end: int, is_eligible: bool
) -> None:
    """A power cut takes what was not synced; a new disk takes all."""
    kept = held(*in_sync, position=100)
    assert kept.record is not None
    lease = state()
    lease.own_end = own_end
    read(lease, 0, Stored(attrs.evolve(kept.record, holder=OWN), "5"))

    assert lease.is_eligible is is_eligible


def test_followers_in_sync_go_before_a_holder_that_comes_back() -> None:
    """Its machine may have lost something; they have all."""
    kept = held(OTHER_ID)
    assert kept.record is not None
    own_record = Stored(attrs.evolve(kept.record, holder=OWN), "5")
    lease = state()
    read(lease, 0, own_record)
    assert lease.begin(10_000) == Read()
    lease.was_read(10_000, own_record)

    assert isinstance(lease.begin(10_000 + 2 * TIMING.renew_ms), Replace)


def test_a_holder_goes_first_when_the_engine_is_back() -> None:
    """It could not renew, and no broker can tell it from one that is dead."""
    lease = state()
    read(lease, 0, held(OWN_ID))
    lease.begin(20_000 - TIMING.ttl_ms - 1)
    lease.has_failed(20_000)
    assert lease.begin(20_250) == Read()
    lease.was_read(20_250, held(OWN_ID))

    assert isinstance(lease.begin(20_000 + 2 * TIMING.renew_ms), Replace)


def test_a_missing_lease_is_for_brokers_that_follow_none() -> None:
    """An empty follower that starts first does not lead its master."""
    lease = state()
    read(lease, 0, ABSENT)

    assert lease.begin(100_000) == Read()


def test_a_missing_lease_is_waited_for_too() -> None:
    """It may have been deleted while another broker leads."""
    lease = state(may_found=True)
    read(lease, 0, ABSENT)

    assert lease.due_ms() == TIMING.renew_ms
    assert lease.begin(9_999) == Read()


def test_an_own_lease_that_was_deleted_is_founded_again() -> None:
    """The holder stops at once, and leads again after the whole time, by a greater epoch."""
    lease = leading()
    lease.may_found = False
    assert isinstance(lease.begin(21_000), Replace)
    lease.was_replaced(21_010, ABSENT, is_done=False)

    assert not lease.leads(21_010)
    assert replace(lease, 31_010, 31_020, "9").epoch == 2


def test_a_given_up_lease_is_free_at_once() -> None:
    """A master that stops in order leaves no gap; only brokers in sync may take it."""
    kept = held(OWN_ID)
    assert kept.record is not None
    free = Stored(attrs.evolve(kept.record, is_given_up=True), "6")
    lease = state()
    read(lease, 0, free)

    assert lease.due_ms() == 0
    assert replace(lease, 1, 2, "7").epoch == 4


def test_the_epoch_is_above_the_own_log() -> None:
    """An engine that was restored from a backup cannot lead back to an old epoch."""
    lease = state()
    lease.own_epoch = 8
    read(lease, 0, held(OWN_ID, epoch=3))

    assert replace(lease, 10_000, 10_001, "6").epoch == 9


def test_the_one_that_takes_it_is_alone_in_sync() -> None:
    """Who else has everything, it does not know yet."""
    lease = state()
    lease.members = frozenset({3})
    read(lease, 0, held(OWN_ID, 3))

    assert replace(lease, 10_000, 10_001, "6").in_sync == set()


def test_renewals_differ() -> None:
    """An engine that does not store what is equal stores each."""
    lease = leading()
    first = replace(lease, 22_000, 22_001, "2")
    second = replace(lease, 24_000, 24_001, "3")

    assert first != second
    assert first.epoch == second.epoch


def test_renewals_are_due_four_times_in_the_time_held() -> None:
    """Then three of them may be lost."""
    assert leading().due_ms() == 20_000 + TIMING.held_ms / 4


def test_a_lost_answer_shows_in_the_next() -> None:
    """The record is its own, and it is renewed at once: that one counts."""
    lease = leading()
    lost = lease.begin(22_000)
    assert isinstance(lost, Replace)
    lease.has_failed(24_000)
    assert lease.due_ms() == 24_000 + TIMING.retry_ms

    assert isinstance(lease.begin(24_250), Replace)
    lease.was_replaced(24_260, Stored(lost.record, "2"), is_done=False)
    assert lease.led_until_ms == 20_000 + TIMING.held_ms
    assert lease.due_ms() < 24_260
    replace(lease, 24_261, 24_270, "3")
    assert lease.led_until_ms == 24_261 + TIMING.held_ms


def test_a_failed_request_is_repeated_after_a_pause() -> None:
    """An engine that is away is asked four times a second."""
    lease = state()
    lease.begin(0)
    lease.has_failed(10)

    assert lease.due_ms() == 10 + TIMING.retry_ms


def test_an_engine_that_was_away_finds_the_same_master() -> None:
    """The record has run out and is its own still: it leads again by the same epoch."""
    lease = leading()
    assert not lease.leads(50_000)
    record = replace(lease, 50_000, 50_001, "2")

    assert lease.leads(50_001)
    assert record.epoch == 1


def test_a_master_whose_lease_was_taken_stops_at_once() -> None:
    """It learns of it by its refused renewal, and waits for the whole time of the other."""
    lease = leading()
    lease.begin(22_000)
    lease.was_replaced(22_001, held(OWN_ID), is_done=False)

    assert not lease.leads(22_001)
    assert lease.begin(32_000) == Read()


def test_a_killed_broker_is_another_one() -> None:
    """Its own record of an earlier life is waited for like any other."""
    first = leading()
    assert first.record is not None
    second = LeaseState(name=OWN, broker_id=OWN_ID, instance="own/2", timing=TIMING)
    read(second, 20_100, Stored(first.record, "1"))

    assert not second.holds
    assert second.begin(30_099) == Read()
    second.was_read(30_099, Stored(first.record, "1"))
    second.own_end = 1
    assert isinstance(second.begin(30_100), Replace)


def test_who_may_lead_next_is_counted() -> None:
    """From before it stands in the record, until the record is kept without it."""
    lease = leading()
    lease.members = frozenset({OTHER_ID})
    assert lease.counted == {OTHER_ID}
    assert replace(lease, 20_100, 20_101, "2").in_sync == {OTHER_ID}

    lease.members = frozenset()
    assert lease.due_ms() < 20_101
    asked = lease.begin(20_200)
    assert isinstance(asked, Replace)
    assert lease.counted == {OTHER_ID}
    lease.has_failed(20_300)
    assert lease.counted == {OTHER_ID}
    replace(lease, 20_600, 20_700, "3")
    assert lease.counted == set()


def test_a_broker_that_stops_gives_the_lease_up() -> None:
    """It leads no more from the call on, whatever is answered to what it had asked."""
    lease = leading()
    renewal = lease.begin(22_000)
    assert isinstance(renewal, Replace)
    lease.stop_leading()
    assert not lease.leads(22_001)

    lease.was_replaced(22_002, Stored(renewal.record, "2"), is_done=True)
    assert not lease.leads(22_002)
    given_up = replace(lease, 22_003, 22_004, "3")
    assert given_up.is_given_up
    assert given_up.in_sync == renewal.record.in_sync
    assert not lease.holds


@pytest.mark.parametrize(
    ("ttl_ms", "margin_ms"), [(999, 100), (300_001, 100), (10_000, 0), (10_000, 5_001)]
)
def test_times_are_bounded(ttl_ms: int, margin_ms: int) -> None:
    """A margin that is no margin, or leaves nothing, is refused."""
    with pytest.raises(ValueError, match="expected"):
        LeaseTiming(ttl_ms=ttl_ms, margin_ms=margin_ms)
