"""A connection to a broker from a thread that may block: what a task of Spark has.

All requests that go this way may be repeated, so a connection that breaks is opened again and the
request sent again; and a broker that is busy is asked again.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import attrs

from timermq.remoting import (
    CLOSED,
    Command,
    FrameConnection,
    LocalProtocolError,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    encode_frame,
)
from timermq.remoting.bodies import json_object
from timermq.remoting.credentials import Credentials, signed
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.fastjson import parse_json

from ..errors import BulkRefusedError, SparkJobError
from .sink_options import SinkOptions

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 60.0
"""For one answer: a hand-over looks at every byte that was staged."""
RECEIVE_SIZE = 1 << 16


@attrs.frozen(kw_only=True)
class Patience:
    """How long a broker is waited for that has answered before, or is busy."""

    seconds: float = 30.0
    pause: float = 0.25
    """Between two attempts."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class BrokerLink:
    """One connection, opened by the first request.

    Args:
        address: ``HOST:PORT``.
        patience: With connections that break.
        credentials: Sign its requests.

    Raises:
        SparkJobError: The address is none.
    """

    def __init__(
        self,
        address: str,
        *,
        patience: Patience | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.address = address
        self._host, self._port = _split(address)
        self._patience = patience or Patience()
        self._credentials = credentials
        self._socket: socket.socket | None = None
        self._frames = FrameConnection()
        self._opaques = itertools.count(1)
        self._has_answered = False

    @classmethod
    def of(cls, options: SinkOptions) -> BrokerLink:
        """The link to the broker that some options name.

        Raises:
            SparkJobError: The name server does not say, or knows another number of brokers.
        """
        address = options.broker
        if address is None:
            found = sorted(cls.masters(options).values())
            if len(found) != 1:
                raise SparkJobError(
                    f"option namesrv: {options.namesrv}: expected one broker, found {len(found)}"
                    + (f" ({', '.join(found)}): choose by the option broker" if found else "")
                )
            address = found[0]
        return cls._to(address, options)

    @classmethod
    def masters(cls, options: SinkOptions) -> dict[str, str]:
        """The masters that the name server of some options knows: name to address, by name.

        Raises:
            SparkJobError: The name server has gone, or is none.
        """
        assert options.namesrv is not None
        with cls._to(options.namesrv, options) as link:
            answer = link.call(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        return _masters(options.namesrv, answer.body)

    @classmethod
    def _to(cls, address: str, options: SinkOptions) -> Self:
        credentials = None
        if options.access_key is not None and options.secret_key is not None:
            credentials = Credentials(
                options.access_key, options.secret_key, options.security_token
            )
        patience = Patience(seconds=options.patience_ms / 1000)
        return cls(address, patience=patience, credentials=credentials)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the next request opens another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, command: Command) -> Command:
        """Send a request, again where it may have been lost, and wait for its answer.

        Raises:
            BulkRefusedError: The answer is an error, for longer than the patience lasts.
            SparkJobError: There is no connection, or no broker at its other end.
        """
        until = self._patience.now() + self._patience.seconds
        while True:
            try:
                answer = self._exchange(command)
            except OSError as error:
                self.close()
                if not self._has_answered or self._patience.now() >= until:
                    raise SparkJobError(
                        f"broker {self.address}: expected an answer to request {command.code}, "
                        f"found: {_reason(error)}; is it running, and is this its address?"
                    ) from None
            except RemoteProtocolError as error:
                self.close()
                raise SparkJobError(
                    f"broker {self.address}: expected a broker there, found something else: "
                    f"{error.remark}"
                ) from None
            else:
                self._has_answered = True
                if answer.code == ResponseCode.SUCCESS:
                    return answer
                if answer.code != ResponseCode.SYSTEM_BUSY or self._patience.now() >= until:
                    raise self._refused(command, answer)
            self._patience.sleep(self._patience.pause)

    def _exchange(self, command: Command) -> Command:
        opaque = next(self._opaques) & 0x7FFFFFFF
        try:
            frame = encode_frame(signed(attrs.evolve(command, opaque=opaque), self._credentials))
        except LocalProtocolError as error:
            raise SparkJobError(f"broker {self.address}: {error}") from None
        stream = self._opened()
        stream.sendall(frame)
        while True:
            event = self._frames.next_event()
            if event is CLOSED:
                raise ConnectionError("the connection was closed")
            if isinstance(event, Command):
                if event.is_response and event.opaque == opaque:
                    return event
            else:
                self._frames.receive_data(stream.recv(RECEIVE_SIZE))

    def _opened(self) -> socket.socket:
        if self._socket is None:
            self._frames = FrameConnection()
            opened = socket.create_connection((self._host, self._port), CONNECT_SECONDS)
            opened.settimeout(ANSWER_SECONDS)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = opened
        return self._socket

    def _refused(self, command: Command, answer: Command) -> BulkRefusedError:
        remark = answer.remark or f"code {answer.code}"
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            remark += "; bulk scheduling is known to brokers of timermq, not to name servers"
        return BulkRefusedError(
            f"broker {self.address}: request {command.code} was refused: {remark}",
            answer.remark or "",
        )


def _masters(namesrv: str, body: bytes) -> dict[str, str]:
    """Names and addresses of the masters in a cluster info."""
    try:
        info = json_object(parse_json(body.decode(), "cluster info"), "cluster info")
        brokers = json_object(info.get("brokerAddrTable", {}), "brokerAddrTable")
        # RocketMQ prints the number of a broker bare, others quote it.
        found = {
            name: address
            for name, one in brokers.items()
            for number, address in json_object(
                json_object(one, name).get("brokerAddrs", {}), name
            ).items()
            if str(number) == "0"
        }
    except (UnicodeDecodeError, StoreFormatError, RemoteProtocolError) as error:
        raise SparkJobError(f"name server {namesrv}: expected a cluster info: {error}") from None
    return {name: one for name, one in sorted(found.items()) if isinstance(one, str)}


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65_536):
        raise SparkJobError(f"option broker: expected HOST:PORT, found {address[:300]!r}")
    return host, int(port)


def _reason(error: OSError) -> str:
    """The error of the system, in words."""
    if isinstance(error, TimeoutError):
        return "nothing in time"
    if error.errno is not None and error.errno > 0:
        text = os.strerror(error.errno)
        return text[:1].lower() + text[1:]
    return error.strerror or str(error)
