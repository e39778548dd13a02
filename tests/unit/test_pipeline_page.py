"""The pipeline page says what the tables are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def load() -> ModuleType:
    """The script that writes the tables."""
    spec = importlib.util.spec_from_file_location("pipeline_tables", DOCS / "pipeline_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_those_of_the_declarations() -> None:
    """``make docs`` writes them anew; nobody types a column."""
    page = (DOCS / "pipeline.md").read_text()

    assert load().with_tables(page) == page
