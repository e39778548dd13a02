"""Stored messages as clients get them."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import attrs
import lz4.frame
import pytest
import zstandard

from golden_vectors import RECORD_V1
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.stored_message import (
    BODY_SIZE_MAX,
    MAGIC_V2,
    StoredMessage,
    decode_messages,
    parse_properties,
    property_text,
    unpack_body,
)

MESSAGE = StoredMessage(
    topic="T",
    queue_id=3,
    queue_offset=7,
    phy_offset=0,
    flag=0,
    born_ms=1700000000000,
    stored_ms=1700000000123,
    reconsume_times=0,
    sys_flag=0,
    body=b"hello",
    properties={"TAGS": "TagA"},
    offset_message_id="7F00000100002A9F0000000000000000",
)


def record(*, body: bytes = b"hello", sys_flag: int = 0) -> bytes:
    """The golden record with another body."""
    data = RECORD_V1[4:36] + sys_flag.to_bytes(4, "big") + RECORD_V1[40:84]
    data += len(body).to_bytes(4, "big") + body + RECORD_V1[93:]
    return (len(data) + 4).to_bytes(4, "big") + data


def test_golden_record() -> None:
    """A message has the fields of its record in the commit log."""
    assert [MESSAGE] == decode_messages(RECORD_V1)


def test_any_physical_offset_has_an_id() -> None:
    """An offset that is negative, which no broker writes, still makes a message."""
    data = RECORD_V1[:28] + b"\xff" * 8 + RECORD_V1[36:]

    (message,) = decode_messages(data)
    assert -1 == message.phy_offset
    assert "7F00000100002A9FFFFFFFFFFFFFFFFF" == message.offset_message_id


def test_one_behind_the_other() -> None:
    """A body may hold any number of messages."""
    assert [] == decode_messages(b"")
    assert [MESSAGE] * 3 == decode_messages(RECORD_V1 * 3)


def test_long_topic() -> None:
    """The second magic has two bytes for the length of the topic."""
    data = RECORD_V1[4:93] + bytes([0, 1]) + RECORD_V1[94:]
    data = MAGIC_V2.to_bytes(4, "big", signed=True) + data[4:]

    assert [MESSAGE] == decode_messages((len(data) + 4).to_bytes(4, "big") + data)


def test_hosts_of_twenty_bytes() -> None:
    """IPv6 hosts have 16 bytes more each, and so has the message id."""
    host = bytes(15) + b"\x01" + RECORD_V1[60:64]
    data = RECORD_V1[4:36] + (0x30).to_bytes(4, "big") + RECORD_V1[40:48] + host
    data += RECORD_V1[56:64] + host + RECORD_V1[72:]

    expected = attrs.evolve(
        MESSAGE, sys_flag=0x30, offset_message_id=(host + bytes(8)).hex().upper()
    )
    assert [expected] == decode_messages((len(data) + 4).to_bytes(4, "big") + data)


@pytest.mark.parametrize(
    ("sys_flag", "body"),
    [
        (0x001, zlib.compress(b"hello")),
        (0x301, zlib.compress(b"hello")),
        (0x101, lz4.frame.compress(b"hello")),
        (0x201, zstandard.compress(b"hello")),
    ],
)
def test_compressed_bodies_are_unpacked(sys_flag: int, body: bytes) -> None:
    """Two flags stand for zlib, one each for LZ4 and Zstandard."""
    assert b"hello" == unpack_body(body, sys_flag)


def test_a_body_that_is_not_packed() -> None:
    """Without the flag the bits of the algorithm mean nothing."""
    assert b"hello" == unpack_body(b"hello", 0)
    assert b"hello" == unpack_body(b"hello", 0x200)


def test_an_unknown_algorithm() -> None:
    """The algorithm is named, not taken for another."""
    with pytest.raises(RemoteProtocolError) as caught:
        unpack_body(zlib.compress(b"hello"), 0x401)

    assert "MESSAGE: body: expected compression 0 to 3, found 4" == caught.value.remark


def test_what_is_wrong_with_a_body_stays_with_its_message() -> None:
    """Messages are taken apart whatever their bodies are: those behind one come all the same."""
    first, second = decode_messages(record(sys_flag=0x001) + RECORD_V1)

    assert (0x001, b"hello") == (first.sys_flag, first.body)
    assert MESSAGE == second


def test_text_that_is_no_text() -> None:
    """Java reads such a text as far as it goes, and so do we."""
    (message,) = decode_messages(RECORD_V1.replace(b"TagA", b"Tag\xff"))

    assert {"TAGS": "Tag\ufffd"} == message.properties


@pytest.mark.parametrize("sys_flag", [0x001, 0x101, 0x201, 0x301])
def test_bodies_that_do_not_unpack(sys_flag: int) -> None:
    """What is not compressed as the flag says is refused."""
    with pytest.raises(RemoteProtocolError, match=r"^MESSAGE: body does not unpack: "):
        unpack_body(b"hello", sys_flag)


@pytest.mark.parametrize(
    ("sys_flag", "body"),
    [
        (0x001, zlib.compress(b"hello")),
        (0x101, lz4.frame.compress(b"hello")),
        (0x201, zstandard.compress(b"hello")),
    ],
)
def test_cut_bodies(sys_flag: int, body: bytes) -> None:
    """A body of which the end is missing is refused, not handed out in part."""
    for size in range(len(body)):
        with pytest.raises(RemoteProtocolError, match=r"^MESSAGE: body does not unpack: "):
            unpack_body(body[:size], sys_flag)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sys_flag", "compress"),
    [(0x001, zlib.compress), (0x101, lz4.frame.compress), (0x201, zstandard.compress)],
)
def test_unpacked_size_is_limited(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    """A small body that stands for a huge one is not unpacked to the end."""
    body = compress(bytes(BODY_SIZE_MAX + 1))

    with pytest.raises(RemoteProtocolError) as caught:
        unpack_body(body, sys_flag)
    assert "MESSAGE: body: expected at most 67108864 bytes unpacked" == caught.value.remark


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        (RECORD_V1[:3], "3 bytes behind the last message"),
        (RECORD_V1 + b"\0", "1 bytes behind the last message"),
        (RECORD_V1[:-1], "size: expected 91 to 106, found 107"),
        (bytes(91), "size: expected 91 to 91, found 0"),
        (
            RECORD_V1[:4] + bytes(4) + RECORD_V1[8:],
            "magic: expected -626843481 or -626843477, found 0",
        ),
        (RECORD_V1[:84] + b"\xff" * 4 + RECORD_V1[88:], "a length of -1 leads outside the message"),
        (RECORD_V1[:93] + b"\xff" + RECORD_V1[94:], "a length of 255 leads outside the message"),
        (
            RECORD_V1.replace(b"\x00\x0aTAGS", b"\x00\x09TAGS"),
            "1 bytes behind the properties",
        ),
    ],
)
def test_malformed_messages(data: bytes, remark: str) -> None:
    """Lengths must fit into each other; the connection goes on."""
    with pytest.raises(RemoteProtocolError) as caught:
        decode_messages(data)

    assert f"MESSAGE: {remark}" == caught.value.remark
    assert not caught.value.close


def test_properties_in_both_directions() -> None:
    """Properties are pairs; pieces that are none are left out."""
    assert b"A\x01b\x02C\x01d\x02" == property_text({"A": "b", "C": "d"})
    assert {"A": "b", "C": "d"} == parse_properties("A\x01b\x02C\x01d")
    assert {} == parse_properties("A\x02\x01b\x02C\x01\x02")


@pytest.mark.parametrize("pair", [("", "v"), ("a\x01", "v"), ("a", "v\x02")])
def test_separators_in_properties(pair: tuple[str, str]) -> None:
    """A separator inside a name or value would make other pairs of it."""
    with pytest.raises(ValueError, match="expected no 0x01 and no 0x02"):
        property_text(dict([pair]))
