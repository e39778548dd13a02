"""The header of a send, with long names (code 10) or one-letter names (310, 320).

Source: Java ``SendMessageRequestHeader``, ``SendMessageRequestHeaderV2``.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .command import Command
from .field import SMALL, FieldError, boolean, integer

DEFAULT_TOPIC = "TBW102"

LETTERS = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "brokerName": "n",
}
"""How codes 310 and 320 name the parameters of code 10."""
_WORDS = {name: name for name in LETTERS}

_INT32 = range(-(2**31), 2**31)


# A plain __init__ with refusing setters: a third of the cost of a frozen class, and one is made for
# every message.
@attrs.define(kw_only=True, on_setattr=attrs.setters.frozen)
class SendHeader:
    """The parameters of a send, whichever of its codes carries them."""

    topic: str
    queue_id: int
    """Negative: the broker picks one."""
    producer_group: str = ""
    default_topic: str = DEFAULT_TOPIC
    """Template for a topic that is made on first send."""
    default_topic_queue_nums: int = 4
    sys_flag: int = 0
    born_ms: int = 0
    flag: int = 0
    properties: bytes = b""
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    batch: bool = False

    @classmethod
    def from_v1(cls, command: Command) -> SendHeader:
        """Read code 10.

        Raises:
            FieldError: A parameter is missing or malformed.
        """
        return _read(command, _WORDS)

    @classmethod
    def from_v2(cls, command: Command) -> SendHeader:
        """Read codes 310 and 320.

        Raises:
            FieldError: A parameter is missing or malformed.
        """
        return _read(command, LETTERS)

    def to_v2(self) -> dict[str, str]:
        """The parameters of codes 310 and 320."""
        values = {
            "producerGroup": self.producer_group,
            "topic": self.topic,
            "defaultTopic": self.default_topic,
            "defaultTopicQueueNums": str(self.default_topic_queue_nums),
            "queueId": str(self.queue_id),
            "sysFlag": str(self.sys_flag),
            "bornTimestamp": str(self.born_ms),
            "flag": str(self.flag),
            "properties": self.properties.decode(),
            "reconsumeTimes": str(self.reconsume_times),
            "unitMode": "false",
            "batch": "true" if self.batch else "false",
        }
        return {LETTERS[name]: value for name, value in values.items()}


def _read(command: Command, names: Mapping[str, str]) -> SendHeader:
    get = command.ext.get
    topic = get(names["topic"])
    if topic is None:
        raise FieldError(command, names["topic"], "a value", "none")
    limit = names["maxReconsumeTimes"]
    return SendHeader(
        producer_group=get(names["producerGroup"], ""),
        topic=topic,
        default_topic=get(names["defaultTopic"], DEFAULT_TOPIC),
        default_topic_queue_nums=_int32(command, names["defaultTopicQueueNums"], 4),
        queue_id=_int32(command, names["queueId"], None),
        sys_flag=_int32(command, names["sysFlag"], 0),
        born_ms=integer(command, names["bornTimestamp"], default=0),
        flag=_int32(command, names["flag"], 0),
        properties=get(names["properties"], "").encode(),
        reconsume_times=_int32(command, names["reconsumeTimes"], 0),
        max_reconsume_times=integer(command, limit) if get(limit) else None,
        batch=boolean(command, names["batch"]),
    )


def _int32(command: Command, name: str, default: int | None) -> int:
    value = command.ext.get(name)
    if value is not None and value in SMALL:
        return SMALL[value]  # nearly all of them
    number = integer(command, name, default=default)
    if number not in _INT32:
        raise FieldError(command, name, "a 32-bit number", str(number))
    return number
