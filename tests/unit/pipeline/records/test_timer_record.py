"""Records of the timer topic: ours in fixed order, Java's in any, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.records.timer_properties import INTERNAL_NAMES
from timermq.pipeline.records.timer_record import (
    TAIL_SIZE_MAX,
    TIMER_TOPIC,
    Destination,
    TimerFacts,
    TimerRecordError,
    decode_timer,
    known_destination,
    learn_destination,
    own_properties,
    timer_tail,
)
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.properties import find
from timermq.timerstore.record import encode_record

SLOT_MS = 1_700_000_010_000
STORE_MS = 1_700_000_004_321
PHY_OFFSET = 4_096
OWN = b"UNIQ_KEY\x01U1\x02TAGS\x01a\x02"


def record_of(properties: bytes, store_ms: int = STORE_MS, body: bytes = b"hello") -> bytes:
    """A record of the timer topic with this property text."""
    return encode_record(
        Message(TIMER_TOPIC, 0, body, properties),
        queue_offset=7,
        phy_offset=PHY_OFFSET,
        store_ms=store_ms,
        store_host=pack_host("127.0.0.1", 10911),
    )


def decode(properties: bytes, precision_ms: int = 1000, store_ms: int = STORE_MS) -> TimerFacts:
    """The facts that a record with these properties states."""
    return decode_timer(record_of(properties, store_ms), PHY_OFFSET, precision_ms)


def test_java_may_put_the_slot_time_last() -> None:
    """Its order is that of a hash table: what stands behind REAL_TOPIC is the producer's, kept."""
    text = javas(
        "mine=x",
        "REAL_TOPIC=T",
        "KEYS=k",
        "UNIQ_KEY=U",
        "TIMER_DELAY_SEC=5",
        "TAGS=a",
        "REAL_QID=0",
        f"TIMER_OUT_MS={SLOT_MS}",
    )
    kept = javas("mine=x", "KEYS=k", "UNIQ_KEY=U", "TIMER_DELAY_SEC=5", "TAGS=a")

    assert kept == own_properties(text)


def refusal(properties: bytes) -> str:
    """Why no timer can be made of the record."""
    with pytest.raises(TimerRecordError) as caught:
        decode(properties)
    return str(caught.value)


def javas(*properties: str) -> bytes:
    """Property text as Java writes it: in the order of a hash table."""
    return "".join(one.replace("=", "\x01") + "\x02" for one in properties).encode()


@given(
    behind_ms=st.integers(1, 1000),
    topic=st.text("%|aZ09_-", min_size=1, max_size=60),
    queue_id=st.integers(0, 999_999_999),
    rolls=st.integers(0, 10**6),
    order_py=st.integers(0, PHY_OFFSET),
    is_delete=st.booleans(),
    by_level=st.booleans(),
)
def test_our_records_round_trip(
    behind_ms: int,
    topic: str,
    queue_id: int,
    rolls: int,
    order_py: int,
    is_delete: bool,
    by_level: bool,
) -> None:
    """What was written is read, and the producer's properties are left as they were."""
    own = OWN + b"TIMER_DEL_UNIQKEY\x01T+U0\x02" * is_delete + b"DELAY\x013\x02" * by_level
    tail = timer_tail(
        deliver_ms=SLOT_MS + behind_ms,
        out_ms=SLOT_MS,
        topic=topic,
        queue_id=queue_id,
        rolls=rolls,
        order_py=order_py,
        by_level=by_level,
    )
    for _ in range(2):
        facts = decode(own + tail)

        assert (SLOT_MS + behind_ms, SLOT_MS) == (facts.deliver_ms, facts.out_ms)
        assert Destination(topic, queue_id, java_hash(topic)) == facts.destination
        assert (rolls, order_py if rolls else PHY_OFFSET) == (facts.rolls, facts.order_py)
        assert is_delete == facts.is_delete
    moment = b"TIMER_DELIVER_MS\x01%d\x02" % (SLOT_MS + behind_ms)
    assert own + moment == own_properties(own + tail)
    assert (b"0" if by_level else None) == find(own + tail, b"DELAY")


