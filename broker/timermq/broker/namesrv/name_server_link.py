"""Registers this broker with name servers: at the start, every 30 seconds, at every change.

Each name server of the list has a connection of its own that stays open: its end would take the
broker out of all routes there. So one that breaks is made again after a second, then with longer
and longer pauses, and the broker registers again on it. Registrations carry all topics, or those
that have changed; the name server compares their version and does nothing when it knows it.

What opens the connections speaks TLS where that is asked for, and registrations are signed where
this broker has an account (``OutwardAccess``).

Source: Java ``BrokerOuterAPI.registerBrokerAll``, ``BrokerController.registerBrokerAll``.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import attrs
import structlog
import trio

from timermq.remoting.bodies import BodyFormatError, decode_topic_route
from timermq.remoting.causes import first_cause
from timermq.remoting.codes import VERSION, LanguageCode, RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.connection import FrameConnection
from timermq.remoting.errors import LocalProtocolError, RemoteProtocolError
from timermq.remoting.name_server_header import BrokerHeader, RegisterBrokerHeader
from timermq.remoting.registration import body_crc32, encode_registration
from timermq.remoting.request_header import RequestHeader
from timermq.remoting.topic_header import TopicHeader

from ..topic_config import TopicConfig
from .own_broker import OwnBroker

REGISTER_INTERVAL = 30.0
"""Seconds between two registrations without a change; name servers forget a broker after 120."""
CHANGE_INTERVAL = 1.0
"""Seconds at least between two registrations: a crowd of new topics goes in few of them."""
CONNECT_TIMEOUT = 3.0
ANSWER_TIMEOUT = 24.0
"""Seconds that a name server has for a registration, as in RocketMQ."""
GOODBYE_TIMEOUT = 2.0
PAUSE_MIN = 1.0
PAUSE_MAX = 30.0
"""Seconds before a connection is made again; twice as long each time."""
RECEIVE_SIZE = 65_536

OpenStream = Callable[[str, int], Awaitable[trio.abc.Stream]]
Sign = Callable[[Command], Command]
"""Gives a request with its signature."""

log = structlog.get_logger("timermq.broker.namesrv.name_server_link")


async def open_tcp(host: str, port: int) -> trio.abc.Stream:
    """A connection to a name server; raises OSError."""
    return await trio.open_tcp_stream(host, port)


def unsigned(command: Command) -> Command:
    """A request as it is, of a broker without an account."""
    return command


class LinkBrokenError(Exception):
    """A name server is not there, has gone, or does not answer; it is retried with backoff."""


@attrs.define
class LinkState:
    """State of the link to one name server, for watchers."""

    address: str
    is_registered: bool = False
    registrations: int = 0
    error: str | None = None
    """Why it is not; None while it is."""
    namesake: str | None = None
    """Address of another broker that was seen there under the name of this one."""
    master: str | None = None
    """Address for clients of the master of a follower, as it is known there."""
    ha_master: str | None = None
    """… and for followers."""


class NameServerLink:
    """This broker's registration with one name server.

    Args:
        address: ``host:port``.
        own: The broker that is registered.
        open_stream: Opens a connection.
        sign: Signs requests.
    """

    def __init__(
        self,
        address: str,
        own: OwnBroker,
        open_stream: OpenStream = open_tcp,
        sign: Sign = unsigned,
    ) -> None:
        self.state = LinkState(address)
        self._own = own
        self._open_stream = open_stream
        self._sign = sign
        self._opaques = itertools.count(1)
        self._changed = trio.Event()
        self._answers: dict[int, Command] = {}
        self._answered = trio.Event()
        self._stream: trio.abc.Stream | None = None
        self._frames = FrameConnection()
        self._is_leaving = False
        self._told: dict[str, TopicConfig] = {}
        """The topics as the name server knows them, since this connection began."""
        self._told_id: int | None = None
        """The id by which this broker is registered there, the same."""

    def changed(self) -> None:
        """The topics have changed: register soon."""
        self._changed.set()

    async def run(self) -> None:
        """Stay registered until cancelled; failures are logged and retried with backoff.

        Cancellation: the connection is closed, which takes the broker out of the routes.
        """
        pause = PAUSE_MIN
        while not self._is_leaving:
            try:
                await self._stay_registered()
            except* Exception as group:
                # Any error, of a name server or of ours: the links to the others stay, and the
                # broker serves.
                if self.state.is_registered:
                    pause = PAUSE_MIN
                self._failed(group)
            finally:
                self.state.is_registered = False
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX)

    async def say_goodbye(self) -> None:
        """Unregister, if there is a connection; what goes wrong does not matter any more."""
        self._is_leaving = True
        if self._stream is None or not self.state.is_registered:
            return
        with trio.move_on_after(GOODBYE_TIMEOUT):
            try:
                identity = self._identity(self._own.role.broker_id)
                await self._call(RequestCode.UNREGISTER_BROKER, identity)
            except Exception as error:
                # The broker stops, and the name server finds out by itself.
                log.info(
                    "goodbye not heard", namesrv=self.state.address, exc_info=_mistake_in(error)
                )

    def _failed(self, group: ExceptionGroup[Exception]) -> None:
        """Keep why, and tell it once."""
        reason = _reason(group)
        if self.state.error != reason:
            log.warning(
                "not registered",
                namesrv=self.state.address,
                reason=reason,
                exc_info=_mistake_in(group),
            )
        self.state.error = reason

    async def _stay_registered(self) -> None:
        host, _, port = self.state.address.rpartition(":")
        with trio.move_on_after(CONNECT_TIMEOUT) as connecting:
            self._stream = await self._open_stream(host.strip("[]"), int(port))
        if connecting.cancelled_caught or self._stream is None:
            raise LinkBrokenError(f"no connection within {CONNECT_TIMEOUT:.0f} s")
        self._frames = FrameConnection()
        self._answers.clear()
        self._told, self._told_id = {}, None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._receive, self._stream)
                is_whole = True
                while not self._is_leaving:
                    self._changed = trio.Event()
                    await self._register(is_whole=is_whole)
                    await trio.sleep(CHANGE_INTERVAL)
                    with trio.move_on_after(REGISTER_INTERVAL - CHANGE_INTERVAL) as waiting:
                        await self._changed.wait()
                    is_whole = waiting.cancelled_caught
                    if is_whole and not self._is_leaving:
                        await self._look_for_namesake()
        finally:
            stream, self._stream = self._stream, None
            await trio.aclose_forcefully(stream)

    async def _register(self, *, is_whole: bool) -> None:
        """Register all topics, or those that have changed; it may be that none has.

        The name server applies every topic of a version that it does not know yet. So a change is
        sent alone, as RocketMQ's broker does: settings that an operator made there for the other
        topics, as a missing write permission (205), stay.

        Source: Java ``TopicConfigManager.registerBrokerData``.
        """
        own, topics = self._own, self._own.registered_topics()
        broker_id = own.role.broker_id
        if self._told_id not in (None, broker_id):
            # It has another role since: its old place is free, or another's.
            await self._call(RequestCode.UNREGISTER_BROKER, self._identity(self._told_id))
            self._told, self._told_id, is_whole = {}, None, True
        # A deleted topic is in neither of both, but the whole is always sent then.
        is_whole = is_whole or not topics.keys() >= self._told.keys()
        changed = {name: one for name, one in topics.items() if self._told.get(name) != one}
        if not (is_whole or changed):
            return
        told = topics if is_whole else changed
        body = encode_registration(own.version(), [one.to_json() for one in told.values()])
        answer = await self._call(
            RequestCode.REGISTER_BROKER,
            RegisterBrokerHeader(
                broker_address=own.address,
                broker_id=broker_id,
                broker_name=own.options.broker_name,
                cluster_name=own.options.broker_cluster_name,
                body_crc32=body_crc32(body),
                ha_address=own.ha_address,
            ),
            body,
        )
        if answer.code != ResponseCode.SUCCESS:
            raise LinkBrokenError(f"refused with {answer.code}: {answer.remark}")
        self._told, self._told_id = topics, broker_id
        self.state.registrations += 1
        self.state.master = answer.ext.get("masterAddr") or None
        self.state.ha_master = answer.ext.get("haServerAddr") or None
        if own.role.is_master and self.state.master not in (None, own.address):
            own.on_rival(self.state.master)
        if not self.state.is_registered:
            self.state.is_registered, self.state.error = True, None
            log.info("registered", namesrv=self.state.address, broker=own.options.broker_name)

    async def _look_for_namesake(self) -> None:
        """Whether another broker has taken the place that this one registered for.

        RocketMQ's name servers keep the address that came last, so two brokers of one name take
        the route from each other, and messages in one of them are not read. Asked before the next
        registration takes the place back, by the topic that every broker has of its name.
        """
        name = self._own.options.broker_name
        answer = await self._call(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicHeader(topic=name))
        try:
            routes = [] if answer.code else decode_topic_route(answer.body)
        except BodyFormatError:
            routes = []
        addresses = [one.address for one in routes if one.broker_name == name and one.address]
        is_master = self._own.role.is_master
        namesake = addresses[0] if addresses and is_master else self._own.address
        if namesake != self._own.address:
            self._own.on_rival(namesake)
        if namesake not in (self._own.address, self.state.namesake):
            log.error(
                "another broker registers with the name of this one: give each a name of its own",
                namesrv=self.state.address,
                broker=name,
                address=self._own.address,
                other=namesake,
            )
            self.state.namesake = namesake

    async def _call(self, code: int, header: RequestHeader, body: bytes = b"") -> Command:
        assert self._stream is not None
        opaque = next(self._opaques) & 0x7FFFFFFF
        command = Command(
            code,
            opaque=opaque,
            language=LanguageCode.JAVA,
            version=VERSION,
            ext=header.to_ext(),
            body=body,
        )
        with trio.move_on_after(ANSWER_TIMEOUT):
            await self._stream.send_all(self._frames.encode(self._sign(command)))
            while opaque not in self._answers:
                await self._answered.wait()
            return self._answers.pop(opaque)
        raise LinkBrokenError(f"no answer within {ANSWER_TIMEOUT:.0f} s")

    async def _receive(self, stream: trio.abc.Stream) -> None:
        while True:
            data = await stream.receive_some(RECEIVE_SIZE)
            if not data:
                raise LinkBrokenError("the connection was closed")
            try:
                self._frames.receive_data(bytes(data))
                events = self._frames.events()
            except RemoteProtocolError as error:
                raise LinkBrokenError(error.remark) from error
            for command in events:
                if command.is_response:
                    self._answers = {command.opaque: command}
            self._answered.set()
            self._answered = trio.Event()

    def _identity(self, broker_id: int) -> BrokerHeader:
        options = self._own.options
        return BrokerHeader(
            broker_address=self._own.address,
            broker_id=broker_id,
            broker_name=options.broker_name,
            cluster_name=options.broker_cluster_name,
        )


_FAILURES = (
    LinkBrokenError,
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.BusyResourceError,  # the goodbye meets a registration that is being sent
    LocalProtocolError,  # more topics than a frame holds
    UnicodeError,  # a host that can be none
)
"""Errors that are expected of a link."""


class NameServerLinks:
    """The registrations with all name servers of a list.

    Args:
        addresses: ``host:port`` each.
        own: The broker that is registered.
        open_stream: Opens a connection.
        sign: Signs requests.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        own: OwnBroker,
        open_stream: OpenStream = open_tcp,
        sign: Sign = unsigned,
    ) -> None:
        self._links = [NameServerLink(one, own, open_stream, sign) for one in addresses]

    def states(self) -> list[LinkState]:
        """State of the link to each of them."""
        return [link.state for link in self._links]

    def master(self) -> tuple[str | None, str | None]:
        """Addresses of the master of a follower, for clients and for followers; None: not known."""
        for link in self._links:
            if link.state.is_registered and link.state.master is not None:
                return link.state.master, link.state.ha_master
        return None, None

    def changed(self) -> None:
        """The topics have changed: register soon, with all of them."""
        for link in self._links:
            link.changed()

    async def run(self) -> None:
        """Stay registered with all of them until cancelled."""
        async with trio.open_nursery() as nursery:
            for link in self._links:
                nursery.start_soon(link.run, name=f"registration with {link.state.address}")

    async def say_goodbye(self) -> None:
        """Unregister everywhere; takes two seconds at most."""
        async with trio.open_nursery() as nursery:
            for link in self._links:
                nursery.start_soon(link.say_goodbye)


def _reason(error: BaseException) -> str:
    """Text of the first error in groups of errors; its type when it has no text."""
    cause = first_cause(error)
    return str(cause) or type(cause).__name__


def _mistake_in(error: Exception) -> Exception | None:
    """The error, for its traceback in the log, if it holds an unexpected one."""
    if isinstance(error, ExceptionGroup):
        return cast("ExceptionGroup[Exception]", error).split(_FAILURES)[1]
    return None if isinstance(error, _FAILURES) else error
