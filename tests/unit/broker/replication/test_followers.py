"""The followers of a master: who may link, what they let it do, what cleaning leaves."""

from __future__ import annotations

import pytest

from replication_rig import SEGMENT, Scene, scene
from timermq.broker.replication.followers import FollowerRow
from timermq.broker.replication.link_refusal import LinkRefusedError
from timermq.broker.replication.replication_options import Confirm


def test_an_empty_follower_begins_at_the_oldest_byte() -> None:
    """RocketMQ would begin at the last segment, and leave out what waits for its moment before."""
    stage = Scene()
    stage.grow(2_500)
    stage.log.delete_before(SEGMENT)
    one = stage.link(0)

    assert (one.sent, one.acknowledged) == (SEGMENT, 0)
    stage.followers.acknowledge(one, 0)  # slaves repeat it every five seconds
    assert stage.followers.needed_from() == SEGMENT


@pytest.mark.parametrize(
    ("first", "rule"), [(2_501, "HA_AHEAD"), (999, "HA_CLEANED"), (-1, "HA_CLEANED")]
)
def test_a_log_that_does_not_fit_is_refused(first: int, rule: str) -> None:
    """It would get bytes in the middle of a record, or none for ever."""
    stage = Scene()
    stage.grow(2_500)
    stage.log.delete_before(SEGMENT)

    with pytest.raises(LinkRefusedError, match=f"{rule}: expected a log that ends at"):
        stage.link(first)
    assert len(stage.followers) == 0


def test_two_of_one_id() -> None:
    """The second is refused, unless the first has been silent: then its link is a dead one."""
    stage = Scene()
    first = stage.link(0, 3)
    with pytest.raises(LinkRefusedError, match="HA_BROKER_ID: expected an id of its own, found 3"):
        stage.link(0, 3, "h:2")
    stage.now += 10
    stage.link(0, 3, "h:2")

    assert stage.ended == {"h:1": "silent, and another link brings its id 3"}
    assert [row.address for row in stage.followers.rows()] == ["h:2"]
    stage.followers.remove(first)
    assert len(stage.followers) == 1


@pytest.mark.parametrize("offset", [-1, 101])
def test_a_report_of_what_was_never_sent_is_refused(offset: int) -> None:
    """Answers would go that no replica has."""
    stage = Scene()
    stage.grow(200)
    one = stage.link(100)

    with pytest.raises(LinkRefusedError, match=f"HA_REPORT: .* 0 to 100, .* found {offset}"):
        stage.followers.acknowledge(one, offset)


def test_what_enough_followers_have_is_reached() -> None:
    """With three replicas it is the second follower that counts."""
    stage = scene(in_sync_replicas=3)
    stage.grow(300)
    assert stage.followers.reached() == -1
    fast, slow = stage.link(200, 1), stage.link(100, 2)

    assert stage.followers.reached() == 100
    stage.copy(fast)
    assert stage.followers.reached() == 100
    stage.copy(slow, 250)
    assert stage.followers.reached() == 250


def test_one_that_is_far_behind_is_not_waited_for() -> None:
    """Sends are answered with SLAVE_NOT_AVAILABLE at once."""
    stage = scene(in_sync_replicas=2, ha_max_gap_not_in_sync=500)
    stage.grow(700)
    assert not stage.followers.may_have()
    one = stage.link(200)
    assert not stage.followers.may_have()
    assert "expected 1 followers (in_sync_replicas) less than 500" in stage.followers.shortage()
    stage.copy(one, 201)

    assert stage.followers.may_have()


def test_confirm_replicated_takes_all_in_sync() -> None:
    """Each of them may have to lead: enough for an answer is not enough."""
    stage = scene(confirm=Confirm.REPLICATED, ha_listen_port=0, in_sync_replicas=2)
    stage.grow(100)
    fast, slow = stage.link(100, 1), stage.link(100, 2)
    assert stage.followers.confirm_offset() == 100
    stage.grow(100)
    stage.copy(fast)

    assert stage.followers.confirm_offset() == 100
    assert stage.followers.reached() == 100
    stage.copy(slow)
    assert stage.followers.confirm_offset() == 200
    assert stage.followers.reached() == 200
    stage.grow(100)
    stage.copy(fast)
    stage.followers.remove(slow)
    assert stage.followers.confirm_offset() == 300


def test_with_too_few_in_sync_nothing_is_taken_or_confirmed() -> None:
    """Until a follower has everything."""
    stage = scene(confirm=Confirm.REPLICATED, ha_listen_port=0, min_in_sync_replicas=2)
    stage.grow(100)
    refusal = stage.followers.refusal()
    assert refusal is not None
    assert "expected 2 (min_in_sync_replicas), this broker among them, found 1" in refusal
    assert stage.followers.confirm_offset() == 0
    one = stage.link(0, 1)
    assert stage.followers.refusal() is not None
    stage.copy(one)

    assert stage.followers.refusal() is None
    assert stage.followers.confirm_offset() == 100
    stage.followers.remove(one)
    assert stage.followers.refusal() is not None


