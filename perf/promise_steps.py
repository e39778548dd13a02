"""What the promises add to a message's way, as functions to be repeated beside the way itself.

- send, enqueue, deliver: the steps without a key index; each unit and record has its origin
- send indexed, deliver indexed: the same, and the keys of what was written brought into the index
- origins: what names the waiting record in the delivered one (ONCE), by itself
- orders: the order of sending and the millisecond in the reserved field of a unit, by itself
- slots: a slot's end taken, which moves the read pointer and the position that recovery reads from;
  one for each message, as if each had a slot of its own
- read: the records of what is due, read; read checked: as the stage reads them, with the look at
  sizes and age that the quarantine asks for; read compared: the same for messages that waited
  longer than a minute, whose bodies are compared with their checksums

``bench_promises.py`` measures them, and says what belongs to which promise.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import trio
from steps import BATCH, NOW_MS, OPTIONS, FixedClock, Workbench, repeat

from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.stages.dequeue_get_message import DequeueGetMessage
from timermq.pipeline.stages.dequeue_put_message import DequeuePutMessage
from timermq.pipeline.stages.timer_request import REQUEST, DeliverBatch, ReadMark, Requests
from timermq.pipeline.state.timer_counts import TimerCounts
from timermq.timerlog import UNIT, pack_exact
from timermq.timerstore.record_layout import HEAD

YOUNG_MS, OLD_MS = 1_000, 600_000
"""How long messages have waited that leave as they were written, or are compared first."""


@attrs.frozen(eq=False)
class Reader:
    """The due messages of a store, to be read in batches."""

    bench: Workbench
    batches: list[Requests]

    @classmethod
    def of(cls, bench: Workbench, waited_ms: int) -> Reader:
        """All that waits in a store, due after so many milliseconds."""
        queue = bench.service.store.queue(TIMER_TOPIC, 0)
        assert queue is not None
        batches: list[Requests] = []
        for first in range(0, bench.count, BATCH):
            units = queue.units(first, min(BATCH, bench.count - first))
            requests = np.zeros(len(units), REQUEST)
            requests["deliver_ms"] = NOW_MS + waited_ms
            requests["offset_py"] = units["phy_offset"]
            requests["size_py"] = units["size"]
            requests["magic"] = 1
            batches.append(requests)
        return cls(bench, batches)

    def read(self) -> int:
        """Read the records alone; returns how many there were."""
        log = self.bench.service.store.commit_log
        blocks = [
            log.block_at(batch["offset_py"], batch["size_py"].astype(np.int64))
            for batch in self.batches
        ]
        return sum(len(block) for block in blocks if block is not None)

    def read_as_stage(self) -> int:
        """The records as stage 4 reads them."""
        service = self.bench.service
        stage = DequeueGetMessage(
            store=service.store,
            files=service.files,
            state=service.state,
            options=OPTIONS,
            counts=TimerCounts(),
        )
        read: list[DeliverBatch] = [stage.read(batch, frozenset()) for batch in self.batches]
        return sum(len(one.block) for one in read)

    def origins(self) -> int:
        """Name the origins of all in heads of records."""
        heads = np.zeros(BATCH, HEAD.dtype)
        for batch in self.batches:
            heads[: len(batch)]["prepared_transaction_offset"] = origin_of(batch["offset_py"])
        return int(heads["prepared_transaction_offset"][0])

    def orders(self) -> int:
        """Fill the reserved fields of all units."""
        units = np.zeros(BATCH, UNIT.dtype)
        for batch in self.batches:
            exact = batch["magic"] == 1
            behind = batch["deliver_ms"] - NOW_MS - 1
            units[: len(batch)]["reserved"] = np.where(
                exact, pack_exact(batch["offset_py"], behind), 0
            )
        return int(units["reserved"][0])


def end_slots(bench: Workbench) -> int:
    """Let stage 5 take the ends of as many slots as there are messages."""
    service = bench.service
    # Positions of its own: the store's are not to run ahead of the clock.
    state = attrs.evolve(service.state)
    stage = DequeuePutMessage(
        store=service.store,
        metrics=service.files.metrics,
        quarantine=service.quarantine,
        state=state,
        options=OPTIONS,
        clock=FixedClock(),
        counts=TimerCounts(),
    )

    async def run() -> None:
        send, receive = trio.open_memory_channel[DeliverBatch | ReadMark](bench.count)
        for number in range(bench.count):
            send.send_nowait(ReadMark(NOW_MS + number * 1000))
        send.close()
        await stage.run(receive)

    trio.run(run)
    return state.commit_read_ms


def indexed(bench: Workbench, step: Callable[[Workbench], int]) -> int:
    """Take a step, and have the index follow what it wrote."""
    done = step(bench)
    bench.service.store.query(TIMER_TOPIC, "none", count_max=1)
    return done


@attrs.frozen(eq=False)
class Benches:
    """Two stores, with what waits in them."""

    plain: Workbench
    with_index: Workbench
    young: Reader
    old: Reader

    @classmethod
    def at(cls, folder: Path, count: int) -> Benches:
        """New ones, for ``count`` messages."""
        plain = Workbench.at(folder / "plain", count)
        with_index = Workbench.at(folder / "indexed", count, indexed=True)
        for bench in (plain, with_index):
            indexed(bench, Workbench.append)
        return cls(plain, with_index, Reader.of(plain, YOUNG_MS), Reader.of(plain, OLD_MS))


PIECES: Mapping[str, Callable[[Benches], int]] = {
    "origins": lambda benches: benches.young.origins(),
    "orders": lambda benches: benches.young.orders(),
    "slots": lambda benches: end_slots(benches.plain),
    "read": lambda benches: benches.young.read(),
    "read checked": lambda benches: benches.young.read_as_stage(),
    "read compared": lambda benches: benches.old.read_as_stage(),
    "enqueue": lambda benches: benches.plain.enqueue(),
    "deliver": lambda benches: benches.plain.deliver(),
    "deliver indexed": lambda benches: indexed(benches.with_index, Workbench.deliver),
    "send": lambda benches: benches.plain.send(),
    "send indexed": lambda benches: indexed(benches.with_index, Workbench.send),
}


def main() -> None:
    """Repeat pieces: ``python perf/promise_steps.py origins=3 --count 1000``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pieces", metavar="PIECE=ROUNDS", nargs="+")
    parser.add_argument("--count", type=int, default=1_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="timermq-promises-") as folder:
        benches = Benches.at(Path(folder), args.count)
        repeat({name: partial(piece, benches) for name, piece in PIECES.items()}, args.pieces)


if __name__ == "__main__":
    main()
