"""Requests that take the event loop for long, and the owners that ask for them.

A timer passes through several tasks on its way, and each step of another task delays each of its
steps. So behind a request that took long no other such request is worked on for twice as long as it
took: timers on their way get through meanwhile, with the pull that fetches them. Behind a large
batch of messages there is a pause (``pauses``) and no more: batches are what a broker is for, and a
rest would take most of a producer's rate.

Which request will take long shows only when it is done. So clients are judged: a connection whose
request took long waits for that rest with all its requests for a while, and so do connections that
its address or account makes meanwhile. The others do not wait.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from .pauses import Pauses
from .session import Session

ROUND_SECONDS = 0.001
"""How long a task works on requests before the others have their turn."""
COSTLY_SECONDS_MIN = 0.004
"""Seconds beyond which a request is costly."""
REST_RATIO = 2
"""How long others have their turn behind a costly request, by the time that it took."""
REST_SECONDS_MAX = 0.2
"""How long one request is made up for, at most."""
COSTLY_SECONDS = 2.0
"""Seconds that an owner counts as costly after the last such request."""
OWNERS_MAX = 4_096
"""Addresses and accounts that are remembered; the ones that were costly first are forgotten."""


@attrs.define
class _Costly:
    since: float
    until: float


class CostlyRequests:
    """Owners whose requests took long, and the end of the rest after the last of these.

    Args:
        work_seconds: What this thread has worked so far: its time on the processor, not that for
            which others had it.
    """

    def __init__(self, work_seconds: Callable[[], float]) -> None:
        self.work_seconds = work_seconds
        self.pauses = Pauses(work_seconds)
        """The pauses of all work on requests."""
        self._owners: dict[str, _Costly] = {}
        self.rest_until = 0.0
        """trio's time until which no costly request is worked on."""

    def is_costly(self, session: Session) -> bool:
        """Whether requests of a connection wait for the rest."""
        now = trio.current_time()
        if now < session.costly_until:
            return True
        owner = self._owners.get(session.owner)
        return owner is not None and owner.since <= session.opened_at and now < owner.until

    def worked(self, session: Session, seconds: float, *, is_send: bool = False) -> None:
        """A request of a connection took so long, without a break."""
        if seconds <= COSTLY_SECONDS_MIN:
            return
        now = trio.current_time()
        session.costly_until = now + COSTLY_SECONDS
        owner = self._owners.get(session.owner)
        if owner is not None and now < owner.until:
            owner.until = session.costly_until
        else:
            self._owners.pop(session.owner, None)
            self._owners[session.owner] = _Costly(now, session.costly_until)
            if len(self._owners) > OWNERS_MAX:
                del self._owners[next(iter(self._owners))]
        if not is_send:
            self.rest_until = max(
                self.rest_until, now + min(REST_RATIO * seconds, REST_SECONDS_MAX)
            )
