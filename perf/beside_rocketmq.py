"""How timers come, beside RocketMQ's own broker with either of its engines, under one load.

The same senders and takers ask all three brokers, one after the other, on this machine; each on
files of its own, with its defaults (``ASYNC_FLUSH``), but
for the time that RocketMQ lets a send wait. Nothing else should run meanwhile. Needs a JDK
and Maven, as the interop tests do.

====== =============================================================================================
early  messages at random milliseconds: how many come before their moment, how late the others are
burst  messages of one instant: when the last is there
killed a burst, kill -9 while it is delivered, a start: how many are lost, and how many come twice
cancel messages recalled shortly before their moment, with success: how many arrive all the same
hour   bytes that an hour writes while messages wait for the days after
====== =============================================================================================

Run: ``PYTHONPATH=tests python perf/beside_rocketmq.py [early burst killed cancel hour | all]``;
all but ``hour`` by default; ``--scale 0.5`` asks with half the load; ``--keep`` keeps the answers
in results/rocketmq.json, those of other questions as they are.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from result_files import kept, report
from rocketmq_server import ENGINES, compiled, rocketmq_server
from served import answered

from timermq.bench.broker_process import BrokerProcess, broker_process
from timermq.bench.dialect import Workload, connect
from timermq.bench.load import arrivals, pull, send, send_paced
from timermq.remoting import Command, RequestCode, ResponseCode, encode_frame

Start = Callable[[], AbstractContextManager[BrokerProcess]]
Facts = dict[str, float]

EARLY_RATE = 400
EARLY_COUNT = 12_000
EARLY_DELAY_MS = (2_000, 10_000)
"""RocketMQ's wheel needs a second or two to take a message in."""
BURST_COUNT = 50_000
BURST_WITHIN_SECONDS = 10.0
"""From the first send to the instant, beside ``SEND_RATE``."""
SEND_RATE = 4_000
KILLED_COUNT = 20_000
KILLED_AT = 0.2
"""The share of a burst that has come when the broker is killed."""
CANCEL_COUNT = 2_000
CANCEL_RATE = 100
CANCEL_DELAY_MS = (3_000, 6_000)
CANCEL_AHEAD_MS = (200, 2_000)
"""For so long before its moment a message is recalled."""
HOUR_COUNT = 100_000
HOUR_DELAY_MS = (24 * 3_600_000, 48 * 3_600_000)
HOUR_SECONDS = 3_600.0
SETTLE_SECONDS = 60.0
QUIET_SECONDS = 12.0
"""Nothing more comes; less than a pull is held."""
PULL_TIMEOUT = 90.0


def early(start: Start, scale: float) -> Facts:
    """Messages at random milliseconds, at an even rate."""
    with start() as server, multiprocessing.Pool(2) as pool:
        workload = server.workload("BenchEarly", int(EARLY_COUNT * scale))
        arriving = pool.apply_async(arrivals, (workload, "bench", PULL_TIMEOUT))
        pool.apply_async(send_paced, (workload, EARLY_RATE, EARLY_DELAY_MS)).get()
        late = np.array([at - due for due, at in arriving.get()])
    half, most = np.percentile(late, (50, 99))
    return {
        "messages": len(late),
        "early": int((late < 0).sum()),
        "earliest_ms": round(float(-late.min()), 1),
        "p50_ms": round(float(half), 1),
        "p99_ms": round(float(most), 1),
        "last_ms": round(float(late.max()), 1),
    }


def burst(start: Start, scale: float) -> Facts:
    """Messages of one instant: the last is so late."""
    with start() as server, multiprocessing.Pool(2) as pool:
        workload = _due_together(server, "BenchBurst", int(BURST_COUNT * scale))
        pool.apply_async(send, (workload,)).get()
        first, last = pool.apply_async(pull, (workload, "bench", PULL_TIMEOUT)).get()
    return {
        "messages": workload.count,
        "first_ms": round(first * 1000 - workload.deliver_ms, 1),
        "last_ms": round(last * 1000 - workload.deliver_ms, 1),
    }


