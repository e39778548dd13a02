"""Frames of the replication link, whole again however the bytes arrive."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.replication.ha_frames import (
    BODY_SIZE_MAX,
    EPOCHS_MAX,
    Epoch,
    EpochReportReader,
    Epochs,
    EpochTransfer,
    EpochTransferReader,
    FrameError,
    Handshake,
    Report,
    ReportReader,
    Transfer,
    TransferReader,
    encode_epoch_report,
    encode_epoch_transfer_head,
    encode_epochs,
    encode_handshake,
    encode_report,
    encode_transfer_head,
)

offsets = st.integers(0, (1 << 63) - 1)
epochs = st.integers(-1, (1 << 31) - 1)
bodies = st.binary(max_size=50)
starts = st.builds(Epoch, epochs, offsets)


class Reader(Protocol):
    """A reader of one side's frames."""

    def feed(self, data: bytes) -> Iterable[Any]:
        """The frames that are whole with these bytes."""
        ...


def pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    """The bytes cut at these places."""
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[first:end] for first, end in itertools.pairwise(bounds))


def read(reader: Reader, data: bytes, cuts: Sequence[int]) -> list[Any]:
    """All frames of bytes that arrive in pieces."""
    return [frame for piece in pieces(data, cuts) for frame in reader.feed(piece)]


cut_lists = st.lists(st.integers(0, 10_000), max_size=20)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), cut_lists)
def test_reports_are_read(reported: list[int], cuts: list[int]) -> None:
    """Whatever number a slave reports is read; whether it can be true is decided elsewhere."""
    data = b"".join(map(encode_report, reported))

    assert read(ReportReader(), data, cuts) == [Report(offset) for offset in reported]


@given(st.lists(st.builds(Transfer, offsets, bodies)), cut_lists)
def test_transfers_are_read(sent: list[Transfer], cuts: list[int]) -> None:
    """A slave gets the transfers that its master sent, heartbeats among them."""
    data = b"".join(encode_transfer_head(one.offset, len(one.body)) + one.body for one in sent)

    assert read(TransferReader(), data, cuts) == sent


@given(
    st.lists(
        st.builds(Handshake, st.integers(-(1 << 63), (1 << 63) - 1), st.booleans(), st.booleans())
        | st.builds(Report, offsets)
    ),
    cut_lists,
)
def test_frames_of_a_slave_with_epochs_are_read(
    sent: list[Handshake | Report], cuts: list[int]
) -> None:
    """Handshakes and reports are told apart by their state."""
    data = b"".join(
        encode_handshake(one) if isinstance(one, Handshake) else encode_epoch_report(one.max_offset)
        for one in sent
    )

    assert read(EpochReportReader(), data, cuts) == sent


@given(
    st.lists(
        st.builds(EpochTransfer, offsets, epochs, offsets, offsets, bodies)
        | st.tuples(offsets, st.lists(starts, max_size=5))
    ),
    cut_lists,
)
def test_frames_of_a_master_with_epochs_are_read(
    sent: list[EpochTransfer | tuple[int, list[Epoch]]], cuts: list[int]
) -> None:
    """Answers to handshakes and transfers are told apart by their state."""
    data, expected = b"", list[Any]()
    for one in sent:
        if isinstance(one, EpochTransfer):
            start = Epoch(one.epoch, one.epoch_start)
            size = len(one.body)
            data += encode_epoch_transfer_head(one.offset, size, start, one.confirm_offset)
            data += one.body
            expected.append(one)
        else:
            max_offset, known = one
            data += encode_epochs(max_offset, known)
            last = known[-1].number if known else -1
            expected.append(Epochs(max_offset, last, tuple(known)))

    assert read(EpochTransferReader(), data, cuts) == expected


def test_the_newest_epochs_are_sent() -> None:
    """Java's buffer holds a thousand."""
    known = [Epoch(number, number) for number in range(EPOCHS_MAX + 5)]

    (read_back,) = EpochTransferReader().feed(encode_epochs(7, known))

    assert isinstance(read_back, Epochs)
    assert read_back.starts == tuple(known[5:])


@pytest.mark.parametrize(
    ("reader", "data", "found"),
    [
        (TransferReader(), encode_transfer_head(-1, 0), "offset -1, 0 bytes"),
        (TransferReader(), encode_transfer_head(0, -1), "offset 0, -1 bytes"),
        (TransferReader(), encode_transfer_head(0, BODY_SIZE_MAX + 1), "4194305 bytes"),
        (EpochReportReader(), b"\0\0\0\3", "found 3"),
        (EpochTransferReader(), b"\0\0\0\7" + bytes(16), "found 7"),
        (EpochTransferReader(), b"\0\0\0\1\0\0\0\5" + bytes(17), "found 5"),
        (EpochTransferReader(), b"\0\0\0\2\xff\xff\xff\xff" + bytes(12), "-1 bytes"),
    ],
)
def test_what_is_no_frame_is_refused(reader: Reader, data: bytes, found: str) -> None:
    """A reader that waited for such bytes would wait forever, or fill the memory."""
    with pytest.raises(FrameError, match=found):
        list(reader.feed(data))


def test_the_layout_is_rocketmqs() -> None:
    """Bytes as the classes of RocketMQ write and read them."""
    assert encode_report(258).hex() == "0000000000000102"
    assert encode_transfer_head(258, 3).hex() == "000000000000010200000003"
    assert encode_handshake(Handshake(2, from_last_file=True)).hex() == (
        "00000001000100000000000000000002"
    )
    assert encode_epochs(258, [Epoch(4, 9)]).hex() == (
        "000000010000000c000000000000010200000004000000040000000000000009"
    )
    assert encode_epoch_report(258).hex() == "000000020000000000000102"
    assert encode_epoch_transfer_head(258, 3, Epoch(4, 9), 200).hex() == (
        "0000000200000003000000000000010200000004000000000000000900000000000000c8"
    )
