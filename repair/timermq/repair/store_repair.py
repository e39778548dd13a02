"""The repair of a store: check and repair the log, then what follows from it, and check again.

=====  =====================================================================================
round  what is repaired
=====  =====================================================================================
0      words of both logs that their seals tell
1      the commit log in its place; nothing else can be judged before it is whole
2      queues, index, tables and checkpoint, from the log
3      timer log, wheel and timer checkpoint, by the timer service's own recovery; then outlines
4      nothing: the last check says what is left
=====  =====================================================================================

Only what is broken is touched, and every file has a backup before. A second repair finds nothing to
do. One that was killed is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from timermq.timerstore.boot_note import remove_boot_note
from timermq.timerstore.errors import StoreError
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.seal_scrub import SealScrub
from timermq.timerstore.seals import SealMoment
from timermq.timerstore.store_lock import StoreLock

from .backup import Backup
from .derived_repair import DerivedRepair
from .finding import Finding, Step
from .log_check import LogCheck, QueueKey
from .log_repair import STEPS as LOG_STEPS
from .log_repair import LogRepair
from .seal_check import damaged_sectors
from .store_check import CheckedStore, is_damage
from .table_check import TableCheck
from .table_repair import TableRepair
from .timer_repair import TimerRepair

ROUNDS_MAX = 3
"""How often the log, and then the timers, are repaired before that counts as in vain: damage may
show only when other damage is gone."""


@attrs.frozen(kw_only=True)
class RepairReport:
    """The result of a repair: findings, those that are left, and the place of the originals."""

    findings: tuple[Finding, ...]
    """The findings before the repair, notes left out."""
    left: tuple[Finding, ...]
    """The findings after the repair."""
    backup: str
    """Directory of the originals, under the root."""
    kept: tuple[str, ...]
    """Files that stand there."""

    @property
    def is_repaired(self) -> bool:
        """Whether nothing is left that another repair would change."""
        return all(finding.step is Step.NOTHING for finding in self.left)


@attrs.define(eq=False)
class StoreRepair:
    """One repair of one store; ``run`` does it."""

    store: CheckedStore
    now_ms: Callable[[], int]
    _findings: dict[tuple[str, int, str, str], Finding] = attrs.field(
        factory=dict[tuple[str, int, str, str], Finding], init=False
    )
    """By file, offset, expected and found: what a later round finds still is told once."""
    _first: dict[QueueKey, int] = attrs.field(factory=dict[QueueKey, int], init=False)
    """Queues that begin behind a gap."""
    _is_log_changed: bool = attrs.field(default=False, init=False)
    """Something was written into the commit log."""

    async def run(self) -> RepairReport:
        """Repair the store.

        Raises:
            StoreLockedError: A broker serves it.
            NoRoomError: No room to keep an original; what was changed before is whole.
            OSError: The disk refused; the repair can be run again.

        Cancellation: as a kill: the repair can be run again.
        """
        store = self.store
        lock = StoreLock(store.disk, store.root)
        lock.take()
        try:
            backup = Backup(store.disk, store.root, store.now_ms)
            damaged = self._repair_words(backup)
            log, findings = self._repair_log(backup, damaged)
            try:
                await self._repair_derived(log, findings, backup)
                await self._repair_timers(log, backup)
                self._repair_outlines(backup)
            finally:
                log.close()
            if self._is_log_changed:
                await self._seal_log(log.end)
            left = tuple(filter(is_damage, store.find()))
        finally:
            lock.release()
        return RepairReport(
            findings=tuple(self._findings.values()),
            left=left,
            backup=backup.directory,
            kept=tuple(backup.kept),
        )

    def _note(self, findings: Iterable[Finding]) -> list[Finding]:
        found = [one for one in findings if is_damage(one)]
        for one in found:
            self._findings.setdefault((one.file, one.offset, one.expected, one.found), one)
        return found

    def _repair_words(self, backup: Backup) -> frozenset[int]:
        """Put right what seals tell: nothing is judged by a damaged word then.

        Returns:
            Positions of the sectors of the commit log that stay damaged.
        """
        seals = self.store.open_seals()
        found = self._note((*seals.find_in_log(), *seals.find_in_timer_log()))
        seals.repair(found, backup)
        return damaged_sectors(found)

    def _repair_log(
        self, backup: Backup, damaged: frozenset[int]
    ) -> tuple[LogCheck, list[Finding]]:
        """Repair the log; returns the walk over what it is then, and what that found."""
        for _ in range(ROUNDS_MAX):
            log = self.store.open_log(damaged)
            try:
                findings = self._note(log.run())
                if not self._repair_found(log, findings, backup):
                    return log, findings
            except BaseException:
                log.close()
                raise
            log.close()
        raise StoreError(
            f"{self.store.root}: expected a commit log without holes after {ROUNDS_MAX} repairs, "
            "found new ones each time: the disk does not keep what is written"
        )

    def _repair_found(self, log: LogCheck, findings: Sequence[Finding], backup: Backup) -> bool:
        """Repair what a walk over the log found; whether anything was changed."""
        if not any(one.step in LOG_STEPS for one in findings):
            return False
        # First: the log may end earlier than the last start has noted.
        remove_boot_note(self.store.disk, self.store.root)
        self._is_log_changed = True
        repair = LogRepair(self.store.disk, self.store.root, backup, log)
        is_changed = repair.run(findings)
        for gap in repair.unplaced:
            key = (gap.topic, gap.queue_id)
            self._first[key] = max(self._first.get(key, 0), gap.end)
        return is_changed

    async def _seal_log(self, end: int) -> None:
        """Seal what of the commit log has no seal; without room the scrub does it later."""
        store = self.store
        files = MappedFileQueue(
            store.disk,
            f"{store.root}/commitlog",
            store.store_options.mapped_file_size_commit_log,
            reserve=True,
            sealed=SealMoment.APPEND,
        )
        try:
            files.load()
            files.set_end(end)
            SealScrub(files, lambda _: None).seal_all()
            await files.flush_seals()
        finally:
            files.close()

    async def _repair_timers(self, log: LogCheck, backup: Backup) -> None:
        store = self.store
        repair = TimerRepair(
            disk=store.disk,
            root=store.root,
            store_options=store.store_options,
            timer_options=store.timer_options,
            backup=backup,
            now_ms=store.now_ms,
        )
        for _ in range(ROUNDS_MAX):
            check, seals = store.open_timers(log), store.open_seals()
            found = self._note((*check.find(), *seals.find_in_timer_log()))
            if not await repair.run(check, found):
                return

    def _repair_outlines(self, backup: Backup) -> None:
        """Make outlines again; the timer log is whole by now."""
        outlines = self.store.open_outlines()
        outlines.repair(self._note(outlines.find()), backup)

    async def _repair_derived(
        self, log: LogCheck, findings: Sequence[Finding], backup: Backup
    ) -> None:
        store = self.store
        derived = DerivedRepair(
            disk=store.disk,
            root=store.root,
            options=store.store_options,
            backup=backup,
            log_end=log.end,
            register=log.register,
        )
        tables = TableRepair(store.disk, store.root, backup)
        tables.run(findings)
        keys: set[QueueKey] = set()
        for one in findings:
            match one.step, one.subject:
                case Step.REBUILD_QUEUE, (str() as topic, int() as queue_id):
                    keys.add((topic, queue_id))
                case _:
                    pass
        keys |= self._first.keys()
        ends = {key: log.ends[key] for key in keys if log.ends.get(key, 0)}
        if keys:
            await derived.rebuild_queues(keys, log.begins, self._first, ends)
        if any(one.step is Step.REBUILD_INDEX for one in findings):
            await derived.rebuild_index(self.now_ms)
        if log.register.log_end > log.end or (keys and log.register.log_end):
            backup.copy("config/consumeQueues.json")
            derived.write_register(log.start, ends)
        check = TableCheck(store.disk, store.root, log)
        # Tables that take the places of others may have offsets of their own to be clamped.
        for _ in range(2):
            tables.run(self._note(check.find()))