def test_the_tail_is_as_documented() -> None:
    """The properties stand in the order that finding them by slices relies on."""
    tail = timer_tail(
        deliver_ms=SLOT_MS + 5,
        out_ms=SLOT_MS,
        topic="T",
        queue_id=3,
        rolls=2,
        order_py=99,
        by_level=True,
    )

    assert (
        javas(
            f"TIMER_DELIVER_MS={SLOT_MS + 5}",
            "REAL_TOPIC=T",
            "REAL_QID=3",
            "TIMER_ROLL_TIMES=2",
            "TIMER_ORDER=99",
            "DELAY=0",
            f"TIMER_OUT_MS={SLOT_MS}",
        )
        == tail
    )


def test_the_longest_tail_has_its_room() -> None:
    """What admission keeps free is enough for the longest topic and the largest numbers."""
    tail = timer_tail(
        deliver_ms=9_999_999_999_999,
        out_ms=9_999_999_999_000,
        topic="t" * 255,
        queue_id=2**31 - 1,
        rolls=2**63 - 1,
        order_py=2**63 - 1,
    )

    assert len(tail) <= TAIL_SIZE_MAX


def test_a_queue_with_a_leading_zero_is_no_destination_of_its_own() -> None:
    """A flipped bit makes 13 to 03: beside 3 in one batch both would get the same offsets."""
    tail = timer_tail(deliver_ms=SLOT_MS + 1, out_ms=SLOT_MS, topic="T", queue_id=13)
    flipped = tail.replace(b"REAL_QID\x0113", b"REAL_QID\x0103")
    name = flipped[flipped.index(b"REAL_TOPIC") : flipped.index(b"TIMER_OUT_MS\x01") + 13]

    assert Destination("T", 3, java_hash("T")) == decode(OWN + flipped).destination
    assert (None, None) == (known_destination(name), learn_destination(name))


def test_small_moments_are_padded() -> None:
    """Thirteen digits, whatever the moment: places are fixed."""
    tail = timer_tail(deliver_ms=1_500, out_ms=1_000, topic="T", queue_id=0)
    facts = decode(tail)

    assert b"TIMER_OUT_MS\x010000000001000\x02" in tail
    assert (1_500, 1_000) == (facts.deliver_ms, facts.out_ms)


@pytest.mark.parametrize(
    ("asked", "store_ms", "deliver_ms"),
    [
        # A moment in the slot is exact.
        ((f"TIMER_DELIVER_MS={SLOT_MS + 250}",), STORE_MS, SLOT_MS + 250),
        # Outside of the slot, or no number, it says nothing: the slot's last millisecond.
        ((f"TIMER_DELIVER_MS={SLOT_MS}",), STORE_MS, SLOT_MS + 1000),
        ((f"TIMER_DELIVER_MS={SLOT_MS + 1001}",), STORE_MS, SLOT_MS + 1000),
        (("TIMER_DELIVER_MS=soon",), STORE_MS, SLOT_MS + 1000),
        ((), STORE_MS, SLOT_MS + 1000),
        # A delay counts from the store time, kept within the slot.
        (("TIMER_DELAY_SEC=6",), SLOT_MS - 5_700, SLOT_MS + 300),
        (("TIMER_DELAY_MS=6100",), SLOT_MS - 5_700, SLOT_MS + 400),
        (("TIMER_DELAY_SEC=6",), SLOT_MS - 9_000, SLOT_MS + 1),
        (("TIMER_DELAY_SEC=6",), SLOT_MS - 1_000, SLOT_MS + 1000),
        (("TIMER_DELAY_SEC=much",), STORE_MS, SLOT_MS + 1000),
        # After a roll the store time is that of the roll.
        (("TIMER_DELAY_SEC=6", "TIMER_ROLL_TIMES=1"), SLOT_MS - 5_700, SLOT_MS + 1000),
    ],
)
def test_moments_of_java_records(asked: tuple[str, ...], store_ms: int, deliver_ms: int) -> None:
    """The exact moment as far as the record tells it, late rather than early."""
    text = javas(*asked, "REAL_QID=2", f"TIMER_OUT_MS={SLOT_MS}", "REAL_TOPIC=T", "UNIQ_KEY=U1")
    facts = decode(text, store_ms=store_ms)

    assert deliver_ms == facts.deliver_ms
    assert (SLOT_MS, "T", 2) == (facts.out_ms, facts.destination.topic, facts.destination.queue_id)
    assert PHY_OFFSET == facts.order_py


