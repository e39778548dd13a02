"""What can go wrong for a client, and who can do what about it."""

from __future__ import annotations


class ClientError(Exception):
    """The root of the client's errors."""


class BrokerRefusedError(ClientError):
    """The broker refused the request; its remark names the rule. The caller mends the request."""

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


class ConnectionLostError(ClientError):
    """No connection, or it broke while an answer was awaited.

    The request may have been carried out: a send may have stored the message. Sending it again with
    the same message id lets consumers recognise the second one.
    """


class RequestTimeoutError(ClientError):
    """No answer in time; what holds for ``ConnectionLostError`` holds here."""
