"""One JSON object of a configuration file, taken apart field by field.

RocketMQ's files differ from version to version: a missing field has its default, and an unknown
field stays as it is and is written back. A field of the wrong type is an error that
names the place: to guess would mean to overwrite what the operator has.
"""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec

_INT64 = range(-(2**63), 2**63)
_DIGITS_MAX = 10
_S = TypeVar("_S", bound=msgspec.Struct)


class ConfigTableError(ValueError):
    """A file under ``config/`` holds a value of the wrong type; the operator repairs it."""


class ConfigFields:
    """The fields of one object, each taken at most once.

    Args:
        where: Names the object in errors: ``config/topics.json: topicConfigTable: T``.
        value: The object as the JSON reader gave it.

    Raises:
        ConfigTableError: ``value`` is not an object.
    """

    def __init__(self, where: str, value: object) -> None:
        if not isinstance(value, dict):
            raise ConfigTableError(f"{where}: expected an object, found {_shown(value)}")
        self.where = where
        self._left = {str(key): item for key, item in cast("dict[object, object]", value).items()}

    @property
    def rest(self) -> dict[str, object]:
        """Fields that were not taken: those of other versions, written back as they are."""
        return self._left

    def integer(self, name: str, default: int) -> int:
        """Take an integer of 64 bits."""
        value = self._left.pop(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and value in _INT64:
            return value
        raise self._error(name, "a 64-bit integer", value)

    def boolean(self, name: str, default: bool) -> bool:
        """Take a truth value; ``default`` when the field is missing."""
        value = self._left.pop(name, default)
        if isinstance(value, bool):
            return value
        raise self._error(name, "true or false", value)

    def text(self, name: str, default: str) -> str:
        """Take a text; ``default`` when the field is missing."""
        value = self._left.pop(name, default)
        if isinstance(value, str):
            return value
        raise self._error(name, "a text", value)

    def fields(self, name: str) -> ConfigFields:
        """Take an object; a missing one is empty."""
        value = self._left.pop(name, None)
        return ConfigFields(f"{self.where}: {name}", {} if value is None else value)

    def objects(self) -> list[tuple[str, ConfigFields]]:
        """Take all fields that are left, each of them an object."""
        return [(name, self.fields(name)) for name in list(self._left)]

    def texts(self, name: str) -> dict[str, str]:
        """Take an object of texts; a missing one is empty."""
        inner = self.fields(name)
        return {key: inner.text(key, "") for key in list(inner.rest)}

    def offsets(self, name: str) -> dict[int, int]:
        """Take an object of numbered integers, ``{0:7,1:9}``; a missing one is empty."""
        inner = self.fields(name)
        bad = [key for key in inner.rest if not _is_number(key)]
        if bad:
            raise self._error(name, "queue numbers as keys", bad[0])
        return {int(key): inner.integer(key, 0) for key in list(inner.rest)}

    def _error(self, name: str, expected: str, value: object) -> ConfigTableError:
        return ConfigTableError(f"{self.where}: {name}: expected {expected}, found {_shown(value)}")


def read_struct(where: str, value: object, struct: type[_S]) -> _S:
    """A whole object at once, all its fields known; those of other versions are passed over.

    Args:
        where: Names the object in errors.
        value: As the JSON reader gave it.
        struct: What it must be.

    Raises:
        ConfigTableError: It is something else, or a text in it holds half a character.
    """
    try:
        return msgspec.convert(value, struct)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ConfigTableError(f"{where}: {error}") from None


def _is_number(key: str) -> bool:
    """Whether a key is the number of a queue: a 32-bit number, and not one written in two ways."""
    return key.isascii() and key.isdigit() and len(key) <= _DIGITS_MAX and str(int(key)) == key


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 64 else text[:60] + "…"
