"""Recall on the client's side: which broker a handle belongs to, and what its answer means.

A handle is URL-safe Base64 of ``v1 <topic> <broker> <timestamp> <UNIQ_KEY>``. Only the broker that
gave it out can cancel the message; whether the rest of it holds, the broker judges.

Source: Java ``RecallMessageHandle``, ``MQClientAPIImpl.recallMessage``.
"""

from __future__ import annotations

import base64
import binascii

from timermq.remoting import Command, ResponseCode

from .errors import BrokerRefusedError
from .message import Verdict

_VERDICTS = {
    "RECALL_TOO_LATE": Verdict.TOO_LATE,
    "RECALL_NOT_FOUND": Verdict.NOT_FOUND,
}
"""Rules of the broker's refusals that are answers, not errors."""


def broker_of(recall_handle: str) -> str | None:
    """The name of the broker that gave a handle out; None when the text is no handle."""
    items = _items(recall_handle)
    return None if items is None else items[2]


def message_id_of(recall_handle: str) -> str | None:
    """The unique key of the message; None when the text is no handle."""
    items = _items(recall_handle)
    return None if items is None else items[4]


def _items(recall_handle: str) -> list[str] | None:
    try:
        text = base64.b64decode(recall_handle.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        return None
    items = text.split(" ")
    return items if len(items) >= 5 and items[0] == "v1" else None


def verdict_of(answer: Command) -> Verdict:
    """The meaning of the broker's answer to a recall.

    Raises:
        BrokerRefusedError: Neither done nor in vain: the handle is none or for another topic, or
            the broker recalls nothing.
    """
    if answer.code == ResponseCode.SUCCESS:
        return Verdict.CANCELLED
    refusal = BrokerRefusedError(answer.code, answer.remark or "")
    verdict = _VERDICTS.get(refusal.rule)
    if verdict is None:
        raise refusal
    return verdict
