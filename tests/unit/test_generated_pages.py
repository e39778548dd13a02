"""The pages whose tables are made from declarations say what the code does."""

from __future__ import annotations

import pytest

from unit.docs_script import DOCS, docs_script


@pytest.mark.parametrize("page", ["format", "operations", "pipeline", "protocol"])
def test_tables_are_those_of_the_declarations(page: str) -> None:
    """``make docs`` writes them; no row is typed by hand."""
    text = (DOCS / f"{page}.md").read_text()

    assert docs_script(f"{page}_tables").with_tables(text) == text
