"""The sockets of a simulated broker, by their numbers, with everything that a kernel may do.

Reads bring less than has arrived, writes take less than there is room for, either finds nothing
though the poll has told otherwise, the poll tells of sockets that have nothing, and a connection
breaks behind any of it, in the middle of a frame. Numbers are given out again as soon as they are
free, the lowest first. `StagedSockets` passes the same tests as the kernel's.
"""

from __future__ import annotations

import errno
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from random import Random

import trio

from ..scenario import NetworkPlan
from .staged_stream import StagedStream

NUMBER_FIRST = 10
READABLE = 1
"""The kernel's value of EPOLLIN."""
SHORT_MAX = 300
"""Bytes of a read or write that is cut short."""
BREAKS_AT_REST = 20
"""Times that a connection which begins to rest breaks rather than one that is read."""
NOTHING_SHARE = 0.3
"""Of the reads and writes that fall short those that do not go at all."""


class StagedSockets:
    """The sockets of one process.

    Args:
        draw: Decides what goes wrong.
        plan: How much of it.
        counts: What has gone wrong is counted here.
    """

    def __init__(self, draw: Random, plan: NetworkPlan, counts: Counter[str]) -> None:
        self.plan = plan
        self._draw = draw
        self._counts = counts
        self._streams: dict[int, StagedStream] = {}
        self._rests: dict[int, bool] = {}
        """Those that are registered; as in the kernel, a closed one is so no more."""
        self._change = trio.Event()

    def peer_of(self, stream: trio.abc.Stream) -> tuple[str, int]:
        """Host and port of the other end."""
        assert isinstance(stream, StagedStream), f"{stream!r}: expected a staged stream"
        if stream.is_broken:
            raise OSError(errno.ENOTCONN, "transport endpoint is not connected")
        return stream.peer

    def number_of(self, stream: trio.abc.Stream) -> int | None:
        """The number of a stream, given to it when it is asked for; -1 when it is closed."""
        if not isinstance(stream, StagedStream):
            return None
        if stream.is_closed:
            return -1
        self._forget_closed()
        for number, one in self._streams.items():
            if one is stream:
                return number
        number = next(one for one in itertools.count(NUMBER_FIRST) if one not in self._streams)
        self._streams[number] = stream
        return number

    async def first_byte(self, stream: trio.abc.Stream) -> bytes | None:
        """Wait for the first byte, which stays where it is."""
        return await stream.first_byte() if isinstance(stream, StagedStream) else None

    def register(self, number: int) -> None:
        """Have the poll tell of a socket."""
        self._open(number)
        if number in self._rests:
            raise FileExistsError(errno.EEXIST, "file exists")
        self._rests[number] = False
        self.wake()

    def rest(self, number: int, *, rests: bool) -> None:
        """Tell of what arrives no more, or again."""
        self._check_registered(number)
        self._rests[number] = rests
        self.wake()
        if rests:
            self._counts["sockets: rests"] += 1
            self._break(self._open(number), self.plan.breaks * BREAKS_AT_REST)

    def unregister(self, number: int) -> None:
        """Tell of a socket no more."""
        self._check_registered(number)
        del self._rests[number]

    async def wait(self) -> None:
        """Wait until the poll has something to tell, in virtual time."""
        await trio.lowlevel.checkpoint()
        while (tells_at := min(map(self._tells_at, self._rests), default=math.inf)) > _now():
            self._change = trio.Event()
            with trio.move_on_at(tells_at):
                await self._change.wait()

    def poll(self, count_max: int) -> Sequence[tuple[int, int]]:
        """Numbers that may be read from now, and sometimes one that may not."""
        self._forget_closed()
        found = [number for number in self._rests if self._tells_at(number) <= _now()]
        self._counts["sockets: break told of one at rest"] += sum(
            self._rests[number] for number in found
        )
        silent = [
            number for number, rests in self._rests.items() if not rests and number not in found
        ]
        if silent and self._meets(self.plan.rough):
            self._counts["sockets: poll mistaken"] += 1
            found.append(self._draw.choice(silent))
        if self.plan.rough:
            self._draw.shuffle(found)
        return [(number, READABLE) for number in found[:count_max]]

    def read(self, number: int, size_max: int, /) -> bytes:
        """The arrived bytes, or some of them."""
        stream = self._open(number)
        if self._meets(self.plan.rough):
            self._counts["sockets: short read"] += 1
            if self._meets(NOTHING_SHARE):
                raise BlockingIOError(errno.EAGAIN, "nothing has arrived")
            size_max = self._draw.randint(1, min(size_max, SHORT_MAX))
        data = stream.read(size_max)
        self._break(stream, self.plan.breaks)
        return data

    def write(self, number: int, data: bytes, /) -> int:
        """Send as much as there is room for, or some of it."""
        stream = self._open(number)
        size = len(data)
        if data and self._meets(self.plan.rough):
            if self._meets(NOTHING_SHARE):
                raise BlockingIOError(errno.EAGAIN, "no room")
            size = self._draw.randint(1, min(size, SHORT_MAX))
        sent = stream.write(data[:size])
        self._counts["sockets: short write"] += sent < len(data)
        self._break(stream, self.plan.breaks)
        return sent

    def close(self) -> None:
        """Forget which sockets are registered; their streams stay open."""
        self._rests.clear()

    def wake(self) -> None:
        """Something has changed. For the streams."""
        self._change.set()

    def _tells_at(self, number: int) -> float:
        """When there is something to tell of a registered socket; inf: not before a change."""
        stream = self._streams[number]
        if stream.is_closed or (self._rests[number] and not stream.is_broken):
            return math.inf
        return stream.tells_at

    def _open(self, number: int) -> StagedStream:
        self._forget_closed()
        stream = self._streams.get(number)
        if stream is None:
            raise OSError(errno.EBADF, "bad file descriptor")
        return stream

    def _check_registered(self, number: int) -> None:
        self._open(number)
        if number not in self._rests:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory")

    def _forget_closed(self) -> None:
        for number in [number for number, one in self._streams.items() if one.is_closed]:
            del self._streams[number]
            self._rests.pop(number, None)

    def _break(self, stream: StagedStream, share: float) -> None:
        if not stream.is_broken and self._meets(share):
            self._counts["sockets: broken"] += 1
            stream.cut()

    def _meets(self, share: float) -> bool:
        return share > 0 and self._draw.random() < share


def _now() -> float:
    return trio.current_time()
