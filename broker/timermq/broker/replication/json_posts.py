"""Questions in JSON over HTTP/1.1, one at a time, over one connection that stays open."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from typing import cast

import attrs
import h11
import trio

from ..namesrv.name_server_link import OpenStream

ANSWER_SIZE_MAX = 1 << 20
"""Bytes of one answer."""
RECEIVE_SIZE = 16_384

_RECONNECT = (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError)


class PostError(Exception):
    """There is no answer; what was asked may have been done all the same."""


@attrs.frozen
class Posted:
    """An answer of the server, in JSON."""

    status: int
    fields: dict[str, object]


class JsonPosts:
    """The connection to one server, made when it is needed.

    Args:
        host: Name or address.
        port: Its port.
        tls: Makes the settings of TLS for each connection; None: plain HTTP.
        open_stream: Opens a connection.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
        open_stream: OpenStream = trio.open_tcp_stream,
    ) -> None:
        self.place = f"{f'[{host}]' if ':' in host else host}:{port}"
        self._host = host
        self._port = port
        self._tls = tls
        self._open_stream = open_stream
        self._stream: trio.abc.Stream | None = None
        self._connection = h11.Connection(h11.CLIENT)

    async def post(self, path: str, fields: object, token: str | None = None) -> Posted:
        """The answer to a question, whatever its status.

        Args:
            path: Of the request.
            fields: Its body.
            token: The header ``Authorization``.

        Raises:
            PostError: There is none.

        Cancellation: the connection is closed; the server may do what it was asked.
        """
        head = [
            ("host", self.place),
            ("content-type", "application/json"),
            *([("authorization", token)] if token else []),
        ]
        body = json.dumps(fields).encode()
        try:
            return await self._post(path, head, body)
        except (OSError, ValueError, *_RECONNECT) as error:
            raise PostError(f"{self.place}: {str(error) or type(error).__name__}") from None

    async def _post(self, path: str, head: list[tuple[str, str]], body: bytes) -> Posted:
        is_kept = self._stream is not None
        try:
            return await self._exchange(path, head, body)
        except _RECONNECT:
            # A server may close a connection that rests; whether it has done the request is open,
            # so only requests may come here that do no harm twice.
            if not is_kept:
                raise
            return await self._exchange(path, head, body)

    async def _exchange(self, path: str, head: list[tuple[str, str]], body: bytes) -> Posted:
        stream = self._stream or await self._connect()
        connection, is_done = self._connection, False
        try:
            request = h11.Request(
                method="POST", target=path, headers=[*head, ("content-length", str(len(body)))]
            )
            data = connection.send(request) or b""
            data += connection.send(h11.Data(data=body)) or b""
            await stream.send_all(data + (connection.send(h11.EndOfMessage()) or b""))
            status, answer = await self._answer(stream)
            is_done = {connection.our_state, connection.their_state} == {h11.DONE}
        finally:
            if not is_done:
                await self.aclose()
        connection.start_next_cycle()
        fields: object = json.loads(answer)
        if not isinstance(fields, dict):
            raise PostError(f"{self.place}: expected an object in JSON, found {answer[:80]!r}")
        return Posted(status, cast("dict[str, object]", fields))

    async def _answer(self, stream: trio.abc.Stream) -> tuple[int, bytes]:
        status, answer = 0, bytearray()
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                self._connection.receive_data(bytes(await stream.receive_some(RECEIVE_SIZE)))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                answer += event.data
                if len(answer) > ANSWER_SIZE_MAX:
                    raise PostError(
                        f"{self.place}: expected {ANSWER_SIZE_MAX} bytes at most, found more"
                    )
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(answer)
            elif isinstance(event, h11.ConnectionClosed):
                raise trio.BrokenResourceError("the connection was closed")

    async def _connect(self) -> trio.abc.Stream:
        stream: trio.abc.Stream = await self._open_stream(self._host, self._port)
        try:
            if self._tls is not None:
                secure = trio.SSLStream(
                    stream, self._tls(), server_hostname=self._host, https_compatible=True
                )
                await secure.do_handshake()
                stream = secure
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        self._stream, self._connection = stream, h11.Connection(h11.CLIENT)
        return stream

    async def aclose(self) -> None:
        """Close the connection; the next question makes another one."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await trio.aclose_forcefully(stream)