def test_the_slot_time_is_known_by_its_name() -> None:
    """Another property of the same length in its place is not taken for it."""
    tail = timer_tail(deliver_ms=SLOT_MS + 5, out_ms=SLOT_MS, topic="T", queue_id=0)
    decode(tail)
    other = tail.replace(b"TIMER_OUT_MS", b"MY_OWN_STAMP")

    assert f"timer record at {PHY_OFFSET}: expected TIMER_OUT_MS, found none" == refusal(other)
    assert SLOT_MS - 7_000 == decode(javas(f"TIMER_OUT_MS={SLOT_MS - 7_000}") + other).out_ms


def test_a_java_delete() -> None:
    """A delete of Java's is one."""
    text = javas("TIMER_DEL_UNIQKEY=U0", "REAL_QID=0", f"TIMER_OUT_MS={SLOT_MS}", "REAL_TOPIC=T")

    assert decode(text).is_delete


def test_the_name_of_a_delete_elsewhere_is_none() -> None:
    """A body or a value that spells the property's name makes no delete."""
    tail = timer_tail(deliver_ms=SLOT_MS + 5, out_ms=SLOT_MS, topic="T", queue_id=0)
    own = b"NOTE\x01TIMER_DEL_UNIQKEY\x02"
    record = record_of(own + tail, body=b"\x02TIMER_DEL_UNIQKEY\x01U0\x02")

    assert not decode_timer(record, PHY_OFFSET, 1000).is_delete


def test_a_body_that_looks_like_a_tail() -> None:
    """Only the properties are read, whatever the body spells."""
    tail = timer_tail(deliver_ms=SLOT_MS + 5, out_ms=SLOT_MS, topic="T", queue_id=0)
    other = timer_tail(deliver_ms=SLOT_MS + 9, out_ms=SLOT_MS, topic="other", queue_id=1)

    assert "T" == decode_timer(record_of(tail, body=other), PHY_OFFSET, 1000).destination.topic
    with pytest.raises(TimerRecordError):
        decode_timer(record_of(OWN, body=tail), PHY_OFFSET, 1000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "expected TIMER_OUT_MS, found none"),
        (OWN, "expected TIMER_OUT_MS, found none"),
        (
            javas("TIMER_OUT_MS=12x", "REAL_TOPIC=T", "REAL_QID=0"),
            "expected up to 18 digits in TIMER_OUT_MS, found '12x'",
        ),
        (
            javas("TIMER_OUT_MS=" + "1" * 20, "REAL_TOPIC=T", "REAL_QID=0"),
            f"expected up to 18 digits in TIMER_OUT_MS, found {'1' * 20!r}",
        ),
        (
            javas(f"TIMER_OUT_MS={SLOT_MS}", "REAL_QID=0"),
            "expected REAL_TOPIC and a numeric REAL_QID, found none and '0'",
        ),
        (
            javas(f"TIMER_OUT_MS={SLOT_MS}", "REAL_TOPIC=T"),
            "expected REAL_TOPIC and a numeric REAL_QID, found 'T' and none",
        ),
        (
            javas("REAL_TOPIC=T", "REAL_QID=-1", f"TIMER_OUT_MS={SLOT_MS}"),
            "expected REAL_TOPIC and a numeric REAL_QID, found 'T' and '-1'",
        ),
        (
            b"REAL_TOPIC\x01\xff\x02" + javas("REAL_QID=0", f"TIMER_OUT_MS={SLOT_MS}"),
            r"the topic '\ufffd' has other characters than % | a-z A-Z 0-9 _ -",
        ),
        (
            javas("REAL_TOPIC=T", "REAL_QID=0", "TIMER_ROLL_TIMES=x", f"TIMER_OUT_MS={SLOT_MS}"),
            "expected up to 18 digits in TIMER_ROLL_TIMES, found 'x'",
        ),
        (
            OWN + timer_tail(deliver_ms=SLOT_MS, out_ms=SLOT_MS, topic="T", queue_id=0),
            f"expected TIMER_DELIVER_MS in ({SLOT_MS}, {SLOT_MS + 1000}], found {SLOT_MS}",
        ),
        (
            OWN + timer_tail(deliver_ms=SLOT_MS + 1001, out_ms=SLOT_MS, topic="T", queue_id=0),
            f"expected TIMER_DELIVER_MS in ({SLOT_MS}, {SLOT_MS + 1000}], found {SLOT_MS + 1001}",
        ),
    ],
)
def test_what_is_no_timer(text: bytes, reason: str) -> None:
    """Such a record is refused with its place and what is wrong."""
    assert f"timer record at {PHY_OFFSET}: {reason}" == refusal(text)


