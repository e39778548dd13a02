"""The wheel as a picture: a bar a cell, by the logarithm of what waits in it.

One message is visible beside a million: the lowest bar is one, the highest the fullest cell. The
height says it all; the colour repeats it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

EIGHTHS = " ▁▂▃▄▅▆▇█"
HEAT = ("blue", "cyan", "green", "yellow", "red")


def level(number: int, peak: int, levels: int) -> int:
    """Height of a bar in 0 … levels; 0 for nothing, at least 1 for something."""
    if number <= 0:
        return 0
    if peak <= 1:
        return 1
    return 1 + round((levels - 1) * math.log(min(number, peak)) / math.log(peak))


def bars(numbers: Sequence[int], rows: int) -> list[Text]:
    """The bars, upper row first; all rows are as wide as there are numbers."""
    peak = max(numbers, default=0)
    levels = [level(number, peak, 8 * rows) for number in numbers]
    lines: list[Text] = []
    for row in reversed(range(rows)):
        line = Text()
        for one in levels:
            eighths = max(0, min(8, one - 8 * row))
            line.append(EIGHTHS[eighths], heat(one, 8 * rows))
        lines.append(line)
    return lines


def heat(one: int, levels: int) -> str:
    """The colour of a height."""
    return HEAT[min(one * len(HEAT) // (levels + 1), len(HEAT) - 1)] if one else ""


def ruler(cells: int, cursor: int, step: int) -> str:
    """The line below the bars: where labels belong, and the cursor."""
    marks = ["-" if cell % step else "|" for cell in range(cells)]
    marks[cursor] = "^"
    return "".join(marks)


def labels(texts: Sequence[str], cells: int, step: int) -> str:
    """A text below every ``step`` cells; one that would not fit is left out."""
    line = ""
    for at, text in enumerate(texts):
        place = at * step
        if place + len(text) <= cells and len(line) <= place:
            line = line.ljust(place) + text
    return line


def sparkline(buckets: Sequence[int | None], bucket_count: int) -> str:
    """A height for each bucket number; None is a gap."""
    return "".join(
        " " if one is None else EIGHTHS[1 + one * 7 // max(bucket_count, 1)] for one in buckets
    )
