"""Settings by RocketMQ's names: all of them to read, some to change while the broker serves.

What may change live is read by its users each time they need it; everything else was read once, at
the start. A change lasts until the broker stops: the configuration is the operator's.

Source: Java ``AdminBrokerProcessor.updateBrokerConfig``, ``Configuration``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Any, cast

import attrs

from timermq.remoting.codes import ResponseCode

from ..options import LIVE_SETTINGS, BrokerOptions
from ..refusal import RefusedError

_UNDERSCORE = re.compile(r"_([a-z0-9])")

JAVA_NAMES = {
    "listen_host": "bindAddress",
    "advertised_host": "brokerIP1",
    "file_reserved_time_hours": "fileReservedTime",
    "flush_consumer_offset_interval_ms": "flushConsumerOffsetInterval",
}
"""Our names that do not lead to RocketMQ's by rule."""


def java_name(key: str) -> str:
    """``mapped_file_size_commit_log`` as ``mappedFileSizeCommitLog``."""
    return JAVA_NAMES.get(key) or _UNDERSCORE.sub(lambda found: found[1].upper(), key)


def settings_text(sections: Iterable[attrs.AttrsInstance]) -> dict[str, str]:
    """Every setting as properties have it, by RocketMQ's name where it has one."""
    return {
        java_name(field.name): _text(getattr(section, field.name))
        for section in sections
        for field in attrs.fields(type(section))
    }


def change_settings(options: BrokerOptions, changes: dict[str, str]) -> list[str]:
    """Change settings of the running broker: all of them, or none.

    Args:
        options: Changed in place.
        changes: RocketMQ's name to the text of the value.

    Returns:
        Our names of what has changed.

    Raises:
        RefusedError: A name is not known or not one of those that may change, or a value is none
            for it (29).
    """
    live = {java_name(key): key for key in LIVE_SETTINGS}
    wanted: dict[str, object] = {}
    for name, text in changes.items():
        key = live.get(name)
        if key is None:
            raise _refused(
                f"{ascii(name)[:130]} does not change while the broker serves: set it in its "
                f"configuration and start it again; these do: {', '.join(sorted(live))}"
            )
        wanted[key] = _value(name, text, cast("object", getattr(options, key)))
    try:
        # The class refuses what is out of range before anything is changed.
        attrs.evolve(options, **cast("dict[str, Any]", wanted))
    except ValueError as error:
        raise _refused(str(error)) from error
    changed = [key for key, value in wanted.items() if getattr(options, key) != value]
    for key in changed:
        setattr(options, key, wanted[key])
    return changed


def _value(name: str, text: str, old: object) -> object:
    """The value that a text stands for, of the type that the setting has."""
    if isinstance(old, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise _refused(f"{name}: expected true or false, found {ascii(text)[:130]}")
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(text)
    raise _refused(f"{name}: expected a number, found {ascii(text)[:130]}")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return value.name
    return "" if value is None else str(value)


def _refused(reason: str) -> RefusedError:
    return RefusedError(ResponseCode.INVALID_PARAMETER, "BROKER_CONFIG", reason)
