r"""Properties: ``name \x01 value \x02`` one after the other, as bytes.

On the way through the store they stay bytes: nothing here makes a dictionary but ``parse``. Names
and values are UTF-8 and hold neither separator; there is no escaping. A missing last ``\x02`` is
tolerated when reading. Of a name that stands twice the last one counts, and a property whose value
is empty is no property, as in Java: ``find(data, name)`` is always what ``parse(data)`` has there.

``X_NAME`` is the name of a property, as ``find`` and ``remove`` take it; ``X`` is how the property
begins in a text: the name and the ``\x01`` that ends it.

Source: Java ``MessageDecoder.messageProperties2String``, ``string2messageProperties``; the names
are those of ``MessageConst``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

PROPERTIES_SIZE_MAX = 32_767
"""Bytes of a whole text; the length field of a record is a signed 16-bit number."""

KEYS_NAME = b"KEYS"
TAGS_NAME = b"TAGS"
WAIT_NAME = b"WAIT"
DELAY_NAME = b"DELAY"
UNIQ_KEY_NAME = b"UNIQ_KEY"
REAL_TOPIC_NAME = b"REAL_TOPIC"
REAL_QID_NAME = b"REAL_QID"
PREPARED_NAME = b"TRAN_MSG"
REPLY_TO_CLIENT_NAME = b"REPLY_TO_CLIENT"
SHARDING_KEY_NAME = b"__SHARDINGKEY"
PRIORITY_NAME = b"_SYS_MSG_PRIORITY_"

KEYS = KEYS_NAME + b"\x01"
TAGS = TAGS_NAME + b"\x01"
DELAY = DELAY_NAME + b"\x01"
UNIQ_KEY = UNIQ_KEY_NAME + b"\x01"
REAL_TOPIC = REAL_TOPIC_NAME + b"\x01"
REAL_QID = REAL_QID_NAME + b"\x01"
PREPARED = PREPARED_NAME + b"\x01"
REPLY_TO_CLIENT = REPLY_TO_CLIENT_NAME + b"\x01"
PRIORITY = PRIORITY_NAME + b"\x01"
INNER_NUM = b"INNER_NUM\x01"

KEYS_SEPARATOR = b" "
"""Between the items of KEYS."""

_WELL_FORMED = re.compile(
    rb"(?:[^\x00-\x1f\x7f]++\x01[^\x01\x02]*+\x02)*+(?:[^\x00-\x1f\x7f]++\x01[^\x01\x02]*+)?+"
)
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_NO_CONTROLS = bytes(byte for byte in range(256) if byte >= 0x20 and byte != 0x7F)
_SHOWN_SIZE = 48
"""Bytes of a property that an explanation quotes."""


def encode(pairs: Mapping[str, str]) -> bytes:
    """The text of ``pairs``, in their order.

    Raises:
        ValueError: A name is empty, or a name or value holds a separator.
    """
    for name, value in pairs.items():
        if not name or any(mark in text for text in (name, value) for mark in "\x01\x02"):
            raise ValueError(
                f"property {name!r}: expected a name, no 0x01 and no 0x02, found {value!r}"
            )
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()


def parse(data: bytes) -> dict[str, str]:
    """The properties as a dictionary; pieces without a name or a value are left out, as in Java."""
    found: dict[str, str] = {}
    for piece in data.decode("utf-8", "replace").split("\x02"):
        name, mark, value = piece.partition("\x01")
        if name and mark and value:
            found[name] = value
    return found


def find(data: bytes, name: bytes) -> bytes | None:
    """The last value of ``name`` that is not empty; None when there is none."""
    wanted = _mark(name)
    at = data.rfind(wanted)
    while at >= 0:
        start = at + len(wanted)
        end = data.find(b"\x02", start)
        if end < 0:
            end = len(data)
        if start < end:
            return data[start:end]
        at = data.rfind(wanted, 0, at)
    if data.startswith(wanted[1:]):
        return data[len(wanted) - 1 :].partition(b"\x02")[0] or None
    return None


def remove(data: bytes, name: bytes) -> bytes:
    r"""The text without any ``name``; the same object when it is not there.

    What remains ends with ``\x02``.
    """
    wanted = name + b"\x01"
    if wanted not in data:
        return data
    kept = [piece for piece in data.split(b"\x02") if piece and not piece.startswith(wanted)]
    return b"".join(piece + b"\x02" for piece in kept)


def validate(data: bytes) -> str | None:
    """Which rule a text from outside breaks; None when it is well formed.

    Every property is a name, one 0x01 and a value; names hold no control characters, values hold
    no separators. Java checks none of this: a value with a separator adds properties of its own.
    """
    if len(data) > PROPERTIES_SIZE_MAX:
        return f"properties: expected at most {PROPERTIES_SIZE_MAX} bytes, found {len(data)}"
    if _WELL_FORMED.fullmatch(data) is not None:
        return None
    pieces = data.removesuffix(b"\x02").split(b"\x02")
    broken = ((index, _broken_rule(piece), piece) for index, piece in enumerate(pieces))
    return next(
        f"property {index}: {rule}, found {piece[:_SHOWN_SIZE]!r}"
        for index, rule, piece in broken
        if rule is not None
    )


def join_run(texts: Sequence[bytes]) -> bytes | None:
    r"""All ``texts``, each followed by ``\x00``, if they fit into a run; None otherwise.

    A text fits that is well formed, ends with its separator or is empty, and has no controls in its
    values: nearly every text. To find out for many at once takes a tenth of ``validate``.
    """
    count = len(texts)
    joined = b"\x00".join((*texts, b""))
    marks = joined.translate(None, _NO_CONTROLS)
    do_fit = (
        marks.replace(b"\x01\x02", b"") == bytes(count)
        and joined.count(b"\x02\x00") + texts.count(b"") == count
        and not joined.startswith(b"\x01")
        and b"\x00\x01" not in joined
        and b"\x02\x01" not in joined
    )
    return joined if do_fit else None


@lru_cache(256)
def _mark(name: bytes) -> bytes:
    """The bytes before the value of every property ``name`` but the first of a text."""
    return b"\x02" + name + b"\x01"


def _broken_rule(piece: bytes) -> str | None:
    name, mark, value = piece.partition(b"\x01")
    if not mark:
        return "expected 0x01 between name and value"
    if not name:
        return "expected a name before 0x01"
    if _CONTROL.search(name):
        return "expected no control characters in the name"
    if b"\x01" in value:
        return "expected one 0x01"
    return None
