"""What the broker counts by topic and by group, under the names that RocketMQ's tools ask for.

They cost a message nothing: messages and bytes of topics are read from the queues now and then,
and those of groups are sums of pulls, which are counted anyway.

Source: Java ``BrokerStatsManager``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

import attrs
import structlog
import trio

from timermq.timerstore.message_store import MessageStore

from ..metrics.stored_sizes import StoredSizes
from .broker_rates import BrokerRates, TopicGroup
from .put_times import PutTimes
from .stats_table import SPANS, Counts, Growth, Key, StatsTable

MESSAGES, SIZE = 0, 1
"""Places in ``Counts``."""
_TOPIC, _GROUP, _SENT_BACK = "topic", "group", "sent back"
_PUT, _GOT, _USER_PUT, _USER_GOT = "put", "got", "user put", "user got"
STATISTICS = {
    "BROKER_GET_NUMS": (_GOT, MESSAGES),
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": (_USER_GOT, MESSAGES),
    "BROKER_PUT_NUMS": (_PUT, MESSAGES),
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": (_USER_PUT, MESSAGES),
    "GROUP_GET_NUMS": (_GROUP, MESSAGES),
    "GROUP_GET_SIZE": (_GROUP, SIZE),
    "SNDBCK_PUT_NUMS": (_SENT_BACK, MESSAGES),
    "TOPIC_PUT_NUMS": (_TOPIC, MESSAGES),
    "TOPIC_PUT_SIZE": (_TOPIC, SIZE),
}
"""Name of a statistic to its family of counters, and which of them it tells."""


log = structlog.get_logger("timermq.broker.admin.broker_stats")


@attrs.define(eq=False)
class BrokerStats:
    """The counters of one broker, and their readings."""

    store: MessageStore
    rates: BrokerRates
    sizes: StoredSizes
    put_times: PutTimes
    cluster: str
    """Name of the cluster: the key of what is counted for the whole broker."""
    current_time: Callable[[], float]
    """trio's time."""
    batched: Counter[str] = attrs.field(factory=Counter[str], init=False)
    """By topic: messages that came in a batch behind its first one."""
    sent_back: Counter[TopicGroup] = attrs.field(factory=Counter[TopicGroup], init=False)
    """Messages that groups sent back, by topic and group."""
    retried_count: int = attrs.field(default=0, init=False)
    """Those of them that are retried: they count as put when that comes, and not before."""
    _table: StatsTable | None = attrs.field(default=None, init=False)
    """None before the first client, from which on readings are taken."""

    async def sample(self) -> None:
        """Keep the counters as they are now; called every ten seconds while there are clients.

        Cancellation: what was read is read the next time.
        """
        self.rates.sample()
        self.put_times.turn(self.current_time())
        try:
            for _ in self._catch_up():
                await trio.lowlevel.checkpoint()
        except OSError as error:
            # Requests that need the disk report it. The next reading goes on where this one ended.
            log.warning("statistics not read", error=str(error))

    def _catch_up(self) -> Iterator[None]:
        """Take the readings that are due, in pieces of work with a yield between them."""
        if self._table is None:
            self._table = StatsTable(self.current_time())
        if self._table.is_due(self.current_time()):
            yield from self.sizes.read(self.store)
            counters = chain(
                self._broker_counters(), self._topic_counters(), self._group_counters()
            )
            yield from self._table.read(self.current_time(), counters)

    def growth(self, name: str, key: str) -> dict[str, Growth] | None:
        """How a statistic grew over each span, by the span's name, as of its last reading.

        Returns:
            None if there is no such statistic, or it has counted nothing so far.
        """
        statistic = STATISTICS.get(name)
        if statistic is None or self._table is None:
            return None
        return self._table.growth((statistic[0], key))

    def get_tps(self, topic: str, group: str) -> float:
        """Messages a second that a group was given of a topic, over the last minute."""
        found = self.growth("GROUP_GET_NUMS", _key(topic, group))
        return 0.0 if found is None else tps(found[SPANS[0].name], MESSAGES)

    def count_batch(self, topic: str, count: int) -> None:
        """A batch of so many messages was stored: it counts as one put."""
        self.batched[topic] += max(count - 1, 0)

    def count_sent_back(self, topic: str, group: str, *, is_retry: bool) -> None:
        """A group has sent a message back, for another try or as a dead letter."""
        self.sent_back[topic, group] += 1
        self.retried_count += is_retry

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic: one that is made again under its name counts from 0."""
        self.rates.forget_topic(topic)
        self.sizes.forget_topic(topic)
        self.batched.pop(topic, None)
        self._forget(lambda place: place[0] == topic, topic)

    def forget_group(self, group: str) -> None:
        """Forget a deleted group: one that is made again under its name counts from 0."""
        self.rates.forget_group(group)
        self._forget(lambda place: place[1] == group, None)

    def _forget(self, is_gone: Callable[[TopicGroup], bool], topic: str | None) -> None:
        for place in [one for one in self.sent_back if is_gone(one)]:
            del self.sent_back[place]
        if self._table is None:
            return
        gone = [
            (family, key)
            for family, key in self._table
            if (family in (_GROUP, _SENT_BACK) and is_gone(_place(key)))
            or (family == _TOPIC and key == topic)
        ]
        self._table.forget(gone)

    def _broker_counters(self) -> Iterator[tuple[Key, Counts]]:
        """Counters of the whole broker; as in RocketMQ without calls."""
        sums = {
            _PUT: self.sizes.count - self.retried_count,
            _GOT: self.rates.got_count,
            _USER_PUT: self.sizes.user_count,
            _USER_GOT: self.rates.user_got_count,
        }
        for family, count in sums.items():
            if count > 0:
                yield (family, self.cluster), (count, 0, 0)

    def _topic_counters(self) -> Iterator[tuple[Key, Counts]]:
        for topic, sizes in list(self.sizes.by_topic.items()):
            count = sizes.count
            yield (_TOPIC, topic), (count, sizes.total, count - self.batched[topic])

    def _group_counters(self) -> Iterator[tuple[Key, Counts]]:
        for place, got in list(self.rates.got_by_group.items()):
            yield (_GROUP, _key(*place)), (got.count, got.size, got.calls)
        for place, count in list(self.sent_back.items()):
            yield (_SENT_BACK, _key(*place)), (count, 0, count)


def tps(growth: Growth, column: int) -> float:
    """Growth a second of one of its counters."""
    return growth.counts[column] / growth.seconds if growth.seconds else 0.0


def per_call(growth: Growth, column: int) -> float:
    """Growth a call; 0 where calls are not counted."""
    return growth.counts[column] / growth.counts[2] if growth.counts[2] else 0.0


def _key(topic: str, group: str) -> str:
    return f"{topic}@{group}"


def _place(key: str) -> TopicGroup:
    topic, _, group = key.partition("@")
    return topic, group
