"""The check of a backup: the rules of a store, for what a backup has of one.

The log's records, what they say of queues and timers, and the tables are judged as in a store. What
a start makes of the log (queues, index, timers, checkpoints) is in no backup, and is not missed.
Each object is compared with its digest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import attrs
import trio

from timermq.repair.finding import Finding, Step
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_rule import Severity, StoreRule

from .backup_objects import BackupObjects
from .backup_store import BackupStore, BadObject

NOT_SHIPPED = (
    StoreRule.QUEUE_DIFFERS,
    StoreRule.INDEX_DIFFERS,
    StoreRule.WHEEL_DIFFERS,
    StoreRule.CHECKPOINT_WRONG,
)
"""Rules of files that a start makes."""


@attrs.frozen(kw_only=True)
class BackupCheck:
    """One check of one backup; ``run`` does it.

    Args:
        objects: Of the backup.
        settings: Of the store that it is of; disk, directory and segment size are the backup's.
    """

    objects: BackupObjects
    settings: CheckedStore

    async def run(self) -> list[Finding]:
        """All that is wrong, and what is worth knowing.

        Raises:
            TargetError: The backup cannot be read.
            OSError: The directory of temporary files refused; it needs room for a segment.

        Cancellation: waits for the walk over the log.
        """
        manifest = self.objects.manifest
        with tempfile.TemporaryDirectory(prefix="timermq-check-") as root:
            store = BackupStore(self.objects, root)
            await store.begin()
            options = self.settings.store_options
            if manifest.segment_size:
                size = manifest.segment_size
                options = attrs.evolve(options, mapped_file_size_commit_log=size)
            disk = store.disk(trio.from_thread.run)
            checked = attrs.evolve(self.settings, disk=disk, root=root, store_options=options)
            found = await trio.to_thread.run_sync(lambda: list(checked.find()))
        return [*map(_bad, store.bad), *filter(_is_shipped, found), *self._notes()]

    def _notes(self) -> Iterator[Finding]:
        if not self.objects.manifest.is_complete:
            yield Finding(
                rule=StoreRule.UNUSUAL,
                file="manifest",
                offset=0,
                expected="a log that was shipped to its end",
                found="a first shipping that has not ended: the newest messages are missing",
                severity=Severity.NOTE,
                step=Step.NOTHING,
            )


def _bad(one: BadObject) -> Finding:
    """The finding of an object that cannot be read."""
    return Finding(
        rule=StoreRule.TABLE_UNREADABLE if one.is_table else StoreRule.RECORD_DAMAGED,
        file=one.name,
        offset=0,
        expected="an object with the digest that the manifest has",
        found=one.reason,
        step=Step.NOTHING,
    )


def _is_shipped(finding: Finding) -> bool:
    """Whether a finding is of something that a backup has."""
    return finding.rule not in NOT_SHIPPED and finding.file != "abort"
