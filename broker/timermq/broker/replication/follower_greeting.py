"""The follower's part of the greeting: who the master is, and whether it knows the secret."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from .follow_state import FollowError
from .greeting import (
    FOLLOWER_SIDE,
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
from .ha_frames import FrameError


async def greet(
    send: Callable[[bytes], Awaitable[None]],
    receive: Callable[[], Awaitable[bytes]],
    greeting: Greeting,
    secret: bytes | None,
) -> bytes:
    """Begin a link with a broker of ours; what came behind its greeting.

    Args:
        send: Sends bytes; raises FollowError.
        receive: The next bytes, at least one; raises FollowError.
        greeting: What this side says of itself.
        secret: Shared with the other side; None: without.

    Raises:
        FollowError: It is none, or refuses.
    """
    own = attrs.evolve(greeting, nonce=new_nonce())
    await send(encode_greeting(own))
    reader = GreetingReader()
    said: Greeting | Proof | Refusal | None = None
    while said is None:
        try:
            said = reader.feed(await receive())
        except FrameError as error:
            raise FollowError("GREETING", str(error)) from error
    if isinstance(said, Refusal):
        raise FollowError(said.name, f"the master says: {said.remark}")
    if not isinstance(said, Greeting):
        raise FollowError("GREETING", "expected a greeting, found a proof alone")
    if said.segment_size != own.segment_size:
        raise segments_differ(said.segment_size, own.segment_size)
    if secret is not None:
        if not is_proof(said.proof, secret, MASTER_SIDE, own.nonce, said.nonce):
            raise FollowError("SECRET", "the master does not know the shared secret")
        proof = proof_of(secret, FOLLOWER_SIDE, own.nonce, said.nonce)
        await send(encode_greeting(Proof(proof)))
    return bytes(reader.rest)


def segments_differ(found: int, expected: int) -> FollowError:
    """The refusal of a master whose segments have another size."""
    return FollowError(
        "SEGMENT_SIZE",
        f"mapped_file_size_commit_log: expected {found}, as the master has it, found {expected}: "
        "a store keeps the size that it was made with; follow with a new store of the master's",
    )
