"""Frames: the three readers of a stream find the same requests, however it is cut.

The first byte says how many bytes come at a time. A ``SendV2`` says less than the command that it
could have been, so what both say is compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from timermq.remoting.command import Coding, Command
from timermq.remoting.connection import (
    CLOSED,
    NEED_DATA,
    FrameConnection,
    Request,
    encode_frame,
    one_by_one,
)
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.send_header import SendHeader
from timermq.remoting.send_run.send_v2 import SendV2

FRAME_SIZE_MAX = 1 << 14
HEADER_SIZE_MAX = 1 << 12


def seeds() -> list[bytes]:
    """Some frames in each coding, and runs of sends, at different cuts."""
    ext = SendHeader(topic="T", queue_id=1, properties=b"KEYS\x01k\x02", born_ms=7).to_v2()
    commands = [Command(code=105, opaque=3, ext={"topic": "T"}, coding=one) for one in Coding]
    frames = [encode_frame(one) for one in (*commands, Command(310, ext=ext, body=b"body"))]
    return [b"\xff" + b"".join(frames), b"\x03" + frames[3] * 2, *(b"\x10" + one for one in frames)]


def fuzz_one(data: bytes) -> None:
    """Any bytes are requests, the beginning of one, or one error that stays and closes."""
    step, stream = data[0] + 1 if data else 1, data[1:]
    whole, failure = _events(stream)
    pieces, others = _by_pieces(stream, step), _one_by_one(stream)

    assert others == whole
    for command, request in zip(whole, pieces, strict=False):
        assert _agree(command, request), (command, request)
    # What a ``SendV2`` passes over may be what a command is refused for.
    assert len(pieces) == len(whole) or (failure and isinstance(pieces[len(whole)], SendV2))
    for command in whole:
        frames = _connection()
        frames.receive_data(encode_frame(command))
        assert frames.next_event() == command


def _connection() -> FrameConnection:
    return FrameConnection(
        frame_size_max=FRAME_SIZE_MAX, header_size_max=HEADER_SIZE_MAX, run_count_min=1
    )


def _events(stream: bytes) -> tuple[list[Command], RemoteProtocolError | None]:
    connection = _connection()
    connection.receive_data(stream)
    try:
        commands = connection.events()
    except RemoteProtocolError as error:
        assert error is connection.failure
        commands = []
    failure = connection.failure
    assert failure is None or (failure.close and "\n" not in failure.remark)
    return commands, failure


def _by_pieces(stream: bytes, step: int) -> list[Request]:
    connection = _connection()
    requests: list[Request] = []
    for at in range(0, len(stream), step):
        connection.receive_data(stream[at : at + step])
        try:
            requests += one_by_one(connection.requests())
        except RemoteProtocolError:
            break
    return requests


def _one_by_one(stream: bytes) -> list[Command]:
    connection = _connection()
    connection.receive_data(stream)
    connection.receive_data(b"")
    return list(_until_end(connection))


def _until_end(connection: FrameConnection) -> Iterator[Command]:
    while True:
        try:
            event = connection.next_event()
        except RemoteProtocolError as error:
            assert error.close
            return
        if event is CLOSED:
            return
        assert event is not NEED_DATA, "after the end nothing more can come"
        assert isinstance(event, Command)
        yield event


def _agree(command: Command, request: Request) -> bool:
    """Whether both ways of reading read the same from a frame."""
    if isinstance(request, Command):
        return request == command
    said = request.to_command()
    return (said.code, said.opaque, said.flag, said.language, said.version, said.body) == (
        command.code,
        command.opaque,
        command.flag,
        command.language,
        command.version,
        command.body,
    ) and all(command.ext.get(name, value) == value for name, value in said.ext.items())
