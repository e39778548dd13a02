"""Frames: bytes to commands and back, without I/O.

::

    0  size of what follows i32 | 4  coding u8 | 5  header size u24 | 8  header | body

Every length is compared with its limit before anything is kept or allocated for it.

Source: Java ``NettyDecoder``, ``RemotingCommand.decode``; the form of h11.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from .codes import ResponseCode
from .command import Command
from .errors import LocalProtocolError, RemoteProtocolError
from .header import decode_header, encode_header
from .send_run.send_v2 import SendV2, decode_send_v2

if TYPE_CHECKING:
    from .send_run.send_run import RunForm, SendRun

# Runs bring numpy: a side that only asks, as a client does, never gets one and needs none.

FRAME_SIZE_MAX = 16 << 20
"""Bytes of a frame without its length field; Java's default."""
HEADER_SIZE_MAX = 1 << 20
"""Bytes of a header; property texts of 32 KiB in JSON escapes stay far below."""

_FRONT = struct.Struct(">iI")

COMMANDS_MAX = 16
"""Commands that ``requests`` gives out at once: to read one with its signature takes a tenth of a
millisecond, and it takes a kilobyte until it is done."""
RUN_COUNT_MIN = 32
"""Sends of a run; fewer cost less one by one."""
RUN_COUNT_MAX = 256
RUN_SIZE_MAX = 384 << 10
"""Bytes of the frames of a run: 256 sends of a KiB, which a client has on the way, are one."""
FORMS_MAX = 8
"""Forms of runs remembered: a new one begins when an opaque has another number of digits."""

Request = Command | SendV2
"""One request."""
Received: TypeAlias = "Request | SendRun"
"""The input of a server: one request, or a run of sends."""
DecodeSend = Callable[[bytes], SendV2 | None]


def one_by_one(received: Iterable[Received]) -> list[Request]:
    """The requests one by one, with runs of sends taken apart."""
    return [
        request
        for one in received
        for request in ((one,) if isinstance(one, Request) else one.sends())
    ]


class Event(enum.Enum):
    """The answer of ``next_event`` when there is no command."""

    NEED_DATA = "need data"
    CLOSED = "closed"


NEED_DATA = Event.NEED_DATA
CLOSED = Event.CLOSED


