"""Answers that all processors give: refusals and failures."""

from __future__ import annotations

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.errors import RemoteProtocolError

from .compatibility import REFUSED
from .refusal import RefusedError

Answer = Command | bytes
"""The result of a processor: a command, or frames where a template wrote them."""


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
