"""Plots: two axes, points or lines.

Series differ in their marks too, so that colour never says something alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from .svg import BOTTOM, GREY, HEIGHT, LEFT, LETTER_WIDTH, RIGHT, TOP, WIDTH, picture, text


@attrs.frozen(kw_only=True)
class Axis:
    """A scale from ``low`` to ``high``, with its name and unit.

    Raises:
        ValueError: A logarithmic axis does not begin above zero.
    """

    label: str
    low: float
    high: float
    ticks: Sequence[float]
    names: Sequence[str] | None = None
    """The texts at the ticks; None: their numbers."""
    logarithmic: bool = False

    def __attrs_post_init__(self) -> None:
        if self.logarithmic and self.low <= 0:
            raise ValueError(f"plot: expected a positive low end, found {self.low}")

    def place(self, value: float) -> float:
        """The place of a value, 0 to 1; one outside stands at the end."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


@attrs.frozen(kw_only=True)
class Series:
    """Points of one name and colour, drawn as dots or along a line."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    joined: bool = False
    """A line through large points; otherwise dots."""
    dashes: str | None = None
    """A line alone: its pattern as SVG has it, "" for one without gaps."""


def plot(title: str, x: Axis, y: Axis, series: Sequence[Series], note: str = "") -> str:
    """The picture; ``note`` stands small below the title."""
    parts = frame(x, y)
    at = float(LEFT)
    for one in series:
        parts += [_mark(at + 5, TOP - 10, one), text(at + 20, TOP - 6, one.name)]
        at += 48 + LETTER_WIDTH * len(one.name)
    parts += [_drawn(one, x, y) for one in series]
    return picture(title, note, parts)


def ticks_of_ten(low: float, high: float) -> list[float]:
    """The powers of ten from ``low`` to ``high``, both above zero."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    return [float(10**power) for power in range(first, last + 1)]


def even_ticks(high: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to the first one not below ``high``, at most some ``count``."""
    unit = 10.0 ** math.floor(math.log10(high / count))
    step = next(unit * by for by in (1, 2, 5, 10) if unit * by * count >= high)
    return [step * number for number in range(math.ceil(high / step) + 1)]


def frame(x: Axis, y: Axis) -> list[str]:
    """Grid, numbers and names of the axes."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    grid = f'stroke="{GREY}" stroke-opacity="0.25"'
    parts: list[str] = []
    for tick, name in zip(x.ticks, _names(x), strict=True):
        at = x_of(x, tick)
        parts.append(f'<path d="M{at} {TOP}V{bottom}" {grid}/>')
        parts.append(text(at, bottom + 18, name, 'text-anchor="middle"'))
    for tick, name in zip(y.ticks, _names(y), strict=True):
        at = y_of(y, tick)
        parts.append(f'<path d="M{LEFT} {at}H{right}" {grid}/>')
        parts.append(text(LEFT - 8, at + 4, name, 'text-anchor="end"'))
    middle = (TOP + bottom) / 2
    turned = f'text-anchor="middle" transform="rotate(-90 18 {middle})"'
    parts.append(text((LEFT + right) / 2, HEIGHT - 14, x.label, 'text-anchor="middle"'))
    parts.append(text(18, middle, y.label, turned))
    return parts


def _drawn(one: Series, x: Axis, y: Axis) -> str:
    places = list(dict.fromkeys((x_of(x, px), y_of(y, py)) for px, py in one.points))
    line = " ".join(f"{px},{py}" for px, py in places)
    if one.dashes is not None:
        return f'<polyline points="{line}" fill="none" {_stroke(one)}/>'
    if one.joined:
        dots = "".join(f'<circle cx="{px}" cy="{py}" r="5"/>' for px, py in places)
        return (
            f'<g fill="{one.colour}"><polyline points="{line}" fill="none" '
            f'stroke="{one.colour}" stroke-width="2"/>{dots}</g>'
        )
    dots = "".join(f"M{px} {py}h0" for px, py in places)
    return (
        f'<path d="{dots}" stroke="{one.colour}" stroke-width="4" stroke-linecap="round" '
        'stroke-opacity="0.7" fill="none"/>'
    )


def _stroke(one: Series) -> str:
    dashes = f' stroke-dasharray="{one.dashes}"' if one.dashes else ""
    return f'stroke="{one.colour}" stroke-width="2"{dashes}'


def _mark(x: float, y: float, one: Series) -> str:
    line = f'<path d="M{x - 9} {y}h18" {_stroke(one)}/>'
    if one.dashes is not None:
        return line
    return f'<circle cx="{x}" cy="{y}" r="4" fill="{one.colour}"/>' + (line if one.joined else "")


def x_of(axis: Axis, value: float) -> float:
    """The place of a value across the picture."""
    return round(LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT), 1)


def y_of(axis: Axis, value: float) -> float:
    """The place of a value down the picture."""
    return round(HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM), 1)


def _names(axis: Axis) -> Sequence[str]:
    return axis.names if axis.names is not None else [_number(tick) for tick in axis.ticks]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"
