"""Writes the table of request codes of docs/protocol.md from the one that the code is held against.

Run by ``make docs``; a test compares the page with it.
"""

from __future__ import annotations

from pathlib import Path

from marked_place import filled

from timermq.broker.compatibility import compatibility_rows

PAGE_PATH = Path(__file__).parent / "protocol.md"


def with_tables(page: str) -> str:
    """The page with its table made again.

    Raises:
        ValueError: The page has no place for it.
    """
    return filled(page, "table: request codes", table(), path="docs/protocol.md")


def table() -> str:
    """The table of request codes, in Markdown."""
    rows = ["| code | name | served | | shown by `tests/` |", "| --- | --- | --- | --- | --- |"]
    for code, name, how, what, shown_by in compatibility_rows():
        cells = (str(code), name, how, what, f"`{shown_by}.py`" if shown_by else "")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE_PATH.write_text(with_tables(PAGE_PATH.read_text()))
