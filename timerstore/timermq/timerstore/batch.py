"""Batch bodies: many messages of one topic in one send.

A concatenation of parts: size i32, magic i32 (0), CRC i32 (0), flag i32, body size i32, body,
property size i16, properties. The same from C++, Go and Java clients; magic and CRC are not looked
at, as in Java. A part is never compressed.

Source: Java ``MessageDecoder.encodeMessage``, ``decodeMessages``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from .errors import StoreError
from .layout import Layout
from .properties import PROPERTIES_SIZE_MAX

PART = Layout(
    "batch part, up to the body",
    ">",
    (
        ("total_size", "i", "bytes of the part, this field included"),
        ("magic", "i", "0"),
        ("body_crc", "i", "0"),
        ("flag", "i", "the user's flag"),
        ("body_length", "i", "bytes of the body; property size i16 and properties follow it"),
    ),
)
PART_FIXED_SIZE = PART.size + 2
"""Bytes of a part without body and properties."""
assert PART_FIXED_SIZE == 22

BATCH_COUNT_MAX = 32_768
"""Parts of one batch; with the largest body of 4 MiB that is 128 bytes a part."""


class BatchError(StoreError):
    """A batch body that breaks a rule: the sender's mistake, nothing of it was stored.

    Attributes:
        rule: ``PART_COUNT``, ``PART_SIZE``, ``PART_BODY`` or ``PART_PROPERTIES``.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"batch: {text}")
        self.rule = rule


@attrs.frozen
class BatchPart:
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes
    """Property text, see ``properties``."""


def split_batch(body: bytes, *, count_max: int = BATCH_COUNT_MAX) -> list[BatchPart]:
    """The parts of a batch body.

    Args:
        body: All of it, its size checked by the caller; the parts together are no larger.
        count_max: Parts allowed.

    Raises:
        BatchError: No part, too many, or a length that does not fit.
    """
    return list(batch_parts(body, count_max=count_max))


def batch_parts(body: bytes, *, count_max: int = BATCH_COUNT_MAX) -> Iterator[BatchPart]:
    """The same one by one; what comes before a fault is given out."""
    at, count = 0, 0
    while at < len(body):
        if count >= count_max:
            raise BatchError("PART_COUNT", f"expected at most {count_max} parts")
        part, at = _read_part(body, at, count)
        count += 1
        yield part
    if not count:
        raise BatchError("PART_COUNT", "expected at least one part, found an empty body")


def join_batch(parts: Iterable[BatchPart]) -> bytes:
    """The body of a batch of these parts.

    Raises:
        BatchError: Properties are longer than their length field holds.
    """
    pieces: list[bytes] = []
    for index, part in enumerate(parts):
        properties_size = len(part.properties)
        if properties_size > PROPERTIES_SIZE_MAX:
            raise _bad_properties(f"part {index}", PROPERTIES_SIZE_MAX, properties_size)
        pieces += (
            PART.pack(
                PART_FIXED_SIZE + len(part.body) + properties_size, 0, 0, part.flag, len(part.body)
            ),
            part.body,
            properties_size.to_bytes(2, "big"),
            part.properties,
        )
    return b"".join(pieces)


def _read_part(body: bytes, at: int, index: int) -> tuple[BatchPart, int]:
    """The part that begins at ``at``, and where the next one does."""
    left = len(body) - at
    size = int.from_bytes(body[at : at + 4], "big", signed=True)
    if not PART_FIXED_SIZE <= size <= left:
        raise BatchError(
            "PART_SIZE",
            f"{_place(index, at)}: size: expected {PART_FIXED_SIZE} to {left}, found {size}",
        )
    _, _, _, flag, body_size = PART.unpack(body, at)
    if not 0 <= body_size <= size - PART_FIXED_SIZE:
        raise BatchError(
            "PART_BODY",
            f"{_place(index, at)}: body: expected at most {size - PART_FIXED_SIZE} bytes, "
            f"found {body_size}",
        )
    body_at = at + PART.size
    body_end = body_at + body_size
    properties_size = int.from_bytes(body[body_end : body_end + 2], "big")
    expected = size - PART_FIXED_SIZE - body_size
    if properties_size != expected or properties_size > PROPERTIES_SIZE_MAX:
        most = min(expected, PROPERTIES_SIZE_MAX)
        raise _bad_properties(_place(index, at), most, properties_size)
    part = BatchPart(flag, body[body_at:body_end], body[body_end + 2 : at + size])
    return part, at + size


def _place(index: int, at: int) -> str:
    return f"part {index} at {at}"


def _bad_properties(place: str, expected: int, found: int) -> BatchError:
    return BatchError(
        "PART_PROPERTIES", f"{place}: properties: expected {expected} bytes, found {found}"
    )
