"""What a key makes of the screen's state."""

from __future__ import annotations

import attrs
import pytest

from timermq.cli.top.view import Focus, Opened, View
from timermq.remoting import Snapshot, WatchView
from top_samples import IDLE, NOW_MS, burst_arriving, idle, slot_opened

SECOND_MS = NOW_MS // 1000 * 1000


def after(view: View, *keys: str) -> View:
    """The view after some keys."""
    for key in keys:
        view = view.pressed(key)
    return view


def with_slots(*seconds: int) -> Snapshot:
    """A snapshot whose next slots are some seconds ahead."""
    return attrs.evolve(IDLE, slots=tuple((SECOND_MS + 1_000 * second, 1) for second in seconds))


def test_quitting() -> None:
    """``q`` ends it, from the help too."""
    assert after(idle(), "q").is_done
    assert after(idle(), "?", "q").is_done


def test_help() -> None:
    """Any key leads back from it, and does nothing else."""
    assert after(idle(), "?").has_help
    assert idle() == after(idle(), "?", "p")


def test_zoom() -> None:
    """From a second to a day a cell, and no further; the broker is asked for it."""
    widths = [1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 86_400_000]
    view = idle()
    for width_ms in widths:
        wanted = view.wanted()
        assert wanted is not None
        assert width_ms == wanted.width_ms
        view = view.pressed("-")
    assert 6 == view.zoom
    assert 0 == after(view, *["+"] * 9).zoom
    assert 5 == after(view, "=").zoom


def test_a_pause_asks_for_nothing() -> None:
    """While it lasts the picture stands still, whatever is still on its way."""
    view = after(idle(), "p")
    later = attrs.evolve(IDLE, pending=5)

    assert view.wanted() is None
    assert view == view.with_snapshot(later)
    assert later == after(view, "p").with_snapshot(later).snapshot


def test_a_pause_before_the_first_picture() -> None:
    """There is something to look at all the same."""
    view = View(address="a:1").pressed("p").with_snapshot(IDLE)

    assert IDLE == view.snapshot


def test_the_cursor_stays_in_the_wheel() -> None:
    """From the first cell to the last one that there is room for."""
    assert 0 == after(idle(), "left").cursor
    assert 77 == after(idle(), "end").cursor
    assert 77 == after(idle(), "end", "right").cursor
    assert 0 == after(idle(), "end", "home").cursor
    assert 197 == after(idle(200, 60), "end").cursor
    assert 255 == after(idle(400, 60), "end").cursor


def test_the_cursor_stays_with_its_time() -> None:
    """Cells move to the left as time passes; a choice that is over becomes the first cell."""
    view = after(idle(), "right", "right", "right")
    for seconds, cursor in ((1, 2), (3, 0), (9, 0)):
        snapshot = attrs.evolve(IDLE, from_ms=IDLE.from_ms + 1_000 * seconds)
        assert cursor == view.with_snapshot(snapshot).cursor


