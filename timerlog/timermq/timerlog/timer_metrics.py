"""How many messages wait, by topic: ``config/timermetrics``.

Compact JSON, ASCII, in one line; saved with the backup scheme of the configuration files::

    {"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1700000000500},
     "timingCount":{"T":{"count":2,"timeStamp":1700000000400}}}

The numbers are derived and only for people: a file that is missing or cannot be read counts from
nothing. They never fall below zero (RocketMQ's do, issue #10019).

Source: Java ``TimerMetrics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from timermq.timerstore.config_file import fastjson, load_json, save_json
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreError
from timermq.timerstore.java_hash import java_hash


@attrs.define
class _Metric:
    count: int
    timestamp: int


class TimerMetrics:
    """Counts of pending messages. ``load`` makes one."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._metrics: dict[str, _Metric] = {}
        self._topics: dict[int, str] = {}
        """By its hash the topic; of several with one hash the first that came."""
        self._touched: set[str] = set()
        self._counter = 0
        self._state_version = 0
        self._timestamp = 0
        self._saved = ""

    @classmethod
    def load(cls, disk: Disk, path: str) -> TimerMetrics:
        """Read the file or its backup; what cannot be understood is left out."""
        metrics = cls(disk, path)
        try:
            root = _object(load_json(disk, path))
        except StoreError:
            root = {}
        version = _object(root.get("dataVersion"))
        metrics._counter = _integer(version.get("counter"))
        metrics._state_version = _integer(version.get("stateVersion"))
        metrics._timestamp = _integer(version.get("timestamp"))
        for topic, value in _object(root.get("timingCount")).items():
            metric = _object(value)
            known = metrics._metric(topic)
            known.count = max(_integer(metric.get("count")), 0)
            known.timestamp = _integer(metric.get("timeStamp"))
        return metrics

    def add(self, topic: str, count: int) -> None:
        """Add ``count`` messages, or take them away when it is negative."""
        metric = self._metric(topic)
        metric.count = max(metric.count + count, 0)
        self._touched.add(topic)
        self._counter += 1

    def add_by_hash(self, topic_hash: int, count: int) -> None:
        """The same for the topic with a hash, as units have it; none, if none has it."""
        topic = self._topics.get(topic_hash)
        if topic is not None:
            self.add(topic, count)

    def _metric(self, topic: str) -> _Metric:
        """The counts of a topic. It is known from then on, and is never forgotten."""
        metric = self._metrics.get(topic)
        if metric is None:
            metric = self._metrics[topic] = _Metric(0, 0)
            self._topics.setdefault(java_hash(topic), topic)
        return metric

    def replace(self, counts: Mapping[str, int]) -> None:
        """Take counts that were made again; topics that are not among them have 0."""
        before = self.counts()
        for topic in dict.fromkeys((*before, *counts)):
            change = counts.get(topic, 0) - before.get(topic, 0)
            if change:
                self.add(topic, change)

    def counts(self) -> dict[str, int]:
        """Number of pending messages by topic."""
        return {topic: metric.count for topic, metric in self._metrics.items()}

    def text(self, now_ms: int) -> str:
        """The file's text; ``now_ms`` is noted as the time of what changed since the last text."""
        for topic in self._touched:
            self._metrics[topic].timestamp = now_ms
        if self._touched:
            self._timestamp = now_ms
            self._touched.clear()
        return fastjson(
            {
                "dataVersion": {
                    "counter": self._counter,
                    "stateVersion": self._state_version,
                    "timestamp": self._timestamp,
                },
                "timingCount": {
                    topic: {"count": metric.count, "timeStamp": metric.timestamp}
                    for topic, metric in self._metrics.items()
                },
            },
            pretty=False,
        )

    async def save(self, text: str) -> None:
        """Write ``text``, unless it is what was saved last.

        Cancellation: the old file or the new one is there, or the backup.

        Raises:
            OSError: The disk refused.
        """
        if text != self._saved:
            await save_json(self._disk, self._path, text)
            self._saved = text


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _integer(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
