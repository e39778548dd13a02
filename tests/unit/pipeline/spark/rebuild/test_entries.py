"""Units made from the commit log are those that the broker makes."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from damaged_stores import GOLDEN_FILES, GOLDEN_WHEEL, LATER_MS, clock_at, small_image
from fakes import START_MS
from golden_stores import GoldenStores
from rebuild_by_hand import rows_of, unpack
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL, running, timed
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.foreign_key import foreign_key_in, pending_key
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.pipeline.spark.rebuild import plan as plan_module
from timermq.pipeline.spark.rebuild.offline_store import StoppedStore, open_stopped
from timermq.pipeline.stages.roll import roll_targets
from timermq.simulator.disks.disk_damage import Image, read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_ROLL, UNIT, slot_times
from timermq.timerlog.unit import Units
from timermq.timerstore.message import Message
from timermq.timerstore.os_disk import OsDisk

SAME = ("size", "offset_py", "size_py", "topic_hash", "reserved")
"""Fields that do not depend on when the unit is made."""


def units_of(rows: list[dict[str, object]]) -> Units:
    """The units of those rows that have one."""
    data = [cast("bytes", row["unit"]) for row in rows if row["unit"] is not None]
    return np.frombuffer(b"".join(data), UNIT.dtype)


def stored(*messages: Message, now_ms: int = START_MS) -> Image:
    """The files of a store into which messages were put past the timers' admission."""

    async def put() -> Image:
        clock = clock_at(now_ms)
        disk = MemoryDisk(now_ms=clock.now_ms)
        async with running(disk, clock, stop=False) as service:
            service.store.put(list(messages))
        return read_image(disk, ROOT)

    return trio.run(put, clock=MockClock(autojump_threshold=0))


def admitted(*moments_ms: int) -> Image:
    """The files of a store that has a message for each moment, none enqueued."""

    async def put() -> Image:
        clock = clock_at(START_MS)
        disk = MemoryDisk(now_ms=clock.now_ms)
        async with running(disk, clock, stop=False) as service:
            service.put([timed(f"m{at}", at_ms) for at, at_ms in enumerate(moments_ms)])
        return read_image(disk, ROOT)

    return trio.run(put, clock=MockClock(autojump_threshold=0))


def opened_rows(
    image: Image, directory: Path, what: str, now_ms: int
) -> tuple[list[dict[str, object]], StoppedStore]:
    """What the reader finds, and the store (closed by now)."""
    root = unpack(image, directory)
    with open_stopped(root, SMALL_FILES, SMALL_WHEEL, lambda: now_ms) as opened:
        return rows_of(opened, what), opened


def test_units_of_the_broker(tmp_path: Path) -> None:
    """Beside those of what was delivered or rolled, the log of the broker has the same units."""
    image = trio.run(small_image, clock=MockClock(autojump_threshold=0))
    root = unpack(image, tmp_path)
    with open_stopped(root, SMALL_FILES, SMALL_WHEEL, lambda: LATER_MS) as opened:
        found = units_of(rows_of(opened, "units"))
    files = TimerFiles.open(OsDisk(), root, SMALL_WHEEL, read_only=True)
    files.timer_log.recover(0)

    written = np.concatenate([units for _, units in files.timer_log.scan(0)])

    expected = {unit["offset_py"]: unit for unit in written}
    assert expected.keys() == set(found["offset_py"].tolist())
    for unit in found[slot_times(found) > LATER_MS]:
        assert all(unit[name] == expected[unit["offset_py"]][name] for name in SAME)
        is_roll = expected[unit["offset_py"]]["magic"] & MAGIC_ROLL
        if not (is_roll or unit["magic"] & MAGIC_ROLL):
            assert slot_times(unit) == slot_times(expected[unit["offset_py"]])


def test_what_is_due_already(tmp_path: Path) -> None:
    """It goes to the slot that is read first, where its record tells its moment."""
    image = admitted(START_MS + 1_500, START_MS + 9_500)

    rows, opened = opened_rows(image, tmp_path, "units", START_MS + 5_300)
    units = units_of(rows)

    # Nothing was read in so short a life: without a checkpoint reading goes on in the present.
    assert START_MS + 5_000 == opened.plan.read_ms
    assert [START_MS + 5_000, START_MS + 9_000] == slot_times(units).tolist()
    assert [True, False] == (units["reserved"] == 0).tolist()


