"""The cost of a broker without work: with millions pending, and idle."""

from __future__ import annotations

import random
import time
from pathlib import Path

import trio

from timermq.pipeline.clock.clock import SystemClock
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

from .broker_process import broker_process
from .measure import cpu_seconds, own_memory
from .question import Figure, Load

PENDING = 10_000_000
BATCH = 256
SPREAD_MS = (3_600_000, 40 * 3_600_000)
"""Messages of the pending question are due in an hour to forty hours."""
MEMORY_MAX = 64 << 20
READY_SECONDS = 10.0
IDLE_SECONDS = 20.0
IDLE_SHARE = 1.0


def pending(load: Load) -> list[Figure]:
    """Ten million pending messages: memory above the empty broker, and ready after a kill."""
    count = load.messages(PENDING)
    with broker_process() as empty:
        empty_memory = own_memory(empty.process_id)
    with broker_process(start=False) as broker:
        trio.run(fill, broker.store, range(count))
        broker.start()
        time.sleep(1)
        memory = own_memory(broker.process_id) - empty_memory
        broker.kill()
        broker.start()
        ready = broker.ready_seconds
    return [
        Figure(
            question="memory of pending",
            value=memory / (1 << 20),
            unit="MiB over empty",
            floor=MEMORY_MAX / (1 << 20),
            facts={"pending": count, "empty_bytes": empty_memory},
        ),
        Figure(
            question="ready after kill -9",
            value=ready,
            unit="s",
            floor=READY_SECONDS,
            facts={"pending": count},
        ),
    ]


def idle(load: Load) -> list[Figure]:
    """A broker that gets no requests."""
    seconds = load.seconds(IDLE_SECONDS)
    with broker_process() as broker:
        time.sleep(1)
        before = cpu_seconds(broker.process_id)
        time.sleep(seconds)
        share = (cpu_seconds(broker.process_id) - before) / seconds * 100
    return [Figure(question="idle", value=share, unit="% of a core", floor=IDLE_SHARE)]


async def fill(root: Path, numbers: range) -> None:
    """Put a message for each number into a store, new or stopped, with the service running.

    They are due in an hour to forty hours. Without sockets and answers: the fastest way.
    """
    clock = SystemClock()
    options = StoreOptions()
    store = MessageStore.open(
        OsDisk(), str(root), options, now_ms=clock.now_ms, store_host=pack_host("127.0.0.1", 10_911)
    )
    service = TimerMessageStore(store, TimerOptions(), clock)
    draw = random.Random(7)  # noqa: S311 - a load, not a secret
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        async with trio.open_nursery() as stages:
            await stages.start(service.run)
            for first in range(0, len(numbers), BATCH):
                now_ms = clock.now_ms()
                service.put(
                    [
                        Message(
                            "BenchPending",
                            number % 4,
                            b"x" * 128,
                            b"TIMER_DELIVER_MS\x01%d\x02UNIQ_KEY\x01%032X\x02"
                            % (now_ms + draw.randint(*SPREAD_MS), number),
                        )
                        for number in numbers[first : first + BATCH]
                    ]
                )
                await trio.lowlevel.checkpoint()
            queue = store.queue(TIMER_TOPIC, 0)
            assert queue is not None
            while service.state.commit_queue_offset < queue.max_offset:  # noqa: ASYNC110 - a load
                await trio.sleep(0.05)
            service.request_stop()
        # Behind the service's last checkpoint: a store without one is read from its start.
        await store.aclose()
        nursery.cancel_scope.cancel()
