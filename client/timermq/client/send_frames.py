"""Messages that go out together: cut into frames, each for one broker and of bounded size."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from timermq.remoting import Coding, Command, RequestCode
from timermq.remoting.send_batch import SendItem, encode_items

from .message import OutgoingMessage
from .route import TopicQueue

BATCH_COUNT_MAX = 1024
"""Messages in one frame; longer lists go in several."""
BATCH_SIZE_MAX = 1 << 20
"""Bytes of one frame's messages; a larger message goes alone."""
MESSAGE_SIZE_MAX = 15 << 20
"""Bytes of one message, properties and topic included: a frame has at most 16 MiB."""

_ITEM_OVERHEAD = 32
"""Bytes of one message besides its texts, at most."""


@attrs.frozen(kw_only=True)
class Addressed:
    """A message with its id and its queue."""

    index: int
    """Its place in the caller's list."""
    unique_key: str
    address: str
    item: SendItem

    @property
    def size(self) -> int:
        """Bytes it takes in a frame, at most."""
        item = self.item
        return len(item.body) + len(item.properties) + len(item.topic) * 4 + _ITEM_OVERHEAD


@attrs.define
class SendFrame:
    """The messages that one request carries to one broker."""

    address: str
    messages: list[Addressed] = attrs.Factory(list[Addressed])
    size: int = 0

    def command(self) -> Command:
        """The request; a new one each time, since a link gives each its own ``opaque``."""
        body = encode_items([one.item for one in self.messages])
        return Command(RequestCode.SEND_MESSAGES, body=body, coding=Coding.CBOR)


def address_message(
    index: int, message: OutgoingMessage, queue: TopicQueue, unique_key: str
) -> Addressed:
    """The message as it goes to ``queue``.

    Raises:
        ValueError: It is larger than any frame, or its properties or topic are no plain text.
    """
    message.topic.encode()  # half a surrogate pair is not text
    addressed = Addressed(
        index=index,
        unique_key=unique_key,
        address=queue.address,
        item=SendItem(
            topic=message.topic,
            queue_id=queue.queue_id,
            flag=message.flag,
            properties=message.encode_properties(unique_key),
            body=message.body,
        ),
    )
    if addressed.size > MESSAGE_SIZE_MAX:
        raise ValueError(
            f"message {index} to {message.topic}: expected at most {MESSAGE_SIZE_MAX} bytes, "
            f"found {addressed.size}"
        )
    return addressed


def cut_frames(messages: Sequence[Addressed]) -> list[SendFrame]:
    """The frames of messages; those for one broker keep their order."""
    frames: list[SendFrame] = []
    open_frames: dict[str, SendFrame] = {}
    for one in messages:
        frame = open_frames.get(one.address)
        if (
            frame is None
            or len(frame.messages) >= BATCH_COUNT_MAX
            or frame.size + one.size > BATCH_SIZE_MAX
        ):
            frame = open_frames[one.address] = SendFrame(one.address)
            frames.append(frame)
        frame.messages.append(one)
        frame.size += one.size
    return frames
