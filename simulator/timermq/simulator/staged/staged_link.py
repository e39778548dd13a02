"""The connection of a simulated client: asks, awaits answers, and ends in bad ways if told to."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import trio

from timermq.broker.connection import LINGER
from timermq.remoting import Command, FrameConnection, RequestCode

from ..steps import Disconnect, Leaving
from .staged_network import StagedListener
from .staged_stream import StagedStream

ANSWER_SECONDS = 8.0
"""Without an answer for so long, longer than a pull is held, the connection is given up.

The time that bytes take comes on top: a large answer is long under way where windows are small.
"""
STOPPING_SECONDS = 0.01
"""For so long it may not be seen yet that a broker stops, and leaves requests without an answer."""
SILENT_SECONDS = 100.0
"""The broker may be closing a connection that has been silent for so long."""
RULE = re.compile("[A-Z][A-Z_]{3,}")
"""How the remark of a refusal begins."""
CONNECT_SECONDS = 30.0
"""For so long a request waits for a broker that is not there."""


class Reachable(Protocol):
    """The place where a client connects: one broker, or one of several."""

    @property
    def listener(self) -> StagedListener | None:
        """The listener that accepts there now; None while there is none."""
        ...

    async def wait_listening(self) -> None:
        """Wait until there is a listener."""
        ...

    async def connect(self) -> StagedStream:
        """Open a connection; OSError where there is no listener."""
        ...

    def seconds_of(self, size: int) -> float:
        """Seconds that so many bytes take at most."""
        ...

    def is_elsewhere(self, answer: Command) -> bool:
        """Whether an answer tells that another broker is to be asked."""
        ...


class StagedLink:
    """One connection after the other; opened by the first request.

    Args:
        network: Where it connects.
        on_lost: Called when a connection has ended.
        counts: Refusals are counted here, by their rule.
        complain: Takes what must not happen.
    """

    def __init__(
        self,
        network: Reachable,
        on_lost: Callable[[], None],
        counts: Counter[str],
        complain: Callable[[str], None],
    ) -> None:
        self.requests = 0
        """Requests that left."""
        self.leaving: Disconnect | None = None
        """How the connection is to end, behind the next request."""
        self.checks: list[Command] = []
        """Transactions that the broker has asked about."""
        self.on_lost = on_lost
        self._network = network
        self._counts = counts
        self._complain = complain
        self._opaques = itertools.count(1)
        self._stream: StagedStream | None = None
        self._listener: StagedListener | None = None
        """Who has accepted it."""
        self._frames = FrameConnection()
        self._active_at = 0.0
        """When the last request left."""

    async def ask(self, commands: list[Command]) -> list[Command | None] | None:
        """Send requests in one piece and wait for their answers.

        Returns:
            An answer or None for each; None instead of the list when nothing has left.
        """
        stream = await self._connect()
        if stream is None:
            return None
        answers: dict[int, Command | None] = {}
        for command in commands:
            command.opaque = next(self._opaques)
            answers[command.opaque] = None
        self.requests += len(commands)
        leaving, self.leaving = self.leaving, None
        began = trio.current_time()
        silent, self._active_at = began - self._active_at, began
        data = b"".join(map(self._frames.encode, commands))
        try:
            with trio.move_on_after(
                ANSWER_SECONDS + self._network.seconds_of(len(data))
            ) as waiting:
                await stream.send_all(data)
                if leaving is not None:
                    await self._leave(stream, leaving)
                await self._receive(stream, answers, waiting)
            missing = [one.code for one in commands if answers[one.opaque] is None]
            if missing:
                seconds = trio.current_time() - began
                # A peer that has closed its half gets answers for a short time, and no held ones.
                has_left = leaving is not None and (
                    seconds >= LINGER or RequestCode.PULL_MESSAGE in missing
                )
                await trio.sleep(STOPPING_SECONDS)
                is_served = self._network.listener is self._listener
                if is_served and not has_left and silent < SILENT_SECONDS:
                    self._complain(f"a request without an answer: {missing} after {seconds:g} s")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.disconnect()
        if leaving is not None or None in answers.values():
            self.disconnect()
        if any(one is not None and self._network.is_elsewhere(one) for one in answers.values()):
            self.disconnect()
        for answer in answers.values():
            rule = "" if answer is None else (answer.remark or "").partition(":")[0]
            if RULE.fullmatch(rule):
                self._counts[f"refused: {rule}"] += 1
        return list(answers.values())

    async def _receive(
        self, stream: StagedStream, answers: dict[int, Command | None], waiting: trio.CancelScope
    ) -> None:
        """Receive until every request has its answer, or the broker closes."""
        left = len(answers)
        while left:
            data = await stream.receive_some()
            if not data:
                return
            waiting.deadline += self._network.seconds_of(len(data))
            self._frames.receive_data(data)
            for answer in self._frames.events():
                if answer.is_response and answer.opaque in answers:
                    answers[answer.opaque] = answer
                    left -= 1
                elif answer.code == RequestCode.CHECK_TRANSACTION_STATE:
                    self.checks.append(answer)

    async def _leave(self, stream: StagedStream, leaving: Disconnect) -> None:
        """End the connection behind a request that is under way."""
        if leaving.leaving is Leaving.HALF:
            await stream.send_eof()
            return
        for _ in range(leaving.turns):
            await trio.lowlevel.checkpoint()
        stream.cut()

    async def _connect(self) -> StagedStream | None:
        if self._stream is None:
            with trio.move_on_after(CONNECT_SECONDS):
                await self._network.wait_listening()
            try:
                self._stream = await self._network.connect()
                # Before, another one may have listened, or none yet.
                self._listener = self._network.listener
            except OSError:
                return None
            self._frames = FrameConnection()
        return self._stream

    def disconnect(self) -> None:
        """End the connection, if there is one; the next request opens another."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self.leaving = None
        self.on_lost()
