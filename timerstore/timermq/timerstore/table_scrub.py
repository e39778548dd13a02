"""The tables under ``config/``, compared with the checksums beside them (``config_seal``).

A bit that has flipped is turned back. What differs otherwise is written again by its owner, who has
it in memory; so is what he is about to replace, which is passed over. Tables that others have
edited are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from .config_file import read_bytes
from .config_seal import UnsealedBitError, backup_bytes, sealed_bytes
from .disk import Disk
from .errors import StoreFormatError
from .seal_scrub import Scrubbed

WriteAgain = Callable[[str, StoreFormatError], bool]
"""Has the table at a path, of which an error tells, written again from memory; False from one that
does not own it."""

log = structlog.get_logger("timermq.timerstore.table_scrub")


class TableScrub:
    """The tables of one store; the position is the number of a table.

    Args:
        disk: The disk of the store.
        root: Its directory.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._owners: list[WriteAgain] = []
        self._disk = disk
        self._directory = f"{root}/config"
        self._paths: list[str] = []

    def add_owner(self, write_again: WriteAgain) -> None:
        """Ask this one too when a table has changed by itself."""
        self._owners.append(write_again)

    @property
    def start(self) -> int:
        """The number of the first one."""
        return 0

    @property
    def end(self) -> int:
        """Number of tables: the position behind the last one."""
        return len(self._paths)

    def begin(self) -> None:
        """A pass begins: look which tables there are."""
        names = self._disk.list_dir(self._directory)
        sums = [name for name in names if name.endswith(".sum")]
        self._paths = [f"{self._directory}/{name.removesuffix('.sum')}" for name in sums]

    def step(self, at: int, end: int) -> Scrubbed:
        """Look at one table and its ``.bak``.

        Args:
            at: Its number.
            end: How many there are.

        Raises:
            OSError: The disk failed, or no file can be opened now.
        """
        if at >= min(end, len(self._paths)):
            return Scrubbed(at=end)
        path = self._paths[at]
        if self._disk.exists(f"{path}.tmp"):
            return Scrubbed(at=at + 1)  # a save is under way
        before = read_bytes(self._disk, path) or b""
        damaged = repaired = 0
        try:
            repaired = int((sealed_bytes(self._disk, path) or b"") != before)
            damaged = repaired
        except StoreFormatError as error:
            damaged, repaired = 1, int(any(one(path, error) for one in self._owners))
            log.error("damaged table", path=path, error=str(error), is_written_again=bool(repaired))
        except UnsealedBitError as error:
            damaged = 1
            log.error("damaged table, or an edited one", path=path, error=str(error))
        if damaged == repaired:
            damaged += self._is_backup_damaged(path)
        return Scrubbed(at=at + 1, size=len(before), damaged=damaged, repaired=repaired)

    def announce(self, at: int, end: int) -> None:
        """Nothing is announced: tables are small."""

    def _is_backup_damaged(self, path: str) -> bool:
        try:
            backup_bytes(self._disk, path)
        except StoreFormatError as error:
            log.warning("damaged .bak, replaced by the next save", path=path, error=str(error))
            return True
        return False
