"""Held pulls: answered by what arrives, by their end, and in turns with all others."""

from collections.abc import Callable
from typing import cast

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import RecordingSession
from timermq.broker.consuming.filter import ALL
from timermq.broker.consuming.long_polling import RUN_COUNT, HeldPull, LongPolling
from timermq.broker.costly_requests import REST_SECONDS_MAX, CostlyRequests
from timermq.broker.pool import Pool
from timermq.remoting import Command, ResponseCode
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue import ConsumeQueue


def make_pull(peer: RecordingSession, opaque: int = 1, topic: str = "T") -> HeldPull:
    """A pull of queue 0."""
    return HeldPull(
        session=peer.session,
        command=Command(11, opaque=opaque),
        group="G",
        topic=topic,
        queue_id=0,
        first_offset=0,
        offset=0,
        count_max=32,
        message_filter=ALL,
    )


def polling_of(held_max: int, *, of_one: int) -> LongPolling:
    """Room for so many pulls, and so many of one connection."""
    return LongPolling(
        Pool(lambda: held_max), CostlyRequests(trio.current_time), held_per_session_max=of_one
    )


def queue(topic: str = "T") -> ConsumeQueue:
    """A queue in which something has arrived."""
    return ConsumeQueue(MemoryDisk(), f"/{topic}/0", topic, 0, segment_size=200)


def answers(code: ResponseCode) -> Callable[[HeldPull], Command]:
    """Answers every pull with ``code``."""
    return lambda pull: pull.command.answer(code)


async def run_for(polling: LongPolling, run_again: Callable[[HeldPull], Command], s: float) -> None:
    """Let held pulls be answered for some seconds."""
    with trio.move_on_after(s):
        await polling.run(run_again)


async def test_an_arrival_wakes_the_pulls_of_its_queue(autojump_clock: MockClock) -> None:
    """Pulls of the queue run again and are answered at once; those of others rest."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    assert polling.hold(make_pull(peer, 1), 15)
    assert polling.hold(make_pull(peer, 2, "U"), 15)
    polling.notify_message_arriving(queue())
    await run_for(polling, answers(ResponseCode.SUCCESS), 1)

    assert [one.opaque for one in peer.sent] == [1]
    assert polling.held == 1
    assert peer.session.held_pulls == 1


async def test_an_arrival_wakes_a_pull_that_is_waited_with(autojump_clock: MockClock) -> None:
    """It is answered as soon as something arrives, not when its time is up."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(polling.run, answers(ResponseCode.SUCCESS))
        polling.hold(make_pull(peer), 15)
        await trio.sleep(1)
        assert peer.sent == []
        polling.notify_message_arriving(queue())
        await trio.testing.wait_all_tasks_blocked()
        assert [one.opaque for one in peer.sent] == [1]
        nursery.cancel_scope.cancel()


async def test_time_up_is_answered_in_time(autojump_clock: MockClock) -> None:
    """A pull that nothing arrives for is answered within the time it allowed, not before."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    polling.hold(make_pull(peer), 15)
    await run_for(polling, answers(ResponseCode.PULL_NOT_FOUND), 14.8)
    assert peer.sent == []
    await run_for(polling, answers(ResponseCode.PULL_NOT_FOUND), 0.3)

    assert [one.code for one in peer.sent] == [19]
    assert polling.held == 0


@pytest.mark.parametrize("code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY])
async def test_what_does_not_match_leaves_a_pull_held(
    autojump_clock: MockClock, code: ResponseCode
) -> None:
    """An arrival that the filter holds back is no answer."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    polling.hold(make_pull(peer), 15)
    polling.notify_message_arriving(queue())
    await run_for(polling, answers(code), 10)

    assert peer.sent == []
    assert polling.held == 1


async def test_an_earlier_deadline_counts(autojump_clock: MockClock) -> None:
    """A pull that may wait less than the one before is answered first."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(polling.run, answers(ResponseCode.PULL_NOT_FOUND))
        polling.hold(make_pull(peer, 1), 15)
        await trio.sleep(1)
        polling.hold(make_pull(peer, 2), 5)
        await trio.sleep(5.1)
        assert [one.opaque for one in peer.sent] == [2]
        await trio.sleep(9)
        nursery.cancel_scope.cancel()

    assert [one.opaque for one in peer.sent] == [2, 1]


async def test_a_delayed_answer_is_sent_as_it_is(autojump_clock: MockClock) -> None:
    """An answer that is held back runs nothing again."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    pull = make_pull(peer)
    pull.answer = pull.command.answer(ResponseCode.TOPIC_NOT_EXIST)
    polling.hold(pull, 1)
    polling.notify_message_arriving(queue())
    await run_for(polling, answers(ResponseCode.SUCCESS), 0.8)
    assert peer.sent == []
    await run_for(polling, answers(ResponseCode.SUCCESS), 0.3)

    assert [one.code for one in peer.sent] == [17]


