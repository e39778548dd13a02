"""Stores for audits: lives of the real service in virtual time, then its files in a directory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from trio.testing import MockClock

from fakes import VirtualClock
from left_levels import leave, waiting
from simulation.staged_service import (
    HOST,
    QUIET_FILES,
    ROOT,
    delete_of,
    running,
    timed,
)
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.disk_damage import Image, read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.store_options import StoreOptions

Life = Callable[[MemoryDisk, VirtualClock], Awaitable[None]]


def written(life: Life, directory: Path) -> Path:
    """Live a life, and write the files that it leaves into a directory; returns the store's."""
    disk = MemoryDisk()

    async def whole() -> None:
        clock = VirtualClock()
        disk.now_ms = clock.now_ms
        await life(disk, clock)

    trio.run(whole, clock=MockClock(autojump_threshold=0))
    return write_files(read_image(disk, ROOT), directory)


def write_files(image: Image, directory: Path) -> Path:
    """Write the files of a staged disk into a directory; returns the store's."""
    store = directory / "store"
    for path, data in image.items():
        target = store / path.removeprefix(f"{ROOT}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return store


def put(service: TimerMessageStore, body: str, ahead_ms: int, clock: VirtualClock) -> int:
    """Send a message; returns the position of its record."""
    (put,) = service.put([timed(body, clock.now_ms() + ahead_ms)])
    assert put.result.status.is_stored
    return put.result.phy_offset


def change(disk: MemoryDisk, old: bytes, new: bytes) -> None:
    """Change the newest bytes of the log that are ``old``."""
    file = disk.open(f"{ROOT}/commitlog/{0:020}")
    file.write(file.read(0, file.size()).rindex(old), new)


async def send_all_kinds(service: TimerMessageStore, clock: VirtualClock, name: str) -> None:
    """Messages that arrive, roll, are cancelled in every way, moved, or cannot be delivered."""
    for number in range(12):
        put(service, f"{name}{number}", 400 * number, clock)
    for number in range(3):
        put(service, f"{name}far{number}", 45_000 + number, clock)
        put(service, f"{name}same{number}", 6_500, clock)
    for ahead_ms, key in ((7_000, "near"), (50_000, "rolls")):
        at_ms = clock.now_ms() + ahead_ms
        service.put([timed(f"{name}{key}", at_ms), timed(f"{name}{key} too", at_ms)])
        service.put([delete_of(f"{name}{key}", at_ms)])
        assert _cancel(service, f"{name}{key} too") is Verdict.CANCELLED
    put(service, f"{name}moves", 30_000, clock)
    for ahead_ms in (9_000, 9_100, 41_000, 9_200):
        service.cancellation.reschedule(Wanted("T", f"{name}moves"), clock.now_ms() + ahead_ms)
    slot_ms = clock.now_ms() // 1000 * 1000 + 2_000
    stated = f"UNIQ_KEY={name}p;TIMER_OUT_MS={slot_ms};REAL_TOPIC=a/../b;REAL_QID=0;"
    text = stated.replace("=", "\x01").replace(";", "\x02")
    for _ in range(3):
        service.store.put([Message(TIMER_TOPIC, 0, b"poison", text.encode(), born_host=HOST)])
    service.store.put([Message("plain", 1, b"at once", b"", born_host=HOST)])
    await trio.sleep(5)
    first, second, _ = [entry.origin_py for entry, _ in service.quarantine.entries()][-3:]
    service.release.retry(first, by="me", topic="T")
    service.release.drop(second, by="me")


def _cancel(service: TimerMessageStore, key: str) -> Verdict:
    return service.cancellation.cancel(Wanted("T", key)).verdict


def all_kinds(*, stop: bool, files: StoreOptions = QUIET_FILES) -> Life:
    """Three lives, the first two killed, with outages between them; the last one as asked."""

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        for name in ("a", "b", "c"):
            is_last = name == "c"
            async with running(disk, clock, store_options=files, stop=stop and is_last) as service:
                await send_all_kinds(service, clock, name)
                await trio.sleep(21.3)
            if not (stop and is_last):
                disk.process_kill()
            await trio.sleep(4)

    return life


async def taken_over(disk: MemoryDisk, clock: VirtualClock) -> None:
    """What RocketMQ left waiting for classic levels is taken over, and partly delivered."""
    messages = [waiting(f"level{number}", 3 + number % 2) for number in range(6)]
    leave(disk, QUIET_FILES, clock.now_ms, messages, {})
    disk.process_kill()
    async with running(disk, clock, store_options=QUIET_FILES):
        await trio.sleep(15)
