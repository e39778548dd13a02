"""Ends of queues whose records are all cleaned: the log of a backup does not tell them.

A restored store would number such a queue from 0 again, and groups that have committed higher
offsets would miss its next messages. So the ends are added to the list of queues in the backup
(``config/consumeQueues.json``, see ``queue_register``), from which a start takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from timermq.timerstore.config_file import fastjson, parse_json
from timermq.timerstore.consume_queue_table import ConsumeQueueTable, QueueKey
from timermq.timerstore.disk import Disk

REGISTER = "consumeQueues.json"
"""Path of the list of queues below ``config/``."""


def cleaned_queue_ends(
    disk: Disk, root: str, file_size: int, log_start: int
) -> dict[QueueKey, int]:
    """Next offsets of the queues that have no record at or behind a position.

    Args:
        disk: The disk of the store, which may be served.
        root: Its directory.
        file_size: Bytes of one file of a queue.
        log_start: Start of the log.

    Raises:
        OSError: The disk failed.
    """
    if not log_start:
        return {}
    queues = ConsumeQueueTable(disk, root, segment_size=file_size, read_only=True)
    try:
        queues.recover()
        return {
            (queue.topic, queue.queue_id): queue.max_offset
            for queue in queues
            if queue.max_offset and queue.max_physic_offset <= log_start
        }
    finally:
        queues.close()


def with_ends(data: bytes | None, ends: Mapping[QueueKey, int]) -> bytes | None:
    """The list of queues with more ends; as it is where there are none.

    Args:
        data: The file; None when there is none.
        ends: Next offsets of queues; a higher one in the file stays.
    """
    if not ends:
        return data
    content = cast("dict[str, object]", parse_json((data or b"{}").decode()))
    listed = cast("dict[str, dict[int | str, int]]", content.get("queues", {}))
    queues = {
        topic: {int(one): end for one, end in offsets.items()} for topic, offsets in listed.items()
    }
    for (topic, queue_id), end in ends.items():
        offsets = queues.setdefault(topic, {})
        offsets[queue_id] = max(offsets.get(queue_id, 0), end)
    return fastjson({**content, "queues": queues}).encode()
