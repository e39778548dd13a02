"""Writes the table of rules of docs/operations.md from the rules that check and audit judge by.

Run by ``make docs``; a test compares the page with the rules.
"""

from __future__ import annotations

from pathlib import Path

from marked_place import filled

from timermq.repair.store_rule import StoreRule

PAGE_PATH = Path(__file__).parent / "operations.md"


def with_tables(page: str) -> str:
    """The page with everything between its marks made again.

    Raises:
        ValueError: The page has no place for it.
    """
    return filled(page, "rules", rules(), path="docs/operations.md")


def rules() -> str:
    """Every rule of a store: its promise, what breaks it, how bad that is, and who finds it."""
    lines = [
        "| rule | promise | is found when | severity | found by |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule in StoreRule:
        cells = (
            rule.name,
            rule.promise_name or "–",
            rule.means,
            f"`{rule.severity.value}`",
            rule.found_by,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE_PATH.write_text(with_tables(PAGE_PATH.read_text()))
