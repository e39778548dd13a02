"""The tables of a store: the files of ``config/`` that a restored store needs.

Not shipped are files that a start makes again from the log (``timercheck``), checksums of files
(``.sum``), and second copies. Tables with positions in the log or in queues are read before the
log, so that they never tell of more than the log of the backup has. Topics and groups are read
after it, so that each message of the backup has its topic.
"""

from __future__ import annotations

import attrs

from timermq.timerstore.config_file import read_bytes
from timermq.timerstore.disk import Disk

DIRECTORY = "config"
SECOND = ".bak"
"""End of the name of the file as it was before. It is read while a save has moved the first one."""
LEFT_OUT = (SECOND, ".sum", ".tmp", ".damaged", "timercheck", "timermetrics", "timermq-scrub")
"""Ends of the names of files that are not shipped."""
WITHOUT_POSITIONS = ("topics.json", "subscriptionGroup.json")


@attrs.define(eq=False)
class Tables:
    """The tables of one store.

    Args:
        disk: The disk of the store.
        root: Its directory.
    """

    disk: Disk
    root: str
    _seen: dict[str, bytes] = attrs.field(factory=dict[str, bytes], init=False)
    """Path below ``config/`` to the bytes at the last look."""

    def read(self, *, with_positions: bool) -> dict[str, bytes]:
        """The tables by their paths below ``config/``; of a damaged one what was read before.

        Args:
            with_positions: Those that are read before the log, or the others.

        Raises:
            OSError: The disk failed.
        """
        found: dict[str, bytes] = {}
        for path in sorted(set(self._paths(""))):
            if (path in WITHOUT_POSITIONS) is with_positions:
                continue
            data = self._table(path)
            if data is not None:
                found[path] = self._seen[path] = data
        return found

    def _table(self, path: str) -> bytes | None:
        for name in (path, path + SECOND):
            data = read_bytes(self.disk, f"{self.root}/{DIRECTORY}/{name}")
            if data is not None and _is_whole(path, data):
                return data
        return self._seen.get(path)

    def _paths(self, under: str) -> list[str]:
        found: list[str] = []
        for name in self.disk.list_dir(f"{self.root}/{DIRECTORY}/{under}".rstrip("/")):
            path = under + name
            if self.disk.is_dir(f"{self.root}/{DIRECTORY}/{path}"):
                found += self._paths(f"{path}/")
            elif not path.removesuffix(SECOND).endswith(LEFT_OUT):
                found.append(path.removesuffix(SECOND))
        return found


def _is_whole(path: str, data: bytes) -> bool:
    """Whether a table has its end, which a power cut may have taken."""
    return data.rstrip().endswith(b"}") if path.endswith(".json") else bool(data)
