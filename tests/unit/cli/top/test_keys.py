"""Bytes of a terminal as keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.cli.top.keys import SEQUENCE_SIZE_MAX, decode_keys

TYPED = [
    (b"q", ["q"]),
    (b"+-/?", ["+", "-", "/", "?"]),
    (b"\r", ["enter"]),
    (b"\n", ["enter"]),
    (b"\x7f\x08", ["backspace", "backspace"]),
    (b"\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
    (b"\x1bOA\x1bOD", ["up", "left"]),
    (b"\x1b[H\x1b[F\x1b[1~\x1b[4~", ["home", "end", "home", "end"]),
    (b"\x1b[5~\x1b[6~", ["page up", "page down"]),
    (b"\x1b[1;5A", ["up"]),
    (b"\x1b\x1b[A", ["escape", "up"]),
    (b"\x1bq", ["escape", "q"]),
    ("é€😀".encode(), ["é", "€", "😀"]),
    (b"\x01\x02a", ["a"]),
    (b"\xff\x80a", ["a"]),
    (b"\x1b[200~x", ["x"]),
]


@pytest.mark.parametrize(("data", "keys"), TYPED)
def test_keys(data: bytes, keys: list[str]) -> None:
    """Each is what its bytes say."""
    assert (keys, b"") == decode_keys(data)


@pytest.mark.parametrize(("data", "keys"), TYPED)
def test_keys_byte_by_byte(data: bytes, keys: list[str]) -> None:
    """A terminal may send the bytes of one key one after the other."""
    found: list[str] = []
    rest = b""
    for byte in data:
        more, rest = decode_keys(rest + bytes([byte]))
        found += more

    assert (keys, b"") == (found, rest)


@pytest.mark.parametrize("data", [b"\x1b", b"\x1b[", b"\x1b[1;5", b"\x1bO", b"\xe2\x82"])
def test_an_unfinished_key(data: bytes) -> None:
    """It is handed back until the rest comes."""
    assert (["a"], data) == decode_keys(b"a" + data)


def test_the_escape_key() -> None:
    """An escape that nothing follows is the key."""
    assert (["escape"], b"") == decode_keys(b"\x1b", is_last=True)
    assert (["escape", "["], b"") == decode_keys(b"\x1b[", is_last=True)


@given(st.binary(max_size=64), st.booleans())
def test_any_bytes(data: bytes, is_last: bool) -> None:
    """Whatever comes, keys are printable or have names, and little is left."""
    keys, rest = decode_keys(data, is_last=is_last)

    assert all(key.isprintable() for key in keys)
    assert len(rest) < (1 if is_last else SEQUENCE_SIZE_MAX)
    assert data.endswith(rest)
