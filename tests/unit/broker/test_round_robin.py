"""Tests of the turns that requests take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from broker_rig import RecordingSession, Rig
from timermq.broker.costly_requests import COSTLY_SECONDS, REST_RATIO, ROUND_SECONDS, CostlyRequests
from timermq.broker.round_robin import RoundRobin
from timermq.broker.sending.send_reader import STEP_COUNT
from timermq.broker.session import Answer, Session
from timermq.broker.speaker import Speaker
from timermq.broker.steps import Steps
from timermq.remoting import Command, RequestCode
from timermq.remoting.connection import Received
from timermq.timerstore.batch import BatchPart, join_batch

COSTLY = 9_990


class Bench:
    """Turns over a dispatcher whose one request takes its time."""

    def __init__(self, clock: MockClock, seconds: float) -> None:
        rig = Rig()
        self.broker = rig.broker
        self.seconds = seconds
        self.worked: list[tuple[str, int]] = []
        self.costly = CostlyRequests(trio.current_time)
        self.round_robin = RoundRobin(rig.broker.dispatcher, self.costly)

        def work(session: Session, command: Command) -> Command:
            clock.jump(self.seconds)
            self.worked.append((session.peer, command.opaque))
            return command.answer(0)

        rig.broker.dispatcher.handlers[COSTLY] = work
        steps_of = rig.broker.dispatcher.steps

        def slow_steps(
            session: Session, speaker: Speaker, command: Command
        ) -> Steps[Answer | None]:
            steps = steps_of(session, speaker, command)
            while True:
                clock.jump(0 if command.code == COSTLY else self.seconds)
                try:
                    next(steps)
                except StopIteration as end:
                    return cast("Answer | None", end.value)
                yield

        vars(rig.broker.dispatcher)["steps"] = slow_steps

    async def run(self, ticks: int) -> None:
        """Let the task go on for so many turns of the event loop."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.round_robin.run)
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


def batch(count: int) -> Command:
    """A batch of so many messages."""
    ext = {
        "a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0",
        "i": "", "j": "0", "k": "false", "m": "true",
    }  # fmt: skip
    body = join_batch([BatchPart(0, b"x", b"")] * count)
    return Command(RequestCode.SEND_BATCH_MESSAGE, ext=ext, body=body)


def commands(count: int) -> list[Command]:
    """So many requests of the code that takes long, numbered from 0 on."""
    return [Command(COSTLY, opaque=at) for at in range(count)]


async def test_connections_are_worked_for_in_turn(mock_clock: MockClock) -> None:
    """Thirty requests of one do not come before the first of another."""
    bench = Bench(mock_clock, ROUND_SECONDS / 4)
    many, one = RecordingSession(peer="many"), RecordingSession(peer="one")
    bench.round_robin.receive([(many.session, commands(30)), (one.session, commands(1))])
    await bench.run(100)

    assert bench.worked[:3] == [("many", 0), ("one", 0), ("many", 1)]
    assert bench.worked[3:] == [("many", at) for at in range(2, 30)]
    assert [len(many.sent), len(one.sent)] == [30, 1]


async def test_a_round_ends_and_others_go_on(mock_clock: MockClock) -> None:
    """A chunk of requests is not worked off at once: a round is two milliseconds."""
    bench = Bench(mock_clock, ROUND_SECONDS / 2)
    peer = RecordingSession()
    bench.round_robin.receive([(peer.session, commands(30))])
    assert len(bench.worked) == 2
    waits: list[int] = []
    peer.session.waits = lambda: waits.append(len(peer.session.backlog))
    await bench.run(3)

    assert 4 <= len(bench.worked) < 20
    assert waits[0] == 27


async def test_behind_what_took_long_there_is_a_rest(autojump_clock: MockClock) -> None:
    """Of one that asks for costly things; who does not is served meanwhile."""
    bench = Bench(autojump_clock, 10 * ROUND_SECONDS)
    costly, quick = RecordingSession(peer="costly"), RecordingSession(peer="quick")
    bench.round_robin.receive([(costly.session, commands(3))])
    assert len(bench.worked) == 1
    bench.seconds = 0
    bench.round_robin.receive([(quick.session, commands(2))])
    assert bench.worked[1:] == [("quick", 0), ("quick", 1)]

    async with trio.open_nursery() as nursery:
        await nursery.start(bench.round_robin.run)
        await trio.sleep((10 * REST_RATIO - 1) * ROUND_SECONDS)
        assert len(bench.worked) == 3
        await trio.sleep(2 * ROUND_SECONDS)
        assert bench.worked[3:] == [("costly", 1), ("costly", 2)]
        nursery.cancel_scope.cancel()


