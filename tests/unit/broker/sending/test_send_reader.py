"""Tests of reading sends: headers, batches, items, and what is illegal in them."""

import pytest

from broker_rig import PROPERTIES, Rig, send_ext
from timermq.remoting.send_batch import SendItem, decode_results, encode_items
from timermq.timerstore.batch import BatchPart, join_batch

OWN = b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"


def v2(ext: dict[str, str]) -> dict[str, str]:
    """The one-letter form of a send's parameters."""
    letters = {
        "producerGroup": "a",
        "topic": "b",
        "defaultTopic": "c",
        "defaultTopicQueueNums": "d",
        "queueId": "e",
        "sysFlag": "f",
        "bornTimestamp": "g",
        "flag": "h",
        "properties": "i",
    }
    return {letters[name]: value for name, value in ext.items()}


def batch(*parts: tuple[bytes, bytes]) -> bytes:
    """A batch body of (body, properties)."""
    return join_batch(BatchPart(7, body, properties) for body, properties in parts)


@pytest.mark.parametrize("code", [10, 310])
async def test_a_single_message(code: int) -> None:
    """Long and one-letter names say the same."""
    rig = Rig()
    ext = send_ext("T", flag="3", sysFlag="1", queueId="2")
    answer = rig.call(code, ext if code == 10 else v2(ext), b"hello")

    assert answer.code == 0
    assert answer.ext["queueId"] == "2"
    (record,) = rig.records("T", 2)
    assert (record.flag, record.sys_flag, record.body) == (3, 1, b"hello")
    assert record.born_ms == 1_700_000_000_000
    assert record.properties == PROPERTIES.encode() + OWN


async def test_a_message_needs_a_body() -> None:
    """RocketMQ refuses it as well (13)."""
    answer = Rig().send("T", b"")

    assert (answer.code, answer.remark) == (13, "BODY_EMPTY: the message has no body")


@pytest.mark.parametrize(
    ("properties", "rule"),
    [
        ("a\x02", "PROPERTY_TEXT"),
        ("\x01b\x02", "PROPERTY_TEXT"),
        ("a\x01b\x01c\x02", "PROPERTY_TEXT"),
        ("x" * 40_000 + "\x01v\x02", "PROPERTY_TEXT"),
        ("TIMER_OUT_MS\x015\x02", "INTERNAL_PROPERTY"),
        ("REAL_TOPIC\x01U\x02", "INTERNAL_PROPERTY"),
        ("REAL_QID\x010\x02", "INTERNAL_PROPERTY"),
        ("TIMER_ROLL_TIMES\x011\x02", "INTERNAL_PROPERTY"),
        ("TIMER_ORDER\x011\x02", "INTERNAL_PROPERTY"),
        ("TIMER_DELAY_MS\x01x\x02", "TIMER_NOT_A_NUMBER"),
        ("TIMER_DELAY_SEC\x019223372036854775807\x02", "TIMER_OVERFLOW"),
        ("TIMER_DELAY_SEC\x0186401\x02", "TIMER_DELAY_TOO_LONG"),
    ],
)
async def test_illegal_properties(properties: str, rule: str) -> None:
    """Control characters, internal keys and impossible moments are illegal messages (13)."""
    rig = Rig()
    answer = rig.send("T", properties=properties)

    assert answer.code == 13
    assert answer.remark is not None
    assert answer.remark.startswith(f"{rule}: ")
    assert rig.records("T") == []


async def test_a_body_has_a_limit() -> None:
    """One byte above the limit is an illegal message (13); the limit itself is not."""
    rig = Rig()

    assert rig.send("T", bytes(1 << 16)).code == 0
    answer = rig.send("T", bytes((1 << 16) + 1))
    assert answer.code == 13


@pytest.mark.parametrize("name", ["topic", "queueId"])
async def test_fields_that_must_be_there(name: str) -> None:
    """A request without them is answered and names the field."""
    rig = Rig()
    ext = send_ext("T")
    del ext[name]
    answer = rig.call(10, ext, b"x")

    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith(f"FIELD: request 10: {name}: ")


@pytest.mark.parametrize(
    ("code", "is_v2", "mark"),
    [(320, True, {}), (10, False, {"batch": "1"}), (310, True, {"m": "true"})],
)
async def test_batches(code: int, is_v2: bool, mark: dict[str, str]) -> None:
    """C++ marks its batches in a send of one message; all forms are stored part by part."""
    rig = Rig()
    ext = send_ext("T", properties="UNIQ_KEY\x01BATCH\x02")
    body = batch((b"one", b"UNIQ_KEY\x01K1\x02"), (b"", b"UNIQ_KEY\x01K2\x02"), (b"three", b""))
    answer = rig.call(code, {**(v2(ext) if is_v2 else ext), **mark}, body)

    assert answer.code == 0
    records = rig.records("T")
    assert [record.body for record in records] == [b"one", b"", b"three"]
    assert [record.flag for record in records] == [7, 7, 7]
    assert [record.unique_id for record in records[:2]] == ["K1", "K2"]
    assert len(records[2].unique_id or "") == 32
    assert answer.ext["msgId"] == ",".join(record.offset_message_id for record in records)
    assert answer.ext["queueOffset"] == "0"


