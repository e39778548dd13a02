"""Stores whose messages were cancelled or moved before and after they rolled."""

from __future__ import annotations

import trio

from damaged_stores import clock_at
from fakes import START_MS, VirtualClock
from simulation.staged_service import QUIET_FILES, ROOT, running, timed
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.disk_damage import Image, read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message

NOW_MS = START_MS + 30_000
"""All messages have rolled by then; the window is 20 s wide."""
DUE_MS = START_MS + 50_000


async def rolled_image(*, stop: bool) -> Image:
    """A store whose messages were cancelled or moved before and after they rolled."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=QUIET_FILES, stop=stop) as service:
        names = ("stays", "gone before", "moved before", "gone behind", "moved behind")
        service.put([timed(name, DUE_MS) for name in names])
        await trio.sleep(1)
        cancel_and_move(service, "before")
        await trio.sleep(25)
        cancel_and_move(service, "behind")
        await trio.sleep((NOW_MS - clock.now_ms()) / 1000)
    return read_image(disk, ROOT)


def cancel_and_move(service: TimerMessageStore, when: str) -> None:
    """Take one message back, and give another one a moment of its own."""
    cancelled = service.cancellation.cancel(Wanted("T", f"gone {when}"))
    moved = service.cancellation.reschedule(Wanted("T", f"moved {when}"), DUE_MS - 9_000)
    assert [cancelled.verdict, moved.verdict] == [Verdict.CANCELLED] * 2


async def worn_life(disk: MemoryDisk, clock: VirtualClock) -> None:
    """Messages that are cancelled and moved, whose first records stand in the oldest segment.

    In the segments behind stand the delete of one, the rolled delete of another, the message that a
    third one was moved to, and of a fourth its rolled copy alone.
    """
    async with running(disk, clock, store_options=QUIET_FILES) as service:
        names = ("delete stays", "moved", "delete rolls")
        service.put([timed(name, clock.now_ms() + 50_000) for name in names])
        service.put([timed("copy alone", clock.now_ms() + 26_000)])
        await trio.sleep(7.5)
        for name in ("delete rolls", "copy alone"):
            service.cancellation.cancel(Wanted("T", name))
        for _ in range(40):
            service.store.put([Message("plain", 0, b"x" * 3000, b"")])
        service.cancellation.cancel(Wanted("T", "delete stays"))
        service.cancellation.reschedule(Wanted("T", "moved"), clock.now_ms() + 40_000)
        await trio.sleep(60)
        service.put([timed("late", clock.now_ms() + 5_000)])
        await trio.sleep(1)
