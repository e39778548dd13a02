"""The same questions to what a Python program would otherwise take: redis and beanstalkd.

Compared are equal promises, as far as they go: nothing on the disk; in the page cache when it is
answered, on the disk within a second; on the disk when it is answered. The same load programs ask
all of them, one after the other on the same machine, each on files of its own.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import attrs
import psutil
from beanstalkd import EXECUTABLE as BEANSTALKD
from beanstalkd import beanstalkd
from redis_timer import EXECUTABLE as REDIS
from redis_timer import redis_timer

from timermq.bench.broker_process import broker_process
from timermq.bench.lateness import lateness, neighbours
from timermq.bench.load import send
from timermq.bench.measure import own_memory
from timermq.bench.question import Figure, Load
from timermq.bench.rates import FAR_DELAY_MS, burst, steady, sync
from timermq.bench.server import Start

TIMERMQ = "timermq"
PEERS = (TIMERMQ, REDIS, BEANSTALKD)
MEMORY_MESSAGES = 200_000
SETTLE_SECONDS = 1.0


@attrs.frozen(kw_only=True)
class Durability:
    """What an answer promises, and who is set up how to promise it."""

    name: str
    promise: str
    starts: Mapping[str, Start]
    settings: Mapping[str, str]
    """How each is set up, in its own words."""
    load_rate: float
    """Messages a second that loading a burst is expected to reach at least."""
    share: float = 1.0
    """Of the load; flushed messages are asked with fewer."""


DURABILITIES = (
    Durability(
        name="memory",
        promise="nothing is written; what is pending is lost with the process",
        starts={REDIS: redis_timer, BEANSTALKD: beanstalkd},
        settings={
            TIMERMQ: "has no such mode",
            REDIS: "appendonly no, save ''",
            BEANSTALKD: "without -b",
        },
        load_rate=8_000,
    ),
    Durability(
        name="page cache",
        promise="written to the file before the answer, so a killed process loses nothing; "
        "flushed within a second, so a power cut may lose that second",
        starts={
            TIMERMQ: broker_process,
            REDIS: partial(redis_timer, "everysec"),
            BEANSTALKD: partial(beanstalkd, 1_000),
        },
        settings={
            TIMERMQ: "flush_disk_type ASYNC_FLUSH, every 500 ms",
            REDIS: "appendfsync everysec",
            BEANSTALKD: "-b DIR -f 1000, flushed only as commands come",
        },
        load_rate=4_000,
    ),
    Durability(
        name="disk",
        promise="flushed to the disk before the answer: a power cut loses nothing",
        starts={
            TIMERMQ: partial(broker_process, "SYNC_FLUSH"),
            REDIS: partial(redis_timer, "always"),
            BEANSTALKD: partial(beanstalkd, 0),
        },
        settings={
            TIMERMQ: "flush_disk_type SYNC_FLUSH, one flush for all that wait",
            REDIS: "appendfsync always, one flush for a round of its loop",
            BEANSTALKD: "-b DIR -f 0, one flush for each command",
        },
        load_rate=700,
        share=0.05,
    ),
)

PeerQuestion = Callable[[Load, Start, float], list[Figure]]
"""Asked with a load, whom to start, and how fast a burst can be loaded into it."""


def memory(load: Load, start: Start, _: float = 0) -> list[Figure]:
    """Bytes that the server holds for each message that waits.

    As many were sent before, so that buffers of a fixed size are not counted.
    """
    with start() as server:
        workload = server.workload(
            "BenchPending", load.messages(MEMORY_MESSAGES), delay_ms=FAR_DELAY_MS
        )
        send(workload)
        before = _memory(server.process_id)
        send(workload)
        after = _memory(server.process_id)
    own, resident = (
        (more - less) / workload.count for more, less in zip(after, before, strict=True)
    )
    return [
        Figure(
            question="memory",
            value=own,
            unit="bytes a pending message",
            facts={"messages": workload.count, "resident": round(resident, 1)},
        )
    ]


def _memory(process_id: int) -> tuple[int, int]:
    """Anonymous memory of a process at rest, and what is resident with mapped files, bytes."""
    time.sleep(SETTLE_SECONDS)
    return own_memory(process_id), psutil.Process(process_id).memory_info().rss


PEER_QUESTIONS: Mapping[str, PeerQuestion] = {
    "steady": lambda load, start, _: steady(load, start=start),
    "sync": lambda load, start, _: sync(load, start=start),
    "burst": lambda load, start, rate: burst(load, start=start, load_rate=rate),
    "lateness": lambda load, start, _: lateness(load, start=start),
    "neighbours": lambda load, start, rate: neighbours(load, start=start, load_rate=rate),
    "pending": memory,
}


def ask_peers(load: Load, names: list[str]) -> Iterator[Figure]:
    """Ask everybody the questions, at each durability; what cannot be asked is said on stderr.

    Their figures have no floors: they stand beside each other, under the facts ``durability`` and
    ``peer``. One that could not be answered is left out.
    """
    present = [name for name in PEERS if name == TIMERMQ or _present(name)]
    for durability in DURABILITIES:
        smaller = attrs.evolve(load, scale=load.scale * durability.share)
        for name in names:
            if name == "pending" and durability.share < 1:
                continue  # How much is held does not depend on flushing, and needs the whole load.
            for peer in present:
                if peer not in durability.starts:
                    continue
                try:
                    figures = PEER_QUESTIONS[name](
                        smaller, durability.starts[peer], durability.load_rate
                    )
                except (RuntimeError, TimeoutError) as error:
                    _say(f"{peer}, {durability.name}, {name}: {error}")
                    continue
                for figure in figures:
                    figure.facts.update({"durability": durability.name, "peer": peer})
                    yield attrs.evolve(figure, floor=None)


def _present(peer: str) -> bool:
    found = shutil.which(peer) is not None
    if not found:
        _say(f"{peer} is left out: no such program on the path")
    return found


def _say(text: str) -> None:
    print(f"timermq: bench: {text}", file=sys.stderr, flush=True)
