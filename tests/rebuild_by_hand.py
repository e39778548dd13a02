"""The rebuild of a small store without Spark: the same reader and layout, joined by a set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from pyspark.sql.datasource import InputPartition

from damaged_stores import LATER_MS
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL
from timermq.pipeline.cancel.pending_listing import PendingTimer
from timermq.pipeline.offline_store import open_offline
from timermq.pipeline.spark.rebuild.entries import EntryReader
from timermq.pipeline.spark.rebuild.new_files import NewTimers, lay_out
from timermq.pipeline.spark.rebuild.offline_store import StoppedStore, open_stopped
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.disk_damage import Image, read_image, write_image
from timermq.timerlog import UNIT
from timermq.timerstore.disk import Disk
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

TIMER_FILES = ("timerwheel", "timerlog/", "config/timercheck", "config/timermetrics")


def unpack(image: Image, directory: Path) -> str:
    """Write the files of a store into a directory; returns it."""
    root = str(directory)
    write_image(OsDisk(), {root + path.removeprefix(ROOT): data for path, data in image.items()})
    return root


def pack(root: str) -> Image:
    """The files of a directory as those of `ROOT`."""
    found = read_image(OsDisk(), root)
    return {ROOT + path.removeprefix(root): data for path, data in found.items()}


def without_timers(image: Image) -> Image:
    """The files without those of the timers."""
    return {
        path: data
        for path, data in image.items()
        if not path.removeprefix(f"{ROOT}/").startswith(TIMER_FILES)
    }


def rows_of(opened: StoppedStore, what: str) -> list[dict[str, object]]:
    """What the reader finds in all parts."""
    reader = EntryReader(opened.plan, what)
    found: list[dict[str, object]] = []
    for span in opened.plan.spans:
        for batch in reader.read(InputPartition(span)):
            found += batch.to_pylist()
    return found


def taken_orders(rows: list[dict[str, object]]) -> set[object]:
    """The orders of messages that are cancelled."""
    moved = {(row["entry"], row["target_py"]) for row in rows if row["taken_py"] is None}
    return {
        row["taken_py"]
        for row in rows
        if row["taken_py"] is not None
        and (row["entry"] is None or (row["entry"], row["target_py"]) in moved)
    }


def rebuild_by_hand(
    root: str,
    staged: str,
    *,
    store_options: StoreOptions = SMALL_FILES,
    timer_options: TimerOptions = SMALL_WHEEL,
    now_ms: Callable[[], int] = lambda: LATER_MS,
) -> NewTimers:
    """Make the timer files of a store without foreign deliveries anew, under a directory."""
    with open_stopped(root, store_options, timer_options, now_ms) as opened:
        told = rows_of(opened, "done")
        done, taken = {row["origin_py"] for row in told}, taken_orders(told)
        rows = [
            row
            for row in rows_of(opened, "units")
            if row["offset_py"] not in done and row["order_py"] not in taken
        ]
        rows.sort(key=lambda row: (str(row["slot_ms"]), str(row["order_py"]).zfill(20)))
        data = b"".join(row["unit"] for row in rows if isinstance(row["unit"], bytes))
        units = np.frombuffer(bytearray(data), UNIT.dtype)
        return lay_out(
            OsDisk(),
            staged,
            timer_options,
            opened.plan,
            [units] if len(units) else [],
            before=opened.checkpoint,
            queue_offset=opened.plan.queue_end,
            topics=opened.topics(),
            now_ms=now_ms(),
        )


def pending_rows(
    disk: Disk,
    root: str = ROOT,
    *,
    store_options: StoreOptions = SMALL_FILES,
    timer_options: TimerOptions = SMALL_WHEEL,
) -> list[PendingTimer]:
    """What a store would deliver, by position."""
    with open_offline(disk, root, store_options, timer_options) as offline:
        return sorted(offline.pending(), key=lambda row: row.phy_offset)
