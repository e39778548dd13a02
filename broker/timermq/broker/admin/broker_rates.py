"""How busy the broker is: messages a second over ten seconds, one and ten minutes, and by the day.

Counters are read every ten seconds while a client is connected, and rates are made of their
differences. So a message is counted once, by the counters that exist anyway.

Source: Java ``BrokerStats``, ``BrokerStatsManager``, ``StoreStatsService``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

import attrs

from timermq.timerstore.message_store import MessageStore

from ..topic_config import TopicConfig
from ..topic_validator import is_system_topic

SPANS = (10.0, 60.0, 600.0)
"""Seconds over which rates are taken, as in RocketMQ."""
LOOKS_MAX = 64
"""Looks kept: ten minutes of them."""

TopicGroup = tuple[str, str]


@attrs.frozen(kw_only=True)
class Totals:
    """Counts since the start of the broker."""

    put: int = 0
    """Messages stored."""
    user_put: int = 0
    """Of these, messages of users' topics, up to the last reading of the queues."""
    got: int = 0
    """Messages that consumers were given."""
    user_got: int = 0
    """Of these, messages of users' topics."""
    found: int = 0
    """Pulls that gave something."""
    missed: int = 0
    """Pulls that gave nothing, held ones each time that they are tried."""
    enqueued: int = 0
    """Units written to the timer log."""
    dequeued: int = 0
    """Messages that left the wheel."""


@attrs.define(eq=False)
class Got:
    """Counts of a topic and group since the start."""

    is_system: bool
    """The topic is one of the broker's own."""
    count: int = 0
    """Messages that the group was given."""
    size: int = 0
    """Bytes of them."""
    calls: int = 0
    """Pulls that gave them."""


class BrokerRates:
    """The counts of the last readings.

    Args:
        totals: Gives the counters as they are now.
        now_ms: Wall clock: it says when a day begins.
        current_time: trio's time.
    """

    def __init__(
        self,
        totals: Callable[[], Totals],
        *,
        now_ms: Callable[[], int],
        current_time: Callable[[], float],
    ) -> None:
        self.totals = totals
        """The counters as they are now."""
        self.got_by_group: dict[TopicGroup, Got] = {}
        """What consumers were given since the start, by topic and group."""
        self.got_count = 0
        """Messages given to consumers since the start, those of deleted topics included."""
        self.user_got_count = 0
        """Of these, messages of users' topics."""
        self.found_count = 0
        """Pulls that gave something."""
        self.missed_count = 0
        """Pulls that gave nothing."""
        self.pull_seconds_max = 0.0
        """The longest time in which a pull was read."""
        self.pulled_to: dict[TopicGroup, dict[int, int]] = {}
        """How far the last pull of each has looked, by queue: the next offset."""
        self.given_to: dict[TopicGroup, dict[int, int]] = {}
        """Next offset after the last pull of each that gave something, by queue."""
        self._now_ms = now_ms
        self._current_time = current_time
        self._samples: deque[tuple[float, Totals]] = deque(maxlen=LOOKS_MAX)
        self._day = _day_of(now_ms())
        self.morning = self.yesterday_morning = Totals()
        """Counters at the two last midnights, or at the start."""

    def pulled(
        self, key: TopicGroup, queue_id: int, *, count: int, size: int, next_offset: int
    ) -> None:
        """Count a pull that has looked at a queue up to an offset.

        Args:
            key: Its topic and group.
            queue_id: The queue.
            count: Messages that it gave. With 0 the offset is noted all the same: a consumer has
                no more to do with messages that its filter leaves out.
            size: Bytes of their records.
            next_offset: The offset behind the last message that was looked at.
        """
        if count:
            got = self.got_by_group.get(key)
            if got is None:
                got = self.got_by_group[key] = Got(is_system_topic(key[0]))
            got.count += count
            got.size += size
            got.calls += 1
            self.found_count += 1
            self.got_count += count
            if not got.is_system:
                self.user_got_count += count
            self.given_to.setdefault(key, {})[queue_id] = next_offset
        else:
            self.missed_count += 1
        self.pulled_to.setdefault(key, {})[queue_id] = next_offset

    def forget_topic(self, topic: str) -> None:
        """Forget the counts of a deleted topic."""
        self._forget([key for key in self.pulled_to if key[0] == topic])

    def forget_group(self, group: str) -> None:
        """Forget the counts of a deleted group."""
        self._forget([key for key in self.pulled_to if key[1] == group])

    def sample(self) -> None:
        """Keep the counters as they are now; once in ten seconds is enough."""
        now, totals = self._now(), self.totals()
        self._samples.append((now, totals))
        day = _day_of(self._now_ms())
        if day != self._day:
            self._day = day
            self.yesterday_morning, self.morning = self.morning, totals

    def rates(self, value: Callable[[Totals], int]) -> tuple[float, ...]:
        """Growth a second of one counter, over each of ``SPANS`` up to now."""
        now, last = self._now(), value(self.totals())
        found: list[float] = []
        for span in SPANS:
            at, first = _since(self._samples, now - span)
            found.append((last - value(first)) / max(now - at, SPANS[0]))
        return tuple(found)

    def _forget(self, keys: Iterable[TopicGroup]) -> None:
        for key in keys:
            self.got_by_group.pop(key, None)
            self.pulled_to.pop(key, None)
            self.given_to.pop(key, None)

    def _now(self) -> float:
        """Trio's time; before the first look, all that was counted came in the last ten seconds."""
        now = self._current_time()
        if not self._samples:
            self._samples.append((now - SPANS[0], Totals()))
        return now


def _since(looks: Iterable[tuple[float, Totals]], begins_at: float) -> tuple[float, Totals]:
    """The newest look that is not newer than a time, else the oldest that there is."""
    found = None
    for look in looks:
        if found is not None and look[0] > begins_at:
            break
        found = look
    assert found is not None
    return found


def _day_of(time_ms: int) -> tuple[int, int]:
    """Year and day in it, by the machine's time zone, as RocketMQ's midnight."""
    local = time.localtime(time_ms // 1000)
    return local.tm_year, local.tm_yday


MINUTE_MS = 60_000


def topic_put_count(store: MessageStore, config: TopicConfig, *, from_ms: int) -> int:
    """Messages of a topic that were stored at ``from_ms`` or later, and are still there."""
    topic = config.topic_name
    queues = (store.queue(topic, queue_id) for queue_id in range(config.queue_nums))
    return sum(
        queue.max_offset - store.offset_by_time(topic, queue.queue_id, from_ms)
        for queue in queues
        if queue is not None
    )


def topic_put_tps(store: MessageStore, config: TopicConfig, now_ms: int) -> float:
    """Messages a second that came to a topic, over the last minute."""
    return topic_put_count(store, config, from_ms=now_ms - MINUTE_MS) / (MINUTE_MS / 1000)
