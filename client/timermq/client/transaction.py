"""Transactions: a message that appears if, and only if, the work that it tells of is done.

::

    async def check(message):
        return Decision.COMMIT if await is_booked(message.message_id) else Decision.ROLLBACK

    async with TransactionProducer("127.0.0.1:9876", group="booking", check=check) as producer:
        async with producer.transaction("Booked", b"42") as message_id:
            await book(message_id)

The broker has the message before the block begins; no consumer sees it. Leaving the block commits
it, an error in the block rolls it back. When neither reaches the broker, because the connection or
this process ended, the broker asks a producer of the group: ``check`` says from what the work has
left behind (a row in a database with the message's id, say) whether it was done.

Source: Java ``TransactionMQProducer``, ``DefaultMQProducerImpl``.
"""

from __future__ import annotations

import datetime
import enum
import itertools
import os
import secrets
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType

import attrs
import trio

from timermq.remoting import Command, RemoteProtocolError, RequestCode
from timermq.remoting.bodies import HeartbeatData
from timermq.remoting.client_header import UnregisterHeader
from timermq.remoting.stored_message import decode_messages
from timermq.remoting.transaction_header import CheckTransactionHeader, EndTransactionHeader

from .access import Credentials, over_tls
from .background import BackgroundTasks
from .errors import ClientError, MalformedAnswerError, check_answer
from .link import REQUEST_TIMEOUT, Links, OpenStream
from .log import warn
from .message import OutgoingMessage, ReceivedMessage
from .moment import now_ms
from .route import Routes, name_servers
from .unique_key import UniqueKeys

HEARTBEAT_SECONDS = 10.0
"""A broker that was started again knows whom to ask after this."""
EXIT_SECONDS = 3.0
CHECKS_MAX = 16
"""Checks that are worked on at a time; others wait."""
_PREPARED = 4
_POSITION_DIGITS = 16
"""At the end of a broker's message id."""


class Decision(enum.Enum):
    """The end of a transaction; the values are RocketMQ's."""

    COMMIT = 8
    ROLLBACK = 12
    UNKNOWN = 0
    """Not known yet: the broker asks again, some times."""


Check = Callable[[ReceivedMessage], Awaitable[Decision]]
"""Says what became of the work that a message tells of."""


@attrs.frozen(kw_only=True)
class _Half:
    """The place of the message in the broker."""

    address: str
    unique_key: str
    queue_offset: int
    phy_offset: int


