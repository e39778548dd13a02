"""A page of a broker's list of what waits (LIST_PENDING), as the answer's body has it."""

from __future__ import annotations

from typing import TypedDict

from .answer_body import decode_answer


class PendingRow(TypedDict):
    """One message that waits; the fields of ``PendingTimer``."""

    unique_id: str
    topic: str
    queue_id: int
    deliver_ms: int
    keys: str
    tags: str
    phy_offset: int
    rolls: int


class PendingPage(TypedDict):
    """Some rows, and where the next page begins; None on the last one."""

    rows: list[PendingRow]
    next: list[int] | None


def decode_page(body: bytes, address: str) -> PendingPage:
    """Read the body of an answer to LIST_PENDING.

    Args:
        body: All of it.
        address: Of the broker, for the error.

    Raises:
        MalformedAnswerError: It is no page.
    """
    return decode_answer(body, PendingPage, f"{address}: pending timers")