async def test_a_short_rest_cuts_no_long_one_short(mock_clock: MockClock) -> None:
    """Somebody who is new asks for something costly meanwhile: that takes nothing from the rest."""
    costly = CostlyRequests(trio.current_time)
    costly.worked(RecordingSession(peer="1").session, 50 * ROUND_SECONDS)
    mock_clock.jump(ROUND_SECONDS)
    costly.worked(RecordingSession(peer="2").session, 3 * ROUND_SECONDS)

    assert costly.rest_until == pytest.approx(50 * REST_RATIO * ROUND_SECONDS)


async def test_new_connections_of_who_asks_for_costly_things_wait_too(
    mock_clock: MockClock,
) -> None:
    """A connection for each costly request does not help; older ones of the address are served."""
    bench = Bench(mock_clock, 10 * ROUND_SECONDS)
    old, costly = RecordingSession(peer="address"), RecordingSession(peer="address")
    bench.round_robin.receive([(costly.session, commands(1))])
    new = RecordingSession(peer="address")
    new.session.opened_at = trio.current_time()
    bench.seconds = 0
    bench.round_robin.receive([(old.session, commands(1)), (new.session, commands(1))])

    assert len(bench.worked) == 2
    mock_clock.jump(COSTLY_SECONDS)
    later = RecordingSession(peer="address")
    later.session.opened_at = trio.current_time()
    bench.round_robin.receive([(later.session, commands(1))])
    assert len(bench.worked) == 3


async def test_nothing_is_worked_out_for_a_peer_that_does_not_read(mock_clock: MockClock) -> None:
    """Its requests wait until it has room; those of others do not."""
    bench = Bench(mock_clock, 0)
    deaf, other = RecordingSession(peer="deaf"), RecordingSession(peer="other")
    deaf.has_room = False
    bench.round_robin.receive([(deaf.session, commands(3)), (other.session, commands(2))])
    assert bench.worked == [("other", 0), ("other", 1)]
    bench.round_robin.receive([(other.session, commands(1))])
    assert len(bench.worked) == 3
    deaf.tell_room()
    await bench.run(3)

    assert bench.worked[3:] == [("deaf", 0), ("deaf", 1), ("deaf", 2)]


async def test_the_end_of_a_connection_ends_its_turns(mock_clock: MockClock) -> None:
    """What it asked for is not worked out any more, whether it waits for room or in the line."""
    bench = Bench(mock_clock, ROUND_SECONDS)
    one, deaf = RecordingSession(peer="one"), RecordingSession(peer="deaf")
    deaf.has_room = False
    bench.round_robin.receive([(deaf.session, commands(3)), (one.session, commands(3))])
    for peer in (one, deaf):
        bench.round_robin.drop(peer.session)
        peer.tell_room()
    await bench.run(5)

    assert bench.worked == [("one", 0)]


async def test_frames_are_read_on_when_the_first_are_done(mock_clock: MockClock) -> None:
    """A connection gives out some requests at a time; access control may let none of them by."""
    bench = Bench(mock_clock, 0)
    peer = RecordingSession()
    rest: list[Sequence[Received]] = [commands(2), [], commands(1)]
    peer.session.has_more = lambda: bool(rest)
    peer.session.more = lambda: rest.pop(0)
    bench.round_robin.receive([(peer.session, commands(1))])

    assert len(bench.worked) == 4
    assert rest == []


async def test_costly_requests_have_their_turns_beside_others(autojump_clock: MockClock) -> None:
    """However much others ask for without a break: who waits for a rest is served behind it."""
    bench = Bench(autojump_clock, 10 * ROUND_SECONDS)
    costly, busy = RecordingSession(peer="costly"), RecordingSession(peer="busy")
    bench.round_robin.receive([(costly.session, commands(2))])
    bench.seconds = ROUND_SECONDS
    busy.session.has_more = lambda: True
    busy.session.more = lambda: commands(1)
    bench.round_robin.receive([(busy.session, commands(1))])
    await bench.run(80)

    assert ("costly", 1) in bench.worked
    assert bench.worked.count(("busy", 0)) > 10


