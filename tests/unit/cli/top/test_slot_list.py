"""The lower part of the screen: next slots beside topics, or the messages of a slot."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from timermq.cli.top.slot_list import BAR_WIDTH, lists, messages
from timermq.cli.top.view import WIDTH, Focus, Opened, PendingRow, View
from timermq.remoting import Snapshot
from top_samples import ADDRESS, IDLE, NOW_MS

SLOT_MS = NOW_MS // 1000 * 1000
SLOTS = tuple((SLOT_MS + 1000 * number, 10 + number) for number in range(6))
BUSY = attrs.evolve(
    IDLE, slots=SLOTS, topics=(("Orders", 400), ("Bills", 100), ("Rare", 1)), topic_count=5
)


def drawn(
    snapshot: Snapshot,
    height: int = 4,
    **changes: Any,  # noqa: ANN401 - passed on
) -> list[str]:
    """The two lists as plain text."""
    view = attrs.evolve(View(address=ADDRESS, snapshot=snapshot), **changes)
    return [line.plain for line in lists(view, snapshot, height)]


def test_slots_and_topics_stand_side_by_side() -> None:
    """Below one line of headers, as many rows as there is room for."""
    header, first, *others = drawn(BUSY)

    assert "next slots" in header
    assert "topic (5)" in header
    assert "Orders" in first
    assert len(others) == 2


@pytest.mark.parametrize("is_idle", [True, False])
def test_where_nothing_waits_the_list_says_so(*, is_idle: bool) -> None:
    """Once, in its first row."""
    lines = drawn(IDLE if is_idle else BUSY)

    assert sum("nothing waits" in line for line in lines) == is_idle


def test_the_chosen_slot_is_always_to_be_seen() -> None:
    """The list moves with it, and marks it only while it has the focus."""
    for number, first in ((0, 10), (2, 10), (3, 11), (5, 13)):
        shown = drawn(BUSY, focus=Focus.SLOTS, slot_ms=SLOTS[number][0])[1:]
        assert f"{first:>11}" in shown[0]
        assert [line[0] for line in shown].count(">") == 1
    assert [line[0] for line in drawn(BUSY, slot_ms=SLOTS[5][0])[1:]].count(">") == 0


def test_a_slot_that_is_overdue_says_how_late_it_is() -> None:
    """It counts from the end of its second: until then nothing is late."""
    late = attrs.evolve(BUSY, slots=((SLOT_MS - 5_000, 1), (SLOT_MS, 1)))
    _, first, second, _ = drawn(late)

    assert " late" in first
    assert " late" not in second


def test_bars_are_shares_of_the_largest_topic() -> None:
    """The smallest has a sliver: it is not nothing."""
    bars = [line.rsplit(" ", 1)[1] for line in drawn(BUSY)[1:]]

    assert bars[0] == "█" * BAR_WIDTH
    assert bars[1] == "█" * (BAR_WIDTH // 4)
    assert bars[2] == "▏"


def test_a_filter_is_named_and_its_odd_characters_are_not_printed() -> None:
    """It may have been pasted; the terminal must not obey it."""
    header = drawn(BUSY, topic="O\x1b[2J")[0]

    assert "topic with 'O" in header
    assert "\x1b" not in header


ROW = PendingRow(
    deliver_ms=NOW_MS, topic="Orders", unique_id="K" * 32, keys="order-1", tags="pay", rolls=2
)


def opened(
    height: int = 9,
    width: int = WIDTH,
    **changes: Any,  # noqa: ANN401 - passed on
) -> list[str]:
    """The messages of a slot as plain text."""
    slot = attrs.evolve(Opened(from_ms=SLOT_MS, to_ms=SLOT_MS + 1000), **changes)
    view = View(address=ADDRESS, snapshot=BUSY, width=width)
    return [line.plain for line in messages(view, slot, height)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "reading"),
        ({"rows": ()}, "no message is due here"),
        ({"fault": "b\x1bad"}, "cannot be read: b"),
        ({"fault": "bad", "rows": (ROW,)}, "cannot be read: bad"),
    ],
)
def test_a_slot_without_rows_says_why(changes: dict[str, Any], text: str) -> None:
    """It is being read, is empty, or cannot be read."""
    lines = opened(**changes)

    assert len(lines) == 2
    assert text in lines[1]
    assert "\x1b" not in lines[1]


@pytest.mark.parametrize(
    ("first", "is_whole", "title"),
    [(0, True, ": 1 of 20 "), (15, True, ": 16 of 20 "), (0, False, ": 1 of more than 20 ")],
)
def test_a_long_list_says_where_it_is(first: int, *, is_whole: bool, title: str) -> None:
    """The row at the top, and of how many; as many rows as there is room for."""
    lines = opened(rows=(ROW,) * 20, first=first, is_whole=is_whole)

    assert title in lines[0]
    assert len(lines) == 2 + min(7, 20 - first)


def test_a_wide_screen_gives_its_room_to_topic_and_keys() -> None:
    """On a narrow one they are cut, and say so."""
    long = attrs.evolve(ROW, topic="T" * 30, keys="k" * 30)
    narrow, wide = (opened(width=width, rows=(long,))[2] for width in (WIDTH, WIDTH + 60))

    assert "T" * 10 + "…" in narrow
    assert "T" * 30 in wide
    assert "k" * 30 in wide
