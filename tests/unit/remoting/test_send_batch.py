"""Our own batch of messages for any topics."""

from __future__ import annotations

import cbor2
import pytest

from timermq.remoting import send_batch
from timermq.remoting.codes import ResponseCode
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.send_batch import (
    ITEM_COUNT_MAX,
    SendItem,
    SendItemResult,
    decode_items,
    decode_results,
    encode_items,
    encode_results,
)

ITEM = SendItem("T", -1, 7, b"KEYS\x01k\x02", b"hello")
ITEM_BYTES = bytes.fromhex("81 85 6154 20 07 47 4b455953016b02 45 68656c6c6f")
STORED = SendItemResult(
    code=0,
    remark=None,
    msg_id="7F",
    queue_id=3,
    queue_offset=9,
    deliver_ms=1795226657300,
    recall_handle="h",
)
STORED_BYTES = bytes.fromhex("81 87 00 f6 623746 03 09 1b000001a1fbd8e214 6168")
REFUSED = SendItemResult(
    code=ResponseCode.MESSAGE_ILLEGAL,
    remark="too large",
    msg_id="",
    queue_id=0,
    queue_offset=0,
    deliver_ms=None,
    recall_handle=None,
)


def test_items_in_both_directions() -> None:
    """A message is its topic, queue, flag, properties and body."""
    assert ITEM_BYTES == encode_items([ITEM])
    assert [ITEM] == decode_items(ITEM_BYTES)


def test_results_in_both_directions() -> None:
    """A message's result says where it stands and what it waits for."""
    assert STORED_BYTES == encode_results([STORED])
    assert [STORED] == decode_results(STORED_BYTES)


def test_each_message_succeeds_or_fails_on_its_own() -> None:
    """A refused message stands between stored ones."""
    results = [STORED, REFUSED, STORED]

    assert results == decode_results(encode_results(results))


@pytest.mark.parametrize("count", [1, 23, 24, 255, 256, 300])
def test_count_up_to_the_limit(count: int) -> None:
    """Arrays of any length up to the limit are read, whatever the width of their count."""
    assert [ITEM] * count == decode_items(encode_items([ITEM] * count), count_max=count)
    with pytest.raises(RemoteProtocolError) as caught:
        decode_items(encode_items([ITEM] * (count + 1)), count_max=count)
    remark = f"BATCH: expected an array of 1 to {count} items, found {count + 1}"
    assert remark == caught.value.remark


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", -1),
        (b"\x80", 0),
        (b"\x9f\xff", -1),
        (b"\xa1\x00\x00", -1),
        (b"\x9a\x00\x00\x80\x01", ITEM_COUNT_MAX + 1),
        (b"\x9b" + b"\xff" * 8, 2**64 - 1),
    ],
)
def test_count_is_looked_at_first(body: bytes, found: int) -> None:
    """An empty array, an open one and one that claims too much are refused before decoding."""
    with pytest.raises(RemoteProtocolError) as caught:
        decode_items(body)

    remark = f"BATCH: expected an array of 1 to 32768 items, found {found}"
    assert remark == caught.value.remark
    assert (ResponseCode.MESSAGE_ILLEGAL, False) == (caught.value.code, caught.value.close)


@pytest.mark.parametrize("body", [ITEM_BYTES[:-1], ITEM_BYTES + b"\0", b"\x81", b"\x81" * 100_000])
def test_malformed_arrays(body: bytes) -> None:
    """A cut array, bytes behind it and deep nesting are refused."""
    with pytest.raises(RemoteProtocolError, match=r"^BATCH: "):
        decode_items(body)


@pytest.mark.parametrize(
    "row",
    [
        1,
        ["T", 0, 0, b""],
        ["T", 0, 0, b"", b"", b""],
        [b"T", 0, 0, b"", b""],
        ["T", "0", 0, b"", b""],
        ["T", 2**31, 0, b"", b""],
        ["T", 0, -(2**31) - 1, b"", b""],
        ["T", 0, 0, "", b""],
        ["T", 0, 0, b"", ""],
    ],
)
def test_malformed_items(row: object) -> None:
    """The first item that is none is named by its place."""
    with pytest.raises(RemoteProtocolError) as caught:
        decode_items(cbor2.dumps([["T", 0, 0, b"", b""], row]))

    remark = (
        "BATCH: item 1: expected [topic, queue id, flag, properties, body] with 32-bit numbers "
        "and byte strings"
    )
    assert remark == caught.value.remark


@pytest.mark.parametrize("row", [1, [], [0, None, "", 0, 0, None], ["0", None, "", 0, 0, 1, ""]])
def test_malformed_results(row: object) -> None:
    """A result that is none is named by its place."""
    with pytest.raises(RemoteProtocolError) as caught:
        decode_results(cbor2.dumps([row]))

    assert "BATCH: result 0 is not one" == caught.value.remark


def test_a_large_body_is_read_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same messages come out, and nothing is made of an item with others inside."""
    items = [SendItem("T", -1, 0, b"KEYS\x01k\x02", b"x" * 300), SendItem("é", 1, 2, b"", b"")] * 20
    body = encode_items(items)
    whole = decode_items(body)
    monkeypatch.setattr(send_batch, "WHOLE_SIZE_MAX", 100)

    assert items == whole == decode_items(body)
    for row in (b"\x9a\x00\x00\x03\xe8" + b"\x80" * 1000, b"\x85" + b"\x81\x80" * 5 + bytes(200)):
        with pytest.raises(RemoteProtocolError, match=r"^BATCH: (row 0|.*depth)"):
            decode_items(b"\x81" + row)
