"""Settings of a store: RocketMQ's keys in Python spelling, with RocketMQ's defaults."""

import enum
import os

import attrs
from attrs.validators import and_, ge, le

from .delay_levels import parse_delay_levels
from .live_setting import LIVE

CONSUME_QUEUE_UNIT_SIZE = 20
"""Bytes of one consume queue unit; segment sizes are rounded up to a multiple."""

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

SEGMENT_SIZE_MIN = 128
"""Bytes; room for the smallest record and a blank."""


class FlushDiskType(enum.Enum):
    """When a send is answered."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    """When the message is in the page cache: a process kill loses nothing, a power cut half a
    second."""
    SYNC_FLUSH = "SYNC_FLUSH"
    """When the message is on the disk."""


def _physical_memory_size() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _round_up_to_unit(size: int) -> int:
    return -(-size // CONSUME_QUEUE_UNIT_SIZE) * CONSUME_QUEUE_UNIT_SIZE


def _check_delay_levels(_options: object, _attribute: "attrs.Attribute[str]", text: str) -> None:
    parse_delay_levels(text)


def _check_delete_when(_options: object, _attribute: "attrs.Attribute[str]", text: str) -> None:
    for hour in text.split(";"):
        if not (hour.strip().isdigit() and int(hour) < 24):
            raise ValueError(f"delete_when {text!r}: expected hours 0 to 23 divided by ';'")


_positive = ge(1)
_percentage = and_(ge(0), le(100))


@attrs.define(kw_only=True, on_setattr=attrs.setters.frozen)
class StoreOptions:
    """Settings of one store; sizes in bytes, times in milliseconds unless the name says otherwise.

    All that is not ``LIVE`` is frozen.

    Source: MessageStoreConfig. Keys that RocketMQ does not have stand at the end.
    """

    mapped_file_size_commit_log: int = attrs.field(default=1 << 30, validator=ge(SEGMENT_SIZE_MIN))
    mapped_file_size_consume_queue: int = attrs.field(
        default=6_000_000, validator=_positive, converter=_round_up_to_unit
    )
    max_message_size: int = attrs.field(default=4 << 20, validator=_positive)
    """Largest body."""
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_interval_commit_log_ms: int = attrs.field(default=500, validator=_positive)
    flush_interval_consume_queue_ms: int = attrs.field(default=1000, validator=_positive)
    sync_flush_timeout_ms: int = attrs.field(default=5000, validator=_positive)
    check_crc_on_recover: bool = True

    message_index_enable: bool = True
    max_hash_slot_num: int = attrs.field(default=5_000_000, validator=_positive)
    max_index_num: int = attrs.field(default=20_000_000, validator=ge(2))
    max_msgs_num_batch: int = attrs.field(default=64, validator=_positive)
    """Most messages of one query by key."""

    clean_resource_interval_ms: int = attrs.field(
        default=10_000, validator=_positive, on_setattr=LIVE
    )
    delete_when: str = attrs.field(default="04", validator=_check_delete_when, on_setattr=LIVE)
    """Hours of local time at which expired segments go, divided by ``;``."""
    file_reserved_time_hours: int = attrs.field(default=72, validator=ge(0), on_setattr=LIVE)
    delete_file_batch_max: int = attrs.field(default=10, validator=_positive, on_setattr=LIVE)
    """Most commit log segments removed in one round of cleaning."""
    disk_max_used_space_ratio: int = attrs.field(default=75, validator=_percentage, on_setattr=LIVE)
    """Percent of the disk above which expired segments go at any hour."""
    disk_space_clean_forcibly_ratio: int = attrs.field(
        default=85, validator=_percentage, on_setattr=LIVE
    )
    """Percent of the disk above which the oldest segments go whatever their age."""
    disk_space_warning_level_ratio: int = attrs.field(
        default=90, validator=_percentage, on_setattr=LIVE
    )
    """Percent of the disk above which sends are refused."""

    max_transfer_bytes_on_message_in_memory: int = attrs.field(
        default=262_144, validator=_positive, on_setattr=LIVE
    )
    max_transfer_count_on_message_in_memory: int = attrs.field(
        default=1024, validator=_positive, on_setattr=LIVE
    )
    """Messages of one pull; most clients ask for 32, and RocketMQ never gives more."""
    max_transfer_bytes_on_message_in_disk: int = attrs.field(
        default=65_536, validator=_positive, on_setattr=LIVE
    )
    max_transfer_count_on_message_in_disk: int = attrs.field(
        default=64, validator=_positive, on_setattr=LIVE
    )
    """The same for old messages, which have to be read from the disk. RocketMQ gives 8."""
    access_message_in_memory_max_ratio: int = attrs.field(default=40, validator=_percentage)
    """Percent of the machine's memory: records nearer to the log's end count as being in memory."""
    max_filter_message_size: int = attrs.field(default=16_000, validator=_positive, on_setattr=LIVE)
    """Least number of queue bytes that one read may examine."""

    message_delay_level: str = attrs.field(
        default=DEFAULT_DELAY_LEVELS, validator=_check_delay_levels
    )

    physical_memory_size: int = attrs.field(factory=_physical_memory_size, validator=_positive)
    """Memory of the machine."""
    unflushed_size_max: int = attrs.field(default=256 << 20, validator=_positive)
    """With SYNC_FLUSH: log bytes that may await their flush before sends are refused as busy."""
    index_flush_interval_ms: int = attrs.field(default=10_000, validator=_positive)
    """How long index entries may stay unsynced; what a power cut takes is indexed again."""
    scrub_bytes_per_second: int = attrs.field(default=4 << 20, validator=ge(0), on_setattr=LIVE)
    """Bytes at rest that are compared with their seals; 0: never."""
    scrub_interval_hours: int = attrs.field(default=168, validator=_positive, on_setattr=LIVE)
    """From the begin of one pass over the store to that of the next; one that takes longer is
    followed at once."""

    @property
    def is_sync_flush(self) -> bool:
        """Whether sends wait for the disk, and queues for the log's sync."""
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """The delays of the classic levels, level 1 first."""
        return parse_delay_levels(self.message_delay_level)

    @property
    def delete_hours(self) -> frozenset[int]:
        """The hours at which expired segments go."""
        return frozenset(int(hour) for hour in self.delete_when.split(";"))
