"""The greeting by which two brokers of ours know each other on the replication link.

A follower that knows its master for one of ours speaks first. Both sides use one form::

    8 bytes   ff 54 49 4d 45 52 4d 51   as a DefaultHA report this would be a negative offset
    4 bytes   n i32
    n bytes   JSON, an object

::

    follower   brokerName, brokerId, segmentSize, nonce, learner (of one that only reads)
    master     brokerName, brokerId, segmentSize, nonce, proof (where a secret is set)
    follower   proof                                           (where a secret is set)

Then the frames with epochs follow (``ha_frames``), the follower's handshake first. In place of each
of its answers the master may send ``refusal``, a name, and ``remark``, and close. A proof is
HMAC-SHA-256 with the shared secret over the side that proves and both nonces: neither side proves
anything with bytes that it has seen before.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import attrs

from .ha_frames import FrameError

MAGIC = b"\xffTIMERMQ"
_HEAD = struct.Struct(">8si")

OURS = "timermqReplication"
"""Setting that our masters alone have: by it a follower knows that they can be greeted."""

GREETING_SIZE_MAX = 4_096
"""Bytes of the JSON of a greeting."""

NONCE_SIZE = 16
"""Bytes of a nonce; it is written as hexadecimal digits."""

_T = TypeVar("_T", int, str)

MASTER_SIDE = "master"
FOLLOWER_SIDE = "follower"


@attrs.frozen(kw_only=True)
class Greeting:
    """What one side says of itself."""

    broker_name: str
    broker_id: int
    segment_size: int
    """Bytes of a segment of the commit log."""
    nonce: str
    """Random digits, new for each link."""
    proof: str | None = None
    """The master's, where a secret is set."""
    is_learner: bool = False
    """It reads a part of the log, and is no replica: its id does not count, and any broker of the
    name lets it, also one that follows itself."""


@attrs.frozen
class Proof:
    """The follower's proof that it knows the secret."""

    proof: str


@attrs.frozen
class Refusal:
    """Why a master does not take a follower."""

    name: str
    """The rule, in capitals."""
    remark: str


def new_nonce() -> str:
    """Digits that no link has used before."""
    return secrets.token_hex(NONCE_SIZE)


def proof_of(secret: bytes, side: str, follower_nonce: str, master_nonce: str) -> str:
    """What one side shows: ``MASTER_SIDE`` or ``FOLLOWER_SIDE``."""
    text = f"{side} {follower_nonce} {master_nonce}".encode()
    return hmac.new(secret, text, hashlib.sha256).hexdigest()


def is_proof(
    found: str | None, secret: bytes, side: str, follower_nonce: str, master_nonce: str
) -> bool:
    """Whether the peer knows the secret."""
    expected = proof_of(secret, side, follower_nonce, master_nonce)
    return hmac.compare_digest((found or "").encode(), expected.encode())


def encode_greeting(said: Greeting | Proof | Refusal) -> bytes:
    """The bytes of a greeting, a proof or a refusal."""
    fields: dict[str, object]
    if isinstance(said, Greeting):
        fields = {
            "brokerName": said.broker_name,
            "brokerId": said.broker_id,
            "segmentSize": said.segment_size,
            "nonce": said.nonce,
        }
        if said.proof is not None:
            fields["proof"] = said.proof
        if said.is_learner:
            fields["learner"] = True
    elif isinstance(said, Proof):
        fields = {"proof": said.proof}
    else:
        fields = {"refusal": said.name, "remark": said.remark}
    body = json.dumps(fields).encode()
    return _HEAD.pack(MAGIC, len(body)) + body


class GreetingReader:
    """Reads one greeting; what follows it is kept."""

    def __init__(self, received: bytes = b"") -> None:
        self.rest = bytearray(received)
        """Bytes behind the greeting, once there was one."""

    def feed(self, data: bytes) -> Greeting | Proof | Refusal | None:
        """The greeting that is whole with these bytes, None as long as there is none.

        Raises:
            FrameError: The bytes are no greeting.
        """
        self.rest += data
        if not MAGIC.startswith(bytes(self.rest[: len(MAGIC)])):
            raise FrameError(f"greeting: expected {MAGIC.hex()}, found {self.rest[:8].hex()}")
        if len(self.rest) < _HEAD.size:
            return None
        _, size = _HEAD.unpack_from(self.rest)
        if not 0 <= size <= GREETING_SIZE_MAX:
            raise FrameError(f"greeting: expected 0 to {GREETING_SIZE_MAX} bytes, found {size}")
        end = _HEAD.size + size
        if len(self.rest) < end:
            return None
        body = bytes(self.rest[_HEAD.size : end])
        del self.rest[:end]
        return _decoded(body)


def _decoded(body: bytes) -> Greeting | Proof | Refusal:
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise FrameError(f"greeting: expected JSON, found {body[:64]!a}") from error
    if not isinstance(fields, dict):
        raise FrameError(f"greeting: expected an object, found {body[:64]!a}")
    said = cast("Mapping[str, Any]", fields)
    if "refusal" in said:
        return Refusal(str(said["refusal"]), str(said.get("remark")))
    if "nonce" not in said and "proof" in said:
        return Proof(str(said["proof"]))
    proof = said.get("proof")
    return Greeting(
        broker_name=_field(said, "brokerName", str),
        broker_id=_field(said, "brokerId", int),
        segment_size=_field(said, "segmentSize", int),
        nonce=_field(said, "nonce", str),
        proof=None if proof is None else str(proof),
        is_learner=said.get("learner") is True,
    )


def _field(said: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
    value = said.get(name)
    if not isinstance(value, kind):
        raise FrameError(f"greeting: {name}: expected {kind.__name__}, found {value!a:.64}")
    return value
