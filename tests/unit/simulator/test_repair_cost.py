"""Repairs that bring more rolls than a plan can wait for."""

from __future__ import annotations

from trio.testing import MockClock

from damaged_stores import LATER_MS, checked, on_disk, small_image
from simulation.staged_service import ROOT, SMALL_WHEEL
from timermq.repair.log_survey import Found, LogSurvey
from timermq.repair.segment_row import SegmentRow
from timermq.simulator.repair_cost import rolls_behind
from timermq.timerstore.record import decode_record


async def test_a_lost_delivery_is_read_again_from_its_slot(autojump_clock: MockClock) -> None:
    """Each message that waits rolls through the windows since then; in a sound store none does."""
    disk = on_disk(await small_image())
    store = checked(disk, now_ms=LATER_MS + 10 * SMALL_WHEEL.roll_window_ms)
    sound = rolls_behind(store, 7)
    row = SegmentRow(disk, ROOT, "commitlog", store.store_options.mapped_file_size_commit_log)
    delivered = [
        (one.position, one.size, decode_record(one.data))
        for one in LogSurvey(row)
        if isinstance(one, Found) and decode_record(one.data).topic == "T0"
    ]
    row.close()
    position, size, record = delivered[0]
    start = position - position % row.segment_size
    file = disk.open(f"{ROOT}/commitlog/{start:020d}")
    file.write(position - start, bytes(size))
    file.close()
    windows = (store.now_ms - record.store_ms) // store.timer_options.roll_window_ms

    assert sound == 0
    assert windows > 1
    assert rolls_behind(store, 7) // 7 in (windows, windows + 1)
