"""The greeting of two brokers of ours, and their proofs of a shared secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.replication.greeting import (
    FOLLOWER_SIDE,
    GREETING_SIZE_MAX,
    MAGIC,
    MASTER_SIDE,
    Greeting,
    GreetingReader,
    Proof,
    Refusal,
    encode_greeting,
    is_proof,
    new_nonce,
    proof_of,
)
from timermq.broker.replication.ha_frames import REPORT, FrameError

texts = st.text(max_size=20)
greetings = st.builds(
    Greeting,
    broker_name=texts,
    broker_id=st.integers(0, 1 << 40),
    segment_size=st.integers(1, 1 << 40),
    nonce=texts,
    proof=st.none() | texts,
)


@given(
    greetings | st.builds(Proof, texts) | st.builds(Refusal, texts, texts),
    st.binary(max_size=20),
    st.integers(1, 300),
)
def test_a_greeting_is_read(said: Greeting | Proof | Refusal, after: bytes, size: int) -> None:
    """However it arrives; what follows it is kept for the next reader."""
    data = encode_greeting(said) + after
    reader = GreetingReader()
    heard = None
    at = 0
    while heard is None:
        heard = reader.feed(data[at : at + size])
        at += size

    assert heard == said
    assert reader.rest + data[at:] == after


def test_no_slave_of_rocketmq_says_it() -> None:
    """As its report the greeting would begin with a negative offset."""
    assert REPORT.unpack(MAGIC)[0] < 0


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\xffTIMERMX", "found ff54494d45524d58"),
        (b"G", "found 47"),
        (MAGIC + b"\xff\xff\xff\xff", "found -1"),
        (MAGIC + (GREETING_SIZE_MAX + 1).to_bytes(4), "found 4097"),
        (MAGIC + b"\0\0\0\3{,}", "expected JSON"),
        (MAGIC + b"\0\0\0\2[]", "expected an object"),
        (MAGIC + b"\0\0\0\2{}", "brokerName: expected str, found None"),
    ],
)
def test_what_is_no_greeting_is_refused(data: bytes, found: str) -> None:
    """At the first byte that is wrong: no more is waited for."""
    with pytest.raises(FrameError, match=found):
        GreetingReader().feed(data)


def test_a_proof_is_of_one_side_one_link_and_one_secret() -> None:
    """What was seen on the wire proves nothing on the other side, nor on the next link."""
    ours, theirs = new_nonce(), new_nonce()
    proof = proof_of(b"secret", MASTER_SIDE, theirs, ours)

    assert is_proof(proof, b"secret", MASTER_SIDE, theirs, ours)
    assert not is_proof(proof, b"other", MASTER_SIDE, theirs, ours)
    assert not is_proof(proof, b"secret", FOLLOWER_SIDE, theirs, ours)
    assert not is_proof(proof, b"secret", MASTER_SIDE, theirs, new_nonce())
    assert not is_proof(None, b"secret", MASTER_SIDE, theirs, ours)
