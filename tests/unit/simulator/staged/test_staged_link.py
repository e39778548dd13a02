"""When a client of the simulation gives a request up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import trio
import trio.testing

from timermq.remoting import Command, FrameConnection, RequestCode, ResponseCode
from timermq.simulator.scenario import NetworkPlan
from timermq.simulator.staged.staged_link import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    STOPPING_SECONDS,
    StagedLink,
)
from timermq.simulator.staged.staged_network import StagedNetwork
from timermq.simulator.staged.staged_stream import StagedStream

SLOW = NetworkPlan(delay_max_ms=400, window_size=500)


async def asked(body: bytes | None) -> tuple[bytes | None, list[str], float]:
    """What is answered to a pull over a slow connection, the complaints, and the seconds.

    Args:
        body: Of the answer; None: there is none, but a request of the broker's own every second.
    """
    network, told = StagedNetwork(Random(1), SLOW), list[str]()
    link = StagedLink(network, lambda: None, Counter[str](), told.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_serve, network, body)
        began = trio.current_time()
        answers = await link.ask([Command(RequestCode.PULL_MESSAGE)])
        seconds = trio.current_time() - began
        nursery.cancel_scope.cancel()
    answer = answers[0] if answers else None
    return None if answer is None else answer.body, told, seconds


async def _serve(network: StagedNetwork, body: bytes | None) -> None:
    stream = await network.listen().accept()
    frames = FrameConnection()
    requests = list[Command]()
    while not requests:
        frames.receive_data(await stream.receive_some())
        requests += frames.events()
    if body is not None:
        await stream.send_all(frames.encode(requests[0].answer(ResponseCode.SUCCESS, body=body)))
    while True:
        await trio.sleep(1)
        if body is None:
            await stream.send_all(frames.encode(Command(RequestCode.CHECK_TRANSACTION_STATE)))


async def test_a_large_answer_has_the_time_that_its_bytes_take(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It comes a window at a time; the connection stands, and nothing is wrong."""
    body = bytes(200_000)
    answer, told, seconds = await asked(body)

    assert (body, []) == (answer, told)
    assert seconds > ANSWER_SECONDS


async def test_a_request_without_an_answer_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Whatever else the broker sends meanwhile."""
    answer, told, seconds = await asked(None)

    assert answer is None
    assert [text.partition(":")[0] for text in told] == ["a request without an answer"]
    assert seconds < 2 * ANSWER_SECONDS


class LateNetwork(StagedNetwork):
    """Somebody begins to listen while a connection is opened."""

    async def connect(self, stall: Callable[[], float] = lambda: 0.0) -> StagedStream:
        """Begin to listen, and then open a connection."""
        self.listen()
        return await super().connect(stall)

    async def stop(self) -> None:
        """Accept the connection, take its request, and stop in order."""
        await trio.sleep(CONNECT_SECONDS + STOPPING_SECONDS)
        assert self.listener is not None
        stream = await self.listener.accept()
        await stream.receive_some()
        await self.listener.aclose()
        await stream.aclose()


async def test_a_broker_that_begins_while_a_connection_is_opened_may_stop_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The connection is its own, so its stop explains that there is no answer."""
    network, told = LateNetwork(Random(1)), list[str]()
    link = StagedLink(network, lambda: None, Counter[str](), told.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(network.stop)
        answers = await link.ask([Command(RequestCode.PULL_MESSAGE)])

    assert (answers, told) == ([None], [])
