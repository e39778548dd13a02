"""A disk of a few megabytes that can be filled and freed, where the user may mount one.

It is ext4 on a loop device; where there is none a tmpfs, on which even reading holes takes room.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import attrs

SIZE = 96 << 20
_PIECE_MAX, _PIECE_MIN = 16 << 20, 4096
_FILLER = "filler"


@attrs.frozen
class SmallDisk:
    """A small disk that is mounted at a directory."""

    root: Path

    @property
    def is_filled(self) -> bool:
        """Whether somebody took what was free."""
        return (self.root / _FILLER).exists()

    def fill(self) -> None:
        """Take every block that is free."""
        piece = _PIECE_MAX
        with (self.root / _FILLER).open("ab") as filler:
            while piece >= _PIECE_MIN:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), piece)
                except OSError:
                    piece //= 2

    def free(self) -> None:
        """Give back the blocks that ``fill`` has taken."""
        (self.root / _FILLER).unlink(missing_ok=True)


def reason_against() -> str | None:
    """Why there can be none here."""
    return None if os.geteuid() == 0 else "mounting a small disk needs root"


@contextlib.contextmanager
def small_disk(root: Path) -> Generator[SmallDisk]:
    """A small disk at ``root`` for the length of a block.

    Raises:
        OSError: It cannot be mounted.
    """
    root.mkdir()
    image = root.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(SIZE)
    tmpfs = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "timermq-soak", str(root)]
    is_mounted = (
        _runs(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)])
        and _runs(["mount", "-o", "loop", str(image), str(root)])
    ) or _runs(tmpfs)
    if not is_mounted:
        raise OSError(f"{root}: neither a loop device nor a tmpfs can be mounted here")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", str(root)], check=True)
        image.unlink()


def _runs(command: list[str]) -> bool:
    """Whether a command is there and succeeds."""
    with contextlib.suppress(FileNotFoundError):
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    return False
