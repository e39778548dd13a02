"""A disk of a few megabytes that can be filled and freed: a tmpfs, where the user may mount one."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import attrs

SIZE_MIB = 96
_FILLER = "filler"


@attrs.frozen
class SmallDisk:
    """A mounted one."""

    root: Path

    @property
    def is_filled(self) -> bool:
        """Whether somebody took what was free."""
        return (self.root / _FILLER).exists()

    def fill(self) -> None:
        """Take every block that is free."""
        with (self.root / _FILLER).open("ab") as filler, contextlib.suppress(OSError):
            free = os.statvfs(self.root)
            size = filler.tell() + free.f_bavail * free.f_bsize
            os.posix_fallocate(filler.fileno(), 0, size)

    def free(self) -> None:
        """Give them back."""
        (self.root / _FILLER).unlink(missing_ok=True)


def reason_against() -> str | None:
    """Why there can be none here."""
    if os.geteuid() != 0:
        return "mounting a small disk needs root"
    return None


@contextlib.contextmanager
def small_disk(root: Path) -> Generator[SmallDisk]:
    """A small disk at ``root`` for the length of a block.

    Raises:
        OSError: It cannot be mounted.
    """
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "timermq-soak", str(root)]
    if subprocess.run(mount, check=False).returncode:
        raise OSError(f"{root}: a tmpfs of {SIZE_MIB} MiB cannot be mounted here")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", str(root)], check=True)
