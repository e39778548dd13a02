"""Frames of the replication link: what a slave reports, and what its master sends of the log.

RocketMQ has two sets of them on one port, both big-endian.

DefaultHA, which knows neither a handshake nor epochs::

    slave to master    8 bytes        max offset i64
    master to slave    12 bytes + n   offset i64 | n i32 | n bytes of the log

AutoSwitchHA, which our own brokers speak among themselves behind a greeting (``greeting``)::

    slave to master    16 bytes       1 i32 | from the last file i16 | learner i16 | slave's id i64
    master to slave    20 bytes + n   1 i32 | n i32 | max offset i64 | last epoch i32 |
                                      n / 12 times: epoch i32 | start offset i64
    slave to master    12 bytes       2 i32 | max offset i64
    master to slave    36 bytes + n   2 i32 | n i32 | offset i64 | epoch i32 |
                                      start of the epoch i64 | confirm offset i64 |
                                      n bytes of the log

A transfer without bytes is a heartbeat. A transfer never crosses a segment of the log, nor an
epoch; records it cuts where it likes. Readers take bytes as they come and give what is whole.

Source: Java ``DefaultHAConnection``, ``DefaultHAClient``, ``AutoSwitchHAConnection``,
``AutoSwitchHAClient``, ``HAConnectionState``.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence

import attrs

REPORT = struct.Struct(">q")
TRANSFER = struct.Struct(">qi")
HANDSHAKE = struct.Struct(">ihhq")
EPOCHS = struct.Struct(">iiqi")
EPOCH_ENTRY = struct.Struct(">iq")
EPOCH_REPORT = struct.Struct(">iq")
EPOCH_TRANSFER = struct.Struct(">iiqiqq")
_STATE = struct.Struct(">i")

BODY_SIZE_MAX = 4 << 20
"""Bytes of a transfer, with its header: as many as a slave's buffer takes. Source: Java
``DefaultHAClient.READ_MAX_BUFFER_SIZE``."""

EPOCHS_MAX = 1_000
"""Epochs of one handshake. Source: the buffer of Java ``AutoSwitchHAConnection``."""


class HaState(enum.IntEnum):
    """The states of a link that a frame with epochs begins with."""

    HANDSHAKE = 1
    TRANSFER = 2


class FrameError(Exception):
    """The peer sent what is no frame of the link; the message says what was found."""


@attrs.frozen
class Report:
    """End of a slave's log: it has everything before. Its first one is where it wants to begin."""

    max_offset: int


@attrs.frozen
class Transfer:
    """Bytes of the master's log from a position on; none of a heartbeat."""

    offset: int
    body: bytes


@attrs.frozen
class Handshake:
    """A slave that asks for the master's epochs."""

    slave_id: int
    """The slave's broker id; negative while it has none."""
    from_last_file: bool = False
    """An empty slave wants the last segment only."""
    is_learner: bool = False
    """The slave does not count among the replicas."""


@attrs.frozen(order=True)
class Epoch:
    """A master's time: its number, and the end of the log when it began."""

    number: int
    start: int


FIRST_EPOCH = Epoch(1, 0)
"""The epoch of a log that has had no other master."""


@attrs.frozen
class Epochs:
    """The answer to a handshake: the master's epochs, and the end of its log."""

    max_offset: int
    last_epoch: int
    """-1 without one."""
    starts: tuple[Epoch, ...]
    """Oldest first."""


@attrs.frozen
class EpochTransfer:
    """Bytes of the master's log that were written in one epoch; none of a heartbeat."""

    offset: int
    epoch: int
    epoch_start: int
    confirm_offset: int
    """Everything before it is on the replicas that count."""
    body: bytes


def encode_report(max_offset: int) -> bytes:
    """The bytes of a slave's report."""
    return REPORT.pack(max_offset)


def encode_transfer_head(offset: int, size: int) -> bytes:
    """What stands before so many bytes of the log."""
    return TRANSFER.pack(offset, size)


def encode_handshake(handshake: Handshake) -> bytes:
    """The bytes of a slave's handshake."""
    return HANDSHAKE.pack(
        HaState.HANDSHAKE, handshake.from_last_file, handshake.is_learner, handshake.slave_id
    )


def encode_epochs(max_offset: int, starts: Sequence[Epoch]) -> bytes:
    """A master's answer to a handshake; of more than ``EPOCHS_MAX`` epochs the newest."""
    starts = starts[-EPOCHS_MAX:]
    last = starts[-1].number if starts else -1
    head = EPOCHS.pack(HaState.HANDSHAKE, EPOCH_ENTRY.size * len(starts), max_offset, last)
    return head + b"".join(EPOCH_ENTRY.pack(one.number, one.start) for one in starts)


