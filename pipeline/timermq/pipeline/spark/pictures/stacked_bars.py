"""Bars side by side, each a stack of layers: how many of what, span by span."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .plot import Axis, frame, x_of, y_of
from .svg import LEFT, LETTER_WIDTH, RIGHT, TOP, WIDTH, hint, picture, text


@attrs.frozen(kw_only=True)
class Layer:
    """The values of one colour."""

    name: str
    colour: str
    counts: Sequence[int]
    """One a bar."""


def stacked_bars(
    title: str, x: Axis, y: Axis, layers: Sequence[Layer], names: Sequence[str], note: str = ""
) -> str:
    """The picture.

    Args:
        title: Above it.
        x: From the beginning of the first bar to the end of the last one.
        y: Must reach the highest bar.
        layers: From below; in the legend from the left.
        names: Of the bars, for a reader who points at them.
        note: Small, below the title.
    """
    parts = frame(x, y)
    at = float(LEFT)
    for layer in layers:
        if at + 20 + LETTER_WIDTH * len(layer.name) > WIDTH - RIGHT:
            parts.append(text(at, TOP - 6, "…"))
            break
        parts.append(
            f'<rect x="{at}" y="{TOP - 15}" width="10" height="10" fill="{layer.colour}"/>'
        )
        parts.append(text(at + 16, TOP - 6, layer.name))
        at += 36 + LETTER_WIDTH * len(layer.name)
    width = (x.high - x.low) / max(len(names), 1)
    for number, name in enumerate(names):
        left = x_of(x, x.low + width * number)
        right = x_of(x, x.low + width * (number + 1))
        below = 0
        for layer in layers:
            count = layer.counts[number]
            if not count:
                continue
            high, low = y_of(y, below + count), y_of(y, below)
            below += count
            parts.append(
                f'<rect x="{left}" y="{high}" width="{max(round(right - left - 0.5, 1), 0.5)}" '
                f'height="{round(low - high, 1)}" fill="{layer.colour}">'
                f"{hint(f'{name}: {count:,} {layer.name}')}</rect>"
            )
    return picture(title, note, parts)
