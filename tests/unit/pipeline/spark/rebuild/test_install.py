"""New timer files take the places of the old ones, whenever the process or the power ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import MockClock

from damaged_stores import CHANGING, LATER_MS, clock_at, small_image
from rebuild_by_hand import pack, pending_rows, rebuild_by_hand, unpack, without_timers
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL, arrivals_everywhere, running
from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.recovery.store_sizes import measure
from timermq.pipeline.spark.rebuild.install import install
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.backup import Backup
from timermq.simulator.disks.disk_damage import Image, write_image
from timermq.simulator.disks.fault_plan import Access, Fault
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.store_options import StoreOptions

STAGED = f"{ROOT}/timers.new"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """A stopped store with its new timer files staged beside it."""
    files = trio.run(small_image, clock=MockClock(autojump_threshold=0))
    root = unpack(files, tmp_path_factory.mktemp("store"))
    rebuild_by_hand(root, f"{root}/timers.new")
    return pack(root)


class EndsAt:
    """A plan: the process ends at the so many-th change of the disk."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, access: Access) -> Fault | None:
        """Fail this access, and any behind it, once the planned number of changes is passed."""
        if access.operation in CHANGING:
            self.left -= 1
        return Fault() if self.left < 0 else None


def installed(image: Image, number: int) -> tuple[MemoryDisk, bool]:
    """A disk on which the installation ended at a change; whether it was over."""
    disk = MemoryDisk(now_ms=lambda: LATER_MS)
    write_image(disk, image)
    faulty = FaultyDisk(disk, ROOT, EndsAt(number))
    try:
        install(faulty, ROOT, STAGED, Backup(faulty, ROOT, LATER_MS))
    except OSError:
        return disk, False
    return disk, True


def all_ends(image: Image, end: Callable[[MemoryDisk], None]) -> list[MemoryDisk]:
    """The disks of all ends, and of none."""
    disks: list[MemoryDisk] = []
    is_over = False
    while not is_over:
        disk, is_over = installed(image, len(disks))
        end(disk)
        disks.append(disk)
    return disks


def torn_power_cut(disk: MemoryDisk) -> None:
    """Of what was not synced some is there, and some of that is torn."""
    disk.power_cut(Random(1))


@pytest.mark.parametrize("end", [MemoryDisk.process_kill, MemoryDisk.power_cut, torn_power_cut])
def test_what_waits_stays_the_same(image: Image, end: Callable[[MemoryDisk], None]) -> None:
    """Wherever it ends, the store has the same messages waiting."""
    original = MemoryDisk(now_ms=lambda: LATER_MS)
    write_image(original, image)
    expected = pending_rows(original)

    disks = all_ends(image, end)

    assert len(disks) > 20
    for disk in disks:
        assert expected == pending_rows(disk)


def test_sizes_stay_known(image: Image) -> None:
    """Wherever it ends, who opens the store next finds the sizes that its files were made with."""
    original = MemoryDisk(now_ms=lambda: LATER_MS)
    write_image(original, image)

    def sizes(disk: Disk) -> tuple[StoreOptions, TimerOptions]:
        return measure(disk, ROOT, StoreOptions(), TimerOptions(), ())

    disks = all_ends(image, MemoryDisk.process_kill)

    assert SMALL_WHEEL.slots_total == sizes(original)[1].slots_total
    assert all(sizes(disk) == sizes(original) for disk in disks)


def everything(disk: Disk) -> Counter[str]:
    """What arrives on topics when the store is served to the end of its timers."""

    async def serve() -> Counter[str]:
        async with running(disk, clock_at(LATER_MS), store_options=SMALL_FILES) as service:
            await trio.sleep(120)
            found = arrivals_everywhere(service.store)
        return Counter(one.body for one in found if one.topic not in (TIMER_TOPIC, *OWN_TOPICS))

    return trio.run(serve, clock=MockClock(autojump_threshold=0))


def test_the_broker_goes_on(image: Image) -> None:
    """Wherever it ends, the broker delivers every message once, and no cancelled one."""
    disks = all_ends(image, MemoryDisk.process_kill)

    found = [everything(disk) for disk in disks[::8] + disks[-1:]]

    assert {f"m{number}": 1 for number in range(60)} == found[0]
    assert all(one == found[0] for one in found)


def test_originals(image: Image) -> None:
    """The old files are in the backup, the new ones in their places."""
    disk, _ = installed(image, 1_000)

    backup = f"{ROOT}/aside/{disk.list_dir(f'{ROOT}/aside')[0]}"

    for name in ("timerwheel", "config/timercheck", "config/timermetrics"):
        assert image[f"{ROOT}/{name}"] == disk.open(f"{backup}/{name}").read(0, 1 << 20)
        assert image[f"{STAGED}/{name}"] == disk.open(f"{ROOT}/{name}").read(0, 1 << 20)
    assert disk.list_dir(f"{backup}/timerlog")
    assert not disk.list_dir(f"{STAGED}/timerlog")


def test_without_originals(image: Image, tmp_path: Path) -> None:
    """A store that lost its timer files gets new ones."""
    original = MemoryDisk(now_ms=lambda: LATER_MS)
    write_image(original, image)
    expected = pending_rows(original)
    bare = without_timers(
        {path: data for path, data in image.items() if "/timers.new/" not in path}
    )
    root = unpack(bare, tmp_path)

    rebuild_by_hand(root, f"{root}/timers.new")
    disk, is_over = installed(pack(root), 1_000)

    assert is_over
    assert expected == pending_rows(disk)
    assert {f"m{number}": 1 for number in range(60)} == everything(disk)


def test_what_was_told_of_the_old_log_goes(image: Image) -> None:
    """Neither seals nor outlines of it stand beside the new one."""
    disk = MemoryDisk(now_ms=lambda: LATER_MS)
    write_image(disk, image)
    beside = [f"{ROOT}/timermq-seals/timerlog", f"{ROOT}/timermq-outlines"]
    for directory in beside:
        disk.make_dirs(directory)
        disk.open(f"{directory}/{0:020d}", create=True).write(0, b"of the old log")
    install(disk, ROOT, STAGED, Backup(disk, ROOT, LATER_MS))

    assert [[], []] == [disk.list_dir(directory) for directory in beside]
