"""``store check`` names what a killed process had written and the end of the log lacks."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from damaged_stores import checked, damage_of, flip_bit, on_disk, repair, serve_on, small_image
from simulation.staged_service import ROOT
from timermq.repair.finding import Finding, Step
from timermq.repair.known_end import checkpoint_page
from timermq.repair.store_rule import Severity
from timermq.simulator.disks.disk_damage import Image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.boot_note import NAME as BOOT
from timermq.timerstore.seal_reader import remove_seals

LOG = f"commitlog/{0:020d}"


def log_end(image: Image) -> int:
    """Where the log of a store of one segment ends."""
    return len(image[f"{ROOT}/{LOG}"].rstrip(b"\0"))


def durable_end(disk: MemoryDisk) -> int:
    """What the checkpoint says was durable."""
    page = checkpoint_page(disk, ROOT)
    assert page is not None
    assert page.durable_py is not None
    return page.durable_py


def cut(image: Image, size: int) -> MemoryDisk:
    """The store, the last bytes of its log zeros."""
    disk, end = on_disk(image), log_end(image)
    file = disk.open(f"{ROOT}/{LOG}")
    file.write(end - size, bytes(size))
    disk.sync_now(file)
    return disk


def lost_in_log(found: list[Finding]) -> list[tuple[str, int, Step]]:
    """Where the log lacks records."""
    return [
        (one.file, one.offset + getattr(one.subject, "size", 0), one.step)
        for one in found
        if one.severity is Severity.LOST and one.step is Step.FILL_HOLE
    ]


@pytest.mark.parametrize("size", [1, 200, 600, 3000])
async def test_the_lost_end_of_a_killed_store_is_named(
    autojump_clock: MockClock, size: int
) -> None:
    """Behind the checkpoint and before it, by file and byte; a repair fills the places."""
    image = await small_image(stop=False)
    disk = cut(image, size)
    found = damage_of(checked(disk))
    report = await repair(checked(disk))

    # A record before the cut may share its first sector with it, and be doubted.
    assert (LOG, log_end(image), Step.FILL_HOLE) == lost_in_log(found)[-1]
    assert report.left == ()
    assert max((await serve_on(disk)).values()) == 1
    assert damage_of(checked(disk)) == []


async def test_a_tail_that_a_power_cut_took_is_no_damage(autojump_clock: MockClock) -> None:
    """Without the note of this boot more than the checkpoint knows may never have been there."""
    image = await small_image(stop=False)
    disk = on_disk(image)
    size = log_end(image) - durable_end(disk)
    disk = cut(image, size)
    disk.remove(f"{ROOT}/{BOOT}")

    assert size > 0
    assert [] == [one for one in damage_of(checked(disk)) if one.severity is Severity.LOST]


async def test_units_tell_of_the_lost_end_when_the_seals_are_gone_too(
    autojump_clock: MockClock,
) -> None:
    """The check says so, and so does the start."""
    image = await small_image(stop=False)
    size = log_end(image) - durable_end(on_disk(image))
    disk = cut(image, size)
    remove_seals(disk, f"{ROOT}/commitlog")
    lost = [one for one in damage_of(checked(disk)) if one.severity is Severity.LOST]

    assert [(one.file, one.step) for one in lost] == [
        ("consumequeue/rmq_sys_wheel_timer/0", Step.REBUILD_QUEUE)
    ]
    assert f"behind {log_end(image) - size}, where the log ends" in lost[0].expected


async def test_a_word_behind_the_checkpoint_is_put_right(autojump_clock: MockClock) -> None:
    """A killed process has sealed it, so its seal counts."""
    image = await small_image(stop=False)
    disk = on_disk(image)
    flip_bit(disk, f"{ROOT}/{LOG}", log_end(image) - 1, 1)
    found = damage_of(checked(disk))
    await repair(checked(disk))

    assert [(LOG, log_end(image) - 1, Step.REPAIR_WORD)] == [
        (one.file, one.offset, one.step) for one in found
    ]
    assert damage_of(checked(disk)) == []
    assert disk.open(f"{ROOT}/{LOG}").read(0, log_end(image)) == image[f"{ROOT}/{LOG}"].rstrip(
        b"\0"
    )
