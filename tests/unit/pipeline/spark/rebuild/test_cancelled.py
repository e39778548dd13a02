"""What was cancelled or moved stays so in a rebuilt store, whatever it was rolled to."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from damaged_stores import clock_at
from fakes import START_MS
from rebuild_by_hand import pending_rows, rebuild_by_hand, unpack, without_timers
from rolled_stores import DUE_MS, NOW_MS, rolled_image
from simulation.staged_service import QUIET_FILES, ROOT, running, timed
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.spark.rebuild import plan as plan_module
from timermq.simulator.disks.disk_damage import Image, read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.os_disk import OsDisk


async def cut_off_image() -> Image:
    """A store with the delete of a move alone, as a power cut may leave it, and its message rolled.

    Another message stands where the moved one should.
    """
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=QUIET_FILES) as service:
        service.put([timed("stays", DUE_MS)])
        await trio.sleep(1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.store, "put", partial(_first_alone, service.store.put))
            with pytest.raises(IndexError):
                service.cancellation.reschedule(Wanted("T", "stays"), DUE_MS - 9_000)
        await trio.sleep((NOW_MS - clock.now_ms()) / 1000)
    return read_image(disk, ROOT)


def _first_alone(put: Any, messages: Any, **options: Any) -> Any:  # noqa: ANN401 - as of the store
    return put(messages[:1], **options)


def rebuilt(image: Image, directory: Path) -> tuple[list[str], list[str]]:
    """The pending messages, by unique key, in the files as they are and as made anew."""
    expected = pending_rows(
        OsDisk(), unpack(image, directory / "as it was"), store_options=QUIET_FILES
    )
    again = unpack(without_timers(image), directory / "again")
    rebuild_by_hand(again, again, store_options=QUIET_FILES, now_ms=lambda: NOW_MS)
    found = pending_rows(OsDisk(), again, store_options=QUIET_FILES)
    return [row.unique_id for row in expected], [row.unique_id for row in found]


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("span_bytes", [1 << 26, 300])
def test_what_has_rolled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: bool, span_bytes: int
) -> None:
    """No copy of a message comes back, also where a delete ends a part and a move begins one."""
    image = trio.run(lambda: rolled_image(stop=stop), clock=MockClock(autojump_threshold=0))
    monkeypatch.setattr(plan_module, "SPAN_BYTES", span_bytes)

    expected, found = rebuilt(image, tmp_path)

    assert ["moved before", "moved behind", "stays"] == sorted(expected)
    assert expected == found


@pytest.mark.parametrize("span_bytes", [1 << 26, 300])
def test_a_move_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span_bytes: int
) -> None:
    """Its delete takes nothing back: the message waits."""
    image = trio.run(cut_off_image, clock=MockClock(autojump_threshold=0))
    monkeypatch.setattr(plan_module, "SPAN_BYTES", span_bytes)

    expected, found = rebuilt(image, tmp_path)

    assert ["stays"] == expected == found
