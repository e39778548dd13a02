"""Frames: whole, in pieces, several at once, and broken ones."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterable

import pytest

from timermq.remoting.codes import RequestCode
from timermq.remoting.command import Coding, Command
from timermq.remoting.connection import (
    CLOSED,
    FRAME_SIZE_MAX,
    HEADER_SIZE_MAX,
    NEED_DATA,
    Event,
    FrameConnection,
    encode_frame,
)
from timermq.remoting.errors import LocalProtocolError, RemoteProtocolError

HEADER = b'{"code":34,"language":"PYTHON","opaque":7,"version":479}'
FRAME = struct.pack(">iI", 4 + len(HEADER) + 2, len(HEADER)) + HEADER + b"hi"
HEARTBEAT = Command(code=RequestCode.HEART_BEAT, opaque=7, body=b"hi")


def received(pieces: Iterable[bytes]) -> list[Command | Event]:
    """What comes out after each piece, without the waiting."""
    connection = FrameConnection()
    events: list[Command | Event] = []
    for piece in pieces:
        connection.receive_data(piece)
        while isinstance(event := connection.next_event(), Command):
            events.append(event)
        if event is CLOSED:
            events.append(event)
    return events


def test_whole_frame() -> None:
    """A frame is its length, the header's length and coding, the header and the body."""
    assert [HEARTBEAT] == received([FRAME])


def test_one_byte_at_a_time() -> None:
    """Where the stream is cut does not matter."""
    assert [HEARTBEAT, HEARTBEAT] == received(bytes([byte]) for byte in FRAME * 2)


@pytest.mark.parametrize("cut", range(len(FRAME)))
def test_the_beginning_of_the_next_frame_stays(cut: int) -> None:
    """What stands behind a frame belongs to the next one."""
    assert [HEARTBEAT, HEARTBEAT] == received([FRAME + FRAME[:cut], FRAME[cut:] or FRAME])


@pytest.mark.parametrize("coding", list(Coding))
def test_encoded_frames_are_read(coding: Coding) -> None:
    """A frame says for itself what its header is coded in."""
    command = Command(
        code=10, opaque=3, flag=2, remark="r", ext={"a": "é\x01"}, body=b"\0\xff", coding=coding
    )
    frame = FrameConnection().encode(command)

    assert coding == frame[4]
    assert struct.pack(">i", len(frame) - 4) == frame[:4]
    assert [command] == received([encode_frame(command)])


def test_empty_body() -> None:
    """A body may be empty."""
    assert [Command(code=1)] == received([encode_frame(Command(code=1))])


def test_end_between_frames() -> None:
    """The peer may close after a whole frame."""
    assert [HEARTBEAT, CLOSED] == received([FRAME, b""])


def test_end_inside_a_frame() -> None:
    """The peer may not close inside a frame."""
    connection = FrameConnection()
    connection.receive_data(FRAME + FRAME[:5])
    connection.receive_data(b"")

    assert HEARTBEAT == connection.next_event()
    for _ in range(2):
        with pytest.raises(RemoteProtocolError) as caught:
            connection.next_event()
        assert "FRAME: the stream ended with 5 bytes of a frame" == caught.value.remark


def test_all_frames_at_once() -> None:
    """``events`` gives every whole frame and keeps the rest."""
    connection = FrameConnection()
    connection.receive_data(FRAME * 3 + FRAME[:9])

    assert [HEARTBEAT] * 3 == connection.events()
    assert [] == connection.events()
    connection.receive_data(FRAME[9:])
    assert [HEARTBEAT] == connection.events()


def test_commands_before_an_error_are_given_out() -> None:
    """A broken frame does not take those before it along."""
    connection = FrameConnection()
    connection.receive_data(FRAME + bytes(8))

    assert [HEARTBEAT] == connection.events()
    with pytest.raises(RemoteProtocolError):
        connection.events()


def test_headers_of_nothing() -> None:
    """However many frames come without a header, they are no run of sends: an error that stays."""
    connection = FrameConnection(run_count_min=1)
    connection.receive_data(struct.pack(">iI", 4, 0) * 100)
    with pytest.raises(RemoteProtocolError) as caught:
        connection.requests()

    assert caught.value is connection.failure


def test_read_frames_are_forgotten() -> None:
    """A connection keeps nothing of what it has given out, however it is asked."""
    frame = encode_frame(Command(code=1, body=bytes(1 << 18)))
    connection = FrameConnection()
    tracemalloc.start()
    for _ in range(16):
        connection.receive_data(frame)
        assert isinstance(connection.next_event(), Command)
        assert NEED_DATA is connection.next_event()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < len(frame)


@pytest.mark.parametrize(
    ("size", "word", "remark"),
    [
        (-1, 0, "FRAME_SIZE: expected 4 to 16777216 bytes, found -1"),
        (3, 0, "FRAME_SIZE: expected 4 to 16777216 bytes, found 3"),
        (
            FRAME_SIZE_MAX + 1,
            2,
            "FRAME_SIZE: expected 4 to 16777216 bytes, found 16777217",
        ),
        (10, 7, "HEADER_SIZE: expected at most 6 bytes, found 7"),
        (
            FRAME_SIZE_MAX,
            (1 << 20) + 1,
            "HEADER_SIZE: expected at most 1048576 bytes, found 1048577",
        ),
        (6, 3 << 24 | 2, "HEADER: coding: expected 0, 1 or 2, found 3"),
    ],
)
def test_refused_frames(size: int, word: int, remark: str) -> None:
    """Lengths are looked at as soon as they are there; after an error there is no going on."""
    connection = FrameConnection()
    connection.receive_data(struct.pack(">iI", size, word) + bytes(2))

    for _ in range(2):
        with pytest.raises(RemoteProtocolError) as caught:
            connection.next_event()
        assert (remark, True) == (caught.value.remark, caught.value.close)
    with pytest.raises(RemoteProtocolError):
        connection.events()


def test_limits_are_settable() -> None:
    """A frame of exactly the limit passes, one byte more does not."""
    size = len(FRAME) - 4
    exact = FrameConnection(frame_size_max=size, header_size_max=len(HEADER))
    exact.receive_data(FRAME)
    small = FrameConnection(frame_size_max=size - 1)
    small.receive_data(FRAME)
    narrow = FrameConnection(header_size_max=len(HEADER) - 1)
    narrow.receive_data(FRAME)

    assert [HEARTBEAT] == exact.events()
    with pytest.raises(RemoteProtocolError, match=r"^FRAME_SIZE: "):
        small.events()
    with pytest.raises(RemoteProtocolError, match=r"^HEADER_SIZE: "):
        narrow.events()


@pytest.mark.parametrize(
    "command",
    [
        Command(code=1, body=bytes(FRAME_SIZE_MAX)),
        Command(code=1, ext={"a": "x" * HEADER_SIZE_MAX}),
        Command(code=1, ext={"a": "x" * (1 << 24)}),
    ],
    ids=["frame", "header", "into the coding"],
)
def test_what_no_peer_takes_is_not_sent(command: Command) -> None:
    """A frame or header above the limit is our own mistake, found before it leaves."""
    with pytest.raises(LocalProtocolError, match=r"^code 1: expected a header of at most 1048576"):
        encode_frame(command)
