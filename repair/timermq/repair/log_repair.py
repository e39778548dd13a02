"""The commit log repaired in its place: heads put right, holes filled, lengths restored, tail cut.

Whatever is killed here can be done again: what was written is a good record by then, and what was
not is a smaller hole with fewer gaps. The bytes before have a backup before the first is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from timermq.timerstore.disk import Disk
from timermq.timerstore.message import TRANSACTION_MASK
from timermq.timerstore.record_layout import QUEUE_ID_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT
from timermq.timerstore.record_spans import record_spans
from timermq.timerstore.seals import Seals

from .backup import Backup
from .damage_fill import Fill, plan_fills
from .finding import Finding, Step
from .log_check import LogCheck
from .log_survey import Found
from .lost_origins import with_origins
from .queue_sequence import Gap
from .record_repair import RecordRepair
from .renewed_seals import RenewedSeals

_CLEAR_SIZE = 1 << 20

STEPS = (Step.RESTORE_LENGTH, Step.REPAIR_RECORD, Step.FILL_HOLE, Step.MARK_LOST, Step.CUT_TAIL)
"""The steps that are done here."""


class LogRepair:
    """Repairs one commit log.

    Args:
        disk: The disk of the store.
        root: Its directory.
        backup: The backup of the originals.
        log: A walk that is done.
    """

    def __init__(self, disk: Disk, root: str, backup: Backup, log: LogCheck) -> None:
        self.unplaced: list[Gap] = []
        """Queue offsets for which the log has no room: their queues begin behind them."""
        self._disk = disk
        self._root = root
        self._backup = backup
        self._log = log
        row = log.row
        self._seals = Seals(disk, f"{root}/{row.directory}", row.segment_size, read_only=False)

    def run(self, findings: Sequence[Finding]) -> bool:
        """Do the log's steps of some findings; whether anything was changed.

        Raises:
            NoRoomError: No room to keep an original.
            OSError: The disk refused; a repair can be run again.
        """
        mine = [finding for finding in findings if finding.step in STEPS]
        self._log.row.close()  # lengths change
        for finding in mine:
            subject = finding.subject
            if finding.step is Step.RESTORE_LENGTH and isinstance(subject, int):
                self._restore_length(subject)
        log = self._log
        fills, self.unplaced = plan_fills(log.holes, log.gaps, log.hole_store_ms)
        self._write([*self._repairs(mine), *with_origins(fills, log)])
        is_cut = any(finding.step is Step.CUT_TAIL for finding in mine)
        if is_cut:
            self._cut_tail(log.end)
        return bool(fills or is_cut or any(finding.step is not Step.MARK_LOST for finding in mine))

    def _restore_length(self, start: int) -> None:
        row = self._log.row
        path = row.path_of(start)
        self._backup.copy(path)
        file = self._disk.open(f"{self._root}/{path}", create=True)
        try:
            if file.size() > row.segment_size:
                file.truncate(row.segment_size)
            file.allocate(row.segment_size)
            self._disk.sync_now(file)
        finally:
            file.close()
        self._disk.sync_dir_now(f"{self._root}/{row.directory}")

    def _repaired(self, repair: RecordRepair) -> bytes:
        """The record with the place that it belongs to."""
        misfit = repair.misfit
        data = bytearray(self._log.row.read(misfit.position, misfit.size))
        _, topic_at, topic_end, _ = record_spans(bytes(data))
        data[topic_at:topic_end] = repair.topic.encode()
        data[QUEUE_ID_AT : QUEUE_ID_AT + 4] = repair.queue_id.to_bytes(4)
        data[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8] = repair.queue_offset.to_bytes(8)
        if not misfit.is_queued:
            data[SYS_FLAG_AT + 3] &= ~int(TRANSACTION_MASK)
        return bytes(data)

    def _repairs(self, findings: Sequence[Finding]) -> Iterator[Fill]:
        """Records that are put right in their places."""
        for finding in findings:
            subject = finding.subject
            if isinstance(subject, Found):
                yield Fill(subject.position, subject.data)
            elif isinstance(subject, RecordRepair):
                yield Fill(subject.misfit.position, self._repaired(subject))

    def _write(self, writes: Sequence[Fill]) -> None:
        """Write into segments, durably; each has a backup before, and its seals are renewed."""
        row = self._log.row
        parts: dict[int, list[Fill]] = {}
        for one in writes:
            parts.setdefault(one.position - one.position % row.segment_size, []).append(one)
        for start, part in sorted(parts.items()):
            path = row.path_of(start)
            self._backup.copy(path)
            file = self._disk.open(f"{self._root}/{path}")
            try:
                holes = [
                    one
                    for one in self._log.holes
                    if start <= one.position < start + row.segment_size
                ]
                RenewedSeals(start=start, segment=file, writes=part, holes=holes).write(
                    self._disk, self._seals
                )
                for one in part:
                    file.write(one.position - start, one.data)
                self._disk.sync_now(file)
            finally:
                file.close()

    def _cut_tail(self, end: int) -> None:
        """Zero what stands behind the end in its segment; later segments go to the backup."""
        row = self._log.row
        for segment in row.segments:
            if segment.start >= end and segment.start > row.start:
                self._seals.drop(segment.start)
                self._backup.move(segment.path)
            elif segment.start + row.segment_size > end:
                self._backup.copy(segment.path)
                self._cut_seals(segment.path, segment.start, max(end, segment.start))
                zero_behind(self._disk, f"{self._root}/{segment.path}", max(end - segment.start, 0))

    def _cut_seals(self, path: str, start: int, end: int) -> None:
        """Let the seals of a segment end at a position."""
        file = self._disk.open(f"{self._root}/{path}", read_only=True)
        try:
            self._seals.begin(start, end, file)
        finally:
            self._seals.close()
            file.close()


def zero_behind(disk: Disk, path: str, first: int) -> None:
    """Zero a file from a byte on, durably; what is zero already is not written."""
    file = disk.open(path)
    try:
        for at in range(first, file.size(), _CLEAR_SIZE):
            data = file.read(at, _CLEAR_SIZE)
            if data.count(0) < len(data):
                file.write(at, bytes(len(data)))
        disk.sync_now(file)
    finally:
        file.close()
