"""Reconciliation: a stopped store brought to a part of its master's log, before it follows.

=======================================  ====================================================
what the two logs show                   what is done
=======================================  ====================================================
own log is empty                         nothing: it is copied from the master's start
master's log is empty                    refused: whose records stand here is not known
own newest epoch is above the master's   refused: the master is the one that was passed over
a common epoch                           cut to its end, or to the last record that is equal
no common epoch, own log has none        as one epoch that both have
master's began at 0, in a later epoch    refused: it led before it had a byte of any log
no common epoch otherwise                refused: they are logs of two brokers
=======================================  ====================================================

Epochs say where the logs may part; the bytes say whether they do. So what stands before that
position is compared by its digest, and where it differs (a power cut took the master's tail, and
other records stand there now) the last equal record is searched for. A master without epochs, such
as RocketMQ's, is asked for the last record alone: a log that is not part of its log is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs
import structlog

from timermq.pipeline.records.deduplication import without_origin
from timermq.remoting.epoch_report import EpochReport
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreError
from timermq.timerstore.store_options import StoreOptions

from .epochs import EpochList
from .ha_frames import Epoch
from .log_digest import log_digest
from .replica_calls import ReplicaRefusedError
from .truncation import StoppedLog, Truncation, stopped_log, truncate_store

COMPARED_SIZE = 1 << 16
"""Bytes before the position at which the logs may part that are compared."""
SIZE_SIZE = 4
"""Bytes at the begin of a record that state its size."""

log_lines = structlog.get_logger("timermq.broker.replication.reconciliation")


class ReconciliationError(StoreError):
    """The store cannot follow that master; nothing was changed. The message says what to do."""


class MasterLog(Protocol):
    """The requests that a master answers about its log."""

    async def epochs(self, address: str, /) -> EpochReport:
        """Its epochs; ReplicaRefusedError of one that has none."""
        ...

    async def digest(self, address: str, /, offset: int, size: int) -> str | None:
        """The digest of bytes of its log (`log_digest`); None where it has not all of them."""
        ...

    async def record(self, address: str, /, position: int) -> bytes | None:
        """The record at a position, without its origin; None without one."""
        ...


@attrs.frozen(kw_only=True)
class Reconciliation:
    """One store, before it follows one master; ``run`` does it.

    Args:
        disk: The disk of the store.
        root: Its directory.
        options: Settings, with the sizes of its files.
        broker_name: The name that both brokers have.
        master: ``host:port`` of the master.
        calls: Asks it.
    """

    disk: Disk
    root: str
    options: StoreOptions
    broker_name: str
    master: str
    calls: MasterLog

    async def run(self) -> Truncation:
        """Cut the store to what the master has.

        Raises:
            ReconciliationError: It cannot follow that master.
            TruncationError: What would be cut was confirmed.
            NoReplicaError: The master does not answer.
            StoreError: The store is damaged, or served.
            OSError: The disk refused; the same call goes on.

        Cancellation: the store is as it was, or cut.
        """
        try:
            report = await self.calls.epochs(self.master)
        except ReplicaRefusedError:
            report = None
        with stopped_log(self.disk, self.root, self.options) as stopped:
            end = stopped.end
            position = await self.position(stopped, report)
            if not stopped.is_record_bound(position):
                raise self._error(f"the logs part at {position}, where no record ends")
        done = truncate_store(self.disk, self.root, self.options, position)
        if done.size:
            log_lines.warning(
                "log cut to what the master has",
                master=self.master,
                position=position,
                end=end,
                saved=done.saved,
                remedy=f"timermq store diverged {self.root} lists what was cut off",
            )
        return done

    async def position(self, stopped: StoppedLog, report: EpochReport | None) -> int:
        """End of the part of a log that the master has.

        Args:
            stopped: A log to which nothing is appended meanwhile.
            report: What the master says of itself; None of one without epochs.

        Raises:
            ReconciliationError: The log cannot follow that master.
            NoReplicaError: The master does not answer.
        """
        if stopped.end == stopped.start:
            return stopped.end
        if report is None:
            return await self._whole(stopped)
        if report.broker_name != self.broker_name:
            raise self._error(f"it is {report.broker_name}, and this is {self.broker_name}")
        own, theirs = (
            stopped.epochs.epochs.cut(stopped.end),
            EpochList(Epoch(*one) for one in report.epochs),
        )
        if own.last_number > theirs.last_number:
            raise self._error(
                f"its newest epoch is {theirs.last_number}, and that of this store "
                f"{own.last_number}: let this one lead (timermq promote)"
            )
        if report.max_offset == report.min_offset:
            # Whatever stands here it lacks; no epoch and no byte of it tells whether it is ours.
            raise self._error(
                f"EMPTY_MASTER: expected a log with records, as this one ends at {stopped.end}, "
                "found an empty one: it has lost its disk, or led before it had copied any: let "
                "this one lead (timermq promote, or start it without the other), or move this "
                "store away"
            )
        position = self._common_end(stopped, own, theirs, report)
        if position < report.min_offset:
            raise self._error(
                f"SLAVE_BEHIND: the logs have records up to {position} in common, and its log "
                f"begins at {report.min_offset}: move this store away, and a copy begins there"
            )
        return await self._last_equal(stopped, position)

    def _common_end(
        self, stopped: StoppedLog, own: EpochList, theirs: EpochList, report: EpochReport
    ) -> int:
        """Position up to which the epochs say that the logs are equal."""
        if own.last is None:
            # What was stored before there were epochs: the records tell.
            return min(stopped.end, report.max_offset)
        found = own.common_end(stopped.end, theirs, report.max_offset)
        first = theirs.entries[0] if theirs.entries else None
        if found is None and first is not None and first.start == 0 and first > own.last:
            raise self._error(
                f"EMPTY_SUCCESSOR: it began to lead in epoch {first.number} without a byte of a "
                f"log, so nothing tells whether the records of epoch {own.last.number} here are of "
                "its master: send them to it again, and move this store away; or stop it, and "
                "start this one without it (without timermq-role.json in its store)"
            )
        if found is None:
            raise self._error(
                f"no epoch of this store is one of its epochs ({own.last_number} from "
                f"{own.last.start} on is not): they are logs of two brokers"
            )
        return found

    async def _whole(self, stopped: StoppedLog) -> int:
        """End of a log that is a part of the master's, which has no epochs."""
        last = stopped.last_record(stopped.end)
        assert last is not None, "the log is not empty"
        own = stopped.log.record_at(last, stopped.end - last)
        theirs = await self.calls.record(self.master, last)
        if own is None or theirs != without_origin(own):
            raise self._error(
                f"the last record before {stopped.end} is another one there, or its log is "
                "shorter, and it has no epochs to tell where they part: move this store away, and "
                "a copy begins"
            )
        return stopped.end

    async def _last_equal(self, stopped: StoppedLog, position: int) -> int:
        """End of the last record up to a position that both logs have."""
        before = position - max(position - COMPARED_SIZE, stopped.start)
        if await self._is_equal(stopped, position - before, before):
            return position
        segment_size = stopped.log.segment_size
        starts = [one.start for one in stopped.log.segments if one.start < position]
        segment = await _last(starts, lambda one: self._has_record(stopped, one))
        if segment is None:
            raise self._error(
                f"its records are others from {stopped.start} on: they are logs of two brokers"
            )
        walk = stopped.log.walk(segment, min(segment + segment_size, stopped.end))
        ends = {at: at + size for at, size in walk if at + size <= position}
        at = await _last(list(ends), lambda one: self._has_record(stopped, one))
        return segment if at is None else ends[at]

    async def _has_record(self, stopped: StoppedLog, position: int) -> bool:
        """Whether the master has the record at a position as it is here."""
        return await self._is_equal(
            stopped, position, int.from_bytes(stopped.log.read(position, SIZE_SIZE))
        )

    async def _is_equal(self, stopped: StoppedLog, offset: int, size: int) -> bool:
        """Whether so many bytes from a position on are the same in both logs."""
        own = log_digest(stopped.log, offset, size)
        return own is not None and own == await self.calls.digest(self.master, offset, size)

    def _error(self, text: str) -> ReconciliationError:
        return ReconciliationError(f"{self.root}: cannot follow {self.master}: {text}")


async def _last(positions: list[int], is_equal: Callable[[int], Awaitable[bool]]) -> int | None:
    """The last position that is equal; those before it are. None: the first one is not."""
    low, high = 0, len(positions)
    while low < high:
        middle = (low + high) // 2
        if await is_equal(positions[middle]):
            low = middle + 1
        else:
            high = middle
    return positions[low - 1] if low else None
