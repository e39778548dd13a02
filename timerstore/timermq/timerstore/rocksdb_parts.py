"""Parts of a store that RocketMQ 5 may keep in RocksDB, and that are not read here.

========================================  ====================================  ==================
setting of RocketMQ's                     tables or queues stand in             expected here
========================================  ====================================  ==================
``storeType=defaultRocksDB``              ``config/topics`` and its like,       JSON in ``config``,
                                          ``consumequeue``                      queues as files
the same, ``useSingleRocksDBForAllConfigs``  ``config/metadata``                JSON in ``config``
``configManagerVersion=v2``               ``config/rdb``                        JSON in ``config``
``rocksdbCQDoubleWriteEnable``            ``consumequeue_rocksdb`` besides      queues as files
========================================  ====================================  ==================

Without these tables the store would look as if it had no topics, and as if no group had read
anything. So it is refused, with the steps that make the files which are expected. The last step
moves the directory out of the store: while it is there, it may be newer than the files.

Timers in RocksDB are taken over: all of them are in the commit log too.

Source: Java ``RocksDBTopicConfigManager``, ``ConfigStorage``, ``RocksDBConsumeQueueStore``.
"""

from __future__ import annotations

import attrs

from .disk import Disk
from .errors import StoreKindError
from .rocksdb_files import has_database

_EXPORT = "mqadmin rocksDBConfigToJson"


@attrs.frozen(kw_only=True)
class RocksdbPart:
    """A directory with a database, and the files that are expected in its place."""

    directory: str
    """Under the store's root."""
    what: str
    expected: str
    """The place where it is read."""
    steps: str
    """What to do first, with ``{root}`` for the store's directory."""

    def message(self, root: str) -> str:
        """The refusal of a store, in one line."""
        return (
            f"{root}/{self.directory}: expected {self.what} in {self.expected}, found a RocksDB "
            f"database, which timermq does not read: {self.steps.format(root=root)}"
        )


def _table(directory: str, what: str, file: str) -> RocksdbPart:
    name = directory.rpartition("/")[2]
    return RocksdbPart(
        directory=directory,
        what=what,
        expected=file,
        steps=f"stop RocketMQ, run {_EXPORT} -t {name} -p {{root}}/config -e {{root}}/{file}, "
        f"then move {directory} out of the store",
    )


_QUEUES = "they are made again from the commit log at the next start"
PARTS = (
    _table("config/topics", "topics", "config/topics.json"),
    _table("config/subscriptionGroups", "consumer groups", "config/subscriptionGroup.json"),
    _table("config/consumerOffsets", "consumer offsets", "config/consumerOffset.json"),
    RocksdbPart(
        directory="config/metadata",
        what="topics, groups and offsets",
        expected="JSON files of config",
        steps=f"while RocketMQ runs and no consumer does, run {_EXPORT} -b HOST:PORT, stop it, "
        "then move config/metadata out of the store",
    ),
    RocksdbPart(
        directory="config/rdb",
        what="topics, groups and offsets",
        expected="JSON files of config",
        steps="RocketMQ exports nothing of configManagerVersion=v2: note its topics, groups and "
        "offsets with mqadmin (topicList, consumerProgress), stop it, move config/rdb out of the "
        "store, start RocketMQ once with configManagerVersion=v1, make them there, and stop it",
    ),
    RocksdbPart(
        directory="consumequeue_rocksdb",
        what="queues",
        expected="files of consumequeue",
        steps="stop RocketMQ, move consumequeue_rocksdb out of the store; the queues are those of "
        f"consumequeue if RocketMQ wrote both (rocksdbCQDoubleWriteEnable), else {_QUEUES}",
    ),
    RocksdbPart(
        directory="consumequeue",
        what="queues",
        expected="files, a directory a topic",
        steps=f"stop RocketMQ, move consumequeue out of the store; {_QUEUES}",
    ),
)
"""All of them."""


def found_parts(disk: Disk, root: str) -> tuple[RocksdbPart, ...]:
    """The parts that a store keeps in RocksDB.

    Raises:
        OSError: That cannot be seen.
    """
    return tuple(one for one in PARTS if has_database(disk, f"{root}/{one.directory}"))


def check_parts(disk: Disk, root: str) -> None:
    """Refuse a store that has such a part.

    Raises:
        StoreKindError: It has one or more; the error names each, with its steps.
        OSError: That cannot be seen.
    """
    found = found_parts(disk, root)
    if found:
        raise StoreKindError("; ".join(one.message(root) for one in found))
