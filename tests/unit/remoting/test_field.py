"""Parameters, as clients spell them."""

from __future__ import annotations

import pytest

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.field import FieldError, boolean, integer, text


def command(value: str) -> Command:
    """A request with one parameter."""
    return Command(code=11, ext={"name": value})


def test_text_may_be_empty() -> None:
    """An empty text is a value."""
    assert "" == text(command(""), "name")
    assert "" == text(command(""), "name", default="other")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        ("-1", -1),
        ("+5", 5),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_integers(value: str, expected: int) -> None:
    """Numbers have 64 bits and a sign."""
    assert expected == integer(command(value), "name")


@pytest.mark.parametrize(
    "value",
    ["x", "-", "+-1", "1.0", "1e3", " 1", "1_000", "²", "٣", "9223372036854775808", "1" * 5000],
)
def test_no_integers(value: str) -> None:
    """What Java's ``parseLong`` would refuse is refused, and no more than 64 letters are shown."""
    with pytest.raises(FieldError) as caught:
        integer(command(value), "name")

    remark = f"FIELD: request 11: name: expected a 64-bit number, found {value[:64]!a}"
    assert remark == caught.value.remark


@pytest.mark.parametrize(
    ("value", "expected"),
    [("true", True), ("True", True), ("1", True), ("false", False), ("FALSE", False), ("0", False)],
)
def test_booleans(value: str, expected: bool) -> None:
    """Java writes words, C++ writes digits."""
    assert expected is boolean(command(value), "name")


def test_no_boolean() -> None:
    """Any word but true, false, 1 and 0 is refused."""
    with pytest.raises(FieldError) as caught:
        boolean(command("yes"), "name")

    remark = "FIELD: request 11: name: expected true, false, 1 or 0, found 'yes'"
    assert remark == caught.value.remark


def test_defaults_stand_in_for_what_is_missing() -> None:
    """An empty number or boolean counts as missing."""
    assert "d" == text(Command(code=11), "name", default="d")
    assert 7 == integer(command(""), "name", default=7)
    assert 7 == integer(Command(code=11), "name", default=7)
    assert boolean(command(""), "name", default=True)
    assert not boolean(Command(code=11), "name")


def test_missing_parameters_are_named() -> None:
    """Without a default a parameter must be there; the connection goes on."""
    with pytest.raises(FieldError) as no_text:
        text(Command(code=11), "name")
    with pytest.raises(RemoteProtocolError) as no_number:
        integer(command(""), "name")

    assert "FIELD: request 11: name: expected a value, found none" == no_text.value.remark
    assert "FIELD: request 11: name: expected a number, found none" == no_number.value.remark
    assert (ResponseCode.SYSTEM_ERROR, False) == (no_text.value.code, no_text.value.close)
