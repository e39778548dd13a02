"""What appears on a topic: the producer's message, less what steered it, with its origin named."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.delivered_message import DueMessage, due_message
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    TimerRecordError,
    decode_timer,
    moved_properties,
    timer_tail,
)
from timermq.pipeline.records.undeliverable import Reason
from timermq.timerstore.message import Message, SysFlag, pack_host
from timermq.timerstore.moved_key import key_properties
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX, parse
from timermq.timerstore.record import encode_record

SLOT_MS = 1_700_000_010_000
DELIVER_MS = SLOT_MS + 345
PHY_OFFSET = 4_096
OWN = b"UNIQ_KEY\x01U1\x02TAGS\x01a\x02KEYS\x01k1 k2\x02"
MOMENT = b"TIMER_DELIVER_MS\x01%d\x02" % DELIVER_MS
MOMENT_OF_JAVA = f"TIMER_DELIVER_MS={DELIVER_MS}"
HOST_V4 = pack_host("10.1.2.3", 4711)
HOST_V6 = pack_host("2001:db8::1", 4711)


def tail(**changes: Any) -> bytes:  # noqa: ANN401 - passed on
    """What admission puts behind the producer's properties."""
    settings: dict[str, Any] = {
        "deliver_ms": DELIVER_MS,
        "out_ms": SLOT_MS,
        "topic": "Orders",
        "queue_id": 5,
    }
    return timer_tail(**settings | changes)


def record_of(
    properties: bytes,
    *,
    store_host: bytes = HOST_V4,
    body: bytes = b"hello",
    **fields: Any,  # noqa: ANN401 - passed on
) -> bytes:
    """A record of the timer topic."""
    return encode_record(
        Message(TIMER_TOPIC, 0, body, properties, **fields),
        queue_offset=7,
        phy_offset=PHY_OFFSET,
        store_ms=SLOT_MS - 20_000,
        store_host=store_host,
    )


def due(record: bytes, *, is_roll: bool = False, taken_ms: int | None = None) -> DueMessage:
    """The message that a record of the timer topic becomes."""
    return due_message(
        record,
        PHY_OFFSET,
        is_roll=is_roll,
        origin=origin_of(PHY_OFFSET),
        precision_ms=1000,
        taken_ms=taken_ms,
    )


def javas(*properties: str) -> bytes:
    """Property text as Java writes it."""
    return "".join(one.replace("=", "\x01") + "\x02" for one in properties).encode()


@pytest.mark.parametrize("body", [b"", b"hello", bytes(5_000), OWN + tail(topic="other")])
@pytest.mark.parametrize("born_host", [HOST_V4, HOST_V6])
@pytest.mark.parametrize("store_host", [HOST_V4, HOST_V6])
@pytest.mark.parametrize("own", [b"", OWN])
def test_our_record(own: bytes, store_host: bytes, born_host: bytes, body: bytes) -> None:
    """Everything of the producer's is taken over; topic and queue are the real ones."""
    host_flags = SysFlag.BORN_HOST_V6 * (born_host is HOST_V6)
    record = record_of(
        own + tail(),
        body=body,
        store_host=store_host,
        flag=9,
        sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_LZ4 | host_flags,
        born_ms=1_234,
        born_host=born_host,
        reconsume_times=2,
    )
    made = due(record)
    message = made.message

    assert (DELIVER_MS, False) == (made.deliver_ms, made.is_roll)
    assert ("Orders", 5, body) == (message.topic, message.queue_id, message.body)
    assert own + MOMENT == message.properties
    assert (9, 1_234, born_host) == (message.flag, message.born_ms, message.born_host)
    assert (2, origin_of(PHY_OFFSET)) == (message.reconsume_times, message.prepared_offset)
    assert message.sys_flag & SysFlag.COMPRESSED
    assert bool(message.sys_flag & SysFlag.BORN_HOST_V6) == (born_host is HOST_V6)
    assert (zlib.crc32(body) & 0x7FFFFFFF) == message.body_crc


