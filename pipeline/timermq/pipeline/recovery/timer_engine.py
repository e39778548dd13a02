"""Which of RocketMQ's engines a store's timers were left by: what its files tell.

RocketMQ 5.4 and later have three, and a store may have seen each of them:

- the wheel, whose file ``timerwheel`` is kept up to date;
- the wheel with snapshots beside it (``timerWheelSnapshotFlush``): see ``wheel_snapshots``;
- RocksDB timers (``timerRocksDBEnable``): pending messages are in ``rocksdbstore``, by moment and
  key. The wheel stays, empty or with what it had, and its checkpoint passes over the entries of the
  timer topic that RocksDB has taken. They are found in the commit log: see ``timeline``.

The directory ``rocksdbstore`` alone is no sign of RocksDB timers: RocketMQ 5.4 makes it at every
start. The sign is a table in it with data of the column family ``timer``. It is missing only when
it is not needed: data that is in the journal alone is not seen here. But RocketMQ moves the wheel's
checkpoint past the entries of RocksDB only at a start, to the position in the database, and at that
start the journal has been written to tables. Before that start the wheel's checkpoint names the
first of these entries, and recovery reads on from there by itself.

Source: Java ``TimerMessageStore.recover``, ``MessageRocksDBStorage``.
"""

from __future__ import annotations

import attrs

from timermq.timerstore.disk import Disk
from timermq.timerstore.rocksdb_files import has_database, holds_family
from timermq.wheel.wheel_snapshots import snapshot_names

TIMELINE_DIRECTORY = "rocksdbstore"
"""RocketMQ's database of timers, transactions and its index, under the store's root."""
TIMER_FAMILY = b"timer"


@attrs.frozen(kw_only=True)
class TimerEngines:
    """The engines of RocketMQ's timers that have left files in a store."""

    snapshots: tuple[str, ...]
    """Names of snapshots of the wheel, the oldest first."""
    has_timeline: bool
    """RocksDB timers were on at some time."""
    is_5_4: bool
    """RocketMQ 5.4 or a later one has opened it."""

    @classmethod
    def of(cls, disk: Disk, root: str) -> TimerEngines:
        """The engines that the files under ``root`` tell of.

        Raises:
            OSError: One cannot be read.
        """
        database = f"{root}/{TIMELINE_DIRECTORY}"
        return cls(
            snapshots=tuple(snapshot_names(disk, root)),
            has_timeline=holds_family(disk, database, TIMER_FAMILY),
            is_5_4=has_database(disk, database),
        )

    def names(self) -> str:
        """Names of the engines, for people."""
        wheel = "wheel with snapshots" if self.snapshots else "wheel"
        return f"{wheel}, RocksDB timers" if self.has_timeline else wheel
