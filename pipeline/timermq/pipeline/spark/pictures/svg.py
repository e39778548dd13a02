"""The shared parts of all pictures: their size, their colours, their text.

The background stays the page's own; grey and the strong colours are visible on a light page and on
a dark one. The same numbers give the same bytes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 74, 24, 66, 56
"""Margins around the area of a plot."""
GREY = "#7d8590"
BLUE, ORANGE = "#2f81f7", "#db6d28"
COLOURS = (BLUE, ORANGE, "#2da44e", "#a371f7", "#bf8700", "#1b9e9e", "#d1477f")
"""For what stands side by side; grey is for the rest."""
FONT = "ui-sans-serif, system-ui, sans-serif"
LETTER_WIDTH = 7
"""Of the font, on an average."""


def picture(title: str, note: str, parts: Iterable[str], *, height: int = HEIGHT) -> str:
    """The whole file; ``note`` stands small below the title."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="{FONT}" font-size="13" fill="{GREY}" role="img">'
    )
    heading = (
        f"<title>{html.escape(title)}</title>",
        text(LEFT, 22, title, 'font-size="16" font-weight="600"'),
        text(LEFT, 40, note, 'font-size="12"'),
    )
    return "\n".join([head, *heading, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, how: str = "") -> str:
    """Words at a place; ``how`` are more attributes."""
    return f'<text x="{x}" y="{y}" {how}>{html.escape(words)}</text>'


def hint(words: str) -> str:
    """The text that a browser shows when the pointer is on the element around it."""
    return f"<title>{html.escape(words)}</title>"


def short_number(value: int) -> str:
    """At most four characters: 999, 1.2k, 47k, 3M; rounded down."""
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= 10 * unit:
            return f"{value // unit}{name}"
        if value >= unit:
            return f"{value * 10 // unit / 10:g}{name}"
    return str(value)
