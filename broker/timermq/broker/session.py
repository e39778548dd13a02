"""One client connection as the processors see it: who it is, and a way to send to it.

Processors are plain code: they get a session and a request, and return the answer or send it later
through the session. What carries the bytes is the business of ``connection``.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

import attrs

from timermq.remoting.codes import LanguageCode
from timermq.remoting.command import Command
from timermq.remoting.connection import Received
from timermq.timerstore.message import pack_host

from .answers import Answer
from .speaker import UNLIMITED, Speaker

OPAQUE_MAX = 2**31 - 1
"""The highest number of a request that we send ourselves."""
_NO_ADDRESS = "0.0.0.0"  # noqa: S104 - what an address without an IPv4 form is written as
_LOOPBACK = "127.0.0.1"


@attrs.define(eq=False, kw_only=True)
class Session:
    """One connection; two sessions are never equal."""

    remote_address: str
    """``host:port`` of the peer, for logs."""
    born_host: bytes
    """The peer's address as records hold it: always IPv4, C++ consumers misread anything else."""
    queue: Callable[[Answer], None]
    """Queue an answer for the peer, to go with the next ``flush``; nothing on a closed session."""
    flush: Callable[[], None]
    """Let go what is queued: never blocks."""
    start_soon: Callable[[Callable[[], Awaitable[None]]], bool]
    """Start a task that ends with the connection; False when it has too many already."""
    close: Callable[[str], None]
    """Close the connection soon, for the reason given."""
    unread: Callable[[], int] = lambda: 0
    """Bytes that are queued or being written: what the peer has not made room for."""
    speaker: Speaker = UNLIMITED
    """Who speaks in the request that is handled now; while sends are put, which go together, in
    what came last. Set before each: what is done later keeps the one that it began with."""
    has_room: Callable[[], bool] = lambda: True
    """Whether the peer has read enough to be given more: otherwise nothing more is worked out."""
    when_room: Callable[[Callable[[], None]], None] = lambda _: None
    """Have something called once, as soon as the peer has room; never if the connection ends. It
    is called by who sends, so it only notes what there is to do."""
    peer: str = ""
    """What the connection's share of a pool goes by: its address, of IPv6 the network."""
    backlog: deque[tuple[Speaker, Command]] = attrs.field(factory=deque[tuple[Speaker, Command]])
    """Requests that have come and wait for their turn (``turns``), with who speaks in each."""
    has_more: Callable[[], bool] = lambda: False
    """Whether more have come that are not looked at yet."""
    more: Callable[[], Sequence[Received]] = lambda: ()
    """The next of these."""
    waits: Callable[[], None] = lambda: None
    """To be called when requests of this session begin to wait for their turn, or cease to: the
    connection looks whether to receive."""
    opened_at: float = 0.0
    """trio's time of its beginning."""
    costly_until: float = 0.0
    """trio's time until which its requests count as costly (``costly_requests``)."""
    is_known: bool = False
    """Whether a request of this connection was one that may be done."""
    is_open: bool = True
    language: LanguageCode = LanguageCode.OTHER
    """As in the newest request."""
    version: int = 0
    """As in the newest request."""
    unflushed: int = 0
    """Answers to this session that wait for their flush."""
    held_pulls: int = 0
    """Pulls of this session that are held."""

    def send(self, answer: Answer) -> None:
        """Queue one answer and let it go."""
        self.queue(answer)
        self.flush()

    @staticmethod
    def send_all(answers: Iterable[tuple[Session, Answer]]) -> None:
        """Queue answers, then let them go, those to one session together."""
        answered: dict[Session, None] = {}
        for session, answer in answers:
            session.queue(answer)
            answered[session] = None
        for session in answered:
            session.flush()

    @property
    def owner(self) -> str:
        """Whose share it is what this session takes: the account's, without one the peer's."""
        return self.speaker.account or self.peer

    def end(self) -> None:
        """The connection has ended, and nothing leads back to it: it goes without the collector.

        What is sent from now on goes nowhere.
        """
        self.queue, self.close = _ignore, _ignore
        self.flush, self.waits = _nothing, _nothing
        self.start_soon = lambda _: False
        self.unread, self.has_room, self.when_room = lambda: 0, lambda: False, _ignore
        self.has_more, self.more = lambda: False, lambda: ()

    @property
    def is_cpp(self) -> bool:
        """Whether the peer is RocketMQ's C++ client, which needs special care."""
        return self.language is LanguageCode.CPP

    @property
    def is_go(self) -> bool:
        """Whether the peer is RocketMQ's Go client."""
        return self.language is LanguageCode.GO

    @property
    def knows_zlib_alone(self) -> bool:
        """Whether the peer takes every packed body for zlib, whatever its flags say."""
        return self.language in (LanguageCode.CPP, LanguageCode.GO)


def _ignore(_: object) -> None:
    """For nobody."""


def _nothing() -> None:
    """For nobody."""


def pack_born_host(host: str, port: int) -> bytes:
    """An address as records hold it, in IPv4 form.

    ``::1`` becomes 127.0.0.1, a mapped address its IPv4 part, and whatever has no IPv4 form
    0.0.0.0.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return pack_host(_NO_ADDRESS, port)
    if isinstance(address, ipaddress.IPv4Address):
        return pack_host(str(address), port)
    mapped = address.ipv4_mapped
    if mapped is not None:
        return pack_host(str(mapped), port)
    return pack_host(_LOOPBACK if address.is_loopback else _NO_ADDRESS, port)
