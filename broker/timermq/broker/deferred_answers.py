"""Deferred answers: work that waits for a disk or a client, in a task of its own.

The task belongs to the connection that asks and ends with it; other requests are answered
meanwhile. Its mistakes become answers as those of plain processors do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.errors import RemoteProtocolError

from .refusal import RefusedError, refusal_answer
from .session import Session

log = structlog.get_logger("timermq.broker.deferred_answers")


def answer_later(
    session: Session, command: Command, work: Callable[[], Awaitable[Command | None]]
) -> None:
    """Work on a request in a task, and send what it gives.

    Args:
        session: The client that asks.
        command: The request; a one-way request gets no answer.
        work: Makes the answer, None when it goes another way; what it raises becomes one.

    Raises:
        RefusedError: The connection has too many such tasks under way (2).

    Cancellation: the connection has ended; finished work stays done.
    """

    async def run() -> None:
        try:
            answer = await work()
        except (RefusedError, RemoteProtocolError) as error:
            answer = refusal_answer(command, error)
        except Exception as error:
            log.exception("request failed", remote=session.remote_address, code=command.code)
            failed = RefusedError(ResponseCode.SYSTEM_ERROR, "SYSTEM_ERROR", repr(error))
            answer = refusal_answer(command, failed)
        if answer is not None and not command.is_oneway:
            session.send(answer)

    if not session.start_soon(run):
        raise RefusedError(
            ResponseCode.SYSTEM_BUSY,
            "CONNECTION_TASKS_MAX",
            "[OVERLOAD] as many long requests of this connection as may be are under way",
        )
