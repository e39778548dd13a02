"""The protocol page says what the broker serves."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def load() -> ModuleType:
    """The script that writes the table."""
    spec = importlib.util.spec_from_file_location("protocol_tables", DOCS / "protocol_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_codes_is_the_one_of_the_code() -> None:
    """docs/protocol.md has what ``make docs`` writes."""
    page = (DOCS / "protocol.md").read_text()

    assert load().with_table(page) == page
