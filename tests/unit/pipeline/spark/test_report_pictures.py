"""The pictures of a report show its numbers, the same bytes each time."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ET
from datetime import UTC, timedelta, timezone
from pathlib import Path
from types import ModuleType

import pytest

from timermq.pipeline.spark.jobs.report_pictures import (
    BARS_MAX,
    OTHERS,
    Bars,
    Drawable,
    lateness,
    pictures,
    week,
)
from timermq.pipeline.spark.pictures import short_number

DOCS = Path(__file__).parents[4] / "docs"
NINE_MS = 1_700_006_400_000
"""2023-11-15T00:00:00Z."""
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def hints(picture: str) -> list[str]:
    """What the marks of a picture say; the first is the picture's own title."""
    names = ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}title")
    return [name.text or "" for name in names][1:]


@pytest.fixture
def example() -> ModuleType:
    """The script that draws the pictures of the page."""
    spec = importlib.util.spec_from_file_location("report_pictures", DOCS / "report_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["backlog", "week", "lateness"])
def test_the_page_shows_what_is_drawn(example: ModuleType, name: str) -> None:
    """``make docs`` draws them anew."""
    drawn = pictures(example.example(), UTC)[name]

    assert drawn == (DOCS / "pictures" / f"report-{name}.svg").read_text()


def test_bars_are_as_fine_as_fits() -> None:
    """Minutes for two hours, days for a month; the first one holds what begins."""
    assert MINUTE_MS == Bars(NINE_MS, NINE_MS + 119 * MINUTE_MS).span_ms
    assert 5 * MINUTE_MS == Bars(NINE_MS, NINE_MS + 120 * MINUTE_MS).span_ms
    month = Bars(NINE_MS + 1, NINE_MS + 31 * DAY_MS)
    assert (DAY_MS, 32) == (month.span_ms, month.count)
    assert BARS_MAX >= month.count
    overdue = Bars(NINE_MS, NINE_MS - 5 * DAY_MS)
    assert (NINE_MS, 1) == (overdue.first_ms, overdue.count)


def test_every_bar_tells_its_numbers() -> None:
    """Topics are stacked in their order; those without a colour are grey."""
    drawn = pictures(
        Drawable(
            begin_ms=NINE_MS,
            last_ms=NINE_MS + MINUTE_MS,
            topics=["a<b", "mails"],
            bars={("a<b", 0): 3, ("mails", 0): 2, ("mails", 1): 1_000, (OTHERS, 1): 7},
            week={NINE_MS: 5},
            late=[],
        ),
        UTC,
    )

    assert ["backlog", "week"] == list(drawn)
    assert [
        "2023-11-15 00:00: 3 a<b",
        "2023-11-15 00:00: 2 mails",
        "2023-11-15 00:01: 1,000 mails",
        "2023-11-15 00:01: 7 others",
    ] == hints(drawn["backlog"])


def test_all_that_waits_is_behind_what_is_drawn() -> None:
    """No picture is better than an empty one."""
    nothing = Drawable(
        begin_ms=NINE_MS, last_ms=NINE_MS + MINUTE_MS, topics=[], bars={}, week={}, late=[]
    )

    assert {} == pictures(nothing, UTC)


def test_the_week_is_in_the_zone_asked_for() -> None:
    """Half past midnight in London is six in India, and hours that have passed have no cell."""
    india = timezone(timedelta(hours=5, minutes=30))

    found = hints(week({NINE_MS + HOUR_MS // 2: 4, NINE_MS + DAY_MS: 9}, NINE_MS, india))

    assert 7 * 24 - 5 == len(found)
    assert ["11-15 05: 0", "11-15 06: 4"] == found[:2]
    assert "11-16 05: 9" in found


def test_lateness_rises_to_all() -> None:
    """The curve begins at nothing on the left and ends at everything on the right."""
    drawn = lateness([(-1, 1), (2, 98), (1_000, 1)])

    (line,) = re.findall('polyline points="([^"]+)"', drawn)
    places = [tuple(map(float, place.split(","))) for place in line.split()]
    assert [place[0] for place in places] == sorted(place[0] for place in places)
    assert [place[1] for place in places] == sorted((place[1] for place in places), reverse=True)
    assert "100 messages" in drawn


def test_short_numbers() -> None:
    """Never more than four characters, never more than there are."""
    assert ["0", "999", "1k", "9.9k", "10k", "999k", "1M", "47M", "1.2G"] == [
        short_number(value)
        for value in (0, 999, 1_000, 9_999, 10_000, 999_999, 1_000_000, 47_000_000, 1_234_567_890)
    ]
