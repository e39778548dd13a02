"""A store whose timer files are made anew delivers what it would have, each message once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession
from trio.testing import MockClock

from damaged_stores import GOLDEN_FILES, GOLDEN_WHEEL, LATER_MS, clock_at, damage_of, small_image
from golden_stores import GoldenStores
from rebuild_by_hand import pending_rows, rebuild_by_hand, unpack, without_timers
from rolled_stores import NOW_MS, rolled_image
from simulation.staged_service import (
    QUIET_FILES,
    ROOT,
    SMALL_FILES,
    SMALL_WHEEL,
    arrivals_everywhere,
    running,
)
from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.spark import SparkJobError, cause_of
from timermq.pipeline.spark.jobs.audit import audit
from timermq.pipeline.spark.jobs.rebuild import STAGE, RebuildReport, rebuild
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.store_check import CheckedStore
from timermq.simulator.disks.disk_damage import Image, read_image, write_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreLockedError
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_lock import StoreLock
from timermq.timerstore.store_options import StoreOptions

GOLDEN = (GOLDEN_FILES, GOLDEN_WHEEL)
SMALL = (SMALL_FILES, SMALL_WHEEL)


@pytest.fixture(scope="module")
def image() -> Image:
    """The small store of this program."""
    return trio.run(small_image, clock=MockClock(autojump_threshold=0))


def installed(
    spark: SparkSession, root: str, options: tuple[StoreOptions, TimerOptions], now_ms: int
) -> RebuildReport:
    """Rebuild a store in its place."""
    return rebuild(spark, root, install_files=True, options=(*options, ()), now_ms=lambda: now_ms)


def served(
    root: str, options: tuple[StoreOptions, TimerOptions], now_ms: int, seconds: int
) -> Counter[str]:
    """What arrives on topics when the broker goes on with a store for so long."""
    disk = MemoryDisk(now_ms=lambda: now_ms)
    files = read_image(OsDisk(), root)
    write_image(disk, {ROOT + path.removeprefix(root): data for path, data in files.items()})

    async def serve() -> Counter[str]:
        clock = clock_at(now_ms)
        async with running(
            disk, clock, store_options=options[0], timer_options=options[1]
        ) as service:
            await trio.sleep(seconds)
            found = arrivals_everywhere(service.store)
        return Counter(
            one.unique_id for one in found if one.topic not in (TIMER_TOPIC, *OWN_TOPICS)
        )

    return trio.run(serve, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_broker_delivers(
    spark: SparkSession, image: Image, tmp_path: Path, is_lost: bool
) -> None:
    """With the timer files kept or lost: the same messages wait, and each arrives once."""
    root = unpack(without_timers(image) if is_lost else image, tmp_path)
    expected = pending_rows(OsDisk(), unpack(image, tmp_path / "original"))
    (tmp_path / STAGE / "left").mkdir(parents=True)  # what a killed rebuild leaves

    report = installed(spark, root, SMALL, LATER_MS)

    assert expected == pending_rows(OsDisk(), root)
    assert (len(expected), 0) == (report.timers.units - 2 * report.timers.deletes, report.foreign)
    assert not (tmp_path / STAGE).exists()
    assert {f"m{number}": 1 for number in range(60)} == served(root, SMALL, LATER_MS, 120)


def test_what_was_cancelled_and_rolled(spark: SparkSession, tmp_path: Path) -> None:
    """Cancelled and moved messages stay so, whenever they rolled: none comes back."""
    image = trio.run(lambda: rolled_image(stop=True), clock=MockClock(autojump_threshold=0))
    root = unpack(image, tmp_path)
    expected = pending_rows(OsDisk(), root, store_options=QUIET_FILES)
    clean = audit(spark, root)

    installed(spark, root, (QUIET_FILES, SMALL_WHEEL), NOW_MS)

    assert expected == pending_rows(OsDisk(), root, store_options=QUIET_FILES)
    assert [True, True] == [clean.is_clean, audit(spark, root).is_clean]
    store = CheckedStore(
        disk=OsDisk(),
        root=root,
        store_options=QUIET_FILES,
        timer_options=SMALL_WHEEL,
        now_ms=NOW_MS,
    )
    assert [] == damage_of(store)
    arrived = served(root, (QUIET_FILES, SMALL_WHEEL), NOW_MS, 60)
    assert {"stays": 1, "moved before": 1, "moved behind": 1} == arrived


def test_files_of_their_own(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """Without installing the store stays untouched, and the files are those of one process."""
    root = unpack(image, tmp_path / "store")
    rebuild_by_hand(root, str(tmp_path / "expected"))

    rebuild(spark, root, out=str(tmp_path / "new"), options=(*SMALL, ()), now_ms=lambda: LATER_MS)

    files = read_image(OsDisk(), root)
    assert {root + path.removeprefix(ROOT): data for path, data in image.items()} == files | {
        f"{root}/lock": image.get(f"{ROOT}/lock", b"lock")
    }
    assert read_image(OsDisk(), str(tmp_path / "expected")) == {
        path.replace(str(tmp_path / "new"), str(tmp_path / "expected")): data
        for path, data in read_image(OsDisk(), str(tmp_path / "new")).items()
    }


@pytest.mark.parametrize("name", ["g3", "g4"])
def test_stores_of_rocketmq(
    spark: SparkSession, golden_stores: GoldenStores, tmp_path: Path, name: str
) -> None:
    """A store of RocketMQ's: what waits is the same, and arrives once beside what had arrived."""
    root = golden_stores.unpack_copy(name, tmp_path)
    now_ms = golden_stores[name].manifest.times["stopSignalMs"] + 1000
    expected = pending_rows(OsDisk(), root, store_options=GOLDEN_FILES, timer_options=GOLDEN_WHEEL)
    as_it_was = served(root, GOLDEN, now_ms, 900)

    report = installed(spark, root, GOLDEN, now_ms)

    assert report.foreign > 0
    found = pending_rows(OsDisk(), root, store_options=GOLDEN_FILES, timer_options=GOLDEN_WHEEL)
    assert expected == found
    assert as_it_was == served(root, GOLDEN, now_ms, 900)


