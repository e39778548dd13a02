"""The wheel as a picture."""

from __future__ import annotations

from timermq.cli.top.wheel_strip import bars, labels, level, ruler, sparkline


def test_levels() -> None:
    """Nothing is nothing, one is the lowest, the fullest is the highest."""
    assert [0, 0, 1, 24] == [level(number, 10**6, 24) for number in (-2, 0, 1, 10**6)]
    assert [1, 24] == [level(1, 1, 24), level(2, 2, 24)]


def test_bars() -> None:
    """By the logarithm: each tenfold is as much higher as the one before."""
    upper, lower = bars([0, 1, 10, 100, 1_000], 2)

    assert ("   ▃█", " ▁▆██") == (upper.plain, lower.plain)


def test_an_empty_wheel() -> None:
    """Rows of blanks as wide as the wheel."""
    assert ["   ", "   "] == [row.plain for row in bars([0, 0, 0], 2)]


def test_ruler_and_labels() -> None:
    """Marks where the texts begin, and the cursor wins; a text that does not fit is left out."""
    assert "|---|^--|--" == ruler(11, 5, 4)
    assert "aaa bb" == labels(["aaa", "bb", "dddd"], 11, 4)
    assert "aaaaa   c" == labels(["aaaaa", "b", "c"], 11, 4)


def test_sparkline() -> None:
    """A height a bucket, a blank for a gap."""
    assert "▁ ▄█" == sparkline([0, None, 6, 12], 12)
