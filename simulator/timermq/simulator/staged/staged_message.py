"""Messages of a plan as they go over the wire, and as they have to come back."""

from __future__ import annotations

from collections.abc import Mapping

from timermq.client.history import Deliver
from timermq.remoting.stored_message import StoredMessage, property_text

from ..steps import FIRST_BEGUN, FIRST_TRANSACTION, Item, When, key_of, unique_key

LOST = "TIMERMQ_LOST"
"""Property of what a repair puts in the place of a message that is lost."""

_ARRIVING = frozenset(
    {
        "KEYS",
        "UNIQ_KEY",
        "DELAY",
        "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS",
        "MSG_REGION",
        "TRACE_ON",
        "CLUSTER",
    }
)
"""Names of the properties that the producer sets, that a broker adds, and that ask for a moment."""

_COMMITTED = _ARRIVING | {"TRAN_MSG", "PGROUP", "__transactionId__"}
"""Names of the properties of a message in a transaction."""

_BEGUN = _ARRIVING | {"REAL_TOPIC", "REAL_QID"}
"""Names of the properties of a message that RocketMQ has brought to its topic."""


def properties_of(item: Item, now_ms: int) -> bytes:
    """The property text of a message that is sent at ``now_ms``."""
    pairs = {"KEYS": key_of(item.number)}
    if item.when is When.AT:
        pairs["TIMER_DELIVER_MS"] = str(now_ms + item.ahead_ms)
    elif item.when is When.DELAY:
        pairs["TIMER_DELAY_MS"] = str(item.ahead_ms)
    elif item.when is When.LEVEL:
        pairs["DELAY"] = str(item.level)
    pairs["UNIQ_KEY"] = unique_key(item.number)
    return property_text(pairs)


def transaction_properties_of(item: Item, group: str, now_ms: int) -> bytes:
    """The property text of a half message that is sent at ``now_ms``."""
    return property_text({"TRAN_MSG": "true", "PGROUP": group}) + properties_of(item, now_ms)


def name_in(unique_id: str, keys: str) -> str:
    """The name of a message in the simulation; a row of a bulk job is called by its key."""
    return keys.partition(" ")[0] if keys[:1] == "M" else first_id(unique_id)


def first_id(unique_id: str) -> str:
    """The unique key with which a message was sent, of the key in its record, moved or not."""
    return unique_id.partition("#moved")[0]


def name_of(properties: Mapping[str, str]) -> str:
    """The name of a message in the simulation, by its properties."""
    return name_in(properties.get("UNIQ_KEY", ""), properties.get("KEYS", ""))


def fields_of(item: Item, group: str, properties: bytes, now_ms: int) -> dict[str, str]:
    """The header fields of a send."""
    return {
        "producerGroup": group,
        "topic": item.topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": str(item.queue_id),
        "sysFlag": "0",
        "bornTimestamp": str(now_ms),
        "flag": "0",
        "properties": properties.decode(),
    }


def body_of(item: Item) -> bytes:
    """Its name, filled up to its size."""
    return unique_key(item.number).encode().ljust(item.body_size, b".")


def arrival_of(message: StoredMessage, who: str, group: str, now_ms: int) -> Deliver:
    """The line of a history about a message that a consumer has received."""
    deliver_ms = message.properties.get("TIMER_DELIVER_MS")
    return Deliver(
        at_ms=now_ms,
        who=who,
        message_id=name_of(message.properties),
        topic=message.topic,
        queue=message.queue_id,
        offset=message.queue_offset,
        stored_ms=message.stored_ms,
        deliver_ms=None if deliver_ms is None else int(deliver_ms),
        received_ms=now_ms,
        group=group,
    )


def damage_of(message: StoredMessage) -> str | None:
    """The change of a message between its send and its arrival; None: there is none."""
    name = name_of(message.properties)
    if not name[1:].isdecimal() or name != unique_key(int(name[1:])):
        return f"a message named {name!r}"
    key = message.properties.get("KEYS")
    if key not in (key_of(int(name[1:])), name):
        return f"{name} has the key {key!r}"
    if message.body.rstrip(b".") != name.encode():
        return f"{name} has the body {message.body[:40]!r}"
    arriving = _COMMITTED if int(name[1:]) >= FIRST_TRANSACTION else _ARRIVING
    if int(name[1:]) >= FIRST_BEGUN:
        arriving = _BEGUN
    added = sorted(set(message.properties) - arriving)
    return f"{name} has the properties {', '.join(added)}" if added else None
