"""Headers of lookups: messages by key and by place, units of queues, counts.

Source: Java ``QueryMessageRequestHeader`` and others, named at each class.
"""

from __future__ import annotations

from .request_header import RequestHeader, boolean, integer, request_header, text


@request_header
class QueryMessageHeader(RequestHeader):
    """Messages by key (12).

    Java: ``QueryMessageRequestHeader``, ``MixAll.UNIQUE_MSG_QUERY_FLAG``.
    """

    topic: str = text("topic")
    key: str = text("key")
    max_num: int = integer("maxNum")
    begin_ms: int = integer("beginTimestamp")
    end_ms: int = integer("endTimestamp")
    is_unique_key: bool = boolean("_UNIQUE_KEY_QUERY", default=False)
    """The key is a unique key; ``maxNum`` does not count then."""


@request_header
class ViewMessageHeader(RequestHeader):
    """A message by its place (33). Java: ``ViewMessageRequestHeader``."""

    offset: int = integer("offset")
    """Position of the message in the commit log."""


@request_header
class ConsumeQueueHeader(RequestHeader):
    """Units of a queue (321). Java: ``QueryConsumeQueueRequestHeader``."""

    topic: str = text("topic")
    queue_id: int = integer("queueId")
    index: int = integer("index")
    """Place of the first unit in the queue."""
    count: int = integer("count")


@request_header
class StatsHeader(RequestHeader):
    """Counts of one kind (315). Java: ``ViewBrokerStatsDataRequestHeader``."""

    stats_name: str = text("statsName")
    stats_key: str = text("statsKey")
    """A topic, or a topic and a group with ``@`` between."""


@request_header
class ReadAheadHeader(RequestHeader):
    """How the commit log is read (2004). Java: ``FIleReadaheadMode``."""

    mode: str = text("READ_AHEAD_MODE")
    """``0``: the kernel reads ahead; ``1``: it does not."""


@request_header
class HalfMessageHeader(RequestHeader):
    """A half message that is to be checked again (323).

    Java: ``ResumeCheckHalfMessageRequestHeader``.
    """

    message_id: str = text("msgId")
    """The offset message id: address of the broker, and position."""
