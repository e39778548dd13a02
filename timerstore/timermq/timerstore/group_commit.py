"""Group commit: many senders wait, one of them syncs the log for all.

The first task that finds no sync under way becomes the leader and syncs everything appended so far;
those who come meanwhile wait for it, and then the first of them leads the next round. So one sync
is in flight at a time, each round holds everything that arrived during the last one, and no task is
needed that outlives the waiters.

A failed sync is never retried: after it the kernel may have dropped the very pages that it could
not write, and a second call would report success. The log has failed, and so has every wait from
then on.

Corresponds to CommitLog.GroupCommitService and FlushRealTimeService.
"""

from collections.abc import Callable

import trio

from .commit_log import CommitLog
from .errors import StoreFailedError


class GroupCommit:
    """Makes the log durable, one sync at a time.

    Args:
        log: The log.
        on_flushed: Called after each successful sync.
    """

    def __init__(self, log: CommitLog, on_flushed: Callable[[], None]) -> None:
        self.failure: OSError | StoreFailedError | None = None
        """Why the log has failed."""
        self.failed = trio.Event()
        self.flush_count = 0
        self._log = log
        self._on_flushed = on_flushed
        self._round: trio.Event | None = None

    async def wait_flushed(self, phy_offset: int, timeout_ms: int) -> bool:
        """Wait until the log is durable up to a position.

        Returns:
            False when that took longer than ``timeout_ms``, or the log has failed.

        Cancellation: a sync that has begun is finished.
        """
        if self._log.flushed_where >= phy_offset:
            await trio.lowlevel.checkpoint()
            return True
        with trio.move_on_after(timeout_ms / 1000):
            try:
                await self.flush(phy_offset)
            except StoreFailedError:
                return False
        return self._log.flushed_where >= phy_offset

    async def flush(self, phy_offset: int) -> None:
        """Make the log durable up to a position.

        Raises:
            StoreFailedError: A sync failed, now or before.
        """
        await trio.lowlevel.checkpoint()
        while self._log.flushed_where < phy_offset:
            self.check()
            if self._round is None:
                await self._lead()
            else:
                await self._round.wait()

    def fail(self, error: OSError | StoreFailedError) -> None:
        """Note that a sync has failed, here or of another file of the store; the first counts."""
        self.failure = self.failure or error
        self.failed.set()

    def check(self) -> None:
        """Raise if a sync has failed.

        Raises:
            StoreFailedError: It has.
        """
        if self.failure is not None:
            raise StoreFailedError(f"store has failed: {self.failure}") from self.failure

    async def _lead(self) -> None:
        self._round = trio.Event()
        try:
            await self._log.flush()
        except OSError as error:
            self.fail(error)
        else:
            self.flush_count += 1
            self._on_flushed()
        finally:
            self._round.set()
            self._round = None
