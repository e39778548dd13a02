"""Tests of the settings of a store: defaults, sizes, hours and levels."""

from __future__ import annotations

import pytest

from timermq.timerstore.store_options import FlushDiskType, StoreOptions


def test_defaults_are_those_of_rocketmq() -> None:
    """A store made without settings is one that RocketMQ opens without settings."""
    options = StoreOptions()

    assert (1 << 30, 6_000_000, 4 << 20, 72, frozenset({4})) == (
        options.mapped_file_size_commit_log,
        options.mapped_file_size_consume_queue,
        options.max_message_size,
        options.file_reserved_time_hours,
        options.delete_hours,
    )
    assert not options.is_sync_flush
    assert options.physical_memory_size > 0


@pytest.mark.parametrize(("wanted", "size"), [(10, 20), (20, 20), (128, 140)])
def test_queue_files_hold_whole_units(wanted: int, size: int) -> None:
    """Sizes are rounded up, as RocketMQ does."""
    assert (
        size == StoreOptions(mapped_file_size_consume_queue=wanted).mapped_file_size_consume_queue
    )


def test_hours_are_divided_by_semicolons() -> None:
    """Several hours of cleaning may be given."""
    assert StoreOptions(delete_when="4; 16").delete_hours == {4, 16}


@pytest.mark.parametrize("text", ["24", "", "a", "4;;5"])
def test_an_hour_that_is_none_is_refused(text: str) -> None:
    """Hours are 0 to 23."""
    with pytest.raises(ValueError, match="expected hours 0 to 23 divided by ';'"):
        StoreOptions(delete_when=text)


def test_a_level_table_is_checked() -> None:
    """A wrong table is found when the settings are made, not when a message is delayed."""
    with pytest.raises(ValueError, match="delay level '5': expected a whole number"):
        StoreOptions(message_delay_level="1s 5")


def test_sync_flush() -> None:
    """The setting by its name."""
    assert StoreOptions(flush_disk_type=FlushDiskType("SYNC_FLUSH")).is_sync_flush
