"""The delete of a pending message: a record of the timer topic, as a message for the store."""

from __future__ import annotations

from timermq.timerstore.message import Message
from timermq.timerstore.properties import (
    KEYS,
    KEYS_NAME,
    KEYS_SEPARATOR,
    TAGS,
    UNIQ_KEY,
    UNIQ_KEY_NAME,
    find,
    remove,
)

from .deduplication import origin_of
from .timer_properties import DELETE, DELETE_FOR, DELETE_ORDER
from .timer_record import TIMER_TOPIC, TimerFacts, timer_tail

RECALL_TAG = b"_RECALL_TAG_"
RECALL_BODY = b"0"


def delete_message(
    facts: TimerFacts,
    unique_key: bytes,
    target_py: int,
    *,
    born_ms: int,
    makes_way_in_ms: int | None = None,
    notes: bytes = b"",
) -> Message:
    """The delete of a message, with another one behind it that replaces it or not.

    RocketMQ deletes by unique key, so a replacement in the same slot would go as well: there the
    key is one that no message has.

    Args:
        facts: Of the message that it cancels.
        unique_key: Of that message.
        target_py: Position of its record.
        born_ms: When it is cancelled, epoch ms.
        makes_way_in_ms: Slot of the message that replaces it; None: there is none.
        notes: Properties that a move adds: what it has seen.
    """
    topic = facts.destination.topic.encode()
    name = topic + b"+" + unique_key
    if makes_way_in_ms == facts.out_ms:
        name += b"#moved"
    properties = b"%b%b\x02%b%b\x02%b%b\x02%b%d\x02" % (
        *(DELETE, name, UNIQ_KEY, unique_key),
        *(TAGS, RECALL_TAG, DELETE_ORDER, facts.order_py),
    )  # fmt: skip
    if makes_way_in_ms is not None:
        properties += b"%b%d\x02" % (DELETE_FOR, target_py) + notes
    tail = timer_tail(
        deliver_ms=facts.out_ms + 1,
        out_ms=facts.out_ms,
        topic=facts.destination.topic,
        queue_id=facts.destination.queue_id,
    )
    return Message(
        TIMER_TOPIC,
        0,
        RECALL_BODY,
        properties + tail,
        born_ms=born_ms,
        prepared_offset=origin_of(target_py) if makes_way_in_ms is None else 0,
    )


def deleted_key(topic: str, name: bytes) -> bytes | None:
    """The unique key of the message that a producer's delete names; None: it is of another topic.

    A delete cancels a message of its own topic, which its sender has the right to send to.

    Args:
        topic: Where the delete was sent.
        name: ``topic+key`` as RocketMQ's recall writes it, or the key alone, as 5.4 does.
    """
    own, plus, key = name.partition(b"+")
    if not plus:
        return name
    return key if own == topic.encode() else None


def found_by_its_target(properties: bytes, unique_key: bytes) -> bytes:
    """The properties of a producer's delete, with the unique key of what it cancels as its own.

    RocketMQ's recall stores it so. A producer that sends the delete itself gives it another key, or
    none: then nothing that looks for the message would meet it. That key is kept among its keys.

    Args:
        properties: Of the delete, each with its separator behind it.
        unique_key: Of the message that it cancels.
    """
    other = find(properties, UNIQ_KEY_NAME)
    if other == unique_key:
        return properties
    if other is not None:
        keys = (find(properties, KEYS_NAME), other)
        joined = KEYS_SEPARATOR.join(key for key in keys if key is not None)
        others = remove(remove(properties, UNIQ_KEY_NAME), KEYS_NAME)
        properties = others + b"%b%b\x02" % (KEYS, joined)
    return properties + b"%b%b\x02" % (UNIQ_KEY, unique_key)
