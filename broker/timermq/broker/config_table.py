"""The form of the tables under ``config/``, and the task that saves them.

A table counts its changes; the saver compares and writes tables that are behind. A change of
topics or groups is saved at once, consumer offsets at an interval: they change with every pull.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs
import structlog
import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.config_file import DataVersion, backup_path, fastjson_pieces, parse_table
from timermq.timerstore.config_seal import (
    backup_bytes,
    keep_second_sealed,
    save_sealed,
    sealed_bytes,
)
from timermq.timerstore.disk import Disk, is_for_a_while
from timermq.timerstore.errors import StoreFormatError

from .config_fields import ConfigFields, ConfigTableError
from .refusal import RefusedError

REST_RATIO = 9
"""Time to rest after a save, by the time that it took."""
PIECES_MAX = 64
"""Pieces of a table that are printed between two looks at other tasks: some tenths of a
millisecond, where tens of thousands of topics take that many of a second."""

log = structlog.get_logger("timermq.broker.config_table")


class ConfigTable(Protocol):
    """A table with a file of its own."""

    path: str
    """Relative to the store: ``config/topics.json``."""
    changes: int
    """Grows with every change."""
    without_it: str | None
    """The loss in a start without the file, for the operator who decides about it; None where it
    means nothing, so that a damaged one does not keep the broker from starting."""

    def load(self, data: object) -> None:
        """Take the parsed file's contents over; raises ``ConfigTableError``, and is as before."""
        ...

    def to_json(self) -> Mapping[str, object]:
        """The content of the file; it does not follow later changes of the table."""
        ...


class VersionedTable:
    """The part of a table that counts its changes, also for name servers, by its data version.

    Args:
        now_ms: The wall clock, for the data version.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.changes: int = 0
        self.data_version = DataVersion(counter=0, state_version=0, timestamp=now_ms())
        self._now_ms = now_ms
        self._on_change: list[Callable[[], None]] = []
        self._rest: dict[str, object] = {}
        """Fields of the file that are kept as they were."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called at each change, inside of what changes; it must be short."""
        self._on_change.append(listener)

    def reign(self, state_version: int) -> None:
        """Count a change by a new reign: name servers keep the table of the highest one."""
        self.data_version = attrs.evolve(self.data_version, state_version=state_version)
        self._count_change()

    def _count_change(self) -> None:
        self._count_version()
        self._tell_change()

    def _count_version(self) -> None:
        counter = self.data_version.counter + 1
        self.data_version = attrs.evolve(
            self.data_version, counter=counter, timestamp=self._now_ms()
        )

    def _tell_change(self) -> None:
        self.changes += 1
        for listener in self._on_change:
            listener()


class Entry(Protocol):
    """The entry of a name; it does not change."""

    def to_json(self) -> dict[str, object]:
        """As it is in the file."""
        ...


class Entries(Mapping[str, object]):
    """The entries of a table as they are now, each made for the file when it is asked for."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> object:
        """The entry of a name."""
        return self._entries[name].to_json()

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the table."""
        return iter(self._entries)

    def __len__(self) -> int:
        """The number of entries it holds."""
        return len(self._entries)

    def __repr__(self) -> str:
        """As the file will say."""
        return repr(dict(self))


def read_version(fields: ConfigFields) -> DataVersion:
    """Take the data version of a file; a missing one starts from nothing."""
    version = fields.fields("dataVersion")
    return DataVersion(
        counter=version.integer("counter", 0),
        state_version=version.integer("stateVersion", 0),
        timestamp=version.integer("timestamp", 0),
    )


def version_json(version: DataVersion) -> dict[str, object]:
    """A data version as JSON of the file."""
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

        A file that is missing, damaged or says something else is read from its ``.bak``. It is
        renamed to ``NAME.damaged`` then: the next save makes a ``.bak`` of the file in its place.

        Raises:
            StoreFormatError: A file is damaged, and so is its ``.bak``, or there is none.
            ConfigTableError: Or holds something else than this table.
            UnsealedBitError: A bit of a file has changed, perhaps on purpose.
        """
        for table in (*self._prompt, *self._periodic):
            self._load(table, f"{self._root}/{table.path}")

    def _load(self, table: ConfigTable, path: str) -> None:
        failure: StoreFormatError | ConfigTableError | None = None
        for name, read in ((path, sealed_bytes), (backup_path(path), backup_bytes)):
            try:
                data = read(self._disk, path)
                if data is None:
                    continue
                _take(table, name, data)
            except (StoreFormatError, ConfigTableError) as error:
                failure = failure or error
                continue
            if name == path:
                self._saved[table.path] = table.changes
                # From the first start on one damage does not keep the next one from it.
                keep_second_sealed(self._disk, path)
            else:
                self._rename(path, failure)
            return
        if failure is not None:
            if table.without_it is not None:
                remedy = f"put it right, or move it, its .bak and .sum away: {table.without_it}"
                log.error("a table is damaged, and its .bak", path=path, remedy=remedy)
                raise failure
            self._rename(path, failure)

    def _rename(self, path: str, failure: StoreFormatError | ConfigTableError | None) -> None:
        """Rename a file that is not used, if it is there; its seal is not that of the next one."""
        if failure is not None:
            log.error("a damaged table is renamed", path=path, error=str(failure))
        if self._disk.exists(path):
            self._disk.rename(path, f"{path}.damaged")
        self._disk.remove(f"{path}.sum")

    def write_again(self, path: str, failure: StoreFormatError) -> bool:
        """Have a file that has changed by itself written again, from its table in memory.

        Args:
            path: Of the file; it is renamed to ``NAME.damaged`` at once.
            failure: The damage.

        Returns:
            Whether it is the file of one of the tables.
        """
        for table in (*self._prompt, *self._periodic):
            if path == f"{self._root}/{table.path}":
                self._rename(path, failure)
                self._saved.pop(table.path, None)
                self._changed.set()
                return True
        return False

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
                    await save_sealed(self._disk, path, await _printed(table))
                except OSError as error:
                    if not is_for_a_while(error):
                        raise
                    log.warning("no room for a table, saved later", path=path, error=str(error))
                    continue
                self._saved[table.path] = changes


async def _printed(table: ConfigTable) -> str:
    """The text of a table as it is now; others go on while it is printed."""
    pieces: list[str] = []
    for piece in fastjson_pieces(table.to_json()):
        pieces.append(piece)
        if len(pieces) % PIECES_MAX == 0:
            await trio.lowlevel.checkpoint()
    return "".join(pieces)


def _take(table: ConfigTable, path: str, data: bytes) -> None:
    """Fill a table from the bytes of a file."""
    found = parse_table(path, data)
    if found is None:
        raise StoreFormatError(path, 0, "a table", f"{len(data)} bytes that say nothing")
    table.load(found)
