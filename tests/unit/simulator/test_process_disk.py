"""The disk as a process has it: its end at a chosen change."""

from __future__ import annotations

from collections import Counter

import pytest

from timermq.client.history import Event
from timermq.simulator.damage_at_rest import DamageAtRest
from timermq.simulator.disks.disk_damage import DamageKind
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import BLOCK_SIZE
from timermq.simulator.process_disk import BLOCKS_WRITTEN, Place, ProcessDisk
from timermq.simulator.scenario import DamageDraw
from timermq.simulator.seen_messages import SeenMessages
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import StoreOptions

ROOT = "/store"

FILES = StoreOptions(mapped_file_size_commit_log=4_096, mapped_file_size_consume_queue=400)

PATH = "/store/a"


def disk_of() -> MemoryDisk:
    """A disk with a directory."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


@pytest.mark.parametrize(
    ("place", "left"), [(Place.BEFORE, b""), (Place.MIDDLE, b"ab"), (Place.AFTER, b"abcd")]
)
def test_a_write_ends_the_process(place: Place, left: bytes) -> None:
    """Before it, with its first half, or behind it; nothing later reaches the disk."""
    memory = disk_of()
    disk = ProcessDisk(memory)
    file = disk.open(PATH, create=True)
    disk.crash_at(1, place, memory.process_kill)

    with pytest.raises(OSError, match="the process was killed"):
        file.write(0, b"abcd")
    with pytest.raises(OSError, match="the process was killed"):
        file.write(0, b"later")
    with pytest.raises(OSError, match="the process was killed"):
        disk.remove(PATH)
    with pytest.raises(OSError, match="the process was killed"):
        disk.rename(PATH, PATH + "2")

    assert left == memory.open(PATH).read(0, 100)


async def test_changes_are_counted_and_reads_are_not() -> None:
    """The end comes at the change that was chosen."""
    memory = disk_of()
    disk = ProcessDisk(memory)
    file = disk.open(PATH, create=True)
    before = disk.operations
    disk.crash_at(3, Place.BEFORE, memory.process_kill)
    file.write(0, b"ab")
    assert b"ab" == file.read(0, 2)
    await disk.sync(file)
    assert disk.operations == before + 2
    with pytest.raises(OSError, match="the process was killed"):
        disk.remove(PATH)

    assert memory.exists(PATH)


def test_rot_comes_right_before_a_change_or_not_at_all() -> None:
    """Once; a process that is over is not damaged any more."""
    memory = MemoryDisk()
    memory.make_dirs(ROOT)
    disk = ProcessDisk(memory)
    seen: list[int] = []
    disk.rot_at(2, lambda: seen.append(disk.operations))
    for name in "abc":
        disk.open(f"{ROOT}/{name}", create=True)
    disk.rot_now()
    assert [2] == seen
    disk.rot_at(1, lambda: seen.append(0))
    disk.die()
    disk.rot_now()
    assert [2] == seen


def test_a_process_ends_among_blocks_that_are_written_one_by_one() -> None:
    """The blocks that were written before the end stay."""
    memory = MemoryDisk()
    memory.make_dirs(ROOT)
    memory.reserves_blocks = False
    disk = ProcessDisk(memory, reserves_blocks=False)
    memory.on_reserving = disk.reserving
    file = disk.open(f"{ROOT}/a", create=True)
    disk.crash_at(1, Place.MIDDLE, memory.process_kill)
    with pytest.raises(OSError, match="closed"):
        file.allocate(10 * BLOCK_SIZE)

    assert BLOCKS_WRITTEN * BLOCK_SIZE == memory.usage("/").used


def left_store() -> MemoryDisk:
    """Three messages of topic A, stopped in order as far as damage is concerned."""
    disk = MemoryDisk()
    store = MessageStore.open(
        disk, ROOT, FILES, now_ms=lambda: 5, store_host=pack_host("127.0.0.1", 1)
    )
    for name in ("M000001", "M000002", "M000003"):
        text = f"UNIQ_KEY\x01{name}\x02".encode()
        store.put([Message("A", 0, b"x" * 600, text)])
    store.abandon()
    disk.process_kill()
    disk.remove(f"{ROOT}/abort")
    return disk


def damaged(seed: int) -> tuple[DamageAtRest, list[Event]]:
    """A store with a sector of its log zeroed, and what the history says of it."""
    told: list[Event] = []
    damage = DamageAtRest(
        root=ROOT,
        disk=left_store(),
        now_ms=lambda: 7,
        tell=told.append,
        seen=SeenMessages(is_sync=True),
        counts=Counter[str](),
    )
    damage.do(DamageDraw(kind=DamageKind.ZERO, seed=seed, family=FileFamily.COMMIT_LOG))
    return damage, told
