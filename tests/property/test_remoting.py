"""The protocol without I/O: everything comes back, and bytes lead to no error but its own."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from golden_vectors import RECORD_V1
from timermq.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    decode_consumer_list,
    decode_topic_route,
)
from timermq.remoting.codes import LanguageCode
from timermq.remoting.command import Coding, Command
from timermq.remoting.connection import FrameConnection, encode_frame
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.header import decode_header, encode_header
from timermq.remoting.send_batch import (
    SendItem,
    SendItemResult,
    decode_items,
    decode_results,
    encode_items,
    encode_results,
)
from timermq.remoting.send_header import SendHeader
from timermq.remoting.stored_message import decode_messages

TEXTS = st.text(max_size=5)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
BODIES = st.binary(max_size=8)
COMMANDS = st.builds(
    Command,
    code=INT16,
    opaque=INT32,
    flag=st.integers(0, 3),
    language=st.sampled_from(LanguageCode),
    version=st.integers(0, 2**15 - 1),
    remark=st.none() | st.text(min_size=1, max_size=5),
    ext=st.dictionaries(TEXTS, TEXTS, max_size=3),
    body=BODIES,
    coding=st.sampled_from(Coding),
)
ITEMS = st.builds(SendItem, TEXTS, INT32, INT32, BODIES, BODIES)
RESULTS = st.builds(
    SendItemResult,
    code=INT32,
    remark=st.none() | TEXTS,
    msg_id=TEXTS,
    queue_id=INT32,
    queue_offset=INT64,
    deliver_ms=st.none() | INT64,
    recall_handle=st.none() | TEXTS,
)
SEND_HEADERS = st.builds(
    SendHeader,
    topic=TEXTS,
    queue_id=INT32,
    producer_group=TEXTS,
    default_topic=TEXTS,
    default_topic_queue_nums=INT32,
    sys_flag=INT32,
    born_ms=INT64,
    flag=INT32,
    properties=TEXTS.map(str.encode),
    reconsume_times=INT32,
    batch=st.booleans(),
)
SUBSCRIPTIONS = st.builds(
    SubscriptionData,
    topic=TEXTS,
    sub_string=st.text(min_size=1, max_size=5),
    expression_type=st.sampled_from(["TAG", "SQL92"]),
    sub_version=INT64,
)
CONSUMERS = st.builds(
    ConsumerData,
    group_name=TEXTS,
    consume_type=st.sampled_from(["CONSUME_ACTIVELY", "CONSUME_PASSIVELY"]),
    message_model=st.sampled_from(["BROADCASTING", "CLUSTERING"]),
    subscriptions=st.lists(SUBSCRIPTIONS, max_size=2),
)
HEARTBEATS = st.builds(
    HeartbeatData,
    client_id=TEXTS,
    producer_groups=st.lists(TEXTS, max_size=2),
    consumers=st.lists(CONSUMERS, max_size=2),
    without_sub=st.booleans(),
)
SCRAPS = st.lists(
    st.binary(max_size=6)
    | st.sampled_from([b"{", b"}", b"[", b"]", b'"', b":", b",", b"1", b"null", b'"code"'])
    | st.sampled_from([b'"extFields"', b'"clientID"', b"\x87", b"\x85", b"\xa1", b"\xc4\x82"]),
    max_size=12,
).map(b"".join)
"""Bytes with the codings' marks among them."""


def refusal(read: Callable[[], object]) -> RemoteProtocolError | None:
    """The protocol error that reading ends with; any other error passes."""
    try:
        read()
    except RemoteProtocolError as error:
        return error
    return None


def damaged(data: bytes, at: int, scrap: bytes) -> bytes:
    """``data`` with some bytes in its middle replaced."""
    at %= len(data) + 1
    return data[:at] + scrap + data[at + len(scrap) :]


@given(st.lists(COMMANDS, max_size=3), st.lists(st.integers(1, 40), max_size=12))
def test_commands_survive_any_cutting(commands: list[Command], cuts: list[int]) -> None:
    """Frames in any coding come back, wherever the stream is cut."""
    stream = b"".join(encode_frame(command) for command in commands)
    connection = FrameConnection()
    found: list[Command] = []
    for cut in [*cuts, len(stream)]:
        if stream[:cut]:
            connection.receive_data(stream[:cut])
            stream = stream[cut:]
        found += connection.events()

    assert commands == found


