"""The queues for new messages: one entry for each topic and queue, with its next queue offset.

The table is RocketMQ's topic-queue table (QueueOffsetOperator, AssignQueueOffset); an entry also
holds what every record of the queue repeats, so that the hot loop makes it once.
"""

import attrs

from .consume_queue import ConsumeQueue
from .consume_queue_table import ConsumeQueueTable
from .delay_levels import SCHEDULE_TOPIC
from .record_layout import MAGIC_V1, MAGIC_V2, TOPIC_SIZE_V1_MAX
from .topic_name import RETRY_GROUP_TOPIC_PREFIX, RETRY_TOPIC_LENGTH_MAX, TOPIC_LENGTH_MAX

QUEUE_ID_MAX = 0x7FFFFFFF


def queue_refusal(topic: str, queue_id: int) -> str | None:
    """Say why no message can be stored under a topic and queue, None when it can.

    A topic is also the name of a directory: one that would lead out of the store is refused here,
    of any sender.

    Source: DefaultMessageStore.checkMessage (HookUtils.checkBeforePutMessage).
    """
    size = len(topic.encode(errors="surrogatepass"))
    is_retry = topic.startswith(RETRY_GROUP_TOPIC_PREFIX)
    size_max = RETRY_TOPIC_LENGTH_MAX if is_retry else TOPIC_LENGTH_MAX
    if not 0 < size <= size_max:
        return f"topic of {size} bytes: expected 1 to {size_max}"
    if topic in (".", "..") or not topic.isprintable() or "/" in topic:
        return f"topic {topic!r}: not a name that a directory can have"
    if not 0 <= queue_id <= QUEUE_ID_MAX:
        return f"queue id {queue_id}: expected 0 to {QUEUE_ID_MAX}"
    return None


@attrs.define(eq=False)
class TopicQueue:
    """The destination of one topic and queue."""

    topic: str
    queue_id: int
    topic_part: bytes
    """Length and name of the topic as they stand in a record."""
    magic: int
    has_levels: bool
    """Whether units carry deliver times of delay levels in place of tags codes."""
    queue: ConsumeQueue
    next_offset: int
    """Queue offset of the next message put; the queue itself may lag behind until the log is
    synced."""
    units: list[bytes] = attrs.field(factory=list[bytes])
    """Units of the batch that is being made."""
    first_offset: int = 0
    """Queue offset of the first of them."""
    end: int = 0
    """End in the log of the last one's record."""


class TopicQueueTable:
    """Next queue offsets of all queues; an entry is made when a message first needs it."""

    def __init__(self, queues: ConsumeQueueTable) -> None:
        self._queues = queues
        self._entries: dict[tuple[str, int], TopicQueue] = {}
        self.get = self._entries.get
        """The entry of a (topic, queue id), None when there is none yet: the dict's own method."""

    def add(self, topic: str, queue_id: int) -> TopicQueue:
        """Make the entry of a topic and queue that `queue_refusal` accepts."""
        queue = self._queues.find_or_create(topic, queue_id)
        name = topic.encode()
        length_size = 1 if len(name) <= TOPIC_SIZE_V1_MAX else 2
        entry = TopicQueue(
            topic=topic,
            queue_id=queue_id,
            topic_part=len(name).to_bytes(length_size) + name,
            magic=MAGIC_V1 if length_size == 1 else MAGIC_V2,
            has_levels=topic == SCHEDULE_TOPIC,
            queue=queue,
            next_offset=queue.max_offset,
        )
        self._entries[topic, queue_id] = entry
        return entry

    def remove_topic(self, topic: str) -> None:
        """Forget the entries of a topic."""
        for key in [key for key in self._entries if key[0] == topic]:
            del self._entries[key]

    def clear(self) -> None:
        """Forget all entries: queues have been given units by others."""
        self._entries.clear()
