"""How received messages are printed."""

from __future__ import annotations

import zlib

import pytest

from scripted_server import stored
from timermq.cli.consume import message_row
from timermq.client import ReceivedMessage
from timermq.remoting.stored_message import decode_messages


def received(body: bytes, sys_flag: int = 0) -> ReceivedMessage:
    """A message with a body."""
    (message,) = decode_messages(stored("T", 1, body=body, sys_flag=sys_flag))
    return ReceivedMessage.of(message, 5)


@pytest.mark.parametrize(
    ("body", "sys_flag", "text", "base64", "error"),
    [
        ("Grüße".encode(), 0, "Grüße", None, None),
        (b"\xff", 0, None, "/w==", None),
        (zlib.compress(b"hello"), 1, "hello", None, None),
        (
            b"hello",
            0x501,
            None,
            "aGVsbG8=",
            "message T/0@1: body: expected compression 0 to 3, found 5",
        ),
    ],
)
def test_bodies(
    body: bytes, sys_flag: int, text: str | None, base64: str | None, error: str | None
) -> None:
    """Text is text, other bytes are Base64; of what does not unpack these are the stored ones."""
    row = message_row(received(body, sys_flag))

    assert (text, base64, error) == (row["body"], row["body_base64"], row["body_error"])