async def test_a_delay_of_the_batch_counts_for_its_parts() -> None:
    """Each part waits for the batch's moment unless it asks for one of its own."""
    rig = Rig()
    ext = v2(send_ext("T", properties="TIMER_DELAY_MS\x015000\x02"))
    body = batch((b"one", b""), (b"two", b"TIMER_DELAY_MS\x0110000\x02"))
    answer = rig.call(320, ext, body)

    assert answer.code == 0
    assert "recallHandle" not in answer.ext
    waiting = rig.records("rmq_sys_wheel_timer")
    assert [record.properties_dict()["TIMER_DELIVER_MS"] for record in waiting] == [
        "1700000005000",
        "1700000010000",
    ]
    assert [record.properties_dict()["REAL_TOPIC"] for record in waiting] == ["T", "T"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not a batch",
        batch((b"x", b""))[:-1],
        batch((b"x", b"")) + b"\x00",
        (2**31 - 1).to_bytes(4, "big") + bytes(30),
        batch(*[(b"", b"")] * 4097),
    ],
)
async def test_malformed_batches(body: bytes) -> None:
    """Lengths that do not add up, and too many parts, are an illegal message (13)."""
    rig = Rig()
    answer = rig.call(320, v2(send_ext("T")), body)

    assert answer.code == 13
    assert answer.remark is not None
    assert answer.remark.split(":")[0] in ("BATCH", "BODY_SIZE")


async def test_a_batch_is_stored_whole_or_not_at_all() -> None:
    """A part that admission refuses is found before any part is stored."""
    rig = Rig()
    body = batch((b"one", b""), (b"two", b"TIMER_OUT_MS\x011\x02"))
    answer = rig.call(320, v2(send_ext("T")), body)

    assert (answer.code, answer.remark) == (
        13,
        "INTERNAL_PROPERTY: only the broker sets TIMER_OUT_MS (part 1 of 2)",
    )
    assert rig.records("T") == []


async def test_batches_to_retry_topics_are_refused() -> None:
    """Each retried message has tries of its own to be counted."""
    answer = Rig().call(320, v2(send_ext("%RETRY%g")), batch((b"x", b"")))

    assert (answer.code, answer.remark) == (
        13,
        "BATCH_TO_RETRY_TOPIC: %RETRY%g takes no batches",
    )


async def test_items_succeed_or_fail_one_by_one() -> None:
    """Messages for any topics travel together; each has its own result and recall handle."""
    rig = Rig()
    items = [
        SendItem("T", -1, 5, b"UNIQ_KEY\x01K1\x02", b"now"),
        SendItem("../T", 0, 0, b"", b"nowhere"),
        SendItem("U", 0, 0, b"UNIQ_KEY\x01K2\x02TIMER_DELAY_MS\x015000\x02", b"later"),
        SendItem("U", 0, 0, b"DELAY\x011\x02", b"by level"),
        SendItem("U", 0, 0, b"REAL_QID\x011\x02", b"no"),
        SendItem("U", 0, 0, b"a\x01\xff\x02", b"not UTF-8"),
        SendItem("U", 99, 0, b"", b"no queue"),
    ]
    answer = rig.call(9001, body=encode_items(items))
    results = decode_results(answer.body)

    assert answer.code == 0
    assert [one.code for one in results] == [0, 29, 0, 0, 13, 13, 29]
    assert (results[0].queue_id, results[0].queue_offset, results[0].deliver_ms) == (0, 0, None)
    assert results[0].msg_id == rig.records("T")[0].offset_message_id
    assert rig.records("T")[0].flag == 5
    assert results[2].deliver_ms == 1_700_000_005_000
    assert results[2].recall_handle is not None
    assert results[3].recall_handle is None
    assert results[4].remark == "INTERNAL_PROPERTY: only the broker sets REAL_QID"
    assert results[5].remark is not None
    assert results[5].remark.startswith("PROPERTY_TEXT: expected UTF-8")


@pytest.mark.parametrize("body", [b"", b"\x80", b"\x81\x01", b"\xff", b"\x9b" + b"\xff" * 8])
async def test_malformed_items(body: bytes) -> None:
    """A body that is no array of items is refused as a whole (13)."""
    answer = Rig().call(9001, body=body)

    assert answer.code == 13
    assert answer.remark is not None
    assert answer.remark.startswith("BATCH: ")
