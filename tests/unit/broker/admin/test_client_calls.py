"""Requests that the broker makes of its clients, and the answers that it waits for."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from broker_rig import RecordingSession
from timermq.broker.admin.client_calls import CALL_TIMEOUT, ClientCalls
from timermq.broker.refusal import RefusedError
from timermq.remoting import Command


async def test_an_answer_goes_to_the_call_of_its_number(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Two calls of one connection are told apart, whichever is answered first."""
    calls, one, found = ClientCalls(), RecordingSession(), dict[int, int]()

    async def call(code: int) -> None:
        found[code] = (await calls.call(one.session, code, {})).code

    nursery.start_soon(call, 307)
    nursery.start_soon(call, 220)
    await one.wait_sent(2)
    for asked in reversed(one.sent):
        calls.answered(one.session, Command(asked.code + 1000, opaque=asked.opaque))
    await trio.testing.wait_all_tasks_blocked()

    assert found == {307: 1307, 220: 1220}


async def test_answers_of_other_connections_and_of_no_call_are_dropped(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A client answers for itself alone; the caller goes on waiting, and is told of the silence."""
    calls, one, other = ClientCalls(), RecordingSession(), RecordingSession()

    async def mislead() -> None:
        await one.wait_sent()
        opaque = one.sent[0].opaque
        calls.answered(other.session, Command(0, opaque=opaque))
        calls.answered(one.session, Command(0, opaque=opaque + 1))

    nursery.start_soon(mislead)
    begun = trio.current_time()
    with pytest.raises(RefusedError) as refusal:
        await calls.call(one.session, 307, {})

    assert (refusal.value.rule, refusal.value.code) == ("CLIENT_SILENT", 207)
    assert trio.current_time() - begun == pytest.approx(CALL_TIMEOUT)


async def test_a_connection_that_ends_ends_its_calls(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The caller learns at once that the client has left (206)."""
    calls, one = ClientCalls(), RecordingSession()

    async def leave() -> None:
        await one.wait_sent()
        one.session.is_open = False
        calls.drop(one.session)

    nursery.start_soon(leave)
    begun = trio.current_time()
    with pytest.raises(RefusedError) as refusal:
        await calls.call(one.session, 307, {})

    assert (refusal.value.rule, refusal.value.code) == ("CLIENT_GONE", 206)
    assert trio.current_time() == begun


async def test_a_client_never_sees_a_signature(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """With it the client could do what only the administrator may."""
    calls, one = ClientCalls(), RecordingSession()
    ext = {"AccessKey": "a", "Signature": "s", "SecurityToken": "t", "topic": "T"}
    nursery.start_soon(calls.call, one.session, 307, ext)
    await one.wait_sent()
    calls.answered(one.session, Command(0, opaque=one.sent[0].opaque))

    assert one.sent[0].ext == {"topic": "T"}
