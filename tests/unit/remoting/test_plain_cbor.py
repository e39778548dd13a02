"""CBOR without tags."""

from __future__ import annotations

import cbor2
import pytest

from timermq.remoting.plain_cbor import DEPTH_MAX, PlainCborError, decode_plain


def test_plain_items_are_read() -> None:
    """Numbers, texts, byte strings, arrays and maps come out as they are."""
    item = [1, -2, "t", b"b", None, True, {"k": [1.5]}]

    assert item == decode_plain(cbor2.dumps(item))


@pytest.mark.parametrize("tag", [*range(70), 100, 256, 258, 260, 261, 1004, 43000, 55799, 1 << 40])
def test_every_tag_is_refused(tag: int) -> None:
    """No tag comes through, whether the library knows it or not."""
    with pytest.raises(PlainCborError, match="expected no tags"):
        decode_plain(cbor2.dumps([cbor2.CBORTag(tag, 1)]))


def test_depth_is_limited() -> None:
    """Eight levels are read, nine are not."""
    expected: object = 1
    for _ in range(DEPTH_MAX):
        expected = [expected]

    assert expected == decode_plain(b"\x81" * DEPTH_MAX + b"\x01")
    with pytest.raises(PlainCborError, match="depth"):
        decode_plain(b"\x81" * (DEPTH_MAX + 1) + b"\x01")


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "premature end"), (b"\x82\x01", "premature end"), (b"\x01\x02\x03", "2 bytes behind")],
)
def test_one_item_and_nothing_else(data: bytes, message: str) -> None:
    """Bytes are missing, or stand behind the item."""
    with pytest.raises(PlainCborError, match=message):
        decode_plain(data)
