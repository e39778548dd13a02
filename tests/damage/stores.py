"""Small stores of every kind, stopped in order and killed, as images to be damaged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache

import attrs
import trio
import trio.testing

from fakes import START_MS, VirtualClock
from left_levels import leave, waiting
from simulation.bulk_workloads import SOME
from simulation.staged_service import HOST, ROOT, timed
from simulation.transaction_workloads import half
from timermq.broker.transactions.half_message import HalfMessage, decode_half
from timermq.pipeline.quarantine.quarantine_record import State
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.simulator.disks.disk_damage import Image, read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.run import seeded_scheduling
from timermq.timerstore.message import Message

from .process import FILES, Parts, Process, serving

OVER_MS = START_MS + 60_000
"""By now all is due."""
Pause = Callable[[], None]
"""Notes the files as they are: where stale sectors come from."""
Act = Callable[[Process, Pause], Awaitable[None]]


@attrs.frozen(eq=False)
class Store:
    """The files of a store between two processes."""

    name: str
    """Kind and end, as ``moved-killed``."""
    image: Image
    earlier: Image
    """The files as they were some time before."""
    now_ms: int
    """When it was left."""
    parts: Parts


def plain(body: str) -> Message:
    """A message without a moment."""
    text = f"UNIQ_KEY\x01{body}\x02"
    return Message("P", 0, body.encode(), text.encode(), born_host=HOST)


def at(name: str, seconds: float) -> Message:
    """A message for so long after the start."""
    return timed(name, START_MS + int(seconds * 1000))


async def _pending(process: Process, pause: Pause) -> None:
    put = process.service.put
    put([at("d0", 1.5), plain("p0"), at("w0", 14.5)])
    await trio.sleep(3)
    pause()
    put([at("w1", 14.5), plain("p1"), at("w2", 19.25)])
    await trio.sleep(1.7)


async def _rolled(process: Process, pause: Pause) -> None:
    put = process.service.put
    put([at("d0", 1), at("r0", 45), at("r1", 23.5), at("w0", 18)])
    await trio.sleep(2)
    pause()
    put([at("r2", 47)])
    await trio.sleep(8.6)


async def _cancelled(process: Process, pause: Pause) -> None:
    put = process.service.put
    put([at("d0", 0.5), at("c0", 14), at("c1", 46), at("c2", 12.5), at("w0", 14)])
    await trio.sleep(1)
    _cancel(process, "c0", "c1")
    pause()
    await trio.sleep(10.3)
    put([at("w1", 15)])
    _cancel(process, "c2")
    await trio.sleep(0.4)


def _cancel(process: Process, *names: str) -> None:
    for name in names:
        found = process.service.cancellation.cancel(Wanted("T", name))
        assert found.verdict is Verdict.CANCELLED


async def _moved(process: Process, pause: Pause) -> None:
    put = process.service.put
    put([at("d0", 0.5), at("m0", 16), at("m1", 48), at("w0", 16)])
    await trio.sleep(1)
    pause()
    _move(process, "m0", 18)
    _move(process, "m1", 20)
    await trio.sleep(10.3)
    _move(process, "m0", 14)
    await trio.sleep(0.4)


def _move(process: Process, name: str, seconds: int) -> None:
    found = process.service.cancellation.reschedule(Wanted("T", name), START_MS + seconds * 1000)
    assert found.verdict is Verdict.CANCELLED


async def _transactions(process: Process, pause: Pause) -> None:
    assert process.transactions is not None
    assert process.saver is not None
    halves: list[HalfMessage] = []
    for number in range(4):
        (one,) = process.transactions.put_halves([half(number)], [""])
        data = process.service.store.commit_log.record_at(one.result.phy_offset, one.result.size)
        assert data is not None
        halves.append(decode_half(data))
    await trio.sleep(0.1)
    process.transactions.commit(halves[1])
    await trio.sleep(0.9)
    process.transactions.commit_offsets()
    process.transactions.commit_offsets()
    await process.saver.save()
    pause()
    process.transactions.rollback(halves[2])
    process.service.put([at("w0", 9)])
    await trio.sleep(1.2)


async def _quarantine(process: Process, pause: Pause) -> None:
    for number in range(3):
        out = START_MS + 4_000
        text = f"UNIQ_KEY\x01q{number}\x02TIMER_OUT_MS\x01{out}\x02"
        body = f"q{number}".encode()
        process.service.store.put([Message(TIMER_TOPIC, 0, body, text.encode(), born_host=HOST)])
    process.service.put([at("w0", 12)])
    await trio.sleep(1)
    pause()
    entry, _ = next(process.service.quarantine.entries())
    ended = process.service.quarantine.end(entry.origin_py, State.DROPPED, "operator")
    assert ended.refusal is None
    await trio.sleep(1)


async def _bulk(process: Process, pause: Pause) -> None:
    assert process.bulk is not None
    process.service.put([at("w0", 9)])
    await trio.sleep(1.5)
    await process.bulk.run_job(SOME, "run")
    pause()
    await trio.sleep(0.001)


async def _levels(process: Process, pause: Pause) -> None:
    process.service.put([at("w0", 9)])
    await trio.sleep(2)
    pause()
    process.service.put([at("w1", 9)])
    await trio.sleep(0.6)


KINDS: dict[str, tuple[Act, Parts]] = {
    "pending": (_pending, Parts()),
    "rolled": (_rolled, Parts()),
    "cancelled": (_cancelled, Parts()),
    "moved": (_moved, Parts()),
    "transactions": (_transactions, Parts(transactions=True)),
    "quarantine": (_quarantine, Parts()),
    "bulk": (_bulk, Parts(bulk=True)),
    "levels": (_levels, Parts()),
}
ENDS = ("stopped", "killed")
NAMES = tuple(f"{kind}-{end}" for kind in KINDS for end in ENDS)


@cache
def store_named(name: str) -> Store:
    """The store of a name; it is the same each time."""
    kind, _, end = name.partition("-")
    act, parts = KINDS[kind]
    clock = trio.testing.MockClock(autojump_threshold=0)
    with seeded_scheduling(1):
        return trio.run(_made, name, act, parts, end, clock=clock)


async def _made(name: str, act: Act, parts: Parts, end: str) -> Store:
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    if name.startswith("levels"):
        messages = [waiting(f"l{number}", number % 4 + 1) for number in range(6)]
        leave(disk, FILES, clock.now_ms, messages, {})
        disk.process_kill()
    notes: list[Image] = []
    async with serving(disk, clock, parts, stop=end == "stopped") as process:
        await act(process, lambda: notes.append(read_image(disk, ROOT)))
    if end == "killed":
        disk.process_kill()
    return Store(name, read_image(disk, ROOT), notes[0], clock.now_ms(), parts)
