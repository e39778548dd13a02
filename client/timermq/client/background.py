"""The tasks that a client keeps running, as a context manager."""

from __future__ import annotations

from types import TracebackType

import trio


class BackgroundTasks:
    """A nursery that ends with its block, whatever still runs in it.

    An error of the block leaves it as it is: a nursery alone would wrap it in a group, and nobody
    could write ``except NoRouteError`` around a producer.
    """

    def __init__(self) -> None:
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> trio.Nursery:
        """Open the nursery."""
        self._nursery = await self._manager.__aenter__()
        return self._nursery

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Cancel the tasks and wait for their end."""
        self._nursery.cancel_scope.cancel()
        try:
            return await self._manager.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions == (error,):
                return False  # the block's own error goes on
            raise
