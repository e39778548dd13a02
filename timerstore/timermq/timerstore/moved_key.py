r"""Unique keys of moved messages, which differ from the keys that their producers gave.

RocketMQ takes all messages out of a slot whose unique key a delete names. So the record of a moved
message has another unique key than the record that it replaces::

    <key>#moved<position of the replaced record>

The producer's key is among its ``KEYS``, so the index finds the record by either key. A message
with such a unique key counts as one with the key before ``#moved``.
"""

from __future__ import annotations

from .properties import KEYS, KEYS_NAME, KEYS_SEPARATOR, UNIQ_KEY, UNIQ_KEY_NAME, find, remove

MOVED_MARK = b"#moved"
"""Between the key that the producer gave and the position."""


def moved_key(unique_key: bytes, replaced_py: int) -> bytes:
    """The unique key of a record that replaces the one at a position."""
    return b"%b%b%d" % (first_key(unique_key), MOVED_MARK, replaced_py)


def first_key(unique_key: bytes) -> bytes:
    """The unique key that the producer gave, of the key in any record of the message."""
    first, _, position = unique_key.rpartition(MOVED_MARK)
    return first if first and position.isdigit() else unique_key


def key_properties(unique_key: bytes, *keys: bytes) -> bytes:
    """The properties by which the index finds a record, by both of its keys if it has two.

    Args:
        unique_key: The key in the record.
        keys: More keys to find it by.
    """
    first = first_key(unique_key)
    all_keys = [*keys, first] if first != unique_key else [*keys]
    stated = b"%b%b\x02" % (UNIQ_KEY, unique_key)
    return stated + b"%b%b\x02" % (KEYS, KEYS_SEPARATOR.join(all_keys)) if all_keys else stated


def has_unique_key(properties: bytes, key: bytes) -> bool:
    """Whether properties are those of a message with a unique key, moved or not."""
    found = find(properties, UNIQ_KEY_NAME)
    return found is not None and key in (found, first_key(found))


def keys_of_move(properties: bytes) -> bytes:
    """The properties with the key of a moved message, found among others; empty if it is not moved.

    They stand among others in a record that RocketMQ has rolled.
    """
    if MOVED_MARK not in properties:
        return b""
    unique_key = find(properties, UNIQ_KEY_NAME) or b""
    first = first_key(unique_key)
    *keys, last = (find(properties, KEYS_NAME) or b"").split(KEYS_SEPARATOR)
    return key_properties(unique_key, *keys) if first != unique_key and last == first else b""


def as_sent(properties: bytes) -> bytes:
    """Properties with the producer's keys again, if ``keys_of_move`` finds those of a move."""
    moved = keys_of_move(properties)
    if not moved:
        return properties
    *keys, first = (find(moved, KEYS_NAME) or b"").split(KEYS_SEPARATOR)
    for name in (UNIQ_KEY_NAME, KEYS_NAME):
        properties = remove(properties, name)
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    return properties + key_properties(first, *keys)
