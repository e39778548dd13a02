"""Epoch lists, the position that two logs have in common, and RocketMQ's file of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.replication.epochs import (
    FILE_NAME,
    EpochFile,
    EpochList,
    decode_epochs,
    encode_epochs,
)
from timermq.broker.replication.ha_frames import EPOCHS_MAX, Epoch
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError

PATH = f"/store/{FILE_NAME}"
JAVA_TEXT = "2\n773307083\n7-7000\n8-8000\n"


def epoch_list(*entries: tuple[int, int]) -> EpochList:
    """A list by numbers and starts."""
    return EpochList(Epoch(number, start) for number, start in entries)


@st.composite
def histories(draw: st.DrawFn) -> tuple[EpochList, list[int]]:
    """A log by epochs: its list, and for each byte the epoch that wrote it."""
    owners: list[int] = []
    epochs, number = EpochList(), 0
    for step, size in draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=6)):
        number += step
        epochs = epochs.begun(Epoch(number, len(owners)))
        owners += [number] * size
    return epochs, owners


@given(histories(), st.data())
def test_the_common_end_is_where_the_logs_part(
    history: tuple[EpochList, list[int]], data: st.DataObject
) -> None:
    """Two replicas copy one log, then each leads: they agree up to there, no further."""
    epochs, owners = history
    if not epochs.entries:
        epochs = epochs.begun(Epoch(0, 0))
    at = data.draw(st.integers(0, len(owners)))
    mine_list, mine = led_on(data, epochs, owners, data.draw(st.integers(at, len(owners))), 0)
    their_list, theirs = led_on(data, epochs, owners, at, 1)
    found = mine_list.common_end(len(mine), their_list, len(theirs))
    both = zip(mine, theirs, strict=False)
    same = next((i for i, (a, b) in enumerate(both) if a != b), min(len(mine), len(theirs)))

    assert found == their_list.common_end(len(theirs), mine_list, len(mine))
    assert found == same or (found is None and same == 0)


def led_on(
    data: st.DataObject, epochs: EpochList, owners: list[int], end: int, parity: int
) -> tuple[EpochList, list[int]]:
    """A replica that has copied a log up to a position, and then led some times."""
    led, written = EpochList(e for e in epochs if e.start <= end), owners[:end]
    number = 2 * (epochs.last_number + 1) + parity
    for size in data.draw(st.lists(st.integers(1, 3), max_size=3)):
        led = led.begun(Epoch(number, len(written)))
        written = written + [number] * size
        number += 2
    return led, written


@given(histories(), st.integers(0, 30))
def test_a_byte_is_of_the_epoch_that_wrote_it(
    history: tuple[EpochList, list[int]], end: int
) -> None:
    """Also after a cut, and the ends of epochs are where the next one wrote."""
    epochs, owners = history
    epochs, owners = epochs.cut(end), owners[:end]
    for position, owner in enumerate(owners):
        found = epochs.at(position)

        assert found is not None
        assert found.number == owner
        assert found.start <= position < epochs.end_of(found, len(owners))


@given(histories())
def test_text_and_back(history: tuple[EpochList, list[int]]) -> None:
    """What is written is read, and a changed digit is noticed."""
    epochs, _ = history
    text = encode_epochs(epochs)

    assert decode_epochs(text, PATH) == epochs
    for at, char in enumerate(text):
        if char.isdigit():
            other = text[:at] + str((int(char) + 1) % 10) + text[at + 1 :]
            if other.splitlines()[1] != "0":
                with pytest.raises(StoreFormatError):
                    decode_epochs(other, PATH)


def test_the_file_is_rocketmqs() -> None:
    """Count, checksum, lines; a checksum of 0 is not compared."""
    epochs = epoch_list((7, 7000), (8, 8000))

    assert encode_epochs(epochs) == JAVA_TEXT
    assert decode_epochs("2\n0\n7-7000\n8-8000\n", PATH) == epochs


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "0 lines"),
        ("1\n0\n", "'1'"),
        ("1\n0\n7:7000\n", "7:7000"),
        ("1\n0\n-7000\n", "-7000"),
        ("2\n0\n7-7000\n7-8000\n", "found 7"),
        ("2\n0\n7-7000\n8-7000\n", "found 7000"),
        ("1\n0\n9999999999-0\n", "9999999999"),
        ("1\n5\n7-7000\n", "'5'"),
    ],
)
def test_a_damaged_file_is_refused(text: str, found: str) -> None:
    """The error names the file, and what stands there."""
    with pytest.raises(StoreFormatError, match=PATH) as caught:
        decode_epochs(text, PATH)

    assert found in str(caught.value)


def test_an_epoch_without_a_byte_is_left_out() -> None:
    """A master that wrote nothing leaves no entry: RocketMQ takes no two with one start."""
    epochs = epoch_list((1, 0), (2, 500)).begun(Epoch(4, 500))

    assert epochs == epoch_list((1, 0), (4, 500))
    with pytest.raises(ValueError, match="above 4"):
        epochs.begun(Epoch(4, 700))


def test_the_oldest_entries_go() -> None:
    """The list has no more entries than a handshake has room for."""
    epochs = EpochList()
    for number in range(EPOCHS_MAX + 5):
        epochs = epochs.begun(Epoch(number, number * 10))

    assert len(epochs.entries) == EPOCHS_MAX
    assert epochs.entries[0] == Epoch(5, 50)


def test_lists_without_a_common_epoch_have_no_common_end() -> None:
    """The same number with another start was given by another master."""
    mine, theirs = epoch_list((1, 0), (2, 500)), epoch_list((1, 100), (3, 500))

    assert mine.common_end(900, theirs, 900) is None


def test_the_file_outlives_a_power_cut() -> None:
    """An epoch that was begun is there, whatever is not synced."""
    disk = MemoryDisk()
    file = EpochFile(disk, "/store")
    assert file.epochs == EpochList()
    file.begin(Epoch(1, 0))
    file.begin(Epoch(2, 500))
    file.cut(500)
    file.begin(Epoch(3, 400))
    disk.power_cut()

    assert EpochFile(disk, "/store").epochs == epoch_list((1, 0), (3, 400))


def test_a_damaged_file_is_read_from_its_backup() -> None:
    """The ``.bak`` counts where the file is damaged; with both damaged the start is refused."""
    disk = MemoryDisk()
    file = EpochFile(disk, "/store")
    file.begin(Epoch(1, 0))
    file.begin(Epoch(2, 500))
    disk.rot(PATH, 0, b"9")

    assert EpochFile(disk, "/store").epochs == epoch_list((1, 0))
    disk.rot(f"{PATH}.bak", 0, b"9")
    with pytest.raises(StoreFormatError, match=PATH):
        EpochFile(disk, "/store")
