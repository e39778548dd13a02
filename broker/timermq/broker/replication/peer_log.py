"""The commit log of another replica, read in parts over its replication link.

A reader begins as a follower does, at any position, and ends the link when it has enough. Brokers
of ours are told that it is a learner: it counts nowhere among their followers, and followers let it
read too. RocketMQ's brokers take it for a slave whose log ends where it begins to read.

Source: Java ``DefaultHAConnection``, which sends from the offset of the first report on.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import attrs
import trio

from timermq.timerstore.errors import StoreError

from ..namesrv.name_server_link import OpenStream
from .follow_link import FIRST_BYTE, RECEIVE_SIZE
from .follow_state import FollowError
from .follower_greeting import greet
from .greeting import Greeting
from .ha_frames import (
    EpochTransfer,
    EpochTransferReader,
    FrameError,
    Handshake,
    TransferReader,
    encode_epoch_report,
    encode_handshake,
    encode_report,
)
from .master_calls import MasterCalls, MasterFacts, MasterLog

CONNECT_TIMEOUT = 5.0
"""Seconds that opening a connection may take."""
SILENCE_TIMEOUT = 20.0
"""Seconds within which bytes that the other side has must come."""
REPORT_INTERVAL = 5.0
"""Seconds between two reports: without any the other side ends the link."""
SKIPPED_SIZE_MAX = 1 << 20
"""Bytes of a link that are passed over: fewer than what another link would throw away."""
LEARNER_ID = -1


class PeerLogError(StoreError):
    """The log of another replica cannot be read; what is wrong there is said by a rule's name."""


@attrs.define(eq=False, kw_only=True)
class PeerLog:
    """The log of one replica while it is read; see ``opened_peer_log``.

    Args:
        place: ``host:port`` of the replica, where clients reach it.
        facts: What it says of itself.
        ends: The ends of its log.
        ha_address: ``host:port`` of its replication link.
        open_stream: Opens a connection.
        secret: Shared with replicas; None: without.
        tls: For links to brokers of ours.
    """

    place: str
    facts: MasterFacts
    ends: MasterLog
    ha_address: str
    open_stream: OpenStream
    secret: bytes | None = None
    tls: ssl.SSLContext | None = None
    _stream: trio.abc.Stream | None = attrs.field(default=None, init=False)
    _frames: _PlainFrames | _EpochFrames = attrs.field(init=False)
    _at: int = attrs.field(default=-1, init=False)
    """Position of the next byte of the link."""
    _begun_at: int = attrs.field(default=0, init=False)
    """Position at which the link began: no more is acknowledged."""
    _rest: bytes = attrs.field(default=b"", init=False)
    """Bytes that have come and were not asked for yet."""
    _reported_at: float = attrs.field(default=0.0, init=False)

    @property
    def segment_size(self) -> int:
        """Bytes of one segment of its log; 0 when it does not say."""
        return self.facts.segment_size or 0

    @property
    def start(self) -> int:
        """Position of the first byte that it has."""
        return self.ends.start

    @property
    def end(self) -> int:
        """Position behind the last one, as of the first question."""
        return self.ends.end

    async def read(self, first: int, size: int) -> bytes:
        """Bytes from a position on: as many as have come, none where it has none.

        Args:
            first: Position of the first byte.
            size: Bytes at most.

        Raises:
            PeerLogError: They do not come.

        Cancellation: the next call begins another link.
        """
        if size <= 0 or not self.start <= first < self.end:
            return b""
        try:
            if self._stream is None or not 0 <= first - self._at <= SKIPPED_SIZE_MAX:
                await self._link(first)
            while len(self._rest) <= first - self._at:
                await self._take()
        except BaseException as error:
            await self.aclose()
            if isinstance(error, FollowError):
                raise PeerLogError(f"{self.place}: {error}") from error
            raise
        start = first - self._at
        data, self._rest = self._rest[start : start + size], self._rest[start + size :]
        self._at += start + len(data)
        return data

    async def aclose(self) -> None:
        """End the link, if there is one."""
        stream, self._stream, self._rest, self._at = self._stream, None, b"", -1
        if stream is not None:
            await trio.aclose_forcefully(stream)

    async def _link(self, first: int) -> None:
        """Begin a link at a position."""
        await self.aclose()
        is_ours = self.facts.is_ours
        self._stream = await _connected(
            self.open_stream, self.ha_address, self.tls if is_ours else None
        )
        self._at = self._begun_at = first
        if is_ours:
            self._frames = _EpochFrames()
            greeting = Greeting(
                broker_name=self.facts.broker_name,
                broker_id=LEARNER_ID,
                segment_size=self.segment_size,
                nonce="",
                is_learner=True,
            )
            rest = await greet(self._send, self._receive, greeting, self.secret)
            await self._send(encode_handshake(Handshake(LEARNER_ID, is_learner=True)))
            await self._report(first)
            self._add(self._frames.feed(rest))
            return
        self._frames = _PlainFrames()
        await self._report(first)
        if first == 0:
            # RocketMQ takes 0 for the newest segment. Records are below 16 MiB.
            self._rest = FIRST_BYTE

    async def _report(self, first: int) -> None:
        self._reported_at = trio.current_time()
        is_plain = isinstance(self._frames, _PlainFrames)
        report = encode_report(first or len(FIRST_BYTE)) if is_plain else encode_epoch_report(first)
        await self._send(report)

    async def _take(self) -> None:
        """Take the bytes that come next."""
        self._add(self._frames.feed(await self._receive()))
        if trio.current_time() - self._reported_at >= REPORT_INTERVAL:
            await self._report(self._begun_at)

    def _add(self, found: Iterable[tuple[int, bytes]]) -> None:
        try:
            for offset, body in found:
                expected = self._at + len(self._rest)
                if offset != expected:
                    raise FollowError(
                        "POSITION", f"expected bytes from {expected} on, found them from {offset}"
                    )
                self._rest += body
        except FrameError as error:
            raise FollowError("FRAME", str(error)) from error

    async def _receive(self) -> bytes:
        assert self._stream is not None
        with trio.move_on_after(SILENCE_TIMEOUT):
            try:
                data = bytes(await self._stream.receive_some(RECEIVE_SIZE))
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise FollowError("LINK", f"the connection is broken: {error}") from error
            if not data:
                raise FollowError("LINK", "the connection was closed")
            return data
        raise FollowError("LINK", f"nothing came for {SILENCE_TIMEOUT:g} s")

    async def _send(self, data: bytes) -> None:
        assert self._stream is not None
        with trio.move_on_after(SILENCE_TIMEOUT):
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise FollowError("LINK", f"the connection is broken: {error}") from error
            return
        raise FollowError("LINK", f"nothing was taken for {SILENCE_TIMEOUT:g} s")


