"""How busy the broker is: messages a second over ten seconds, one and ten minutes, and by the day.

Counters are read every ten seconds while a client is connected and their differences kept, so
nothing is counted twice on the way of a message.

Source: Java ``BrokerStats``, ``BrokerStatsManager``, ``StoreStatsService``.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TypeVar

import attrs

from timermq.timerstore.message_store import MessageStore

from ..topic_config import TopicConfig

SPANS = (10.0, 60.0, 600.0)
"""Seconds over which rates are taken, as in RocketMQ."""
MINUTE = 60.0
LOOKS_MAX = 64
"""Looks kept: ten minutes of them."""
GROUP_LOOKS_MAX = 8
"""Looks by topic and group kept: a minute of them."""

TopicGroup = tuple[str, str]
_Look = TypeVar("_Look")


@attrs.frozen(kw_only=True)
class Totals:
    """Counts since the start of the broker."""

    put: int = 0
    """Messages stored."""
    got: int = 0
    """Messages that consumers were given."""
    enqueued: int = 0
    """Units written to the timer log."""
    dequeued: int = 0
    """Messages that left the wheel."""


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
        self.got: Counter[TopicGroup] = Counter()
        """Messages given to consumers since the start, by topic and group."""
        self.got_size: Counter[TopicGroup] = Counter()
        """Bytes of them."""
        self.pulled_to: dict[TopicGroup, dict[int, int]] = {}
        """How far the last pull of each has looked, by queue: the next offset."""
        self.given_to: dict[TopicGroup, dict[int, int]] = {}
        """Next offset after the last pull of each that gave something, by queue."""
        self._forgotten_got = 0
        """Messages of deleted topics and groups: the broker has given them all the same."""
        self._now_ms = now_ms
        self._current_time = current_time
        self._samples: deque[tuple[float, Totals]] = deque(maxlen=LOOKS_MAX)
        self._group_samples: deque[tuple[float, dict[TopicGroup, int]]] = deque(
            maxlen=GROUP_LOOKS_MAX
        )
        self._day = _day_of(now_ms())
        self.morning = self.yesterday_morning = Totals()
        """Counters at the two last midnights, or at the start."""

    @property
    def got_count(self) -> int:
        """Messages given to consumers since the start, those of deleted topics included."""
        return self.got.total() + self._forgotten_got

    def pulled(
        self, key: TopicGroup, queue_id: int, *, count: int, size: int, next_offset: int
    ) -> None:
        """A pull has looked at a queue up to an offset, and given some messages of so many bytes.

        Also where there are none: messages that a filter leaves out are not pending.
        """
        if count:
            self.got[key] += count
            self.got_size[key] += size
            self.given_to.setdefault(key, {})[queue_id] = next_offset
        self.pulled_to.setdefault(key, {})[queue_id] = next_offset

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted: count nothing of it any more."""
        self._forget([key for key in self.pulled_to if key[0] == topic])

    def forget_group(self, group: str) -> None:
        """A group is deleted: count nothing of it any more."""
        self._forget([key for key in self.pulled_to if key[1] == group])

    def sample(self) -> None:
        """Keep the counters as they are now; once in ten seconds is enough."""
        now, totals = self._now(), self.totals()
        self._samples.append((now, totals))
        self._group_samples.append((now, dict(self.got)))
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

    def consume_tps(self, topic: str, group: str) -> float:
        """Messages a second that a group was given of a topic, over the last minute."""
        now, key = self._now(), (topic, group)
        at, first = _since(self._group_samples, now - MINUTE)
        return (self.got[key] - first.get(key, 0)) / max(now - at, SPANS[0])

    def consumed(self, topic: str, group: str) -> int:
        """Messages that a group was given of a topic in the last minute."""
        _, first = _since(self._group_samples, self._now() - MINUTE)
        return self.got[topic, group] - first.get((topic, group), 0)

    def _forget(self, keys: Iterable[TopicGroup]) -> None:
        for key in keys:
            self._forgotten_got += self.got.pop(key, 0)
            del self.got_size[key]  # a Counter takes it that there is none
            self.pulled_to.pop(key, None)
            self.given_to.pop(key, None)
            # Topics and groups made again under these names count from 0.
            for _, look in self._group_samples:
                look.pop(key, None)

    def _now(self) -> float:
        """Trio's time; before the first look, all that was counted came in the last ten seconds."""
        now = self._current_time()
        if not self._samples:
            self._samples.append((now - SPANS[0], Totals()))
            self._group_samples.append((now - SPANS[0], {}))
        return now


def _since(looks: Iterable[tuple[float, _Look]], begins_at: float) -> tuple[float, _Look]:
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
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


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
