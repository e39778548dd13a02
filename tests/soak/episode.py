"""One episode: a fresh store, load, trouble, a drained end, and the judgement."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import attrs
import trio

from timermq.client.history import Deliver, End, Event, HistoryWriter, read_history
from timermq.client.moment import now_ms
from timermq.simulator.rules.check import Report, check

from .cleaning import Ageing, Cleaned
from .load import CPP_TOPIC, Load, Target
from .small_disk import SmallDisk
from .trouble import Trouble

HERE = Path(__file__).parent
PRODUCERS = 2
CANCELLERS = 2
LATE_SECONDS = 15.0
"""How long after the last moment something may still arrive: the machine is busy."""
CPP_AGAIN_SECONDS = 1.0


class NotDrainedError(Exception):
    """The reader at the end did not see everything; nothing can be judged."""


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
            await trouble.start()
            await load.make_topics()
            async with trio.open_nursery() as consuming:
                consuming.start_soon(load.consume, "consumer", "soak")
                if cleans:
                    consuming.start_soon(Ageing(store, lambda: load.read_to).run)
                async with trio.open_nursery() as nursery:
                    _start_load(nursery, load, draw)
                    nursery.start_soon(trouble.run)
                    await trio.sleep(seconds)
                    nursery.cancel_scope.cancel()
                await trouble.settle()
                await trio.sleep(max(load.last_due_ms - now_ms(), 0) / 1000 + LATE_SECONDS)
                consuming.cancel_scope.cancel()
            await load.audit("audit")
            exit_code = await trio.to_thread.run_sync(trouble.finish)
        finally:
            trouble.end_now()
    return judge(directory, exit_code, Cleaned.of(store) if cleans else None)


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


def _start_load(nursery: trio.Nursery, load: Load, draw: random.Random) -> None:
    for number in range(PRODUCERS):
        seed = random.Random(draw.random())
        nursery.start_soon(load.produce, f"producer{number}", seed)
    for number in range(CANCELLERS):
        seed = random.Random(draw.random())
        nursery.start_soon(load.cancel, f"canceller{number}", seed)
    nursery.start_soon(_run_cpp, load, draw.randrange(1 << 30))


async def _run_cpp(load: Load, seed: int) -> None:
    """The C++ client, started again when it ends by itself."""
    for life in range(1_000):
        who = f"cpp{life}"
        process = _cpp_process(load, who, seed + life)
        assert process.stdout is not None
        try:
            await trio.to_thread.run_sync(
                partial(_take_keys, process.stdout, load), abandon_on_cancel=True
            )
        finally:
            process.kill()
            process.wait()
        await trio.sleep(CPP_AGAIN_SECONDS)


def _cpp_process(load: Load, who: str, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "cpp_load.py"), load.namesrv, CPP_TOPIC]
    command += [str(load.directory / f"{who}.jsonl"), who, str(seed)]
    environment = {**os.environ, "HOME": str(load.directory)}  # it writes its log there
    with (load.directory / "cpp.err").open("ab") as errors:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        )


def _take_keys(lines: Iterable[str], load: Load) -> None:
    """Messages that the C++ client sent may be cancelled as well."""
    for line in lines:
        load.targets.append(Target(CPP_TOPIC, None, line.strip()))
