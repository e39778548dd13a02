"""The deletes of a pending message: records of the timer topic, as messages for the store.

RocketMQ takes a message out of a slot when a delete there names it. 5.3.2 and 5.3.3 compare its
topic and its unique key; versions before and from 5.4 on compare its unique key alone. So each
cancel has two deletes, one in each form. For us they say the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from timermq.timerstore.message import Message
from timermq.timerstore.moved_key import MOVED_MARK, key_properties
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
from .timer_properties import DELETE, DELETE_FOR, DELETE_ORDER, DELETE_SECOND
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
    has_own_key: bool = True,
    keys: Sequence[bytes] = (),
    notes: bytes = b"",
    is_second: bool = False,
) -> Message:
    """A delete of a message that is cancelled, or that another one behind the delete replaces.

    Args:
        facts: Of the message that it cancels.
        unique_key: The one in its record.
        target_py: Position of its record.
        born_ms: When it is cancelled, epoch ms.
        makes_way_in_ms: Slot of the message that replaces it; None: there is none.
        has_own_key: The message that replaces it has a unique key of its own. Without, and in the
            same slot, RocketMQ would take it out too: so the delete names a key that no message
            has.
        keys: Keys of the user by which a move was asked for; the notes are about them too.
        notes: Properties that a move adds: what it has seen.
        is_second: The delete is the second of the two, by the unique key alone. It has no origin:
            the first delete has it.
    """
    topic = facts.destination.topic.encode()
    name = unique_key if is_second else topic + b"+" + unique_key
    if makes_way_in_ms == facts.out_ms and not has_own_key:
        name += MOVED_MARK
    properties = b"%b%b\x02%b%b%b\x02%b%d\x02" % (
        *(DELETE, name, key_properties(unique_key, *keys)),
        *(TAGS, RECALL_TAG, DELETE_ORDER, facts.order_py),
    )  # fmt: skip
    if is_second:
        properties += b"%b1\x02" % DELETE_SECOND
    elif makes_way_in_ms is not None:
        properties += b"%b%d\x02" % (DELETE_FOR, target_py) + notes
    is_alone = makes_way_in_ms is None and not is_second
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
        prepared_offset=origin_of(target_py) if is_alone else 0,
    )


def deleted_key(topic: bytes, name: bytes) -> bytes | None:
    """The unique key of the message that a producer's delete names; None: it is of another topic.

    A delete cancels a message of its own topic, which its sender has the right to send to.

    Args:
        topic: Where the delete was sent.
        name: ``topic+key`` as RocketMQ's recall writes it, or the key alone, as 5.4 does.
    """
    own, plus, key = name.partition(b"+")
    if not plus:
        return name
    return key if own == topic else None


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
