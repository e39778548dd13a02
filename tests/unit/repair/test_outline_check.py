"""Outlines beside their units: what a check says of them, and what a repair makes again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import ROOT
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.backup import Backup
from timermq.repair.finding import Step
from timermq.repair.outline_check import OutlineCheck
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_repair import StoreRepair
from timermq.repair.store_rule import Severity, StoreRule
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog.outlines import DIRECTORY, Outlines
from timermq.timerlog.segment import CHUNK_COUNT
from timermq.timerlog.stretch_outline import OUTLINE, STRETCH_SIZE, outline_of
from unit.pipeline.spark.outlined_store import FILES, WHEEL, live

Damage = Callable[[MemoryDisk], None]
FILE = f"{DIRECTORY}/{0:020d}"


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    """The files of a store whose timer log has outlines, by their paths."""
    disk = MemoryDisk()
    trio.run(live, disk, CHUNK_COUNT + 10, clock=MockClock(autojump_threshold=0))
    return dict(files_below(disk, ROOT))


def files_below(disk: MemoryDisk, directory: str) -> list[tuple[str, bytes]]:
    """Path and content of each file."""
    found: list[tuple[str, bytes]] = []
    for name in disk.list_dir(directory):
        path = f"{directory}/{name}"
        if disk.is_dir(path):
            found += files_below(disk, path)
        else:
            file = disk.open(path, read_only=True)
            found.append((path, file.read(0, file.size())))
    return found


@pytest.fixture
def disk(made: dict[str, bytes]) -> MemoryDisk:
    """A disk with the store, for the test alone."""
    copy = MemoryDisk()
    for path, data in made.items():
        copy.make_dirs(path.rpartition("/")[0])
        copy.open(path, create=True).write(0, data)
    return copy


def check(disk: MemoryDisk, options: TimerOptions = WHEEL) -> OutlineCheck:
    """The check of the store."""
    return OutlineCheck(disk=disk, root=ROOT, timer_options=options)


def outlines(disk: MemoryDisk) -> Outlines:
    """The outlines of the store."""
    return Outlines(disk, f"{ROOT}/timerlog", WHEEL.mapped_file_size_timer_log)


def spoil(path: str, at: int) -> Damage:
    """Another bit in a byte of a file."""

    def change(disk: MemoryDisk) -> None:
        file = disk.open(f"{ROOT}/{path}")
        file.write(at, bytes((file.read(at, 1)[0] ^ 16,)))

    return change


def exchange(disk: MemoryDisk) -> None:
    """An outline of other units in the place of the first one."""
    file = disk.open(f"{ROOT}/timerlog/{0:020d}", read_only=True)
    outlines(disk).write(*outline_of(0, file.read(0, STRETCH_SIZE - 52).ljust(STRETCH_SIZE, b"\0")))


def test_a_sound_store_has_no_finding(disk: MemoryDisk) -> None:
    """The outline fits; of the end of the log there is none."""
    assert [0] == list(outlines(disk).read(0))
    assert [] == list(check(disk).find())


def test_what_is_not_there_is_no_finding(disk: MemoryDisk) -> None:
    """It is made by the next broker."""
    disk.remove(f"{ROOT}/{FILE}")

    assert [] == list(check(disk).find())


def test_rocketmqs_stores_are_left_alone(disk: MemoryDisk) -> None:
    """After RocketMQ's own checkpoint no outline is believed: the next start removes them."""
    exchange(disk)
    disk.open(f"{ROOT}/config/timercheck").truncate(0)

    assert [] == list(check(disk).find())


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (spoil(FILE, 9), "bytes that are no outline of it"),
        (spoil(FILE, 2 * OUTLINE.size + 1), "the outline of other units"),
        (exchange, "the outline of other units"),
    ],
)
def test_what_differs_is_made_again(disk: MemoryDisk, damage: Damage, found: str) -> None:
    """The check names it, the repair keeps the original; then all is well."""
    before = outlines(disk).read(0)[0]
    damage(disk)
    (finding,) = check(disk).find()
    backup = Backup(disk, ROOT, START_MS)
    check(disk).repair([finding], backup)

    assert (StoreRule.OUTLINE_DIFFERS, Severity.DERIVED, Step.REWRITE_OUTLINE) == (
        finding.rule,
        finding.severity,
        finding.step,
    )
    assert (FILE, 0, found) == (finding.file, finding.offset, finding.found)
    assert [FILE] == list(backup.kept)
    assert [] == list(check(disk).find())
    assert before.is_of(outlines(disk).read(0)[0])


def test_a_repair_of_the_store_does_it(disk: MemoryDisk) -> None:
    """The whole check finds it, the whole repair makes it again, and nothing else."""
    exchange(disk)
    clock = VirtualClock()

    async def repair() -> tuple[list[StoreRule], bool, list[StoreRule]]:
        store = CheckedStore(
            disk=disk, root=ROOT, store_options=FILES, timer_options=WHEEL, now_ms=START_MS
        )
        report = await StoreRepair(store, clock.now_ms).run()
        return (
            [one.rule for one in report.findings],
            report.is_repaired,
            [one.rule for one in report.left],
        )

    found = trio.run(repair, clock=MockClock(autojump_threshold=0))

    assert ([StoreRule.OUTLINE_DIFFERS], True, []) == found
