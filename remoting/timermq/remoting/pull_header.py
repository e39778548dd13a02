"""The header of a pull (11, 361).

Source: Java ``PullMessageRequestHeader``, ``PullSysFlag``.
"""

from __future__ import annotations

import enum

from .request_header import RequestHeader, integer, request_header, text


class PullFlag(enum.IntFlag):
    """The wishes of a pull besides messages; the bits of ``sysFlag``."""

    COMMIT_OFFSET = 1
    """Commit ``commitOffset`` first."""
    SUSPEND = 2
    """Hold the pull while there is nothing to give."""
    SUBSCRIPTION = 4
    """Take the filter that the pull states, not that of the group's heartbeats."""


@request_header
class PullHeader(RequestHeader):
    """The header of a pull; the parameters of Java's ``PullMessageRequestHeader``."""

    consumer_group: str = text("consumerGroup")
    topic: str = text("topic")
    queue_id: int = integer("queueId")
    queue_offset: int = integer("queueOffset")
    max_msg_nums: int = integer("maxMsgNums", default=1)
    sys_flag: int = integer("sysFlag", default=0)
    """Bits of ``PullFlag``."""
    commit_offset: int = integer("commitOffset", default=-1)
    suspend_timeout_ms: int | None = integer("suspendTimeoutMillis", default=None)
    """How long the client waits; None: as long as the broker holds pulls."""
    subscription: str = text("subscription", default="")
    sub_version: int = integer("subVersion", default=0)
    expression_type: str = text("expressionType", default="TAG")
