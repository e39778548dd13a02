"""Writes docs/screenshots/*.svg: the screen of `timermq top` from the frozen moments of its tests.

Run by ``make screenshots``; the same every time, and a test compares the files with the screen.
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from rich.console import Console

from timermq.cli.top.screen import screen
from timermq.cli.top.view import HEIGHT, WIDTH
from top_samples import SAMPLES

FOLDER = Path(__file__).parent / "screenshots"
FONT_FACE = re.compile(r"[ ]*@font-face \{[^}]*\}\n+")
"""Fonts from a server far away: the picture is content with the reader's own."""
SHOWN = ("idle", "burst-arriving", "slot-opened", "three-days-ahead", "clock-unsafe")


def picture(name: str) -> str:
    """The SVG of one moment."""
    console = Console(
        width=WIDTH,
        height=HEIGHT,
        file=StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        _environ={},
    )
    console.print(screen(SAMPLES[name](WIDTH, HEIGHT)))
    svg = console.export_svg(title=f"timermq top: {name.replace('-', ' ')}", unique_id=name)
    return FONT_FACE.sub("", svg)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in SHOWN:
        (FOLDER / f"{one}.svg").write_text(picture(one))
