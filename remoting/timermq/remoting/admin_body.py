"""JSON bodies of admin requests that a broker reads.

Source: Java ``CreateTopicListRequestBody``, ``SubscriptionGroupConfig``, ``SubscriptionGroupList``,
``DeleteTopicListRequestBody``, ``DeleteSubscriptionGroupListRequestBody``.
"""

from __future__ import annotations

from typing import cast

from .bodies import BodyFormatError, json_items, json_object, load_json


def decode_config(body: bytes) -> dict[str, object]:
    """One configuration: a JSON object.

    Raises:
        BodyFormatError: It is none.
    """
    return json_object(load_json(body, "configuration"), "configuration")


def decode_configs(body: bytes, name: str) -> list[object]:
    """The list under a name.

    Raises:
        BodyFormatError: There is none, or it is empty.
    """
    items = json_items(decode_config(body).get(name), name)
    if not items:
        raise BodyFormatError(name, "a list with something in it", "none")
    return items


def decode_names(body: bytes, name: str) -> list[str]:
    """The list of names under a name.

    Raises:
        BodyFormatError: There is none, it is empty, or holds something else.
    """
    names = decode_configs(body, name)
    if not all(isinstance(one, str) for one in names):
        raise BodyFormatError(name, "texts", "something else")
    return cast("list[str]", names)


def decode_properties(body: bytes) -> dict[str, str]:
    """Java properties: ``key=value`` lines; later ones win, comments and empty lines are left out.

    Raises:
        BodyFormatError: A line without ``=``, or no UTF-8.
    """
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError as error:
        raise BodyFormatError("properties", "UTF-8", str(error.reason)) from None
    values: dict[str, str] = {}
    for line in lines:
        entry = line.strip()
        if not entry or entry.startswith(("#", "!")):
            continue
        key, equals, value = entry.partition("=")
        if not equals:
            raise BodyFormatError("properties", "key=value", ascii(entry))
        values[key.strip()] = value.strip()
    return values


def encode_properties(values: dict[str, str]) -> bytes:
    """Java properties: a line ``key=value`` for each; nothing is escaped."""
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
