"""A mapped file: one segment of a log, open.

Source: Java ``MappedFile``.
"""

from __future__ import annotations

import attrs

from .disk import File


@attrs.define(eq=False)
class MappedFile:
    """One segment of a log, open."""

    start: int
    """Position of its first byte in the log."""
    file: File
    size: int
    is_reserved: bool = True
    """Nothing is known to be missing of its blocks: it is sparse on purpose, or they were taken in
    this process."""

    @property
    def end(self) -> int:
        """Position behind its last byte."""
        return self.start + self.size
