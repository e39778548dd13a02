"""The performance page and its pictures say what was measured."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def tables() -> ModuleType:
    """The script that writes the tables."""
    path = DOCS / "performance_tables.py"
    spec = importlib.util.spec_from_file_location("performance_tables", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that draws the pictures."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])
    return importlib.import_module("pictures")


def test_tables_are_those_of_the_kept_results() -> None:
    """``make docs`` writes them anew; nobody types a figure."""
    page = (DOCS / "performance.md").read_text()

    assert tables().with_tables(page) == page


def test_every_answer_has_its_row() -> None:
    """A question that is asked is on the page."""
    module = tables()

    assert [row.question for row in module.ROWS] == [
        answer["question"] for answer in module.kept("questions")["answers"]
    ]


@pytest.mark.parametrize("name", ["burst_lateness", "pending_cost"])
def test_pictures_are_those_of_the_kept_results(pictures: ModuleType, name: str) -> None:
    """Drawing measures nothing, and draws the same every time."""
    drawn = pictures.PICTURES[name](pictures.kept(name))

    assert drawn == (DOCS / "pictures" / f"{name.replace('_', '-')}.svg").read_text()


def test_axes(pictures: ModuleType) -> None:
    """Values get their place; what is outside stands at the end, where it is still seen."""
    even = pictures.Axis(label="", low=0, high=10, ticks=[])
    tens = pictures.Axis(label="", low=1, high=10_000, ticks=[], logarithmic=True)

    assert [0, 0.5, 1, 1] == [even.place(value) for value in (-1, 5, 10, 11)]
    assert [0, 0.5, 1] == [round(tens.place(value), 9) for value in (0, 100, 10_000)]
    assert [1, 10, 100] == pictures.ticks_of_ten(0.5, 150)
    assert [0, 20, 40, 60] == pictures.even_ticks(51)
    with pytest.raises(ValueError, match="expected a positive low end, found 0"):
        pictures.Axis(label="", low=0, high=1, ticks=[], logarithmic=True)