def killed(start: Start, scale: float) -> Facts:
    """A burst in whose midst the broker is killed; what the topic holds after the next start."""
    with start() as server, multiprocessing.Pool(2) as pool:
        workload = _due_together(server, "BenchKilled", int(KILLED_COUNT * scale))
        pool.apply_async(send_numbered, (workload,)).get()
        share = attrs.evolve(workload, count=int(workload.count * KILLED_AT))
        pool.apply_async(pull, (share, "bench", PULL_TIMEOUT)).get()
        server.kill()
        server.start()
        whole = attrs.evolve(workload, address=server.address)
        found = pool.apply_async(numbers, (whole, "bench-after")).get()
    many = Counter(found)
    return {
        "messages": workload.count,
        "lost": workload.count - len(many),
        "twice": sum(one > 1 for one in many.values()),
    }


def cancel(start: Start, scale: float) -> Facts:
    """Messages that are recalled shortly before their moment."""
    with start() as server, multiprocessing.Pool(2) as pool:
        workload = server.workload("BenchCancel", int(CANCEL_COUNT * scale))
        arriving = pool.apply_async(numbers, (workload, "bench", 2 * PULL_TIMEOUT))
        recalled = set(pool.apply_async(send_and_recall, (workload,)).get())
        arrived = set(arriving.get())
    return {
        "messages": workload.count,
        "recalled": len(recalled),
        "arrived_all_the_same": len(recalled & arrived),
        "lost": workload.count - len(recalled | arrived),
    }


def hour(starts: Mapping[str, Start], scale: float) -> dict[str, Facts]:
    """Bytes written while messages wait, all brokers side by side, since nothing is timed."""
    count = int(HOUR_COUNT * scale)
    with ExitStack() as stack:
        servers = {name: stack.enter_context(start()) for name, start in starts.items()}
        for server in servers.values():
            draw = random.Random(7)
            workload = server.workload("BenchHour", count, connections=1)
            link = connect(workload.address)
            for number in range(count):
                delay = draw.randint(*HOUR_DELAY_MS)
                one = attrs.evolve(workload, count=1, delay_ms=delay)
                link.sendall(next(workload.dialect.puts(one, number)))
                workload.dialect.read_answers(link, b"", 1)
        time.sleep(SETTLE_SECONDS)
        before = {name: written(server.process_id) for name, server in servers.items()}
        time.sleep(HOUR_SECONDS)
        return {
            name: {
                "messages": count,
                "written_mb": round((written(server.process_id) - before[name]) / 1e6, 1),
            }
            for name, server in servers.items()
        }


def written(process_id: int) -> int:
    """Bytes that a process has caused to be written to disks (proc(5), ``write_bytes``)."""
    for line in Path(f"/proc/{process_id}/io").read_text(encoding="ascii").splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{process_id}/io: expected a line write_bytes")


def _due_together(server: BrokerProcess, topic: str, count: int) -> Workload:
    workload = server.workload(topic, count)
    instant = time.time() + BURST_WITHIN_SECONDS + count / SEND_RATE
    return attrs.evolve(workload, deliver_ms=int(instant * 1000))


def send_numbered(workload: Workload) -> None:
    """Send messages whose bodies begin with their number.

    Raises:
        RuntimeError: A message was not taken, or its moment came before all were sent.
    """
    link = connect(workload.address)
    with link:
        for number in range(workload.count):
            one = attrs.evolve(workload, count=1)
            link.sendall(next(workload.dialect.puts(one, number, b"%d " % number)))
            workload.dialect.read_answers(link, b"", 1)
    if time.time() * 1000 > workload.deliver_ms:
        raise RuntimeError("bench: the burst was due before all of it was sent")


