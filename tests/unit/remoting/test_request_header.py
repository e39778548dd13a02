"""Headers of requests: read once, refused where a faulty parameter is taken, written back."""

from __future__ import annotations

import attrs
import pytest

from timermq.remoting.command import Command
from timermq.remoting.field import FieldError
from timermq.remoting.request_header import (
    RequestHeader,
    boolean,
    integer,
    request_header,
    text,
)


@request_header
class Header(RequestHeader):
    """One parameter of each kind."""

    name: str = text("theName")
    mark: str = text("mark", default="none")
    note: str | None = text("note", default=None)
    number: int = integer("theNumber")
    level: int = integer("level", default=3)
    limit_ms: int | None = integer("limitMillis", default=None)
    is_on: bool = boolean("isOn", default=True)


@request_header
class MoreHeader(Header):
    """The same, and one more."""

    more: int = integer("more", default=0)


def command(**ext: str) -> Command:
    """A request with these parameters."""
    return Command(code=11, ext=ext)


def test_all_parameters_are_read() -> None:
    """Each by its name on the wire, as what it is."""
    found = Header.of(
        command(
            theName="N", mark="", note="x", theNumber="-7", level="5", limitMillis="9", isOn="0"
        )
    )

    expected = Header(name="N", mark="", note="x", number=-7, level=5, limit_ms=9, is_on=False)
    assert expected == found


def test_what_is_missing_has_its_default() -> None:
    """An empty number or boolean counts as missing, an empty text does not."""
    expected = Header(name="", number=1)

    assert expected == Header.of(command(theName="", theNumber="1"))
    empty = command(theName="", theNumber="1", level="", limitMillis="", isOn="")
    assert expected == Header.of(empty)


def test_what_is_written_is_read_again() -> None:
    """In the order of the fields; what is None is left out."""
    header = MoreHeader(name="N", number=1, is_on=False, more=2)

    ext = header.to_ext()
    assert ["theName", "mark", "theNumber", "level", "isOn", "more"] == list(ext)
    assert "false" == ext["isOn"]
    assert header == MoreHeader.of(command(**ext))


@pytest.mark.parametrize(
    ("ext", "field", "remark"),
    [
        ({}, "name", "theName: expected a value, found none"),
        ({}, "number", "theNumber: expected a number, found none"),
        ({"theNumber": ""}, "number", "theNumber: expected a number, found none"),
        ({"theNumber": "x"}, "number", "theNumber: expected a 64-bit number, found 'x'"),
        ({"level": "1.0"}, "level", "level: expected a 64-bit number, found '1.0'"),
        ({"limitMillis": "?"}, "limit_ms", "limitMillis: expected a 64-bit number, found '?'"),
        ({"isOn": "yes"}, "is_on", "isOn: expected true, false, 1 or 0, found 'yes'"),
    ],
)
def test_a_faulty_parameter_is_refused_when_it_is_taken(
    ext: dict[str, str], field: str, remark: str
) -> None:
    """Not before, and each time; the others have their values."""
    header = Header.of(command(**ext))

    assert "none" == header.mark
    for _ in range(2):
        with pytest.raises(FieldError) as caught:
            getattr(header, field)
        assert f"FIELD: request 11: {remark}" == caught.value.remark


def test_a_header_has_its_parameters_alone() -> None:
    """Any other name is a mistake in the program, and no code changes a header."""
    header = Header.of(command(theName="N", theNumber="1"))

    with pytest.raises(AttributeError):
        getattr(header, "the_name")  # noqa: B009  # type checkers know that there is none
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(header, "name", "M")  # noqa: B010  # type checkers refuse it
