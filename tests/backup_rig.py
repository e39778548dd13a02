"""A small store and the backup of it, both in memory; and a target that ends or refuses in time."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from fakes import ManualClock
from small_store import ROOT, open_store, read_bodies, small_options
from timermq.backup.backup_objects import BackupObjects
from timermq.backup.directory_target import DirectoryTarget
from timermq.backup.restore import Restore
from timermq.backup.shipper import Shipped, Shipper
from timermq.backup.target import Target, TargetError
from timermq.simulator.disks.memory_disk import MemoryDisk

PIECE_SIZE = 600
"""Bytes of a piece in tests: two or three records."""
PLACE = "/backup"


class KilledError(Exception):
    """The process of the shipper was killed."""


@attrs.define(eq=False)
class TroubledTarget:
    """A target in which an operation that is counted down to ends the process, or is refused."""

    target: Target
    left: int = -1
    """Operations until the trouble; negative: none comes."""
    is_done_before: bool = False
    """The operation is carried out all the same."""
    error: Callable[[], Exception] = KilledError
    names_changed: list[str] = attrs.field(factory=list[str])
    on_put: Callable[[str], None] = lambda _: None
    """Told the name of each object that is about to be put."""

    @property
    def place(self) -> str:
        """As the target below it."""
        return self.target.place

    async def names(self) -> list[str]:
        """The names of all objects."""
        self._count()
        return await self.target.names()

    async def get(self, name: str) -> bytes | None:
        """The bytes of an object."""
        self._count()
        return await self.target.get(name)

    async def put(self, name: str, data: bytes) -> None:
        """Store an object; the trouble may come behind it."""
        self.names_changed.append(name)
        self.on_put(name)
        if self.left == 0 and self.is_done_before:
            await self.target.put(name, data)
        self._count()
        await self.target.put(name, data)

    async def delete(self, name: str) -> None:
        """Remove an object; the trouble may come behind it."""
        self.names_changed.append(name)
        if self.left == 0 and self.is_done_before:
            await self.target.delete(name)
        self._count()
        await self.target.delete(name)

    def _count(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise self.error()


def refusal() -> TargetError:
    """The error of a target that has no room."""
    return TargetError("/backup: expected room, found none")


@attrs.define(eq=False)
class BackupRig:
    """One store, its backup, and shippers one after the other."""

    clock: ManualClock = attrs.field(factory=ManualClock)
    disk: MemoryDisk = attrs.field(init=False)
    target_disk: MemoryDisk = attrs.field(factory=MemoryDisk)
    target: TroubledTarget = attrs.field(init=False)
    keep_ms: int = 0
    is_served: bool = True

    def __attrs_post_init__(self) -> None:
        self.disk = MemoryDisk(now_ms=self.clock.now_ms)
        self.target = TroubledTarget(DirectoryTarget(self.target_disk, PLACE))

    def shipper(self) -> Shipper:
        """A shipper that knows nothing yet."""
        return Shipper(
            disk=self.disk,
            root=ROOT,
            target=self.target,
            now_ms=self.clock.now_ms,
            keep_ms=self.keep_ms,
            is_served=lambda: self.is_served,
            queue_file_size=small_options().mapped_file_size_consume_queue,
            piece_size=PIECE_SIZE,
        )

    async def ship(self) -> Shipped:
        """One round of a new shipper."""
        return await self.shipper().round()

    async def restored(self) -> MemoryDisk:
        """A disk with the store that the backup makes."""
        disk = MemoryDisk(now_ms=self.clock.now_ms)
        objects = await BackupObjects.load(self.target.target)
        await Restore(objects=objects, disk=disk, root=ROOT).run()
        return disk

    async def restored_bodies(self) -> list[str]:
        """Bodies of the queue of a store that the backup makes, once it has been opened."""
        store = open_store(await self.restored(), self.clock)
        bodies = read_bodies(store)
        await store.aclose()
        return bodies

    async def garbage(self) -> set[str]:
        """Objects that the manifest does not name."""
        objects = await BackupObjects.load(self.target.target)
        manifest = objects.manifest
        named = set(manifest.objects())
        for segment in objects.segments():
            named |= {one.name for one in await objects.pieces_of(segment)}
        return set(await self.target.target.names()) - named
