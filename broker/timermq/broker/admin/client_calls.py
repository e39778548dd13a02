"""Requests that the broker makes of its clients, and their answers.

Offsets to be set, running information, a reply passed on: a client answers them on the connection
on which it was asked, among everything else. A caller that waits is told when the connection ends.

Source: Java ``Broker2Client``.
"""

from __future__ import annotations

import itertools

import attrs
import trio

from timermq.remoting.codes import VERSION, LanguageCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.signature import CREDENTIALS

from ..refusal import RefusedError
from ..session import Session

CALL_TIMEOUT = 10.0
"""Seconds that a client has to answer: Java's tools wait for the broker a little longer."""


@attrs.define(eq=False)
class _Call:
    done: trio.Event = attrs.Factory(trio.Event)
    answer: Command | None = None


class ClientCalls:
    """Requests to clients that are not answered yet, by connection."""

    def __init__(self) -> None:
        self._opaques = itertools.count(1)
        self._calls: dict[Session, dict[int, _Call]] = {}

    async def call(
        self,
        session: Session,
        code: int,
        ext: dict[str, str],
        body: bytes = b"",
        *,
        timeout: float = CALL_TIMEOUT,
    ) -> Command:
        """Ask a client and wait for its answer.

        Who the request came from stays here: a signature names neither its request nor its
        parameters, so the client could do with it what it may not itself.

        Args:
            session: The client's connection.
            code: What it is asked.
            ext: Parameters.
            body: The body of the request.
            timeout: Seconds that it has to answer.

        Raises:
            RefusedError: It has not answered in time (207), or its connection has ended (206).

        Cancellation: the client may do what it was asked; its answer is dropped.
        """
        opaque = next(self._opaques) & 0x7FFFFFFF
        call = _Call()
        self._calls.setdefault(session, {})[opaque] = call
        try:
            session.send(
                Command(
                    code,
                    opaque=opaque,
                    language=LanguageCode.JAVA,
                    version=VERSION,
                    ext={name: value for name, value in ext.items() if name not in CREDENTIALS},
                    body=body,
                )
            )
            with trio.move_on_after(timeout):
                await call.done.wait()
        finally:
            calls = self._calls.get(session, {})
            calls.pop(opaque, None)
            if not calls:
                self._calls.pop(session, None)
        if call.answer is not None:
            return call.answer
        if not session.is_open:
            raise RefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                "CLIENT_GONE",
                f"the client at {session.remote_address} left before it answered",
            )
        raise RefusedError(
            ResponseCode.CONSUME_MSG_TIMEOUT,
            "CLIENT_SILENT",
            f"the client at {session.remote_address} has not answered for {timeout:.0f} s",
        )

    def answered(self, session: Session, answer: Command) -> None:
        """Take the answer of a client; one without a waiting caller is dropped."""
        call = self._calls.get(session, {}).get(answer.opaque)
        if call is not None:
            call.answer = answer
            call.done.set()

    def drop(self, session: Session) -> None:
        """Drop the calls of a connection that has ended: their callers are told (206)."""
        for call in list(self._calls.get(session, {}).values()):
            call.done.set()