@pytest.mark.parametrize("rolls", [0, 1, 12])
def test_a_roll_goes_back(rolls: int) -> None:
    """A rolled record is one again, with a count more and the place of the first one's order."""
    order_py = 77 if rolls else PHY_OFFSET
    made = due(record_of(OWN + tail(rolls=rolls, order_py=77)), is_roll=True)
    message = made.message
    facts = decode_timer(record_of(message.properties), 9_999, 1000)

    assert (0, True) == (made.deliver_ms, made.is_roll)
    assert (TIMER_TOPIC, 0) == (message.topic, message.queue_id)
    assert origin_of(PHY_OFFSET) == message.prepared_offset
    assert OWN + tail(rolls=rolls + 1, order_py=order_py) == message.properties
    assert (DELIVER_MS, SLOT_MS) == (facts.deliver_ms, facts.out_ms)
    assert (rolls + 1, order_py) == (facts.rolls, facts.order_py)
    assert ("Orders", 5) == (facts.destination.topic, facts.destination.queue_id)


def test_a_rolled_record_is_delivered_like_any() -> None:
    """Count and order of rolls are left behind."""
    message = due(record_of(OWN + tail(rolls=3, order_py=77))).message

    assert ("Orders", 5, OWN + MOMENT) == (message.topic, message.queue_id, message.properties)


@pytest.mark.parametrize("rolls", [0, 3])
def test_a_level_stays(rolls: int) -> None:
    """Through rolls as well; what hides it from RocketMQ's wheel is left behind."""
    own = OWN + b"DELAY\x013\x02"
    record = record_of(own + tail(rolls=rolls, order_py=77, by_level=True))
    roll = due(record, is_roll=True).message
    order_py = 77 if rolls else PHY_OFFSET

    assert own + tail(rolls=rolls + 1, order_py=order_py, by_level=True) == roll.properties
    assert own + MOMENT == due(record).message.properties
    assert own + MOMENT == due(record_of(roll.properties)).message.properties


@pytest.mark.parametrize(
    ("own", "rolls", "left"),
    [
        (OWN, 0, (f"TIMER_OUT_MS={SLOT_MS}", f"TIMER_ENQUEUE_MS={SLOT_MS - 20_000}",
                  "TIMER_DEQUEUE_MS=4711")),
        (OWN, 2, (f"TIMER_OUT_MS={SLOT_MS}", f"TIMER_ENQUEUE_MS={SLOT_MS - 20_000}",
                  "TIMER_DEQUEUE_MS=4711", "TIMER_ROLL_TIMES=2")),
        (OWN + b"DELAY\x013\x02", 0, ()),
    ],
)  # fmt: skip
def test_what_rocketmq_leaves(own: bytes, rolls: int, left: tuple[str, ...]) -> None:
    """If it is asked for: of a level topic and queue alone; and never more on a roll."""
    by_level = own != OWN
    record = record_of(own + tail(rolls=rolls, order_py=77, by_level=by_level))
    roll = due(record, is_roll=True, taken_ms=4_711)

    assert (
        own + MOMENT + javas("REAL_TOPIC=Orders", "REAL_QID=5", *left)
        == due(record, taken_ms=4_711).message.properties
    )
    assert due(record, is_roll=True).message.properties == roll.message.properties


def test_what_does_not_fit_is_not_left() -> None:
    """A record of RocketMQ's may be full of properties: it is delivered without more."""
    text = javas(f"TIMER_OUT_MS={SLOT_MS}", "REAL_TOPIC=Orders", "REAL_QID=5", MOMENT_OF_JAVA)
    own = b"x\x01%b\x02" % bytes(PROPERTIES_SIZE_MAX - len(text) - 3)
    message = due(record_of(own + text), taken_ms=4_711).message

    assert own + MOMENT == message.properties


