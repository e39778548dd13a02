"""A store with timers for the questions about Spark: all waiting, then some, then all delivered.

It is filled once and kept from question to question. A service would deliver what has fallen due
meanwhile, so a store is not filled up later: a new one is made.
"""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import trio

from timermq.bench.idle_cost import SPREAD_MS, fill
from timermq.pipeline.clock.clock import SystemClock
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerlog import TimerCheckpoint
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

DELIVERED_EACH = 10
"""Of so many timers the first is delivered, when some are."""
BATCH = 1000


@attrs.define
class SparkStore:
    """A directory with a store, and what has become of its timers."""

    directory: Path
    count: int
    """Timers."""
    delivered: int = 0

    @classmethod
    def filled(cls, directory: Path, count: int) -> SparkStore:
        """The one of a directory, or a new one in an empty directory.

        Raises:
            SystemExit: It holds another number of timers.
        """
        mark = directory / "filled"
        if mark.exists():
            found = cls(directory, **json.loads(mark.read_text()))
            if found.count != count:
                raise SystemExit(f"{directory}: expected {count} timers, found {found.count}")
            return found
        made = cls(directory, count)
        trio.run(fill, made.root, range(count))
        made._keep()
        return made

    @property
    def root(self) -> Path:
        """The directory of the store itself."""
        return self.directory / "store"

    @property
    def some(self) -> int:
        """How many are delivered when some are."""
        return -(-self.count // DELIVERED_EACH)

    def bring_to(self, delivered: int) -> None:
        """Deliver until none, some or all are.

        Raises:
            SystemExit: More are delivered already.
        """
        if delivered < self.delivered:
            raise SystemExit(
                f"{self.root}: expected at most {delivered} deliveries, found {self.delivered}: "
                "remove it, or ask in another order"
            )
        if delivered > self.delivered:
            trio.run(self._deliver, self.delivered, delivered)
            self.delivered = delivered
            self._keep()

    async def _deliver(self, before: int, after: int) -> None:
        """Store records that name timers as their origins, when the last of these is due."""
        clock = SystemClock()
        store = MessageStore.open(
            OsDisk(),
            str(self.root),
            StoreOptions(),
            now_ms=lambda: clock.now_ms() + SPREAD_MS[1],
            store_host=pack_host("127.0.0.1", 10911),
        )
        queue = store.queue(TIMER_TOPIC, 0)
        assert queue is not None
        for first in range(0, self.count, BATCH):
            places = queue.units(first, BATCH)["phy_offset"].tolist()
            done = set(places[::DELIVERED_EACH]) if before else set[int]()
            due = places if after == self.count else places[::DELIVERED_EACH]
            store.put(
                [
                    Message("Bench", 0, b"x" * 100, b"", prepared_offset=origin_of(place))
                    for place in due
                    if place not in done
                ]
            )
        log_end = store.commit_log.max_offset
        await store.aclose()
        if after == self.count:
            self._pass_all(log_end, clock.now_ms())

    def _pass_all(self, log_end: int, now_ms: int) -> None:
        """Say in the checkpoint what a service would say that has delivered them: all is read."""
        checkpoint = TimerCheckpoint.open(OsDisk(), f"{self.root}/config/timercheck")
        checkpoint.update(
            last_read_time_ms=(now_ms + SPREAD_MS[1]) // 1000 * 1000,
            last_timer_log_flush_pos=checkpoint.last_timer_log_flush_pos,
            last_timer_queue_offset=self.count,
            scan_py=log_end,
            precision_ms=TimerOptions().timer_precision_ms,
            now_ms=now_ms,
        )
        checkpoint.write()
        checkpoint.close()

    def _keep(self) -> None:
        kept = {"count": self.count, "delivered": self.delivered}
        (self.directory / "filled").write_text(json.dumps(kept))
