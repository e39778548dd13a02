"""The messages of an opened slot, page by page from the broker (LIST_PENDING)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import cbor2

from timermq.client.errors import check_answer
from timermq.client.link import Links
from timermq.remoting import Coding, Command, RequestCode

from ..pending_page import PendingPage, PendingRow, decode_page
from .view import Opened
from .view import PendingRow as ShownRow

ROWS_MAX = 1_000
"""Messages that a screen lists."""
PAGES_MAX = 16
PAGE_TIMEOUT = 60.0
"""Seconds: a broker with many deletes reads them all first."""


async def read_slot(links: Links, address: str, opened: Opened, topic: str) -> Opened:
    """The slot with its messages, those of one moment as they were sent.

    Args:
        links: Connections.
        address: Of the broker.
        opened: Which slot.
        topic: Only topics whose names contain this text.

    Raises:
        ClientError: The broker does not answer, or refuses.
    """
    rows: list[PendingRow] = []
    after: list[int] | None = None
    for _ in range(PAGES_MAX):
        page = await _read_page(links, address, opened, after)
        rows += [row for row in page["rows"] if topic in row["topic"]]
        after = page["next"]
        if after is None or len(rows) >= ROWS_MAX:
            break
    rows.sort(key=lambda row: (row["deliver_ms"], row["phy_offset"]))
    return attrs.evolve(
        opened,
        rows=tuple(_shown(row) for row in rows[:ROWS_MAX]),
        is_whole=after is None and len(rows) <= ROWS_MAX,
    )


def join_slots(parts: Sequence[Opened]) -> Opened:
    """The same slot of several brokers as one; the faults of those that do not tell it are joined.

    Args:
        parts: The slot as each broker tells it, at least one.
    """
    rows = sorted(
        (row for part in parts for row in part.rows or ()), key=lambda row: row.deliver_ms
    )
    faults = [part.fault for part in parts if part.fault is not None]
    return attrs.evolve(
        parts[0],
        rows=tuple(rows[:ROWS_MAX]),
        is_whole=all(part.is_whole for part in parts) and len(rows) <= ROWS_MAX,
        fault="; ".join(faults) or None,
    )


async def _read_page(
    links: Links, address: str, opened: Opened, after: list[int] | None
) -> PendingPage:
    # A slot's messages are due after its time: its first millisecond belongs to the one before.
    between = (opened.from_ms + 1, opened.to_ms + 1)
    body = cbor2.dumps({"between": between, "limit": ROWS_MAX, "after": after})
    command = Command(RequestCode.LIST_PENDING, coding=Coding.CBOR, body=body)
    answer = check_answer(await links.call(address, command, PAGE_TIMEOUT))
    return decode_page(answer.body, address)


def _shown(row: PendingRow) -> ShownRow:
    return ShownRow(
        deliver_ms=row["deliver_ms"],
        topic=row["topic"],
        unique_id=row["unique_id"],
        keys=row["keys"],
        tags=row["tags"],
        rolls=row["rolls"],
    )