async def test_the_end_of_a_connection_takes_its_pulls_away(autojump_clock: MockClock) -> None:
    """No client is there to be answered, and the room is free again."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    other = RecordingSession()
    polling.hold(make_pull(peer, 1), 15)
    polling.hold(make_pull(other, 2), 15)
    polling.drop(peer.session)
    await run_for(polling, answers(ResponseCode.PULL_NOT_FOUND), 20)

    assert peer.sent == []
    assert [one.opaque for one in other.sent] == [2]
    assert polling.held == 0


async def test_held_pulls_are_bounded(autojump_clock: MockClock) -> None:
    """One connection cannot take all the room, and all together cannot take more than there is."""
    polling, first, second, third = (
        polling_of(5, of_one=2),
        RecordingSession(peer="10.0.0.1"),
        RecordingSession(peer="10.0.0.2"),
        RecordingSession(peer="10.0.0.3"),
    )

    assert [polling.hold(make_pull(first), 15) for _ in range(3)] == [True, True, False]
    assert [polling.hold(make_pull(second), 15) for _ in range(3)] == [True, True, False]
    assert [polling.hold(make_pull(third), 15) for _ in range(2)] == [True, False]
    polling.drop(first.session)
    assert polling.hold(make_pull(third), 15)


async def test_who_is_there_leaves_room_for_others(autojump_clock: MockClock) -> None:
    """Connections of one address have half of the room together; then comes another."""
    polling = polling_of(8, of_one=8)
    many = [RecordingSession(peer="10.0.0.1") for _ in range(4)]
    other = RecordingSession(peer="10.0.0.2")

    held = [polling.hold(make_pull(one), 15) for one in many for _ in range(2)]
    assert held == [True] * 4 + [False] * 4
    assert [polling.hold(make_pull(other), 15) for _ in range(3)] == [True, True, False]


async def test_nothing_is_read_for_a_peer_that_takes_nothing(autojump_clock: MockClock) -> None:
    """Its pull stays held, also when its time is up, and is answered once the peer has read."""
    polling, peer, reads = polling_of(20, of_one=10), RecordingSession(), 0
    peer.has_room = False

    def run_again(pull: HeldPull) -> Command:
        nonlocal reads
        reads += 1
        return pull.command.answer(ResponseCode.SUCCESS)

    assert polling.hold(make_pull(peer), 2)
    polling.notify_message_arriving(queue())
    await run_for(polling, run_again, 5)
    assert (reads, peer.sent, polling.held) == (0, [], 1)

    peer.tell_room()
    await run_for(polling, run_again, 0.001)
    assert (reads, len(peer.sent), polling.held) == (1, 1, 0)


async def test_what_arrives_for_a_peer_that_takes_nothing_adds_nothing(
    autojump_clock: MockClock,
) -> None:
    """One word to be told of its room, whatever arrives meanwhile and for how many pulls."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    waiting: list[Callable[[], None]] = []
    peer.has_room, peer.session.when_room = False, waiting.append
    pulls = [make_pull(peer, 1), make_pull(peer, 2), make_pull(peer, 3, "U")]
    assert all(polling.hold(pull, 15) for pull in pulls)
    for _ in range(20):
        polling.wake("T", 0)
        polling.wake("U", 0)
        await run_for(polling, answers(ResponseCode.SUCCESS), 0.001)
    assert len(waiting) == 1

    peer.has_room = True
    waiting[0]()
    await run_for(polling, answers(ResponseCode.SUCCESS), 0.001)
    assert sorted(one.opaque for one in peer.sent) == [1, 2, 3]


