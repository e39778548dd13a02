"""The pending messages of several brokers as one list."""

from __future__ import annotations

from timermq.cli.pending import merged
from timermq.cli.pending_page import PendingRow


def row(unique_id: str, deliver_ms: int, phy_offset: int) -> PendingRow:
    """The row of a message that waits."""
    return PendingRow(
        unique_id=unique_id,
        topic="T",
        queue_id=0,
        deliver_ms=deliver_ms,
        keys="",
        tags="",
        phy_offset=phy_offset,
        rolls=0,
    )


def test_rows_stand_in_the_order_in_which_they_fire() -> None:
    """Each with its broker; of one moment and position the broker's address decides."""
    rows = {
        "h:2": [row("B1", 10, 0), row("B2", 30, 5)],
        "h:1": [row("A1", 10, 0), row("A2", 20, 9), row("A3", 30, 4)],
    }

    assert [("A1", "h:1"), ("B1", "h:2"), ("A2", "h:1"), ("A3", "h:1"), ("B2", "h:2")] == [
        (one["unique_id"], one["broker"]) for one in merged(rows)
    ]
