"""Cancels and moves: the verdict, what is stored for it, and what is remembered."""

from __future__ import annotations

import pytest

from fakes import START_MS, ManualClock
from simulation.staged_service import timed
from timermq.pipeline.records.cancel_verdict import CancelError, Verdict, Wanted
from timermq.pipeline.records.deduplication import origin_in
from timermq.pipeline.records.timer_properties import DELETE_NAME, DELETE_SECOND_NAME
from timermq.pipeline.records.timer_record import TIMER_TOPIC, own_properties
from timermq.timerstore.properties import KEYS_NAME, UNIQ_KEY_NAME, find
from timermq.timerstore.record import record_properties
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand

DELAY_MAX_MS = TINY.timer_max_delay_sec * 1000


def waiting(*bodies: str) -> StagesByHand:
    """A service with messages that wait for one slot."""
    rig = StagesByHand(ManualClock())
    rig.link(*[timed(body, SLOT_MS + 1) for body in bodies])
    return rig


def entries(rig: StagesByHand) -> int:
    """Records of the timer topic."""
    queue = rig.store.queue(TIMER_TOPIC, 0)
    return 0 if queue is None else queue.max_offset


def newest(rig: StagesByHand, count: int) -> list[bytes]:
    """The newest records of the timer topic, in order."""
    queue = rig.store.queue(TIMER_TOPIC, 0)
    assert queue is not None
    places = [unit[:2] for unit in queue.units(queue.max_offset - count, count).tolist()]
    return [record or b"" for record in rig.store.commit_log.records_at(places)]


def name_in(delete: bytes) -> bytes | None:
    """How RocketMQ is told which message it cancels."""
    return find(record_properties(delete), DELETE_NAME)


def is_second(delete: bytes) -> bool:
    """Whether it says what another one says."""
    return find(record_properties(delete), DELETE_SECOND_NAME) is not None


def test_a_cancel_stores_two_deletes_and_remembers_the_first() -> None:
    """One of either form of RocketMQ's; the first names as its origin what it cancels."""
    rig = waiting("a", "b")
    result = rig.service.cancellation.cancel(Wanted("T", "b"))
    first, second = newest(rig, 2)
    (first_py, second_py) = rig.places()

    assert (result.verdict, result.unique_key) == (Verdict.CANCELLED, "b")
    assert result.end == rig.store.commit_log.max_offset
    assert entries(rig) == 4
    assert [origin_in(first), origin_in(second)] == [second_py, None]
    assert [name_in(first), name_in(second)] == [b"T+b", b"b"]
    assert [is_second(first), is_second(second)] == [False, True]
    assert rig.state.fresh_cancels.cover(second_py)
    assert not rig.state.fresh_cancels.cover(first_py)


def test_a_second_cancel_stores_nothing() -> None:
    """It has the same verdict, and so has one behind the linking of the delete."""
    rig = waiting("a")
    for _ in range(2):
        assert rig.service.cancellation.cancel(Wanted("T", "a")).verdict is Verdict.CANCELLED
    rig.link()
    assert rig.service.cancellation.cancel(Wanted("T", "a")).verdict is Verdict.CANCELLED

    assert entries(rig) == 3


@pytest.mark.parametrize("topic", ["T", "U"])
def test_what_never_was_is_not_found(topic: str) -> None:
    """Nor is a message of another topic with that key."""
    rig = waiting("a")
    wanted = Wanted(topic, "a" if topic == "U" else "b")

    assert rig.service.cancellation.cancel(wanted).verdict is Verdict.NOT_FOUND
    assert entries(rig) == 1


def test_a_message_that_was_sent_twice_is_cancelled_twice() -> None:
    """A producer that sends again after a time-out makes two with one unique key."""
    rig = waiting("a", "a")

    assert rig.service.cancellation.cancel(Wanted("T", "a")).verdict is Verdict.CANCELLED
    assert entries(rig) == 6
    with pytest.raises(CancelError) as caught:
        waiting("a", "a").service.cancellation.reschedule(Wanted("T", "a"), SLOT_MS + 500)
    assert caught.value.rule == "CANCEL_KEY_NOT_UNIQUE"


def test_a_move_stores_the_delete_before_the_message() -> None:
    """A power cut may keep the first alone: then it counts as nothing."""
    rig = waiting("a")
    result = rig.service.cancellation.reschedule(Wanted("T", "a"), SLOT_MS + 1_500)
    delete, moved, second = newest(rig, 3)
    (first_py,) = rig.places()

    assert (result.deliver_ms, result.out_ms) == (SLOT_MS + 1_500, SLOT_MS + 1_000)
    assert [name_in(delete), name_in(second)] == [b"T+a", b"a"]
    assert [is_second(delete), is_second(second)] == [False, True]
    assert [origin_in(one) for one in (delete, moved, second)] == [None, first_py, None]
    assert b"TIMER_DELIVER_MS\x01%d\x02" % (SLOT_MS + 1_500) in moved
    assert rig.state.fresh_cancels.cover(first_py)


def test_a_move_to_the_past_means_now() -> None:
    """It goes by the wheel all the same, and is due in the next millisecond."""
    rig = waiting("a")
    result = rig.service.cancellation.reschedule(Wanted("T", "a"), START_MS - 5_000)

    assert result.deliver_ms == START_MS + 1


