"""Tests of what is stored of a transaction until its producer has decided."""

from __future__ import annotations

import attrs
import pytest

from timermq.broker.transactions.half_message import (
    RENEWAL_SIZE_MAX,
    DamagedHalfError,
    HalfMessage,
    HalfMessageError,
    asked_about,
    committed,
    decode_half,
    discarded,
    is_half,
    name_in,
    parked,
    renewed,
)
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.properties import encode, parse
from timermq.timerstore.record import decode_record, encode_record
from transaction_rig import DISCARD_TOPIC, HALF_TOPIC

HOST = pack_host("127.0.0.1", 10_911)
V6 = pack_host("::1", 10_911)
OWN = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "K0", "TAGS": "a"}


def sent(**more: str) -> Message:
    """The message as the producer sends it, with these properties more."""
    return Message("T", 3, b"x", encode(OWN | more), flag=7, sys_flag=5, born_ms=1, born_host=HOST)


def stored(
    message: Message, *, phy_offset: int = 700, queue_offset: int = 70, store_ms: int = 7
) -> bytes:
    """The record of the message in the log."""
    return encode_record(
        message,
        queue_offset=queue_offset,
        phy_offset=phy_offset,
        store_ms=store_ms,
        store_host=HOST,
    )


def half_of(message: Message) -> HalfMessage:
    """A half message as it is read again."""
    return decode_half(stored(parked(message, "K0")))


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)]
)
def test_which_messages_are_half_messages(value: str, expected: bool) -> None:
    """As Java reads a boolean."""
    assert is_half(f"TRAN_MSG\x01{value}\x02".encode()) is expected
    assert not is_half(f"note\x01TRAN_MSG {value}\x02".encode())


def test_parked() -> None:
    """As in RocketMQ: the real destination is among the properties, and the flag is gone."""
    half = parked(sent(), "K0")

    assert (half.topic, half.queue_id, half.sys_flag, half.flag) == (HALF_TOPIC, 0, 1, 7)
    assert parse(half.properties) == OWN | {
        "__transactionId__": "K0",
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }


def test_no_producer_names_another_transaction() -> None:
    """What the broker sets is not taken from a producer."""
    forged = sent(
        TIMERMQ_HALF="0,0",
        TRANSACTION_CHECK_TIMES="14",
        TRAN_PREPARED_QUEUE_OFFSET="3",
        __transactionId__="K9",
    )
    half = half_of(forged)

    assert parked(forged, "K0").properties == parked(sent(), "K0").properties
    assert (half.name, half.first_ms, half.check_times, half.is_renewal) == (700, 7, 0, False)


def test_decoded() -> None:
    """The first record of a transaction is its name."""
    half = half_of(sent(CHECK_IMMUNITY_TIME_IN_SECONDS="9"))

    assert (half.topic, half.queue_id, half.group, half.unique_key) == ("T", 3, "P", "K0")
    assert (half.phy_offset, half.queue_offset, half.name, half.first_ms) == (700, 70, 700, 7)
    assert (half.immunity_ms, half.states_name) == (9_000, False)


def test_committed() -> None:
    """The producer's message, that names the half message which it comes from."""
    message = committed(half_of(sent(TIMER_DELAY_MS="5")))

    assert (message.topic, message.queue_id, message.body, message.flag) == ("T", 3, b"x", 7)
    assert (message.sys_flag, message.prepared_offset, message.born_ms) == (9, 700, 1)
    assert parse(message.properties) == {
        "TRAN_MSG": "true",
        "PGROUP": "P",
        "UNIQ_KEY": "K0",
        "TAGS": "a",
        "TIMER_DELAY_MS": "5",
        "__transactionId__": "K0",
    }


def test_renewed_for_a_check() -> None:
    """The count grows, the name stays; what is committed afterwards is the same message."""
    first = half_of(sent())
    second = decode_half(
        stored(renewed(first, is_check=True), phy_offset=900, queue_offset=90, store_ms=9)
    )
    third = decode_half(stored(renewed(second, is_check=True), phy_offset=1100))
    message = committed(third)

    assert (second.check_times, third.check_times) == (1, 2)
    assert (second.name, second.first_ms, third.name, third.first_ms) == (700, 7, 700, 7)
    assert (third.states_name, third.is_renewal) == (True, True)
    assert (message.body, message.properties, message.prepared_offset) == (
        b"x",
        committed(first).properties,
        1100,
    )


