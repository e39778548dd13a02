"""The lines of replicas: each broker's two ports, lines between brokers, and a client's way.

Lines between brokers are cut in the middle of whatever is under way, or fall silent: what is sent
arrives when the silence is over.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from random import Random

import attrs
import trio

from timermq.remoting import Command, ResponseCode

from ..scenario import NetworkPlan
from ..staged.staged_network import StagedListener, StagedNetwork
from ..staged.staged_stream import StagedStream

HOST = "127.0.0.1"
PORT_FIRST = 10_911
PORTS_APART = 1_000
LOOK_SECONDS = 0.1
"""Between two looks whether any broker listens."""
_ELSEWHERE = (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.PULL_RETRY_IMMEDIATELY)


@attrs.define(eq=False)
class ReplicaPorts:
    """The ports of one broker."""

    number: int
    main: StagedNetwork
    ha: StagedNetwork

    @property
    def port(self) -> int:
        """The port for clients of the broker."""
        return PORT_FIRST + PORTS_APART * self.number

    @property
    def ha_port(self) -> int:
        """The port for followers of the broker."""
        return self.port + 1

    @property
    def address(self) -> str:
        """``host:port`` for clients of the broker."""
        return f"{HOST}:{self.port}"


class ReplicaLines:
    """All lines between the brokers of one simulation.

    Args:
        count: How many brokers.
        draw: Decides what goes wrong.
        plan: How much of it.
        counts: What has gone wrong is counted here.
    """

    def __init__(self, count: int, draw: Random, plan: NetworkPlan, counts: Counter[str]) -> None:
        self.ports = [
            ReplicaPorts(
                number, StagedNetwork(draw, plan, counts), StagedNetwork(draw, plan, counts)
            )
            for number in range(count)
        ]
        self.is_cut = False
        """No connection between brokers comes about."""
        self._draw = draw
        self._silent_until = 0.0
        self._streams: dict[StagedStream, None] = {}

    async def open(self, host: str, port: int) -> trio.abc.Stream:
        """Open a connection from one broker to another.

        Raises:
            OSError: Nothing listens there.

        Cancellation: nothing has changed.
        """
        number, is_ha = divmod(port - PORT_FIRST, PORTS_APART)
        if host != HOST or not 0 <= number < len(self.ports) or is_ha > 1:
            raise OSError(errno.EHOSTUNREACH, f"no broker at {host}:{port}")
        if self.is_cut:
            if self._draw.random() < 0.5:
                await trio.sleep_forever()
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        ports = self.ports[number]
        stream = await (ports.ha if is_ha else ports.main).connect(self._stall)
        for one in [one for one in self._streams if one.is_closed or one.is_broken]:
            del self._streams[one]
        self._streams[stream] = None
        return stream

    def cut(self) -> None:
        """Break all that is open between brokers, and let nothing come about."""
        self.is_cut = True
        for stream in self._streams:
            stream.cut()
        self._streams.clear()

    def heal(self) -> None:
        """Let connections come about again."""
        self.is_cut = False

    def fall_silent(self, seconds: float) -> None:
        """Let what is sent from now on arrive after so many seconds."""
        self._silent_until = trio.current_time() + seconds

    def calm(self) -> None:
        """Nothing goes wrong from now on."""
        self.heal()
        self._silent_until = 0.0
        for ports in self.ports:
            ports.main.calm()
            ports.ha.calm()

    def _stall(self) -> float:
        return max(self._silent_until - trio.current_time(), 0.0)


class ReplicaRoute:
    """The way of one client: to a broker that says it leads, and sometimes to another one.

    Args:
        lines: Where brokers listen.
        leaders: Numbers of those that lead, the newest first.
        draw: Decides where the client goes.
        strays: Share of connections to any broker.
    """

    def __init__(
        self,
        lines: ReplicaLines,
        leaders: Callable[[], list[int]],
        draw: Random,
        strays: float = 0.15,
    ) -> None:
        self._lines = lines
        self._leaders = leaders
        self._draw = draw
        self._strays = strays
        self._at = lines.ports[0].main

    @property
    def listener(self) -> StagedListener | None:
        """The listener of the broker that was connected to last."""
        return self._at.listener

    async def wait_listening(self) -> None:
        """Wait until a broker leads, or any one listens; and choose it."""
        while True:
            leaders = self._leaders()
            listening = [one.number for one in self._lines.ports if one.main.listener is not None]
            if listening and self._draw.random() < self._strays:
                self._at = self._lines.ports[self._draw.choice(listening)].main
                return
            if leaders:
                newest = leaders[0] if self._draw.random() < 0.6 else self._draw.choice(leaders)
                self._at = self._lines.ports[newest].main
                return
            await trio.sleep(LOOK_SECONDS)

    async def connect(self) -> StagedStream:
        """Open a connection to the chosen broker; OSError where nothing listens."""
        return await self._at.connect()

    def seconds_of(self, size: int) -> float:
        """Seconds that so many bytes take at most."""
        return self._at.seconds_of(size)

    def is_elsewhere(self, answer: Command) -> bool:
        """Whether a broker says that it does not lead."""
        return answer.code in _ELSEWHERE or (answer.remark or "").startswith("SLAVE:")
