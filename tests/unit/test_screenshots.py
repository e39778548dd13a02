"""The pictures show the screen as it is."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from timermq.cli.top.screen import screen
from top_samples import SAMPLES

DOCS = Path(__file__).parents[2] / "docs"
PIECE = re.compile(r'clip-path="url\(#[a-z-]+-line-(\d+)\)">([^<]*)</text>')


def load() -> ModuleType:
    """The script that writes the pictures."""
    spec = importlib.util.spec_from_file_location("screenshots", DOCS / "screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(svg: str) -> list[str]:
    """The lines of a picture, without blanks: how they are written differs by version of rich."""
    lines: dict[int, str] = {}
    for number, piece in PIECE.findall(svg):
        lines[int(number)] = lines.get(int(number), "") + html.unescape(piece)
    return ["".join(lines.get(number, "").split()) for number in range(24)]


@pytest.mark.parametrize("name", load().SHOWN)
def test_pictures_are_those_of_the_screen(name: str) -> None:
    """Each file says what the screen does; ``make screenshots`` writes them anew."""
    svg = (DOCS / "screenshots" / f"{name}.svg").read_text()
    lines = screen(SAMPLES[name](80, 24)).plain.split("\n")

    assert ["".join(line.split()) for line in lines] == text_of(svg)


def test_pictures_are_the_same_every_time() -> None:
    """No number is drawn at random, and nothing is fetched from elsewhere."""
    module = load()
    first, second = module.picture("idle"), module.picture("idle")

    assert first == second
    assert "url(http" not in first
    assert "@font-face" not in first
