"""The check of a whole store: nothing is written, and damage of one part hides no other.

Both logs are compared with their seals. Then one walk over the commit log looks at its records, at
the queues and the index beside them; then come the timers and the small files. Memory: a few
kilobytes a queue, the ring of the wheel several times, and the numbers of one segment's timers; the
rest goes to temporary files.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

import attrs

from timermq.pipeline.recovery.timer_engine import TimerEngines
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.disk import Disk
from timermq.timerstore.queue_register import QueueRegister
from timermq.timerstore.store_options import StoreOptions

from .finding import FINDINGS_MAX, Finding, Findings
from .log_check import LogCheck, Progress
from .outline_check import OutlineCheck
from .seal_check import SealCheck, damaged_sectors
from .store_rule import Severity
from .table_check import TableCheck
from .timer_check import TimerCheck


@attrs.frozen(kw_only=True)
class CheckedStore:
    """A store and its settings, as all checks need them."""

    disk: Disk
    root: str
    store_options: StoreOptions
    timer_options: TimerOptions
    now_ms: int
    progress: Progress | None = None

    def open_log(self, damaged: Collection[int]) -> LogCheck:
        """A walk over the commit log that has not begun.

        Args:
            damaged: Positions of the sectors that are not as their seals say.
        """
        register = QueueRegister(self.disk, self.root)
        register.load()
        return LogCheck(
            self.disk,
            self.root,
            self.store_options,
            register,
            not self.disk.exists(f"{self.root}/abort"),
            self.progress,
            damaged,
        )

    def open_timers(self, log: LogCheck) -> TimerCheck:
        """The check of the timers, for after the walk."""
        engines = TimerEngines.of(self.disk, self.root)
        return TimerCheck(self.disk, self.root, self.timer_options, log, self.now_ms, engines)

    def open_seals(self) -> SealCheck:
        """The seals of both logs."""
        return SealCheck(
            disk=self.disk,
            root=self.root,
            store_options=self.store_options,
            timer_options=self.timer_options,
        )

    def open_outlines(self) -> OutlineCheck:
        """The outlines of the timer log."""
        return OutlineCheck(disk=self.disk, root=self.root, timer_options=self.timer_options)

    def find(self) -> Findings:
        """Everything that is wrong, at most `FINDINGS_MAX`."""
        yield from itertools.islice(self._find(), FINDINGS_MAX)

    def _find(self) -> Findings:
        seals = self.open_seals()
        found = list(seals.find_in_log())
        yield from found
        yield from seals.find_in_timer_log()
        log = self.open_log(damaged_sectors(found))
        try:
            yield from log.run()
            yield from self.open_timers(log).find()
            yield from self.open_outlines().find()
            yield from TableCheck(self.disk, self.root, log).find()
        finally:
            log.close()


def is_damage(finding: Finding) -> bool:
    """Whether a finding is more than a note."""
    return finding.severity is not Severity.NOTE