def test_what_is_served_is_refused(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """A store that a broker serves stays as it is."""
    root = unpack(image, tmp_path)
    lock = StoreLock(OsDisk(), root)
    lock.take()
    before = read_image(OsDisk(), root)

    with pytest.raises(StoreLockedError):
        installed(spark, root, SMALL, LATER_MS)

    lock.release()
    assert before == read_image(OsDisk(), root)


def test_an_object_store_is_refused(spark: SparkSession) -> None:
    """It is not even asked what is there."""
    with pytest.raises(SparkJobError, match=r"^s3://.* expected a directory of this machine"):
        installed(spark, "s3://bucket/store", SMALL, LATER_MS)


def test_a_damaged_log_is_refused(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """The error says where the log is damaged; the timer files stay as they are."""
    root = unpack(image, tmp_path)
    path = sorted((tmp_path / "commitlog").iterdir())[0]
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:4])
    data[size + 4] ^= 1
    path.write_bytes(data)
    wheel = (tmp_path / "timerwheel").read_bytes()

    with pytest.raises(Exception, match="store repair") as raised:
        installed(spark, root, SMALL, LATER_MS)

    assert f"position {size}: magic" in (cause_of(raised.value) or "")
    for _ in range(2):  # what the first one has begun is not in the way of the second
        with pytest.raises(Exception, match="store repair"):
            rebuild(spark, root, out=str(tmp_path / "new"), options=(*SMALL, ()))
    assert wheel == (tmp_path / "timerwheel").read_bytes()


def test_an_empty_store(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing waits in a store without records."""
    (tmp_path / "commitlog").mkdir()

    report = installed(spark, str(tmp_path), SMALL, LATER_MS)

    assert (0, 0, 0) == (report.timers.units, report.done, report.timers.log_end)
    assert not pending_rows(OsDisk(), str(tmp_path))


def test_files_that_are_somebodys(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """A directory with files in it is not written into."""
    root = unpack(image, tmp_path / "store")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").touch()

    with pytest.raises(SparkJobError, match="expected a directory with nothing in it"):
        rebuild(spark, root, out=str(tmp_path / "new"), options=(*SMALL, ()))
