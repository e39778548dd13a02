"""Queues that one consumer of a group has to itself: ``config/queueLocks.json``.

A lock is a lease: it belongs to a group, a queue and a client, and lasts 60 seconds from its last
renewal, or as the operator says. Clients renew every 20, and stop consuming a queue whose lease
they could not renew for 30. That gap is why a client that goes without unlocking (a kill, a lost
connection) keeps its leases until they expire: it may be alive and at work, and its successor must
not be. A broker that is started again grants its leases for as long again, where RocketMQ forgets
them: the client that reconnects first would get the queues of all others, which are still at work.

Source: Java ``RebalanceLockManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import cast

import attrs
import msgspec
import structlog

from timermq.remoting.codes import ResponseCode
from timermq.remoting.lock_body import MessageQueue

from ..config_fields import read_struct
from ..refusal import RefusedError

LOCK_SECONDS = 60.0
"""How long a lock lasts that is not renewed, unless the operator says otherwise."""

log = structlog.get_logger("timermq.broker.consuming.queue_lock")


class _LockFile(msgspec.Struct, kw_only=True, rename="camel"):
    """The content of the file. Its form is ours; Java passes over the file."""

    lock_table: dict[str, dict[str, list[MessageQueue]]]
    """Group to client to queues."""


@attrs.define
class _Lock:
    client_id: str
    expires_at: float
    """trio's time at which the lease ends."""


class QueueLockTable:
    """The locks of all groups.

    Args:
        current_time: trio's clock: a step of the wall clock must not take a lock away.
        locks_max: Locks held at a time, expired ones that were not asked for since included.
        live_seconds: How long a lock lasts that is not renewed.
    """

    path = "config/queueLocks.json"
    without_it: str | None = None

    def __init__(
        self,
        *,
        current_time: Callable[[], float],
        locks_max: int,
        live_seconds: float = LOCK_SECONDS,
    ) -> None:
        self.changes = 0
        self._on_change: list[Callable[[], None]] = []
        self._current_time = current_time
        self._locks_max = locks_max
        self._live_seconds = live_seconds
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Number of locks, expired ones included until they are swept."""
        return self._count

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called at each change, inside of what changes; it must be short."""
        self._on_change.append(listener)

    def load(self, data: object) -> None:
        """Take a file over: its locks last as if they had been renewed now.

        Raises:
            ConfigTableError: It is something else than locks.
        """
        file = read_struct(self.path, data, _LockFile)
        expires_at = self._current_time() + self._live_seconds
        for group, clients in file.lock_table.items():
            locks = self._groups.setdefault(group, {})
            for client_id, queues in clients.items():
                locks.update({queue: _Lock(client_id, expires_at) for queue in queues})
        self._count = sum(map(len, self._groups.values()))

    def to_json(self) -> dict[str, object]:
        """The content of the file, for JSON."""
        now = self._current_time()
        table: dict[str, dict[str, list[MessageQueue]]] = {}
        for group, locks in self._groups.items():
            for queue, lock in locks.items():
                if lock.expires_at > now:
                    clients = table.setdefault(group, {})
                    clients.setdefault(lock.client_id, []).append(queue)
        return cast("dict[str, object]", msgspec.to_builtins(_LockFile(lock_table=table)))

    def lock(
        self, group: str, queues: Collection[MessageQueue], client_id: str
    ) -> list[MessageQueue]:
        """Take the queues for a client, or renew its locks.

        Returns:
            Those that the client holds now; the others are held by another one.

        Raises:
            RefusedError: The table has no room for so many (2); nothing has changed.
        """
        if not queues:
            return []
        now = self._current_time()
        before = self._groups.get(group, {})
        self._make_room(sum(queue not in before for queue in queues), now)
        locks = self._groups.setdefault(group, {})
        changes = self.changes
        held = [queue for queue in queues if self._lock_one(locks, queue, client_id, now)]
        if self.changes > changes:
            for listener in self._on_change:
                listener()
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give back those of the queues that the client holds."""
        locks = self._groups.get(group, {})
        held = [
            queue
            for queue in dict.fromkeys(queues)
            if (lock := locks.get(queue)) is not None and lock.client_id == client_id
        ]
        for queue in held:
            del locks[queue]
        if not locks:
            self._groups.pop(group, None)
        if held:
            self._count -= len(held)
            self.changes += 1
            for listener in self._on_change:
                listener()

    def is_orderly(self, group: str) -> bool:
        """Whether some member of the group holds a lock now."""
        now = self._current_time()
        return any(lock.expires_at > now for lock in self._groups.get(group, {}).values())

    def _lock_one(
        self, locks: dict[MessageQueue, _Lock], queue: MessageQueue, client_id: str, now: float
    ) -> bool:
        lock = locks.get(queue)
        if lock is None:
            lock = locks[queue] = _Lock(client_id, now)
            self._count += 1
            self.changes += 1
        elif lock.client_id != client_id:
            if lock.expires_at > now:
                return False
            log.info(
                "lock taken over",
                topic=queue.topic,
                queue_id=queue.queue_id,
                before=lock.client_id,
                now=client_id,
            )
            lock.client_id = client_id
            self.changes += 1
        lock.expires_at = now + self._live_seconds
        return True

    def _make_room(self, count: int, now: float) -> None:
        """Forget expired locks when there is no room for ``count`` more, and refuse without any."""
        if self._count + count <= self._locks_max:
            return
        for group, locks in list(self._groups.items()):
            held = {queue: lock for queue, lock in locks.items() if lock.expires_at > now}
            self._count -= len(locks) - len(held)
            if held:
                self._groups[group] = held
            else:
                del self._groups[group]
        if self._count + count > self._locks_max:
            raise RefusedError(
                ResponseCode.SYSTEM_BUSY,
                "QUEUE_LOCKS_MAX",
                f"[OVERLOAD] {self._count} queues are locked, no room for {count} more",
            )
