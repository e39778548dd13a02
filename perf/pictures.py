"""Draws docs/pictures/*.svg from the kept results; measures nothing.

Run: ``python perf/pictures.py``, or ``make docs``. ``make figures`` measures, then draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from result_files import kept

from timermq.pipeline.spark.pictures import (
    BLUE,
    ORANGE,
    Axis,
    Series,
    even_ticks,
    plot,
    ticks_of_ten,
)

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
BEFORE_SECONDS, AFTER_SECONDS = 2, 2
"""What is shown before the instant, and after the last message of the burst."""
LEAST_MS = 0.5
"""Lower end of the lateness axis; what came sooner stands on it."""


def burst_lateness(result: Mapping[str, Any]) -> str:
    """Every message of a burst and its neighbours: when it came, and how late."""
    burst: list[tuple[float, int]] = result["burst"]
    neighbours: list[tuple[float, float]] = result["neighbours"]
    drained = max(late for late, _ in burst)
    crowd_points = [(late / 1000, late) for late, _ in burst]
    other_points = [((due + late) / 1000, late) for due, late in neighbours]
    last = math.ceil(drained / 1000) + AFTER_SECONDS
    shown = [point for point in other_points if -BEFORE_SECONDS <= point[0] <= last]
    most = 10 * max(late for _, late in crowd_points + shown)
    return plot(
        f"A burst of {result['count']:,} messages due at one instant, and its neighbours",
        Axis(
            label="arrival, seconds after the instant",
            low=-BEFORE_SECONDS,
            high=last,
            ticks=range(-BEFORE_SECONDS, last + 1),
        ),
        Axis(
            label="lateness, ms",
            low=LEAST_MS,
            high=ticks_of_ten(LEAST_MS, most)[-1],
            ticks=ticks_of_ten(LEAST_MS, most),
            logarithmic=True,
        ),
        [
            Series(name="of the burst, by arrival", colour=ORANGE, points=crowd_points),
            Series(name="of another topic, each", colour=BLUE, points=shown),
        ],
        f"drained in {drained / 1000:.2f} s; {_machine(result)}",
    )


def pending_cost(result: Mapping[str, Any]) -> str:
    """CPU a message beside how many are pending."""
    points: list[Mapping[str, Any]] = result["points"]
    ticks = even_ticks(1.25 * max(max(point["rounds"]) for point in points))
    pending = ticks_of_ten(points[0]["pending"], points[-1]["pending"])
    return plot(
        "What a message costs while others wait",
        Axis(
            label="messages pending",
            low=pending[0] / 1.5,
            high=pending[-1] * 1.5,
            ticks=pending,
            logarithmic=True,
        ),
        Axis(label="CPU, µs a message", low=0, high=ticks[-1], ticks=ticks),
        [
            Series(
                name="sent, delivered and pulled: median",
                colour=BLUE,
                joined=True,
                points=[(point["pending"], point["cpu_us"]) for point in points],
            ),
            Series(
                name="each round",
                colour=ORANGE,
                points=[(point["pending"], one) for point in points for one in point["rounds"]],
            ),
        ],
        f"at the speed of the reference; {_machine(result)}",
    )


PICTURES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "burst_lateness": burst_lateness,
    "pending_cost": pending_cost,
}
"""Name of the result, and of the picture, to what draws it."""


def _machine(result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    return (
        f"{machine['cores']} cores of {machine['processor']}, Python {machine['python']}, "
        f"calibration {machine['calibration_ms']} ms"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name.replace('_', '-')}.svg").write_text(draw(kept(name)), encoding="utf-8")
