"""Damage at rest: what a disk does to files that are not written.

| kind | what happens |
|---|---|
| flip | one bit is another |
| zero | a sector reads as zeros |
| stale | a sector holds what it held earlier: a write that never came there |
| strayed | a sector holds what belongs to another place: a write that came to the wrong one |

For tests and simulation, on any disk: the store must not be open.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from random import Random

import attrs

from timermq.timerstore.disk import Disk
from timermq.timerstore.file_family import FileFamily, family_of

from .memory_node import SECTOR_SIZE

Image = Mapping[str, bytes]
"""Every file of a store, by path."""


class DamageKind(enum.Enum):
    """The kinds of damage to a file."""

    FLIP = "flip"
    ZERO = "zero"
    STALE = "stale"
    STRAYED = "strayed"


@attrs.frozen
class Damage:
    """One damage: bytes of a file and what they are now."""

    kind: DamageKind
    family: FileFamily
    path: str
    offset: int
    before: bytes
    after: bytes

    def do(self, disk: Disk) -> None:
        """Put the damaged bytes into the file, durably."""
        _write(disk, self.path, self.offset, self.after)

    def undo(self, disk: Disk) -> None:
        """Put the bytes back, if they were not written since."""
        _write(disk, self.path, self.offset, self.before)


def read_image(disk: Disk, root: str) -> dict[str, bytes]:
    """All files below a directory."""
    image: dict[str, bytes] = {}
    for name in disk.list_dir(root):
        path = f"{root}/{name}"
        if disk.is_dir(path):
            image |= read_image(disk, path)
        else:
            file = disk.open(path, read_only=True)
            image[path] = file.read(0, file.size())
            file.close()
    return image


def write_image(disk: Disk, image: Image) -> None:
    """Create the files with their directories, all of it durable."""
    for path, content in image.items():
        directory = path.rpartition("/")[0]
        changed = disk.make_dirs(directory)
        file = disk.open(path, create=True)
        file.truncate(len(content))
        file.write(0, content)
        disk.sync_now(file)
        file.close()
        for one in (*changed, directory):
            disk.sync_dir_now(one)


def draw_damage(
    draw: Random,
    image: Image,
    root: str,
    *,
    families: Collection[FileFamily] = frozenset(FileFamily),
    kinds: Collection[DamageKind] = frozenset(DamageKind),
    earlier: Image | None = None,
) -> Damage | None:
    """Draw a damage that changes something.

    Args:
        draw: Decides; sectors that hold something are favoured, since stores are mostly empty.
        image: The store's files.
        root: Its directory.
        families: Which files may be damaged.
        kinds: Which damage.
        earlier: The files as they were before, where stale sectors come from; all zero without.

    Returns:
        None when the files hold nothing to damage.
    """
    families, kinds = frozenset(families), frozenset(kinds)
    paths = sorted(path for path in image if image[path] and family_of(root, path) in families)
    if not paths:
        return None
    for _ in range(DRAWS_MAX):
        path = draw.choice(paths)
        kind = draw.choice([kind for kind in DamageKind if kind in kinds])
        content = image[path]
        offset = draw.randrange(0, len(content), SECTOR_SIZE)
        before = content[offset : offset + SECTOR_SIZE]
        if not any(before) and draw.random() < 0.9:
            continue
        after = _damaged(draw, kind, before, content, (earlier or {}).get(path, b""), offset)
        if after != before:
            return Damage(kind, family_of(root, path), path, offset, before, after)
    return None


DRAWS_MAX = 1000
"""Tries to find bytes that a damage would change."""


def _damaged(
    draw: Random, kind: DamageKind, before: bytes, content: bytes, earlier: bytes, offset: int
) -> bytes:
    match kind:
        case DamageKind.FLIP:
            held = [at for at, byte in enumerate(before) if byte] or [0]
            at = draw.choice(held) if draw.random() < 0.5 else draw.randrange(len(before))
            return before[:at] + bytes([before[at] ^ 1 << draw.randrange(8)]) + before[at + 1 :]
        case DamageKind.ZERO:
            return bytes(len(before))
        case DamageKind.STALE:
            return earlier[offset : offset + len(before)].ljust(len(before), b"\0")
        case DamageKind.STRAYED:
            other = draw.randrange(0, len(content), SECTOR_SIZE)
            return content[other : other + len(before)].ljust(len(before), b"\0")


def _write(disk: Disk, path: str, offset: int, data: bytes) -> None:
    file = disk.open(path)
    file.write(offset, data)
    disk.sync_now(file)
    file.close()