def encode_epoch_report(max_offset: int) -> bytes:
    """A slave's report, of a link with epochs."""
    return EPOCH_REPORT.pack(HaState.TRANSFER, max_offset)


def encode_epoch_transfer_head(offset: int, size: int, epoch: Epoch, confirm_offset: int) -> bytes:
    """What stands before so many bytes of the log, of a link with epochs."""
    return EPOCH_TRANSFER.pack(
        HaState.TRANSFER, size, offset, epoch.number, epoch.start, confirm_offset
    )


class ReportReader:
    """Reads what a DefaultHA slave sends."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Report]:
        """The reports that are whole with these bytes."""
        self._rest += data
        whole = len(self._rest) - len(self._rest) % REPORT.size
        reports = [Report(offset) for (offset,) in REPORT.iter_unpack(self._rest[:whole])]
        self._rest = self._rest[whole:]
        return reports


class EpochReportReader:
    """Reads what a slave sends on a link with epochs."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Handshake | Report]:
        """The frames that are whole with these bytes.

        Raises:
            FrameError: A state that no slave has.
        """
        self._rest += data
        while len(self._rest) >= _STATE.size:
            (state,) = _STATE.unpack_from(self._rest)
            if state not in (HaState.HANDSHAKE, HaState.TRANSFER):
                raise FrameError(f"state: expected 1 or 2, found {state}")
            layout = HANDSHAKE if state == HaState.HANDSHAKE else EPOCH_REPORT
            if len(self._rest) < layout.size:
                return
            _, *fields = layout.unpack_from(self._rest)
            del self._rest[: layout.size]
            if state == HaState.HANDSHAKE:
                from_last_file, is_learner, slave_id = fields
                yield Handshake(slave_id, from_last_file == 1, is_learner == 1)
            else:
                yield Report(*fields)


class TransferReader:
    """Reads what a DefaultHA master sends."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Transfer]:
        """The transfers that are whole with these bytes.

        Raises:
            FrameError: An offset or a size that no transfer has.
        """
        self._rest += data
        while len(self._rest) >= TRANSFER.size:
            offset, size = TRANSFER.unpack_from(self._rest)
            _check_place(offset, size)
            if len(self._rest) < TRANSFER.size + size:
                return
            yield Transfer(offset, _taken(self._rest, TRANSFER.size, size))


class EpochTransferReader:
    """Reads what a master sends on a link with epochs."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Epochs | EpochTransfer]:
        """The frames that are whole with these bytes.

        Raises:
            FrameError: A state, an offset or a size that no frame has.
        """
        self._rest += data
        while len(self._rest) >= EPOCHS.size:
            state, size, offset, epoch = EPOCHS.unpack_from(self._rest)
            _check_place(offset, size)
            if state not in (HaState.HANDSHAKE, HaState.TRANSFER):
                raise FrameError(f"state: expected 1 or 2, found {state}")
            layout = EPOCHS if state == HaState.HANDSHAKE else EPOCH_TRANSFER
            if len(self._rest) < layout.size + size:
                return
            if state == HaState.HANDSHAKE:
                if size % EPOCH_ENTRY.size:
                    raise FrameError(f"epochs: expected a multiple of 12 bytes, found {size}")
                body = _taken(self._rest, layout.size, size)
                starts = tuple(Epoch(*fields) for fields in EPOCH_ENTRY.iter_unpack(body))
                yield Epochs(offset, epoch, starts)
            else:
                *_, epoch_start, confirm_offset = layout.unpack_from(self._rest)
                body = _taken(self._rest, layout.size, size)
                yield EpochTransfer(offset, epoch, epoch_start, confirm_offset, body)


def _check_place(offset: int, size: int) -> None:
    """Refuse what would make the reader wait for bytes that never come."""
    if offset < 0 or not 0 <= size <= BODY_SIZE_MAX:
        raise FrameError(
            f"transfer: expected an offset and 0 to {BODY_SIZE_MAX} bytes, "
            f"found offset {offset}, {size} bytes"
        )


def _taken(rest: bytearray, head_size: int, size: int) -> bytes:
    """The body of the first frame, which is removed from what was received."""
    with memoryview(rest) as view:
        body = bytes(view[head_size : head_size + size])
    del rest[: head_size + size]
    return body
