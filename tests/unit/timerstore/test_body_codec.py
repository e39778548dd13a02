"""Tests of unpacking bodies: all algorithms, and bodies that are cut or grow too large."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from timermq.timerstore import body_codec
from timermq.timerstore.body_codec import decompress_body, unpacked_pieces
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import Record, RecordError, decode_record, encode_record

PLAIN = b"0123456789" * 1000

KINDS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (0x001, zlib.compress),
    (0x301, zlib.compress),
    (0x101, lz4.frame.compress),
    (0x201, zstandard.ZstdCompressor(write_content_size=False).compress),
    (0x201, zstandard.ZstdCompressor().compress),
]


def stored(body: bytes, sys_flag: int) -> Record:
    """A record with this body and flags, at position 7."""
    host = pack_host("127.0.0.1", 1)
    return decode_record(
        encode_record(
            Message("T", 0, body, sys_flag=sys_flag),
            queue_offset=0,
            phy_offset=7,
            store_ms=0,
            store_host=host,
        )
    )


def test_plain_bodies_stay() -> None:
    """Without the flag a body is what it is, whatever the algorithm bits say."""
    assert decompress_body(stored(b"plain", 0x300)) == b"plain"


@pytest.mark.parametrize(("sys_flag", "compress"), KINDS)
@pytest.mark.parametrize("body", [b"", b"x", PLAIN, bytes(1 << 20)])
def test_all_kinds(sys_flag: int, compress: Callable[[bytes], bytes], body: bytes) -> None:
    """What producers compress is unpacked again."""
    assert body == decompress_body(stored(compress(body), sys_flag))


@pytest.mark.parametrize(("sys_flag", "compress"), KINDS)
def test_cut_bodies(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    """A body that ends too early is not shown as if it were whole."""
    with pytest.raises(RecordError, match=r"^record at 7: body: ends within its compressed data$"):
        decompress_body(stored(compress(PLAIN)[:-1], sys_flag))


@pytest.mark.parametrize(("sys_flag", "compress"), KINDS)
def test_bodies_that_unpack_to_too_much(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    """No more than the allowed size is unpacked."""
    record = stored(compress(PLAIN), sys_flag)

    assert PLAIN == decompress_body(record, size_max=len(PLAIN))
    with pytest.raises(RecordError, match=r"^record at 7: body: expected at most 9999 bytes"):
        decompress_body(record, size_max=len(PLAIN) - 1)


@pytest.mark.parametrize("sys_flag", [0x001, 0x101, 0x201, 0x301])
@pytest.mark.parametrize("body", [b"", b"garbage that is no frame of any kind"])
def test_bodies_that_are_not_compressed(sys_flag: int, body: bytes) -> None:
    """A body that is not what its flags say is refused."""
    with pytest.raises(RecordError, match=r"^record at 7: body: (does not unpack|ends within)"):
        decompress_body(stored(body, sys_flag))


def test_unknown_algorithms() -> None:
    """Four of the eight algorithms mean something."""
    with pytest.raises(RecordError) as caught:
        decompress_body(stored(b"x", 0x401))

    assert str(caught.value) == "record at 7: body: expected compression 0 to 3, found 4"


@given(st.binary(max_size=300), st.integers(0, 20), st.integers(1, 70), st.sampled_from(KINDS))
def test_pieces_make_the_body(
    part: bytes, repeats: int, piece_size: int, kind: tuple[int, Callable[[bytes], bytes]]
) -> None:
    """However small they are; of zlib and LZ4 none is larger than asked for."""
    sys_flag, compress = kind
    body = part * repeats
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_codec, "PIECE_SIZE", piece_size)
        pieces = list(unpacked_pieces(compress(body), sys_flag, "here", size_max=len(body)))
        with pytest.raises(RecordError, match="ends within its compressed data"):
            list(unpacked_pieces(compress(body)[:-1], sys_flag, "here", size_max=len(body)))

    assert b"".join(pieces) == body
    assert sys_flag == 0x201 or max(map(len, pieces), default=0) <= piece_size