async def test_a_large_batch_is_read_in_steps(mock_clock: MockClock) -> None:
    """What another asks for meanwhile is done before it is stored, as a whole and in the end."""
    bench = Bench(mock_clock, ROUND_SECONDS)
    large, other = RecordingSession(peer="large"), RecordingSession(peer="other")
    log = bench.broker.store.commit_log
    bench.round_robin.receive([(large.session, [batch(4 * STEP_COUNT)])])
    bench.round_robin.receive([(other.session, commands(1))])
    await bench.run(4)
    assert (log.max_offset, large.sent, bench.worked) == (0, [], [("other", 0)])
    bench.round_robin.receive([])
    await bench.run(60)

    assert [one.code for one in large.sent] == [0]
    assert large.sent[0].ext["msgId"].count(",") == 4 * STEP_COUNT - 1
    assert not large.session.backlog


async def test_a_batch_of_who_has_gone_is_not_stored(mock_clock: MockClock) -> None:
    """A batch that was half read leaves nothing."""
    bench = Bench(mock_clock, ROUND_SECONDS)
    peer = RecordingSession()
    bench.round_robin.receive([(peer.session, [batch(4 * STEP_COUNT)])])
    bench.round_robin.drop(peer.session)
    await bench.run(60)

    assert (bench.broker.store.commit_log.max_offset, peer.sent) == (0, [])


async def test_of_one_owner_one_batch_at_a_time_is_half_read(mock_clock: MockClock) -> None:
    """What is read of batches takes memory: who asks for costly things has that of one."""
    bench = Bench(mock_clock, ROUND_SECONDS)
    peers = [RecordingSession(peer="owner") for _ in range(4)]
    for peer in peers:
        bench.costly.worked(peer.session, 10 * ROUND_SECONDS, is_send=True)
        bench.round_robin.receive([(peer.session, [batch(4 * STEP_COUNT)])])
    half_read: list[int] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(bench.round_robin.run)
        for _ in range(600):
            await trio.lowlevel.checkpoint()
            half_read.append(len(bench.round_robin.begun))
        nursery.cancel_scope.cancel()

    assert [len(peer.sent) for peer in peers] == [1, 1, 1, 1]
    assert set(half_read) == {0, 1}


async def test_what_is_not_costly_waits_for_no_costly_request(mock_clock: MockClock) -> None:
    """It has come behind the pause, which the task is through with: the next batch comes later."""
    bench = Bench(mock_clock, 0)
    costly, quick = RecordingSession(peer="costly"), RecordingSession(peer="quick")
    bench.costly.worked(costly.session, 10 * ROUND_SECONDS, is_send=True)
    bench.round_robin.receive([(costly.session, commands(2))])
    async with trio.open_nursery() as nursery:
        await bench.costly.pauses.work(partial(nursery.start_soon, bench.round_robin.run))
        nursery.start_soon(
            bench.costly.pauses.work,
            partial(bench.round_robin.receive, [(quick.session, commands(1))]),
        )
        await quick.wait_sent()
        nursery.cancel_scope.cancel()

    assert ("quick", 0) in bench.worked[:2]


async def test_a_connection_whose_requests_wait_is_told(mock_clock: MockClock) -> None:
    """At once, so that nothing more is received from it; whichever line it waits in."""
    bench = Bench(mock_clock, 10 * ROUND_SECONDS)
    costly, first, second = (RecordingSession(peer=name) for name in ("costly", "1", "2"))
    bench.round_robin.receive([(costly.session, commands(1))])
    told: list[tuple[str, int]] = []

    def tell(session: Session) -> None:
        told.append((session.peer, len(session.backlog)))

    for peer in (costly, first, second):
        peer.session.waits = partial(tell, peer.session)
    bench.round_robin.receive([(costly.session, commands(2))])
    assert told == [("costly", 2)]
    bench.round_robin.receive([(first.session, commands(1)), (second.session, commands(3))])

    assert told[-1] == ("2", 3)


@pytest.mark.parametrize("opaque", [1, 2])
async def test_one_way_requests_are_done_and_not_answered(
    mock_clock: MockClock, opaque: int
) -> None:
    """The work is done, and nothing goes back to the peer."""
    bench = Bench(mock_clock, 0)
    peer = RecordingSession()
    bench.round_robin.receive([(peer.session, [Command(COSTLY, opaque=opaque, flag=2)])])

    assert (bench.worked, peer.sent) == ([("127.0.0.1", opaque)], [])
