"""Tests of CBOR: items without tags are read; tags, great depth and great size are refused."""

from __future__ import annotations

import cbor2
import pytest

from timermq.remoting.cbor import DEPTH_MAX, CborError, decode_cbor, decode_rows

SIZE_MAX = 1000


def test_items_without_tags_are_read() -> None:
    """Numbers, texts, byte strings, arrays and maps come out as they are."""
    item = [1, -2, "t", b"b", None, True, {"k": [1.5]}]

    assert item == decode_cbor(cbor2.dumps(item), size_max=SIZE_MAX)


@pytest.mark.parametrize("tag", [*range(70), 100, 256, 258, 260, 261, 1004, 43000, 55799, 1 << 40])
def test_every_tag_is_refused(tag: int) -> None:
    """No tag comes through, whether the library knows it or not."""
    with pytest.raises(CborError, match="expected no tags"):
        decode_cbor(cbor2.dumps([cbor2.CBORTag(tag, 1)]), size_max=SIZE_MAX)


def test_depth_is_limited() -> None:
    """Three levels are read, four are not."""
    expected: object = 1
    for _ in range(DEPTH_MAX):
        expected = [expected]

    assert expected == decode_cbor(b"\x81" * DEPTH_MAX + b"\x01", size_max=SIZE_MAX)
    with pytest.raises(CborError, match="depth"):
        decode_cbor(b"\x81" * (DEPTH_MAX + 1) + b"\x01", size_max=SIZE_MAX)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "premature end"), (b"\x82\x01", "premature end"), (b"\x01\x02\x03", "2 bytes behind")],
)
def test_one_item_and_nothing_else(data: bytes, message: str) -> None:
    """Bytes are missing, or stand behind the item."""
    with pytest.raises(CborError, match=message):
        decode_cbor(data, size_max=SIZE_MAX)


def test_size_is_limited() -> None:
    """An empty array becomes 56 times its size: what is large is not decoded at all."""
    assert [] == decode_cbor(b"\x80", size_max=1)
    with pytest.raises(CborError, match="expected at most 1 bytes, found 2"):
        decode_cbor(b"\x81\x80", size_max=1)


@pytest.mark.parametrize("data", [b"\x9f\x01\xff", b"\xbf\xff", b"\x5f\x41a\xff", b"\x7f\xff"])
def test_lengths_are_stated(data: bytes) -> None:
    """Arrays, maps, bytes and texts of indefinite length are refused."""
    with pytest.raises(CborError, match="indefinite"):
        decode_cbor(data, size_max=SIZE_MAX)


@pytest.mark.parametrize("head", [b"\x5b", b"\x7b", b"\x9b", b"\xbb"])
def test_a_stated_length_takes_no_memory(head: bytes) -> None:
    """Eight exabytes are not there, so nothing is made for them."""
    with pytest.raises(CborError, match="premature end"):
        decode_cbor(head + b"\x7f" + b"\xff" * 7, size_max=SIZE_MAX)


def test_a_map_in_an_array_has_no_arrays_as_keys() -> None:
    """All keys of -1 and -2 have one hash: 16,384 of them took five seconds."""
    data = b"\x81\xa2\x82\x20\x21\x00\x82\x21\x20\x00"

    assert [{(-1, -2): 0, (-2, -1): 0}] == decode_cbor(data, size_max=SIZE_MAX)
    with pytest.raises(CborError, match="depth"):
        decode_cbor(data, size_max=SIZE_MAX, depth_max=2)


def test_rows() -> None:
    """Rows are read one by one behind what stands before them."""
    rows = [["a", 1], [b"b", None]]

    assert rows == decode_rows(cbor2.dumps(rows), at=1, count=2, width=2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x82\x01\x02\x81\x01", "row 1: expected an array of 2"),
        (b"\x82\x01\x02\x9a\x00\xf4\x24\x00", "row 1: expected an array of 2"),
        (b"\x82\x01\x02\x82\x01\x81\x02", "depth"),
        (b"\x82\x01\x02\x82\x01", "premature end"),
        (b"\x82\x01\x02", "row 1: expected an array of 2"),
        (b"\x82\x01\x02\x82\x01\x02\x03", "1 bytes behind the rows"),
    ],
)
def test_rows_of_another_form(data: bytes, message: str) -> None:
    """A row is an array of so many items that hold no others."""
    with pytest.raises(CborError, match=message):
        decode_rows(data, at=0, count=2, width=2)