def test_renewed_without_a_check() -> None:
    """RocketMQ finds the first queue offset there; the count stays."""
    first = half_of(sent())
    second = decode_half(stored(renewed(first, is_check=False), queue_offset=90))
    third = decode_half(stored(renewed(second, is_check=False), queue_offset=91))

    assert (second.check_times, second.is_renewal, second.name) == (0, True, 700)
    assert parse(third.record.properties)["TRAN_PREPARED_QUEUE_OFFSET"] == "70"
    assert committed(third).properties == committed(first).properties


def test_how_much_renewals_add() -> None:
    """The largest numbers that are read again, and no byte more."""
    largest = 10**18 - 1
    message = parked(sent(), "K0")
    size = len(message.properties)
    first = decode_half(stored(message, phy_offset=largest, queue_offset=largest, store_ms=largest))
    second = decode_half(stored(renewed(first, is_check=False)))
    second = attrs.evolve(second, check_times=largest - 1)
    third = renewed(second, is_check=True)

    assert len(third.properties) - size == RENEWAL_SIZE_MAX


def test_discarded() -> None:
    """Everything is kept, and the name with it."""
    message = discarded(half_of(sent()))

    assert (message.topic, message.queue_id, message.body) == (DISCARD_TOPIC, 0, b"x")
    assert parse(message.properties)["REAL_TOPIC"] == "T"
    assert name_in(message.properties) == 700


def test_discarded_without_room_for_the_name() -> None:
    """What the operator needs comes before what recovery needs."""
    properties = encode(OWN | {"REAL_TOPIC": "T", "REAL_QID": "3"})
    properties += b"note\x01%b\x02" % (b"x" * (32_767 - len(properties) - 6))
    message = discarded(decode_half(stored(Message(HALF_TOPIC, 0, b"x", properties))))

    assert len(properties) == 32_767
    assert message.properties == properties
    assert name_in(message.properties) is None


def test_asked_about() -> None:
    """A record as it stands, but of the real topic and queue."""
    half = half_of(sent())
    shown = decode_record(asked_about(half))

    assert (shown.topic, shown.queue_id, shown.phy_offset, shown.queue_offset) == ("T", 3, 700, 70)
    assert (shown.properties, shown.body) == (half.record.properties, b"x")
    assert (shown.store_ms, shown.store_host) == (7, HOST)


def test_hosts_of_ipv6() -> None:
    """A half message of a store with such hosts is read, renewed and committed as any other."""
    message = sent()
    message.born_host = V6
    half = half_of(message)

    assert committed(half).born_host == V6
    assert decode_half(stored(renewed(half, is_check=True))).name == 700


@pytest.mark.parametrize(
    ("topic", "properties", "reason"),
    [
        ("T", OWN, "expected queue 0 of RMQ_SYS_TRANS_HALF_TOPIC, found 0 of 'T'"),
        (HALF_TOPIC, OWN, "REAL_TOPIC: the topic is empty"),
        (HALF_TOPIC, OWN | {"REAL_TOPIC": "../x", "REAL_QID": "0"}, "REAL_TOPIC: "),
        (
            HALF_TOPIC,
            OWN | {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"},
            f"REAL_TOPIC: {HALF_TOPIC}",
        ),
        (HALF_TOPIC, OWN | {"REAL_TOPIC": "T", "REAL_QID": "x"}, "REAL_QID: expected a number"),
    ],
)
def test_what_is_no_half_message(topic: str, properties: dict[str, str], reason: str) -> None:
    """It is named, with its place; RocketMQ's own mangled ones are among them."""
    record = stored(Message(topic, 0, b"x", encode(properties)))

    with pytest.raises(HalfMessageError, match="half message at 700: ") as error:
        decode_half(record)
    assert reason in str(error.value)


def test_a_damaged_half_message_is_none() -> None:
    """Its body is compared with its checksum: what is made of it would get a new one."""
    record = stored(parked(Message("T", 0, b"body", encode(OWN)), "K0"))
    damaged = record.replace(b"body", b"bodx")

    with pytest.raises(DamagedHalfError, match="half message at 700: body checksum: expected "):
        decode_half(damaged)
