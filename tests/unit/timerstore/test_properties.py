"""Tests of the property text."""

from __future__ import annotations

import pytest

from timermq.timerstore.properties import (
    PROPERTIES_SIZE_MAX,
    encode,
    find,
    parse,
    remove,
    validate,
)

TEXT = b"TAGS\x01TagA\x02UNIQ_KEY\x010A\x02TAGS\x01TagB\x02"


def test_encode_keeps_the_order() -> None:
    """Properties are written in the order of the mapping, each with its last separator."""
    assert encode({"B": "2", "A": "标"}) == b"B\x012\x02A\x01\xe6\xa0\x87\x02"
    assert encode({}) == b""


@pytest.mark.parametrize("pair", [("", "v"), ("a\x01", "v"), ("a", "v\x02"), ("a\x02", "v")])
def test_encode_refuses_separators(pair: tuple[str, str]) -> None:
    """There is no escaping: a separator would make properties of its own."""
    with pytest.raises(ValueError, match="expected a name, no 0x01 and no 0x02"):
        encode(dict([pair]))


def test_parse_takes_the_last_of_a_name() -> None:
    """Of a name that stands twice the last value counts."""
    assert parse(TEXT) == {"TAGS": "TagB", "UNIQ_KEY": "0A"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"A\x01b", {"A": "b"}),
        (b"A\x01\x02B\x01c\x02", {"B": "c"}),
        (b"\x01b\x02junk\x02\x02C\x01d\x02", {"C": "d"}),
        (b"A\x01b\x01c\x02", {"A": "b\x01c"}),
    ],
)
def test_parse_is_as_tolerant_as_java(data: bytes, expected: dict[str, str]) -> None:
    """Pieces without name or value are left out; the last separator may be missing."""
    assert expected == parse(data)


@pytest.mark.parametrize(
    ("name", "expected"),
    [(b"TAGS", b"TagB"), (b"UNIQ_KEY", b"0A"), (b"KEY", None), (b"TAG", None), (b"TagA", None)],
)
def test_find(name: bytes, expected: bytes | None) -> None:
    """The last value of exactly this name is found."""
    assert expected == find(TEXT, name)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"A\x011\x02", b"1"),
        (b"A\x011", b"1"),
        (b"B\x01x\x02A\x011", b"1"),
        (b"A\x011\x02A\x01\x02", b"1"),
        (b"A\x011\x02A\x01\x02A\x01", b"1"),
        (b"A\x01\x02", None),
        (b"", None),
        (b"\x02A\x01\x02A\x012\x02A\x01\x02", b"2"),
    ],
)
def test_find_passes_over_empty_values(data: bytes, expected: bytes | None) -> None:
    """A property without a value is none, first or last in the text or not."""
    assert expected == find(data, b"A")


def test_remove_takes_every_occurrence() -> None:
    """All properties of the name go, the others stay in order."""
    assert remove(TEXT, b"TAGS") == b"UNIQ_KEY\x010A\x02"
    assert remove(b"A\x011\x02B\x012", b"A") == b"B\x012\x02"


def test_remove_of_a_missing_name_changes_nothing() -> None:
    """Without the name the text comes back as it is, the very object."""
    assert remove(TEXT, b"KEYS") is TEXT
    assert remove(TEXT, b"EY") == TEXT


@pytest.mark.parametrize("data", [b"", TEXT, b"A\x01b", b"A\x01\x02", "名\x01值\n\x02".encode()])
def test_well_formed_texts(data: bytes) -> None:
    """Text of names and values is well formed; the last separator may be missing."""
    assert validate(data) is None


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"A\x01b\x02junk\x02", "property 1: expected 0x01 between name and value, found b'junk'"),
        (b"\x02", "property 0: expected 0x01 between name and value, found b''"),
        (b"A\x01b\x02\x02", "property 1: expected 0x01 between name and value, found b''"),
        (b"\x01b\x02", "property 0: expected a name before 0x01, found b'\\x01b'"),
        (b"A\x01b\x01c\x02", "property 0: expected one 0x01, found b'A\\x01b\\x01c'"),
        (
            b"A\n\x01b\x02",
            "property 0: expected no control characters in the name, found b'A\\n\\x01b'",
        ),
        (bytes(PROPERTIES_SIZE_MAX + 1), "properties: expected at most 32767 bytes, found 32768"),
    ],
)
def test_broken_rules_are_named(data: bytes, rule: str) -> None:
    """What is not well formed is refused with the property and the rule."""
    assert rule == validate(data)
