"""Settings by RocketMQ's names: all of them to read, some to change while the broker serves.

What may change live (``LIVE``) is read by its users each time they need it; everything else was
read once, at the start. A change lasts until the broker stops: the configuration is the operator's.

Source: Java ``AdminBrokerProcessor.updateBrokerConfig``, ``Configuration``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import attrs
import structlog

from timermq.remoting.admin_body import decode_properties
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.timerstore.live_setting import live_settings
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX

from ..options import java_name
from ..refusal import RefusedError
from ..session import Session
from ..topic_config import TopicConfigTable

log = structlog.get_logger("timermq.broker.admin.live_settings")


def settings_text(sections: Iterable[attrs.AttrsInstance]) -> dict[str, str]:
    """Every setting as properties have it, by RocketMQ's name where it has one."""
    return {
        java_name(field.name): _text(getattr(section, field.name))
        for section in sections
        for field in attrs.fields(type(section))
    }


def change_settings(
    sections: Sequence[attrs.AttrsInstance], changes: Mapping[str, str]
) -> dict[str, object]:
    """Change settings of the running broker: all of them, or none.

    Args:
        sections: The options that the broker works with; changed in place.
        changes: RocketMQ's name to the text of the value.

    Returns:
        The settings that changed: our name to the new value.

    Raises:
        RefusedError: A name is not known or not one of those that may change, or a value is none
            for it (29).
    """
    live = {java_name(key): (one, key) for one in sections for key in live_settings(type(one))}
    unknown = [name for name in changes if name not in live]
    if unknown:
        raise _refused(
            f"{ascii(unknown[0])[:130]} does not change while the broker serves: set it in its "
            f"configuration and start it again; these do: {', '.join(sorted(live))}"
        )
    wanted = [(*live[name], _value(name, text, live[name])) for name, text in changes.items()]
    # The classes refuse values out of range before anything is changed.
    for section, key, value in wanted:
        try:
            attrs.evolve(cast("Any", section), **{key: value})
        except ValueError as error:
            raise _refused(str(error)) from error
    changed = {key: value for section, key, value in wanted if getattr(section, key) != value}
    for section, key, value in wanted:
        setattr(section, key, value)
    return changed


def change_on_request(
    session: Session,
    command: Command,
    sections: Sequence[attrs.AttrsInstance],
    topics: TopicConfigTable,
) -> Command:
    """Change the settings that an operator's request names, and tell of each in the log.

    Args:
        session: Of the operator.
        command: Properties of RocketMQ's names to values, as its body.
        sections: The options in which they may be.
        topics: Registered again: some settings are part of what name servers are told.

    Raises:
        BodyFormatError: The body is no properties.
        RefusedError: As for ``change_settings``; nothing has changed.
    """
    changed = change_settings(sections, decode_properties(command.body))
    for key, value in changed.items():
        log.warning(
            "setting changed until the next start",
            key=key,
            value=value,
            remote=session.remote_address,
        )
    if changed:
        topics.settings_changed()
    return command.answer(ResponseCode.SUCCESS)


def _value(name: str, text: str, place: tuple[attrs.AttrsInstance, str]) -> object:
    """The value that a text means, of the type that the setting has."""
    old: object = getattr(*place)
    if isinstance(old, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise _refused(f"{name}: expected true or false, found {ascii(text)[:130]}")
    if isinstance(old, str):
        return text
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX:
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
