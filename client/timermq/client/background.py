"""The tasks that a client keeps running, as a context manager."""

from __future__ import annotations

from types import TracebackType

import trio


class BackgroundTasks:
    """A nursery that ends with its block, whatever still runs in it.

    Two things that a nursery alone does not do. Its tasks go on when somebody outside cancels the
    block, until the block has left: a consumer commits over connections that still work. And an
    error of the block leaves it as it is, not in a group: ``except NoRouteError`` works around a
    producer.
    """

    def __init__(self) -> None:
        self._manager = trio.open_nursery()
        self._scope = trio.CancelScope(shield=True)
        self._opened = trio.Event()
        self._nursery: trio.Nursery | None = None

    async def __aenter__(self) -> trio.Nursery:
        """Open the nursery.

        Cancellation: the nursery is open; the block is cancelled at its first checkpoint.
        """
        outer = await self._manager.__aenter__()
        outer.start_soon(self._hold)
        try:
            # Not ``outer.start``: in a cancelled scope it would wait for a shielded task for ever.
            with trio.CancelScope(shield=True):
                await self._opened.wait()
        except BaseException as error:  # an interrupt from the keyboard
            self._scope.cancel()
            await self._manager.__aexit__(type(error), error, error.__traceback__)
            raise
        assert self._nursery is not None
        return self._nursery

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Cancel the tasks and wait for their end."""
        assert self._nursery is not None, "left before it was entered"
        self._nursery.cancel_scope.cancel()
        try:
            return await self._manager.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions == (error,):
                return False  # the block's own error goes on
            raise

    async def _hold(self) -> None:
        """A nursery of which only its own ``cancel`` makes an end."""
        with self._scope:
            async with trio.open_nursery() as self._nursery:
                self._opened.set()
                await trio.sleep_forever()
