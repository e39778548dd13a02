"""The rows that a rule refused: a file that only grows, each row behind its size (4 bytes).

A row is a CBOR array of part, row, rule and remark. How many bytes count says the job's progress;
rows behind them were not durable, and are decided again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import cbor2

from timermq.remoting.bulk import RefusedRow
from timermq.remoting.cbor import CborError, decode_cbor
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.disk import Disk

from ..refusal import RefusedError

REMARK_SIZE_MAX = 300
"""Characters of a remark that are kept."""
PAGE_SIZE_MAX = 1 << 20
"""Bytes of rows in one page."""
_SIZE = 4


class RefusedRows:
    """The file of one job.

    Args:
        disk: Its disk.
        path: Its path.
        size: Bytes of it that count.
    """

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self.size = size
        self._disk = disk
        self._path = path

    def append(self, rows: Sequence[RefusedRow]) -> None:
        """Write rows behind the others.

        Raises:
            OSError: The disk did not take them; the file is as before.
        """
        pieces: list[bytes] = []
        for part, row, rule, remark in rows:
            item = cbor2.dumps([part, row, rule, remark[:REMARK_SIZE_MAX]])
            pieces += len(item).to_bytes(_SIZE, "little"), item
        data = b"".join(pieces)
        file = self._disk.open(self._path, create=True)
        try:
            file.truncate(self.size)
            file.write(self.size, data)
        finally:
            file.close()
        self.size += len(data)

    async def sync(self) -> None:
        """Make them durable; OSError if the disk failed."""
        if not self.size:
            return
        file = self._disk.open(self._path)
        try:
            await self._disk.sync(file)
        finally:
            file.close()
        await self._disk.sync_dir(self._path.rpartition("/")[0])

    def page(self, after: int, limit: int) -> tuple[list[RefusedRow], int | None]:
        """Some rows, and where the next page begins.

        Args:
            after: Where the page begins: 0, or what the page before gave.
            limit: Rows of it.

        Raises:
            RefusedError: No row begins there (29).
        """
        until = self.size
        if not limit or after >= until:
            return [], (after if after < until else None)
        file = self._disk.open(self._path, read_only=True)
        try:
            data = file.read(after, min(until - after, PAGE_SIZE_MAX))
        finally:
            file.close()
        rows: list[RefusedRow] = []
        at = 0
        while len(rows) < limit and at + _SIZE <= len(data):
            size = int.from_bytes(data[at : at + _SIZE], "little")
            if at + _SIZE + size > len(data):
                break
            rows.append(_row(data[at + _SIZE : at + _SIZE + size]))
            at += _SIZE + size
        if not rows:
            raise _no_row()
        return rows, (after + at if after + at < until else None)


def _row(data: bytes) -> RefusedRow:
    try:
        item = decode_cbor(data, size_max=PAGE_SIZE_MAX, depth_max=1)
    except CborError:
        raise _no_row() from None
    match cast("list[object]", item) if isinstance(item, list) else None:
        case [str() as part, int() as row, str() as rule, str() as remark]:
            return part, row, rule, remark
        case _:
            raise _no_row()


def _no_row() -> RefusedError:
    return RefusedError(
        ResponseCode.INVALID_PARAMETER,
        "BULK_BODY",
        "after: expected 0 or the next of the page before, found a place where no row begins",
    )
