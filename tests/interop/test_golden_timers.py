"""Timer log, wheel and timer checkpoint of RocketMQ's own stores; nothing changes by reading."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from golden_stores import NAMES, GoldenStores, Slot, Unit
from interop.golden_opened import TIMER_OPTIONS, Opened, file_bytes
from timermq.timerlog import UNIT, TimerCheckpoint
from timermq.timerlog.timer_checkpoint import CHECKPOINT
from timermq.timerstore.java_hash import java_hash
from timermq.wheel import SLOT

pytestmark = pytest.mark.slow


def test_timer_checkpoint(opened: Opened) -> None:
    """The timer checkpoint has Java's seven numbers and is written alike."""
    expected = opened.golden.manifest.state.timer.timercheck
    page = file_bytes(opened, "config/timercheck")
    checkpoint = TimerCheckpoint.decode(page)

    assert (
        expected.last_read_time_ms,
        expected.last_timer_log_flush_pos,
        expected.last_timer_queue_offset,
        expected.master_timer_queue_offset,
        expected.state_version,
        expected.timestamp,
        expected.counter,
    ) == tuple(getattr(checkpoint, name) for name in CHECKPOINT.names)
    assert checkpoint.extension is None
    assert page == checkpoint.encode()


def test_timer_log(opened: Opened) -> None:
    """Every unit of the timer log, over segments and blanks; packed again it is the same."""
    timer_log = opened.timer_files.timer_log
    found: list[Unit] = []
    for positions, units in timer_log.scan(timer_log.min_pos):
        for pos, unit in zip(positions.tolist(), units, strict=True):
            size, prev_pos, magic, write_ms, delay_ms, offset_py, size_py, topic_hash, zero = cast(
                "tuple[int, ...]", unit.item()
            )
            found.append(
                Unit(
                    position=pos,
                    prev_pos=prev_pos,
                    magic=magic,
                    write_time_ms=write_ms,
                    delay_ms=delay_ms,
                    phy_offset=offset_py,
                    message_size=size_py,
                    topic_hash=topic_hash,
                )
            )

            assert (UNIT.size, 0) == (size, zero)
            assert UNIT.pack(*unit.item()) == stored_unit(opened, pos)

    assert opened.golden.manifest.state.timer.units == found


def stored_unit(opened: Opened, pos: int) -> bytes:
    """The bytes of a unit in its file."""
    size = TIMER_OPTIONS.mapped_file_size_timer_log
    data = file_bytes(opened, f"timerlog/{pos // size * size:020}")
    return data[pos % size : pos % size + UNIT.size]


def test_wheel_file(opened: Opened) -> None:
    """The slots of the file are those that Java finds there, at the index of their time."""
    slots = np.frombuffer(file_bytes(opened, "timerwheel"), SLOT.dtype)
    used = np.flatnonzero(slots["time"])
    found = [
        Slot(time_ms=time * 1000, first_pos=first_pos, last_pos=last_pos, num=num)
        for time, first_pos, last_pos, num, _ in slots[used].tolist()
    ]

    assert opened.golden.manifest.state.timer.slots_on_disk == found
    assert (slots["time"][used] % len(slots) == used).all()


def test_chains(opened: Opened) -> None:
    """After recovery the live slots and their chains are Java's.

    Of a killed broker's slots Java's `num` is stale, so it is compared only where all was clean.
    """
    timer_log, wheel = opened.timer_files.timer_log, opened.timer_files.wheel
    expected = opened.golden.manifest.state.timer.slots_recovered
    live = wheel.live(opened.read_ms)
    found = [
        Slot(
            time_ms=time_ms,
            first_pos=first_pos,
            last_pos=last_pos,
            num=num,
            chain=[
                pos
                for chunk in timer_log.walk(last_pos, slot_ms=time_ms)
                for pos in chunk.pos.tolist()
            ],
        )
        for time_ms, first_pos, last_pos, num in live[
            ["time_ms", "first_pos", "last_pos", "num"]
        ].tolist()
    ]
    if not opened.golden.manifest.clean_shutdown:
        for slot in (*expected, *found):
            slot.num = 0

    assert expected == found


def test_topic_hashes(opened: Opened) -> None:
    """A timer-log unit holds the hash of the topic that its message is for."""
    topics = {java_hash(topic) for topic in {one.topic for one in opened.golden.manifest.messages}}

    assert {unit.topic_hash for unit in opened.golden.manifest.state.timer.units} <= topics


@pytest.mark.parametrize("name", NAMES)
def test_reading_changes_nothing(golden_stores: GoldenStores, name: str) -> None:
    """After all that reading every file has the size and digest of the archive."""
    golden = golden_stores[name]
    root = Path(golden.root).parent
    found = {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }

    assert {one.path: one.sha256 for one in golden.manifest.archive.files} == found
