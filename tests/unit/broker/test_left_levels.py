"""Messages of classic levels that a Java broker left: counted, and told to whoever serves them."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import ROOT, open_broker, running_broker
from fakes import VirtualClock
from timermq.broker.left_levels import FILE, count_left
from timermq.timerstore.config_file import save_json_now
from timermq.timerstore.memory_disk import MemoryDisk
from timermq.timerstore.message import Message

TOPIC = "SCHEDULE_TOPIC_XXXX"


def left_store(offsets: str | None) -> MemoryDisk:
    """Three messages of level 1, two of level 4, one of a topic; and how far levels were."""
    disk = MemoryDisk()
    broker = open_broker(VirtualClock(), disk=disk)
    broker.store.put([Message(TOPIC, 0, b"x")] * 3)
    broker.store.put([Message(TOPIC, 3, b"x")] * 2)
    broker.store.put([Message("T", 0, b"x")])
    disk.process_kill()
    if offsets is not None:
        save_json_now(disk, f"{ROOT}/{FILE}", offsets)
    return disk


@pytest.mark.parametrize(
    ("offsets", "left"),
    [
        (None, 5),
        ('{"offsetTable":{1:3,4:2}}', 0),
        ('{"offsetTable":{1:2,4:0}}', 3),
        ('{"offsetTable":{"1":2}}', 3),
        ('{"offsetTable":{1:9,4:2}}', 0),
        ('{"offsetTable":{"x":1}}', 5),
        ('{"offsetTable":{1:true}}', 5),
        ('{"offsetTable":{"%s":1}}' % ("9" * 5000), 5),
        ('{"offsetTable":', 5),
        ("[]", 5),
    ],
)
async def test_count(offsets: str | None, left: int) -> None:
    """What lies behind the offsets was delivered; a file that cannot be read has no offsets."""
    broker = open_broker(VirtualClock(), disk=left_store(offsets))

    assert left == count_left(broker.store)


@pytest.mark.parametrize(
    ("offsets", "waiting"), [(None, [5]), ('{"offsetTable":{1:3,4:2}}', [])], ids=["left", "none"]
)
async def test_warning(autojump_clock: MockClock, offsets: str | None, waiting: list[int]) -> None:
    """Whoever serves such a store is told how many wait, and only then."""
    with capture_logs() as logs:
        async with running_broker(disk=left_store(offsets)):
            pass

    assert waiting == [one["waiting"] for one in logs if one.get("topic") == TOPIC]