class _PlainFrames:
    """What a broker of RocketMQ's sends."""

    def __init__(self) -> None:
        self._reader = TransferReader()

    def feed(self, data: bytes) -> Iterable[tuple[int, bytes]]:
        """Positions and bytes of the log that are whole with these."""
        for one in self._reader.feed(data):
            if one.body:
                yield one.offset, one.body


class _EpochFrames:
    """What a broker of ours sends behind its greeting."""

    def __init__(self) -> None:
        self._reader = EpochTransferReader()

    def feed(self, data: bytes) -> Iterable[tuple[int, bytes]]:
        """Positions and bytes of the log that are whole with these."""
        for one in self._reader.feed(data):
            if isinstance(one, EpochTransfer) and one.body:
                yield one.offset, one.body


@asynccontextmanager
async def opened_peer_log(
    address: str,
    open_stream: OpenStream,
    *,
    ha_address: str | None = None,
    secret: bytes | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[PeerLog]:
    """Ask a replica about its log; the links to it end with the block.

    Args:
        address: ``host:port`` where clients reach it.
        open_stream: Opens a connection.
        ha_address: ``host:port`` of its replication link, where that is not as it says.
        secret: Shared with replicas; None: without.
        tls: For links to brokers of ours.

    Raises:
        PeerLogError: It does not answer, or has no replication link.
    """
    try:
        stream = await _connected(open_stream, address, None)
        try:
            calls = MasterCalls(stream)
            facts, ends = await calls.facts(), await calls.log()
        finally:
            await trio.aclose_forcefully(stream)
        if ha_address is None and facts.ha_port is None:
            raise FollowError(
                "NO_HA_PORT",
                "expected a broker with a replication link, found none: give it a haListenPort",
            )
        if secret is not None and not facts.is_ours:
            raise FollowError(
                "SECRET",
                "expected a broker that proves the shared secret (ha_secret_file), found one that "
                "knows none: it is RocketMQ's",
            )
    except FollowError as error:
        raise PeerLogError(f"{address}: {error}") from error
    peer = PeerLog(
        place=address,
        facts=facts,
        ends=ends,
        ha_address=ha_address or f"{address.rpartition(':')[0]}:{facts.ha_port}",
        open_stream=open_stream,
        secret=secret,
        tls=tls,
    )
    try:
        yield peer
    finally:
        await peer.aclose()


async def _connected(
    open_stream: OpenStream, address: str, tls: ssl.SSLContext | None
) -> trio.abc.Stream:
    host, _, port = address.rpartition(":")
    stream: trio.abc.Stream | None = None
    try:
        with trio.fail_after(CONNECT_TIMEOUT):
            stream = await open_stream(host.strip("[]"), int(port))
            if tls is not None:
                secure = trio.SSLStream(stream, tls)
                await secure.do_handshake()
                stream = secure
    except BaseException as error:
        if stream is not None:
            await trio.aclose_forcefully(stream)
        if isinstance(error, OSError | trio.BrokenResourceError | trio.TooSlowError):
            said = str(error) or type(error).__name__
            raise FollowError("LINK", f"no connection to {address}: {said}") from error
        raise
    return stream
