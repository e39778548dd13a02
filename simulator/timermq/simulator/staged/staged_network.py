"""The network of a simulation: all connections to one address.

Bytes of one connection keep their order; different connections overtake each other, because each
has a delay of its own.

`StagedListener` and its streams pass the same tests as trio's.
"""

from __future__ import annotations

import errno
import itertools
import math
from collections import Counter
from collections.abc import Callable
from random import Random

import attrs
import trio

from timermq.remoting import Command

from ..scenario import NetworkPlan
from .staged_sockets import StagedSockets
from .staged_stream import StagedPipe, StagedStream, Wire

PORT_FIRST = 40_000


class StagedListener(trio.abc.Listener[StagedStream]):
    """The listener of a broker of the simulation.

    Attributes:
        sockets: Those that it accepts.
    """

    def __init__(self, network: StagedNetwork, sockets: StagedSockets) -> None:
        self.sockets = sockets
        self._network = network
        self._give, self._take = trio.open_memory_channel[StagedStream](math.inf)

    async def accept(self) -> StagedStream:
        """Wait for the next connection, and take it."""
        return await self._take.receive()

    async def aclose(self) -> None:
        """Accept no more; connections that are not accepted yet are cut."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close as ``aclose`` does, without its checkpoint."""
        self._network.forget(self)
        while True:
            try:
                self._take.receive_nowait().cut()
            except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                break
        self._take.close()

    def offer(self, stream: StagedStream) -> None:
        """Queue a connection until ``accept`` takes it. For the network."""
        self._give.send_nowait(stream)


class StagedNetwork:
    """All connections to one address.

    Args:
        draw: Decides delays, where pieces end, and what goes wrong.
        plan: How much of it.
        counts: What has gone wrong is counted here.
    """

    def __init__(
        self,
        draw: Random,
        plan: NetworkPlan = NetworkPlan(),  # noqa: B008 - it never changes
        counts: Counter[str] | None = None,
    ) -> None:
        self._draw = draw
        self._plan = plan
        self._counts = Counter[str]() if counts is None else counts
        self._ports = itertools.count(PORT_FIRST)
        self._listener: StagedListener | None = None
        self._listening = trio.Event()
        self._accepted: dict[StagedStream, None] = {}

    def listen(self) -> StagedListener:
        """Begin to accept; there is one listener at a time."""
        assert self._listener is None, "somebody listens already"
        sockets = StagedSockets(self._draw, self._plan, self._counts)
        self._listener = StagedListener(self, sockets)
        self._listening.set()
        return self._listener

    @property
    def listener(self) -> StagedListener | None:
        """The listener that accepts now; None while there is none."""
        return self._listener

    async def wait_listening(self) -> None:
        """Wait until there is a listener; returns at once if there is."""
        while self._listener is None:
            await self._listening.wait()

    async def connect(self, stall: Callable[[], float] = lambda: 0.0) -> StagedStream:
        """Open a connection.

        Args:
            stall: Seconds that what is sent now is held up, beside its delay.

        Raises:
            OSError: There is no listener.
        """
        await trio.lowlevel.checkpoint()
        if self._listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        longest = self._plan.delay_max_ms / 1000
        delay = self._draw.uniform(0, longest) if longest else 0.0
        wire = Wire(
            draw_delay=lambda: stall() + (self._draw.uniform(delay / 2, delay) if delay else 0.0),
            cut=self._cut,
            window_size=self._plan.window_size,
        )
        there = StagedPipe(wire, self._listener.sockets.wake)
        back = StagedPipe(wire, lambda: None)
        port = PORT_FIRST + (next(self._ports) - PORT_FIRST) % 20_000
        theirs = StagedStream(back, there, ("127.0.0.1", port))
        self._accepted[theirs] = None
        self._listener.offer(theirs)
        return StagedStream(there, back, ("127.0.0.1", 10_911))

    def seconds_of(self, size: int) -> float:
        """Seconds that so many bytes take at most, one window behind the other."""
        return size / self._plan.window_size * self._plan.delay_max_ms / 1000

    def is_elsewhere(self, answer: Command) -> bool:
        """Whether an answer tells that another broker is to be asked: there is none."""
        del answer
        return False

    def cut_all(self) -> None:
        """The listening process is gone: every connection is cut, and there is no listener."""
        for stream in self._accepted:
            stream.cut()
        self._accepted.clear()
        if self._listener is not None:
            self._listener.close()

    def forget(self, listener: StagedListener) -> None:
        """A listener was closed. For the listener."""
        if self._listener is listener:
            self._listener = None
            self._listening = trio.Event()

    def calm(self) -> None:
        """Nothing goes wrong from now on."""
        self._plan = attrs.evolve(self._plan, rough=0.0, breaks=0.0)
        if self._listener is not None:
            self._listener.sockets.plan = self._plan

    def _cut(self, data: bytes) -> list[bytes]:
        """The pieces that bytes arrive in."""
        if self._plan.pieces_max <= 1 or len(data) < 2 or self._draw.random() < 0.8:
            return [data]
        count = self._draw.randint(1, min(self._plan.pieces_max, len(data) - 1))
        ends = sorted(self._draw.sample(range(1, len(data)), count))
        return [data[start:end] for start, end in itertools.pairwise([0, *ends, len(data)])]
