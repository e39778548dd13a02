"""A store that a killed RocketMQ 4.9 left is served on: it has no wheel, and old level offsets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from fakes import VirtualClock
from golden_stores import GOLDEN, GoldenStores
from interop.test_served_on import FILES, JAVAS_TIMERS, loaded_from
from simulation.staged_service import ROOT, arrivals, arrivals_everywhere, running
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.pipeline.delay_level import DelayLevels
from timermq.timerstore.config_file import load_json
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.os_disk import OsDisk

pytestmark = pytest.mark.slow


class Sent(msgspec.Struct, rename="camel"):
    """A message as its producer saw it."""

    body: str
    level: int


class Manifest(msgspec.Struct, rename="camel"):
    """What the producer and the consumer saw."""

    times: Mapping[str, int]
    settings: Mapping[str, str]
    topic: str
    group: str
    committed: list[Mapping[str, int]]
    messages: list[Sent]


MANIFEST = msgspec.json.decode((GOLDEN / "g6.manifest.json").read_bytes(), type=Manifest)
NOT_VISIBLE = {"open"}
"""The half message that nobody has ended."""


@pytest.mark.parametrize("outage_ms", [0, 4 * 3_600_000], ids=["at once", "after four hours"])
async def test_each_message_once(
    autojump_clock: trio.testing.MockClock,
    golden_stores: GoldenStores,
    tmp_path: Path,
    outage_ms: int,
) -> None:
    """Of each level at store time and delay; what was delivered before the kill does not return."""
    clock = VirtualClock(MANIFEST.times["stopSignalMs"] + outage_ms)
    start_ms = clock.now_ms()
    disk = loaded_from(golden_stores.unpack_copy("g6", tmp_path), clock)
    assert not disk.exists(f"{ROOT}/timerwheel")
    before = DelayOffsets.load(disk, ROOT)
    async with running(disk, clock, store_options=FILES, timer_options=JAVAS_TIMERS) as service:
        await trio.sleep(3 * 3_600)
        found = arrivals(service.store, MANIFEST.topic)
        waited = {
            one.body: one.stored_ms
            for one in arrivals_everywhere(service.store)
            if one.topic == SCHEDULE_TOPIC
        }
        statistics = service.statistics()
    levels = DelayLevels.parse(MANIFEST.settings["messageDelayLevel"])
    due_ms = {
        one.body: waited[one.body] + levels.delay_ms(one.level)
        for one in MANIFEST.messages
        if one.level
    }
    late = {
        one.body: one.stored_ms
        for one in found
        if one.body in due_ms
        and one.stored_ms >= start_ms
        and one.stored_ms != max(due_ms[one.body], start_ms)
    }

    assert {1: 3, 2: 3, 3: 3} == (None if before is None else before.offsets)
    assert sorted({one.body for one in MANIFEST.messages} - NOT_VISIBLE) == sorted(
        one.body for one in found
    )
    assert {} == late
    assert all(one.stored_ms >= due_ms.get(one.body, 0) for one in found)
    assert (0, 0, 0) == (statistics.early, statistics.quarantined, statistics.levels_left)
    after = DelayOffsets.load(disk, ROOT)
    assert dict.fromkeys(range(1, 19), 3) | dict.fromkeys(range(1, 5), 4) == (
        None if after is None else after.offsets
    )


def test_consumer_offsets(golden_stores: GoldenStores, tmp_path: Path) -> None:
    """The group goes on where it was."""
    store = golden_stores.unpack_copy("g6", tmp_path)
    table = ConsumerOffsetTable(now_ms=lambda: 0, version_step=1)
    table.load(load_json(OsDisk(), f"{store}/{table.path}"))

    assert {one["queueId"]: one["offset"] for one in MANIFEST.committed} == table.offsets(
        group=MANIFEST.group, topic=MANIFEST.topic
    )
