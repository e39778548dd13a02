"""The files of a store, before anything is known about what they hold."""

import attrs

from .commit_log import CommitLog
from .consume_queue_table import ConsumeQueueTable
from .disk import Disk
from .queue_register import QueueRegister
from .rocksdb_parts import check_parts
from .seals import SealMoment
from .store_checkpoint import StoreCheckpoint
from .store_options import StoreOptions

BACKUP_DIRECTORY = "aside"
"""Directory of the backups that repairs and rebuilds make."""


@attrs.define(eq=False, kw_only=True)
class StoreFiles:
    """The parts of a store that recovery looks at."""

    disk: Disk
    root: str
    log: CommitLog
    queues: ConsumeQueueTable
    checkpoint: StoreCheckpoint
    """As it was found; nothing is written to it before recovery has judged the store."""
    register: QueueRegister
    options: StoreOptions
    last_exit_ok: bool
    """Whether the last process closed the store."""
    read_only: bool

    @classmethod
    def of(
        cls, disk: Disk, root: str, options: StoreOptions, *, last_exit_ok: bool, read_only: bool
    ) -> "StoreFiles":
        """The parts of the store in a directory; no file but the checkpoint is looked at.

        Raises:
            StoreKindError: RocketMQ keeps queues or tables of it in RocksDB.
            StoreFormatError: The checkpoint is none.
        """
        check_parts(disk, root)
        log = CommitLog(
            disk,
            f"{root}/commitlog",
            options.mapped_file_size_commit_log,
            read_only=read_only,
            # Answers wait for the flush: what was acknowledged is sealed.
            sealed=SealMoment.FLUSH if options.is_sync_flush else SealMoment.APPEND,
        )
        queues = ConsumeQueueTable(
            disk, root, segment_size=options.mapped_file_size_consume_queue, read_only=read_only
        )
        register = QueueRegister(disk, root)
        log.ask_queues(queues, register)
        return cls(
            disk=disk,
            root=root,
            log=log,
            queues=queues,
            checkpoint=StoreCheckpoint.open(disk, checkpoint_path(root), read_only=True),
            register=register,
            options=options,
            last_exit_ok=last_exit_ok,
            read_only=read_only,
        )

    def close(self) -> None:
        """Give the files back; nothing is written."""
        self.log.close()
        self.queues.close()
        self.checkpoint.close()


def checkpoint_path(root: str) -> str:
    """The path of a store's checkpoint."""
    return f"{root}/checkpoint"