def test_beyond_the_window(tmp_path: Path) -> None:
    """What lies further ahead than the window waits on the way, where the broker would have it."""
    image = admitted(START_MS + 19_500, START_MS + 100_000)

    rows, opened = opened_rows(image, tmp_path, "units", START_MS)
    units = units_of(rows)

    (expected,) = roll_targets(
        np.array([START_MS + 99_000]),
        units["offset_py"][1:].astype(np.int64),
        write_ms=opened.plan.write_ms,
        window_ms=20_000,
        precision_ms=1000,
    )
    assert [START_MS + 19_000, expected] == slot_times(units).tolist()
    assert [0, MAGIC_ROLL] == (units["magic"] & MAGIC_ROLL).tolist()
    assert slot_times(units).max() < opened.plan.ring_end_ms


@pytest.mark.parametrize("properties", [b"", b"TIMER_OUT_MS\x01soon\x02REAL_TOPIC\x01T\x02"])
def test_no_unit_can_be_made(tmp_path: Path, properties: bytes) -> None:
    """A record that is no timer's has a row without a unit: it is left to the broker."""
    image = stored(
        Message(TIMER_TOPIC, 0, b"x", b"UNIQ_KEY\x01a\x02" + properties), timed("later", START_MS)
    )

    rows, _ = opened_rows(image, tmp_path, "units", START_MS)

    assert [(0, None)] == [(row["queue_offset"], row["unit"]) for row in rows if not row["slot_ms"]]


def test_deletes_of_ours_need_no_unit(tmp_path: Path) -> None:
    """A cancel and a move leave rows of what is done, and units of what waits alone."""

    async def cancelled() -> Image:
        clock = clock_at(START_MS)
        disk = MemoryDisk(now_ms=clock.now_ms)
        async with running(disk, clock) as service:
            service.put([timed(name, START_MS + 8_000) for name in ("gone", "moved", "stays")])
            await trio.sleep(0.1)
            service.cancellation.cancel(Wanted("T", "gone"))
            service.cancellation.reschedule(Wanted("T", "moved"), START_MS + 9_000)
            await trio.sleep(0.1)
        return read_image(disk, ROOT)

    image = trio.run(cancelled, clock=MockClock(autojump_threshold=0))

    rows, _ = opened_rows(image, tmp_path, "units", START_MS)
    done, _ = opened_rows(image, tmp_path / "again", "done", START_MS)

    gone = {row["origin_py"] for row in done} - {None}
    assert 2 == len(gone)
    assert gone == {row["taken_py"] for row in done} - {None}
    assert 4 == len(rows)
    assert 2 == len([row for row in rows if row["offset_py"] not in gone])


def test_keys_of_rocketmq(golden_stores: GoldenStores, tmp_path: Path) -> None:
    """What RocketMQ delivered or rolled answers by the key of the record that waited."""
    root = golden_stores.unpack_copy("g3", tmp_path)
    with open_stopped(root, GOLDEN_FILES, GOLDEN_WHEEL, lambda: LATER_MS) as opened:
        done, keys = rows_of(opened, "done"), rows_of(opened, "keys")
        log = opened.store.commit_log
        records = {
            phy_offset: log.record_at(phy_offset, size) or b""
            for phy_offset, size in log.scan(0, check_crc=False)
        }

    foreign = [foreign_key_in(record) for record in records.values()]
    assert [b"\x01".join(key) for key in foreign if key is not None] == [
        row["foreign_key"] for row in done
    ]
    assert {row["foreign_key"] for row in done} & {row["foreign_key"] for row in keys}
    assert [b"\x01".join(pending_key(records[cast("int", row["origin_py"])])) for row in keys] == [
        row["foreign_key"] for row in keys
    ]


def test_parts_begin_with_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the parts are, together they have each record once."""
    image = trio.run(small_image, clock=MockClock(autojump_threshold=0))
    whole, opened = opened_rows(image, tmp_path / "whole", "units", LATER_MS)
    monkeypatch.setattr(plan_module, "SPAN_BYTES", 700)

    parts, cut = opened_rows(image, tmp_path / "cut", "units", LATER_MS)

    assert whole == parts
    assert len(cut.plan.spans) > 3 * len(opened.plan.spans)
