"""The errors of a client, and the remedies."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from timermq.remoting import Command, RemoteProtocolError, ResponseCode

from .send_receipt import SendReceipt

NOT_DURABLE = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
"""Codes of a broker that has done what was asked, and may lose it with its machine."""


class ClientError(Exception):
    """The root of the client's errors."""

    outcomes: Sequence[SendReceipt | ClientError | None] = ()
    """From ``send_batch``: what became of each message, in order; None: it was not sent."""


class BrokerRefusedError(ClientError):
    """The server refused the request and did nothing; its remark names the rule.

    The caller repairs the request, or waits where the rule speaks of load.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"refused with code {code}: {remark}")
        self.code = code
        self.remark = remark

    @property
    def rule(self) -> str:
        """The rule's name, if the remark begins with one; else empty."""
        head, mark, _ = self.remark.partition(":")
        return head if mark and head.isupper() else ""


class NoRouteError(ClientError):
    """No name server knows the topic, and it may not be created; the operator creates it."""


class MalformedAnswerError(ClientError):
    """The server's answer is not what the protocol says; the server is to blame: report it.

    The request may have been carried out.
    """


class UnreadableBodyError(ClientError):
    """The body of a received message does not unpack; the producer is to blame.

    ``raw_body`` of the message has the bytes. Commit it to leave it behind: it will never unpack.
    """


class NoAnswerError(ClientError):
    """There is no answer; network or server are to blame.

    Where ``may_have_arrived`` is set the request may have been carried out: a send may have stored
    the message. Otherwise nothing of it has left this program, and sending again is safe.
    """

    def __init__(self, text: str, *, may_have_arrived: bool) -> None:
        super().__init__(text)
        self.may_have_arrived = may_have_arrived


class ConnectionLostError(NoAnswerError):
    """No connection, or it broke while an answer was awaited; try again later."""


class RequestTimeoutError(NoAnswerError):
    """No answer in time; try again later, or with a longer time."""


def may_have_been_done(error: ClientError) -> bool:
    """Whether the request behind an error may have been carried out, now or later.

    A broker that waited for its disk or for followers in vain has done it, and may lose it.
    """
    if isinstance(error, BrokerRefusedError):
        return error.code in NOT_DURABLE
    is_unanswered = isinstance(error, NoAnswerError) and error.may_have_arrived
    return is_unanswered or isinstance(error, MalformedAnswerError)


def check_answer(answer: Command) -> Command:
    """The answer, when it says success.

    Raises:
        BrokerRefusedError: It does not.
    """
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefusedError(answer.code, answer.remark or "")
    return answer


@contextmanager
def reading_answer(what: str) -> Generator[None]:
    """The one place where the protocol's errors become the client's.

    Raises:
        MalformedAnswerError: The block found the answer malformed.
    """
    try:
        yield
    except RemoteProtocolError as error:
        raise MalformedAnswerError(f"{what}: {error.remark}") from error
