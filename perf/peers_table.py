"""Figures of several servers side by side: rows for a table, for any printer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from peers import DURABILITIES, PEERS
from rich.console import Console
from rich.table import Table

Answer = Mapping[str, object]
"""One line of ``timermq bench --peers --json``."""


@attrs.frozen
class Row:
    """One line of the table: which number of which answer."""

    label: str
    question: str
    key: str


ROWS = (
    Row("sent, delivered, taken: messages/s", "steady", "per_second"),
    Row("… server CPU, µs a message", "steady", "cpu_us"),
    Row("50 connections in turn: messages/s", "sync", "per_second"),
    Row("… server CPU, µs a message", "sync", "cpu_us"),
    Row("burst of one instant: messages/s", "burst", "per_second"),
    Row("… server CPU, µs a message", "burst", "cpu_us"),
    Row("lateness at 2,000/s: p50, ms", "lateness", "p50_ms"),
    Row("… p99, ms", "lateness", "p99_ms"),
    Row("neighbours of a burst: p99, ms", "neighbours of a burst", "value"),
    Row("memory a pending message, bytes", "memory", "value"),
    Row("calibration while sending, ms", "steady", "calibration_ms"),
)


def side_by_side(answers: Sequence[Answer], durability: str) -> list[tuple[str, list[str]]]:
    """The rows of one durability: a label, and a cell for each of ``PEERS``, empty where unasked.

    Rows without an answer are left out.
    """
    found = {
        (str(one["question"]), str(one["peer"])): one
        for one in answers
        if one["durability"] == durability
    }
    rows: list[tuple[str, list[str]]] = []
    for row in ROWS:
        numbers = [found.get((row.question, peer), {}).get(row.key) for peer in PEERS]
        if any(number is not None for number in numbers):
            rows.append((row.label, [_written(number) for number in numbers]))
    return rows


def print_peers(answers: Sequence[Answer]) -> None:
    """A table for each durability."""
    console = Console()
    for durability in DURABILITIES:
        rows = side_by_side(answers, durability.name)
        if not rows:
            continue
        table = Table("", title=f"durability: {durability.name}", caption=durability.promise)
        for peer in PEERS:
            table.add_column(peer, justify="right", footer=durability.settings[peer])
        table.show_footer = True
        for label, cells in rows:
            table.add_row(label, *cells)
        console.print(table)


def _written(number: object) -> str:
    if not isinstance(number, int | float):
        return ""
    return f"{number:,.1f}" if number < 1000 else f"{number:,.0f}"
