"""Tests of what the broker adds to properties."""

import pytest

from broker_rig import BROKER
from fakes import START_MS
from timermq.broker.sending.message_stamp import MessageStamp, delay_request
from timermq.timerstore.message import pack_host
from timermq.timerstore.message_id import UniqueIdGenerator

OWN = b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"


def make_stamp(*, leave_timer_properties: bool = False) -> MessageStamp:
    """A stamp whose unique ids count up."""
    ids = UniqueIdGenerator(
        pack_host("127.0.0.1", 10_911), process_id=1, instance=2, now_ms=lambda: START_MS
    )
    return MessageStamp(BROKER, ids, leave_timer_properties=leave_timer_properties)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (b"UNIQ_KEY\x01K\x02", b"UNIQ_KEY\x01K\x02"),
        (b"UNIQ_KEY\x01K", b"UNIQ_KEY\x01K\x02"),
        (b"a\x01b\x02UNIQ_KEY\x01K\x02", b"a\x01b\x02UNIQ_KEY\x01K\x02"),
        (b"MSG_REGION\x01x\x02UNIQ_KEY\x01K\x02TRACE_ON\x01y\x02", b"UNIQ_KEY\x01K\x02"),
        (b"CLUSTER\x01other\x02UNIQ_KEY\x01K\x02POP_CK\x011\x02", b"UNIQ_KEY\x01K\x02"),
        (b"MY_CLUSTER\x01x\x02UNIQ_KEY\x01K\x02", b"MY_CLUSTER\x01x\x02UNIQ_KEY\x01K\x02"),
    ],
)
def test_region_trace_and_cluster_are_the_broker_s(given: bytes, stored: bytes) -> None:
    """They stand once, at the end; the producer's other properties stay as they are."""
    assert make_stamp().stamp(given) == (stored + OWN, "K")


@pytest.mark.parametrize("is_left", [False, True])
def test_what_is_left_on_delivered_messages(is_left: bool) -> None:
    """It is removed where it is left; otherwise admission refuses it."""
    own = b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02TIMER_OUT_MS\x011\x02TIMER_ROLL_TIMES\x011\x02"
    own += b"TIMER_ENQUEUE_MS\x011\x02TIMER_DEQUEUE_MS\x011\x02TIMER_ROLL_LABEL\x01R\x02"
    stamp = make_stamp(leave_timer_properties=is_left)

    assert stamp.stamp(own + b"UNIQ_KEY\x01K\x02") == (
        (b"" if is_left else own) + b"UNIQ_KEY\x01K\x02" + OWN,
        "K",
    )
    assert stamp.stamp(b"TIMER_DEL_ORDER\x011\x02UNIQ_KEY\x01K\x02") == (
        b"TIMER_DEL_ORDER\x011\x02UNIQ_KEY\x01K\x02" + OWN,
        "K",
    )


@pytest.mark.parametrize("given", [b"", b"a\x01b\x02", b"a\x01b", b"UNIQ_KEY\x01\x02a\x01b\x02"])
def test_a_unique_key_is_made_when_there_is_none(given: bytes) -> None:
    """Go's batch parts, for example, come without one."""
    stamp = make_stamp()
    first, first_key = stamp.stamp(given)
    _, second_key = stamp.stamp(given)
    kept = b"a\x01b\x02" if given else b""

    assert len(first_key) == 32
    assert first == kept + b"UNIQ_KEY\x01" + first_key.encode() + b"\x02" + OWN
    assert second_key != first_key


def test_requests_for_a_moment_are_found() -> None:
    """All of them, whichever counts in the end."""
    request = delay_request(b"a\x01b\x02TIMER_DELAY_MS\x0150\x02DELAY\x013\x02")

    assert request == b"DELAY\x013\x02TIMER_DELAY_MS\x0150\x02"
    assert delay_request(b"a\x01b\x02") == b""
