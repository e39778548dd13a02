"""Packed bodies; the first byte chooses the algorithm."""

from __future__ import annotations

import zlib

import lz4.frame
import zstandard

from timermq.broker.consuming.zlib_bodies import with_zlib_bodies
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.stored_message import unpack_body
from timermq.timerstore.body_codec import decompress_body
from timermq.timerstore.message import Message
from timermq.timerstore.record import decode_record, encode_record
from timermq.timerstore.record_spans import RecordError

SIZE_MAX = 1 << 16
FLAGS = (0x001, 0x101, 0x201, 0x301, 0x401, 0x701, 0x000)


def seeds() -> list[bytes]:
    """Each algorithm, whole and with its end missing; a body that unpacks to more than allowed."""
    body = b"hello " * 50
    packed = (
        zlib.compress(body), lz4.frame.compress(body), zstandard.compress(body), zlib.compress(body)
    )  # fmt: skip
    whole = [bytes([kind]) + one for kind, one in enumerate(packed)]
    bombs = [
        b"\0" + zlib.compress(bytes(2 * SIZE_MAX)),
        b"\1" + lz4.frame.compress(bytes(2 * SIZE_MAX)),
        b"\2" + zstandard.compress(bytes(2 * SIZE_MAX)),
    ]
    return [*whole, *(one[:-3] for one in whole), *bombs, b"\4x", b"\6x"]


def fuzz_one(data: bytes) -> None:
    """Any bytes unpack within the limit, or are refused; what the store unpacks clients unpack."""
    flags, body = FLAGS[data[0] % len(FLAGS)] if data else 0, data[1:]
    record = encode_record(
        Message("T", 0, body, b"", sys_flag=flags),
        queue_offset=0,
        phy_offset=0,
        store_ms=0,
        store_host=bytes(8),
    )
    try:
        unpacked = decompress_body(decode_record(record), size_max=SIZE_MAX)
    except RecordError:
        unpacked = None
    try:
        received = unpack_body(body, flags)
    except RemoteProtocolError as error:
        assert not error.close
        received = None

    assert unpacked is None or (unpacked == received and len(unpacked) <= SIZE_MAX)
    (readable,) = [one for one in with_zlib_bodies([record], checks_zlib=True).records if one]
    given = decode_record(readable)
    plain = zlib.decompress(given.body) if given.sys_flag & 1 else given.body
    assert plain in (body, received)
