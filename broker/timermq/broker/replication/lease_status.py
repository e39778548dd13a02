"""The lease as one broker sees it, at one moment."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class LeaseStatus:
    """The lease as one broker sees it, for those who watch."""

    leads: bool
    holder: str | None
    """Address of the broker in the record; None: there is none, or it gave it up."""
    epoch: int
    in_sync: tuple[int, ...]
    """Ids of the followers that may lead next."""
    left_ms: int
    """How long this broker may lead yet; 0 if it does not."""
    error: str | None
    """Why the engine gave no answer the last time."""
