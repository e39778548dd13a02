"""The questions about a pending message, and the answers."""

from __future__ import annotations

import enum

import attrs

from timermq.timerstore.errors import StoreError


class Verdict(enum.Enum):
    """The outcome of a request to cancel or to move."""

    CANCELLED = "cancelled"
    """It never arrives, or not at its old moment."""
    TOO_LATE = "too_late"
    """It has arrived."""
    NOT_FOUND = "not_found"
    """No delayed message with this key is known."""


class CancelError(StoreError):
    """No verdict can be given, and nothing has changed.

    Attributes:
        rule: Name of the rule, in capitals; docs/protocol.md lists them.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        self.text = text


def too_common(key: str, what: str) -> CancelError:
    """The refusal of a key that more have than can be looked at."""
    return CancelError(
        "CANCEL_KEY_TOO_COMMON", f"{what} have the key {key}: not all of them can be looked at"
    )


@attrs.frozen
class Wanted:
    """Which message is meant: by its unique key, or by a key that one pending message has."""

    topic: str
    key: str
    is_unique_key: bool = True