@pytest.mark.parametrize("beyond_ms", [0, 1])
def test_a_move_keeps_within_the_longest_delay(beyond_ms: int) -> None:
    """Exactly the longest is allowed; a refused move has stored nothing."""
    rig = waiting("a")
    deliver_ms = START_MS + DELAY_MAX_MS + beyond_ms
    if beyond_ms:
        with pytest.raises(CancelError) as caught:
            rig.service.cancellation.reschedule(Wanted("T", "a"), deliver_ms)
        assert caught.value.rule == "TIMER_DELAY_TOO_LONG"
    else:
        rig.service.cancellation.reschedule(Wanted("T", "a"), deliver_ms)

    assert entries(rig) == (1 if beyond_ms else 4)


@pytest.mark.parametrize("moves", [False, True])
def test_recovery_reads_from_the_record_that_says_it(moves: bool) -> None:
    """Of a cancel that is the delete, of a move the message: each names the old record."""
    rig = waiting("a")
    cancellation = rig.service.cancellation
    if moves:
        cancellation.reschedule(Wanted("T", "a"), SLOT_MS + 1_500)
    else:
        cancellation.cancel(Wanted("T", "a"))
    rig.link()

    assert rig.state.fresh_cancels.first_py() == rig.places()[-2]


def test_a_far_cancel_is_remembered_until_its_delete_is_linked() -> None:
    """Then the wheel alone is enough, for the slot is not open yet."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", START_MS + 3_001))
    (first_py,) = rig.places()
    rig.service.cancellation.cancel(Wanted("T", "a"))
    rig.state.forget_what_is_done()
    assert rig.state.fresh_cancels.cover(first_py)

    rig.link()
    assert not rig.state.fresh_cancels.cover(first_py)


def test_a_cancel_behind_a_move_takes_the_moved_message_back() -> None:
    """The old handle means the message, wherever it is pending."""
    rig = waiting("a")
    rig.service.cancellation.reschedule(Wanted("T", "a"), SLOT_MS + 1_500)
    rig.link()
    moved_py = rig.places()[-2]

    assert rig.service.cancellation.cancel(Wanted("T", "a")).verdict is Verdict.CANCELLED
    assert rig.state.fresh_cancels.cover(moved_py)


def test_a_full_disk_refuses_a_cancel() -> None:
    """Nothing is remembered then: the message will arrive."""
    rig = waiting("a")
    rig.fill_disk()
    with pytest.raises(CancelError) as caught:
        rig.service.cancellation.cancel(Wanted("T", "a"))
    (first_py,) = rig.places()

    assert caught.value.rule == "CANCEL_NOT_STORED"
    assert not rig.state.fresh_cancels.cover(first_py)


@pytest.mark.parametrize("deliver_ms", [SLOT_MS + 500, SLOT_MS + 1_500])
def test_a_moved_message_has_another_key_for_rocketmq_alone(deliver_ms: int) -> None:
    """No delete in its slot names that; each key leads to the message, and it arrives with one."""
    rig = StagesByHand(ManualClock())
    message = timed("a", SLOT_MS + 1)
    message.properties += b"KEYS\x01order\x02"
    rig.link(message)
    (first_py,) = rig.places()
    result = rig.service.cancellation.reschedule(Wanted("T", "a"), deliver_ms)
    _, moved, _ = newest(rig, 3)
    properties = record_properties(moved)

    assert (result.unique_key, result.record_key) == ("a", f"a#moved{first_py}")
    assert find(properties, UNIQ_KEY_NAME) == b"a#moved%d" % first_py
    assert find(properties, KEYS_NAME) == b"order a"
    assert find(own_properties(properties), UNIQ_KEY_NAME) == b"a"
    assert find(own_properties(properties), KEYS_NAME) == b"order"
    for wanted in (
        Wanted("T", f"a#moved{first_py}"),
        Wanted("T", "order", is_unique_key=False),
    ):
        again = rig.service.cancellation.reschedule(wanted, deliver_ms)
        assert (again.verdict, again.unique_key) == (Verdict.CANCELLED, "a")
        assert again.record_key not in (result.record_key, "a")


def test_a_producers_key_that_looks_moved_stays() -> None:
    """A move leaves it to the consumer as it was sent."""
    rig = waiting("a#moved5")
    result = rig.service.cancellation.reschedule(Wanted("T", "a#moved5"), SLOT_MS + 500)
    _, moved, _ = newest(rig, 3)

    assert result.verdict is Verdict.CANCELLED
    assert find(own_properties(record_properties(moved)), UNIQ_KEY_NAME) == b"a#moved5"


@pytest.mark.parametrize("key", ["with blank", "k" * 16_000])
def test_a_key_that_the_index_or_the_text_does_not_take_twice_stays(key: str) -> None:
    """No delete in the same slot may have its name then, for RocketMQ would delete both."""
    rig = waiting(key)
    result = rig.service.cancellation.reschedule(Wanted("T", key), SLOT_MS + 500)
    first, _, second = newest(rig, 3)

    assert (result.verdict, result.record_key) == (Verdict.CANCELLED, key)
    assert name_in(first) == b"T+%b#moved" % key.encode()
    assert name_in(second) == b"%b#moved" % key.encode()
    assert rig.service.cancellation.cancel(Wanted("T", key)).verdict is Verdict.CANCELLED
