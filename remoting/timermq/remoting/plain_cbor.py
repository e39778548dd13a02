"""CBOR of plain items: numbers, texts, byte strings, arrays and maps, but no tags.

A tag makes the decoder compute: a decimal fraction with a mantissa of 200 kB takes nine seconds, in
which nothing else runs. No command has a use for tags, so every one is refused before anything is
made of what it holds.
"""

from __future__ import annotations

from io import BytesIO

import cbor2

DEPTH_MAX = 8
"""Arrays and maps within each other; the deepest in use is 3."""

_TAGS_COMPUTED = (
    *(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54),
    *(100, 256, 258, 260, 261, 1004, 43000, 55799),
)
"""Tags that the library acts on by itself; the others come to ``tag_hook``."""


class PlainCborError(ValueError):
    """Not one plain item, or something stands behind it."""


def _refuse(*_: object) -> object:
    raise cbor2.CBORDecodeError("expected no tags")


_DECODERS = dict.fromkeys(_TAGS_COMPUTED, _refuse)


def decode_plain(data: bytes) -> object:
    """The one item that ``data`` is.

    Raises:
        PlainCborError: Malformed, too deep, a tag, or bytes behind the item.
    """
    stream = BytesIO(data)
    decoder = cbor2.CBORDecoder(
        stream, tag_hook=_refuse, semantic_decoders=_DECODERS, max_depth=DEPTH_MAX
    )
    try:
        item: object = decoder.decode()
    except (cbor2.CBORDecodeError, UnicodeError) as error:
        raise PlainCborError(str(error)) from None
    if stream.tell() != len(data):
        raise PlainCborError(f"{len(data) - stream.tell()} bytes behind the item")
    return item
