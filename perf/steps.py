"""The steps that delayed messages go through, each as a function to be repeated.

- send: frames of a busy producer received, their messages put, the answers made
- append: a message put into the store, admission included
- enqueue: its entry read, and linked into timer log and wheel
- deliver: its record read, and put on its topic
- pull: what was delivered read, 32 messages at once
- cancel: a message put into a store with a key index, and cancelled
- copy: bytes of a master's log taken by a follower: to log, queues and key index, and to what is
  read ahead of a promotion

``bench_steps.py`` measures their CPU, ``instructions.py`` counts their instructions. Run alone,
this module repeats steps: ``python perf/steps.py append=3 --count 1000``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs
import numpy as np

from timermq.bench.dialect import Workload
from timermq.bench.remoting import Remoting
from timermq.broker.broker import Broker
from timermq.broker.dispatcher import Dispatcher
from timermq.broker.endpoint import Endpoint
from timermq.broker.options import BrokerOptions
from timermq.broker.session import Session
from timermq.pipeline.admission.flow_control import FlowControl
from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.recovery.done_reading import DoneReading
from timermq.pipeline.stages.due_columns import due_columns
from timermq.pipeline.stages.enqueue_get import EnqueueGet
from timermq.pipeline.stages.enqueue_put import EnqueuePut
from timermq.pipeline.stages.timer_request import REQUEST, DeliverBatch
from timermq.pipeline.state.timer_counts import TimerCounts
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting import FrameConnection
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

NOW_MS = 1_700_000_000_000
BATCH = 256
COPY_ROUNDS = 8
"""Rounds of messages in the log that is copied: more than any run asks for."""
PULL_COUNT = 32
"""Messages that a client asks for at once, unless it says otherwise."""
PULL_SIZE = 256 << 10
QUEUES = 4
ADDRESS = "127.0.0.1:10911"
BODY = bytes(range(128))
OPTIONS = TimerOptions(slots_total=7_200, mapped_file_size_timer_log=52 << 16)

Step = Callable[[], int]
"""Does the step once for every message; returns something of the result."""


class FixedClock:
    """A clock that stands still at ``NOW_MS``."""

    def now_ms(self) -> int:
        """The same moment for ever."""
        return NOW_MS


@attrs.frozen(eq=False)
class Workbench:
    """A store on a real disk whose service does not run: the steps are taken by hand."""

    service: TimerMessageStore
    count: int
    dispatcher: Dispatcher
    session: Session
    frames: list[bytes]
    """Of a producer that has sent many before: its numbers have the same digits for a while."""
    follower: MessageStore | None = None
    """Gets copies of a log that is longer than its own."""

    @classmethod
    def at(cls, root: Path, count: int, *, indexed: bool = False) -> Workbench:
        """A new store, for steps of ``count`` messages; with a key index or without."""
        store = _store(root, indexed=indexed)
        service = TimerMessageStore(store, OPTIONS, FixedClock())
        endpoint = Endpoint(
            listeners=(), address=ADDRESS, listen=ADDRESS, namesrv_listen=None, store_host=bytes(8)
        )
        broker = Broker(
            endpoint=endpoint,
            timer_store=service,
            options=BrokerOptions(),
            clock=WatchedClock(FixedClock(), OPTIONS, lambda: NOW_MS),
        )
        session = Session(
            remote_address="127.0.0.1:40000",
            born_host=bytes(8),
            queue=lambda _: None,
            flush=lambda: None,
            start_soon=lambda _: False,
            close=lambda _: None,
        )
        workload = Workload(
            dialect=Remoting(), address=("", 0), topic="Bench", count=count, delay_ms=60_000
        )
        return cls(
            service, count, broker.dispatcher, session, list(workload.dialect.puts(workload, 1_000))
        )

    @classmethod
    def with_follower(cls, root: Path, count: int) -> Workbench:
        """One with messages for ``COPY_ROUNDS`` rounds, and an empty follower."""
        bench = cls.at(root / "master", count)
        for _ in range(COPY_ROUNDS):
            bench.append()
        follower = _store(root / "follower", indexed=True)
        follower.park("a copy")
        return attrs.evolve(bench, follower=follower)

    def send(self) -> int:
        """Receive the messages in frames, 256 at once, put and answer them."""
        connection, answers = FrameConnection(), 0
        for first in range(0, self.count, BATCH):
            connection.receive_data(b"".join(self.frames[first : first + BATCH]))
            answers += len(self.dispatcher.handle(self.session, connection.requests()))
        return answers

    def append(self) -> int:
        """Put the messages, in batches of 256."""
        end = 0
        for first in range(0, self.count, BATCH):
            numbers = range(first, min(first + BATCH, self.count))
            results = self.service.put([_message(number) for number in numbers])
            end = results[-1].result.end
        return end

    def enqueue(self) -> int:
        """Read and link all entries of the timer topic, as if for the first time."""
        service, state = self.service, self.service.state
        files, counts = service.files, TimerCounts()
        state.queue_offset = 0
        get = EnqueueGet(
            store=service.store, state=state, options=OPTIONS, clock=FixedClock(), counts=counts
        )
        put = EnqueuePut(
            timer_log=files.timer_log,
            wheel=files.wheel,
            metrics=files.metrics,
            quarantine=service.quarantine,
            flow=FlowControl(OPTIONS, lambda _: 0),
            state=state,
            options=OPTIONS,
            clock=FixedClock(),
            counts=counts,
        )
        while (batch := get.next_batch()) is not None:
            if not put.put(batch):
                raise RuntimeError("steps: no room on the wheel")
        return counts.enqueued

    def deliver(self) -> int:
        """Read the records of all entries, and put what they become on their topic."""
        store = self.service.store
        queue = store.queue(TIMER_TOPIC, 0)
        assert queue is not None
        end, first = 0, 0
        while len(units := queue.units(first, BATCH)):
            requests = np.zeros(len(units), REQUEST)
            requests["offset_py"] = units["phy_offset"]
            sizes = units["size"].astype(np.int64)
            block = store.commit_log.block_at(requests["offset_py"], sizes)
            if block is None:
                raise RuntimeError("steps: expected records")
            due = due_columns(DeliverBatch(requests=requests, block=block), 1000, count_min=1)
            result = None if due is None else store.put_copy_columns(due.columns)
            if result is None:
                raise RuntimeError("steps: expected a run of records")
            end = result.end
            first += len(units)
        return end

    def pull(self) -> int:
        """Read what was delivered, as pulls do; it is delivered once, in the first round."""
        store, count = self.service.store, 0
        if store.queue("Bench", 0) is None:
            self.deliver()
        for queue_id in range(QUEUES):
            queue = store.queue("Bench", queue_id)
            if queue is None:
                raise RuntimeError("steps: expected delivered messages")
            offset = 0
            while offset < queue.max_offset:
                found = store.get(
                    "Bench", queue_id, offset, count_max=PULL_COUNT, bytes_max=PULL_SIZE
                )
                count += found.count
                offset = found.next_offset
        return count

    def copy(self) -> int:
        """Copy the next messages of the log, as one frame."""
        log, follower = self.service.store.commit_log, self.follower
        if follower is None or follower.index is None:
            raise RuntimeError("steps: expected a follower with an index")
        start, size = follower.commit_log.max_offset, log.max_offset // COPY_ROUNDS
        reading = DoneReading(follower, start)
        follower.log_copy.on_run = reading.take_run
        try:
            follower.log_copy.append(start, log.read(start, size)).send(None)
        except StopIteration as returned:
            end = int(returned.value)
        else:
            raise RuntimeError("steps: expected a copy that waits for nothing")
        follower.index.catch_up()
        if (reading.end, end, follower.log_copy.copied % self.count) != (end, start + size, 0):
            raise RuntimeError("steps: expected whole rounds that were read ahead")
        return end

    def cancel(self) -> int:
        """Put more messages, and cancel each by its unique key."""
        commit_log, cancellation = self.service.store.commit_log, self.service.cancellation
        first = commit_log.max_offset
        for start in range(first, first + self.count, BATCH):
            numbers = range(start, min(start + BATCH, first + self.count))
            self.service.put([_message(number) for number in numbers])
        for number in range(first, first + self.count):
            verdict = cancellation.cancel(Wanted("Bench", f"{number:032X}")).verdict
            if verdict is not Verdict.CANCELLED:
                raise RuntimeError(f"steps: expected a cancel, found {verdict.name}")
        return commit_log.max_offset


STEPS: Mapping[str, Callable[[Workbench], int]] = {
    "send": Workbench.send,
    "append": Workbench.append,
    "enqueue": Workbench.enqueue,
    "deliver": Workbench.deliver,
    "pull": Workbench.pull,
    "cancel": Workbench.cancel,
    "copy": Workbench.copy,
}


def _store(root: Path, *, indexed: bool) -> MessageStore:
    options = StoreOptions(
        mapped_file_size_commit_log=64 << 20,
        message_index_enable=indexed,
        max_hash_slot_num=500_000,
        max_index_num=2_000_000,
        max_message_size=4096,
    )
    return MessageStore.open(
        OsDisk(), str(root), options, now_ms=lambda: NOW_MS, store_host=bytes(8)
    )


def _message(number: int) -> Message:
    return Message(
        "Bench",
        number % QUEUES,
        BODY,
        b"TIMER_DELAY_MS\x01%d\x02UNIQ_KEY\x01%032X\x02WAIT\x01true\x02TAGS\x01t\x02"
        % (1_000 + number % 60_000, number),
    )


def repeat(work: Mapping[str, Callable[[], int]], runs: Sequence[str]) -> None:
    """Do ``name=times`` for each run, in a fork that finds the same stores; print what comes of it.

    Raises:
        RuntimeError: One of them failed.
    """
    for run in runs:
        name, _, times = run.partition("=")
        child = os.fork()
        if not child:
            # The result is printed, so that nothing can be left out.
            print(name, sum(work[name]() for _ in range(int(times))), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise RuntimeError(f"steps: {run} failed")


def main() -> None:
    """Repeat steps in forks, and print what each returned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", metavar="STEP=ROUNDS", nargs="+")
    parser.add_argument("--count", type=int, default=1_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="timermq-steps-") as folder:
        bench = Workbench.at(Path(folder), args.count)
        bench.append()
        indexed = Workbench.at(Path(folder) / "indexed", args.count, indexed=True)
        copied = Workbench.with_follower(Path(folder) / "copied", args.count)
        benches = {"cancel": indexed, "copy": copied}
        work = {name: partial(step, benches.get(name, bench)) for name, step in STEPS.items()}
        repeat(work, args.steps)


if __name__ == "__main__":
    main()