class TransactionProducer:
    """Sends messages that appear when their work is done; use it as an async context manager.

    Args:
        namesrv: ``host:port`` of the name server, several separated by ``;``.
        group: Producer group; any producer of it may be asked about any of its transactions.
        check: Asked when the broker has not heard the end of a transaction; called in tasks of this
            producer, at most 16 at a time. What it raises ends the producer.
        request_timeout: Seconds for one request, connecting included.
        credentials: The account that signs its requests.
        tls: Connections speak TLS by it; `ssl.create_default_context` makes one.
        open_stream: Opens a TCP stream.
        clock_ms: The wall clock.

    Raises:
        ValueError: ``namesrv`` is no list of addresses.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        group: str,
        check: Check,
        request_timeout: float = REQUEST_TIMEOUT,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        open_stream: OpenStream = trio.open_tcp_stream,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._servers = name_servers(namesrv)
        self._group = group
        self._check = check
        self._timeout = request_timeout
        self._credentials = credentials
        self._open_stream = over_tls(open_stream, tls)
        self._clock_ms = clock_ms
        self._unique_keys = UniqueKeys(clock_ms)
        self._client_id = f"timermq@{os.getpid()}#{secrets.token_hex(4)}"
        self._turn = itertools.count()
        self._brokers: set[str] = set()
        """Those that have, or had, transactions of ours: they must know whom to ask."""
        self._checks = trio.CapacityLimiter(CHECKS_MAX)
        self._background = BackgroundTasks()

    async def __aenter__(self) -> TransactionProducer:
        """Nothing is sent before the first message; then the broker can ask."""
        self._nursery = await self._background.__aenter__()
        self._links = Links(
            self._nursery, self._on_request, self._open_stream, credentials=self._credentials
        )
        self._routes = Routes(self._links, self._servers, trio.current_time)
        self._nursery.start_soon(self._stay, name="heartbeat")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Say goodbye and close; at most three seconds. What is open is asked of others."""
        with trio.move_on_after(EXIT_SECONDS, shield=True):
            for address in self._brokers.intersection(self._links.addresses()):
                with suppress(ClientError):  # then the broker notices by itself
                    header = UnregisterHeader(client_id=self._client_id, producer_group=self._group)
                    await self._call(address, RequestCode.UNREGISTER_CLIENT, header.to_ext())
        return await self._background.__aexit__(kind, error, trace)

    async def join(self, topic: str) -> None:
        """Let the brokers of a topic know this producer: it can be asked before it sends anything.

        Raises:
            ClientError: As for ``transaction``.
        """
        for queue in await self._routes.writable(topic):
            await self._register(queue.address)

    @asynccontextmanager
    async def transaction(
        self,
        topic: str,
        body: bytes,
        *,
        at: datetime.datetime | int | None = None,
        delay: datetime.timedelta | None = None,
        level: int | None = None,
        keys: Sequence[str] = (),
        tag: str = "",
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> AsyncGenerator[str]:
        """A message that appears when the block is left, and never if the block raises.

        Args:
            topic: Where it is to appear.
            body: At most what the broker allows, by default 4 MiB.
            at: As for ``Producer.send``, as are all others; the broker must allow transactions with
                a delay. A delay begins with the commit.
            delay: See ``at``.
            level: See ``at``.
            keys: See ``at``.
            tag: See ``at``.
            properties: See ``at``.
            queue_id: See ``at``.

        Yields:
            The message's id, by which ``check`` will know it.

        Raises:
            ValueError: The arguments do not go together; nothing is sent.
            BrokerRefusedError: The broker did not take the message, or not the commit: ``rule``
                says why.
            NoRouteError: The topic is unknown and may not be created.
            NoAnswerError: Before the block: the message was stored or not. Behind it: it is
                committed, or the broker asks ``check``.

        Cancellation: within the block the transaction stays open, and the broker asks ``check``.
        """
        message = OutgoingMessage(
            topic=topic,
            body=body,
            at=at,
            delay=delay,
            level=level,
            keys=keys,
            tag=tag,
            properties={**(properties or {}), "TRAN_MSG": "true", "PGROUP": self._group},
            queue_id=queue_id,
        )
        half = await self._send(message)
        try:
            yield half.unique_key
        except Exception:
            with suppress(ClientError):  # then the broker asks
                await self._end(half, Decision.ROLLBACK)
            raise
        await self._end(half, Decision.COMMIT)

    async def _send(self, message: OutgoingMessage) -> _Half:
        queues = await self._routes.writable(message.topic)
        if message.queue_id is not None:
            queues = [queue for queue in queues if queue.queue_id == message.queue_id]
            if not queues:
                raise ValueError(f"topic {message.topic} has no queue {message.queue_id}")
        queue = queues[next(self._turn) % len(queues)]
        unique_key = self._unique_keys.next()
        text = message.encode_properties(unique_key).decode()
        await self._register(queue.address)
        ext = {
            "a": self._group,
            "b": message.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue.queue_id),
            "f": str(_PREPARED),
            "g": str(self._clock_ms()),
            "h": str(message.flag),
            "i": text,
            "j": "0",
            "k": "false",
            "m": "false",
        }
        answer = await self._call(
            queue.address, RequestCode.SEND_MESSAGE_V2, ext, body=message.body
        )
        try:
            queue_offset = int(answer.ext["queueOffset"])
            phy_offset = int(answer.ext["msgId"][-_POSITION_DIGITS:], 16)
        except (KeyError, ValueError) as error:
            raise MalformedAnswerError(f"answer to a transactional message: {error!r}") from error
        return _Half(
            address=queue.address,
            unique_key=unique_key,
            queue_offset=queue_offset,
            phy_offset=phy_offset,
        )

    async def _end(self, half: _Half, decision: Decision, *, is_checked: bool = False) -> None:
        header = EndTransactionHeader(
            producer_group=self._group,
            queue_offset=half.queue_offset,
            phy_offset=half.phy_offset,
            decision=decision.value,
            from_transaction_check=is_checked,
            message_id=half.unique_key,
            unique_key=half.unique_key,
        )
        await self._call(half.address, RequestCode.END_TRANSACTION, header.to_ext())

    async def _call(
        self, address: str, code: RequestCode, ext: dict[str, str], *, body: bytes = b""
    ) -> Command:
        command = Command(code, ext=ext, body=body)
        return check_answer(await self._links.call(address, command, self._timeout))

    # -- being asked --------------------------------------------------------------------------

    def _on_request(self, address: str, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._nursery.start_soon(self._answer, address, command, name="check")

    async def _answer(self, address: str, command: Command) -> None:
        """Answer a check; one that cannot be answered now comes again."""
        async with self._checks:
            try:
                (stored,) = decode_messages(command.body)
                header = CheckTransactionHeader.of(command)
                half = _Half(
                    address=address,
                    unique_key=header.unique_key,
                    queue_offset=header.queue_offset,
                    phy_offset=header.phy_offset,
                )
            except (RemoteProtocolError, ValueError) as error:
                warn("check not understood", address=address, error=str(error))
                return
            message = ReceivedMessage.of(stored, self._clock_ms())
            decision = await self._check(message)
            if decision is Decision.UNKNOWN:
                return
            try:
                await self._end(half, decision, is_checked=True)
            except ClientError as error:
                warn("check not answered", address=address, error=str(error))

    async def _stay(self) -> None:
        """Tell the brokers again and again that we are there."""
        while True:
            await trio.sleep(HEARTBEAT_SECONDS)
            for address in sorted(self._brokers):
                try:
                    await self._heartbeat(address)
                except ClientError as error:
                    warn("heartbeat failed", address=address, error=str(error))

    async def _register(self, address: str) -> None:
        if address not in self._brokers:
            await self._heartbeat(address)
            self._brokers.add(address)

    async def _heartbeat(self, address: str) -> None:
        data = HeartbeatData(client_id=self._client_id, producer_groups=[self._group])
        await self._call(address, RequestCode.HEART_BEAT, {}, body=data.encode())
