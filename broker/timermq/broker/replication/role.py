"""The role of a broker: it leads as a master, or follows one as a slave.

Everything that the log says is the same on both, so a change of role copies nothing. What a master
does beside: it takes requests that write, and delivers. Those parts are parked on a follower.

Source: Java ``BrokerRole``.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable

import trio

MASTER_ID = 0
"""Id of the master among the brokers of one name; followers have others."""


class BrokerRole(enum.Enum):
    """The settings ``brokerRole``, by RocketMQ's names."""

    ASYNC_MASTER = "ASYNC_MASTER"
    """Sends are answered before followers have them."""
    SYNC_MASTER = "SYNC_MASTER"
    """Sends wait for followers, as ``inSyncReplicas`` says."""
    SLAVE = "SLAVE"

    @property
    def is_master(self) -> bool:
        """Whether it takes messages and delivers."""
        return self is not BrokerRole.SLAVE


class Role:
    """The role that one broker has now, and the signal of its changes.

    Args:
        role: At the start.
        broker_id: Its id as a follower; a follower that leads has ``MASTER_ID``.
    """

    def __init__(self, role: BrokerRole, broker_id: int) -> None:
        self.role = role
        self.master_address: str | None = None
        """``host:port`` of the master that is followed; None: of none that is known."""
        self.is_handing_over = False
        """It is parked already, and its followers get what is left of its log."""
        self.follower_id = broker_id
        """Its id as a follower."""
        self._listeners: list[Callable[[], None]] = []
        self._changed = trio.Event()

    @property
    def is_master(self) -> bool:
        """Whether it takes messages and delivers."""
        return self.role.is_master

    @property
    def feeds_followers(self) -> bool:
        """Whether others follow its log."""
        return self.is_master or self.is_handing_over

    @property
    def broker_id(self) -> int:
        """The id by which it registers."""
        return MASTER_ID if self.is_master else self.follower_id

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called in the step in which the role changes, behind those before it."""
        self._listeners.append(listener)

    def become(self, role: BrokerRole) -> None:
        """Take a role; called by the broker, once its timers are at rest (``Broker.lead``)."""
        self.role = role
        for listener in self._listeners:
            listener()
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def wait(self, *, is_master: bool) -> None:
        """Wait until it is a master, or a follower."""
        while self.is_master is not is_master:
            await self._changed.wait()

    async def run_while(self, *, is_master: bool, work: Callable[[], Awaitable[object]]) -> None:
        """Run some work whenever it has one of both roles; the other one cancels it."""
        while True:
            await self.wait(is_master=is_master)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work)
                await self.wait(is_master=not is_master)
                nursery.cancel_scope.cancel()
