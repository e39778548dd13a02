"""Refusals: a request is answered with an error, which has a code, a rule, and a reason."""

from __future__ import annotations

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.errors import RemoteProtocolError

from .compatibility import REFUSED


class RefusedError(Exception):
    """The broker does not do the request; its sender gets the remark.

    Attributes:
        code: What the sender's program sees.
        rule: Name of the rule, in capitals; docs/protocol.md lists them.
        remark: The rule and the value that broke it, one line.
    """

    def __init__(self, code: ResponseCode, rule: str, text: str) -> None:
        self.code = code
        self.rule = rule
        self.remark = f"{rule}: {text}"
        super().__init__(self.remark)


def missing_right() -> RefusedError:
    """The one refusal for a missing right, the same for all rights (16)."""
    return RefusedError(
        ResponseCode.NO_PERMISSION,
        "NO_PERMISSION",
        "the request is not signed by an account that may do this",
    )


def refusal_answer(command: Command, error: RefusedError | RemoteProtocolError) -> Command:
    """The answer to a request that is not done, for the reason in ``error``."""
    return command.answer(error.code, remark=error.remark)


def failed_answer(command: Command) -> Command:
    """The answer to a request that met a mistake of ours (1); the log tells which."""
    return command.answer(
        ResponseCode.SYSTEM_ERROR, remark="SYSTEM_ERROR: the broker failed, see its log"
    )


def unsupported_answer(command: Command) -> Command:
    """The answer to a request code without a processor (3): with its name and why, if known."""
    name, why = REFUSED.get(command.code, ("", ""))
    remark = f"REQUEST_CODE: request type {command.code} is not supported"
    if name:
        remark = f"REQUEST_CODE: {name} ({command.code}) is not supported: {why}"
    return command.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
