"""Bodies of answers in CBOR, read with their limits."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from timermq.client.errors import MalformedAnswerError
from timermq.remoting.cbor import DEPTH_MAX, CborError, decode_cbor
from timermq.remoting.connection import FRAME_SIZE_MAX

_Body = TypeVar("_Body")


def decode_answer(
    body: bytes, kind: type[_Body], what: str, *, depth_max: int = DEPTH_MAX
) -> _Body:
    """Read the body of an answer.

    Args:
        body: All of it.
        kind: What it must be.
        what: The broker's address and what was asked for, for the error.
        depth_max: Arrays and maps within each other.

    Raises:
        MalformedAnswerError: It is something else.
    """
    try:
        return msgspec.convert(
            decode_cbor(body, size_max=FRAME_SIZE_MAX, depth_max=depth_max), kind
        )
    except (CborError, msgspec.ValidationError) as error:
        raise MalformedAnswerError(f"{what}: {error}") from error
