"""Settings by name: values from several layers become typed options and keep their origin.

A layer is one source of raw values: a file, the environment, the flags. Later layers win. The
option classes (attrs, every field with a default) say which keys there are; their validators say
which values. An error names the key, where it stands, what was expected and what was found.
"""

from __future__ import annotations

import difflib
import enum
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import cast

import attrs
import cattrs
from cattrs.errors import BaseValidationError

NAME_CUTOFF = 0.5
"""How alike two names must be (0 to 1) for one to be offered in place of the other."""


class Source(enum.Enum):
    """The source of a value; the order is that of precedence."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class ConfigurationError(ValueError):
    """A key is unknown or a value is refused; the one who wrote it corrects it."""


@attrs.frozen(kw_only=True)
class Raw:
    """A value as its layer gives it."""

    value: object
    where: str
    """The name of the place in a message: ``timermq.toml: [timer] timer_precision_ms``."""
    is_text: bool = False
    """The layer knows only text (environment, flags, broker.conf): a number is still to be read."""


@attrs.frozen(kw_only=True)
class Layer:
    """One source and its values by key."""

    source: Source
    values: Mapping[str, Raw]


@attrs.frozen(kw_only=True)
class Setting:
    """One effective value and where it comes from."""

    section: str
    key: str
    value: object
    source: Source
    where: str


Sections = Mapping[str, type[attrs.AttrsInstance]]
"""Section name to the class of its options. A key that stands in two has one value for both."""


def keys_of(sections: Sections) -> dict[str, tuple[str, ...]]:
    """Every key with its sections."""
    keys: dict[str, tuple[str, ...]] = {}
    for section, options in sections.items():
        for field in attrs.fields(options):
            keys[field.name] = (*keys.get(field.name, ()), section)
    return keys


def unknown(what: str, name: str, known: Sequence[str]) -> ConfigurationError:
    """The error for a name that is not known, with the nearest one that is."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=NAME_CUTOFF)
    advice = f"; the nearest is {near[0]}" if near else ""
    return ConfigurationError(f"{what[:_REASON_SIZE_MAX]} is not a known setting{advice}")


def shown(value: object) -> str:
    """A value for an error: a line of bounded length."""
    text = hex(value) if isinstance(value, int) and abs(value) > _INT64.stop else ascii(value)
    return text if len(text) <= _SHOWN_SIZE_MAX else f"{text[: _SHOWN_SIZE_MAX - 1]}…"


def assemble(sections: Sections, layers: Sequence[Layer]) -> dict[str, attrs.AttrsInstance]:
    """The options of each section, later layers over earlier ones.

    Raises:
        ConfigurationError: A value has the wrong type, is out of range, or does not go with
            the others.
    """
    known = keys_of(sections)
    chosen: dict[str, dict[str, object]] = {section: {} for section in sections}
    for layer in layers:
        for key, raw in layer.values.items():
            for section in known[key]:
                chosen[section][key] = _read(sections[section], key, raw)
    return {
        section: _structure(options, chosen[section], f"section {section}")
        for section, options in sections.items()
    }


def list_settings(
    sections: Sections, layers: Sequence[Layer], options: Mapping[str, attrs.AttrsInstance]
) -> list[Setting]:
    """Every key with its effective value and the last layer that named it."""
    origins = {
        key: (layer.source, raw.where) for layer in layers for key, raw in layer.values.items()
    }
    settings: list[Setting] = []
    for key, (section, *_) in keys_of(sections).items():
        source, where = origins.get(key, (Source.DEFAULT, ""))
        value = cast("object", getattr(options[section], key))
        settings.append(Setting(section=section, key=key, value=value, source=source, where=where))
    return settings


def _read(options: type[attrs.AttrsInstance], key: str, raw: Raw) -> object:
    """One value, checked by itself: only here it is known where it stands."""
    hint = typing.get_type_hints(options)[key]
    field = attrs.fields_dict(options)[key]
    try:
        value = _CONVERTER.structure(_from_text(hint, raw) if raw.is_text else raw.value, hint)
        if field.validator is not None:
            field.validator(None, field, value)
    except ValueError as error:
        reason = _reason(key, str(error))[:_REASON_SIZE_MAX]
        raise ConfigurationError(f"{raw.where}: {reason}") from None
    return value


def _reason(key: str, text: str) -> str:
    """The text of a validator, in our form and without the key: that stands in front already."""
    bound = _BOUND.fullmatch(text)
    if bound is None:
        return text.removeprefix(f"{key}: ")
    return f"expected {_BOUND_WORDS[bound['sign']]} {bound['bound']}, found {bound['found']}"


_BOUND = re.compile(r"'\w+' must be (?P<sign>[<>]=?) (?P<bound>\S+): (?P<found>.*)")
"""The form of the texts of attrs' validators."""
_BOUND_WORDS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}


def _structure(
    options: type[attrs.AttrsInstance], values: Mapping[str, object], where: str
) -> attrs.AttrsInstance:
    """All values of a section: refused only when they do not go together."""
    try:
        return _CONVERTER.structure(values, options)
    except BaseValidationError as error:
        raise ConfigurationError(f"{where}: {_first_reason(error)}") from None


def _first_reason(error: BaseException) -> str:
    """The innermost first cause: cattrs groups errors by field."""
    # Not above: only a value that is refused needs it.
    from timermq.remoting.causes import first_cause

    cause = first_cause(error)
    return str(cause.args[0]) if cause.args else type(cause).__name__


def _from_text(hint: object, raw: Raw) -> object:
    """The value that a text stands for, by the type of its field."""
    text = str(raw.value).strip()
    kind = _kind(hint)
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is int or kind is float:
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def _kind(hint: object) -> object:
    """The type of a field without ``| None``."""
    if isinstance(hint, types.UnionType):
        return next(one for one in typing.get_args(hint) if one is not types.NoneType)
    return hint


_INT64 = range(-(2**63), 2**63)
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that no file name and no frame holds; half surrogates are bytes that are no UTF-8."""
_SHOWN_SIZE_MAX = 200
_REASON_SIZE_MAX = 500

_NAMES: dict[type, str] = {bool: "true or false", int: "an integer", str: "a text"}


def _strict(value: object, kind: type) -> object:
    """The value if it has exactly the type: cattrs would read "no" as true and cut 1.7 to 1."""
    if type(value) is not kind:
        raise ConfigurationError(f"expected {_NAMES[kind]}, found {shown(value)}")
    if isinstance(value, int) and value not in _INT64:
        raise ConfigurationError(f"expected a 64-bit integer, found {shown(value)}")
    if isinstance(value, str) and _NO_TEXT.search(value):
        raise ConfigurationError(f"expected UTF-8 text without NUL, found {shown(value)}")
    return value


def _strict_float(value: object, _: type) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ConfigurationError(f"expected a number, found {shown(value)}")
    return float(value)


def _strict_enum(value: object, kind: type[enum.Enum]) -> enum.Enum:
    for member in kind:
        # RocketMQ writes some of these words small.
        if value is member or (isinstance(value, str) and value.upper() == member.name):
            return member
    raise ConfigurationError(f"expected {' or '.join(kind.__members__)}, found {shown(value)}")


def _strict_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind in _NAMES:
        converter.register_structure_hook(kind, _strict)
    converter.register_structure_hook(float, _strict_float)
    converter.register_structure_hook_func(_is_enum, _strict_enum)
    return converter


def _is_enum(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


_CONVERTER = _strict_converter()
