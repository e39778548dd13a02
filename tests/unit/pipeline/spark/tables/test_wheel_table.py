"""Slots tell what a live broker has published, wherever it is within a flush."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.options import ReadOptions
from timermq.pipeline.spark.store_view import StoreView
from timermq.pipeline.spark.tables.timer_log_table import TimerLogReader
from timermq.pipeline.spark.tables.wheel_table import TABLE, WheelReader
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_lock import StoreLock
from timermq.wheel import TimerWheel
from unit.pipeline.recovery.crashed_store import OPTIONS
from unit.pipeline.spark.store_directories import Row, crashed_directory, rows_of


def write_wheel(root: str, units: list[Row], read_ms: int) -> None:
    """The wheel file as a flush writes it that has not come to its checkpoint."""
    wheel = TimerWheel.open(OsDisk(), f"{root}/timerwheel", slots_total=OPTIONS.slots_total)
    wheel.load_live(read_ms)
    wheel.relink(
        np.array([unit["slot_ms"] for unit in units]),
        np.array([unit["pos"] for unit in units]),
        np.array([-1 if unit["is_delete"] else 1 for unit in units], np.int32),
    )
    wheel.write_dirty(wheel.snapshot_dirty())
    wheel.close()


def slots_of(view: StoreView) -> dict[int, tuple[int, int, int]]:
    """The table: first and last position, and number, by slot."""
    reader = WheelReader(ReadOptions(path=view.root), TABLE.names)
    batches = [batch for span in reader.spans(view) for batch in reader.batches(span)]
    return {
        row["slot_ms"]: (row["first_pos"], row["last_pos"], row["num"])
        for batch in batches
        for row in batch.to_pylist()
    }


def linked(units: list[Row], read_ms: int) -> dict[int, tuple[int, int, int]]:
    """What slots hold when these units are linked, one after the other."""
    found: dict[int, tuple[int, int, int]] = {}
    for unit in units:
        if unit["slot_ms"] >= read_ms:
            first, _, num = found.get(unit["slot_ms"], (unit["pos"], 0, 0))
            found[unit["slot_ms"]] = first, unit["pos"], num + (-1 if unit["is_delete"] else 1)
    return found


def test_slots_of_a_live_broker(tmp_path: Path) -> None:
    """Units behind the published end of the timer log are not told of, whatever the file shows."""
    _, root = crashed_directory(tmp_path)
    units, lock = rows_of(TimerLogReader, root), StoreLock(OsDisk(), root)
    lock.take()
    try:
        view = StoreView.of(root)
        read_ms, published = view.read_ms, [one for one in units if one["pos"] < view.timer_log.end]
        before = slots_of(view)
        write_wheel(root, units, read_ms)

        assert view.is_live
        assert linked(published, read_ms) == before == slots_of(view)
        assert linked(units, read_ms) != before
        assert linked(units, read_ms) == slots_of(attrs.evolve(view, is_live=False))
        for at, unit in enumerate(units):
            log = attrs.evolve(view.timer_log, end=unit["pos"])
            found = slots_of(attrs.evolve(view, timer_log=log))
            assert linked(units[:at], read_ms) == found
        assert any(unit["is_delete"] and unit["slot_ms"] >= read_ms for unit in units)
    finally:
        lock.release()


def test_units_that_have_gone(tmp_path: Path) -> None:
    """A slot whose units cannot be read is no slot without them."""
    _, root = crashed_directory(tmp_path)
    units, view = rows_of(TimerLogReader, root), StoreView.of(root)
    write_wheel(root, units, view.read_ms)
    newest = Path(view.timer_log.path(view.timer_log.starts[-1]))
    newest.write_bytes(bytes(newest.stat().st_size))

    with pytest.raises(SparkJobError, match=r"found no unit at \d+: the broker has removed what"):
        slots_of(attrs.evolve(view, is_live=True, timer_log=attrs.evolve(view.timer_log, end=0)))