def test_a_java_record() -> None:
    """Steering keys go wherever they stand; the moment computed for a delay is written down."""
    text = javas(
        "REAL_QID=5",
        "UNIQ_KEY=U1",
        "TIMER_ENQUEUE_MS=1",
        f"TIMER_OUT_MS={SLOT_MS}",
        "TIMER_DELAY_SEC=20",
        "REAL_TOPIC=Orders",
        "TAGS=a",
    )
    message = due(record_of(text)).message

    assert ("Orders", 5) == (message.topic, message.queue_id)
    assert (
        javas("UNIQ_KEY=U1", "TIMER_DELAY_SEC=20", "TAGS=a", f"TIMER_DELIVER_MS={SLOT_MS + 1}")
        == message.properties
    )


@pytest.mark.parametrize(
    "own", [b"UNIQ_KEY\x01U1\x02", b"TAGS\x01a\x02UNIQ_KEY\x01U1\x02KEYS\x01k1 k2\x02"]
)
def test_a_moved_message_that_rocketmq_rolled(own: bytes) -> None:
    """It is delivered with its producer's keys, and keeps the key of its record in another roll."""
    _, _, keys = own.partition(b"KEYS\x01")
    moved = key_properties(b"U1#moved77", *keys.removesuffix(b"\x02").split())
    text = javas(
        f"TIMER_OUT_MS={SLOT_MS}", "TIMER_ROLL_TIMES=1", "REAL_TOPIC=Orders", "REAL_QID=5"
    )  # fmt: skip
    before = own.partition(b"UNIQ_KEY")[0]
    record = record_of(before + moved + MOMENT + text)
    again = due(record, is_roll=True).message.properties

    assert parse(due(record).message.properties) == parse(own + MOMENT)
    assert moved_properties(again) == moved
    assert parse(due(record_of(again)).message.properties) == parse(own + MOMENT)


def test_a_key_that_looks_moved_is_the_producers() -> None:
    """Without the key before among its keys no move gave it, so it stays."""
    own = b"UNIQ_KEY\x01U1#moved77\x02KEYS\x01k1\x02"
    text = javas(f"TIMER_OUT_MS={SLOT_MS}", "REAL_TOPIC=Orders", "REAL_QID=5", MOMENT_OF_JAVA)
    message = due(record_of(own + text)).message

    assert message.properties == own + MOMENT


def test_a_java_record_keeps_its_moment() -> None:
    """A moment that the producer named stays as it was written."""
    text = javas(
        f"TIMER_DELIVER_MS={DELIVER_MS}",
        "REAL_QID=5",
        "UNIQ_KEY=U1",
        f"TIMER_OUT_MS={SLOT_MS}",
        "REAL_TOPIC=Orders",
    )
    made = due(record_of(text))

    assert DELIVER_MS == made.deliver_ms
    assert MOMENT + javas("UNIQ_KEY=U1") == made.message.properties


def test_a_java_roll_becomes_ours() -> None:
    """Rolled here, a Java record has the fixed order from then on."""
    text = javas("REAL_QID=5", f"TIMER_OUT_MS={SLOT_MS}", "REAL_TOPIC=Orders", "UNIQ_KEY=U1")
    message = due(record_of(text), is_roll=True).message

    assert (
        javas("UNIQ_KEY=U1") + tail(deliver_ms=SLOT_MS + 1000, rolls=1, order_py=PHY_OFFSET)
        == message.properties
    )


def test_the_timer_topic_is_no_destination() -> None:
    """A record whose real topic is the timer topic would come back for ever."""
    with pytest.raises(TimerRecordError) as caught:
        due(record_of(OWN + tail(topic=TIMER_TOPIC)))

    assert caught.value.reason is Reason.ILLEGAL_TOPIC
    assert f"timer record at {PHY_OFFSET}: the topic {TIMER_TOPIC} is the broker's own" == str(
        caught.value
    )


def test_what_is_no_timer_is_refused() -> None:
    """A record without steering keys cannot be delivered."""
    with pytest.raises(TimerRecordError):
        due(record_of(OWN))


def test_a_due_message_cannot_be_changed() -> None:
    """What the publish is checked against stays as it was read."""
    made = due(record_of(OWN + tail()))

    with pytest.raises(AttributeError):
        made.deliver_ms = 0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