def test_readers_wait_for_what_stood_in_the_log_at_the_start() -> None:
    """It may be that no follower has it, and that a follower leads before it has."""
    stage = scene(confirm=Confirm.REPLICATED, ha_listen_port=0, min_in_sync_replicas=2)
    stage.grow(100)
    woken: list[int] = []
    stage.followers.hold_reads(100, lambda: woken.append(stage.followers.confirm_offset()))
    stage.grow(50)
    one = stage.link(0, 1)
    stage.copy(one, 90)
    assert not stage.followers.is_settled
    assert woken == []
    stage.copy(one)
    assert stage.followers.is_settled
    stage.followers.remove(one)

    assert stage.followers.is_settled
    assert woken == [150]


def test_readers_do_not_wait_where_this_broker_alone_is_enough() -> None:
    """Without followers in sync, and with none asked for, all is confirmed."""
    stage = scene(confirm=Confirm.REPLICATED, ha_listen_port=0)
    stage.grow(100)
    stage.followers.hold_reads(100, lambda: None)

    assert stage.followers.is_settled


def test_readers_of_a_copy_wait_until_it_is_one() -> None:
    """A broker that led may hold what no other has; a part of its master's log is on both."""
    stage = scene(confirm=Confirm.REPLICATED, ha_listen_port=0)
    stage.grow(100)
    woken: list[str] = []
    stage.followers.hold_reads_of_copy(lambda: woken.append("read"))
    stage.followers.update()
    assert not stage.followers.is_settled
    stage.followers.follows()
    stage.followers.follows()

    assert stage.followers.is_settled
    assert woken == ["read"]


def test_readers_of_what_this_broker_alone_has_never_wait() -> None:
    """With confirm=own nothing is held back."""
    stage = scene(ha_listen_port=0)
    stage.grow(100)
    stage.followers.hold_reads_of_copy(lambda: None)
    stage.followers.hold_reads(100, lambda: None)

    assert stage.followers.is_settled


async def test_a_guard_agrees_before_the_set_is_in_force() -> None:
    """What it is asked for counts from then on; what it does not agree to is not in force."""
    stage = scene(confirm=Confirm.REPLICATED, ha_listen_port=0)
    stage.grow(100)
    agrees, asked = False, list[frozenset[int | None]]()

    async def guard(ids: frozenset[int | None]) -> bool:
        asked.append(ids)
        return agrees

    stage.followers.guard = guard
    one = stage.link(100, 7)
    assert stage.followers.is_agreement_due
    await stage.followers.agree()
    assert stage.followers.in_sync.members == frozenset()
    stage.grow(50)
    assert stage.followers.confirm_offset() == 100
    agrees = True
    await stage.followers.agree()
    assert stage.followers.in_sync.members == {one}
    assert asked == [{7}, {7}]

    stage.followers.remove(one)
    assert stage.followers.confirm_offset() == 100
    await stage.followers.agree()
    assert asked[-1] == frozenset()
    assert stage.followers.confirm_offset() == 150


async def test_with_a_guard_an_answer_waits_for_all_that_may_lead() -> None:
    """One whose link has ended may be chosen until the guard has agreed to do without it."""
    stage = scene(in_sync_replicas=2)

    async def guard(_ids: frozenset[int | None]) -> bool:
        return True

    stage.grow(100)
    stage.followers.guard = guard
    gone, other = stage.link(100, 1), stage.link(100, 2, "h:2")
    await stage.followers.agree()
    stage.followers.remove(gone)
    stage.grow(50)
    stage.copy(other)

    assert stage.followers.reached() == 100
    await stage.followers.agree()
    assert stage.followers.reached() == 150


def test_cleaning_leaves_what_a_follower_lacks() -> None:
    """Within a bound: one that is further behind must not fill the master's disk."""
    stage = scene(ha_pinned_size_max=1_500)
    assert stage.followers.needed_from() is None
    stage.grow(1_000)
    one = stage.link(200)
    assert stage.followers.needed_from() == 200
    stage.grow(2_000)

    assert stage.followers.needed_from() == 1_500
    stage.copy(one, 2_900)
    assert stage.followers.needed_from() == 2_900
    stage.followers.remove(one)
    assert stage.followers.needed_from() is None


def test_the_rows_of_operators() -> None:
    """How far behind in bytes, and since when nothing new was acknowledged."""
    stage = Scene()
    stage.grow(300)
    one = stage.link(100, 2, "h:9")
    stage.now += 3

    assert stage.followers.rows() == [
        FollowerRow(
            address="h:9",
            broker_id=2,
            acknowledged=100,
            behind=200,
            is_in_sync=False,
            sent=100,
            sent_per_second=0,
            silent_ms=3_000,
        )
    ]
    stage.copy(one)
    stage.now += 3_600
    (row,) = stage.followers.rows()
    assert (row.behind, row.is_in_sync, row.silent_ms) == (0, True, 0)


@pytest.mark.parametrize(("replicas_min", "waits"), [(1, False), (2, True)])
def test_a_new_master_answers_alone_only_where_it_may_be_alone(
    *, replicas_min: int, waits: bool
) -> None:
    """A cancel that it answers while sends are refused would be lost with it."""
    stage = scene(in_sync_replicas=2, min_in_sync_replicas=replicas_min)
    stage.followers.is_sync = True
    stage.followers.is_short_handed = True
    stage.grow(100)

    assert stage.followers.waits is waits
    stage.copy(stage.link(0))
    assert stage.followers.waits
    assert stage.followers.reached() == 100
