"""What does the adoption of a bulk job cost, and what do other timers feel of it?

A broker of its own is given a job: blocks of rows for the next hours with keys, staged over one
connection, handed over and adopted. Meanwhile another producer's timers fire, a hundred a second,
and the broker counts how late. CPU is that of the broker's process, a row; ``normal_cpu_us`` is
scaled to the reference machine by a calibration meanwhile.

Run: ``nice python perf/bench_bulk.py [--count N] [--body BYTES] [--keys MOST]``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator

import attrs
import numpy as np
import trio
from crowd_client import Client, send_ext
from served import Server, serving
from storm import lateness

from timermq.bench.calibration import calibration
from timermq.remoting import Command, RequestCode
from timermq.remoting.bulk import (
    AskStatus,
    CommitJob,
    JobOpened,
    JobState,
    JobStatus,
    OpenJob,
    StageBlock,
    bulk_request,
    stage_request,
)
from timermq.remoting.bulk_block import BulkBlock, BulkColumn

PART_ROWS = 250_000
CHUNK_ROWS = 50_000
AHEAD_MS = 3_600_000
"""The first row is due an hour from now: nothing of the job fires while it is measured."""
SPREAD_MS = 7_200_000
TIMERS_A_SECOND = 100
LATE_ENOUGH_MS = 250


@attrs.define
class Sent:
    """How many timers the other producer has sent, and when it stops."""

    count: int = 0
    stop: bool = False


def blocks(count: int, body_size: int, keys_most: int, first_ms: int) -> Iterator[BulkBlock]:
    """Rows with bodies of one size, and keys that are numbers up to ``keys_most``."""
    draw = np.random.default_rng(1)
    for first in range(0, count, CHUNK_ROWS):
        rows = min(CHUNK_ROWS, count - first)
        keys = [b"%d" % key for key in draw.integers(0, keys_most, rows).tolist()]
        whole = BulkBlock.of(
            "Bulk",
            BulkColumn(draw.bytes(rows * body_size), np.full(rows, body_size, np.uint32)),
            deliver_ms=first_ms + draw.integers(0, SPREAD_MS, rows),
            properties={"KEYS": BulkColumn.of(keys)},
        )
        yield from whole.parts()


async def ask(client: Client, command: Command) -> Command:
    """The answer to a request of a job."""
    answer = await client.call(RequestCode(command.code), command.ext, command.body)
    assert answer.code == 0, answer.remark
    return answer


async def timers(server: Server, sent: Sent) -> None:
    """Another producer: a timer every ten milliseconds, for a second from then."""
    client = await Client.connect(server)
    begun = trio.current_time()
    while not sent.stop:
        due_ms = time.time_ns() // 1_000_000 + 1_000
        properties = f"TIMER_DELIVER_MS\x01{due_ms}\x02"
        answer = await client.call(
            RequestCode.SEND_MESSAGE, send_ext("Timers", 0, properties), b"x"
        )
        assert answer.code == 0, answer.remark
        sent.count += 1
        await trio.sleep_until(begun + sent.count / TIMERS_A_SECOND)


async def stage(client: Client, count: int, body_size: int, keys_most: int) -> CommitJob:
    """The parts of the job."""
    opened = JobOpened.decode((await ask(client, bulk_request("bench", OpenJob()))).body)
    parts: list[tuple[str, int]] = []
    made = list(blocks(count, body_size, keys_most, opened.job_ms + AHEAD_MS))
    encoded = [(len(one), one.encode()) for one in made]
    begun, number, rows = time.monotonic(), 0, 0
    for at, (block_rows, data) in enumerate(encoded):
        rows += block_rows
        is_last = rows >= PART_ROWS or at == len(encoded) - 1
        name = f"run-{len(parts)}"
        place = StageBlock(job="bench", part=name, block=number, is_last=is_last, topic="Bulk")
        await ask(client, stage_request(place, data))
        number += 1
        if is_last:
            parts.append((name, rows))
            number = rows = 0
    print(f"# staged in {time.monotonic() - begun:.2f} s", file=sys.stderr)
    return CommitJob(parts=tuple(parts))


async def measure(server: Server, args: argparse.Namespace) -> dict[str, float]:
    """Run one job, and return its figures by name."""
    metrics, sent = server.ready("metrics_listen"), Sent()
    client = await Client.connect(server)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers, server, sent)
        await trio.sleep(1.5)
        before_stage = cpu(server)
        wanted = await stage(client, args.count, args.body, args.keys)
        staged = cpu(server)
        before = await trio.to_thread.run_sync(lateness, metrics)
        with calibration() as calibrated:
            cpu_before, begun = cpu(server), time.monotonic()
            await ask(client, bulk_request("bench", wanted))
            handed = time.monotonic() - begun
            while True:
                answer = await ask(client, bulk_request("bench", AskStatus()))
                status = JobStatus.decode(answer.body)
                if status.state is JobState.DONE:
                    break
                await trio.sleep(0.05)
            took, used = time.monotonic() - begun, cpu(server) - cpu_before
        await trio.sleep(1.5)
        after = await trio.to_thread.run_sync(lateness, metrics)
        sent.stop = True
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    total = max(counts.values())
    return {
        "rows": status.adopted,
        "refused": status.refused,
        "staging_cpu_us": round((staged - before_stage) / args.count * 1e6, 2),
        "hand_over_seconds": round(handed, 3),
        "seconds": round(took, 2),
        "rows_per_second": round(status.adopted / took),
        "cpu_us": round(used / args.count * 1e6, 2),
        "normal_cpu_us": round(used / args.count * 1e6 * calibrated.share, 2),
        "calibration_ms": round(calibrated.ms, 2),
        "timers_fired": total,
        "lateness_p99_ms": next(bound for bound, found in counts.items() if found >= 0.99 * total)
        * 1000,
    }


def cpu(server: Server) -> float:
    """Processor time of the broker, seconds."""
    times = server.process.cpu_times()
    return float(times.user + times.system)


def main() -> int:
    """Ask; 1 when timers were later than they may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--keys", type=int, default=1_000_000)
    args = parser.parse_args()
    flags = (
        "--metrics-listen=127.0.0.1:0",
        "--set=mapped_file_size_commit_log=268435456",
        "--set=max_hash_slot_num=5000000",
        "--set=max_index_num=20000000",
    )
    with serving(*flags) as server:
        found = trio.run(measure, server, args)
    print(json.dumps(found))
    return int(found["lateness_p99_ms"] > LATE_ENOUGH_MS)


if __name__ == "__main__":
    sys.exit(main())