def test_the_cursor_after_a_zoom() -> None:
    """The cell that its time lies in."""
    view = after(idle(), *["right"] * 25)
    minutes = attrs.evolve(IDLE, width_ms=10_000, from_ms=IDLE.from_ms // 10_000 * 10_000)

    assert 3 == view.with_snapshot(minutes).cursor


def test_a_narrower_screen() -> None:
    """The cursor stays within a screen that got narrower."""
    assert 77 == after(idle(200, 60), "end").with_size(80, 24).cursor


def test_choosing_a_slot() -> None:
    """The first arrow takes the list up, the next ones move; at either end it stays."""
    view = idle().with_snapshot(with_slots(3, 5, 9))

    assert (Focus.SLOTS, 0) == (after(view, "down").focus, after(view, "down").slot)
    assert 1 == after(view, "down", "down").slot
    assert 2 == after(view, *["down"] * 9).slot
    assert 0 == after(view, "down", "down", "up", "up").slot
    assert Focus.CELLS is after(view, "down", "right").focus


def test_a_slot_that_is_over() -> None:
    """The choice goes to the one that came next, not to another place of the list."""
    view = after(idle().with_snapshot(with_slots(3, 5, 9)), "down", "down")

    assert 0 == view.with_snapshot(with_slots(5, 9)).slot
    assert 0 == view.with_snapshot(with_slots(9, 12)).slot
    assert 0 == view.with_snapshot(with_slots()).slot


def test_opening_a_cell() -> None:
    """A cell is its span of slots."""
    opened = after(idle(), *["right"] * 4, "enter").opened

    assert Opened(from_ms=SECOND_MS + 4_000, to_ms=SECOND_MS + 5_000) == opened


def test_opening_the_present() -> None:
    """What is overdue belongs to it."""
    opened = after(idle().with_snapshot(with_slots(-7, 3)), "enter").opened

    assert Opened(from_ms=SECOND_MS - 7_000, to_ms=SECOND_MS + 1_000) == opened


def test_opening_a_slot() -> None:
    """A slot of the list is as wide as the precision."""
    opened = after(idle().with_snapshot(with_slots(3, 5)), "down", "down", "enter").opened

    assert Opened(from_ms=SECOND_MS + 5_000, to_ms=SECOND_MS + 6_000) == opened


def test_scrolling_and_leaving() -> None:
    """Arrows scroll between the first row and the last; escape leads back."""
    view = slot_opened()
    firsts = [
        after(view, *keys).opened
        for keys in (["up"], ["down"], ["page down"], ["end"], ["end", "home"], ["end", "page up"])
    ]

    assert [0, 1, 10, 15, 0, 5] == [opened.first for opened in firsts if opened is not None]
    assert after(view, "escape").opened is None


def test_messages_of_a_slot_that_is_open_no_more() -> None:
    """Messages that come for another slot than the open one are passed over."""
    asked = Opened(from_ms=1, to_ms=2)
    read = attrs.evolve(asked, rows=())
    open_view = attrs.evolve(idle(), opened=asked)

    assert read == open_view.with_messages(asked, read).opened
    assert idle().with_messages(asked, read).opened is None
    other = attrs.evolve(idle(), opened=Opened(from_ms=1, to_ms=2))
    assert other == other.with_messages(asked, read)


def test_typing_a_filter() -> None:
    """Keys are letters while it is typed; enter takes it, escape leaves the old one."""
    view = after(idle(), "/", "q", "?", "r", "backspace", "left")
    assert ("q?", "") == (view.typing, view.topic)

    taken = after(view, "enter")
    assert (None, "q?") == (taken.typing, taken.topic)
    assert WatchView(topic="q?") == taken.wanted()
    assert (None, "") == (after(view, "escape").typing, after(view, "escape").topic)
    assert "q?" == after(taken, "/").typing
    assert "" == after(taken, "escape").topic


def test_a_filter_is_bounded() -> None:
    """The broker takes no longer one."""
    assert 127 == len(after(idle(), "/", *["x"] * 200).typing or "")


def test_a_filter_on_an_open_slot() -> None:
    """Its messages are read again."""
    opened = after(slot_opened(), "/", "O", "enter").opened

    assert opened is not None
    assert opened.rows is None


@pytest.mark.parametrize("key", ["x", "backspace", "page up", "é"])
def test_other_keys(key: str) -> None:
    """Keys without a meaning change nothing."""
    assert burst_arriving() == after(burst_arriving(), key)


@pytest.mark.parametrize("key", ["right", "down", "enter", "end", "+", "/", "escape", "left"])
def test_keys_before_the_first_picture(key: str) -> None:
    """None of these keys fails or ends the screen before the first picture."""
    assert not after(View(address="a:1"), key, "enter").is_done


def test_trouble_and_its_end() -> None:
    """The picture stays while nothing comes; the next one ends the trouble."""
    view = burst_arriving().with_trouble("gone")

    assert burst_arriving().snapshot == view.snapshot
    assert view.with_snapshot(IDLE).trouble is None
