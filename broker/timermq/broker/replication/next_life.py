"""The parts of a broker that a change of the lead ends: its link to a master, and its life."""

from __future__ import annotations

from typing import Protocol

import attrs


class CopyLink(Protocol):
    """The follower's link to its master, as far as a promotion needs it."""

    def behind(self) -> int | None:
        """Bytes of the master's log that were not copied, as known last; None: it is not known."""
        ...

    async def stop(self) -> None:
        """Copy nothing more, until the broker follows again."""
        ...


@attrs.frozen(kw_only=True)
class NextLife:
    """How the broker goes on, in another life of it: as the follower of a master."""

    master: str
    """``host:port`` at which clients reach the new master."""
    epoch: int


class EndLife(Protocol):
    """Ends the broker's life, to go on in the next one."""

    def __call__(self, next_life: NextLife, *, at_once: bool) -> None:
        """End it as a kill does, or when open requests are answered."""
        ...
