"""Answers that wait for followers: until they have it, are too few, or take too long."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker_rig import RecordingSession
from replication_rig import Scene, scene
from timermq.broker.replication.replicated_answers import ReplicatedAnswers
from timermq.broker.unflushed_answer import UnflushedAnswer
from timermq.remoting import Command, ResponseCode


class Waiting:
    """Answers that wait, and those that went, by their numbers."""

    def __init__(self, stage: Scene) -> None:
        self.gone: list[tuple[int, int]] = []
        self.answers = ReplicatedAnswers(stage.followers, self._finish)
        self._peer = RecordingSession()

    def _finish(self, answers: Sequence[UnflushedAnswer]) -> None:
        self.gone += [(one.answer.opaque, one.answer.code) for one in answers]

    def add(self, *ends: int) -> None:
        """Let an answer wait for each of these ends, by which it is known."""
        self.answers.add(
            [
                UnflushedAnswer(
                    self._peer.session,
                    Command(10, opaque=end).answer(ResponseCode.SUCCESS),
                    end,
                )
                for end in ends
            ]
        )


async def test_an_acknowledgement_lets_go_what_it_covers(autojump_clock: MockClock) -> None:
    """In the same step: no task has to wake for it."""
    stage = scene(in_sync_replicas=2)
    stage.grow(100)
    one, waiting = stage.link(100), Waiting(stage)
    stage.grow(200)
    waiting.add(90, 200, 300)
    assert waiting.gone == [(90, 0)]
    stage.copy(one, 250)
    assert waiting.gone == [(90, 0), (200, 0)]
    stage.copy(one)

    assert waiting.gone == [(90, 0), (200, 0), (300, 0)]
    assert waiting.answers.waiting == 0


async def test_without_followers_near_enough_nothing_waits(autojump_clock: MockClock) -> None:
    """SLAVE_NOT_AVAILABLE at once: the message is stored, and the producer decides."""
    stage = scene(in_sync_replicas=2)
    stage.grow(100)
    waiting = Waiting(stage)
    waiting.add(100)

    assert waiting.gone == [(100, ResponseCode.SLAVE_NOT_AVAILABLE)]


async def test_one_that_takes_too_long_is_told_so(autojump_clock: MockClock) -> None:
    """FLUSH_SLAVE_TIMEOUT after slave_timeout_ms, also where the follower has gone meanwhile."""
    stage = scene(in_sync_replicas=2, slave_timeout_ms=500)
    stage.grow(100)
    one, waiting = stage.link(50), Waiting(stage)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.answers.run)
        waiting.add(70)
        await trio.sleep(0.3)
        waiting.add(100)
        stage.followers.remove(one)
        await trio.sleep(0.19)
        assert waiting.gone == []
        await trio.sleep(0.02)
        assert waiting.gone == [(70, ResponseCode.FLUSH_SLAVE_TIMEOUT)]
        await trio.sleep(0.3)
        assert waiting.gone[1:] == [(100, ResponseCode.FLUSH_SLAVE_TIMEOUT)]
        stage.grow(10)
        two = stage.link(100, address="h:2")
        waiting.add(110)
        await wait_all_tasks_blocked()
        stage.copy(two)
        nursery.cancel_scope.cancel()

    assert waiting.gone[2:] == [(110, 0)]


@pytest.mark.parametrize("count", [1, 2])
async def test_as_many_followers_as_are_asked_for(autojump_clock: MockClock, count: int) -> None:
    """Those of in_sync_replicas, but for the master."""
    stage = scene(in_sync_replicas=count + 1)
    stage.grow(10)
    linked = [stage.link(10, number + 1, f"h:{number}") for number in range(2)]
    waiting = Waiting(stage)
    stage.grow(10)
    waiting.add(20)
    for done, one in enumerate(linked, start=1):
        stage.copy(one)
        assert bool(waiting.gone) == (done >= count)
