"""Messages of classic levels that a Java broker left waiting, and that nothing here delivers yet.

They stand on ``SCHEDULE_TOPIC_XXXX``, a queue a level; ``config/delayOffset.json`` says up to where
each was delivered. Nothing of it is lost, but whoever serves such a store has to know.

Source: Java ``ScheduleMessageService``.
"""

from __future__ import annotations

from timermq.timerstore.config_file import load_json
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.message_store import MessageStore

from .config_fields import ConfigFields, ConfigTableError

FILE = "config/delayOffset.json"


def count_left(store: MessageStore) -> int:
    """How many messages wait for a classic level; all that are there when the file cannot be read.

    Args:
        store: An open store, read only or not.
    """
    offsets = _delivered(store)
    return sum(
        max(queue.max_offset - max(offsets.get(queue.queue_id + 1, 0), queue.min_offset), 0)
        for queue in store.queues()
        if queue.topic == SCHEDULE_TOPIC
    )


def _delivered(store: MessageStore) -> dict[int, int]:
    """Level to the queue offset of the next message that was to be delivered."""
    try:
        data = load_json(store.disk, f"{store.root}/{FILE}")
        if data is None:
            return {}
        return ConfigFields(FILE, data).offsets("offsetTable")
    except (StoreFormatError, ConfigTableError):
        return {}