class FrameConnection:
    """One direction's worth of state: bytes received so far. After an error it stays failed.

    Args:
        frame_size_max: Bytes of a frame.
        header_size_max: Bytes of a header.
        decode_send: Reads the JSON header of a send, for ``requests``.
        run_count_min: Sends of a run, at least.
    """

    def __init__(
        self,
        *,
        frame_size_max: int = FRAME_SIZE_MAX,
        header_size_max: int = HEADER_SIZE_MAX,
        decode_send: DecodeSend = decode_send_v2,
        run_count_min: int = RUN_COUNT_MIN,
    ) -> None:
        self.frame_size_max = frame_size_max
        """Bytes of a frame; may be changed between two reads."""
        self._decode_send = decode_send
        self._run_count_min = run_count_min
        self._header_size_max = header_size_max
        self._buffer = bytearray()
        self._at = 0
        self._awaited = _FRONT.size
        """Bytes without which ``requests`` would find no whole frame."""
        self._forms: dict[int, RunForm] = {}
        """By the size of the header: the newest ones."""
        self._ended = False
        self._failed: RemoteProtocolError | None = None

    @property
    def size(self) -> int:
        """Bytes that were received and not given out."""
        return len(self._buffer) - self._at

    @property
    def has_more(self) -> bool:
        """Whether ``requests`` has left a whole one behind."""
        return self._failed is None and self.size >= self._awaited

    @property
    def failure(self) -> RemoteProtocolError | None:
        """Why nothing can be read any more; what was complete before has been given out."""
        return self._failed

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer; ``b""`` is the end of the stream."""
        if not data:
            self._ended = True
        self._buffer += data

    def next_event(self) -> Command | Event:
        """The next command, ``NEED_DATA``, or ``CLOSED`` after the end.

        Raises:
            RemoteProtocolError: The peer broke the protocol; see its ``close``.
        """
        if self._failed is not None:
            raise self._failed
        try:
            command = self._next_command()
        except RemoteProtocolError as error:
            self._failed = error
            raise
        if command is not None:
            return command
        if self._ended and self._at == len(self._buffer):
            return CLOSED
        if self._ended:
            self._failed = RemoteProtocolError(
                ResponseCode.SYSTEM_ERROR,
                f"FRAME: the stream ended with {len(self._buffer) - self._at} bytes of a frame",
                close=True,
            )
            raise self._failed
        return NEED_DATA

    def events(self) -> list[Command]:
        """All commands that are complete now.

        Raises:
            RemoteProtocolError: As ``next_event``, once the commands before it were given out.
        """
        commands: list[Command] = []
        if self._failed is not None:
            raise self._failed
        try:
            while (command := self._next_command()) is not None:
                commands.append(command)
        except RemoteProtocolError as error:
            self._failed = error
            if not commands:
                raise
        self._compact()
        return commands

    def requests(self) -> list[Received]:
        """The requests that are complete now: ``events`` for a server, which gets sends and runs.

        The hot loop of receiving: about a third of the cost of ``events`` for each send. Of
        commands it gives ``COMMANDS_MAX`` at most; then it ``has_more``.

        Raises:
            RemoteProtocolError: As ``next_event``, once the requests before it were given out.
        """
        if self._failed is not None:
            raise self._failed
        if self.size < self._awaited:
            return []
        data = bytes(self._buffer)
        requests: list[Received] = []
        at, end, front, unpack = self._at, len(data), _FRONT.size, _FRONT.unpack_from
        frame_max, header_max = self.frame_size_max, self._header_size_max
        decode_send = self._decode_send
        run_count_min, no_run_before = self._run_count_min, at
        room = COMMANDS_MAX
        try:
            while room and end - at >= front:
                size, word = unpack(data, at)
                header_size = word & 0xFFFFFF
                header_end = at + front + header_size
                frame_end = at + 4 + size
                if not header_size + 4 <= size <= frame_max or header_size > header_max:
                    self._check(size, header_size)
                if frame_end > end:
                    break
                if at >= no_run_before and end - at >= run_count_min * (size + 4):
                    run, run_end = self._run(data, at, word)
                    if run is not None:
                        requests.append(run)
                        at = run_end
                        continue
                    no_run_before = run_end
                header = data[at + front : header_end]
                request: Request | None = None if word >> 24 else decode_send(header)
                if request is None:
                    request = decode_header(word >> 24, header)
                    room -= 1
                request.body = data[header_end:frame_end]
                requests.append(request)
                at = frame_end
        except RemoteProtocolError as error:
            self._failed = error
            if not requests:
                raise
        # Without room the size of the next frame has not been looked at yet.
        self._awaited = 4 + unpack(data, at)[0] if room and end - at >= front else front
        self._at = at
        self._compact()
        return requests

    def _run(self, data: bytes, at: int, word: int) -> tuple[SendRun | None, int]:
        """The run that begins at ``at``, and where it ends.

        Args:
            data: Whole frames, and perhaps part of one.
            at: Where a frame begins.
            word: The coding of its header, and its size.

        Returns:
            Without a run, where the next one may begin.
        """
        if word >> 24 or not word:  # another coding, or headers of nothing
            return None, at
        starts, run_end = self._frame_starts(data, at, word)
        header_size = word
        if len(starts) <= self._run_count_min:
            return None, run_end
        import numpy as np

        from .send_run.send_run import RunForm, SendRun

        places = np.array(starts, np.int64)
        windows = np.ndarray(len(data) - header_size + 1, f"V{header_size}", data, strides=(1,))
        headers = windows[places[:-1] + _FRONT.size].view(np.uint8).reshape(-1, header_size)
        form = self._forms.get(header_size)
        count = 0 if form is None else form.run_length(headers)
        if count < self._run_count_min:
            form = RunForm.of(headers[0].tobytes())
            if form is None:
                return None, run_end
            self._remember(form)
            count = form.run_length(headers)
        if form is None or count < self._run_count_min:
            return None, run_end
        run = SendRun(
            form=form,
            headers=headers[:count],
            data=data,
            body_starts=places[:count] + _FRONT.size + header_size,
            body_ends=places[1 : count + 1],
        )
        return run, starts[count]

    def _frame_starts(self, data: bytes, at: int, word: int) -> tuple[list[int], int]:
        """The starts of frames with this word, from ``at`` on, and the end of the last."""
        starts = [at]
        end, unpack, front, frame_max = (
            len(data),
            _FRONT.unpack_from,
            _FRONT.size,
            self.frame_size_max,
        )
        size_min, limit = (word & 0xFFFFFF) + 4, at + RUN_SIZE_MAX
        while end - at >= front and len(starts) <= RUN_COUNT_MAX:
            size, found = unpack(data, at)
            next_at = at + 4 + size
            if found != word or not size_min <= size <= frame_max or next_at > min(end, limit):
                break
            at = next_at
            starts.append(at)
        return starts, at

    def _remember(self, form: RunForm) -> None:
        if len(self._forms) >= FORMS_MAX:
            del self._forms[next(iter(self._forms))]
        self._forms[len(form.header)] = form

    def encode(self, command: Command) -> bytes:
        """The frame of ``command``; see ``encode_frame``."""
        return encode_frame(command)

    def _next_command(self) -> Command | None:
        buffer, at = self._buffer, self._at
        if len(buffer) - at < _FRONT.size:
            self._compact()
            return None
        size, word = _FRONT.unpack_from(buffer, at)
        header_size = word & 0xFFFFFF
        self._check(size, header_size)
        end = at + 4 + size
        if len(buffer) < end:
            self._compact()
            return None
        header_end = at + _FRONT.size + header_size
        command = decode_header(word >> 24, bytes(buffer[at + _FRONT.size : header_end]))
        command.body = bytes(buffer[header_end:end])
        self._at = end
        return command

    def _check(self, size: int, header_size: int) -> None:
        if not 4 <= size <= self.frame_size_max:
            raise RemoteProtocolError(
                ResponseCode.SYSTEM_ERROR,
                f"FRAME_SIZE: expected 4 to {self.frame_size_max} bytes, found {size}",
                close=True,
            )
        if header_size > min(size - 4, self._header_size_max):
            raise RemoteProtocolError(
                ResponseCode.SYSTEM_ERROR,
                f"HEADER_SIZE: expected at most {min(size - 4, self._header_size_max)} bytes, "
                f"found {header_size}",
                close=True,
            )

    def _compact(self) -> None:
        """Drop what has been read, once for many frames."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0


def encode_frame(command: Command) -> bytes:
    """The frame of ``command``.

    Raises:
        LocalProtocolError: Header or frame are larger than the peer would take, or hold what the
            coding cannot carry.
    """
    header = encode_header(command)
    size = 4 + len(header) + len(command.body)
    # A header of 16 MiB would even spill into the byte of the coding.
    if len(header) > HEADER_SIZE_MAX or size > FRAME_SIZE_MAX:
        raise LocalProtocolError(
            f"code {command.code}: expected a header of at most {HEADER_SIZE_MAX} bytes in a frame "
            f"of at most {FRAME_SIZE_MAX}, found {len(header)} in {size}"
        )
    front = _FRONT.pack(size, command.coding << 24 | len(header))
    return b"".join((front, header, command.body))
