"""Headers about offsets: what a group committed, where queues begin and end, and resets.

Source: Java ``QueryConsumerOffsetRequestHeader``, ``SearchOffsetRequestHeader`` and others, named
at each class.
"""

from __future__ import annotations

from .request_header import RequestHeader, boolean, integer, request_header, text


@request_header
class QueueHeader(RequestHeader):
    """A queue, for its end (30), its beginning (31) and its oldest message (32).

    Java: ``GetMaxOffsetRequestHeader``, ``GetMinOffsetRequestHeader``,
    ``GetEarliestMsgStoretimeRequestHeader``.
    """

    topic: str = text("topic")
    queue_id: int = integer("queueId")


@request_header
class QueryOffsetHeader(RequestHeader):
    """The next offset of a group (14). Java: ``QueryConsumerOffsetRequestHeader``."""

    consumer_group: str = text("consumerGroup")
    topic: str = text("topic")
    queue_id: int = integer("queueId")
    set_zero_if_not_found: bool = boolean("setZeroIfNotFound", default=True)


@request_header
class CommitOffsetHeader(RequestHeader):
    """The new offset of a group (15). Java: ``UpdateConsumerOffsetRequestHeader``."""

    consumer_group: str = text("consumerGroup")
    topic: str = text("topic")
    queue_id: int = integer("queueId")
    commit_offset: int = integer("commitOffset")


@request_header
class SearchOffsetHeader(RequestHeader):
    """The message of a moment (29). Java: ``SearchOffsetRequestHeader``."""

    topic: str = text("topic")
    queue_id: int = integer("queueId")
    timestamp_ms: int = integer("timestamp")
    boundary_type: str = text("boundaryType", default="LOWER")
    """Of messages stored in one millisecond: LOWER the first, UPPER the last; in any case."""


@request_header
class ResetOffsetHeader(RequestHeader):
    """The offset that an operator sets for a group (222). Java: ``ResetOffsetRequestHeader``."""

    group: str = text("group")
    topic: str = text("topic")
    queue_id: int = integer("queueId", default=-1)
    """-1: all queues."""
    offset: int = integer("offset", default=-1)
    """-1: by time."""
    timestamp_ms: int = integer("timestamp", default=-1)
    """Negative: the end."""
    is_force: bool = boolean("isForce", default=False)


@request_header
class CloneOffsetHeader(RequestHeader):
    """The group that another goes on after (314). Java: ``CloneGroupOffsetRequestHeader``."""

    src_group: str = text("srcGroup")
    dest_group: str = text("destGroup")
    topic: str = text("topic", default="")
    """Empty: all topics."""
