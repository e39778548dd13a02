"""The answer to reading a queue: RocketMQ's GetMessageStatus and the records found."""

import enum

import attrs


class GetStatus(enum.IntEnum):
    """Why a read found something or not; the ordinals are RocketMQ's.

    Source: GetMessageStatus.
    """

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    """Units were read, but the filter passed none of them."""
    MESSAGE_WAS_REMOVING = 2
    """The units' records are gone from the commit log."""
    OFFSET_FOUND_NULL = 3
    """The queue says that it holds the offset, but no unit could be read."""
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    """The offset is the next one to be stored: nothing new."""
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8
    OFFSET_RESET = 9


@attrs.frozen(kw_only=True)
class GetResult:
    """The result of a read of a queue."""

    status: GetStatus
    next_offset: int
    """The offset of the next read."""
    min_offset: int
    max_offset: int
    records: tuple[bytes, ...] = ()
    """Records in queue order; neighbours in the commit log are one item that holds them all."""
    count: int = 0
    """Number of records in all items."""

    @property
    def size(self) -> int:
        """Number of bytes of all records."""
        return sum(map(len, self.records))


NO_QUEUE = GetResult(
    status=GetStatus.NO_MATCHED_LOGIC_QUEUE, next_offset=0, min_offset=0, max_offset=0
)
"""Nothing was ever stored under that topic and queue."""
