"""The times of a lease, all of them parts of how long it holds."""

from __future__ import annotations

import attrs

TTL_MS_MIN, TTL_MS_MAX = 1_000, 300_000
"""Less is lost to a pause of the machine; more is how long a pair would be without a master."""
RETRY_MS = 250.0
"""Between a failed request and the next, at least."""


@attrs.frozen(kw_only=True)
class LeaseTiming:
    """How long a lease holds, and when it is asked for, milliseconds.

    A holder counts from before it sent the request that renewed the lease, another broker from when
    it got the answer that shows it; so the holder stops first, by ``margin_ms`` at least. The
    margin is for clocks that run unequally fast, and for answers that were on their way already.
    """

    ttl_ms: int = 10_000
    margin_ms: int = 1_000

    def __attrs_post_init__(self) -> None:
        """Refuse times that leave a holder no time to renew."""
        if not TTL_MS_MIN <= self.ttl_ms <= TTL_MS_MAX:
            raise ValueError(
                f"ttl: expected {TTL_MS_MIN} to {TTL_MS_MAX} milliseconds, found {self.ttl_ms}"
            )
        if not 0 < self.margin_ms <= self.ttl_ms // 2:
            raise ValueError(
                "lease_margin_ms: expected more than 0 and at most half of the lease's ttl of "
                f"{self.ttl_ms} ms, found {self.margin_ms}"
            )

    @property
    def held_ms(self) -> int:
        """How long a holder may lead by one renewal."""
        return self.ttl_ms - self.margin_ms

    @property
    def renew_ms(self) -> float:
        """Between two renewals, and between two looks of the brokers that wait: four fit in."""
        return self.held_ms / 4

    @property
    def request_ms(self) -> float:
        """How long an answer is waited for: after one lost answer there is time for two more."""
        return self.held_ms / 4

    @property
    def retry_ms(self) -> float:
        """Between a failed request and the next."""
        return min(RETRY_MS, self.renew_ms / 4)
