"""Tests of Java's string hash."""

from __future__ import annotations

import pytest

from golden_vectors import JAVA_HASHES, QUEUE_UNIT
from timermq.timerstore.java_hash import (
    COLUMN_KEY_SIZE_MAX,
    hash_columns,
    hash_keys,
    java_hash,
    tags_code,
)


@pytest.mark.parametrize(("text", "expected"), JAVA_HASHES.items())
def test_golden_hashes(text: str, expected: int) -> None:
    """Hashes are those of Java."""
    assert expected == java_hash(text)


def test_utf16_units_are_hashed() -> None:
    """A character beyond the basic plane counts as its two surrogates."""
    assert 31 * 0xD83D + 0xDE00 == java_hash("\U0001f600")
    assert java_hash("\ud83d\ude00") == java_hash("\U0001f600")


def test_tags_code_of_the_golden_unit() -> None:
    """The tags code is the hash of the decoded tag."""
    assert int.from_bytes(QUEUE_UNIT[12:], "big") == tags_code(b"TagA")
    assert java_hash("标签") == tags_code("标签".encode())
    assert tags_code(b"") == 0


def test_tags_that_are_not_utf8_have_a_code() -> None:
    """Malformed bytes are replaced, as Java decodes them."""
    assert java_hash("\ufffd") == tags_code(b"\xff")


def test_columns_hash_keys_of_one_length() -> None:
    """Keys of one length are hashed together."""
    assert [2598919, 2567159] == hash_columns([b"TagA", b"TAG1"]).tolist()
    assert [0, 0] == hash_columns([b"", b""]).tolist()
    assert hash_columns([]).tolist() == []


def test_columns_refuse_different_lengths() -> None:
    """Keys of different lengths cannot stand in columns."""
    with pytest.raises(ValueError, match="expected keys of one length up to 65536 bytes, found 1"):
        hash_columns([b"a", b"bb"])


def test_columns_refuse_endless_keys() -> None:
    """The vector of powers has an end."""
    with pytest.raises(ValueError, match="found 65537 to 65537"):
        hash_columns([bytes(COLUMN_KEY_SIZE_MAX + 1)])


def test_all_kinds_of_keys_are_hashed_together() -> None:
    """Lengths, other alphabets and very long keys may be mixed; the order stays."""
    keys = ["TagA", "标签", "", "TAG1", "T", "x" * (COLUMN_KEY_SIZE_MAX + 1)]

    assert [java_hash(key) for key in keys] == hash_keys([key.encode() for key in keys]).tolist()
