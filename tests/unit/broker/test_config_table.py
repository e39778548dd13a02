"""Tests of saving the tables."""

import errno

import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, ROOT, as_object
from fakes import START_MS
from timermq.broker.config_table import PIECES_MAX, ConfigSaver
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.refusal import RefusedError
from timermq.broker.topic_config import TopicConfigTable
from timermq.simulator.disks.fault_plan import TAKING_SPACE, Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import load_json
from timermq.timerstore.disk import Disk
from timermq.timerstore.file_family import FileFamily

TOPICS = f"{ROOT}/config/topics.json"
OFFSETS = f"{ROOT}/config/consumerOffset.json"


class Tables:
    """A prompt and a periodic table with their saver."""

    def __init__(self, disk: Disk) -> None:
        disk.make_dirs(ROOT)
        self.topics = TopicConfigTable(BROKER, now_ms=lambda: START_MS, level_max=18)
        self.offsets = ConsumerOffsetTable(now_ms=lambda: START_MS, version_step=500)
        self.saver = ConfigSaver(
            disk, ROOT, prompt=(self.topics,), periodic=(self.offsets,), interval_ms=5_000
        )
        self.saver.load()
        self.topics.on_change(self.saver.changed)


async def test_topics_are_saved_at_once_and_offsets_at_the_interval(
    autojump_clock: MockClock,
) -> None:
    """A new topic is on the disk before its producer's next message; offsets may wait."""
    disk = MemoryDisk()
    tables = Tables(disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(tables.saver.run)
        tables.topics.create_in_send_back("%RETRY%g", 1)
        tables.offsets.commit(group="g", topic="T", queue_id=0, offset=7)
        await trio.sleep(0.001)

        assert "%RETRY%g" in as_object(load_json(disk, TOPICS))["topicConfigTable"]
        assert load_json(disk, OFFSETS) is None
        await trio.sleep(5)
        assert as_object(load_json(disk, OFFSETS))["offsetTable"] == {"T@g": {0: 7}}
        nursery.cancel_scope.cancel()


async def test_only_what_changed_is_written(autojump_clock: MockClock) -> None:
    """An interval in which nothing happened writes no file."""
    disk = MemoryDisk()
    tables = Tables(disk)
    tables.offsets.commit(group="g", topic="T", queue_id=0, offset=7)
    await tables.saver.save()
    disk.remove(OFFSETS)
    await tables.saver.save()

    assert not disk.exists(OFFSETS)


async def test_saved_tables_are_loaded_again() -> None:
    """What the last process knew, the next one knows."""
    disk = MemoryDisk()
    first = Tables(disk)
    first.topics.create_in_send("T", default_topic="TBW102", default_topic_queue_nums=4)
    first.offsets.commit(group="g", topic="T", queue_id=3, offset=7)
    await first.saver.save()
    second = Tables(disk)

    assert second.topics.get("T") == first.topics.get("T")
    assert second.topics.data_version == first.topics.data_version
    assert second.offsets.query(group="g", topic="T", queue_id=3) == 7


async def test_a_full_disk_is_waited_for(autojump_clock: MockClock) -> None:
    """A table that finds no room is saved at a later interval; the broker goes on."""
    rule = FaultRule(operations=TAKING_SPACE, fault=Fault(errno.ENOSPC), count=None)
    disk = FaultyDisk(MemoryDisk(), ROOT)
    tables = Tables(disk)
    disk.plan = plan = FaultRules(rule)
    async with trio.open_nursery() as nursery:
        await nursery.start(tables.saver.run)
        tables.topics.create_in_send_back("%RETRY%g", 1)
        await trio.sleep(1)
        rule.heal()

        assert load_json(disk, TOPICS) is None
        await trio.sleep(5)
        assert "%RETRY%g" in as_object(load_json(disk, TOPICS))["topicConfigTable"]
        assert plan.struck
        nursery.cancel_scope.cancel()


async def test_a_failed_sync_ends_the_saver(autojump_clock: MockClock) -> None:
    """It is not retried: the broker ends with it."""
    disk = FaultyDisk(MemoryDisk(), ROOT)
    tables = Tables(disk)
    disk.plan = FaultRules(FaultRule(operations=[Operation.SYNC], families=[FileFamily.CONFIG]))
    tables.topics.create_in_send_back("%RETRY%g", 1)

    with pytest.raises(OSError, match=r"config/topics\.json\.tmp"):
        await tables.saver.run()


async def test_a_large_table_leaves_time_for_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes a second to write and changes all the time is not written all the time."""
    tables = Tables(MemoryDisk())
    saves: list[float] = []

    async def slow(*_: object) -> None:
        await trio.sleep(1)
        saves.append(trio.current_time())

    monkeypatch.setattr("timermq.broker.config_table.save_sealed", slow)
    with trio.move_on_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(tables.saver.run)
            for number in range(600):
                tables.topics.create_in_send_back(f"%RETRY%g{number}", 1)
                await trio.sleep(0.1)

    assert 5 <= len(saves) <= 7


async def test_others_go_on_while_a_large_table_is_printed(autojump_clock: MockClock) -> None:
    """A piece at a time; what the file says is the table as it was when the save began."""
    disk = MemoryDisk()
    tables = Tables(disk)
    for number in range(1_000):
        tables.topics.create_in_send_back(f"%RETRY%g{number}", 1)
    version, turns = tables.topics.data_version.counter, 0

    async def change() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1
            tables.topics.create_in_send_back(f"%RETRY%later{turns}", 1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(change)
        await tables.saver.save()
        nursery.cancel_scope.cancel()

    assert turns > 1_000 // PIECES_MAX
    saved = as_object(load_json(disk, TOPICS))
    topics = as_object(saved["topicConfigTable"])
    assert sum(name.startswith("%RETRY%g") for name in topics) == 1_000
    later = sum(name.startswith("%RETRY%later") for name in topics)
    assert as_object(saved["dataVersion"])["counter"] == version + later
    assert later <= 1


async def test_waiting_callers_are_told_when_all_is_saved(autojump_clock: MockClock) -> None:
    """Offsets too, without waiting for the interval."""
    disk = MemoryDisk()
    tables = Tables(disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(tables.saver.run)
        tables.topics.create_in_send_back("%RETRY%g", 1)
        tables.offsets.commit(group="g", topic="T", queue_id=0, offset=7)
        await tables.saver.saved()

        assert "%RETRY%g" in as_object(load_json(disk, TOPICS))["topicConfigTable"]
        assert as_object(load_json(disk, OFFSETS))["offsetTable"] == {"T@g": {0: 7}}
        assert trio.current_time() < 5
        await tables.saver.saved()
        nursery.cancel_scope.cancel()


async def test_waiting_callers_are_told_of_a_full_disk(autojump_clock: MockClock) -> None:
    """The change holds, and is saved as soon as there is room."""
    memory = MemoryDisk()
    rule = FaultRule(
        operations=TAKING_SPACE, name="topics.json", fault=Fault(errno.ENOSPC), count=1
    )
    tables = Tables(FaultyDisk(memory, ROOT, FaultRules(rule)))
    async with trio.open_nursery() as nursery:
        await nursery.start(tables.saver.run)
        tables.topics.create_in_send_back("%RETRY%g", 1)
        with pytest.raises(RefusedError, match=r"no room for config/topics\.json"):
            await tables.saver.saved()
        await tables.saver.saved()

        assert "%RETRY%g" in as_object(load_json(memory, TOPICS))["topicConfigTable"]
        nursery.cancel_scope.cancel()
