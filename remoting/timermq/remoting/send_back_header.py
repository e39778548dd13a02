"""The header of a send-back (36).

Source: Java ``ConsumerSendMsgBackRequestHeader``.
"""

from __future__ import annotations

from .request_header import RequestHeader, boolean, integer, request_header, text


@request_header
class SendBackHeader(RequestHeader):
    """The message that a consumer gives back. Java: ``ConsumerSendMsgBackRequestHeader``."""

    group: str = text("group")
    offset: int = integer("offset")
    """Position of the message in the commit log."""
    delay_level: int = integer("delayLevel", default=0)
    """0: the broker counts the tries. Negative: no further one."""
    origin_message_id: str | None = text("originMsgId", default=None)
    origin_topic: str | None = text("originTopic", default=None)
    unit_mode: bool = boolean("unitMode", default=False)
    max_reconsume_times: int | None = integer("maxReconsumeTimes", default=None)
    """None: as the group is configured."""
