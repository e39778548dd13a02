"""The batch of an archive: a stretch of the commit log, and the files with its messages."""

from __future__ import annotations

import msgspec


class ArchivedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of a batch."""

    path: str
    """Under the archive."""
    rows: int = 0
    size: int = 0
    """Bytes; 0 in entries of version 0.1.0, which tell neither."""
    staged: str = ""
    """In entries of version 0.1.0: its place under ``DIR.staging`` before it was moved."""


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entry of a batch."""

    number: int
    low: int
    """Start of the stretch, a position in the commit log."""
    high: int
    """Its end, and the start of the next one."""
    rows: int
    files: list[ArchivedFile]
    run: str = ""
    """That has written it; none in entries of version 0.1.0."""
