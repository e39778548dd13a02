"""CBOR bodies: one item of a stated size, of the kinds that its reader takes."""

from __future__ import annotations

from contextlib import suppress

import cbor2

from timermq.broker.pending import explain_processor
from timermq.broker.pending.pending_processor import PendingQuery, decode_query
from timermq.broker.refusal import RefusedError
from timermq.cli.pending_page import decode_page
from timermq.client.errors import MalformedAnswerError
from timermq.remoting.cbor import CborError, decode_cbor
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.watch import BUCKETS_MAX, Snapshot, WatchView
from top_samples import IDLE

SIZE_MAX = 4096
LIMIT_MAX = 1000
INT64_MAX = 2**63 - 1


def seeds() -> list[bytes]:
    """A view, a question, a page, a snapshot, and items of every kind."""
    row = {
        "unique_id": "U",
        "topic": "T",
        "queue_id": 0,
        "deliver_ms": 1,
        "keys": "",
        "tags": "",
        "phy_offset": 9,
        "rolls": 0,
    }
    asked = {"between": [0, 9], "topic": None, "key": "K", "limit": 5, "after": [1, -1, 0, 0, 7]}
    kinds: list[object] = [
        1.5,
        float("nan"),
        -(2**63),
        2**64 - 1,
        b"b",
        True,
        None,
        cbor2.undefined,
        {1: {}},
    ]
    return [
        WatchView(topic="T").encode(),
        cbor2.dumps(asked),
        cbor2.dumps({"rows": [row], "next": [1, 2, 3, 4, 5]}),
        IDLE.encode(),
        cbor2.dumps(kinds),
        b"\xa1\x82\x20\x21\x01",
        b"\xc2\x41\x01",
        b"\x9f\x01\xff",
        b"\xd8\x1c\x81\xd8\x1d\x00",
        b"\x9b" + b"\xff" * 8,
        b"\x5b" + b"\x7f" * 8,
    ]


def fuzz_one(data: bytes) -> None:
    """Any bytes are a value of a reader's kind, or refused with its error."""
    _check_item(data)
    try:
        view = WatchView.decode(data)
        assert view.count <= BUCKETS_MAX
        assert WatchView.decode(view.encode()) == view
    except RemoteProtocolError as error:
        assert error.remark.startswith("WATCH_BODY: ")
    try:
        snapshot = Snapshot.decode(data)
        assert repr(Snapshot.decode(snapshot.encode())) == repr(snapshot)
    except RemoteProtocolError as error:
        assert error.remark.startswith("WATCH_BODY: ")
    try:
        _check_query(decode_query(data, LIMIT_MAX))
    except RefusedError as error:
        assert error.rule == "LIST_PENDING_BODY"
        assert len(error.remark) < 1000
    try:
        asked = explain_processor.decode_query(data)
        assert asked.id
        assert asked.topic != ""
    except RefusedError as error:
        assert error.rule == "EXPLAIN_BODY"
        assert len(error.remark) < 1000
    with suppress(MalformedAnswerError):
        page = decode_page(data, "h:1")
        assert decode_page(cbor2.dumps(page), "h:1") == page


def _check_item(data: bytes) -> None:
    try:
        item = decode_cbor(data, size_max=SIZE_MAX)
    except CborError:
        return
    assert len(data) <= SIZE_MAX
    again = decode_cbor(cbor2.dumps(item), size_max=2 * SIZE_MAX)
    assert repr(again) == repr(item)


def _check_query(query: PendingQuery) -> None:
    assert 1 <= query.limit <= LIMIT_MAX
    if query.after is not None:
        assert query.after.slot_ms <= INT64_MAX
        assert query.after.pos >= -1
    if query.between is not None:
        assert all(abs(one) <= INT64_MAX for one in query.between)
