"""The greeting as a follower or a learner says it, and for what it ends the link."""

from __future__ import annotations

import attrs
import pytest

from timermq.broker.replication.follow_state import FollowError
from timermq.broker.replication.follower_greeting import greet
from timermq.broker.replication.greeting import (
    FOLLOWER_SIDE,
    MASTER_SIDE,
    Greeting,
    GreetingReader,
    Proof,
    Refusal,
    encode_greeting,
    is_proof,
    proof_of,
)

SECRET = b"a secret of sixteen bytes"
OWN = Greeting(broker_name="b", broker_id=-1, segment_size=1_024, nonce="", is_learner=True)
MASTERS = Greeting(broker_name="b", broker_id=0, segment_size=1_024, nonce="ab")


class Other:
    """The other side: what it is sent, and what it says then, in small pieces."""

    def __init__(self, said: bytes = b"", *, secret: bytes | None = None) -> None:
        self.heard: list[Greeting | Proof | Refusal] = []
        self._said = said
        self._secret = secret

    async def send(self, data: bytes) -> None:
        """Hear a greeting or a proof."""
        said = GreetingReader().feed(data)
        assert said is not None
        self.heard.append(said)
        if isinstance(said, Greeting) and not self._said:
            proof = None
            if self._secret is not None:
                proof = proof_of(self._secret, MASTER_SIDE, said.nonce, MASTERS.nonce)
            self._said = encode_greeting(attrs.evolve(MASTERS, proof=proof)) + b"rest"

    async def receive(self) -> bytes:
        """Say it in pieces of seven bytes, the last one with the rest."""
        size = 7 if len(self._said) > 40 else len(self._said)
        data, self._said = self._said[:size], self._said[size:]
        return data


async def test_a_learner_says_so() -> None:
    """What comes behind the other side's greeting is given back."""
    other = Other()

    assert await greet(other.send, other.receive, OWN, None) == b"rest"
    (heard,) = other.heard
    assert isinstance(heard, Greeting)
    assert (heard.is_learner, heard.broker_id, heard.segment_size) == (True, -1, 1_024)
    assert heard.nonce


async def test_both_sides_prove_the_secret() -> None:
    """The follower's proof is of both nonces."""
    other = Other(secret=SECRET)
    await greet(other.send, other.receive, OWN, SECRET)
    greeting, proof = other.heard

    assert isinstance(greeting, Greeting)
    assert isinstance(proof, Proof)
    assert is_proof(proof.proof, SECRET, FOLLOWER_SIDE, greeting.nonce, MASTERS.nonce)


@pytest.mark.parametrize(
    ("said", "secret", "rule"),
    [
        (encode_greeting(Refusal("HA_BROKER_NAME", "another")), None, "HA_BROKER_NAME"),
        (encode_greeting(Proof("p")), None, "GREETING"),
        (b"\0" * 50, None, "GREETING"),
        (encode_greeting(attrs.evolve(MASTERS, segment_size=2)), None, "SEGMENT_SIZE"),
        (encode_greeting(MASTERS), SECRET, "SECRET"),
    ],
)
async def test_what_ends_the_link(said: bytes, secret: bytes | None, rule: str) -> None:
    """By the name of the rule; nothing more is said then."""
    other = Other(said)
    with pytest.raises(FollowError) as caught:
        await greet(other.send, other.receive, OWN, secret)

    assert caught.value.name == rule
    assert len(other.heard) == 1
