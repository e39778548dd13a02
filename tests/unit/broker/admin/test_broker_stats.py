"""Tests of what is counted by topic and group: the answers to 315."""

from __future__ import annotations

import errno
import json
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from broker_rig import PROPERTIES, ROOT, Rig, pull_ext, running_broker, send_ext
from timermq.broker.admin.broker_stats import STATISTICS
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.batch import BatchPart, join_batch

CLUSTER = "DefaultCluster"
"""What the statistics of the whole broker are asked for."""


@attrs.define(eq=False)
class Counting:
    """A broker whose statistics are read every ten seconds."""

    rig: Rig = attrs.Factory(Rig)

    async def go_on(self, seconds: float = 10) -> None:
        """Let time pass, with a reading at each moment."""
        stats = self.rig.broker.tables.stats
        await stats.sample()
        for _ in range(int(seconds / 10)):
            await trio.sleep(10)
            await stats.sample()

    def ask(self, name: str, key: str) -> dict[str, Any]:
        """The answer about one statistic."""
        answer = self.rig.call(315, {"statsName": name, "statsKey": key})
        assert answer.code == 0, answer
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def minute(self, name: str, key: str) -> tuple[int, float, float]:
        """Sum, growth a second and growth a call of the last minute."""
        found = self.ask(name, key)["statsMinute"]
        return found["sum"], found["tps"], found["avgpt"]


@pytest.fixture
def counting() -> Counting:
    """With nothing counted; the test itself stages the clock."""
    return Counting()


async def test_topics(autojump_clock: trio.testing.MockClock, counting: Counting) -> None:
    """Messages and the bytes of their records; for the hour and the day at their moments."""
    rig = counting.rig
    await counting.go_on()
    for _ in range(3):
        rig.send("T")
    await counting.go_on()
    size = rig.broker.store.statistics().put_size

    assert counting.minute("TOPIC_PUT_NUMS", "T") == (3, 0.3, 1.0)
    assert counting.minute("TOPIC_PUT_SIZE", "T") == (size, size / 10, size / 3)
    assert counting.ask("TOPIC_PUT_NUMS", "T") == {
        "statsMinute": {"avgpt": 1.0, "sum": 3, "tps": 0.3},
        "statsHour": {"avgpt": 0.0, "sum": 0, "tps": 0.0},
        "statsDay": {"avgpt": 0.0, "sum": 0, "tps": 0.0},
    }
    await counting.go_on(3_600)
    assert counting.ask("TOPIC_PUT_NUMS", "T")["statsDay"] == {
        "avgpt": 1.0,
        "sum": 3,
        "tps": 3 / 3_600,
    }


async def test_a_delayed_message_counts_twice(
    autojump_clock: trio.testing.MockClock, counting: Counting
) -> None:
    """Of the topic of timers when it comes, of its own when it is delivered, as in RocketMQ."""
    rig = counting.rig
    rig.send("T", properties=f"{PROPERTIES}TIMER_DELAY_MS\x015000\x02")
    await counting.go_on()

    assert counting.minute("TOPIC_PUT_NUMS", "rmq_sys_wheel_timer")[0] == 1
    assert counting.minute("BROKER_PUT_NUMS", CLUSTER)[0] == 1
    name = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
    assert rig.call(315, {"statsName": name, "statsKey": CLUSTER}).code == 1


async def test_a_batch_is_one_put(
    autojump_clock: trio.testing.MockClock, counting: Counting
) -> None:
    """Its messages count, and the growth a call says how many come together."""
    rig = counting.rig
    body = join_batch([BatchPart(0, b"hello", b"")] * 4)
    assert rig.call(10, send_ext("T", batch="1"), body).code == 0
    rig.send("T")
    await counting.go_on()

    assert counting.minute("TOPIC_PUT_NUMS", "T") == (5, 0.5, 2.5)


