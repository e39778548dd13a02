"""Tests of rows of bytes: numbers as digits and back, texts put together, pieces."""

import numpy as np
import pytest

from timermq.timerstore.byte_columns import (
    Pieces,
    digit_counts,
    digits_of,
    joined_rows,
    numbers_in,
    rows_at,
    rows_like,
)


def shown(rows: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> list[bytes]:
    """Each row as its bytes."""
    return [row.tobytes() for row in rows]


@pytest.mark.parametrize("numbers", [[0, 7, 42], [10**17, 10**18 - 1], [1_700_000_000_000]])
def test_numbers_are_digits_and_digits_numbers(numbers: list[int]) -> None:
    """Both ways, with zeros before them."""
    rows = digits_of(np.array(numbers), 18)
    read = numbers_in(rows)

    assert [b"%018d" % number for number in numbers] == shown(rows)
    assert read is not None
    assert numbers == read.tolist()
    assert [len(str(number)) for number in numbers] == digit_counts(np.array(numbers)).tolist()


@pytest.mark.parametrize("text", [b"+1", b" 1", b"-1", b"1/", b"1:", b"1\xb2"])
def test_what_is_no_digit_is_no_number(text: bytes) -> None:
    """One such row spoils all."""
    assert numbers_in(np.frombuffer(b"12" + text, np.uint8).reshape(2, -1)) is None


def test_rows_are_equal_but_for_their_columns() -> None:
    """Columns stand where they are put, pieces one after the other."""
    column = np.frombuffer(b"ABCD", np.uint8).reshape(2, 2)

    assert [b"x-AB", b"x-CD"] == shown(rows_like(b"x---", 2, [(2, column)]))
    assert [b"<AB|AB>", b"<CD|CD>"] == shown(joined_rows(2, [b"<", column, b"|", column, b">"]))


def test_pieces_of_one_size_are_rows() -> None:
    """Others, or empty ones, are not."""
    data = b"aabbbcc"
    even = Pieces(data, np.array([5, 0]), np.array([7, 2]))
    odd = Pieces(data, np.array([0, 2]), np.array([2, 5]))
    empty = Pieces(data, np.array([1, 2]), np.array([1, 2]))

    assert even.rows is not None
    assert [b"cc", b"aa"] == shown(even.rows) == even.each()
    assert odd.rows is None
    assert [b"aa", b"bbb"] == odd.each()
    assert empty.rows is None
    assert [b"cc", b"aa"] == Pieces.of_rows(even.rows).each()


def test_rows_stand_within_their_bytes() -> None:
    """Nothing is read behind the end."""
    assert [b"cd"] == shown(rows_at(b"abcd", np.array([2]), 2))
    with pytest.raises(IndexError):
        rows_at(b"abcd", np.array([3]), 2)