def numbers(workload: Workload, group: str, timeout: float = PULL_TIMEOUT) -> list[int]:
    """Numbers of all messages of a topic, until nothing more comes.

    Args:
        workload: Topic and broker.
        group: Consumer group.
        timeout: Seconds in which the first must come.
    """
    found: list[int] = []
    last = time.monotonic() + timeout - QUIET_SECONDS
    coming = workload.dialect.arriving(workload, group, QUIET_SECONDS)
    while True:
        try:
            bodies = next(coming)
        except TimeoutError:
            if found or time.monotonic() > last:
                return found
            coming = workload.dialect.arriving(workload, group, QUIET_SECONDS)
            continue
        # What made the topic has no number, and comes twice too.
        found += [int(body.split(b" ", 1)[0]) for body in bodies if b" " in body]


def send_and_recall(workload: Workload) -> list[int]:
    """Send messages at an even rate and recall each by its handle, shortly before its moment.

    Returns:
        The numbers of those whose recall succeeded.
    """
    draw = random.Random(11)
    plan: list[tuple[float, int, int]] = [
        (number / CANCEL_RATE, 0, number) for number in range(workload.count)
    ]
    handles: dict[int, str] = {}
    delays = [draw.randint(*CANCEL_DELAY_MS) for _ in plan]
    plan += [
        (number / CANCEL_RATE + (delays[number] - draw.randint(*CANCEL_AHEAD_MS)) / 1000, 1, number)
        for number in range(workload.count)
    ]
    recalled: list[int] = []
    begun = time.monotonic()
    with connect(workload.address) as link:
        for moment, is_recall, number in sorted(plan):
            time.sleep(max(begun + moment - time.monotonic(), 0))
            if not is_recall:
                one = attrs.evolve(workload, count=1, delay_ms=delays[number])
                frame = next(workload.dialect.puts(one, number, b"%d " % number))
                handles[number] = answered(link, frame).ext["recallHandle"]
            elif answered(link, _recall(workload.topic, handles[number])).code == (
                ResponseCode.SUCCESS
            ):
                recalled.append(number)
    return recalled


def _recall(topic: str, handle: str) -> bytes:
    ext = {"producerGroup": "bench", "topic": topic, "recallHandle": handle}
    return encode_frame(Command(RequestCode.RECALL_MESSAGE, ext=ext))


QUESTIONS: Mapping[str, Callable[[Start, float], Facts]] = {
    "early": early,
    "burst": burst,
    "killed": killed,
    "cancel": cancel,
}
GROUPS: Mapping[str, Sequence[str]] = {"timed": [*QUESTIONS], "all": [*QUESTIONS, "hour"]}
"""Names for several questions."""


def ask(names: Iterable[str], starts: Mapping[str, Start], scale: float) -> list[dict[str, Any]]:
    """The answers, an object for each question and broker."""
    answers: list[dict[str, Any]] = []

    def tell(question: str, broker: str, facts: Facts) -> None:
        answers.append({"question": question, "broker": broker, **facts})
        print(answers[-1], file=sys.stderr, flush=True)

    for name in names:
        if name == "hour":
            for broker, facts in hour(starts, scale).items():
                tell(name, broker, facts)
            continue
        for broker, start in starts.items():
            tell(name, broker, QUESTIONS[name](start, scale))
    return answers


def merged(before: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kept answers, those of the questions asked now in place of the old ones."""
    asked = {one["question"] for one in new}
    return [*(one for one in before if one["question"] not in asked), *new]


def main() -> None:
    """Ask, print and perhaps keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*GROUPS["all"], *GROUPS], default="timed")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    asked: list[str] = [args.names] if isinstance(args.names, str) else args.names
    names = list(dict.fromkeys(name for one in asked for name in GROUPS.get(one, [one])))
    peer = compiled()
    starts: dict[str, Start] = {"timermq": broker_process}
    starts |= {f"RocketMQ, {engine}": partial(rocketmq_server, peer, engine) for engine in ENGINES}
    answers = ask(names, starts, args.scale)
    answers = [{**one, "scale": args.scale} for one in answers]
    if args.keep:
        with suppress(FileNotFoundError):
            answers = merged(kept("rocketmq")["answers"], answers)
    report("rocketmq", {"answers": answers}, keep=args.keep)


if __name__ == "__main__":
    main()
