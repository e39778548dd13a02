"""What the tables under ``config/`` have in common, and the task that saves them.

A table counts its changes; the saver compares and writes what is behind. A change of topics or
groups is saved at once, consumer offsets at an interval: they change with every pull.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog
import trio

from timermq.pipeline.signal import Signal
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.config_file import DataVersion, fastjson, load_json, save_json
from timermq.timerstore.disk import Disk, is_for_a_while

from .config_fields import ConfigFields
from .refusal import RefusedError

REST_RATIO = 9
"""Time to rest after a save, by the time that it took."""

log = structlog.get_logger("timermq.broker.config_table")


class ConfigTable(Protocol):
    """A table with a file of its own."""

    path: str
    """Relative to the store: ``config/topics.json``."""
    changes: int
    """Grows with every change."""

    def load(self, data: object) -> None:
        """Take the parsed file's contents over; raises ``ConfigTableError``."""
        ...

    def to_json(self) -> object:
        """What the file is to hold now."""
        ...


def read_version(fields: ConfigFields) -> DataVersion:
    """Take the data version of a file; a missing one starts from nothing."""
    version = fields.fields("dataVersion")
    return DataVersion(
        counter=version.integer("counter", 0),
        state_version=version.integer("stateVersion", 0),
        timestamp=version.integer("timestamp", 0),
    )


def version_json(version: DataVersion) -> dict[str, object]:
    """A data version as it stands in the file."""
    return {
        "counter": version.counter,
        "stateVersion": version.state_version,
        "timestamp": version.timestamp,
    }


def in_order(rest: Mapping[str, object], **fields: object) -> dict[str, object]:
    """An object of a file, keys in the alphabetical order in which Java writes them.

    Args:
        rest: Fields kept as they were.
        fields: The others, by the names that the file has.
    """
    return dict(sorted({**rest, **fields}.items()))


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    """The version after a change."""
    return DataVersion(
        counter=version.counter + 1, state_version=version.state_version, timestamp=now_ms
    )


class ConfigSaver:
    """Reads the tables at start and writes them when they have changed.

    Args:
        disk: The store's disk.
        root: The store's directory.
        prompt: Tables that are saved as soon as they change.
        periodic: Tables that are saved at the interval.
        interval_ms: Time between two saves of the periodic ones.
    """

    def __init__(
        self,
        disk: Disk,
        root: str,
        *,
        prompt: Sequence[ConfigTable],
        periodic: Sequence[ConfigTable],
        interval_ms: int,
    ) -> None:
        self._disk = disk
        self._root = root
        self._prompt = prompt
        self._periodic = periodic
        self._interval = interval_ms / 1000
        self._changed = Signal()
        self._saved: dict[str, int] = {}
        self._waiting: list[trio.Event] = []

    @property
    def changed(self) -> Callable[[], None]:
        """To be called when one of the prompt tables has changed."""
        return self._changed.set

    def load(self) -> None:
        """Fill the tables from their files; a missing file leaves its table as it is.

        Raises:
            ConfigTableError: A file holds something else than this table.
        """
        for table in (*self._prompt, *self._periodic):
            data = load_json(self._disk, f"{self._root}/{table.path}")
            if data is not None:
                table.load(data)
                self._saved[table.path] = table.changes

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Save what changes until cancelled; ``save`` writes the rest.

        Raises:
            OSError: The disk refused, not for want of room: that is waited for.

        Cancellation: a file is the old or the new one.
        """
        task_status.started()
        saved_at = trio.current_time()
        while True:
            left = saved_at + self._interval - trio.current_time()
            changed = await self._changed.wait_at_most(max(left, 0))
            begun = trio.current_time()
            if self._waiting or begun >= saved_at + self._interval:
                waiting, self._waiting = self._waiting, []
                await self.save()
                saved_at = begun
                for one in waiting:
                    one.set()
            elif changed:
                await self._save(self._prompt)
            # A crowd changes a large table again and again: other tasks get most of the time.
            await trio.sleep((trio.current_time() - begun) * REST_RATIO)

    async def saved(self) -> None:
        """Wait until what the tables hold now is on the disk.

        Raises:
            RefusedError: The disk is full; the tables are saved as soon as there is room (14).

        Cancellation: they are saved all the same.
        """
        wanted = {table.path: table.changes for table in (*self._prompt, *self._periodic)}
        is_saved = trio.Event()
        self._waiting.append(is_saved)
        self._changed.set()
        await is_saved.wait()
        behind = [path for path, changes in wanted.items() if self._saved.get(path, -1) < changes]
        if behind:
            raise RefusedError(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "SERVICE_NOT_AVAILABLE",
                f"done, but the disk has no room for {', '.join(behind)}; it is saved later",
            )

    async def save(self) -> None:
        """Write every table that has changed since it was written.

        Raises:
            OSError: As in ``run``.
        """
        await self._save((*self._prompt, *self._periodic))

    async def _save(self, tables: Sequence[ConfigTable]) -> None:
        for table in tables:
            changes = table.changes
            if self._saved.get(table.path) != changes:
                path = f"{self._root}/{table.path}"
                try:
                    await save_json(self._disk, path, fastjson(table.to_json()))
                except OSError as error:
                    if not is_for_a_while(error):
                        raise
                    log.warning("no room for a table, saved later", path=path, error=str(error))
                    continue
                self._saved[table.path] = changes
