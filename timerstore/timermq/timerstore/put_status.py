"""The result of a put message: RocketMQ's PutMessageStatus and the result around it."""

import enum

import msgspec


class PutStatus(enum.IntEnum):
    """Why a put succeeded or not; the ordinals are RocketMQ's.

    Source: PutMessageStatus.
    """

    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1
    FLUSH_SLAVE_TIMEOUT = 2
    SLAVE_NOT_AVAILABLE = 3
    SERVICE_NOT_AVAILABLE = 4
    CREATE_MAPPED_FILE_FAILED = 5
    MESSAGE_ILLEGAL = 6
    PROPERTIES_SIZE_EXCEEDED = 7
    OS_PAGE_CACHE_BUSY = 8
    UNKNOWN_ERROR = 9
    IN_SYNC_REPLICAS_NOT_ENOUGH = 10
    PUT_TO_REMOTE_BROKER_FAIL = 11
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = 12
    WHEEL_TIMER_FLOW_CONTROL = 13
    WHEEL_TIMER_MSG_ILLEGAL = 14
    WHEEL_TIMER_NOT_ENABLE = 15

    @property
    def is_stored(self) -> bool:
        """Whether the message is in the log, possibly not yet durable or replicated."""
        return self <= PutStatus.SLAVE_NOT_AVAILABLE


# A structure of msgspec's for the reason given at `Message`.
class PutResult(msgspec.Struct, frozen=True, gc=False):
    """The result of one message; positions are -1 when it was refused."""

    status: PutStatus
    phy_offset: int = -1
    """Position of the record in the commit log."""
    size: int = 0
    """Size of the record in bytes."""
    queue_offset: int = -1
    """Ordinal in its queue; 0 for half messages and their rollbacks, which no queue holds."""
    store_ms: int = -1
    remark: str | None = None
    """Why it was refused."""

    @property
    def end(self) -> int:
        """End of the record: the position to wait for before calling it durable."""
        return self.phy_offset + self.size
