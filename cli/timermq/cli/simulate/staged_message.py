"""Messages of a plan as they go over the wire."""

from __future__ import annotations

from timermq.remoting.stored_message import property_text

from .scenario import Item, When, key_of, unique_key


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


def body_of(item: Item) -> bytes:
    """Its name, filled up to its size."""
    return unique_key(item.number).encode().ljust(item.body_size, b".")
