"""Our batch of messages for any topics (code 9001), in CBOR.

Request body: an array of ``[topic, queue id (-1: any), flag, properties, body]``, properties being
RocketMQ's text as bytes. Response body: an array of
``[code, remark, message id, queue id, queue offset, deliver ms, recall handle]``, one a message, in
order; each succeeds or fails on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs
import cbor2

from .cbor import CborError, decode_cbor, decode_rows
from .codes import ResponseCode
from .errors import RemoteProtocolError

ITEM_COUNT_MAX = 32_768
WHOLE_SIZE_MAX = 1 << 20
"""Bytes of a body that is decoded as a whole: half a second, whatever it holds. A larger one is
read item by item, which costs half a microsecond more for each."""
_ITEM_WIDTH, _RESULT_WIDTH = 5, 7
_INT32 = range(-(2**31), 2**31)


@attrs.frozen
class SendItem:
    """One message of SEND_MESSAGES, with the topic that it goes to."""

    topic: str
    queue_id: int
    flag: int
    properties: bytes
    body: bytes


@attrs.frozen(kw_only=True)
class SendItemResult:
    """What became of one message of SEND_MESSAGES."""

    code: int
    """A ``ResponseCode``; 0 and 10 to 12 mean stored."""
    remark: str | None
    msg_id: str
    """Offset message id; empty when it is not stored."""
    queue_id: int
    queue_offset: int
    deliver_ms: int | None
    """The moment it waits for."""
    recall_handle: str | None


def encode_items(items: Sequence[SendItem]) -> bytes:
    """The body of a request, as CBOR: a row for each message."""
    return cbor2.dumps([attrs.astuple(item) for item in items])


def decode_items(body: bytes, *, count_max: int = ITEM_COUNT_MAX) -> list[SendItem]:
    """Read the request's body.

    Raises:
        RemoteProtocolError: Not such an array, or more than ``count_max`` messages.
    """
    return [_item(index, row) for index, row in enumerate(_rows(body, count_max, _ITEM_WIDTH))]


def encode_results(results: Sequence[SendItemResult]) -> bytes:
    """The body of a response, as CBOR: a row for each message, in the request's order."""
    return cbor2.dumps(
        [
            [
                int(one.code),
                one.remark,
                one.msg_id,
                one.queue_id,
                one.queue_offset,
                one.deliver_ms,
                one.recall_handle,
            ]
            for one in results
        ]
    )


def decode_results(body: bytes, *, count_max: int = ITEM_COUNT_MAX) -> list[SendItemResult]:
    """Read the response's body.

    Raises:
        RemoteProtocolError: Not such an array.
    """
    results: list[SendItemResult] = []
    for index, row in enumerate(_rows(body, count_max, _RESULT_WIDTH)):
        match row:
            case [
                int() as code,
                str() | None as remark,
                str() as msg_id,
                int() as queue_id,
                int() as queue_offset,
                int() | None as deliver_ms,
                str() | None as recall_handle,
            ]:
                results.append(
                    SendItemResult(
                        code=code,
                        remark=remark,
                        msg_id=msg_id,
                        queue_id=queue_id,
                        queue_offset=queue_offset,
                        deliver_ms=deliver_ms,
                        recall_handle=recall_handle,
                    )
                )
            case _:
                raise _malformed(f"result {index} is not one")
    return results


def _item(index: int, row: object) -> SendItem:
    match row:
        case [
            str() as topic,
            int() as queue_id,
            int() as flag,
            bytes() as properties,
            bytes() as body,
        ] if queue_id in _INT32 and flag in _INT32:
            return SendItem(topic, queue_id, flag, properties, body)
        case _:
            raise _malformed(
                f"item {index}: expected [topic, queue id, flag, properties, body] with 32-bit "
                "numbers and byte strings"
            )


def _rows(body: bytes, count_max: int, width: int) -> list[object]:
    """The outer array; its count is looked at before anything is decoded."""
    count, at = _array_head(body)
    if not 0 < count <= count_max:
        raise _malformed(f"expected an array of 1 to {count_max} items, found {count}")
    try:
        if len(body) > WHOLE_SIZE_MAX:
            return decode_rows(body, at=at, count=count, width=width)
        rows = decode_cbor(body, size_max=WHOLE_SIZE_MAX, depth_max=2)
    except CborError as error:
        raise _malformed(str(error)) from None
    if not isinstance(rows, list):
        raise _malformed("expected an array")
    return cast("list[object]", rows)


def _array_head(body: bytes) -> tuple[int, int]:
    """The length that a definite CBOR array states, and where its first item begins.

    -1 and 0 when the body does not begin with one.
    """
    if not body or body[0] >> 5 != 4:
        return -1, 0
    small = body[0] & 0x1F
    if small < 24:
        return small, 1
    width = {24: 1, 25: 2, 26: 4, 27: 8}.get(small)
    return (-1, 0) if width is None else (int.from_bytes(body[1 : 1 + width], "big"), 1 + width)


def _malformed(text: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.MESSAGE_ILLEGAL, f"BATCH: {text}")
