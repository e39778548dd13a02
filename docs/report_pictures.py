"""Draws docs/pictures/report-*.svg: what `timermq spark report --out` draws, of made-up numbers.

Run by ``make docs``. The numbers are drawn by a seed, so the pictures are the same every time.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC
from pathlib import Path

from timermq.pipeline.spark.jobs.report_pictures import Bars, Drawable, pictures

FOLDER = Path(__file__).parent / "pictures"
BEGIN_MS = 1_798_097_400_000
"""2026-12-24T07:30:00Z."""
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
TOPICS = {"reminders": (9, 40_000), "bills": (8, 15_000), "orders": (17, 6_000)}
"""The hour of the day at which each has most, and how many a day."""
DAYS = 5
DELIVERED = 20_000


def example() -> Drawable:
    """A shop: reminders at nine, bills at eight, orders around five, for five days."""
    draw = random.Random(5)  # noqa: S311 - an example, not a secret
    midnight_ms = BEGIN_MS // DAY_MS * DAY_MS
    minutes = Counter[tuple[str, int]]()
    for topic, (hour, a_day) in TOPICS.items():
        for day in range(DAYS):
            for _ in range(a_day // (day + 1)):
                at_ms = midnight_ms + day * DAY_MS + round(draw.gauss(hour, 1.5) * HOUR_MS)
                if at_ms >= BEGIN_MS:
                    minutes[topic, at_ms // MINUTE_MS * MINUTE_MS] += 1
    last_ms = max(minute_ms for _, minute_ms in minutes)
    bars, week = Counter[tuple[str, int]](), Counter[int]()
    spans = Bars(BEGIN_MS, last_ms)
    for (topic, minute_ms), count in minutes.items():
        bars[topic, (minute_ms - spans.first_ms) // spans.span_ms] += count
        week[minute_ms] += count
    late = Counter(min(round(draw.lognormvariate(1.6, 0.9)), 127) for _ in range(DELIVERED))
    return Drawable(
        begin_ms=BEGIN_MS,
        last_ms=last_ms,
        topics=list(TOPICS),
        bars=dict(bars),
        week=dict(week),
        late=sorted(late.items()),
    )


if __name__ == "__main__":
    for name, picture in pictures(example(), UTC).items():
        (FOLDER / f"report-{name}.svg").write_text(picture, encoding="utf-8")
