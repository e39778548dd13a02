"""Settings: layers, types, origins, and what is said about a value that does not fit."""

from __future__ import annotations

import enum

import attrs
import pytest
from attrs import validators

from timermq.cli.settings import (
    ConfigurationError,
    Layer,
    Raw,
    Sections,
    Setting,
    Source,
    assemble,
    keys_of,
    list_settings,
    unknown,
)


class Colour(enum.Enum):
    """A setting that has two names."""

    RED = "red"
    BLUE = "blue"


def _even(_: object, attribute: attrs.Attribute[int], value: int) -> None:
    if value % 2:
        raise ValueError(f"{attribute.name}: expected an even number, found {value}")


@attrs.frozen(kw_only=True)
class Wheel:
    """One section, with settings of several types."""

    slots: int = attrs.field(default=4, validator=_even)
    ratio: float = attrs.field(default=0.5, validator=validators.le(1))
    enabled: bool = True
    colour: Colour = Colour.RED
    name: str | None = None
    shared: int = 1


@attrs.frozen(kw_only=True)
class Log:
    """Another one, with a key that the first has too."""

    shared: int = 1
    path: str = "log"


SECTIONS: Sections = {"wheel": Wheel, "log": Log}


def layer(source: Source, *, is_text: bool = False, **values: object) -> Layer:
    """A layer that calls each place by its source and key."""
    return Layer(
        source=source,
        values={
            key: Raw(value=value, where=f"{source.value} {key}", is_text=is_text)
            for key, value in values.items()
        },
    )


def test_defaults() -> None:
    """Without layers every option has its default."""
    assert {"wheel": Wheel(), "log": Log()} == assemble(SECTIONS, [])


def test_later_layers_win() -> None:
    """A flag beats the environment, which beats the file."""
    options = assemble(
        SECTIONS,
        [
            layer(Source.FILE, slots=6, ratio=0.25, path="a"),
            layer(Source.ENVIRONMENT, is_text=True, slots="8", path="b"),
            layer(Source.FLAG, is_text=True, path="c"),
        ],
    )

    assert {"wheel": Wheel(slots=8, ratio=0.25), "log": Log(path="c")} == options


def test_text_is_read_by_the_type_of_the_field() -> None:
    """The environment knows only text; each field says what it stands for."""
    texts = {"slots": " 6 ", "ratio": "1", "enabled": "FALSE", "colour": "BLUE", "name": "7"}
    options = assemble(SECTIONS, [layer(Source.ENVIRONMENT, is_text=True, **texts)])

    assert (
        Wheel(slots=6, ratio=1.0, enabled=False, colour=Colour.BLUE, name="7") == options["wheel"]
    )


def test_a_key_in_two_sections_has_one_value() -> None:
    """The value goes to both."""
    options = assemble(SECTIONS, [layer(Source.FILE, shared=3)])

    assert {"wheel": Wheel(shared=3), "log": Log(shared=3)} == options


@pytest.mark.parametrize(
    ("key", "value", "is_text", "reason"),
    [
        ("slots", 5, False, "expected an even number, found 5"),
        ("slots", "4", False, "expected an integer, found '4'"),
        ("slots", True, False, "expected an integer, found True"),
        ("slots", 4.0, False, "expected an integer, found 4.0"),
        ("slots", "four", True, "expected an integer, found 'four'"),
        ("slots", "9" * 5000, True, "expected an integer, found '" + "9" * 198 + "…"),
        ("ratio", "x", True, "expected a number, found 'x'"),
        ("ratio", True, False, "expected a number, found True"),
        ("ratio", 1.5, False, "expected at most 1, found 1.5"),
        ("enabled", "no", True, "expected true or false, found 'no'"),
        ("enabled", 1, False, "expected true or false, found 1"),
        ("colour", "green", True, "expected RED or BLUE, found 'green'"),
        ("path", 7, False, "expected a text, found 7"),
    ],
)
def test_a_value_that_does_not_fit(key: str, value: object, is_text: bool, reason: str) -> None:
    """The message names the place, what was expected and what was found."""
    with pytest.raises(ConfigurationError) as refused:
        assemble(SECTIONS, [layer(Source.FILE, is_text=is_text, **{key: value})])

    assert f"file {key}: {reason}" == str(refused.value)


def test_origins() -> None:
    """Every key is listed once, with its value and the last layer that named it."""
    layers = [layer(Source.FILE, slots=6, path="a"), layer(Source.FLAG, slots=8)]
    settings = list_settings(SECTIONS, layers, assemble(SECTIONS, layers))
    by_key = {one.key: one for one in settings}

    assert list(keys_of(SECTIONS)) == [one.key for one in settings]
    assert by_key["slots"] == Setting(
        section="wheel", key="slots", value=8, source=Source.FLAG, where="flag slots"
    )
    assert by_key["path"] == Setting(
        section="log", key="path", value="a", source=Source.FILE, where="file path"
    )
    assert by_key["colour"] == Setting(
        section="wheel", key="colour", value=Colour.RED, source=Source.DEFAULT, where=""
    )


def test_unknown_name() -> None:
    """The nearest known name is offered if there is one that resembles."""
    near = unknown("file: slotz", "slotz", ["slots", "ratio"])
    far = unknown("file: quux", "quux", ["slots", "ratio"])

    assert str(near) == "file: slotz is not a known setting; the nearest is slots"
    assert str(far) == "file: quux is not a known setting"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("slots", 2**63, "expected a 64-bit integer, found 9223372036854775808"),
        ("slots", -(2**80), "expected a 64-bit integer, found -0x100000000000000000000"),
        ("name", "a\0b", "expected UTF-8 text without NUL, found 'a\\x00b'"),
        ("name", "a\udcff", "expected UTF-8 text without NUL, found 'a\\udcff'"),
    ],
)
def test_values_that_fit_nowhere(key: str, value: object, reason: str) -> None:
    """No file, no frame and no name of a file can hold them."""
    with pytest.raises(ConfigurationError) as refused:
        assemble(SECTIONS, [layer(Source.FILE, is_text=False, **{key: value})])

    assert f"file {key}: {reason}" == str(refused.value)


def test_a_long_value_is_cut_in_its_refusal() -> None:
    """An error is a line that people read."""
    with pytest.raises(ConfigurationError) as refused:
        assemble(SECTIONS, [layer(Source.FILE, slots="9" * 100_000)])

    assert len(str(refused.value)) < 300
