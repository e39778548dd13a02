"""Tables under ``config/``, damaged in every way and cut off at every step of a save.

Whatever happened to a file: its table is the last one saved, or the one before it, or the start is
refused by name and nothing has changed. A flipped bit is turned back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, ROOT
from simulation.crash_selection import LOOKS_AT_ALL
from simulation.crash_states import CrashState, CrashStates
from simulation.recording_disk import Noted, Recording, RecordingDisk
from timermq.broker.config_fields import ConfigTableError
from timermq.broker.config_table import ConfigSaver, ConfigTable
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.consuming.queue_lock import QueueLockTable
from timermq.broker.namesrv.kv_config import KvConfigTable
from timermq.broker.subscription_group import SubscriptionGroupTable
from timermq.broker.topic_config import TopicConfigTable
from timermq.remoting.queue_json import MessageQueue
from timermq.simulator.disks.disk_damage import Image, read_image, write_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import fastjson
from timermq.timerstore.config_seal import UnsealedBitError
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.flipped_bit import repaired

SAVED_MS, LATER_MS = 1_700_000_000_000, 1_700_000_500_000
REFUSED = (StoreFormatError, ConfigTableError, UnsealedBitError)
STEP = 1 if LOOKS_AT_ALL else 61
"""Between two bits that are flipped; 61 comes by every bit of a byte, and by all kinds of text."""


class Kept:
    """One table and its saver, as a process has them."""

    def __init__(self, disk: Disk, name: str) -> None:
        self.table = TABLES[name][0]()
        self.path = f"{ROOT}/{self.table.path}"
        self.saver = ConfigSaver(disk, ROOT, prompt=(), periodic=(self.table,), interval_ms=5_000)

    @property
    def text(self) -> str:
        """The text of what the table holds in memory."""
        return fastjson(self.table.to_json())


def _offsets() -> ConsumerOffsetTable:
    return ConsumerOffsetTable(now_ms=lambda: SAVED_MS, version_step=2)


def _topics() -> TopicConfigTable:
    return TopicConfigTable(BROKER, now_ms=lambda: SAVED_MS, level_max=18)


def _groups() -> SubscriptionGroupTable:
    return SubscriptionGroupTable(BROKER, now_ms=lambda: SAVED_MS)


def _locks() -> QueueLockTable:
    return QueueLockTable(current_time=lambda: 0.0, locks_max=100)


def _commit(table: ConfigTable, number: int) -> None:
    assert isinstance(table, ConsumerOffsetTable)
    for queue_id in range(40):
        table.commit(group="G", topic="T", queue_id=queue_id, offset=7 + number)


def _add_topic(table: ConfigTable, number: int) -> None:
    assert isinstance(table, TopicConfigTable)
    table.create_in_send(f"T{number}", default_topic="TBW102", default_topic_queue_nums=4)


def _add_group(table: ConfigTable, number: int) -> None:
    assert isinstance(table, SubscriptionGroupTable)
    table.find(f"G{number}")


def _put_text(table: ConfigTable, number: int) -> None:
    assert isinstance(table, KvConfigTable)
    table.put("space", f"key{number}", "value")


def _lock(table: ConfigTable, number: int) -> None:
    assert isinstance(table, QueueLockTable)
    table.lock("G", [MessageQueue(topic="T", broker_name="b", queue_id=number)], "client")


Change = Callable[[ConfigTable, int], None]
TABLES: dict[str, tuple[Callable[[], ConfigTable], Change]] = {
    "offsets": (_offsets, _commit),
    "topics": (_topics, _add_topic),
    "groups": (_groups, _add_group),
    "texts": (KvConfigTable, _put_text),
    "locks": (_locks, _lock),
}


def saved(name: str) -> tuple[Image, list[str]]:
    """The files of a table that was saved twice, and what it held each time."""
    return trio.run(_saved, name, clock=MockClock(autojump_threshold=0))


async def _saved(name: str) -> tuple[Image, list[str]]:
    disk = MemoryDisk(now_ms=lambda: SAVED_MS)
    kept, texts = Kept(disk, name), list[str]()
    for number in range(2):
        TABLES[name][1](kept.table, number)
        await kept.saver.save()
        texts.append(kept.text)
    return read_image(disk, ROOT), texts


def disk_of(image: Image, changed: Image | None = None, *, now_ms: int = SAVED_MS) -> MemoryDisk:
    """Files as they were saved, and some that were changed at a moment."""
    time = [SAVED_MS]
    disk = MemoryDisk(now_ms=lambda: time[0])
    disk.make_dirs(f"{ROOT}/config")
    write_image(disk, image)
    time[0] = now_ms
    for path, data in (changed or {}).items():
        file = disk.open(path, create=True)
        file.truncate(len(data))
        file.write(0, data)
    return disk


def loaded(disk: Disk, name: str) -> str:
    """What the next process has; its text."""
    kept = Kept(disk, name)
    kept.saver.load()
    return kept.text


def flips(data: bytes) -> Iterator[bytes]:
    """Some bytes with one bit turned over, one bit after the other."""
    for at in range(0, 8 * len(data), STEP):
        yield repaired(data, at // 8, at % 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_bit_that_flips_by_itself_is_turned_back(name: str) -> None:
    """The table is the last one saved; so it is where its ``.bak`` or its seal has a wrong bit."""
    image, (_, last) = saved(name)
    path = Kept(MemoryDisk(), name).path

    for changed in (path, f"{path}.bak", f"{path}.sum"):
        for data in flips(image[changed]):
            disk = disk_of(image, {changed: data})
            assert last == loaded(disk, name)
            assert changed != path or disk.open(path).read(0, 1 << 20) == image[path]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_bit_that_was_perhaps_changed_on_purpose_is_refused(name: str) -> None:
    """By its place; nothing is written. Without its seal the file counts as it is."""
    image, _ = saved(name)
    path = Kept(MemoryDisk(), name).path

    for data in flips(image[path]):
        disk = disk_of(image, {path: data}, now_ms=LATER_MS)
        before = read_image(disk, ROOT)
        with pytest.raises(UnsealedBitError, match=f"{path}: at [0-9]+: expected byte .., as it"):
            loaded(disk, name)
        assert before == read_image(disk, ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_bit_without_a_seal(name: str) -> None:
    """As an older version has left it: the start goes on or is refused by name, never a trace."""
    image, (first, last) = saved(name)
    path = Kept(MemoryDisk(), name).path
    bare = {one: data for one, data in image.items() if one == path}
    both = {one: data for one, data in image.items() if one != f"{path}.sum"}
    refused = 0

    for data in flips(image[path]):
        disk = disk_of(bare, {path: data})
        try:
            loaded(disk, name)
        except REFUSED:
            refused += 1
            assert {path: data} == read_image(disk, ROOT)
        disk = disk_of(both, {path: data})
        text = loaded(disk, name)
        if disk.exists(f"{path}.damaged"):
            assert first == text
    assert refused or name == "locks"
    assert last == loaded(disk_of(both), name)


@pytest.mark.parametrize("name", TABLES)
def test_every_length(name: str) -> None:
    """A file that was cut off, or is empty, is renamed; its ``.bak`` counts, and lasts."""
    image, (first, _) = saved(name)
    path = Kept(MemoryDisk(), name).path
    sizes = {*range(0, len(image[path]) - 1, 97), 0, len(image[path]) - 1}

    for size in sizes:
        for now_ms in (SAVED_MS, LATER_MS):
            disk = disk_of(image, {path: image[path][:size]}, now_ms=now_ms)
            for _ in range(2):
                assert first == loaded(disk, name)
            assert not disk.exists(path)
            assert disk.open(f"{path}.damaged").read(0, 1 << 20) == image[path][:size]
        alone = disk_of({path: image[path][:size]})
        if name == "locks":
            loaded(alone, name)
            continue
        with pytest.raises(StoreFormatError, match=f"^{path}: at [0-9]+: expected "):
            loaded(alone, name)
        assert {path: image[path][:size]} == read_image(alone, ROOT)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("by", ["a save", "RocketMQ's save, and a start"])
def test_every_length_after_one_save(name: str, by: str) -> None:
    """There are two copies from the first save on, so one damage never refuses a start."""
    disk = MemoryDisk(now_ms=lambda: SAVED_MS)
    kept = Kept(disk, name)
    TABLES[name][1](kept.table, 0)
    trio.run(kept.saver.save, clock=MockClock(autojump_threshold=0))
    text, path = kept.text, kept.path
    image = read_image(disk, ROOT)
    if by != "a save":
        started = disk_of({path: image[path]})
        assert loaded(started, name) == text
        image = read_image(started, ROOT)

    for size in {*range(0, len(image[path]) - 1, 97), 0, len(image[path]) - 1}:
        for changed in (path, f"{path}.bak"):
            damaged = disk_of(image, {changed: image[changed][:size]}, now_ms=LATER_MS)
            assert loaded(damaged, name) == text
            assert loaded(damaged, name) == text


@pytest.mark.parametrize("name", TABLES)
def test_a_file_that_is_missing_or_older(name: str) -> None:
    """Its ``.bak`` stands in; a copy from before counts, as what somebody has put there."""
    image, (first, last) = saved(name)
    path = Kept(MemoryDisk(), name).path
    left = {one: data for one, data in image.items() if one != path}

    assert first == loaded(disk_of(left), name)
    stale = disk_of(image, {path: image[f"{path}.bak"]}, now_ms=LATER_MS)
    assert first == loaded(stale, name)
    assert last == loaded(disk_of(image), name)


def test_a_table_that_says_something_else_is_read_from_its_backup() -> None:
    """JSON that can be read, and no table: the start goes on with the one before."""
    image, (first, _) = saved("offsets")
    path = f"{ROOT}/config/consumerOffset.json"

    for text in (b"[]", b'{"offsetTable":{"T@G":{0:"7"}}}', b'{"offsetTable":[1]}'):
        disk = disk_of(image, {path: text}, now_ms=LATER_MS)
        assert first == loaded(disk, "offsets")
        with pytest.raises(ConfigTableError, match=r"consumerOffset\.json: "):
            loaded(disk_of({path: text}), "offsets")


def test_what_others_have_changed_counts() -> None:
    """An edited file, one that RocketMQ has replaced, and one whose bit was changed on purpose."""
    image, _ = saved("offsets")
    path = f"{ROOT}/config/consumerOffset.json"
    edited = image[path].replace(b"{0:8,", b"{0:1234,")
    flipped = image[path].replace(b"{0:8,", b"{0:9,")
    rotated = {path: flipped, f"{path}.bak": image[path]}
    unsealed = {one: data for one, data in image.items() if one != f"{path}.sum"}

    assert edited != image[path] != flipped
    assert "{0:1234," in loaded(disk_of(image, {path: edited}, now_ms=LATER_MS), "offsets")
    assert "{0:9," in loaded(disk_of(image, rotated, now_ms=LATER_MS), "offsets")
    assert "{0:9," in loaded(disk_of(unsealed, {path: flipped}, now_ms=LATER_MS), "offsets")


def crash_states(recording: Recording) -> Iterator[tuple[CrashState, list[object]]]:
    """The states of a recording, each with what was noted before."""
    for state in CrashStates(recording.events, only_max=12):
        before = recording.events[: state.event_count]
        yield state, [one.note for one in before if isinstance(one, Noted)]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_crash_of_a_save(name: str) -> None:
    """A kill or a power cut anywhere: the table is the last one saved, or the one being saved."""
    recording = Recording(lambda: SAVED_MS)

    async def record() -> list[str]:
        kept = Kept(RecordingDisk(MemoryDisk(now_ms=lambda: SAVED_MS), recording), name)
        texts = [kept.text]
        for number in range(4):
            TABLES[name][1](kept.table, number)
            texts.append(kept.text)
            await kept.saver.save()
            recording.note(number + 1)
        return texts

    texts = trio.run(record, clock=MockClock(autojump_threshold=0))
    states = [*crash_states(recording)]
    for state, notes in states:
        disk = MemoryDisk(now_ms=lambda: SAVED_MS)
        state.write_to(disk)
        found = texts.index(loaded(disk, name))
        assert found >= len(notes), f"{state.event_count} {state.label}"
    assert len(states) > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("size", [0, 20])
def test_every_crash_behind_damage(name: str, size: int) -> None:
    """A start with a damaged file, and its first save cut off: the ``.bak`` is not overwritten."""
    image, (first, _) = saved(name)
    path = Kept(MemoryDisk(), name).path
    recording = Recording(lambda: SAVED_MS)

    async def record() -> str:
        disk = RecordingDisk(MemoryDisk(now_ms=lambda: SAVED_MS), recording)
        for one in disk.make_dirs(f"{ROOT}/config"):
            await disk.sync_dir(one)
        write_image(disk, {**image, path: image[path][:size]})
        recording.note("begun")
        kept = Kept(disk, name)
        kept.saver.load()
        TABLES[name][1](kept.table, 5)
        await kept.saver.save()
        return kept.text

    newest = trio.run(record, clock=MockClock(autojump_threshold=0))
    states = [one for one, notes in crash_states(recording) if notes]
    for state in states:
        disk = MemoryDisk(now_ms=lambda: SAVED_MS)
        state.write_to(disk)
        assert loaded(disk, name) in (first, newest), f"{state.event_count} {state.label}"
    assert len(states) > 20
