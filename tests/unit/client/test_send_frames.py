"""Messages that go out together."""

from __future__ import annotations

import pytest

from timermq.client import OutgoingMessage
from timermq.client.route import TopicQueue
from timermq.client.send_frames import (
    BATCH_COUNT_MAX,
    BATCH_SIZE_MAX,
    MESSAGE_SIZE_MAX,
    Addressed,
    address_message,
    cut_frames,
)
from timermq.remoting import Coding
from timermq.remoting.send_batch import SendItem, decode_items


def addressed(index: int, *, address: str = "a:1", size: int = 1) -> Addressed:
    """A message to some broker."""
    message = OutgoingMessage(topic="T", body=bytes(size), flag=5)
    return address_message(index, message, TopicQueue("T", "b", 2, address), f"K{index}")


def test_what_a_frame_carries() -> None:
    """A frame is one CBOR request with every message's topic, queue, flag, properties and body."""
    (frame,) = cut_frames([addressed(0), addressed(1, size=2)])
    command = frame.command()

    assert (9001, Coding.CBOR) == (command.code, command.coding)
    assert [
        SendItem("T", 2, 5, b"UNIQ_KEY\x01K0\x02", bytes(1)),
        SendItem("T", 2, 5, b"UNIQ_KEY\x01K1\x02", bytes(2)),
    ] == decode_items(command.body)
    assert len(command.body) <= frame.size


def test_a_frame_is_for_one_broker() -> None:
    """Messages for one broker keep their order."""
    frames = cut_frames([addressed(n, address=f"a:{n % 2}") for n in range(5)])

    assert [("a:0", [0, 2, 4]), ("a:1", [1, 3])] == [
        (frame.address, [one.index for one in frame.messages]) for frame in frames
    ]


def test_frames_are_bounded_in_count() -> None:
    """Longer lists go in several frames."""
    frames = cut_frames([addressed(n) for n in range(2 * BATCH_COUNT_MAX + 1)])

    assert [BATCH_COUNT_MAX, BATCH_COUNT_MAX, 1] == [len(frame.messages) for frame in frames]


def test_frames_are_bounded_in_size() -> None:
    """Everything counts, not the bodies alone; a larger message goes alone."""
    half = addressed(0, size=BATCH_SIZE_MAX // 2)
    large = addressed(1, size=BATCH_SIZE_MAX * 2)
    frames = cut_frames([half, half, large, half])

    assert [1, 1, 1, 1] == [len(frame.messages) for frame in frames]
    assert [] == cut_frames([])


def test_a_message_must_fit_a_frame() -> None:
    """What no frame can hold is refused before it is sent."""
    with pytest.raises(ValueError, match=r"^message 3 to T: expected at most 15728640 bytes"):
        addressed(3, size=MESSAGE_SIZE_MAX)


def test_a_topic_is_text() -> None:
    """Half a surrogate pair is not."""
    with pytest.raises(UnicodeEncodeError):
        address_message(
            0, OutgoingMessage(topic="\ud800", body=b""), TopicQueue("T", "b", 0, "a:1"), "K"
        )
