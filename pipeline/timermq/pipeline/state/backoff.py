"""Backoff: the pauses between retries of messages that the store does not take at the moment.

They are retried without limit, and shown. The pauses double, up to a limit: a store without room is
asked rarely, and a short failure is over soon.
"""

from __future__ import annotations

import attrs

PAUSE_MAX_MS = 5_000
"""Between two tries: how late a message may be once there is room again."""


@attrs.define
class Backoff:
    """The messages that one stage retries, and since when; written by that stage only."""

    count: int = 0
    """Messages that are retried now."""
    since_ms: int | None = None
    """When the first try failed, epoch milliseconds; None while nothing is retried."""
    error: str | None = None
    """The store's last answer."""
    tries: int = 0
    """Tries in vain since then."""

    def again(self, count: int, now_ms: int, error: str) -> None:
        """Note that the store did not take so many messages, for this reason."""
        if self.since_ms is None:
            self.since_ms = now_ms
        self.count, self.error = count, error
        self.tries += 1

    def over(self) -> None:
        """Note that the store has taken them."""
        self.count, self.since_ms, self.error, self.tries = 0, None, None, 0

    def pause_s(self, first_ms: int) -> float:
        """Seconds until the next try.

        Args:
            first_ms: The pause behind the first one.
        """
        doublings = min(max(self.tries - 1, 0), PAUSE_MAX_MS.bit_length())
        return max(first_ms, min(first_ms << doublings, PAUSE_MAX_MS)) / 1000

    @property
    def is_news(self) -> bool:
        """Whether the last try is worth a line in the log: the first, then one a minute or so."""
        return self.tries % 12 == 1
