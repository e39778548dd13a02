"""Tells the members of a consumer group that the group has changed: each of them rebalances.

When thousands come back at once, a notice to every member for each of them who comes would be work
that grows with the square of a group, here and in the members, who each ask for the list and the
offsets again. So a group that was told rests for a moment, and what changes meanwhile is one notice
at its end. None is lost, for a client that misses its first looks again only after 20 seconds; and
none waits longer than a rest.

Source: Java ``DefaultConsumerIdsChangeListener``, which tells at once and every time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.codes import FLAG_ONEWAY, RequestCode
from timermq.remoting.command import Command

from .session import OPAQUE_MAX, Session

REST = 0.2
"""Seconds between two notices of a group. Java's clients rebalance once a second at most."""


class GroupNotices:
    """Which groups are to be told, and when.

    Args:
        members: Whom to tell of a change of a group; nobody, where it shares nothing.
        current_time: trio's clock.
    """

    def __init__(
        self, members: Callable[[str], Collection[Session]], *, current_time: Callable[[], float]
    ) -> None:
        self._members = members
        self._current_time = current_time
        self._rests_until: dict[str, float] = {}
        """Group to the end of its rest, in the order of time."""
        self._late: dict[str, None] = {}
        """Groups that have changed in their rest."""
        self._has_late = Signal()
        self._opaque = 0

    def changed(self, group: str) -> None:
        """A group has changed: tell it now, or when its rest is over."""
        now = self._current_time()
        if self._rests_until.get(group, now) > now:
            self._late[group] = None
            self._has_late.set()
        else:
            self._tell(group, now)

    async def run(self) -> None:
        """Tell the groups whose rest is over, until cancelled."""
        while True:
            await self._has_late.wait()
            while self._late:
                # In order of their changes: who is behind the first waits no longer than a rest.
                group = next(iter(self._late))
                await trio.sleep_until(self._rests_until[group])
                del self._late[group]
                self._tell(group, self._current_time())

    def _tell(self, group: str, now: float) -> None:
        for session in self._members(group):
            self._opaque = self._opaque % OPAQUE_MAX + 1
            session.send(
                Command(
                    code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                    opaque=self._opaque,
                    flag=FLAG_ONEWAY,
                    ext={"consumerGroup": group},
                )
            )
        self._rests_until.pop(group, None)
        self._rests_until[group] = now + REST
        self._forget_rested(now)

    def _forget_rested(self, now: float) -> None:
        while True:
            oldest = next(iter(self._rests_until))
            if self._rests_until[oldest] > now or oldest in self._late:
                return
            del self._rests_until[oldest]
