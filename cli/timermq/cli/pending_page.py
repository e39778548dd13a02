"""A page of a broker's list of what waits (LIST_PENDING), as the answer's body has it."""

from __future__ import annotations

from typing import TypedDict

import msgspec

from timermq.client.errors import MalformedAnswerError
from timermq.remoting.connection import FRAME_SIZE_MAX
from timermq.remoting.plain_cbor import PlainCborError, decode_plain


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
    try:
        return msgspec.convert(decode_plain(body, size_max=FRAME_SIZE_MAX), PendingPage)
    except (PlainCborError, msgspec.ValidationError) as error:
        raise MalformedAnswerError(f"{address}: pending timers: {error}") from error
