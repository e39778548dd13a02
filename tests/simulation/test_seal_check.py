"""``store check`` compares both logs with their seals; ``store repair`` repairs what they tell."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock

from damaged_stores import checked, damage_of, flip_bit, on_disk, repair, serve_on, small_image
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL
from timermq.pipeline.offline_store import open_offline
from timermq.repair.finding import Step
from timermq.simulator.disks.disk_damage import Image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import TimerCheckpoint
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.timerstore.store_checkpoint import StoreCheckpoint

LOGS = {
    "commitlog": SMALL_FILES.mapped_file_size_commit_log,
    "timerlog": SMALL_WHEEL.mapped_file_size_timer_log,
}


def durable_end(image: Image, directory: str) -> int:
    """What of a log was durable when its store was left."""
    disk = on_disk(image)
    if directory == "commitlog":
        page = StoreCheckpoint.open(disk, f"{ROOT}/checkpoint", read_only=True)
        assert page.durable_py
        return page.durable_py
    return TimerCheckpoint.open(disk, f"{ROOT}/config/timercheck").last_timer_log_flush_pos


def file_at(directory: str, position: int) -> tuple[str, int]:
    """File and offset of a position in a log."""
    start = position - position % LOGS[directory]
    return f"{directory}/{start:020d}", position - start


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("directory", LOGS)
async def test_a_flipped_bit_is_named_and_put_right(
    autojump_clock: MockClock, directory: str, stop: bool
) -> None:
    """By file and byte, wherever it is in what was durable; the repaired log is as it was."""
    image = await small_image(stop=stop)
    end = durable_end(image, directory)
    if not stop:
        end -= end % LOGS[directory] % SECTOR_SIZE
    draw = Random(7)
    for _ in range(12):
        path, offset = file_at(directory, draw.randrange(end))
        disk = on_disk(image)
        flip_bit(disk, f"{ROOT}/{path}", offset, 1 << draw.randrange(8))
        found = [one for one in damage_of(checked(disk)) if one.step is Step.REPAIR_WORD]
        report = await repair(checked(disk))
        file = disk.open(f"{ROOT}/{path}")

        assert [(path, offset)] == [(one.file, one.offset) for one in found]
        assert report.is_repaired
        assert report.left == ()
        assert file.read(0, file.size()) == image[f"{ROOT}/{path}"]


async def test_units_that_cannot_be_put_right_are_made_again(autojump_clock: MockClock) -> None:
    """Two words of a unit that still passes for one: the timer log is cut before it."""
    image = await small_image()
    sound = await serve_on(on_disk(image))
    disk = on_disk(image)
    path = f"timerlog/{LOGS['timerlog']:020d}"
    for at in (52 * 2 + 16, 52 * 2 + 40):
        flip_bit(disk, f"{ROOT}/{path}", at + 4, 2)
    found = [one for one in damage_of(checked(disk)) if one.file == path]
    report = await repair(checked(disk))

    assert (found[0].offset, found[0].step) == (0, Step.CUT_TIMER_LOG)
    assert report.left == ()
    assert await serve_on(disk) == sound


async def test_a_text_that_cannot_be_put_right_is_told(autojump_clock: MockClock) -> None:
    """Two letters of a key: it is a record still, but not the one that was written."""
    image = await small_image()
    disk = on_disk(image)
    path, _ = file_at("commitlog", 0)
    at = image[f"{ROOT}/{path}"].index(b"UNIQ_KEY\x01m1\x02")
    for one in (at, at + 6):
        flip_bit(disk, f"{ROOT}/{path}", one, 1)
    found = [one for one in damage_of(checked(disk)) if one.step is Step.NOTHING]
    report = await repair(checked(disk))

    assert [(path, at - at % SECTOR_SIZE)] == [(one.file, one.offset) for one in found]
    assert report.is_repaired
    assert [one.file for one in report.left] == [path]


def test_who_lists_what_waits_is_told() -> None:
    """A stopped store is looked at as it is, damage and all."""
    disk = on_disk(trio.run(small_image, clock=MockClock(autojump_threshold=0)))
    options = (SMALL_FILES, SMALL_WHEEL)
    with open_offline(disk, ROOT, *options) as offline:
        rows = list(offline.pending())
        assert offline.differing_sectors() == 0
    size = SMALL_FILES.mapped_file_size_commit_log
    path = f"{ROOT}/commitlog/{rows[-1].phy_offset // size * size:020d}"
    flip_bit(disk, path, rows[-1].phy_offset % size + 100, 1)
    flip_bit(disk, f"{ROOT}/timerlog/{0:020d}", 44, 2)
    with open_offline(disk, ROOT, *options) as offline:
        list(offline.pending())
        assert offline.differing_sectors() == 2


async def test_seals_of_a_store_that_rocketmq_has_served_are_not_asked(
    autojump_clock: MockClock,
) -> None:
    """Its checkpoint says so: they are of other bytes."""
    image = await small_image()
    disk: MemoryDisk = on_disk(image)
    for name in ("checkpoint", "config/timercheck"):
        file = disk.open(f"{ROOT}/{name}")
        file.write(64, bytes(64))
        disk.sync_now(file)
    path, _ = file_at("timerlog", 0)
    flip_bit(disk, f"{ROOT}/{path}", 44, 2)

    assert [] == [one for one in damage_of(checked(disk)) if one.step is Step.REPAIR_WORD]
