r"""Stored messages as they come in the body of a pull or a lookup: for clients.

One message after the other, no count, no padding; the fields are those of a commit-log record.
Property texts are ``name \x01 value \x02`` pairs. Bodies stay as they are: what a producer packed,
or says that it packed, is unpacked when somebody wants it.

Source: Java ``MessageDecoder``.
"""

from __future__ import annotations

import struct
import zlib

import attrs
import lz4.frame
import zstandard

from .codes import ResponseCode
from .errors import RemoteProtocolError

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
BODY_SIZE_MAX = 64 << 20
"""Bytes that a body may unpack to."""
_WINDOW_SIZE_MAX = 1 << 27
"""The largest window that Java's decoder takes, bytes."""
_ZSTD_STEP_SIZE = 256
"""Bytes taken at a time: 64 blocks at most, which unpack to no more than 8 MiB."""

_COMPRESSED = 0x1
_BORN_V6 = 0x10
_STORE_V6 = 0x20
_KIND_MASK = 0x700
_LZ4 = 0x100
_ZSTD = 0x200
_ZLIB = (0, 0x300)
"""Two values: C++ and Go know no other algorithm and leave the bits out."""


@attrs.frozen(kw_only=True)
class StoredMessage:
    """One message; times are epoch milliseconds."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    flag: int
    born_ms: int
    stored_ms: int
    reconsume_times: int
    sys_flag: int
    body: bytes
    """As stored: packed if ``sys_flag`` says so."""
    properties: dict[str, str]
    offset_message_id: str


def decode_messages(data: bytes) -> list[StoredMessage]:
    """All messages of a body.

    Raises:
        RemoteProtocolError: A length does not fit, or the magic is unknown.
    """
    messages: list[StoredMessage] = []
    at = 0
    while at < len(data):
        if len(data) - at < 4:
            raise _malformed(f"{len(data) - at} bytes behind the last message")
        size = int.from_bytes(data[at : at + 4], "big")
        if not 91 <= size <= len(data) - at:
            raise _malformed(f"size: expected 91 to {len(data) - at}, found {size}")
        messages.append(_decode(data[at : at + size]))
        at += size
    return messages


def parse_properties(text: str) -> dict[str, str]:
    """The pairs of a property text; pieces without a name or a value are left out, as in Java."""
    found: dict[str, str] = {}
    for piece in text.split("\x02"):
        name, mark, value = piece.partition("\x01")
        if name and mark and value:
            found[name] = value
    return found


def property_text(properties: dict[str, str]) -> bytes:
    """The property text of pairs.

    Raises:
        ValueError: A name is empty, or a name or value holds a separator.
    """
    for name, value in properties.items():
        if not name or any(mark in text for text in (name, value) for mark in "\x01\x02"):
            raise ValueError(f"property {name!r}: expected no 0x01 and no 0x02, found {value!r}")
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()


def _decode(data: bytes) -> StoredMessage:
    sys_flag = int.from_bytes(data[36:40], "big")
    born = 20 if sys_flag & _BORN_V6 else 8
    store = 20 if sys_flag & _STORE_V6 else 8
    try:
        head = struct.unpack_from(f">iiiiiqqiq{born}sq{store}siqi", data)
        if head[1] not in (MAGIC_V1, MAGIC_V2):
            raise _malformed(f"magic: expected {MAGIC_V1} or {MAGIC_V2}, found {head[1]}")
        at = struct.calcsize(f">iiiiiqqiq{born}sq{store}siqi")
        body, at = _take(data, at, head[14])
        width = 1 if head[1] == MAGIC_V1 else 2
        topic, at = _take(data, at + width, int.from_bytes(data[at : at + width], "big"))
        text, at = _take(data, at + 2, int.from_bytes(data[at : at + 2], "big"))
    except struct.error as error:
        raise _malformed(str(error)) from None
    if at != len(data):
        raise _malformed(f"{len(data) - at} bytes behind the properties")
    return StoredMessage(
        # As in Java: a text that is none must not stop the messages behind it.
        topic=topic.decode(errors="replace"),
        queue_id=head[3],
        queue_offset=head[5],
        phy_offset=head[6],
        flag=head[4],
        born_ms=head[8],
        stored_ms=head[10],
        reconsume_times=head[12],
        sys_flag=sys_flag,
        body=body,
        properties=parse_properties(text.decode(errors="replace")),
        offset_message_id=(head[11] + data[28:36]).hex().upper(),
    )


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(data) - at:
        raise _malformed(f"a length of {size} leads outside the message")
    return data[at : at + size], at + size


def unpack_body(body: bytes, sys_flag: int) -> bytes:
    """The body as its producer had it before packing; zlib, LZ4 frames and Zstandard frames.

    Raises:
        RemoteProtocolError: It is not what ``sys_flag`` says, cut short, of an algorithm that is
            not known, or larger than `BODY_SIZE_MAX`.
    """
    if not sys_flag & _COMPRESSED:
        return body
    kind = sys_flag & _KIND_MASK
    try:
        if kind == _LZ4:
            unpacked, is_whole = _unpack_lz4(body)
        elif kind == _ZSTD:
            unpacked, is_whole = _unpack_zstd(body)
        elif kind in _ZLIB:
            stream = zlib.decompressobj()
            unpacked, is_whole = stream.decompress(body, BODY_SIZE_MAX + 1), stream.eof
        else:
            raise _malformed(f"body: expected compression 0 to 3, found {kind >> 8}")
    except (zlib.error, zstandard.ZstdError, RuntimeError) as error:
        raise _malformed(f"body does not unpack: {error}") from None
    if len(unpacked) > BODY_SIZE_MAX:
        raise _malformed(f"body: expected at most {BODY_SIZE_MAX} bytes unpacked")
    if not is_whole:
        raise _malformed("body does not unpack: its end is missing")
    return unpacked


def _unpack_lz4(body: bytes) -> tuple[bytes, bool]:
    frame = lz4.frame.LZ4FrameDecompressor()
    return bytes(frame.decompress(body, BODY_SIZE_MAX + 1)), bool(frame.eof)


def _unpack_zstd(body: bytes) -> tuple[bytes, bool]:
    """Unpack in steps: the library has no limit of its own."""
    frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW_SIZE_MAX).decompressobj()
    pieces: list[bytes] = []
    size = 0
    for at in range(0, len(body), _ZSTD_STEP_SIZE):
        pieces.append(frame.decompress(body[at : at + _ZSTD_STEP_SIZE]))
        size += len(pieces[-1])
        if frame.eof or size > BODY_SIZE_MAX:
            break
    return b"".join(pieces), frame.eof


def _malformed(text: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"MESSAGE: {text}")
