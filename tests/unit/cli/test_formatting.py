"""Numbers and times as the screen writes them."""

from __future__ import annotations

from datetime import UTC

import pytest

from timermq.cli import formatting

NOW_MS = 1_795_255_387_250


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-3, "-3"),
        (1_234_567, "1,234,567"),
        (12_345_678, "12.3 M"),
        (5 * 10**10, "50.0 G"),
    ],
)
def test_count(number: int, text: str) -> None:
    """Nine places are enough for any."""
    assert text == formatting.count(number)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0/s"), (0.25, "0.2/s"), (9.96, "10.0/s"), (12_345.6, "12,346/s")]
)
def test_rate(number: float, text: str) -> None:
    """Small ones have a decimal."""
    assert text == formatting.rate(number)


@pytest.mark.parametrize(
    ("number", "text"), [(999, "999 B"), (61_000_000, "61.0 MB"), (2_500_000_000, "2.5 GB")]
)
def test_size(number: int, text: str) -> None:
    """In the unit that fits."""
    assert text == formatting.size(number)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (-5, "0ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (61_999, "1m1s"),
        (3_600_000, "1h"),
        (302_400_000, "3d12h"),
        (86_460_000, "1d"),
    ],
)
def test_span(duration_ms: int, text: str) -> None:
    """A span is written in its two largest units."""
    assert text == formatting.span(duration_ms)


@pytest.mark.parametrize(
    ("width_ms", "text"),
    [(1_000, "10:03:07"), (60_000, "10:03"), (3_600_000, "11-21 10:03"), (86_400_000, "11-21")],
)
def test_cell_time(width_ms: int, text: str) -> None:
    """As finely as the cells differ."""
    assert text == formatting.cell_time(NOW_MS, width_ms, UTC)


def test_slot_time() -> None:
    """The day stands there when it is not today."""
    assert "10:03:07" == formatting.slot_time(NOW_MS, NOW_MS, UTC)
    assert "11-22 10:03:07" == formatting.slot_time(NOW_MS + 86_400_000, NOW_MS, UTC)
    assert str(2**62) == formatting.slot_time(2**62, NOW_MS, UTC)


def test_lateness() -> None:
    """An upper bound, or none."""
    assert "≤ 1,000 ms" == formatting.lateness(1_000)
    assert "> 60 s" == formatting.lateness(None)


def test_nothing_from_outside_commands_the_terminal() -> None:
    """Escapes and line ends become question marks."""
    assert "a?[2J?b é" == formatting.printable("a\x1b[2J\nb é")
