"""Why admission refuses a message: the rule, and the remark that the sender gets."""

from __future__ import annotations

import attrs

from timermq.timerstore.put_status import PutStatus


@attrs.frozen(kw_only=True)
class Refusal:
    """A message that may not be stored, and why."""

    status: PutStatus
    rule: str
    """Name of the rule, in capitals: docs/protocol.md lists them."""
    remark: str
    """The rule and the value that broke it, one line."""


class RefusalError(Exception):
    """Raised where a rule is broken; ends in a ``Refusal``."""

    def __init__(self, rule: str, text: str, status: PutStatus = PutStatus.MESSAGE_ILLEGAL) -> None:
        super().__init__(text)
        self.refusal = Refusal(status=status, rule=rule, remark=f"{rule}: {text}")


def shown(value: bytes) -> str:
    """A value as text for a remark, at most 64 characters."""
    text = ascii(value.decode("utf-8", "replace"))
    return text if len(text) <= 64 else text[:60] + "…'"
