"""The recall handle: a producer keeps it in order to cancel a delayed message.

URL-safe Base64, padded, of ``v1 <topic> <broker> <timestamp> <UNIQ_KEY>`` joined by single blanks.
The timestamp is the slot time plus one, so that the delete message rounds to the target's slot
whatever the precision.

Source: Java ``RecallMessageHandle.HandleV1``.
"""

from __future__ import annotations

import base64
import binascii

import attrs
import numpy as np

from timermq.timerstore.array_types import Rows
from timermq.timerstore.byte_columns import joined_rows

HANDLE_SIZE_MAX = 1024
"""Characters; a topic of 127, a broker name and a key of 56 need about 300."""

_VERSION = "v1"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class HandleError(ValueError):
    """The text is not a recall handle of version 1; the sender passes the one it was given."""


@attrs.frozen(kw_only=True)
class RecallHandle:
    """The parts of a recall handle, decoded."""

    topic: str
    broker_name: str
    timestamp_ms: int
    """Slot time plus one, epoch milliseconds; -1 when the text holds no number."""
    unique_key: str


def encode_handle(topic: str, broker_name: str, timestamp_ms: int, unique_key: str) -> str:
    """The handle of a timer message whose slot time is ``timestamp_ms - 1``."""
    text = f"{_VERSION} {topic} {broker_name} {timestamp_ms} {unique_key}".encode()
    return binascii.b2a_base64(text, newline=False).translate(_URL_SAFE).decode("ascii")


def encode_handles(topic: str, broker_name: str, timestamps: Rows, unique_keys: Rows) -> Rows:
    """``encode_handle`` of many messages, as rows; timestamps are digits."""
    head = f"{_VERSION} {topic} {broker_name} ".encode()
    count = len(timestamps)
    padding = -(len(head) + timestamps.shape[1] + 1 + unique_keys.shape[1]) % 3
    # With each text filled up to whole groups of three, one call encodes all of them.
    texts = joined_rows(count, (head, timestamps, b" ", unique_keys, bytes(padding)))
    encoded = binascii.b2a_base64(texts.tobytes(), newline=False).translate(_URL_SAFE)
    handles = np.frombuffer(bytearray(encoded), np.uint8).reshape(count, -1)
    handles[:, handles.shape[1] - padding :] = ord("=")
    return handles


def decode_handle(text: str) -> RecallHandle:
    """Read a handle back.

    Raises:
        HandleError: Empty, too long, not Base64, not UTF-8, fewer than five items, or not ``v1``.
    """
    if not 0 < len(text) <= HANDLE_SIZE_MAX:
        raise HandleError(f"recall handle: expected 1 to {HANDLE_SIZE_MAX} characters")
    try:
        items = base64.b64decode(text.encode(), altchars=b"-_", validate=True).decode().split(" ")
    except (binascii.Error, UnicodeError) as error:
        raise HandleError(f"recall handle: not URL-safe Base64 of UTF-8 text: {error}") from None
    if len(items) < 5 or items[0] != _VERSION:
        raise HandleError("recall handle: expected 'v1 topic broker timestamp key'")
    _, topic, broker_name, timestamp, unique_key = items[:5]
    return RecallHandle(
        topic=topic,
        broker_name=broker_name,
        timestamp_ms=int(timestamp) if timestamp.isascii() and timestamp.isdigit() else -1,
        unique_key=unique_key,
    )
