"""Stage 4: reads the bodies of due messages and leaves out the cancelled ones.

The positions of a batch are announced to the page cache first and read in the order of the commit
log, so that cold bodies cost one queue of reads instead of one read after the other; the batch
keeps its order of release.

Source: Java ``TimerMessageStore.TimerDequeueGetMessageService``.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import trio
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_DELETE, MAGIC_ROLL, check_unit
from timermq.timerstore.log_record import STORE_MS_END, store_ms_of
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import REAL_TOPIC_NAME, find
from timermq.timerstore.record import RecordError, record_properties, record_spans
from timermq.timerstore.record_block import RecordBlock
from timermq.timerstore.record_check import has_its_body

from ..quarantine.retried_message import check_intact
from ..records.cancel_mark import names_of
from ..records.record_kin import RecordKin
from ..records.timer_record import TimerRecordError, position_name
from ..records.undeliverable import Reason, Undeliverable, check_size
from ..records.unread_delete import UnreadDelete, unread_among
from ..recovery.timer_files import TimerFiles
from ..state.timer_counts import TimerCounts
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .timer_request import DeliverBatch, DequeueBatch, ReadMark, Requests, undeliverable

_ROLLED_DELETE = MAGIC_DELETE | MAGIC_ROLL

WARM_MS = 60_000
"""Bodies of messages that waited longer are compared with their checksums before they leave."""


@attrs.frozen(eq=False, kw_only=True)
class DequeueGetMessage:
    """The stage; ``run`` is its task."""

    store: MessageStore
    files: TimerFiles
    state: TimerState
    options: TimerOptions
    counts: TimerCounts

    async def run(
        self,
        source: trio.MemoryReceiveChannel[DequeueBatch | ReadMark],
        sink: trio.MemorySendChannel[DeliverBatch | ReadMark],
    ) -> None:
        """Read the records of every batch until ``source`` ends; marks pass through.

        Cancellation: nothing is lost, the slots are read again by the next run.
        """
        with sink:
            async for batch in source:
                if isinstance(batch, ReadMark):
                    await sink.send(batch)
                    continue
                *parts, last = self._parts(batch.requests)
                for part in parts:
                    await self._put_back(part)
                    some = self.read(part, batch.deletes)
                    await sink.send(attrs.evolve(some, is_last=False))
                await self._put_back(last)
                await sink.send(self.read(last, batch.deletes))

    async def _put_back(self, requests: Requests) -> None:
        """Have damaged bytes put back from another copy of the log, if there is one."""
        put_back, old = self.store.put_back, self.store.commit_log.old
        sizes = requests["size_py"].astype(np.int64)
        if put_back is not None and old.are_damaged(requests["offset_py"], sizes):
            await put_back()

    def read(self, requests: Requests, deletes: frozenset[bytes]) -> DeliverBatch:
        """The records of ``requests``, less those that are gone, cancelled or handled already.

        Raises:
            DamagedUnitError: What names a record is damaged: nothing is said of any of them.
        """
        commit_log = self.store.commit_log
        done = self.state.already_done
        may_be_left_out = bool(deletes or done.foreign or done.doubts)
        offsets, all_sizes = requests["offset_py"], requests["size_py"].astype(np.int64)
        broken = commit_log.old.are_damaged(offsets, all_sizes)
        block = commit_log.block_at(offsets, all_sizes)
        is_simple = not (broken or may_be_left_out)
        if block is not None and is_simple and self._is_sound(requests, block):
            return DeliverBatch(requests=requests, block=block)
        sizes: list[int] = requests["size_py"].tolist()
        places = zip(requests["offset_py"].tolist(), sizes, strict=True)
        found = list(commit_log.records_at(places) if block is None else block.records())
        self._check_units(requests, found)
        sizes = self._deletes_again(requests, found, sizes, broken)
        faults: list[Undeliverable] = []
        records: list[bytes | None] = []
        left_out: list[tuple[int, bytes]] = []
        for index, record in enumerate(found):
            records.append(None)
            if may_be_left_out and self._left_out(record or b"", deletes, requests[index]):
                offset_py = int(requests["offset_py"][index])
                if record is not None and position_name(offset_py) not in deletes:
                    left_out.append((offset_py, record))
                continue
            if record is None or int.from_bytes(record[:4]) != sizes[index]:
                faults.append(_unreadable(requests[index], record))
            else:
                records[index] = record
        faults += _take_out(
            requests,
            records,
            lambda at, record: _check_damage(requests[at], record, is_broken=at in broken),
        )
        unread = unread_among(deletes)
        if done.doubts or unread:
            faults += _take_out(
                requests,
                records,
                lambda at, record: self._check_doubts(requests[at], record, unread),
            )
        kept = [index for index, record in enumerate(records) if record is not None]
        return DeliverBatch(
            requests=requests[kept],
            block=RecordBlock.of([record for record in records if record is not None]),
            left_out=left_out,
            undeliverable=faults,
        )

    def _check_units(self, requests: Requests, found: list[bytes | None]) -> None:
        """Compare units that do not lead to a record of their size: they may have rotted."""
        for index, record in enumerate(found):
            if record is None or int.from_bytes(record[:4]) != requests["size_py"][index]:
                check_unit(self.files.timer_log.scrub, int(requests["pos"][index]))

    def _is_sound(self, requests: Requests, block: RecordBlock) -> bool:
        """Whether the bodies are those that were stored.

        They are compared with their checksums where they may have been read from the disk. What
        this process wrote a short time ago comes from memory as it was written. A roll would carry
        damage on into a new record, whose checksum is right.
        """
        if _unread_deletes(requests).any():
            return False
        oldest = int(requests["offset_py"].argmin())
        start = int(block.starts[oldest])
        stored_ms = store_ms_of(block.data[start : start + STORE_MS_END])
        is_warm = (
            int(requests["offset_py"][oldest]) >= self.store.recovery.end
            and not (requests["magic"] & MAGIC_ROLL).any()
            and int(requests["deliver_ms"].max()) - stored_ms <= WARM_MS
        )
        return is_warm or all(map(has_its_body, block.records()))

    def _left_out(self, record: bytes, deletes: frozenset[bytes], request: np.void) -> bool:
        done = self.state.already_done
        offset_py = int(request["offset_py"])
        if done.foreign and _is_readable(record) and done.take_foreign(offset_py, record):
            self.counts.repeated += 1
            self.state.meet(offset_py)
            return True
        # A delete takes effect in the final slot only: on the way both are rolled.
        if (
            deletes
            and not int(request["magic"]) & MAGIC_ROLL
            and names_of(record, int(request["order_py"])) & deletes
        ):
            self.counts.cancelled += 1
            self.state.meet(int(request["offset_py"]))
            topic = (
                find(record_properties(record), REAL_TOPIC_NAME) if _is_readable(record) else None
            )
            if topic is not None:
                self.files.metrics.add(topic.decode("utf-8", "replace"), -1)
            return True
        return False

    def _deletes_again(
        self,
        requests: Requests,
        found: list[bytes | None],
        sizes: list[int],
        broken: list[int],
    ) -> list[int]:
        """Put deletes that roll and are damaged in their places as they were; the sizes then.

        Without them what they cancel would arrive.
        """
        rolled = (requests["magic"] & _ROLLED_DELETE) == _ROLLED_DELETE
        for index in np.flatnonzero(rolled).tolist():
            record = found[index]
            is_read = record is not None and int.from_bytes(record[:4]) == sizes[index]
            if is_read and index not in broken:
                continue
            again = self._kin_of(requests[index]).delete_again(int(requests["order_py"][index]))
            if again is not None:
                found[index], sizes[index] = again, len(again)
        return sizes

    def _kin_of(self, request: np.void) -> RecordKin:
        return RecordKin(
            self.store,
            self.options.timer_precision_ms,
            int(request["offset_py"]),
            int(request["size_py"]),
        )

    def _check_doubts(self, request: np.void, record: bytes, unread: list[UnreadDelete]) -> None:
        """Refuse what a damaged record may have delivered, rolled or cancelled."""
        if int(request["magic"]) & MAGIC_DELETE or not _is_readable(record):
            return
        offset_py = int(request["offset_py"])
        topic = find(record_properties(record), REAL_TOPIC_NAME) or b""
        if not int(request["magic"]) & MAGIC_ROLL:
            for delete in unread:
                delete.check(int(request["topic_hash"]), offset_py, int(request["order_py"]))
        self.state.already_done.check_doubts(
            offset_py, int(request["deliver_ms"]), topic.decode("utf-8", "replace")
        )

    def _parts(self, requests: Requests) -> list[Requests]:
        """Consecutive parts of at most ``deliver_batch_size_max`` bytes, or of one message."""
        ends = np.cumsum(requests["size_py"], dtype=np.int64)
        if int(ends[-1]) <= self.options.deliver_batch_size_max:
            return [requests]
        parts: list[Requests] = []
        start = 0
        while start < len(requests):
            before = int(ends[start - 1]) if start else 0
            limit = before + self.options.deliver_batch_size_max
            stop = max(int(np.searchsorted(ends, limit, "right")), start + 1)
            parts.append(requests[start:stop])
            start = stop
        return parts


def _is_readable(record: bytes) -> bool:
    try:
        record_spans(record)
    except RecordError:
        return False
    return True


def _unreadable(request: np.void, record: bytes | None) -> Undeliverable:
    """The fault of a record that is not of its size."""
    offset_py, size_py = int(request["offset_py"]), int(request["size_py"])
    try:
        check_size(record, offset_py, size_py)
    except TimerRecordError as error:
        return undeliverable(error, request, record)
    raise AssertionError(f"record at {offset_py} is of its size")


def _unread_deletes(requests: Requests) -> NDArray[np.bool_]:
    """Deletes of which stage 3 could not read what they name; it keeps all others."""
    is_unread: NDArray[np.bool_] = (requests["magic"] & _ROLLED_DELETE) == MAGIC_DELETE
    return is_unread


def _check_damage(request: np.void, record: bytes, *, is_broken: bool) -> None:
    """Refuse a record that is not as it was stored, or a delete that nothing can be read of.

    A delete that rolls goes on with a broken sector: the damage may lie beside what it names, and
    without it the message that it cancels would arrive.
    """
    offset_py, size_py = int(request["offset_py"]), int(request["size_py"])
    kind = int(request["magic"]) & _ROLLED_DELETE
    if is_broken and kind != _ROLLED_DELETE:
        text = (
            f"timer record at {offset_py}: expected its {size_py} bytes as they were written, "
            "found a sector that differs from its seal"
        )
        raise TimerRecordError(Reason.DAMAGED, text)
    if kind == MAGIC_DELETE or not has_its_body(record):
        check_intact(record, offset_py, size_py)


def _take_out(
    requests: Requests, records: list[bytes | None], check: Callable[[int, bytes], None]
) -> list[Undeliverable]:
    """Take out the records that a check, given their indices, refuses by ``TimerRecordError``."""
    taken: list[Undeliverable] = []
    for index, record in enumerate(records):
        if record is None:
            continue
        try:
            check(index, record)
        except TimerRecordError as error:
            taken.append(undeliverable(error, requests[index], record))
            records[index] = None
    return taken
