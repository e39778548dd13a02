"""Attributes of a topic as an operator changes them: ``+message.type=DELAY,-reserve.time``.

Source: Java ``AttributeParser``, ``AttributeUtil``, ``TopicAttributes``.
"""

from __future__ import annotations

from collections.abc import Mapping

from timermq.remoting.codes import ResponseCode
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX

from ..refusal import RefusedError

ATTRIBUTES: Mapping[str, frozenset[str] | None] = {
    "message.type": frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}),
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
    "reserve.time": None,
}
"""Attribute to its values here; None: a number. RocketMQ's BatchCQ and COMPACTION are other kinds
of queues."""


def alter_attributes(current: Mapping[str, str], changes: str) -> dict[str, str]:
    """The attributes after some changes.

    Args:
        current: As they are.
        changes: ``+name=value`` and ``-name``, divided by commas.

    Raises:
        RefusedError: An unknown attribute or value, or another form (29).
    """
    altered = dict(current)
    for change in filter(None, (one.strip() for one in changes.split(","))):
        sign, (name, equals, value) = change[0], change[1:].partition("=")
        if name not in ATTRIBUTES or sign not in "+-" or (sign == "+") is not bool(equals):
            raise _refused(
                f"expected +NAME=VALUE or -NAME of {', '.join(ATTRIBUTES)}, found "
                f"{ascii(change)[:130]}"
            )
        if sign == "-":
            altered.pop(name, None)
            continue
        values = ATTRIBUTES[name]
        if value not in values if values is not None else not _is_number(value):
            expected = "a number" if values is None else " or ".join(sorted(values))
            raise _refused(f"{name}: expected {expected}, found {ascii(value)[:130]}")
        altered[name] = value
    return altered


def _is_number(value: str) -> bool:
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX


def _refused(reason: str) -> RefusedError:
    return RefusedError(ResponseCode.INVALID_PARAMETER, "TOPIC_ATTRIBUTES", reason)
