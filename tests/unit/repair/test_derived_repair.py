"""Queues, index and register made again from a whole log."""

from __future__ import annotations

import pytest
import trio

from small_store import ROOT, message, open_store, put_bodies, read_bodies, small_options
from timermq.repair import derived_repair
from timermq.repair.backup import Backup
from timermq.repair.derived_repair import DerivedRepair
from timermq.repair.queue_units import QueueUnits
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.queue_register import QueueRegister
from timermq.timerstore.queue_unit import UNIT
from unit.repair.small_checks import put, stopped
from unit.timerstore.stopped_store import BODIES, POSITIONS, RECORD_SIZE, Rig

T = ("T", 0)
END = POSITIONS[11] + RECORD_SIZE


def repair_of(disk: MemoryDisk, log_end: int = END) -> DerivedRepair:
    """The repair of a store whose log is whole."""
    register = QueueRegister(disk, ROOT)
    register.load()
    return DerivedRepair(
        disk=disk,
        root=ROOT,
        options=small_options(),
        backup=Backup(disk, ROOT, 0),
        log_end=log_end,
        register=register,
    )


def rebuilt(
    disk: MemoryDisk,
    begins: dict[tuple[str, int], int],
    first: dict[tuple[str, int], int] | None = None,
    ends: dict[tuple[str, int], int] | None = None,
) -> DerivedRepair:
    """Make queues again, and return the repair."""
    repair = repair_of(disk)
    keys = list(begins or ends or {})

    async def run() -> None:
        await repair.rebuild_queues(keys, begins, first or {}, ends or {})

    trio.run(run)
    return repair


def served(disk: MemoryDisk) -> list[str]:
    """Bodies of the queue as the next start gives them."""
    rig = Rig(0)
    rig.disk = disk
    return read_bodies(rig.open())


@pytest.mark.parametrize("count", [1, 5, 4096])
def test_a_queue_is_made_of_its_records(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """However many units are gathered before they are written; the old files are kept."""
    monkeypatch.setattr(derived_repair, "GATHER_COUNT", count)
    disk = stopped()
    put(disk, f"consumequeue/T/0/{0:020d}", bytes(100))
    repair = rebuilt(disk, {T: 0}, ends={T: 12})

    assert served(disk) == BODIES[:12]
    assert f"consumequeue/T/0/{0:020d}" in repair.backup.kept


@pytest.mark.parametrize(
    ("begin", "first"), [(POSITIONS[3], {}), (0, {T: 3}), (POSITIONS[3], {T: 2})]
)
def test_a_queue_begins_where_it_was_told_to(begin: int, first: dict[tuple[str, int], int]) -> None:
    """Records before that position, and offsets below the first, are of an earlier topic."""
    disk = stopped()
    rebuilt(disk, {T: begin}, first, ends={T: 12})
    units = QueueUnits.of(disk, ROOT, "T", 0, 100)

    assert units.first_shown() == 3
    assert units.unit(3) == (POSITIONS[3], RECORD_SIZE, 0)
    assert units.unit(12) is None


def test_a_queue_without_records_goes_on_at_its_end() -> None:
    """A consumer that has come so far is given nothing twice."""
    disk = stopped()
    rebuilt(disk, {}, ends={("U", 2): 77})
    rig = Rig(0)
    rig.disk = disk
    queue = rig.open().queue("U", 2)

    assert queue is not None
    assert (queue.min_offset, queue.max_offset) == (77, 77)


def test_a_deleted_topic_gets_no_units() -> None:
    """Its records stay in the log until it is cleaned."""
    rig = Rig()
    rig.store.files.register.delete_topic("T", POSITIONS[6])
    rig.stop()
    rebuilt(rig.disk, {T: 0}, ends={T: 12})

    assert served(rig.disk) == BODIES[6:12]


def test_an_offset_that_does_not_follow_is_left_out() -> None:
    """A record that states another place than the next has none in the queue."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a", "b")
    trio.run(store.aclose)
    place = f"{ROOT}/commitlog/{0:020d}"
    file = disk.open(place)
    file.write(20, (0).to_bytes(8))
    size = int.from_bytes(file.read(0, 4))
    file.write(size + 20, (5).to_bytes(8))
    repair = repair_of(disk, 2 * size)

    async def run() -> None:
        await repair.rebuild_queues([T], {T: 0}, {}, {T: 1})

    trio.run(run)
    data = disk.open(f"{ROOT}/consumequeue/T/0/{0:020d}").read(0, 40)
    assert UNIT.unpack(data, 0)[:2] == (0, size)
    assert data[20:] == bytes(20)


def test_the_index_is_made_again() -> None:
    """Every key of the log is found; the old files are kept."""
    disk = MemoryDisk()
    store = open_store(disk)
    for number in range(3):
        store.put([message("x", properties=b"UNIQ_KEY\x01k%d\x02" % number)])
    end = store.commit_log.max_offset
    trio.run(store.aclose)
    for name in disk.list_dir(f"{ROOT}/index"):
        put(disk, f"index/{name}", bytes(40))
    repair = repair_of(disk, end)

    async def run() -> None:
        await repair.rebuild_index(lambda: 1)

    trio.run(run)
    again = open_store(disk)
    found = [len(again.query("T", f"k{number}", count_max=9, unique=True)) for number in range(3)]
    assert found == [1, 1, 1]
    assert [path.startswith("index/") for path in repair.backup.kept] == [True]


@pytest.mark.parametrize(("log_end", "kept"), [(END, 9), (END - 5, None)])
def test_the_register_keeps_the_ends_of_queues_without_files(
    log_end: int, kept: int | None
) -> None:
    """Unless a part of the log is lost: then nothing is known of them."""
    disk = stopped()
    repair = repair_of(disk, log_end)
    repair.register.note_ends({("U", 1): 9})
    repair.write_register(0, {T: 12})
    register = QueueRegister(disk, ROOT)
    register.load()
    ends = {(topic, queue_id): end for topic, queue_id, end in register.queues()}

    assert (ends.get(("U", 1)), ends[T], register.log_end) == (kept, 12, log_end)
