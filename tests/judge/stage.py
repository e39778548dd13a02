"""What acts know of the store that is served, and of the life in which they are done."""

from __future__ import annotations

from random import Random
from typing import Protocol

import trio

from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.message_store import MessageStore

from .mortal_disk import MortalDisk, WallClock
from .notebook import Letter
from .reader import Log
from .setting import Setting

TOPICS = ("T0", "T1")


class Stage(Protocol):
    """Where the acts take place."""

    @property
    def draw(self) -> Random: ...
    @property
    def setting(self) -> Setting: ...
    @property
    def disk(self) -> MortalDisk: ...
    @property
    def clock(self) -> WallClock: ...
    @property
    def letters(self) -> list[Letter]: ...
    def owe(self, end: int) -> None: ...
    def read_log(self) -> Log: ...
    def tell(self, text: str) -> None: ...
    def count(self, what: str, count: int = 1) -> None: ...
    def breach(self, text: str) -> None: ...
    def set_clock(self, by_ms: int) -> None: ...
    def end_within(self, steps: int) -> None: ...


async def is_told(stage: Stage, service: TimerMessageStore, end: int) -> bool:
    """Wait until an answer may be given; whether the process lives to give it."""
    if stage.disk.is_dead:
        return False
    if service.store.options.is_sync_flush:
        if not await service.store.wait_flushed(end) or stage.disk.is_dead:
            return False
        stage.owe(end)
    return True


async def serve(
    part: MessageStore | TimerMessageStore,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run one part of a process; it has started when it says so."""
    await part.run(task_status=task_status)
