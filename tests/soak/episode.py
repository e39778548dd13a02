"""One episode: a fresh store, load, trouble, a drained end, and the judgement."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import attrs
import trio

from timermq.client.history import Deliver, End, Event, HistoryWriter, read_history
from timermq.client.moment import now_ms
from timermq.simulator.rules.check import Report, check

from .cleaning import Ageing, Cleaned
from .load import Load
from .real_clients import CPP, RealClient
from .small_disk import SmallDisk
from .trouble import Trouble

PRODUCERS = 2
CANCELLERS = 2
LATE_SECONDS = 15.0
"""How long after the last moment something may still arrive: the machine is busy."""


class NotDrainedError(Exception):
    """The reader at the end did not see everything; nothing can be judged."""


class Endured(Protocol):
    """The brokers of an episode, and what happens to them."""

    async def start(self) -> None:
        """Start them; they serve when it returns."""
        ...

    async def run(self) -> None:
        """One thing after the other, for ever."""
        ...

    async def settle(self) -> None:
        """Let all of them run, and do nothing more to them."""
        ...


@attrs.frozen
class Judgement:
    """What consumers saw while it happened, and what the queues held afterwards."""

    seen: Report
    held: Report
    exit_code: int
    cleaned: Cleaned | None = None
    """None: cleaning was not forced."""

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept, the broker ended in order, and forced cleaning came."""
        has_cleaned = self.cleaned is None or (self.cleaned.log > 0 and self.cleaned.timer_log > 0)
        return self.seen.is_clean and self.held.is_clean and self.exit_code == 0 and has_cleaned


async def run_episode(
    directory: Path, seconds: float, seed: int, disk: SmallDisk | None, cleans: bool
) -> Judgement:
    """Run one; histories stay in ``directory``.

    Args:
        directory: Empty; the store is in it, or on the small disk.
        seconds: Of load and trouble.
        seed: Decides what is sent and done, though not when it meets.
        disk: The disk that is filled now and then.
        cleans: Whether cleaning is forced.

    Raises:
        NotDrainedError: Not everything could be read.
        PinBrokenError: Cleaning took what is needed.
        BrokerEndedError: A broker ended without being asked to.
    """
    draw = random.Random(seed)
    store = (directory if disk is None else disk.root) / "store"
    with HistoryWriter(directory / "trouble.jsonl", who="trouble") as history:
        log = directory / "broker.log"
        trouble = Trouble(store, history, draw, log=log, disk=disk, cleans=cleans)
        load = Load(trouble.namesrv, directory)
        try:
            also = (Ageing(store, lambda: load.read_to).run,) if cleans else ()
            await endure(trouble, load, seconds, draw, (CPP,), also)
            exit_code = await trio.to_thread.run_sync(trouble.finish)
        finally:
            trouble.end_now()
    return judge(directory, exit_code, Cleaned.of(store) if cleans else None)


async def endure(
    trouble: Endured,
    load: Load,
    seconds: float,
    draw: random.Random,
    clients: Sequence[RealClient],
    also: Sequence[Callable[[], Awaitable[None]]] = (),
) -> None:
    """Start brokers, load them while trouble is made, and read all that is there at the end.

    Args:
        trouble: The brokers.
        load: Our own clients.
        seconds: Of load and trouble.
        draw: Decides what is sent.
        clients: Of RocketMQ.
        also: What else runs meanwhile.
    """
    await trouble.start()
    await load.make_topics()
    async with trio.open_nursery() as consuming:
        consuming.start_soon(load.consume, "consumer", "soak")
        for task in also:
            consuming.start_soon(task)
        async with trio.open_nursery() as nursery:
            _start_load(nursery, load, clients, draw)
            nursery.start_soon(trouble.run)
            await trio.sleep(seconds)
            nursery.cancel_scope.cancel()
        await trouble.settle()
        await trio.sleep(max(load.last_due_ms - now_ms(), 0) / 1000 + LATE_SECONDS)
        consuming.cancel_scope.cancel()
    await load.audit("audit")


def judge(directory: Path, exit_code: int, cleaned: Cleaned | None = None) -> Judgement:
    """Judge the histories of an episode, twice: each kind of reader must have it all.

    What was cleaned, the reader at the end could not read: before its first message of a queue it
    has what the consumers saw.
    """
    files = sorted(directory.glob("*.jsonl"))
    ends = [event for _, event in read_history(directory / "audit.jsonl") if isinstance(event, End)]
    if not ends or not ends[-1].drained:
        raise NotDrainedError(f"{directory}: the reader at the end was not through")

    def report(without: str) -> Report:
        events = {one.name: read_history(one) for one in files if one.stem != without}
        if without == "consumer" and cleaned is not None:
            events["consumer.jsonl"] = _seen_before(directory)
        return check(events)

    return Judgement(report("audit"), report("consumer"), exit_code, cleaned)


def _seen_before(directory: Path) -> Iterator[tuple[int, Event]]:
    """What the consumers saw of each queue before the first message that can still be read."""
    first: defaultdict[tuple[str, int], float] = defaultdict(lambda: math.inf)
    for _, event in read_history(directory / "audit.jsonl"):
        if isinstance(event, Deliver):
            queue = event.topic, event.queue
            first[queue] = min(first[queue], event.offset)
    for line, event in read_history(directory / "consumer.jsonl"):
        if isinstance(event, Deliver) and event.offset < first[event.topic, event.queue]:
            yield line, event


def _start_load(
    nursery: trio.Nursery, load: Load, clients: Sequence[RealClient], draw: random.Random
) -> None:
    for number in range(PRODUCERS):
        seed = random.Random(draw.random())
        nursery.start_soon(load.produce, f"producer{number}", seed)
    for number in range(CANCELLERS):
        seed = random.Random(draw.random())
        nursery.start_soon(load.cancel, f"canceller{number}", seed)
    for client in clients:
        nursery.start_soon(client.run, load, draw.randrange(1 << 30))
