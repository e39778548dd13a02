"""The replicas in sync, and the confirm offset: what is on all of them.

A follower comes in when it has everything before the confirm offset, and goes out when its link has
ended or it has not had everything for too long. The confirm offset waits for one that comes in, so
that a member lacks nothing that was ever confirmed. A change may have to be agreed elsewhere first,
as where a lease names the replicas that may lead: from its proposal until it is in force the old
members count and the new ones, those whose links have ended among them.

Source: Java ``AutoSwitchHAService.maybeExpandInSyncStateSet``, ``computeConfirmOffset``.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .follower import Follower

Members = frozenset[Follower]


@attrs.define(eq=False)
class InSyncSet:
    """The followers that count beside the master itself."""

    confirm_offset: int
    """Everything before it is on the master and on all members; it never falls."""
    members: Members = frozenset()
    """The set in force."""
    _coming: Members = frozenset()
    """Nearly in: the confirm offset waits for them."""
    _proposed: Members = frozenset()
    """Of all proposals since the set in force was agreed."""

    def advance(self, log_end: int, replicas_min: int) -> int:
        """The confirm offset as of now.

        Args:
            log_end: End of the master's log.
            replicas_min: With fewer replicas, the master among them, nothing is confirmed.
        """
        if 1 + len(self.members) >= replicas_min:
            counted = self.members | self._coming | self._proposed
            reached = min((one.acknowledged for one in counted), default=log_end)
            self.confirm_offset = max(self.confirm_offset, min(reached, log_end))
        return self.confirm_offset

    def wanted(self, linked: Iterable[Follower], now: float, lapse: float) -> Members | None:
        """The members as they should be; None when they are in force.

        Args:
            linked: The followers whose links are open.
            now: trio's time.
            lapse: Seconds without everything after which a follower is out.
        """
        fresh = frozenset(one for one in linked if one.is_fresh(now, lapse))
        ready = frozenset(one for one in fresh if one.acknowledged >= self.confirm_offset)
        self._coming = fresh - self.members
        return None if ready == self.members else ready

    def propose(self, members: Members) -> None:
        """Ask elsewhere for these members: they count from now on."""
        self._proposed |= members

    def put_in_force(self, members: Members) -> None:
        """Let these be the members; a proposal was agreed, or none is needed."""
        self.members, self._proposed = members, frozenset()
        self._coming -= members
