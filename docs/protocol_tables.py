"""Writes the tables of docs/protocol.md: request codes, and numbers of the broker.

Run by ``make docs``; a test compares the page with it.
"""

from __future__ import annotations

from pathlib import Path

from marked_place import filled

from timermq.broker.admin.broker_stats import STATISTICS
from timermq.broker.admin.runtime_info import NOT_HERE
from timermq.broker.compatibility import compatibility_rows

PAGE_PATH = Path(__file__).parent / "protocol.md"


def with_tables(page: str) -> str:
    """The page with its tables made again.

    Raises:
        ValueError: The page has no place for one.
    """
    places = {
        "table: request codes": table(),
        "table: fixed numbers": fixed_numbers(),
        "table: statistics": statistics(),
    }
    for name, rows in places.items():
        page = filled(page, name, rows, path="docs/protocol.md")
    return page


def table() -> str:
    """The table of request codes, in Markdown."""
    rows = ["| code | name | served | | shown by `tests/` |", "| --- | --- | --- | --- | --- |"]
    for code, name, how, what, shown_by in compatibility_rows():
        cells = (str(code), name, how, what, f"`{shown_by}.py`" if shown_by else "")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def fixed_numbers() -> str:
    """Names of RocketMQ's whose values never change here, by their value."""
    rows = ["| value | names |", "| --- | --- |"]
    for value in sorted(set(NOT_HERE.values())):
        names = ", ".join(f"`{name}`" for name, found in sorted(NOT_HERE.items()) if found == value)
        rows.append(f"| {value} | {names} |")
    return "\n".join(rows)


def statistics() -> str:
    """The names that 315 knows, by their key."""
    rows = ["| key | names |", "| --- | --- |"]
    kinds = {"BROKER": "name of the cluster", "TOPIC": "topic"}
    by_key: dict[str, list[str]] = {}
    for name in STATISTICS:
        key = kinds.get(name.partition("_")[0], "`topic@group`")
        by_key.setdefault(key, []).append(f"`{name}`")
    rows += [f"| {key} | {', '.join(names)} |" for key, names in by_key.items()]
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE_PATH.write_text(with_tables(PAGE_PATH.read_text()))
