"""How far the log reached when its last process ended, as seals and notes tell it.

====================  ==========================================================================
the last process      what stood in the log for certain
====================  ==========================================================================
was killed            all of it, but what of the last write was under way: the kernel keeps what
                      is written. How far that reaches the seals say
met a power cut       what the start of that process made durable (``BootNote``)
stopped               all of it, as far as it is sealed
====================  ==========================================================================

A start and a check of the store both ask here, so that a check names what a start would find.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from .boot_note import BootNote
from .disk import Disk
from .seal_page import SECTOR_SIZE
from .seal_reader import SealReader


@attrs.frozen(kw_only=True)
class LogReach:
    """The known facts about a log's end; -1 stands for a position that is not known."""

    sealed_to: int = -1
    """Up to where the log is sealed."""
    known_to: int = -1
    """Records before it were there for certain."""
    compared_to: int = -1
    """Before it, what is unlike its seal is damaged."""
    was_killed: bool = False
    """The last process was, and the power was not cut."""

    @classmethod
    def of(
        cls,
        disk: Disk,
        root: str,
        segment_starts: Sequence[int],
        segment_size: int,
        *,
        first: int,
        is_ours: bool,
        last_exit_ok: bool,
    ) -> LogReach:
        """The known facts about a store's commit log.

        Args:
            disk: The disk of the store.
            root: Its directory.
            segment_starts: Starts of its segments, ascending.
            segment_size: Bytes of each of them.
            first: Position of a record; seals of stretches before it are not read.
            is_ours: This program wrote the checkpoint last. If another one did, nothing that ours
                noted is certain.
            last_exit_ok: The last process closed the store.

        Raises:
            OSError: The disk failed.
        """
        if not is_ours or not segment_starts:
            return cls()
        ends = _sealed_ends(disk, f"{root}/commitlog", segment_starts, segment_size, first)
        sealed_to = max(ends, default=-1)
        if last_exit_ok:
            # Log and seals were synced: no power cut has taken any of it.
            return cls(sealed_to=sealed_to, known_to=sealed_to, compared_to=sealed_to)
        note = BootNote.read(disk, root)
        was_killed = note.is_of_this_boot(disk, root)
        known_to = max(sealed_to if was_killed else -1, note.log_end)
        known_to = min(known_to, segment_starts[-1] + segment_size)
        return cls(
            sealed_to=sealed_to,
            known_to=known_to,
            # A power cut may have kept seals of bytes that it took: of the last sector they tell
            # less.
            compared_to=known_to - (0 if was_killed else SECTOR_SIZE),
            was_killed=was_killed,
        )


def _sealed_ends(
    disk: Disk, directory: str, segment_starts: Sequence[int], segment_size: int, first: int
) -> Iterator[int]:
    seals = SealReader(disk, directory)
    for start in segment_starts:
        if start + segment_size > first:
            end = seals.sealed_end(start, max(first, start))
            if end is not None:
                yield end