async def test_groups(autojump_clock: trio.testing.MockClock, counting: Counting) -> None:
    """Messages and bytes that they were given; pulls that gave nothing are no calls."""
    rig = counting.rig
    for _ in range(4):
        rig.send("T")
    for offset in (0, 2, 4):
        rig.call(11, pull_ext("T", queueOffset=str(offset), maxMsgNums="2"))
    await counting.go_on()
    size = rig.broker.store.statistics().put_size

    assert counting.minute("GROUP_GET_NUMS", "T@G") == (4, 0.4, 2.0)
    assert counting.minute("GROUP_GET_SIZE", "T@G") == (size, size / 10, size / 2)
    assert counting.minute("BROKER_GET_NUMS", CLUSTER) == (4, 0.4, 0.0)
    assert counting.minute("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER) == (4, 0.4, 0.0)


async def test_messages_that_are_sent_back(
    autojump_clock: trio.testing.MockClock, counting: Counting
) -> None:
    """By the topic that they were sent to first; RocketMQ counts no put then, for the broker."""
    rig = counting.rig
    rig.send("T")
    (record,) = rig.records("T")
    back = {
        "offset": str(record.phy_offset),
        "group": "G",
        "delayLevel": "1",
        "originTopic": "T",
        "originMsgId": "",
        "unitMode": "false",
        "maxReconsumeTimes": "16",
    }
    for level in ("1", "-1"):
        assert rig.call(36, {**back, "delayLevel": level}).code == 0
    await counting.go_on()

    assert counting.minute("SNDBCK_PUT_NUMS", "T@G") == (2, 0.2, 1.0)
    assert counting.minute("BROKER_PUT_NUMS", CLUSTER) == (1, 0.1, 0.0)
    assert counting.minute("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER) == (1, 0.1, 0.0)
    assert counting.minute("TOPIC_PUT_NUMS", "%DLQ%G")[0] == 1


async def test_a_disk_that_does_not_read(autojump_clock: trio.testing.MockClock) -> None:
    """The broker serves on, and nothing is left out when the disk reads again."""
    rule = FaultRule(
        operations=[Operation.READ], name="consumequeue/T", fault=Fault(errno.EIO), count=None
    )
    rules = FaultRules(rule)
    counting = Counting(Rig(disk=FaultyDisk(MemoryDisk(), ROOT, rules)))
    counting.rig.send("T")
    with capture_logs() as logs:
        await counting.go_on(20)
    rules.heal()
    counting.rig.send("T")
    await counting.go_on()

    assert rules.struck
    assert {log["event"] for log in logs} == {"statistics not read"}
    assert counting.minute("TOPIC_PUT_NUMS", "T")[0] == 2


@pytest.mark.parametrize("key", ["none", "T"])
@pytest.mark.parametrize("name", [*STATISTICS, "COLOUR"])
async def test_what_has_counted_nothing(
    autojump_clock: trio.testing.MockClock, counting: Counting, name: str, key: str
) -> None:
    """Java's code and words: the tools go on to the next one."""
    answer = counting.rig.call(315, {"statsName": name, "statsKey": key})

    assert answer.code == 1
    assert f"The stats <{name}> <{key}> not exist" in (answer.remark or "")


async def test_a_topic_that_is_made_again(autojump_clock: trio.testing.MockClock) -> None:
    """It counts from 0, and so do its groups; the sums of the broker never fall."""
    async with running_broker() as running:
        peer = running.connect()

        async def fill(count: int) -> None:
            for _ in range(count):
                await peer.call(10, send_ext("T"), b"hello")
            await peer.call(11, pull_ext("T"))
            await trio.sleep(20)

        async def total(name: str, key: str) -> int:
            answer = await peer.call(315, {"statsName": name, "statsKey": key})
            return int(json.loads(answer.body)["statsMinute"]["sum"])

        await fill(5)
        await peer.call(215, {"topic": "T"})
        await fill(2)

        assert await total("TOPIC_PUT_NUMS", "T") == 2
        assert await total("GROUP_GET_NUMS", "T@G") == 2
        assert await total("BROKER_PUT_NUMS", CLUSTER) == 7
        await peer.call(207, {"groupName": "G"})
        assert (await peer.call(315, {"statsName": "GROUP_GET_NUMS", "statsKey": "T@G"})).code == 1
