"""RocketMQ's own stores, opened read only.

What is read in one is also written again: each record, queue unit, timer-log unit, slot, checkpoint
and table comes out as the bytes that RocketMQ wrote.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from golden_stores import GoldenStore
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import StoreOptions

STORE_OPTIONS = StoreOptions(
    mapped_file_size_commit_log=1_048_576,
    mapped_file_size_consume_queue=1_000,
    max_hash_slot_num=100,
    max_index_num=400,
)

TIMER_OPTIONS = TimerOptions(mapped_file_size_timer_log=5_200)

AFTERWARDS_MS = 1_800_000_000_000
"""A moment after all that happened to the stores."""


@attrs.frozen
class Opened:
    """A golden store and what this program sees of it."""

    golden: GoldenStore
    store: MessageStore
    timer_files: TimerFiles
    read_ms: int


def file_bytes(opened: Opened, path: str) -> bytes:
    """A whole file of the store."""
    return (Path(opened.golden.root) / path).read_bytes()