async def test_a_pull_that_waits_for_a_rest_is_answered_behind_it(
    autojump_clock: MockClock,
) -> None:
    """Its time is up during a rest, and there is one at each later look: it has its turn, too."""
    costly, peer = CostlyRequests(trio.current_time), RecordingSession()
    polling = LongPolling(Pool(lambda: 20), costly, held_per_session_max=10)
    assert polling.hold(make_pull(peer), 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(polling.run, answers(ResponseCode.PULL_NOT_FOUND))
        await trio.sleep(1.95)
        for _ in range(10):
            costly.worked(peer.session, REST_SECONDS_MAX)
            await trio.sleep(REST_SECONDS_MAX + 0.001)
        nursery.cancel_scope.cancel()

    assert [one.code for one in peer.sent] == [19]


async def test_arrivals_without_a_break_hold_up_no_other_pull(autojump_clock: MockClock) -> None:
    """A pull whose time is up is answered though something arrives at each look."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    assert polling.hold(make_pull(peer, 1, "U"), 1)
    assert polling.hold(make_pull(peer, 2), 15)
    await trio.sleep(2)
    looks = 0

    def run_again(pull: HeldPull) -> Command:
        nonlocal looks
        looks += 1
        if pull.topic == "T" and looks < 1_000:
            polling.wake("T", 0)
        return pull.command.answer(ResponseCode.PULL_NOT_FOUND)

    polling.wake("T", 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(polling.run, run_again)
        await peer.wait_sent()
        nursery.cancel_scope.cancel()

    assert [one.opaque for one in peer.sent] == [1]
    assert looks < 10


async def test_a_pull_answered_early_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    """Thousands of pulls a second are held and answered; memory is that of those held now."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    for _ in range(100):
        polling.hold(make_pull(peer), 15)
        polling.notify_message_arriving(queue())
        await run_for(polling, answers(ResponseCode.SUCCESS), 0.001)

    assert len(peer.sent) == 100
    tables = cast("list[dict[object, object]]", [v for v in vars(polling).values() if v == {}])
    assert len(tables) == 7


async def test_an_arrival_does_not_wait_for_all_whose_time_is_up(
    autojump_clock: MockClock,
) -> None:
    """A thousand pulls are due together; what arrives meanwhile is answered after a few of them."""
    polling, peer = polling_of(2_000, of_one=1_000), RecordingSession()
    late = make_pull(peer, 999)
    assert polling.hold(late, 60)
    for opaque in range(10 * RUN_COUNT):
        assert polling.hold(make_pull(peer, opaque, "U"), 1)

    def run_again(pull: HeldPull) -> Command:
        if pull.command.opaque == 0:
            polling.notify_message_arriving(queue())
        return pull.command.answer(ResponseCode.SUCCESS)

    await run_for(polling, run_again, 2)

    assert [one.opaque for one in peer.sent].index(999) == RUN_COUNT


async def test_owners_take_turns(autojump_clock: MockClock) -> None:
    """Thousands of pulls of one client run again; what arrives for another is answered soon."""
    polling = polling_of(4_000, of_one=1_000)
    many, one = RecordingSession(peer="10.0.0.1"), RecordingSession(peer="10.0.0.2")
    answered: list[int] = []
    for opaque in range(1_000):
        assert polling.hold(make_pull(many, opaque), 60)
    assert polling.hold(make_pull(one, 5_000, "U"), 60)

    def run_again(pull: HeldPull) -> Command:
        answered.append(pull.command.opaque)
        if len(answered) == 10:
            polling.notify_message_arriving(queue("U"))
        return pull.command.answer(ResponseCode.SUCCESS)

    polling.notify_message_arriving(queue())
    await run_for(polling, run_again, 2)

    assert answered.index(5_000) == RUN_COUNT
    assert sorted(answered) == [*range(1_000), 5_000]


async def test_what_arrives_without_a_break_is_run_once_more(autojump_clock: MockClock) -> None:
    """A pull that waits for its turn does not get a further one by each arrival."""
    polling, peer, runs = polling_of(2_000, of_one=1_000), RecordingSession(), 0
    for opaque in range(100):
        assert polling.hold(make_pull(peer, opaque), 60)

    def run_again(pull: HeldPull) -> Command:
        nonlocal runs
        runs += 1
        if runs < 100:
            polling.notify_message_arriving(queue())
        return pull.command.answer(ResponseCode.PULL_NOT_FOUND)

    polling.notify_message_arriving(queue())
    await run_for(polling, run_again, 2)

    assert runs <= 300


async def test_pulls_of_one_connection_are_answered_in_one_write(
    autojump_clock: MockClock,
) -> None:
    """A client's sixteen queues time out together: sixteen answers, one system call."""
    polling, peer = polling_of(200, of_one=100), RecordingSession()
    flushed: list[int] = []
    peer.session.flush = lambda: flushed.append(len(peer.sent))
    for opaque in range(16):
        polling.hold(make_pull(peer, opaque), 1)
    await run_for(polling, answers(ResponseCode.PULL_NOT_FOUND), 2)

    assert [16] == flushed


@pytest.mark.parametrize("arrives", [True, False], ids=["arrived", "due"])
async def test_a_mistake_with_a_held_pull_is_its_answer(
    autojump_clock: MockClock, arrives: bool
) -> None:
    """None is known, so one is made: the pull is answered and logged, the others as ever."""
    polling, peer = polling_of(20, of_one=10), RecordingSession()
    for opaque in (1, 2, 3):
        assert polling.hold(make_pull(peer, opaque), 1)

    def run_again(pull: HeldPull) -> Command:
        if pull.command.opaque == 2:
            raise ZeroDivisionError
        return pull.command.answer(ResponseCode.SUCCESS)

    if arrives:
        polling.notify_message_arriving(queue())
    with capture_logs() as logs:
        await run_for(polling, run_again, 0.5 if arrives else 2)

    assert [(one.opaque, one.code) for one in peer.sent] == [(1, 0), (2, 1), (3, 0)]
    assert peer.sent[1].remark == "SYSTEM_ERROR: the broker failed, see its log"
    assert [(one["event"], one["topic"]) for one in logs] == [("held pull failed", "T")]
    assert polling.held == 0
