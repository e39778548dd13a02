"""JSON in the one place where RocketMQ's is none: maps whose keys are queues.

fastjson prints such a key in place, ``{{"brokerName":"b","queueId":0,"topic":"T"}:5}``, and numbers
as keys without quotes, ``{0:7}``. Java reads its own form and no other, so admin tools and push
consumers are answered in it: topic and consume statistics, offsets that are reset, offset tables.

Source: Java ``RemotingSerializable``, ``MessageQueue``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import cast

from .lock_body import MessageQueue as MessageQueue


def encode_json(value: object) -> bytes:
    """The compact text of a value, as Java prints it.

    Args:
        value: Mappings with keys of str, int or ``MessageQueue``, in the order in which they are to
            be printed (Java's beans: by the alphabet); sequences, str, int, float, bool, None.
    """
    return _text(value).encode()


def queue_fields(queue: MessageQueue) -> dict[str, object]:
    """A queue under the names that Java has."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def _text(value: object) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return "{" + ",".join([f"{_key(key)}:{_text(item)}" for key, item in pairs]) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join([_text(item) for item in cast("Sequence[object]", value)]) + "]"
    if isinstance(value, MessageQueue):
        return _text(queue_fields(value))
    return json.dumps(value)


def _key(key: object) -> str:
    return str(key) if isinstance(key, int) else _text(key)
