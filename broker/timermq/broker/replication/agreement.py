"""A running follower and its master agree where their logs are equal, and on whose bytes follow.

A follower that has bytes which its master lacks ends its life: the next one cuts them off, with the
store closed, before it opens it (``start_role``).
"""

from __future__ import annotations

import attrs

from timermq.timerstore.message_store import MessageStore

from .epochs import EpochFile, EpochList
from .follow_state import FollowError
from .ha_frames import Epoch, Epochs, EpochTransfer
from .reconciliation import Reconciliation, ReconciliationError
from .replica_calls import NoReplicaError, ReplicaCalls, ReplicaRefusedError
from .succession import Succession
from .truncation import StoppedLog

RULE = "SLAVE_DIVERGED"
"""Name of the rule that a log breaks which is no part of its master's."""


@attrs.frozen(eq=False, kw_only=True)
class Agreement:
    """Of one follower with its master."""

    broker_name: str
    store: MessageStore
    epochs: EpochFile
    calls: ReplicaCalls
    succession: Succession

    async def compare(self, master: str) -> None:
        """Compare the log with that of a master of ours, before it is linked to.

        Args:
            master: Its address for clients.

        Raises:
            FollowError: It does not lead, does not answer, or the log is no part of its log.
        """
        try:
            report = await self.calls.epochs(master)
            if not report.is_master:
                if report.master_address is not None:
                    await self.succession.look(report.master_address)
                leader = report.master_address or "none that it knows"
                raise FollowError("NOT_A_MASTER", f"the broker at {master} follows {leader}")
            log = self._log()
            position = await Reconciliation(
                disk=self.store.disk,
                root=self.store.root,
                options=self.store.options,
                broker_name=self.broker_name,
                master=master,
                calls=self.calls,
            ).position(log, report)
        except ReconciliationError as error:
            raise FollowError(RULE, str(error)) from error
        except (NoReplicaError, ReplicaRefusedError) as error:
            raise FollowError("MASTER", str(error)) from error
        if position < log.end:
            self.succession.follow_again(master, report.last_epoch)
            raise FollowError(RULE, f"what stands behind {position} is cut off")

    def agree(self, epochs: Epochs) -> int:
        """Take a master's epochs over as far as the own log goes; that is its end.

        Raises:
            FollowError: The own log is no part of the master's.
        """
        end = self.store.commit_log.max_offset
        try:
            theirs = EpochList(epochs.starts)
        except ValueError as error:
            raise FollowError("EPOCHS", str(error)) from error
        own = self.epochs.epochs.cut(end)
        if own.last is not None:
            common = own.common_end(end, theirs, epochs.max_offset)
            if common is None or common < end:
                raise FollowError(
                    RULE, f"expected a log that is equal up to {end}, found it up to {common}"
                )
        elif end > epochs.max_offset:
            raise FollowError(RULE, f"the own log ends at {end}, its at {epochs.max_offset}")
        # With the one that begins there: the next bytes are of it, and a promotion goes above it.
        self.epochs.save(EpochList(one for one in theirs if one.start <= end))
        self.succession.seen_epoch = max(self.succession.seen_epoch, theirs.last_number)
        return end

    def keep_epoch(self, frame: EpochTransfer) -> None:
        """Keep the epoch of bytes that are about to be copied, and what both replicas have.

        Raises:
            FollowError: It is below the one before.
        """
        try:
            self.epochs.copy(Epoch(frame.epoch, frame.epoch_start))
        except ValueError as error:
            raise FollowError("EPOCHS", str(error)) from error
        self.store.note_confirmed(min(frame.confirm_offset, self.store.commit_log.max_offset))

    def _log(self) -> StoppedLog:
        log = self.store.commit_log
        return StoppedLog(
            log=log, start=log.min_offset, end=log.max_offset, confirmed_to=0, epochs=self.epochs
        )