@given(text=st.binary(max_size=200))
def test_any_text_is_read_or_refused(text: bytes) -> None:
    """Nothing but a refusal comes of text that is no timer."""
    try:
        facts = decode(OWN + b"\x02" + text)
    except TimerRecordError:
        return

    assert facts.out_ms < facts.deliver_ms


@given(
    kept=st.lists(st.sampled_from(["A=1", "TIMER_DELIVER_MS=5", "UNIQ_KEY=U", "TAGS=x"])),
    steering=st.lists(st.sampled_from([name.decode() + "=1" for name in INTERNAL_NAMES])),
)
def test_own_properties_of_java_records(kept: list[str], steering: list[str]) -> None:
    """The keys that steer timers go, all others stay in their order."""
    text = javas(*kept, *steering)
    own = own_properties(text)

    assert javas(*kept) == own
    assert [name for name in INTERNAL_NAMES if find(own, name) is not None] == []


@pytest.mark.parametrize(
    "properties",
    [
        ("REAL_TOPIC=T", "REAL_QID=0", "TIMER_OUT_MS=9999999999999999999"),
        ("REAL_TOPIC=T", "REAL_QID=0", f"TIMER_OUT_MS={'9' * 5000}"),
        ("REAL_TOPIC=T", "REAL_QID=0", f"TIMER_OUT_MS={SLOT_MS}", f"TIMER_ROLL_TIMES={'9' * 19}"),
        ("REAL_TOPIC=T", "REAL_QID=0", f"TIMER_OUT_MS={SLOT_MS}", f"TIMER_ORDER={'9' * 19}"),
    ],
)
def test_numbers_that_fit_no_field_are_refused(properties: tuple[str, ...]) -> None:
    """They would overflow the columns of a batch, which ends the service."""
    assert "digits in TIMER_" in refusal(javas(*properties))


@pytest.mark.parametrize("key", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_a_moment_of_too_many_digits_is_the_end_of_its_slot(key: str) -> None:
    """Of a Java record the slot is known, whatever the producer wrote."""
    texts = ("REAL_TOPIC=T", "REAL_QID=0", f"TIMER_OUT_MS={SLOT_MS}", f"{key}={'9' * 5000}")

    assert SLOT_MS + 1000 == decode(javas(*texts)).deliver_ms


@pytest.mark.parametrize("host", [pack_host("127.0.0.1", 1), pack_host("::1", 1)])
def test_a_delay_counts_from_the_store_time_whatever_the_producers_host(host: bytes) -> None:
    """NOT_BEFORE: the head of a record from IPv6 is longer, the store time stands behind it."""
    texts = ("REAL_TOPIC=T", "REAL_QID=0", f"TIMER_OUT_MS={SLOT_MS}", "TIMER_DELAY_MS=900")
    record = encode_record(
        Message(TIMER_TOPIC, 0, b"x", javas(*texts), born_host=host),
        queue_offset=0,
        phy_offset=PHY_OFFSET,
        store_ms=SLOT_MS - 200,
        store_host=pack_host("127.0.0.1", 10911),
    )

    assert SLOT_MS + 700 == decode_timer(record, PHY_OFFSET, 1000).deliver_ms
