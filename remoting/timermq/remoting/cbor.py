"""CBOR without tags: numbers, texts, byte strings, arrays and maps of stated lengths.

While an item is decoded nothing else runs, so each use states how large and how deep it may be:

- A tag makes the decoder compute: a decimal fraction with a mantissa of 200 kB takes nine seconds.
  No command has a use for tags, so every one is refused before anything is made of what it holds.
- An array as a key of a map may collide with all others: 16,384 such keys take five seconds. They
  need a level more than the texts that keys are.
- An empty array is one byte and becomes 56: 16 MiB of them take nine seconds and 1.2 GB.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import cbor2

DEPTH_MAX = 3
"""Arrays and maps within each other, the deepest in use; empty ones do not count."""

_ARRAY = 0x80
"""First byte of an empty array; those of 1 to 23 items follow."""

_TAGS_COMPUTED = (
    *(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54),
    *(100, 256, 258, 260, 261, 1004, 43000, 55799),
)
"""Tags that the library acts on by itself; the others come to ``tag_hook``."""


class CborError(ValueError):
    """Not one item without tags, or something stands behind it."""


def _refuse(*_: object) -> object:
    raise cbor2.CBORDecodeError("expected no tags")


_DECODERS = dict.fromkeys(_TAGS_COMPUTED, _refuse)


def decode_cbor(data: bytes, *, size_max: int, depth_max: int = DEPTH_MAX) -> object:
    """The one item that ``data`` is.

    Args:
        data: All of it.
        size_max: Bytes it may have.
        depth_max: Arrays and maps within each other.

    Raises:
        CborError: Malformed, too large, too deep, a tag, a length that is not stated, or bytes
            behind the item.
    """
    if len(data) > size_max:
        raise CborError(f"expected at most {size_max} bytes, found {len(data)}")
    stream = BytesIO(data)
    item = _decoding(_decoder(stream, depth_max).decode)
    if stream.tell() != len(data):
        raise CborError(f"{len(data) - stream.tell()} bytes behind the item")
    return item


def decode_rows(data: bytes, *, at: int, count: int, width: int) -> list[object]:
    """``count`` rows of a known number of items, one after the other, to the end of ``data``.

    However large ``data`` is, nothing is made but rows of ``width`` items that hold no others.

    Args:
        data: What holds the rows.
        at: Where the first one begins.
        count: Of rows.
        width: Items of each, up to 23.

    Raises:
        CborError: As ``decode_cbor``, or a row has another number of items.
    """
    stream = BytesIO(data)
    stream.seek(at)
    decode, tell, mark = _decoder(stream, 1).decode, stream.tell, _ARRAY | width
    rows: list[object] = []
    for _ in range(count):
        if data[tell() : tell() + 1] != mark.to_bytes():
            raise CborError(f"row {len(rows)}: expected an array of {width}")
        rows.append(_decoding(decode))
    if tell() != len(data):
        raise CborError(f"{len(data) - tell()} bytes behind the rows")
    return rows


def _decoder(stream: BytesIO, depth_max: int) -> cbor2.CBORDecoder:
    return cbor2.CBORDecoder(
        stream,
        tag_hook=_refuse,
        semantic_decoders=_DECODERS,
        max_depth=depth_max,
        allow_indefinite=False,
    )


def _decoding(decode: Callable[[], object]) -> object:
    try:
        return decode()
    except (cbor2.CBORDecodeError, UnicodeError) as error:
        raise CborError(str(error)) from None
