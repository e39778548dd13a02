"""Writes the tables of docs/pipeline.md from the declarations of the data sources.

Run by ``make docs``; a test compares the page with the declarations.
"""

from __future__ import annotations

from pathlib import Path

from marked_place import filled

from timermq.pipeline.spark.options import COMMON, OPTIONS
from timermq.pipeline.spark.tables.registration import SOURCES

PAGE_PATH = Path(__file__).parent / "pipeline.md"


def with_tables(page: str) -> str:
    """The page with everything between its marks made again.

    Raises:
        ValueError: The page has no place for it.
    """
    return filled(page, "tables", tables(), path="docs/pipeline.md")


def tables() -> str:
    """The options, then every table with its columns."""
    lines = ["| option | meaning | taken by |", "| --- | --- | --- |"]
    for name, option in OPTIONS.items():
        takers = [
            source.name().removeprefix("timermq.")
            for source in SOURCES
            if name in source.reader_type.takes
        ]
        lines.append(
            f"| `{name}` | {option.meaning} | {'all' if name in COMMON else ', '.join(takers)} |"
        )
    for source in SOURCES:
        table = source.reader_type.table
        lines += ["", f"### `{table.name}`", "", table.title, "", *table.page()]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE_PATH.write_text(with_tables(PAGE_PATH.read_text()))