@given(COMMANDS)
def test_headers_are_exact(command: Command) -> None:
    """A header is read whole: nothing is made of a shorter one."""
    data = encode_header(command)
    command.body = b""

    assert command == decode_header(command.coding, data)
    assert all(
        refusal(partial(decode_header, command.coding, data[:size])) for size in range(len(data))
    )


@given(st.sampled_from([0, 1, 2, 3]), SCRAPS)
def test_any_header_is_read_or_refused(coding: int, data: bytes) -> None:
    """Random bytes are a header or a protocol error that closes."""
    error = refusal(partial(decode_header, coding, data))
    if error is None:
        command = decode_header(coding, data)

        assert command == decode_header(coding, encode_header(command))
    else:
        assert error.close


@given(COMMANDS, st.integers(0), SCRAPS)
def test_any_stream_is_read_or_refused(command: Command, at: int, scrap: bytes) -> None:
    """A damaged frame is a command, an unfinished one, or a protocol error that stays."""
    connection = FrameConnection(frame_size_max=1 << 16)
    connection.receive_data(damaged(encode_frame(command), at, scrap))
    errors = [refusal(connection.events) for _ in range(3)]
    errors.append(refusal(connection.next_event))

    assert errors[-1] in (None, *errors[:2])
    assert errors[1] is errors[2]
    assert errors[-1] is None or errors[-1].close


@given(SEND_HEADERS)
def test_send_headers_survive(header: SendHeader) -> None:
    """The one-letter form holds all that a send says."""
    assert header == SendHeader.from_v2(Command(code=310, ext=header.to_v2()))


@given(st.dictionaries(st.sampled_from("abcdefghijklm"), st.text("0129-+truefals٣ ", max_size=6)))
def test_any_send_header_is_read_or_refused(ext: dict[str, str]) -> None:
    """Whatever the parameters are, there is a header with sane numbers or a named refusal."""
    command = Command(code=310, ext={"b": "T", "e": "0"} | ext)
    error = refusal(partial(SendHeader.from_v2, command))
    if error is None:
        header = SendHeader.from_v2(command)

        assert struct.pack(">iiiq", header.queue_id, header.sys_flag, header.flag, header.born_ms)
    else:
        assert error.remark.startswith("FIELD: request 310: ")


@given(HEARTBEATS)
def test_heartbeats_survive(data: HeartbeatData) -> None:
    """A heartbeat comes back as it was written."""
    assert data == HeartbeatData.decode(data.encode())


@given(st.one_of(SCRAPS, st.builds(damaged, HEARTBEATS.map(HeartbeatData.encode), INT16, SCRAPS)))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    """Random bytes are a body or a protocol error that leaves the connection open."""
    for decode in (
        HeartbeatData.decode,
        SubscriptionData.decode_check,
        decode_topic_route,
        decode_consumer_list,
    ):
        error = refusal(partial(decode, body))

        assert error is None or (error.remark.startswith("BODY: ") and not error.close)


@given(st.lists(ITEMS, min_size=1, max_size=3), st.lists(RESULTS, min_size=1, max_size=3))
def test_batches_survive(items: list[SendItem], results: list[SendItemResult]) -> None:
    """Messages and their results come back in order."""
    assert items == decode_items(encode_items(items))
    assert results == decode_results(encode_results(results))


@given(st.one_of(SCRAPS, st.builds(damaged, ITEMS.map(lambda i: encode_items([i])), INT16, SCRAPS)))
def test_any_batch_is_read_or_refused(body: bytes) -> None:
    """Random bytes are a batch or a protocol error that leaves the connection open."""
    for decode in (decode_items, decode_results):
        error = refusal(partial(decode, body))

        assert error is None or (error.remark.startswith("BATCH: ") and not error.close)


@given(st.one_of(SCRAPS, st.builds(damaged, st.just(RECORD_V1), INT16, SCRAPS)))
def test_any_message_is_read_or_refused(body: bytes) -> None:
    """Random bytes are stored messages or a protocol error."""
    error = refusal(partial(decode_messages, body))

    assert error is None or (error.remark.startswith("MESSAGE: ") and not error.close)
