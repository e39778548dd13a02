"""Tests of the list of queues that is kept while a store is closed."""

from __future__ import annotations

import errno

import pytest

from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.queue_register import QueueRegister
from timermq.timerstore.queue_unit import UNIT

PATH = "/store/config/consumeQueues.json"


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with an empty store."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def loaded(disk: MemoryDisk) -> QueueRegister:
    """The list as the next process reads it, after a power cut."""
    disk.power_cut()
    register = QueueRegister(disk, "/store")
    register.load()
    return register


def queues_of(disk: MemoryDisk, **counts: int) -> ConsumeQueueTable:
    """Queue 3 of each topic, with so many units."""
    table = ConsumeQueueTable(disk, "/store", segment_size=100, read_only=False)
    for topic, count in counts.items():
        queue = table.find_or_create(topic, 3)
        queue.append(0, b"".join(UNIT.pack(at * 10, 10, 0) for at in range(count)), count * 10)
    return table


def test_without_a_file_nothing_is_known(disk: MemoryDisk) -> None:
    """A new store, or one that RocketMQ wrote."""
    register = loaded(disk)

    assert ([], 0, None) == (list(register.queues()), register.log_end, register.damage)


def test_what_is_saved_is_read(disk: MemoryDisk) -> None:
    """Queues without a message are left out."""
    QueueRegister(disk, "/store").save(queues_of(disk, T=2, U=5, V=0), log_start=0, log_end=900)

    register = loaded(disk)

    assert [("T", 3, 2), ("U", 3, 5)] == list(register.queues())
    assert register.log_end == 900


def test_deletions(disk: MemoryDisk) -> None:
    """The records of a deleted topic before the deletion are of no queue, later ones are."""
    register = QueueRegister(disk, "/store")
    register.save(queues_of(disk, T=2, U=5), log_start=0, log_end=900)
    register.delete_topic("T", 500)

    register = loaded(disk)

    assert [("U", 3, 5)] == list(register.queues())
    assert [True, False] == [register.is_deleted("T", at) for at in (499, 500)]
    assert not register.is_deleted("U", 0)


def test_a_deletion_is_forgotten_when_the_log_is_past_it(disk: MemoryDisk) -> None:
    """Else the list would grow for ever."""
    register = QueueRegister(disk, "/store")
    register.delete_topic("T", 500)
    register.delete_topic("U", 1500)
    register.save(queues_of(disk), log_start=1000, log_end=2000)

    register = loaded(disk)

    assert [False, True] == [register.is_deleted(topic, 10) for topic in ("T", "U")]


def test_a_deletion_ends_where_a_power_cut_ended_the_log(disk: MemoryDisk) -> None:
    """What is stored there from now on is newer than the deletion."""
    register = QueueRegister(disk, "/store")
    register.delete_topic("T", 500)
    register.limit_deletions(600)

    assert loaded(disk).is_deleted("T", 499)

    register = loaded(disk)
    register.limit_deletions(300)

    assert [True, False] == [loaded(disk).is_deleted("T", at) for at in (299, 300)]


@pytest.mark.parametrize("text", ["{", '{"queues": 5}', '{"queues": {"T": {"x": 1}}}', "[1]"])
def test_a_damaged_file_counts_as_none(disk: MemoryDisk, text: str) -> None:
    """Everything in it can be found again."""
    disk.make_dirs("/store/config")
    file = disk.open(PATH, create=True)
    file.write(0, text.encode())
    register = QueueRegister(disk, "/store")
    register.load()

    assert [] == list(register.queues())
    assert (register.damage or "").startswith(f"{PATH}: ignored: ")


def test_how_far_was_cleaned_is_kept() -> None:
    """Across stops, never back; a lost file knows of nothing."""
    disk = MemoryDisk()
    disk.make_dirs("/store/config")
    register = QueueRegister(disk, "/store")
    register.note_cleaned(2048)
    register.note_cleaned(1024)
    register.save((), log_start=2048, log_end=4096)
    again = QueueRegister(disk, "/store")
    again.load()

    assert (again.cleaned_to, again.log_end) == (2048, 4096)
    assert QueueRegister(disk, "/store").cleaned_to == 0


def test_how_far_was_cleaned_is_noted_when_there_is_room_again() -> None:
    """A full disk refused it; the segments are gone, so the next note of any kind says it."""
    disk = MemoryDisk()
    disk.make_dirs("/store/config")
    fault = Fault(errno.ENOSPC)
    rule = FaultRule(operations=[Operation.WRITE], name="consumeQueues", fault=fault)
    register = QueueRegister(FaultyDisk(disk, "/store", FaultRules(rule)), "/store")
    with pytest.raises(OSError, match="No space"):
        register.note_cleaned(2048)
    register.save((), log_start=2048, log_end=4096)
    again = QueueRegister(disk, "/store")
    again.load()

    assert again.cleaned_to == 2048
