"""Tests of the quarantine's requests: pages, one message whole, verdicts, and what is refused."""

from __future__ import annotations

from typing import cast

import cbor2
import pytest

from broker_rig import Rig
from timermq.pipeline.records.undeliverable import Reason, Undeliverable
from timermq.remoting import Command
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record

LIST, SHOW, RETRY, DROP = 9010, 9011, 9012, 9013
NOW_MS = 1_700_000_000_000


def ask(rig: Rig, code: int, **fields: object) -> dict[str, object]:
    """The body of the answer."""
    answer = rig.call(code, body=cbor2.dumps(fields))
    assert answer.code == 0, answer.remark
    return cast("dict[str, object]", cbor2.loads(answer.body))


def quarantined(rig: Rig, origin_py: int, *properties: str, body: bytes = b"hello") -> bytes:
    """Put a message into quarantine; its record."""
    text = "".join(one.replace("=", "\x01") + "\x02" for one in properties)
    record = encode_record(
        Message("rmq_sys_wheel_timer", 0, body, text.encode()),
        queue_offset=0,
        phy_offset=origin_py,
        store_ms=NOW_MS - 1,
        store_host=bytes(8),
    )
    fault = Undeliverable(
        offset_py=origin_py,
        size_py=len(record),
        record=record,
        reason=Reason.NO_TOPIC,
        text="expected REAL_TOPIC",
    )
    assert rig.broker.timer_store.quarantine.add([fault], NOW_MS) is None
    return record


async def test_a_message_is_listed_and_shown() -> None:
    """What its record tells, why it is there, and the record itself."""
    rig = Rig()
    record = quarantined(rig, 4_096, "UNIQ_KEY=K1", "KEYS=a b", "TAGS=t", "REAL_QID=3")
    row = {
        "id": 4_096,
        "reason": "no_topic",
        "text": "expected REAL_TOPIC",
        "topic": None,
        "queue_id": 3,
        "deliver_ms": None,
        "unique_id": "K1",
        "keys": "a b",
        "tags": "t",
        "size": len(record),
        "kept_size": len(record),
        "set_aside_ms": NOW_MS,
    }

    assert ask(rig, LIST) == {"rows": [row], "next": None}
    assert ask(rig, SHOW, id=4_096) == {"row": {**row, "state": "active", "record": record}}
    assert ask(rig, SHOW, id=4_097) == {"row": None}


async def test_a_listing_in_pages() -> None:
    """Each goes on where the one before ended, whatever was released meanwhile."""
    rig = Rig()
    for origin_py in range(100, 107):
        quarantined(rig, origin_py)
    found: list[object] = []
    after: object = -1
    while after is not None:
        page = ask(rig, LIST, limit=2, after=after)
        found += [row["id"] for row in cast("list[dict[str, object]]", page["rows"])]
        after = page["next"]
        ask(rig, DROP, id=104)

    assert found == [100, 101, 102, 103, 105, 106]


async def test_verdicts_are_given_again() -> None:
    """Retried and dropped, each once; of the other nothing is left to do."""
    rig = Rig()
    for origin_py in (1, 2):
        quarantined(rig, origin_py, "REAL_TOPIC=T", "REAL_QID=0")

    assert [ask(rig, RETRY, id=1)["verdict"] for _ in range(2)] == ["retried", "retried"]
    elsewhere = ask(rig, RETRY, id=1, topic="U")
    assert (elsewhere["verdict"], elsewhere["text"]) == ("retried", "before; nothing was done now")
    assert ask(rig, DROP, id=1)["verdict"] == "retried"
    assert [ask(rig, DROP, id=2, by="me")["verdict"] for _ in range(2)] == ["dropped", "dropped"]
    assert ask(rig, RETRY, id=2)["verdict"] == "dropped"
    assert ask(rig, RETRY, id=3)["verdict"] == "not_found"
    assert ask(rig, SHOW, id=2)["row"] is not None
    assert ask(rig, LIST)["rows"] == []
    assert [one.body for one in rig.records("T")] == [b"hello"]
    assert (
        b"QUARANTINE_BY\x01me 127.0.0.1:40000\x02"
        in rig.records("rmq_sys_TIMERMQ_QUARANTINE")[-1].properties
    )


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        (None, "expected REAL_TOPIC, found none"),
        ("a b", "TOPIC_NAME: the topic 'a b' has other characters"),
        ("rmq_sys_wheel_timer", "TOPIC_NOT_ALLOWED"),
        ("rmq_sys_TIMERMQ_QUARANTINE", "TOPIC_NOT_ALLOWED"),
    ],
)
async def test_what_cannot_be_retried_is_kept(topic: str | None, text: str) -> None:
    """The answer says why, and the message is in quarantine as before."""
    rig = Rig()
    quarantined(rig, 1)
    answer = ask(rig, RETRY, id=1, topic=topic)

    assert answer["verdict"] == "kept"
    assert text in str(answer["text"])
    assert len(cast("list[object]", ask(rig, LIST)["rows"])) == 1


async def test_a_queue_that_the_topic_has_not() -> None:
    """The broker chooses one that consumers read."""
    rig = Rig()
    rig.send("T")
    quarantined(rig, 1, "REAL_QID=99")
    ask(rig, RETRY, id=1, topic="T")

    assert [len(rig.records("T", queue_id)) for queue_id in range(4)] == [2, 0, 0, 0]


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (LIST, b"\xff"),
        (LIST, cbor2.dumps({"limit": 0})),
        (LIST, cbor2.dumps({"limit": 1 << 40})),
        (LIST, cbor2.dumps({"after": "x"})),
        (SHOW, b""),
        (SHOW, cbor2.dumps([])),
        (RETRY, cbor2.dumps({"id": "1"})),
        (RETRY, cbor2.dumps({"id": 1, "topic": ""})),
        (DROP, cbor2.dumps({"id": None})),
    ],
)
async def test_a_malformed_request_is_refused(code: int, body: bytes) -> None:
    """The refusal names the rule QUARANTINE_BODY."""
    answer = Rig().call(code, body=body)

    assert answer.code == 29
    assert (answer.remark or "").startswith("QUARANTINE_BODY: ")


async def test_no_client_writes_into_the_quarantine_or_the_timer_topic() -> None:
    """A client's send straight into either is refused (ONE_ADMISSION)."""
    rig = Rig()
    answers: list[Command] = [
        rig.send(topic) for topic in ("rmq_sys_TIMERMQ_QUARANTINE", "rmq_sys_wheel_timer")
    ]

    assert [one.code for one in answers] == [16, 16]
    assert all("TOPIC_NOT_ALLOWED" in (one.remark or "") for one in answers)


async def test_a_watcher_sees_the_quarantine() -> None:
    """How many are in it, and the newest reason."""
    rig = Rig()
    quarantined(rig, 1)
    timer = rig.broker.statistics().timer

    assert (timer.quarantined, timer.set_aside) == (1, 1)
    assert timer.last_set_aside is not None
    assert (timer.last_set_aside.reason, timer.last_set_aside.time_ms) == ("no_topic", NOW_MS)
