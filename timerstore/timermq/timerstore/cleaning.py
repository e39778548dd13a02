"""Cleaning: old segments of the log go, and what points to them.

===================  =============================  ==============================================
disk used            expired segments go            others
===================  =============================  ==============================================
up to 75 %           in the hours of delete_when    stay
up to 85 %           at any hour                    stay
above                at any hour                    the oldest go, whatever their age
above 90 % still                                    sends are refused until there is room, and
                                                    begin no segment that would lead there
===================  =============================  ==============================================

Never removed: the newest segment, and what a pending timer's body stands in or behind. RocketMQ
removes those too when the disk is full, and so loses timers without a word; here sends are refused.

Source: DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService.
"""

import time
from collections.abc import Callable

from .commit_log import CommitLog
from .consume_queue_table import ConsumeQueueTable
from .disk import Disk
from .index_follower import IndexFollower
from .store_options import StoreOptions

HOUR_MS = 3_600_000


class Cleaner:
    """Decides what goes, and whether the disk has room for sends.

    Args:
        disk: The disk of the store.
        root: Root of the store.
        options: Ages, hours and ratios.
        now_ms: Wall clock.
    """

    def __init__(
        self,
        disk: Disk,
        root: str,
        options: StoreOptions,
        *,
        log: CommitLog,
        queues: ConsumeQueueTable,
        index: IndexFollower | None,
        now_ms: Callable[[], int],
    ) -> None:
        self.used_ratio = 0.0
        """Used part of the disk, 0 to 1, as last measured."""
        self.refusal: str | None = None
        """Why sends are refused, None while the disk has room."""
        self.is_held = False
        """Whether the last cleaning left a segment only because it is needed."""
        self.copied_from: int | None = None
        """While the log is a copy: the start of the log that is copied, which goes before; None: it
        is not known, and nothing goes."""
        self.is_copy = False
        """The log is a copy of another broker's, which decides what goes."""
        self._disk = disk
        self._root = root
        self._options = options
        self._log = log
        self._queues = queues
        self._index = index
        self._now_ms = now_ms
        self.measure()

    def measure(self) -> None:
        """Look how full the disk is."""
        usage = self._disk.usage(self._root)
        self.used_ratio = usage.used / usage.total if usage.total else 0.0
        used_percent = self.used_ratio * 100
        limit = self._options.disk_space_warning_level_ratio
        self.refusal = (
            f"disk of {self._root} is full: {used_percent:.1f} % used, expected at most {limit} %"
            if used_percent > limit
            else None
        )

    def growth_refusal(self, segment_size: int, count: int) -> str | None:
        """Why sends may not begin so many segments now, None if they may.

        What lies above the warning level is kept for queues, units and index, which follow the log,
        and a segment more for deliveries, which make room then. Asked for each segment, because a
        fast producer fills a disk between two measurements.
        """
        usage = self._disk.usage(self._root)
        above = usage.total * (100 - self._options.disk_space_warning_level_ratio) // 100
        expected = (count + 1) * segment_size + above
        if usage.free >= expected:
            return None
        return (
            f"disk of {self._root} is full: {usage.free} bytes free, expected at least {expected} "
            "to begin a segment of the log"
        )

    async def clean(self, pinned_from: int | None, release: Callable[[int], None]) -> int:
        """Remove what may and should go, then measure again.

        Args:
            pinned_from: Lowest log position that is needed; None: none is.
            release: Told the end of what goes, before it does and behind it: a disk that was full
                may have room then.

        Returns:
            Segments of the log removed.

        Cancellation: the queues follow the log all the same.

        Raises:
            OSError: The disk was not measured, or a file not removed.
        """
        self.measure()
        end = self._removable_end(pinned_from)
        if end > self._log.min_offset:
            release(end)
        removed = self._log.delete_before(end)
        if removed:
            release(self._log.min_offset)
            await self._queues.delete_before(self._log.min_offset)
            if self._index is not None:
                self._index.delete_before(self._log.min_offset)
            self.measure()
        return removed

    def _removable_end(self, pinned_from: int | None) -> int:
        """End of the oldest segments that go now."""
        options = self._options
        used_percent = self.used_ratio * 100
        now_ms = self._now_ms()
        # Local time of the broker's own clock, as RocketMQ reads delete_when.
        is_hour = time.localtime(now_ms // 1000).tm_hour in options.delete_hours
        any_age = used_percent > options.disk_space_clean_forcibly_ratio
        end = self._log.min_offset
        self.is_held = False
        if self.is_copy:
            return self._copied_end(pinned_from)
        if not (is_hour or any_age or used_percent > options.disk_max_used_space_ratio):
            return end
        expired_ms = now_ms - options.file_reserved_time_hours * HOUR_MS
        for segment in self._log.segments[:-1][: options.delete_file_batch_max]:
            is_old = self._disk.modified_ms(segment.file.path) <= expired_ms
            if not (is_old or any_age):
                break
            if pinned_from is not None and segment.end > pinned_from:
                self.is_held = True
                break
            end = segment.end
        return end

    def _copied_end(self, pinned_from: int | None) -> int:
        """End of the oldest segments that have gone where the log is copied from."""
        end = self._log.min_offset
        for segment in self._log.segments[:-1]:
            if segment.end > (self.copied_from or 0):
                break
            if pinned_from is not None and segment.end > pinned_from:
                self.is_held = True
                break
            end = segment.end
        return end
