"""Two renderers for the same rows: JSON lines for programs, tables for people."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from .moment import format_moment

if TYPE_CHECKING:
    from rich.console import Console

# Rich draws tables; JSON, or a line, is printed without it.

Row = Mapping[str, object]

TEXT_LEAST = 8
"""Columns below which a text is not folded."""
PIPED_WIDTH = 200
"""Columns of a table that does not go to a terminal."""


def print_json(rows: Iterable[Row]) -> None:
    """Print one object a line, pure ASCII, so that any terminal and any program can take it."""
    for row in rows:
        sys.stdout.write(json.dumps(row, separators=(",", ":")) + "\n")


def print_table(rows: Iterable[Row], columns: Sequence[str], *, title: str | None = None) -> None:
    """Print the named columns; numbers line up right, times ``…_ms`` are written as moments.

    Where the terminal is too narrow texts are folded, and moments and headers stand on several
    lines; where even that is too wide the terminal wraps the lines, and every column is there.

    Args:
        rows: May hold more than the columns; a missing or None value is left empty.
        columns: Keys of the rows, in order of appearance; they are the headers too.
        title: Written above the table.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    shown = [[_cell(column, row.get(column)) for column in columns] for row in rows]
    screen = console()
    widths = [
        max([len(column), *(len(cells[at].text) for cells in shown)])
        for at, column in enumerate(columns)
    ]
    is_narrow = sum(widths) + 2 * (len(widths) - 1) > screen.width
    least = 0
    for at, column in enumerate(columns):
        right = all(cells[at].right for cells in shown)
        table.add_column(
            _header(column).replace("_", "\n") if is_narrow else _header(column),
            justify="right" if right and shown else "left",
            overflow="fold",
            no_wrap=right and bool(shown),
        )
        if is_narrow and right and _is_moment(column):
            least += 2 + max(map(len, format_moment(0).split("T")))
        elif is_narrow:
            least += 2 + (widths[at] if right else min(widths[at], TEXT_LEAST))
    screen.width = max(screen.width, least)
    for cells in shown:
        table.add_row(
            *(
                Text(
                    cell.text.replace("T", "\n") if is_narrow and _is_moment(column) else cell.text
                )
                for column, cell in zip(columns, cells, strict=True)
            )
        )
    screen.print(table)


def visible(text: str) -> str:
    """The text with what would move or colour a terminal written out: a line stays a line."""
    if text.isprintable():
        return text
    return "".join(
        one
        if one.isprintable() or unicodedata.category(one) == "Zs"
        else one.encode("unicode_escape").decode()
        for one in text
    )


def console() -> Console:
    """The console on standard output, wide when it is no terminal."""
    from rich.console import Console

    return Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False
    )


def _header(column: str) -> str:
    return column.removesuffix("_ms") if _is_moment(column) else column


class _Cell:
    __slots__ = ("right", "text")

    def __init__(self, text: str, *, right: bool) -> None:
        self.text = text
        self.right = right


def _cell(column: str, value: object) -> _Cell:
    if value is None:
        return _Cell("", right=True)
    if isinstance(value, int) and not isinstance(value, bool):
        return _Cell(format_moment(value) if _is_moment(column) else str(value), right=True)
    return _Cell(visible(str(value)), right=False)


def _is_moment(column: str) -> bool:
    """Whether a column holds moments; lateness and other spans are plain numbers."""
    return column.endswith("_ms") and not column.startswith(("lateness", "delay"))
