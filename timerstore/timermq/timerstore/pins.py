"""Pins: what keeps old records in the log.

Each part of the broker that still needs records says from which position on. Cleaning asks all of
them each time, so no pin can be out of date, and removes nothing from the lowest one on.
"""

from __future__ import annotations

from collections.abc import Callable

Pin = Callable[[], int | None]
"""Gives the lowest log position that its owner needs, None while it needs nothing."""


class Pins:
    """The pins of one store."""

    def __init__(self) -> None:
        self._pins: list[Pin] = []

    def add(self, pin: Pin) -> None:
        """Ask this one too from now on."""
        self._pins.append(pin)

    def lowest(self) -> int | None:
        """Lowest log position that any owner needs, None when none needs one."""
        return min((one for pin in self._pins if (one := pin()) is not None), default=None)
