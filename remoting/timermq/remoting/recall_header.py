"""Headers that cancel a pending message: RocketMQ's recall (370), our cancel (9005).

Source: Java ``RecallMessageRequestHeader``.
"""

from __future__ import annotations

from .request_header import RequestHeader, integer, request_header, text


@request_header
class RecallHeader(RequestHeader):
    """The message of a handle (370). Java: ``RecallMessageRequestHeader``."""

    producer_group: str = text("producerGroup", default="")
    topic: str = text("topic")
    recall_handle: str = text("recallHandle", default="")


@request_header
class CancelHeader(RequestHeader):
    """A waiting message by one of its names, and the moment that it is to have (9005)."""

    topic: str = text("topic")
    recall_handle: str | None = text("recallHandle", default=None)
    unique_key: str | None = text("uniqueKey", default=None)
    key: str | None = text("key", default=None)
    deliver_ms: int | None = integer("deliverMs", default=None)
    """The new moment of the message, epoch milliseconds."""
    delay_ms: int | None = integer("delayMs", default=None)
