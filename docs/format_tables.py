"""Writes the tables of docs/format.md from the declarations that the code reads and writes by.

Run by ``make docs``; a test compares the page with the declarations.
"""

from __future__ import annotations

from pathlib import Path

from marked_place import filled

from timermq.pipeline.recovery.timer_recovery import DECISIONS
from timermq.timerlog.stretch_outline import DELETE, OUTLINE
from timermq.timerlog.timer_checkpoint import CHECKPOINT, EXTENSION
from timermq.timerlog.unit import BLANK as TIMER_BLANK
from timermq.timerlog.unit import UNIT as TIMER_UNIT
from timermq.timerstore.batch import PART
from timermq.timerstore.index_layout import ENTRY, HEADER
from timermq.timerstore.layout import Layout
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT
from timermq.timerstore.record_layout import BLANK, HEAD
from timermq.timerstore.scrub_note import NOTE
from timermq.timerstore.seal_page import PAGE_HEAD, PAGE_TAIL
from timermq.timerstore.store_checkpoint import EXTENSION as STORE_EXTENSION
from timermq.timerstore.store_checkpoint import PAGE
from timermq.wheel.slot import SLOT

PAGE_PATH = Path(__file__).parent / "format.md"

LAYOUTS: tuple[Layout, ...] = (
    HEAD,
    BLANK,
    PART,
    QUEUE_UNIT,
    HEADER,
    ENTRY,
    PAGE,
    STORE_EXTENSION,
    SLOT,
    TIMER_UNIT,
    TIMER_BLANK,
    CHECKPOINT,
    EXTENSION,
    PAGE_HEAD,
    PAGE_TAIL,
    OUTLINE,
    DELETE,
    NOTE,
)


def with_tables(page: str) -> str:
    """The page with every table between its marks made again.

    Raises:
        ValueError: A layout has no place on the page.
    """
    for layout in LAYOUTS:
        rows = "\n".join(layout.table())
        page = filled(page, f"table: {layout.title}", rows, path="docs/format.md")
    head, _, rest = page.partition("<!-- recovery -->\n")
    return f"{head}<!-- recovery -->\n{recovery_rows()}\n\n{rest[rest.index('Entries that') :]}"


def recovery_rows() -> str:
    """The decision table of the timer recovery."""
    rows = [
        "| checkpoint | log | wheel | wheel is | commit log is read | timer topic is enqueued |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (checkpoint, reaches, fits), decision in DECISIONS.items():
        cells = (
            checkpoint.value,
            "whole" if reaches else "short",
            "fits" if fits else "doubtful",
            "rebuilt" if decision.rebuild_wheel else "brought up to date",
            decision.scan.value,
            decision.queue.value,
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE_PATH.write_text(with_tables(PAGE_PATH.read_text()))
