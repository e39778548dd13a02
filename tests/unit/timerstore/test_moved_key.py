"""Unique keys of moved messages, and the way back to those that their producers gave."""

from __future__ import annotations

import pytest

from timermq.timerstore.moved_key import (
    as_sent,
    first_key,
    has_unique_key,
    key_properties,
    keys_of_move,
    moved_key,
)
from timermq.timerstore.properties import parse

SENT = b"UNIQ_KEY\x01K\x02TAGS\x01a\x02"


@pytest.mark.parametrize(
    ("key", "first"),
    [
        (b"K", b"K"),
        (b"K#moved7", b"K"),
        (b"K#moved", b"K#moved"),
        (b"K#moved7x", b"K#moved7x"),
        (b"#moved7", b"#moved7"),
        (b"K#moved7#moved8", b"K#moved7"),
    ],
)
def test_first_keys(key: bytes, first: bytes) -> None:
    """What stands before the mark and a position, if anything does."""
    assert first_key(key) == first
    assert has_unique_key(key_properties(key), first)
    assert has_unique_key(key_properties(key), key)
    assert not has_unique_key(key_properties(key), b"L")


def test_a_move_of_what_was_moved() -> None:
    """The position changes, and the mark stands once."""
    assert moved_key(moved_key(b"K", 7), 8) == b"K#moved8"


@pytest.mark.parametrize("keys", [[], [b"k1"], [b"k1", b"k2"]])
def test_among_other_properties(keys: list[bytes]) -> None:
    """As RocketMQ's roll writes them: they are found, and the producer's come back."""
    moved = key_properties(b"K#moved7", *keys)
    text = b"TAGS\x01a\x02" + moved
    own = b"KEYS\x01%b\x02" % b" ".join(keys) if keys else b""

    assert keys_of_move(text) == moved
    assert parse(as_sent(text)) == parse(SENT + own)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        SENT,
        b"UNIQ_KEY\x01K#moved7\x02",
        b"UNIQ_KEY\x01K#moved7\x02KEYS\x01K k1\x02",
        b"UNIQ_KEY\x01K#moved\x02KEYS\x01K#moved\x02",
        b"UNIQ_KEY\x01K\x02KEYS\x01K#moved7 K\x02",
    ],
)
def test_texts_that_no_move_wrote(text: bytes) -> None:
    """They stay, though a producer's key may look like one of a move."""
    assert keys_of_move(text) == b""
    assert as_sent(text) == text
