"""The follower's side of the replication link: the master's log comes in, the own end goes out.

::

    receive ──▶ frames ──▶ log copy ──▶ commit log, queues
                              │
                              └ grown ──▶ report (at once, and every heartbeat)

One link copies until something is wrong: it never goes on behind bytes that do not follow. The
next link begins at the end of the log as it is then (``follower``).

Source: Java ``DefaultHAClient``, ``AutoSwitchHAClient``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import attrs
import trio

from timermq.pipeline.state.signal import Signal
from timermq.timerstore.log_copy import CopyError, LogCopy

from .follow_state import FollowError, FollowState
from .follower_greeting import greet
from .greeting import Greeting
from .ha_frames import (
    Epochs,
    EpochTransfer,
    EpochTransferReader,
    FrameError,
    Handshake,
    Transfer,
    TransferReader,
    encode_epoch_report,
    encode_handshake,
    encode_report,
)

_Frame = TypeVar("_Frame", Transfer, Epochs | EpochTransfer)

RECEIVE_SIZE = 1 << 20
"""Bytes read from the link at a time."""

FIRST_BYTE = b"\0"
"""The first byte of a log: the highest one of the size of a record of less than 16 MiB."""


@attrs.frozen(kw_only=True)
class LinkTimes:
    """How long a link may be silent, seconds."""

    heartbeat: float
    """The own end is reported so often at least."""
    housekeeping: float
    """A link on which nothing came for so long is dead."""


class FollowLink:
    """One link to the master; ``run`` is its task.

    Args:
        stream: Connected.
        copy: The end of the log.
        state: Shows how it stands.
        times: How long it may be silent.
        seconds: A clock that cannot be set.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        copy: LogCopy,
        state: FollowState,
        times: LinkTimes,
        seconds: Callable[[], float],
    ) -> None:
        self._stream = stream
        self._copy = copy
        self._state = state
        self._times = times
        self._seconds = seconds
        self._grown = Signal()
        self._reported = 0
        """The end that the next report names."""

    async def copy_plain(self, *, starts_at: int | None) -> None:
        """Follow a master that knows DefaultHA alone, RocketMQ's among them; never returns.

        RocketMQ's master takes 0 for a follower that wants the newest segment. One that wants all
        asks for the byte at 1: the one before it is known.

        Args:
            starts_at: Where an empty log is to begin; None: where the master likes.

        Raises:
            FollowError: The link is over; by its name.
        """
        end = self._copy.begin()
        skips_first = self._copy.is_empty and starts_at == 0
        if self._copy.is_empty and starts_at is not None:
            end = starts_at or len(FIRST_BYTE)
        self._reported = end
        reader = TransferReader()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report, encode_report)
            while True:
                for frame in self._frames(reader.feed, await self._receive()):
                    offset, body = frame.offset, frame.body
                    if skips_first and body:
                        self._check_first(offset)
                        offset, body = 0, FIRST_BYTE + body
                        skips_first = False
                    await self._take(offset, body)

    def _check_first(self, offset: int) -> None:
        if offset != len(FIRST_BYTE):
            raise FollowError("POSITION", f"expected bytes from 1 on, found them from {offset} on")

    async def greet(self, greeting: Greeting, secret: bytes | None) -> bytes:
        """Begin a link with a master of ours; what came behind its greeting.

        Args:
            greeting: What this side says of itself.
            secret: Shared with the master; None: without.

        Raises:
            FollowError: It is none, or refuses this follower.
        """
        return await greet(self._send, self._receive, greeting, secret)

    async def copy_epochs(
        self,
        broker_id: int,
        received: bytes,
        agree: Callable[[Epochs], int],
        keep_epoch: Callable[[EpochTransfer], None] | None = None,
    ) -> None:
        """Follow a master of ours that was greeted; never returns.

        Args:
            broker_id: Of this follower.
            received: What ``greet`` gave.
            agree: Given the master's epochs, brings the log to where both are equal; that is its
                end. Raises ``FollowError``.
            keep_epoch: Keeps the epoch of bytes before they are copied. Raises ``FollowError``.

        Raises:
            FollowError: The link is over; by its name.
        """
        await self._send(encode_handshake(Handshake(broker_id)))
        reader = EpochTransferReader()
        is_agreed = False
        async with trio.open_nursery() as nursery:
            data = received
            while True:
                for frame in self._frames(reader.feed, data):
                    if isinstance(frame, Epochs):
                        agree(frame)
                        self._reported = self._copy.begin()
                        if not is_agreed:
                            nursery.start_soon(self._report, encode_epoch_report)
                        is_agreed = True
                    elif not is_agreed:
                        raise FollowError("HANDSHAKE", "expected the master's epochs before bytes")
                    else:
                        self._state.note_epoch(frame)
                        if keep_epoch is not None and frame.body:
                            keep_epoch(frame)
                        await self._take(frame.offset, frame.body)
                data = await self._receive()

    def _frames(self, feed: Callable[[bytes], Iterable[_Frame]], data: bytes) -> Iterable[_Frame]:
        try:
            yield from feed(data)
        except FrameError as error:
            raise FollowError("FRAME", str(error)) from error

    async def _take(self, offset: int, body: bytes) -> None:
        """Copy the bytes of a frame; one without any is a heartbeat."""
        if not body:
            return
        try:
            end = await self._copy.append(offset, body)
        except CopyError as error:
            raise FollowError("LOG", str(error)) from error
        self._state.copied(len(body), offset + len(body), end, self._seconds())
        if end > self._reported:
            self._reported = end
            self._grown.set()

    async def _receive(self) -> bytes:
        with trio.move_on_after(self._times.housekeeping):
            try:
                data = await self._stream.receive_some(RECEIVE_SIZE)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise FollowError("LINK", f"the connection is broken: {error}") from error
            if not data:
                raise FollowError("LINK", "the master has closed the connection")
            self._state.read_at = self._seconds()
            return bytes(data)
        raise FollowError("LINK", f"nothing came for {self._times.housekeeping:g} s")

    async def _send(self, data: bytes) -> None:
        with trio.move_on_after(self._times.housekeeping):
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise FollowError("LINK", f"the connection is broken: {error}") from error
            self._state.written_at = self._seconds()
            return
        raise FollowError("LINK", f"nothing was taken for {self._times.housekeeping:g} s")

    async def _report(self, encode: Callable[[int], bytes]) -> None:
        """Tell the master the own end: when it has grown, and now and then."""
        while True:
            await self._send(encode(self._reported))
            await self._grown.wait_at_most(self._times.heartbeat)
