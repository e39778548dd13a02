"""Rows of cells, the fuller the stronger: a week of days and hours.

Each cell has its number too, so that colour never says something alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from .svg import BLUE, BOTTOM, LEFT, RIGHT, TOP, WIDTH, hint, picture, short_number, text

CELL_HEIGHT = 34
GAP = 2
EMPTY, FAINTEST = 0.04, 0.12
"""Opacity of a cell with nothing, and with hardly anything."""
STRONG = 0.5
"""From this opacity on the number is white: grey would not be seen."""


@attrs.frozen(kw_only=True)
class HeatRow:
    """One row, with what stands to its left."""

    name: str
    counts: Sequence[int | None]
    """None: there is no such cell."""


def heat_map(
    title: str, columns: Sequence[str], rows: Sequence[HeatRow], label: str, note: str = ""
) -> str:
    """The picture.

    Args:
        title: Above it.
        columns: What stands below the cells of a column.
        rows: From above.
        label: Of the columns, below them.
        note: Small, below the title.
    """
    most = max((count or 0 for row in rows for count in row.counts), default=0)
    width = (WIDTH - LEFT - RIGHT) / max(len(columns), 1)
    parts: list[str] = []
    for number, row in enumerate(rows):
        y = TOP + CELL_HEIGHT * number
        middle = y + CELL_HEIGHT / 2 + 4
        parts.append(text(LEFT - 8, middle, row.name, 'text-anchor="end"'))
        for column, count in zip(range(len(columns)), row.counts, strict=True):
            if count is not None:
                x = round(LEFT + width * column, 1)
                says = f"{row.name} {columns[column]}: {count:,}"
                parts += _cell(x, y, round(width, 1), count, most, says)
    bottom = TOP + CELL_HEIGHT * len(rows)
    for column, name in enumerate(columns):
        x = round(LEFT + width * (column + 0.5), 1)
        parts.append(text(x, bottom + 16, name, 'text-anchor="middle"'))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 38, label, 'text-anchor="middle"'))
    return picture(title, note, parts, height=bottom + BOTTOM)


def _cell(x: float, y: float, width: float, count: int, most: int, says: str) -> list[str]:
    opacity = _opacity(count, most)
    size = f'width="{round(width - GAP, 1)}" height="{CELL_HEIGHT - GAP}" rx="3"'
    box = f'<rect x="{x}" y="{y}" {size} fill="{BLUE}" fill-opacity="{opacity}">{hint(says)}</rect>'
    if not count:
        return [box]
    colour = ' fill="#ffffff"' if opacity >= STRONG else ""
    centre, base = round(x + (width - GAP) / 2, 1), y + CELL_HEIGHT / 2 + 3
    how = f'text-anchor="middle" font-size="10" pointer-events="none"{colour}'
    return [box, text(centre, base, short_number(count), how)]


def _opacity(count: int, most: int) -> float:
    """By the root: an hour with a hundredth of the fullest is still seen."""
    if not count:
        return EMPTY
    return round(FAINTEST + (1 - FAINTEST) * math.sqrt(count / most), 2)
