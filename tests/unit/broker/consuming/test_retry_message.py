"""Tests of the message that a consumer gets again: what stays, what goes, what is written once."""

from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.consuming.send_back_processor import retry_message
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.properties import encode, parse
from timermq.timerstore.record import decode_record, encode_record

HOST = pack_host("127.0.0.1", 10_911)
AT = 4_096
ORIGIN = "7F00000100002A9F0000000000001000"
STEERING = (
    "DELAY",
    "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS",
    "TIMER_DELIVER_MS",
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES",
    "TIMER_DEL_UNIQKEY",
    "REAL_TOPIC",
    "REAL_QID",
)


def record(properties: bytes, *, reconsume_times: int = 0, topic: str = "T") -> bytes:
    """A stored record at position 4,096."""
    message = Message(
        topic=topic,
        queue_id=3,
        body=b"packed",
        properties=properties,
        flag=9,
        sys_flag=0x301,
        born_ms=1_700_000_000_000,
        born_host=pack_host("192.0.2.7", 4_711),
        reconsume_times=reconsume_times,
        prepared_offset=-77,
    )
    return encode_record(
        message, phy_offset=AT, queue_offset=5, store_ms=1_700_000_000_001, store_host=HOST
    )


def test_what_stays() -> None:
    """Body as packed as it was, flags, born data and the producer's properties."""
    own = encode({"UNIQ_KEY": "K", "TAGS": "t", "KEYS": "a b", "user": "1"})
    made = retry_message(record(own), topic="%RETRY%g", queue_id=1, delay=b"DELAY\x013\x02")

    assert (made.topic, made.queue_id, made.body) == ("%RETRY%g", 1, b"packed")
    assert (made.flag, made.sys_flag, made.born_ms) == (9, 0x301, 1_700_000_000_000)
    assert made.born_host == pack_host("192.0.2.7", 4_711)
    assert (made.reconsume_times, made.prepared_offset) == (1, 0)
    assert parse(made.properties) == {
        **parse(own),
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": ORIGIN,
        "DELAY": "3",
    }


def test_its_first_topic_and_id_are_written_once() -> None:
    """Tried again, it still names the topic and the id that it had at first."""
    first = retry_message(record(b""), topic="%RETRY%g", queue_id=0, delay=b"")
    again = retry_message(
        record(first.properties, reconsume_times=1, topic="%RETRY%g"),
        topic="%RETRY%g",
        queue_id=0,
        delay=b"",
    )

    assert again.properties == first.properties
    assert again.reconsume_times == 2
    assert parse(again.properties) == {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": ORIGIN}


def test_empty_values_are_none() -> None:
    """A property without a value is no property, as everywhere."""
    made = retry_message(
        record(b"RETRY_TOPIC\x01\x02ORIGIN_MESSAGE_ID\x01"), topic="D", queue_id=0, delay=b""
    )

    assert parse(made.properties) == {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": ORIGIN}


@given(
    st.dictionaries(
        st.sampled_from([*STEERING, "UNIQ_KEY", "user", "TIMER", "XDELAY"]),
        st.sampled_from(["1", "1700000000000", "T", "DELAY"]),
    ),
    st.booleans(),
)
def test_nothing_steers_it_but_its_delay(had: dict[str, str], is_open: bool) -> None:
    """Whatever the message once asked of the timer, in whatever order, is left behind."""
    properties = encode(had)
    if is_open:
        properties = properties.removesuffix(b"\x02")
    made = retry_message(
        record(properties), topic="%RETRY%g", queue_id=0, delay=b"TIMER_DELAY_MS\x0150\x02"
    )
    kept = {name: value for name, value in had.items() if name not in STEERING}

    assert parse(made.properties) == {
        **kept,
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": ORIGIN,
        "TIMER_DELAY_MS": "50",
    }
    assert decode_record(record(properties)).properties == properties
