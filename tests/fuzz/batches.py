"""Bodies with many messages: RocketMQ's batch, and ours in CBOR; the first byte chooses."""

from __future__ import annotations

from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.send_batch import (
    SendItem,
    SendItemResult,
    decode_items,
    decode_results,
    encode_items,
    encode_results,
)
from timermq.timerstore.batch import BatchError, BatchPart, join_batch, split_batch

COUNT_MAX = 64


def seeds() -> list[bytes]:
    """A good body of each kind, and two broken ones in CBOR."""
    parts = [BatchPart(0, b"x", b"KEYS\x01k\x02"), BatchPart(-1, b"", b"")]
    items = [SendItem("T", -1, 0, b"KEYS\x01k\x02", b"x"), SendItem("é", 2**31 - 1, -1, b"", b"")]
    results = [
        SendItemResult(
            code=0,
            remark=None,
            msg_id="7F",
            queue_id=1,
            queue_offset=7,
            deliver_ms=1,
            recall_handle="h",
        )
    ]
    return [
        b"\0" + join_batch(parts),
        b"\1" + encode_items(items),
        b"\2" + encode_results(results),
        b"\1\x81\x85\x61T\x18\xff\xf5\xf7\x5f\x41a\xff",
        b"\1\x9b" + b"\xff" * 8,
    ]


def fuzz_one(data: bytes) -> None:
    """Any bytes are messages that are coded back, or a refusal that leaves the connection open."""
    kind, body = data[0] % 3 if data else 0, data[1:]
    if kind == 0:
        _check_parts(body)
        return
    try:
        if kind == 1:
            items = decode_items(body, count_max=COUNT_MAX)
            assert decode_items(encode_items(items)) == items
            assert all(isinstance(one.body, bytes) for one in items)
        else:
            results = decode_results(body, count_max=COUNT_MAX)
            assert decode_results(encode_results(results)) == results
    except RemoteProtocolError as error:
        assert error.remark.startswith("BATCH: ")
        assert not error.close


def _check_parts(body: bytes) -> None:
    try:
        parts = split_batch(body, count_max=COUNT_MAX)
    except BatchError as error:
        assert error.rule in ("PART_COUNT", "PART_SIZE", "PART_BODY", "PART_PROPERTIES")
        return
    assert 0 < len(parts) <= COUNT_MAX
    assert split_batch(join_batch(parts)) == parts
    assert len(join_batch(parts)) == len(body)
