"""How far the log reached, by how its last process ended."""

from __future__ import annotations

import pytest
import trio

from small_store import ROOT, SEGMENT_SIZE, open_store, put_bodies
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.boot_note import write_boot_note
from timermq.timerstore.log_reach import LogReach
from timermq.timerstore.seal_page import SECTOR_SIZE

NOTED = 700
"""Where the log was durable when the last process began."""


def sealed() -> tuple[MemoryDisk, int]:
    """A disk with a log in two segments, and its end, up to which it is durable and sealed."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, *["x" * 100] * 8)
    end = store.commit_log.max_offset
    trio.run(store.aclose)
    write_boot_note(disk, ROOT, NOTED, durably=True)
    return disk, end


def reach(
    disk: MemoryDisk, *, first: int = 0, is_ours: bool = True, last_exit_ok: bool = False
) -> LogReach:
    """What is known of the log of `sealed`."""
    return LogReach.of(
        disk,
        ROOT,
        [0, SEGMENT_SIZE],
        SEGMENT_SIZE,
        first=first,
        is_ours=is_ours,
        last_exit_ok=last_exit_ok,
    )


def test_after_a_stop_all_that_is_sealed_was_there() -> None:
    """The boot note is not asked."""
    disk, end = sealed()

    assert reach(disk, last_exit_ok=True) == LogReach(sealed_to=end, known_to=end, compared_to=end)


def test_after_a_kill_all_that_is_sealed_was_there() -> None:
    """The kernel keeps what was written; the whole of it is compared."""
    disk, end = sealed()
    disk.process_kill()

    assert reach(disk) == LogReach(sealed_to=end, known_to=end, compared_to=end, was_killed=True)


def test_after_a_power_cut_what_the_start_made_durable_was_there() -> None:
    """Seals of the last sector may tell of bytes that the power cut took."""
    disk, end = sealed()
    disk.power_cut()

    assert reach(disk) == LogReach(sealed_to=end, known_to=NOTED, compared_to=NOTED - SECTOR_SIZE)


def test_a_note_tells_nothing_behind_the_newest_segment() -> None:
    """Segments that were removed by hand are not known to have been there."""
    disk, end = sealed()
    write_boot_note(disk, ROOT, 1 << 40, durably=True)
    disk.process_kill()

    assert reach(disk).known_to == 2 * SEGMENT_SIZE > end


@pytest.mark.parametrize("last_exit_ok", [True, False])
def test_of_another_program_nothing_is_certain(last_exit_ok: bool) -> None:
    """It may have written behind the seals, or in place of what they tell."""
    disk, _ = sealed()

    assert reach(disk, is_ours=False, last_exit_ok=last_exit_ok) == LogReach()


def test_seals_of_older_segments_are_not_asked() -> None:
    """What is known of the first segment says nothing behind a position in the second."""
    disk, _ = sealed()
    disk.remove(f"{ROOT}/timermq-seals/commitlog/{SEGMENT_SIZE:020d}")

    assert 0 < reach(disk, last_exit_ok=True).sealed_to <= SEGMENT_SIZE
    assert reach(disk, first=SEGMENT_SIZE, last_exit_ok=True).sealed_to == -1
