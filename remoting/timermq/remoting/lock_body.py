"""Bodies of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: which queues a consumer wants to itself.

Source: Java ``LockBatchRequestBody``, ``UnlockBatchRequestBody``, ``LockBatchResponseBody``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from .bodies import BODY_SIZE_MAX, ITEMS_MAX, BodyFormatError

CLIENT_ID_LENGTH_MAX = 512
"""Characters of a client id: address, process, instance and unit name."""
_INT32_END = 1 << 31


class MessageQueue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of a topic on one broker, as clients name it."""

    topic: str
    broker_name: str
    queue_id: Annotated[int, msgspec.Meta(ge=0, lt=_INT32_END)]


class LockBatch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The queues that a consumer wants to lock or unlock."""

    client_id: Annotated[str, msgspec.Meta(min_length=1, max_length=CLIENT_ID_LENGTH_MAX)]
    consumer_group: str
    mq_set: Annotated[tuple[MessageQueue, ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()

    @classmethod
    def decode(cls, body: bytes) -> LockBatch:
        """Read a request.

        Raises:
            BodyFormatError: Not JSON, or a field is missing or of another kind.
        """
        if len(body) > BODY_SIZE_MAX:
            raise BodyFormatError("lock", f"at most {BODY_SIZE_MAX} bytes", str(len(body)))
        try:
            return msgspec.json.decode(body, type=cls, strict=False)
        except (ValueError, RecursionError) as error:
            raise BodyFormatError("lock", "a group, a client and queues", str(error)) from None

    def encode(self) -> bytes:
        """The body of the request, as JSON."""
        return msgspec.json.encode(self)


def lock_answer(held: Iterable[MessageQueue]) -> bytes:
    """The body that says which of the queues asked for the caller holds now."""
    return msgspec.json.encode({"lockOKMQSet": list(held)})
