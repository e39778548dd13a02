"""The property text: round trips, one answer of two readers, and no bytes that break them."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX, encode, find, parse, remove, validate

names = st.text(alphabet="ABé_ ", min_size=1, max_size=3)
values = st.text(alphabet="abA标\n ", max_size=3)
pairs = st.dictionaries(names, values, max_size=4)
pieces = st.lists(
    st.sampled_from([b"A", b"B", b"AB", b"\x01", b"\x02", b"\n", b"\xff", b"x"]), max_size=24
).map(b"".join)
"""Texts in which separators are everywhere."""
wanted = st.sampled_from(["A", "B", "AB", "x", "A\n"])


@given(pairs)
def test_round_trip(properties: dict[str, str]) -> None:
    """What is encoded is well formed and parsed again, but for empty values."""
    data = encode(properties)

    assert validate(data) is None
    assert {name: value for name, value in properties.items() if value} == parse(data)


@given(pieces, wanted)
def test_find_is_what_parse_has(data: bytes, name: str) -> None:
    """Looking for one property gives what the dictionary would hold."""
    found = find(data, name.encode())

    assert parse(data).get(name) == (None if found is None else found.decode("utf-8", "replace"))


@given(pieces, wanted)
def test_remove_takes_one_name(data: bytes, name: str) -> None:
    """Without a name the others are what they were."""
    expected = parse(data)
    expected.pop(name, None)
    left = remove(data, name.encode())

    assert expected == parse(left)
    assert remove(left, name.encode()) is left or name.encode() + b"\x01" in left


@given(pieces)
def test_well_formed_text_is_what_encode_makes(data: bytes) -> None:
    """A well formed text is its properties, and nothing is lost between them."""
    if validate(data) is not None:
        return
    whole = data if data.endswith(b"\x02") or not data else data + b"\x02"
    split = [piece.split(b"\x01") for piece in whole.split(b"\x02")[:-1]]

    assert all(len(piece) == 2 and piece[0] for piece in split)
    assert whole == b"".join(b"%b\x01%b\x02" % tuple(piece) for piece in split)


@given(st.binary(max_size=40))
def test_random_bytes_break_nothing(data: bytes) -> None:
    """Whatever comes in, readers answer."""
    rule = validate(data)

    assert rule is None or rule.startswith("property ")
    assert all(name and value for name, value in parse(data).items())
    assert len(data) <= PROPERTIES_SIZE_MAX


@given(st.one_of(st.none(), st.text("0123456789+- _x٣", max_size=20).map(str.encode)))
@example(b"9" * 18)
@example(b"9" * 19)
def test_a_number_is_up_to_18_digits(value: bytes | None) -> None:
    """Signs, blanks and digits of other scripts make none; what is one fits 64 bits."""
    is_number = value is not None and re.fullmatch(rb"[0-9]{1,18}", value) is not None

    assert (int(value) if value and is_number else None) == number_in(value)
