"""How many messages came to a topic lately, by the store times in its queues: nothing is counted.

Source: Java ``BrokerStatsManager.tpsTopicPutNums``, which counts every message.
"""

from __future__ import annotations

from timermq.timerstore.message_store import MessageStore

from ..topic_config import TopicConfig

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
