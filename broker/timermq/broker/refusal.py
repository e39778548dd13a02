"""A request that is answered with an error: which code, by which rule, and why."""

from __future__ import annotations

from timermq.remoting.codes import ResponseCode


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
