"""Pins: what keeps old records in the log.

Each part of the broker that still needs records says from which position on. Cleaning asks all of
them each time, so no pin can be out of date, and removes nothing from the lowest one on. In which
order they were added does not matter: none knows of another. No owner takes its pin away: each
serves as long as its store, and one that closes its files before the store is closed keeps saying
what the next start needs. How far cleaning has removed what none of them needed is noted: what is
missing below that was done with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from .disk import is_for_a_while
from .queue_register import QueueRegister

Pin = Callable[[], int | None]
"""Gives the lowest log position that its owner needs, None while it needs nothing."""

log = structlog.get_logger("timermq.timerstore.pins")


class Pins:
    """The pins of one store.

    Args:
        register: Where it is noted what was removed.
    """

    def __init__(self, register: QueueRegister) -> None:
        self._register = register
        self._pins: dict[str, Pin] = {}
        """Each pin by the name of its owner."""
        self._holder: str | None = None
        """Who kept old segments at the last cleaning."""

    def add(self, owner: str, pin: Pin) -> None:
        """Ask this one too from now on.

        Args:
            owner: Who needs the records, for the log.
            pin: What it needs, asked at every cleaning.

        Raises:
            ValueError: This owner has a pin: the store is served by two of a kind.
        """
        if owner in self._pins:
            raise ValueError(f"expected one pin of {owner!a}, found another")
        self._pins[owner] = pin

    def needed(self) -> dict[str, int]:
        """Owner to the lowest log position that it needs, of those that need one."""
        return {
            owner: first_py for owner, pin in self._pins.items() if (first_py := pin()) is not None
        }

    def lowest(self) -> int | None:
        """Lowest log position that any owner needs, None when none needs one."""
        return min(self.needed().values(), default=None)

    def tell_holder(self, needed: Mapping[str, int], pinned_from: int | None) -> None:
        """Log who keeps segments that would go without it, when it is another one than before.

        Args:
            needed: As ``needed`` gave it for the cleaning.
            pinned_from: What the cleaning left began here; None: it left nothing for a need.
        """
        holder = next((owner for owner, py in needed.items() if py == pinned_from), None)
        if holder is not None and holder != self._holder:
            log.info("old segments stay, they are needed", owner=holder, needed_from=pinned_from)
        self._holder = holder

    @property
    def released_to(self) -> int:
        """End of the removed records, which no owner needed; 0: none were removed."""
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
