"""The errors of the wire, and who is to blame."""

from __future__ import annotations

from .codes import ResponseCode


class RemoteProtocolError(Exception):
    """The peer broke the protocol.

    Args:
        code: What to answer, where an answer is possible.
        remark: Rule and value, one line; the answer's remark.
        close: The connection cannot go on: the next frame's beginning is unknown.
    """

    def __init__(self, code: ResponseCode, remark: str, *, close: bool = False) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.close = close


class LocalProtocolError(Exception):
    """We asked for something that the protocol cannot carry: a mistake of the calling code."""
