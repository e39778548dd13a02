"""Pins: what keeps old records in the log.

Each part of the broker that still needs records says from which position on. Cleaning asks all of
them each time, so no pin can be out of date, and removes nothing from the lowest one on. How far it
has removed what none of them needed is noted: what is missing below that was done with.
"""

from __future__ import annotations

from collections.abc import Callable

from .disk import is_for_a_while
from .queue_register import QueueRegister

Pin = Callable[[], int | None]
"""Gives the lowest log position that its owner needs, None while it needs nothing."""


class Pins:
    """The pins of one store.

    Args:
        register: Where it is noted what was removed.
    """

    def __init__(self, register: QueueRegister) -> None:
        self._register = register
        self._pins: list[Pin] = []

    def add(self, pin: Pin) -> None:
        """Ask this one too from now on."""
        self._pins.append(pin)

    def lowest(self) -> int | None:
        """Lowest log position that any owner needs, None when none needs one."""
        return min((one for pin in self._pins if (one := pin()) is not None), default=None)

    @property
    def released_to(self) -> int:
        """What stood before this position was removed, and no owner needed it; 0: nothing was."""
        return self._register.cleaned_to

    def release(self, end: int) -> None:
        """Note durably that everything before a position goes, which no owner needs (blocking).

        On a full disk it is not noted; the next time that something goes says it too.

        Raises:
            OSError: The disk refused for another reason.
        """
        try:
            self._register.note_cleaned(end)
        except OSError as error:
            if not is_for_a_while(error):
                raise
