"""The receipt of a producer for a message that the broker has stored."""

from __future__ import annotations

import datetime

import attrs

from .moment import moment


@attrs.frozen(kw_only=True)
class SendReceipt:
    """The broker has stored the message."""

    message_id: str
    """The unique key: what users see and look messages up by."""
    offset_message_id: str
    """The broker's own id of it, made of its address and the position."""
    queue_id: int
    queue_offset: int
    """Of a delayed message: its place among those that wait."""
    deliver_ms: int | None
    """The moment it waits for, epoch milliseconds; None when it is not delayed or the broker does
    not say."""
    recall_handle: str | None
    """The handle that ``cancel`` takes; None when the broker gave none."""
    is_durable: bool = True
    """False: it is stored, but not in time on the disk (FLUSH_DISK_TIMEOUT), or on as many
    followers as the broker is to wait for (SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT). It may be
    lost with the broker's machine; sent again, it may come twice."""

    @property
    def deliver_at(self) -> datetime.datetime | None:
        """The moment as a datetime in UTC."""
        return None if self.deliver_ms is None else moment(self.deliver_ms)
