"""Answers that are made in a task of the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from broker_rig import RecordingSession
from timermq.broker.deferred_answers import answer_later
from timermq.broker.refusal import RefusedError
from timermq.remoting import Command
from timermq.remoting.codes import ResponseCode

ONEWAY = 2
"""Bit of a flag that asks for no answer."""


async def answers_of(
    work: Callable[[], Awaitable[Command | None]], *, flag: int = 0
) -> list[Command]:
    """What a client is sent that asks for this work."""
    peer = RecordingSession()
    async with trio.open_nursery() as nursery:

        def start_soon(run: Callable[[], Awaitable[None]]) -> bool:
            nursery.start_soon(run)
            return True

        session = attrs.evolve(peer.session, start_soon=start_soon)
        answer_later(session, Command(318, opaque=7, flag=flag), work)
        assert not peer.sent
    return peer.sent


async def test_the_answer_is_sent_when_the_work_is_done() -> None:
    """Not before; the request's handler has returned meanwhile."""

    async def work() -> Command:
        await trio.lowlevel.checkpoint()
        return Command(0, opaque=7, flag=1)

    (answer,) = await answers_of(work)
    assert (answer.code, answer.opaque) == (0, 7)


async def test_work_without_an_answer_sends_none() -> None:
    """The answer goes another way."""

    async def work() -> None:
        await trio.lowlevel.checkpoint()

    assert await answers_of(work) == []


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (RefusedError(ResponseCode.NO_PERMISSION, "RULE", "not now"), 16, "RULE: not now"),
        (ValueError("a mistake"), 1, "SYSTEM_ERROR: ValueError('a mistake')"),
    ],
)
async def test_an_error_becomes_an_answer(error: Exception, code: int, remark: str) -> None:
    """A refusal says its rule, a mistake what it was; the other connections stay."""

    async def work() -> Command:
        raise error

    (answer,) = await answers_of(work)
    assert (answer.code, answer.opaque, answer.remark) == (code, 7, remark)


@pytest.mark.parametrize("error", [None, ValueError("a mistake")])
async def test_a_one_way_request_gets_no_answer(error: Exception | None) -> None:
    """Neither that of the work nor that of a failure."""

    async def work() -> Command:
        if error is not None:
            raise error
        return Command(0, opaque=7, flag=1)

    assert await answers_of(work, flag=ONEWAY) == []


async def test_too_many_tasks_of_a_connection_are_refused() -> None:
    """The client is told to come again (2); the work is not begun."""
    peer = RecordingSession()
    begun: list[None] = []

    async def work() -> None:
        begun.append(None)

    with pytest.raises(RefusedError) as caught:
        answer_later(peer.session, Command(318), work)

    assert (caught.value.code, caught.value.rule) == (2, "CONNECTION_TASKS_MAX")
    assert not begun
